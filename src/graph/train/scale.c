/* scale.c - seeds the backward pass and scales gradients so that 16 bits can hold them.
 *
 * The seed is loss_scale / micro_batches, so that sums of gradients are means, and small gradients
 * do not vanish in 16 bits; updates divide by the scale again.
 *
 * An adaptive scale has state: an exponent relative to the first scale, good steps in a row,
 * skipped steps (int64, all 0 at first, in every checkpoint). LossScale computes the seed from it.
 * LossScaleStep looks at all gradients, writes the state, and gives the updates their factor for
 * gradients: 0 if one was not finite, in which case the updates write nothing. So a step is skipped
 * within the graph, and no gradient may be used before all are complete: fuse_update is not
 * allowed. Running statistics of normalisations come from the forward pass and are not restored.
 * Source: Micikevicius et al. 2018, section 3.2.
 */
#include "graph/train/frame.h"

#define SCALE_STATE 3       /* exponent, good steps, skipped steps */
#define SCALE_FIRST 65536.0 /* 2^16, as PyTorch's and Apex's scalers begin */
#define SCALE_INTERVAL 2000 /* good steps until the scale doubles */

static tn_status scale_result(tn__train *it, const char *name, tn_tensor_id *id) {
    tn_tensor_spec spec = {.name = name, .kind = TN_KIND_GRADIENT, .rank = TN_RANK_UNKNOWN};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

static double scale_first(const tn__train *it) {
    return it->options.loss_scale != 1 ? it->options.loss_scale : SCALE_FIRST;
}

static tn_status scale_seed(tn__train *it, const tn_tensor *loss, const int64_t *shape,
                            tn_tensor_id *seed) {
    static const int64_t count[] = {SCALE_STATE};
    tn_tensor_spec spec = {.name = "loss_scale",
                           .dtype = TN_INT64,
                           .kind = TN_KIND_OPTIMIZER_STATE,
                           .flags = TN_TENSOR_UPDATED,
                           .rank = 1,
                           .shape = count};
    double first = scale_first(it) / it->options.micro_batches;
    int64_t to = loss->dtype;
    const tn_attr attrs[] = {TN__ATTR_FLOAT("first", &first), TN__ATTR_INT("to", &to),
                             TN__ATTR_INTS("shape", shape, loss->rank)};
    TN_TRY(tn_graph_add_tensor(it->graph, &spec, &it->made.loss_scale, it->error));
    TN_TRY(scale_result(it, "d.loss", seed));
    return tn__train_op(it, "loss_scale", "LossScale", &it->made.loss_scale, 1, seed, 1, attrs, 3);
}

tn_status tn__train_seed(tn__train *it, tn_tensor_id *seed) {
    const tn_tensor loss = *tn_graph_tensor(it->graph, it->made.loss);
    double one = it->options.loss_scale / it->options.micro_batches;
    int64_t ones[TN_RANK_MAX];
    for (uint32_t d = 0; d < loss.rank; d++) ones[d] = 1;
    if (it->options.dynamic_loss_scale) return scale_seed(it, &loss, ones, seed);
    tn_tensor_spec spec = {.name = "d.loss",
                           .dtype = loss.dtype,
                           .kind = TN_KIND_CONSTANT,
                           .rank = loss.rank,
                           .shape = ones,
                           .value = {.count = 1, .floats = &one}};
    return tn_graph_add_tensor(it->graph, &spec, seed, it->error);
}

tn_status tn__train_scale_step(tn__train *it) {
    uint32_t count = 2;
    tn_tensor_id outputs[2];
    tn_tensor_id *inputs =
        tn__arena_array(&it->arena, (size_t)it->made.parameter_count + 2, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(it->error, "the scale of the loss");
    inputs[0] = it->made.loss_scale;
    inputs[1] = it->made.micro;
    for (uint32_t i = 0; i < it->made.parameter_count; i++)
        if (it->made.parameters[i].gradient != TN_NONE)
            inputs[count++] = it->made.parameters[i].gradient;
    double first = scale_first(it);
    int64_t interval = SCALE_INTERVAL, micro = it->options.micro_batches;
    const tn_attr attrs[] = {TN__ATTR_FLOAT("first", &first), TN__ATTR_INT("interval", &interval),
                             TN__ATTR_INT("micro_batches", &micro)};
    TN_TRY(scale_result(it, "loss_scale.new", &outputs[0]));
    TN_TRY(scale_result(it, "loss_scale.factor", &outputs[1]));
    it->factor = outputs[1];
    return tn__train_op(it, "loss_scale", "LossScaleStep", inputs, count, outputs, 2, attrs, 3);
}

tn_status tn__train_scale_check(const tn__train *it) {
    const tn_train_options *options = &it->options;
    if (!options->dynamic_loss_scale) return TN_OK;
    if (options->fuse_update)
        TN_FAIL(it->error, TN_E_INVALID,
                "a loss scale that adapts skips a step by all gradients; with "
                "`fuse_update` parameters are updated before the others' gradients are there");
    if (options->optimizer == TN_OPTIMIZER_NONE)
        TN_FAIL(it->error, TN_E_INVALID, "a loss scale that adapts needs an optimizer");
    if (options->loss_scale < 0x1p-20 || options->loss_scale > 0x1p40)
        TN_FAIL(it->error, TN_E_INVALID,
                "a loss scale that adapts begins between 2^-20 and 2^40, not at %g",
                options->loss_scale);
    return TN_OK;
}
