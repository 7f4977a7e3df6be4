/* weights.c - stores weights of convolutions and products as 8-bit numbers with a float32 scale for
 * each channel of the result.
 *
 *     w ── QuantizeWeights ─┬─ q (int8) ───── DequantizeWeights ── w' ── Conv, MatMul, Gemm
 *          (at set-up)      └─ scales (f32) ──┘ (in each run, right before)
 *
 * Only q and the scales stay in memory, a quarter of w; w itself exists only while the engine is
 * set up. w' is a tensor of the arena that is live for one operator, so at most one operator's
 * weights are float32 at a time, and the plan counts them. Results change, so it is done only on
 * request (tn_rewrite_options.weights_dtype). Weights with other readers stay unchanged (an
 * embedding table that also gives the scores), and so do weights whose scales would take as much as
 * is saved.
 * Cost: O(operators).
 */
#include "graph/attr.h"
#include "graph/rewrite/rewrite.h"

/* fewest elements per channel, so that the scales are small compared with the weights */
#define WEIGHTS_LEAST 16

static tn_status weights_add(tn__draft *draft, tn_op_id before, const char *type,
                             const tn_tensor_id *inputs, uint32_t input_count,
                             const tn_tensor_id *outputs, uint32_t output_count, int64_t axis) {
    const int64_t *kept = tn__arena_copy(&draft->arena, &axis, sizeof axis);
    const tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = kept};
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    tn_op op = {.type = type,
                .domain = "tenure",
                .version = 1,
                .inputs = inputs,
                .input_count = input_count,
                .outputs = outputs,
                .output_count = output_count,
                .attrs = &attr,
                .attr_count = 1};
    tn_op_id made;
    return tn__draft_add_op(draft, before, &op, &made);
}

static tn_status weights_each(tn__draft *draft, tn_op_id id) {
    tn_tensor_id w = tn__draft_input(draft, id, 1), parts[2], wide;
    uint32_t axis;
    if (!tn__draft_weights_axis(draft, id, &axis) || draft->tensors[w].uses != 1 ||
        draft->tensors[w].fixed)
        return TN_OK;
    const tn_tensor like = *tn__draft_tensor_of(draft, w);
    uint64_t each = 1;
    for (uint32_t d = 0; d < like.rank; d++)
        each = d == axis ? each : tn__mul_sat(each, (uint64_t)like.shape[d]);
    if (each < WEIGHTS_LEAST) return TN_OK;
    TN_TRY(tn__draft_add_tensor(draft, like.name, TN_INT8, like.rank, like.shape, &parts[0]));
    TN_TRY(tn__draft_add_tensor(draft, "scales", TN_FLOAT32, 1, &like.shape[axis], &parts[1]));
    TN_TRY(tn__draft_add_tensor(draft, like.name, TN_FLOAT32, like.rank, like.shape, &wide));
    for (uint32_t i = 0; i < 2; i++) draft->tensors[parts[i]].tensor.flags |= TN_TENSOR_FOLDED;
    TN_TRY(weights_add(draft, id, "QuantizeWeights", &w, 1, parts, 2, axis));
    TN_TRY(weights_add(draft, id, "DequantizeWeights", parts, 2, &wide, 1, axis));
    tn__draft_set(draft, id, 1, wide);
    return TN_OK;
}

const tn__rewrite tn__rewrite_weights = {
    .name = "weights",
    .summary = "stores weights in 8 bits with a scale per channel, if requested",
    .weights = true,
    .each = weights_each,
};
