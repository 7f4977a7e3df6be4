/* dropout_add.c - lets dropout add the row before it and the residual after it, so that neither sum
 * is a tensor of its own.
 *
 *     Add(DropoutTrain(Add(x, row)), residual)
 *
 * The backward pass does not change: dropout's gradient is dropout with the same counter, and the
 * gradient of a sum is the given gradient. The row may be missing, because a product has taken it
 * already (bias.c). The result has the same bits as the separate operators.
 */
#include "graph/rewrite/rewrite.h"

static tn_status dropout_set(tn__draft *draft, tn_op_id id, uint32_t index, tn_tensor_id tensor) {
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_tensor_id inputs[5] = {TN_NONE, TN_NONE, TN_NONE, TN_NONE, TN_NONE};
    uint32_t count = index + 1 > op->input_count ? index + 1 : op->input_count;
    for (uint32_t i = 0; i < op->input_count; i++) inputs[i] = op->inputs[i];
    inputs[index] = tensor;
    return tn__draft_become(draft, id, op->domain, op->type, op->version, inputs, count, NULL, 0);
}

static tn_status dropout_before(tn__draft *draft, tn_op_id id) {
    tn_tensor_id x;
    tn_op_id add = tn__draft_only(draft, id, 0, "Add");
    tn_tensor_id row = tn__draft_row_of(draft, add, &x);
    if (row == TN_NONE || tn__draft_input(draft, id, 3) != TN_NONE) return TN_OK;
    TN_TRY(dropout_set(draft, id, 3, row));
    tn__draft_set(draft, id, 0, x);
    tn__draft_remove(draft, add);
    return TN_OK;
}

static tn_status dropout_behind(tn__draft *draft, tn_op_id id) {
    for (uint32_t i = 0; i < 2; i++) {
        tn_op_id drop = tn__draft_only(draft, id, i, "tenure.DropoutTrain");
        tn_tensor_id residual = tn__draft_input(draft, id, 1 - i);
        if (drop == TN_NONE || tn__draft_input(draft, drop, 4) != TN_NONE ||
            !tn__draft_is_exact(draft, residual) ||
            !tn__draft_same_shape(draft, residual, tn__draft_input(draft, id, i)))
            continue;
        TN_TRY(dropout_set(draft, drop, 4, residual));
        return tn__draft_take_over(draft, id, drop);
    }
    return TN_OK;
}

static tn_status dropout_each(tn__draft *draft, tn_op_id id) {
    if (tn__draft_is(draft, id, "tenure.DropoutTrain")) return dropout_before(draft, id);
    return tn__draft_is(draft, id, "Add") ? dropout_behind(draft, id) : TN_OK;
}

const tn__rewrite tn__rewrite_dropout_add = {
    .name = "dropout_add",
    .summary = "fuses dropout with the row added before it and the residual added after it",
    .in_training = true,
    .each = dropout_each,
};
