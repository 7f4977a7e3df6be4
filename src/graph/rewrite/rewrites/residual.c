/* residual.c - fuses a sum with the result of a convolution or product: the fused operator may
 * write its result over the summand, and the plan decides whether it does.
 *
 * If there are two candidates, the one that is computed last takes the other as its summand, so no
 * operator has to wait.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

/* Returns the tensor of which `id` is a view, through any number of known views; `id` itself if it
 * is no view. */
static tn_tensor_id residual_root(const tn__draft *draft, tn_tensor_id id) {
    for (;;) {
        tn_op_id op = draft->tensors[id].producer;
        if (op == TN_NONE || op >= tn_graph_op_count(draft->graph) ||
            draft->ops[op].op.type != tn_graph_op(draft->graph, op)->type)
            return id; /* operators that a rewrite has added make no views */
        uint32_t k = 0;
        while (draft->ops[op].op.outputs[k] != id) k++;
        tn_tensor_id source = tn_op_view(draft->graph, op, k).source;
        if (source == TN_NONE) return id;
        id = source;
    }
}

/* Whether the product does not read the bytes of the summand. If it did, it could overwrite them
 * before it has read them. */
static bool residual_is_apart(const tn__draft *draft, tn_op_id product, tn_tensor_id summand) {
    const tn_op *op = tn__draft_op_of(draft, product);
    tn_tensor_id root = residual_root(draft, summand);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && residual_root(draft, op->inputs[i]) == root) return false;
    return true;
}

static bool residual_takes(const tn__draft *draft, tn_op_id id, uint32_t index) {
    tn_op_id product = tn__draft_only(draft, id, index, NULL);
    if (product == TN_NONE || !tn__draft_is_open(draft, product)) return false;
    return tn__draft_input(draft, product, 3) == TN_NONE &&
           residual_is_apart(draft, product, tn__draft_input(draft, id, 1 - index)) &&
           tn__attr(tn__draft_op_of(draft, product), "perm_y") == NULL;
}

static tn_status residual_each(tn__draft *draft, tn_op_id id) {
    bool add = tn__draft_is(draft, id, "Add") || tn__draft_is(draft, id, "Sum");
    const tn_op *op = tn__draft_op_of(draft, id);
    if (!add || op->input_count != 2 || op->inputs[0] == op->inputs[1]) return TN_OK;
    tn_tensor_id y = op->outputs[0], left = op->inputs[0], right = op->inputs[1];
    if (!tn__draft_is_exact(draft, y) || !tn__draft_same_shape(draft, left, y) ||
        !tn__draft_same_shape(draft, right, y))
        return TN_OK;
    bool takes[2] = {residual_takes(draft, id, 0), residual_takes(draft, id, 1)};
    if (!takes[0] && !takes[1]) return TN_OK;
    uint32_t which = takes[0] ? 0 : 1;
    if (takes[0] && takes[1]) {
        const tn__draft_op *one = &draft->ops[draft->tensors[left].producer];
        const tn__draft_op *two = &draft->ops[draft->tensors[right].producer];
        which = one->at > two->at ? 0 : 1;
    }
    tn_tensor_id summand = which == 0 ? right : left;
    tn_op_id product = draft->tensors[which == 0 ? left : right].producer;
    bool done;
    if (tn__draft_is_static(draft, summand)) return TN_OK;
    TN_TRY(tn__draft_open(draft, product, &done));
    if (!done) return TN_OK;
    op = tn__draft_op_of(draft, product);
    tn_tensor_id inputs[4] = {op->inputs[0], op->inputs[1], tn__draft_input(draft, product, 2),
                              summand};
    TN_TRY(tn__draft_become(draft, product, op->domain, op->type, op->version, inputs, 4, NULL, 0));
    return tn__draft_take_over(draft, id, product);
}

const tn__rewrite tn__rewrite_residual = {
    .name = "residual",
    .summary = "convolutions and matrix products accumulate into the tensor that is added",
    .in_training = true,
    .each = residual_each,
};
