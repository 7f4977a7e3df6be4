/* inline.c - replaces an If with a known condition by the operators of the branch that it takes.
 *
 * Exporters write If where a shape decides (PyTorch's squeeze), and inference finds the dead
 * branch. An If has no gradient, but the operators in it have: they move to the place of the If and
 * keep their ids, and their results become its outputs. Known branches within known branches move
 * too. Control flow that only a run decides stays unchanged.
 * Cost: O(operands), plus the depth of each block; nothing if no condition is known.
 */
#include "graph/train/frame.h"

#define INLINE_GONE (TN_NONE - 1) /* marks the operators of a branch that never runs */

/* The branch that an If takes, if it is known; otherwise TN_NONE. */
static tn_block_id inline_branch(const tn_graph *graph, const tn_op *op) {
    tn_block_id taken = TN_NONE;
    uint32_t branches = 0, dead = 0;
    if (!tn__op_is(op, "If")) return TN_NONE;
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].type != TN_ATTR_BLOCK) continue;
        bool is_dead = tn_graph_block(graph, op->attrs[i].block)->dead;
        if (!is_dead) taken = op->attrs[i].block;
        branches++;
        dead += is_dead;
    }
    if (branches != 2 || dead != 1) return TN_NONE;
    return tn_graph_block(graph, taken)->output_count == op->output_count ? taken : TN_NONE;
}

/* The block that receives the operators of a block: the block itself, a block around it, or
 * INLINE_GONE. */
static tn_block_id inline_target(const tn_graph *graph, tn_block_id block) {
    tn_block_id target = TN_NONE;
    for (tn_block_id at = block; at != 0;) {
        tn_op_id owner = tn_graph_block(graph, at)->owner;
        if (owner == TN_NONE) return INLINE_GONE;
        const tn_op *op = tn_graph_op(graph, owner);
        tn_block_id taken = inline_branch(graph, op);
        if (taken != TN_NONE && taken != at) return INLINE_GONE;
        if (taken == TN_NONE && target == TN_NONE) target = at;
        at = op->block;
    }
    return target != TN_NONE ? target : 0;
}

/* Gives the outputs of the branch the names of the outputs of the If. */
static tn_status inline_outputs(tn__train *it, const tn_op *op, tn_block_id taken,
                                tn_block_id where) {
    const tn_block *branch = tn_graph_block(it->model, taken);
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        tn_op_spec spec = {.name = op->name,
                           .type = "Identity",
                           .block = where,
                           .inputs = &branch->outputs[k],
                           .input_count = 1,
                           .outputs = &op->outputs[k],
                           .output_count = 1};
        TN_TRY(tn_graph_add_op(it->graph, &spec, NULL, it->error));
    }
    return TN_OK;
}

/* Copies an operator; its blocks get new numbers. */
static tn_status inline_keep(tn__train *it, const tn_op *op, const tn_block_id *number,
                             tn_block_id where) {
    tn_op made = *op;
    tn_attr *attrs = tn__arena_copy(&it->arena, op->attrs, op->attr_count * sizeof *attrs);
    if (attrs == NULL && op->attr_count > 0) return tn__no_memory(it->error, "attributes");
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (attrs[i].type == TN_ATTR_BLOCK) attrs[i].block = number[attrs[i].block];
    made.attrs = attrs;
    return tn__train_copy_op(it, &made, where);
}

static tn_status inline_ops(tn__train *it, const tn_block_id *target, const tn_block_id *number) {
    for (tn_block_id b = tn_graph_block_count(it->model); b-- > 0;) {
        const tn_block *block = tn_graph_block(it->model, b);
        for (uint32_t i = 0; i < block->op_count && target[b] != INLINE_GONE; i++) {
            const tn_op *op = tn_graph_op(it->model, block->ops[i]);
            tn_block_id taken = inline_branch(it->model, op);
            TN_TRY(taken != TN_NONE ? inline_outputs(it, op, taken, number[target[b]])
                                    : inline_keep(it, op, number, number[target[b]]));
        }
    }
    return TN_OK;
}

static tn_status inline_graph(tn__train *it, const tn_block_id *target, tn_block_id *number) {
    static const int64_t nothing[] = {0};
    uint32_t blocks = tn_graph_block_count(it->model);
    tn_tensor_id made;
    TN_TRY(tn_graph_create(it->context, &it->graph, it->error));
    for (tn_block_id b = 1; b < blocks; b++)
        if (target[b] == b)
            TN_TRY(tn_graph_add_block(it->graph, tn_graph_block(it->model, b)->name, &number[b],
                                      it->error));
    for (tn_tensor_id id = 0; id < it->tensors; id++) {
        tn_block_id where = target[tn_graph_tensor(it->model, id)->block];
        tn_tensor_spec spec = tn__graph_spec(it->model, id);
        if (where != INLINE_GONE)
            spec.block = number[where];
        else
            spec = (tn_tensor_spec){
                .dtype = TN_UINT8, .kind = TN_KIND_CONSTANT, .rank = 1, .shape = nothing};
        TN_TRY(tn_graph_add_tensor(it->graph, &spec, &made, it->error));
    }
    for (tn_block_id b = 0; b < blocks; b++) {
        const tn_block *block = tn_graph_block(it->model, b);
        if (target[b] == b)
            TN_TRY(tn_graph_set_block_io(it->graph, number[b], block->inputs, block->input_count,
                                         block->outputs, block->output_count, it->error));
    }
    TN_TRY(inline_ops(it, target, number));
    return tn_graph_infer(it->graph, it->error);
}

tn_status tn__train_inline(tn__train *it) {
    uint32_t blocks = tn_graph_block_count(it->model);
    bool any = false;
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model) && blocks > 1; id++)
        any = any || inline_branch(it->model, tn_graph_op(it->model, id)) != TN_NONE;
    if (!any) return TN_OK;
    tn_block_id *target = tn__arena_array(&it->arena, blocks, sizeof *target);
    tn_block_id *number = tn__arena_array(&it->arena, blocks, sizeof *number);
    if (target == NULL || number == NULL)
        return tn__no_memory(it->error, "the branches of the model");
    for (tn_block_id b = 0; b < blocks; b++) target[b] = inline_target(it->model, b);
    TN_TRY(inline_graph(it, target, number));
    it->model = it->inlined = it->graph;
    it->graph = NULL;
    return TN_OK;
}
