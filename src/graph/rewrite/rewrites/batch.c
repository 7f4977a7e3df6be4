/* batch.c - merges a batch normalisation after a convolution into its weights and its bias.
 *
 *     scale (w * x + b - mean) / sqrt(variance + epsilon) + shift
 *         = (w f) * x + (b - mean) f + shift,    f = scale / sqrt(variance + epsilon)
 *
 * The new weights are written as operators on parameters, so they are computed once, at set-up, and
 * the file stays unchanged.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

static bool batch_fits(const tn__draft *draft, tn_op_id id, tn_op_id conv) {
    const tn_op *op = tn__draft_op_of(draft, id);
    if (conv == TN_NONE || op->input_count != 5 || tn__attr_int(op, "training_mode", 0) != 0 ||
        tn__attr_int(op, "spatial", 1) != 1)
        return false;
    for (uint32_t k = 1; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) return false;
    tn_tensor_id weights = tn__draft_input(draft, conv, 1), bias = tn__draft_input(draft, conv, 2);
    if (!tn__draft_is_static(draft, weights) || !tn__draft_is_exact(draft, weights) ||
        (bias != TN_NONE && !tn__draft_is_static(draft, bias)))
        return false;
    for (uint32_t i = 1; i < 5; i++)
        if (!tn__draft_is_row(draft, op->inputs[i], tn__draft_tensor_of(draft, weights)->shape[0]))
            return false;
    return true;
}

/* Adds operators that compute the factor f, and f as [channels, 1, ...] for the weights. */
static tn_status batch_factor(tn__draft *draft, tn_op_id id, const tn_tensor *weights,
                              tn_tensor_id *factor, tn_tensor_id *spread) {
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_tensor_id inputs[4] = {op->inputs[1], op->inputs[2], op->inputs[3], op->inputs[4]};
    double epsilon = tn__attr_float(op, "epsilon", 1e-5);
    int64_t channels = weights->shape[0], shape[TN_RANK_MAX];
    tn_tensor_id extents, small, sum, root;
    for (uint32_t d = 0; d < weights->rank; d++) shape[d] = d == 0 ? channels : 1;
    TN_TRY(tn__draft_add_floats(draft, "epsilon", &epsilon, 0, &small));
    TN_TRY(tn__draft_add_ints(draft, "shape", shape, weights->rank, &extents));
    TN_TRY(tn__draft_fold(draft, id, "Add", (tn_tensor_id[]){inputs[3], small}, 2, 1, &channels,
                          &sum));
    TN_TRY(tn__draft_fold(draft, id, "Sqrt", &sum, 1, 1, &channels, &root));
    TN_TRY(tn__draft_fold(draft, id, "Div", (tn_tensor_id[]){inputs[0], root}, 2, 1, &channels,
                          factor));
    return tn__draft_fold(draft, id, "Reshape", (tn_tensor_id[]){*factor, extents}, 2,
                          weights->rank, shape, spread);
}

static tn_status batch_bias(tn__draft *draft, tn_op_id id, tn_tensor_id bias, tn_tensor_id factor,
                            int64_t channels, tn_tensor_id *made) {
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_tensor_id shift = op->inputs[2], mean = op->inputs[3], moved, scaled;
    if (bias == TN_NONE) {
        TN_TRY(tn__draft_fold(draft, id, "Mul", (tn_tensor_id[]){mean, factor}, 2, 1, &channels,
                              &scaled));
        return tn__draft_fold(draft, id, "Sub", (tn_tensor_id[]){shift, scaled}, 2, 1, &channels,
                              made);
    }
    TN_TRY(tn__draft_fold(draft, id, "Sub", (tn_tensor_id[]){bias, mean}, 2, 1, &channels, &moved));
    TN_TRY(tn__draft_fold(draft, id, "Mul", (tn_tensor_id[]){moved, factor}, 2, 1, &channels,
                          &scaled));
    return tn__draft_fold(draft, id, "Add", (tn_tensor_id[]){scaled, shift}, 2, 1, &channels, made);
}

static tn_status batch_each(tn__draft *draft, tn_op_id id) {
    if (!tn__draft_is(draft, id, "BatchNormalization")) return TN_OK;
    tn_op_id conv = tn__draft_only(draft, id, 0, "Conv");
    if (!batch_fits(draft, id, conv)) return TN_OK;
    tn_tensor_id inputs[3] = {tn__draft_input(draft, conv, 0), tn__draft_input(draft, conv, 1),
                              tn__draft_input(draft, conv, 2)};
    tn_tensor weights = *tn__draft_tensor_of(draft, inputs[1]);
    tn_tensor_id factor, spread;
    TN_TRY(batch_factor(draft, id, &weights, &factor, &spread));
    TN_TRY(batch_bias(draft, id, inputs[2], factor, weights.shape[0], &inputs[2]));
    TN_TRY(tn__draft_fold(draft, id, "Mul", (tn_tensor_id[]){inputs[1], spread}, 2, weights.rank,
                          weights.shape, &inputs[1]));
    const tn_op *op = tn__draft_op_of(draft, conv);
    TN_TRY(tn__draft_become(draft, conv, op->domain, op->type, op->version, inputs, 3, NULL, 0));
    return tn__draft_take_over(draft, id, conv);
}

const tn__rewrite tn__rewrite_batch = {
    .name = "batch",
    .summary = "folds batch normalisation into the weights of the convolution before it",
    .each = batch_each,
};
