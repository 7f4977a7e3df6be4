/* activation.c - fuses an activation into the convolution or product before it, which applies it
 * before writing its result. */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

typedef struct activation_post {
    const char *names[2];
    double alpha[2], beta[2];
    uint32_t count;
} activation_post;

/* Reads one bound of a Clip; returns false if it is unknown. */
static bool activation_bound(const tn__draft *draft, tn_op_id id, uint32_t index, const char *name,
                             double *bound) {
    *bound = tn__attr_float(tn__draft_op_of(draft, id), name, *bound);
    tn_tensor_id input = tn__draft_input(draft, id, index);
    return input == TN_NONE || tn__draft_number(draft, input, bound);
}

/* Reads an activation that has at most one parameter. */
static bool activation_read_simple(const tn_op *op, activation_post *post) {
    static const struct {
        const char *type;
        double alpha; /* default of the parameter, if the attribute is absent */
    } simple[] = {{"Relu", 0}, {"Sigmoid", 0}, {"Tanh", 0},         {"HardSwish", 0},
                  {"Mish", 0}, {"Elu", 1},     {"LeakyRelu", 0.01}, {"tenure.Swish", 1}};
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (!tn__op_is(op, simple[i].type)) continue;
        post->names[0] = op->type;
        post->alpha[0] = simple[i].alpha != 0 ? tn__attr_float(op, "alpha", simple[i].alpha) : 0;
        return true;
    }
    return false;
}

static bool activation_read(const tn__draft *draft, tn_op_id id, activation_post *post) {
    const tn_op *op = tn__draft_op_of(draft, id);
    *post = (activation_post){.count = 1};
    if (activation_read_simple(op, post)) return true;
    if (tn__draft_is(draft, id, "Gelu")) {
        bool tanh = strcmp(tn__attr_string(op, "approximate", "none"), "tanh") == 0;
        return post->names[0] = tanh ? "GeluTanh" : "Gelu", true;
    }
    if (tn__draft_is(draft, id, "HardSigmoid")) {
        *post = (activation_post){.names = {"Linear", "Clip"}, .beta = {0, 1}, .count = 2};
        post->alpha[0] = tn__attr_float(op, "alpha", 0.2);
        post->beta[0] = tn__attr_float(op, "beta", 0.5);
        return true;
    }
    if (!tn__draft_is(draft, id, "Clip")) return false;
    post->names[0] = "Clip";
    post->alpha[0] = -3.4028234663852886e38;
    post->beta[0] = 3.4028234663852886e38;
    return activation_bound(draft, id, 1, "min", &post->alpha[0]) &&
           activation_bound(draft, id, 2, "max", &post->beta[0]) && post->alpha[0] <= post->beta[0];
}

static tn_status activation_each(tn__draft *draft, tn_op_id id) {
    activation_post post;
    bool done;
    uint32_t count;
    if (!activation_read(draft, id, &post)) return TN_OK;
    tn_op_id product = tn__draft_only(draft, id, 0, NULL);
    if (product == TN_NONE || !tn__draft_is_open(draft, product)) return TN_OK;
    TN_TRY(tn__draft_open(draft, product, &done));
    if (!done) return TN_OK;
    const tn_op *op = tn__draft_op_of(draft, product);
    tn_attr more[3] = {
        {.name = "post", .type = TN_ATTR_STRINGS, .count = post.count, .strings = post.names},
        {.name = "post_alpha", .type = TN_ATTR_FLOATS, .count = post.count, .floats = post.alpha},
        {.name = "post_beta", .type = TN_ATTR_FLOATS, .count = post.count, .floats = post.beta}};
    const tn_attr *kept = tn__draft_attrs(draft, op, more, 3, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    TN_TRY(tn__draft_become(draft, product, op->domain, op->type, op->version, op->inputs,
                            op->input_count, kept, count));
    return tn__draft_take_over(draft, id, product);
}

const tn__rewrite tn__rewrite_activation = {
    .name = "activation",
    .summary = "fuses activations into convolutions and matrix products",
    .in_training = true,
    .each = activation_each,
};
