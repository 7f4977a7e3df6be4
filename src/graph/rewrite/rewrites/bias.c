/* bias.c - turns a row that is added to a matrix product into the bias of the product, and one
 * number per channel that is added to a convolution into the bias of the convolution. */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

/* Whether the tensor is static and has one number per channel for a result of this rank: its shape
 * is [channels, 1, ...], possibly after one leading extent of 1. */
static bool bias_is_channel(const tn__draft *draft, tn_tensor_id id, const tn_tensor *y) {
    if (!tn__draft_is_known(draft, id) || !tn__draft_is_exact(draft, id)) return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, id);
    if (tensor->rank > y->rank || tensor->rank + 1 < y->rank) return false;
    for (uint32_t d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] != (d + y->rank - tensor->rank == 1 ? y->shape[1] : 1)) return false;
    return true;
}

static tn_status bias_give(tn__draft *draft, tn_op_id id, tn_op_id product, tn_tensor_id bias) {
    bool done;
    TN_TRY(tn__draft_open(draft, product, &done));
    if (!done) return TN_OK;
    const tn_op *op = tn__draft_op_of(draft, product);
    tn_tensor_id inputs[3] = {op->inputs[0], op->inputs[1], bias};
    TN_TRY(tn__draft_become(draft, product, op->domain, op->type, op->version, inputs, 3, NULL, 0));
    return tn__draft_take_over(draft, id, product);
}

static tn_status bias_of_conv(tn__draft *draft, tn_op_id id, tn_op_id conv, tn_tensor_id addend) {
    tn_tensor_id before = tn__draft_input(draft, conv, 2), extents, bias, sum;
    int64_t channels = tn__draft_tensor_of(draft, tn__draft_input(draft, conv, 1))->shape[0];
    if (before != TN_NONE &&
        !(tn__draft_is_row(draft, before, channels) && tn__draft_is_known(draft, before)))
        return TN_OK;
    TN_TRY(tn__draft_add_ints(draft, "shape", &channels, 1, &extents));
    TN_TRY(tn__draft_fold(draft, id, "Reshape", (tn_tensor_id[]){addend, extents}, 2, 1, &channels,
                          &bias));
    if (before == TN_NONE) return bias_give(draft, id, conv, bias);
    TN_TRY(tn__draft_fold(draft, id, "Add", (tn_tensor_id[]){before, bias}, 2, 1, &channels, &sum));
    return bias_give(draft, id, conv, sum);
}

static bool bias_takes(const tn__draft *draft, tn_op_id product) {
    return product != TN_NONE && tn__draft_is_open(draft, product) &&
           tn__draft_input(draft, product, 3) == TN_NONE &&
           tn__attr(tn__draft_op_of(draft, product), "perm_y") == NULL;
}

static tn_status bias_each(tn__draft *draft, tn_op_id id) {
    if (!tn__draft_is(draft, id, "Add")) return TN_OK;
    tn_tensor_id y = tn__draft_op_of(draft, id)->outputs[0];
    if (!tn__draft_is_exact(draft, y)) return TN_OK;
    for (uint32_t i = 0; i < 2; i++) {
        tn_op_id product = tn__draft_only(draft, id, i, NULL);
        tn_tensor_id addend = tn__draft_input(draft, id, 1 - i);
        if (!bias_takes(draft, product) ||
            !tn__draft_same_shape(draft, tn__draft_input(draft, id, i), y))
            continue;
        const tn_tensor *output = tn__draft_tensor_of(draft, y);
        bool conv = tn__draft_has(draft, product, TN_RULE_CONV);
        if (conv && bias_is_channel(draft, addend, output) &&
            tn__draft_is_exact(draft, tn__draft_input(draft, product, 1)))
            return bias_of_conv(draft, id, product, addend);
        if (!conv && tn__draft_input(draft, product, 2) == TN_NONE && output->rank >= 2 &&
            tn__draft_is_row(draft, addend, output->shape[output->rank - 1]))
            return bias_give(draft, id, product, addend);
    }
    return TN_OK;
}

const tn__rewrite tn__rewrite_bias = {
    .name = "bias",
    .summary = "turns a sum per column or channel into a bias",
    .in_training = true,
    .each = bias_each,
};
