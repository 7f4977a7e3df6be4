/* test_fused.c - operators of a step of training that rewrites make one of several, each rewrite by
 * itself on random shapes: the pattern is found, plain loops compute the same bits as for the
 * operators apart, oneDNN the same within rounding, and tensors that are left keep their ids.
 */
#include "count.h"
#include "whole.h"

#define TRIES 40u

typedef struct made {
    tn_graph *graph;
    tn__random random;
    uint32_t names;
    char text[40];
} made;

static int64_t made_from(made *at, int64_t first, int64_t last) { /* both may come */
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}
static bool made_coin(made *at) { return made_from(at, 0, 1) == 1; }

static tn_tensor_id made_tensor(made *at, const char *stem, tn_kind kind, uint32_t rank,
                                const int64_t *shape) {
    snprintf(at->text, sizeof at->text, "%s%u", stem, at->names++);
    return whole_tensor(at->graph, at->text, kind, rank, shape);
}
static tn_tensor_id made_number(made *at, double number) {
    tn_tensor_spec spec = {.name = "k",
                           .dtype = TN_FLOAT32,
                           .kind = TN_KIND_CONSTANT,
                           .value = {.count = 1, .floats = &number}};
    tn_tensor_id id;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    return id;
}
static tn_tensor_id made_op(made *at, const char *domain, const char *type, tn_kind kind,
                            const tn_tensor_id *inputs, uint32_t count, const tn_attr *attrs,
                            uint32_t attr_count) {
    tn_tensor_id id = made_tensor(at, "t", kind, 0, NULL);
    whole_op_in(at->graph, domain, type, domain[0] == '\0' ? 13 : 1, inputs, count, id, attrs,
                attr_count);
    return id;
}
/* Two operands in either order. */
static tn_tensor_id made_pair(made *at, const char *type, tn_kind kind, tn_tensor_id a,
                              tn_tensor_id b) {
    bool turned = made_coin(at);
    return made_op(at, "", type, kind, (tn_tensor_id[]){turned ? b : a, turned ? a : b}, 2, NULL,
                   0);
}

static uint32_t made_shape(made *at, uint32_t least, int64_t *shape) {
    uint32_t rank = (uint32_t)made_from(at, least, 4);
    for (uint32_t d = 0; d < rank; d++) shape[d] = made_from(at, 1, d + 1 == rank ? 40 : 6);
    return rank;
}

/* --- patterns: how many operators the fused one replaces --- */

static uint32_t make_masked(made *at) {
    int64_t x[4], mask[4];
    uint32_t rank = made_shape(at, 1, x), left_out = (uint32_t)made_from(at, 0, rank - 1);
    bool scaled = made_coin(at);
    for (uint32_t d = left_out; d < rank; d++) mask[d - left_out] = made_coin(at) ? x[d] : 1;
    tn_tensor_id y = made_tensor(at, "x", TN_KIND_INPUT, rank, x);
    tn_kind sort = made_coin(at) ? TN_KIND_PARAMETER : TN_KIND_INPUT;
    tn_tensor_id by = made_tensor(at, "mask", sort, rank - left_out, mask);
    if (scaled) y = made_pair(at, "Mul", TN_KIND_ACTIVATION, y, made_number(at, 0.3));
    y = made_pair(at, "Add", TN_KIND_ACTIVATION, y, by);
    made_op(at, "", "Softmax", TN_KIND_OUTPUT, &y, 1, NULL, 0);
    return scaled ? 3 : 2;
}

static uint32_t make_masked_gradient(made *at) {
    int64_t x[4], axis = -1;
    uint32_t rank = made_shape(at, 1, x);
    tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &axis};
    tn_tensor_id both[2] = {made_tensor(at, "dy", TN_KIND_INPUT, rank, x),
                            made_tensor(at, "y", TN_KIND_INPUT, rank, x)};
    tn_tensor_id dx = made_op(at, "tenure", "SoftmaxGrad", TN_KIND_ACTIVATION, both, 2, &attr, 1);
    made_pair(at, "Mul", TN_KIND_OUTPUT, dx, made_number(at, 0.3));
    return 2;
}

static uint32_t make_dropout(made *at) {
    int64_t x[4], seed = made_from(at, 0, 1000);
    double ratio = made_coin(at) ? 0.1 : 0.5;
    tn_attr attrs[2] = {{.name = "ratio", .type = TN_ATTR_FLOAT, .count = 1, .floats = &ratio},
                        {.name = "seed", .type = TN_ATTR_INT, .count = 1, .ints = &seed}};
    uint32_t rank = made_shape(at, 1, x), wide = (uint32_t)made_from(at, 1, 3);
    tn_tensor_id y = made_tensor(at, "x", TN_KIND_INPUT, rank, x), step;
    tn_tensor_spec spec = {.name = "step", .dtype = TN_INT64, .kind = TN_KIND_INPUT};
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &step, NULL), TN_OK);
    if (wide & 1)
        y = made_pair(at, "Add", TN_KIND_ACTIVATION, y,
                      made_tensor(at, "row", TN_KIND_PARAMETER, 1, &x[rank - 1]));
    y = made_op(at, "tenure", "DropoutTrain", wide & 2 ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT,
                (tn_tensor_id[]){y, step}, 2, attrs, 2);
    if (wide & 2)
        made_pair(at, "Add", TN_KIND_OUTPUT, y,
                  made_tensor(at, "residual", TN_KIND_INPUT, rank, x));
    return wide == 3 ? 3 : 2;
}

static uint32_t make_gelu(made *at) {
    static const char *const forms[] = {"none", "tanh"};
    const char *form = forms[made_from(at, 0, 1)];
    tn_attr attr = {.name = "approximate", .type = TN_ATTR_STRING, .count = 1, .strings = &form};
    int64_t x[4];
    uint32_t rank = made_shape(at, 2, x), which = (uint32_t)made_from(at, 1, 3);
    tn_tensor_id sum =
        made_pair(at, "Add", TN_KIND_ACTIVATION, made_tensor(at, "x", TN_KIND_INPUT, rank, x),
                  made_tensor(at, "row", TN_KIND_PARAMETER, 1, &x[rank - 1]));
    if (which & 1) {
        tn_tensor_id y = made_tensor(at, "t", TN_KIND_OUTPUT, 0, NULL);
        whole_op_in(at->graph, "", "Gelu", 20, &sum, 1, y, &attr, 1);
    }
    if (which & 2)
        made_op(at, "tenure", "GeluGrad", TN_KIND_OUTPUT,
                (tn_tensor_id[]){made_tensor(at, "dy", TN_KIND_INPUT, rank, x), sum}, 2, &attr, 1);
    return 2;
}

static uint32_t make_norm(made *at) {
    static const char *const names[] = {"scale", "bias", "mean", "var"};
    int64_t x[4] = {made_from(at, 2, 4), made_from(at, 1, 40)};
    uint32_t rank = (uint32_t)made_from(at, 2, 4);
    tn_tensor_id inputs[5], outputs[5];
    for (uint32_t d = 2; d < rank; d++) x[d] = made_from(at, 1, 7);
    inputs[0] = made_tensor(at, "x", TN_KIND_INPUT, rank, x);
    for (uint32_t i = 0; i < 4; i++) {
        tn_tensor_spec spec = {.name = names[i],
                               .dtype = TN_FLOAT32,
                               .kind = TN_KIND_PARAMETER,
                               .flags = TN_TENSOR_UPDATED,
                               .rank = 1,
                               .shape = &x[1]};
        assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &inputs[i + 1], NULL), TN_OK);
    }
    for (uint32_t k = 0; k < 5; k++)
        outputs[k] = made_tensor(at, "n", k > 2 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, 0, NULL);
    tn_op_spec spec = {.type = "BatchNormTrain",
                       .domain = "tenure",
                       .version = 1,
                       .inputs = inputs,
                       .outputs = outputs,
                       .input_count = 5,
                       .output_count = 5};
    assert_int_equal(tn_graph_add_op(at->graph, &spec, NULL, NULL), TN_OK);
    made_op(at, "", "Relu", TN_KIND_OUTPUT, &outputs[0], 1, NULL, 0);
    return 2;
}

static const struct {
    const char *name, *rewrite;
    uint32_t (*make)(made *at);
    double apart;   /* of oneDNN's results from those of plain loops */
    uint32_t least; /* of TRIES, that oneDNN must have taken where there is AVX-512 */
} cases[] = {
    {"MaskedSoftmax", "mask_softmax", make_masked, 1e-5, 20},
    {"its gradient", "mask_softmax", make_masked_gradient, 1e-5, 30},
    {"dropout and sums", "dropout_add", make_dropout, 1e-6, 0},
    {"GELU of a sum", "bias_gelu", make_gelu, 1e-5, 10},
    {"normalisation and Relu", "norm_relu", make_norm, 1e-4, 30},
};

/* --- judging --- */

/* `graph` as a step of training, by this rewrite alone, or by all others. */
static tn_graph *rewritten(const tn_graph *graph, const char *name, bool others) {
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    char without[400] = "";
    tn_graph *result;
    tn_error error;
    for (uint32_t i = 0; i < tn_rewrite_count(); i++) {
        if ((strcmp(tn_rewrite_name(i), name) == 0) != others) continue;
        if (without[0] != '\0') strcat(without, ",");
        strcat(without, tn_rewrite_name(i));
    }
    options.without = without;
    options.use = TN_REWRITE_TRAINED;
    if (tn_graph_rewrite(graph, &options, &result, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
    return result;
}

static void check_ids(const tn_graph *before, const tn_graph *after) {
    assert_true(tn_graph_tensor_count(after) >= tn_graph_tensor_count(before));
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(before); id++) {
        const tn_tensor *a = tn_graph_tensor(before, id), *b = tn_graph_tensor(after, id);
        bool lost = a->producer != TN_NONE && b->producer == TN_NONE;
        assert_string_equal(a->name, b->name);
        assert_int_equal(lost ? 0 : a->bytes, b->bytes);
    }
}

static uint32_t check(const char *name, uint64_t seed, const tn_graph *apart, const tn_graph *fused,
                      double allowed) {
    whole one = {.plain = true, .seed = seed}, two = one, fast = {.seed = seed};
    fast.threads = 1 + (uint32_t)(seed % 2);
    if (whole_run(&one, apart) != TN_OK || whole_run(&two, fused) != TN_OK)
        fail_msg("%s, seed %llu: %s%s", name, (unsigned long long)seed, one.error.message,
                 two.error.message);
    assert_int_equal(one.output_count, two.output_count);
    for (uint32_t k = 0; k < one.output_count; k++)
        if (memcmp(one.outputs[k].data, two.outputs[k].data, one.outputs[k].bytes) != 0)
            fail_msg("%s, seed %llu: other bits", name, (unsigned long long)seed);
    if (whole_run(&fast, fused) != TN_OK)
        fail_msg("%s, seed %llu: %s", name, (unsigned long long)seed, fast.error.message);
    double gap = whole_difference(&one, &fast);
    if (!(gap <= allowed))
        fail_msg("%s, seed %llu: oneDNN %g apart", name, (unsigned long long)seed, gap);
    whole_release(&one);
    whole_release(&two);
    whole_release(&fast);
    return fast.library_count;
}

static void fused_operators_compute_what_the_operators_compute(void **state) {
    (void)state;
    char text[TN_LIBRARY_TEXT_MAX];
    bool library = tn_kernels_library(text, NULL) && strstr(text, "avx512") != NULL;
    const uint32_t tries = case_count(TRIES, 8);
    for (size_t which = 0; which < sizeof cases / sizeof *cases; which++) {
        uint32_t taken = 0;
        for (uint64_t seed = 1; seed <= tries; seed++) {
            made at = {.random = {which * 1000 + seed}};
            assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
            uint32_t parts = cases[which].make(&at), all = tn_graph_op_count(at.graph);
            whole_infer(at.graph);
            tn_graph *fused = rewritten(at.graph, cases[which].rewrite, false);
            tn_graph *others = rewritten(at.graph, cases[which].rewrite, true);
            if (tn_graph_op_count(fused) != all + 1 - parts)
                fail_msg("%s, seed %llu: not found", cases[which].name, (unsigned long long)seed);
            assert_int_equal(tn_graph_op_count(others), all);
            check_ids(at.graph, fused);
            taken += check(cases[which].name, seed, at.graph, fused, cases[which].apart);
            tn_graph_destroy(others);
            tn_graph_destroy(fused);
            tn_graph_destroy(at.graph);
        }
        printf("%-24s the library took %u of %u\n", cases[which].name, taken, tries);
        if (library && tries == TRIES && taken < cases[which].least)
            fail_msg("%s: too few", cases[which].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_operators_compute_what_the_operators_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
