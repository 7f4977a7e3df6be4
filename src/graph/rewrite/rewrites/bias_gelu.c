/* bias_gelu.c - fuses GELU and the sum with a row into one operator, unless a product has taken the
 * row (bias.c), and does the same for the gradient.
 *
 *     Gelu(Add(x, row))    GeluGrad(dy, Add(x, row))
 *
 * It applies only if no other operator reads the sum: then x is kept for the backward pass instead.
 * The result has the same bits as the separate operators.
 */
#include "graph/rewrite/rewrite.h"

/* Which input of the operator GELU is applied to; TN_NONE if the operator is neither GELU nor its
 * gradient. */
static uint32_t gelu_operand(const tn__draft *draft, tn_op_id id) {
    if (draft->ops[id].gone || draft->ops[id].op.block != 0) return TN_NONE;
    return tn__draft_is(draft, id, "Gelu")              ? 0
           : tn__draft_is(draft, id, "tenure.GeluGrad") ? 1
                                                        : TN_NONE;
}

static tn_status gelu_take(tn__draft *draft, tn_op_id id, uint32_t index) {
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_op_id add = tn__draft_producer(draft, id, index, "Add");
    tn_tensor_id x, row = tn__draft_row_of(draft, add, &x);
    tn_tensor_id inputs[3] = {op->inputs[0], x, row};
    if (index == 0)
        return tn__draft_become(draft, id, "tenure", "BiasGelu", 1, inputs + 1, 2, NULL, 0);
    return tn__draft_become(draft, id, "tenure", "BiasGeluGrad", 1, inputs, 3, NULL, 0);
}

/* Counts, for each sum with a row, the forward and backward GELUs that read it. Then fuses the sums
 * that no other operator reads. */
static tn_status gelu_all(tn__draft *draft) {
    uint32_t *uses = tn__arena_array(&draft->arena, (size_t)draft->tensor_count + 1, sizeof *uses);
    if (uses == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    memset(uses, 0, draft->tensor_count * sizeof *uses);
    for (tn_op_id id = 0; id < draft->op_count; id++) {
        uint32_t index = gelu_operand(draft, id);
        tn_tensor_id x;
        if (index == TN_NONE) continue;
        tn_op_id add = tn__draft_producer(draft, id, index, "Add");
        if (tn__draft_row_of(draft, add, &x) != TN_NONE) uses[tn__draft_input(draft, id, index)]++;
    }
    for (tn_op_id id = 0; id < draft->op_count; id++) {
        uint32_t index = gelu_operand(draft, id);
        tn_tensor_id sum = index != TN_NONE ? tn__draft_input(draft, id, index) : TN_NONE;
        if (sum == TN_NONE || uses[sum] == 0 || draft->tensors[sum].fixed ||
            uses[sum] != draft->tensors[sum].uses)
            continue;
        uses[sum]--;
        TN_TRY(gelu_take(draft, id, index));
    }
    return TN_OK;
}

const tn__rewrite tn__rewrite_bias_gelu = {
    .name = "bias_gelu",
    .summary = "fuses adding a row with GELU, forward and backward",
    .in_training = true,
    .all = gelu_all,
};
