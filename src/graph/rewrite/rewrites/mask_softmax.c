/* mask_softmax.c - fuses scale, mask and softmax of attention into one operator, and softmax's
 * gradient with the scale after it into another, so that the results in between are never tensors.
 *
 *     Softmax(Add(Mul(x, k), mask))    Mul(SoftmaxGrad(dy, y), k)
 *
 * The scale may be missing, because a product has taken it already (scale.c). Softmax works along
 * the last axis; the mask broadcasts to x. The result has the same bits as the separate operators.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

/* Whether each extent of the mask is 1 or equal to the extent of x. */
static bool mask_fits(const tn__draft *draft, tn_tensor_id mask, tn_tensor_id x) {
    if (!tn__draft_is_exact(draft, mask)) return false;
    const tn_tensor *narrow = tn__draft_tensor_of(draft, mask);
    const tn_tensor *wide = tn__draft_tensor_of(draft, x);
    if (narrow->rank > wide->rank) return false;
    for (uint32_t d = 0; d < narrow->rank; d++)
        if (narrow->shape[d] != 1 && narrow->shape[d] != wide->shape[d + wide->rank - narrow->rank])
            return false;
    return true;
}

/* If `mul` is a Mul of a tensor and a number with the tensor's shape, returns the tensor; otherwise
 * TN_NONE. */
static tn_tensor_id mask_scaled(const tn__draft *draft, tn_op_id mul, double *alpha) {
    if (mul == TN_NONE || !tn__draft_is(draft, mul, "Mul")) return TN_NONE;
    tn_tensor_id y = tn__draft_op_of(draft, mul)->outputs[0];
    for (uint32_t i = 0; i < 2; i++) {
        tn_tensor_id x = tn__draft_input(draft, mul, i);
        if (tn__draft_number(draft, tn__draft_input(draft, mul, 1 - i), alpha) &&
            tn__draft_same_shape(draft, x, y))
            return x;
    }
    return TN_NONE;
}

static tn_status mask_become(tn__draft *draft, tn_op_id id, const char *type, const tn_op *like,
                             const tn_tensor_id *inputs, double alpha) {
    tn_attr attr = {.name = "alpha", .type = TN_ATTR_FLOAT, .count = 1, .floats = &alpha};
    uint32_t count;
    const tn_attr *kept = tn__draft_attrs(draft, like, &attr, 1, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, id, "tenure", type, 1, inputs, 2, kept, count);
}

static tn_status mask_softmax(tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_op_id add = tn__draft_only(draft, id, 0, "Add");
    if (add == TN_NONE || !tn__draft_is_exact(draft, op->outputs[0])) return TN_OK;
    int64_t rank = tn__draft_tensor_of(draft, op->outputs[0])->rank;
    int64_t axis = tn__attr_int(op, "axis", op->version < 13 ? 1 : -1);
    if (axis != -1 && axis + 1 != rank) return TN_OK;
    for (uint32_t i = 0; i < 2; i++) {
        tn_tensor_id inputs[2] = {tn__draft_input(draft, add, i),
                                  tn__draft_input(draft, add, 1 - i)};
        double alpha = 1;
        if (!tn__draft_same_shape(draft, inputs[0], op->outputs[0]) ||
            !mask_fits(draft, inputs[1], inputs[0]) || tn__draft_is_static(draft, inputs[0]))
            continue;
        tn_op_id mul = tn__draft_only(draft, add, i, "Mul");
        tn_tensor_id x = mask_scaled(draft, mul, &alpha);
        if (x != TN_NONE) inputs[0] = x;
        TN_TRY(
            mask_become(draft, id, "MaskedSoftmax", &(tn_op){0}, inputs, x != TN_NONE ? alpha : 1));
        tn__draft_remove(draft, add);
        if (x != TN_NONE) tn__draft_remove(draft, mul);
        return TN_OK;
    }
    return TN_OK;
}

static tn_status mask_gradient(tn__draft *draft, tn_op_id id) {
    double alpha;
    for (uint32_t i = 0; i < 2; i++) {
        tn_op_id softmax = tn__draft_only(draft, id, i, "tenure.SoftmaxGrad");
        if (softmax == TN_NONE || !tn__draft_is_exact(draft, tn__draft_input(draft, id, i)) ||
            mask_scaled(draft, id, &alpha) != tn__draft_input(draft, id, i) ||
            tn__attr(tn__draft_op_of(draft, softmax), "alpha") != NULL)
            continue;
        const tn_op *op = tn__draft_op_of(draft, softmax);
        TN_TRY(mask_become(draft, softmax, op->type, op, op->inputs, alpha));
        return tn__draft_take_over(draft, id, softmax);
    }
    return TN_OK;
}

static tn_status mask_each(tn__draft *draft, tn_op_id id) {
    if (tn__draft_is(draft, id, "Softmax")) return mask_softmax(draft, id);
    return tn__draft_is(draft, id, "Mul") ? mask_gradient(draft, id) : TN_OK;
}

const tn__rewrite tn__rewrite_mask_softmax = {
    .name = "mask_softmax",
    .summary = "fuses scale, mask and softmax, forward and backward",
    .in_training = true,
    .each = mask_each,
};
