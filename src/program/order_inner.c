/* order_inner.c - estimates the bytes that operators with blocks need while they run.
 *
 * The estimate is the worst step of the worst block, each block in file order, innermost blocks
 * first. It is not exact: the blocks are reordered later, too, and a branch may free early a
 * tensor that it reads from outside. The final orders are compared on the whole program.
 *
 * Cost: O(operands log operands) times the depth of nested blocks.
 */
#include "program/order.h"

typedef struct inner_block {
    uint32_t depth;
    tn_block_id block;
} inner_block;

static int inner_order(const void *a, const void *b) { /* deepest first */
    const inner_block *x = a, *y = b;
    if (x->depth != y->depth) return x->depth > y->depth ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

static uint32_t inner_depth(const tn_graph *graph, tn_block_id block) {
    uint32_t depth = 0;
    for (; block != 0; depth++) {
        tn_op_id owner = tn_graph_block(graph, block)->owner;
        if (owner == TN_NONE) break;
        block = tn_graph_op(graph, owner)->block;
    }
    return depth;
}

/* The worst step of one block in file order. */
static tn_status inner_peak(const tn_order_task *task, uint64_t *peak, tn_error *error) {
    tn__order_model model;
    tn__order_walk walk = {0};
    tn_status status = tn__order_model_make(task, &model, error);
    uint32_t *order = NULL;
    if (status == TN_OK) {
        order = tn__alloc_array(model.context, model.count, sizeof *order);
        if (order == NULL || !tn__order_walk_make(&walk, &model))
            status = tn__no_memory(error, "the order of operators");
    }
    if (status == TN_OK) {
        for (uint32_t i = 0; i < model.count; i++) order[i] = i;
        *peak = tn__order_costs(&walk, order, NULL);
    }
    tn__free(model.context, order, model.count * sizeof *order);
    tn__order_walk_release(&walk);
    tn__order_model_release(&model);
    return status;
}

static tn_status inner_all(const tn_order_task *task, inner_block *blocks, uint64_t *inner,
                           tn_error *error) {
    uint32_t count = tn_graph_block_count(task->graph);
    for (tn_block_id b = 1; b < count; b++)
        blocks[b - 1] = (inner_block){inner_depth(task->graph, b), b};
    qsort(blocks, count - 1, sizeof *blocks, inner_order);
    for (uint32_t i = 0; i + 1 < count; i++) {
        const tn_block *block = tn_graph_block(task->graph, blocks[i].block);
        tn_order_task one = *task;
        uint64_t peak;
        if (block->dead || block->owner == TN_NONE) continue;
        one.block = blocks[i].block;
        one.inner = inner;
        TN_TRY(inner_peak(&one, &peak, error));
        if (peak > inner[block->owner]) inner[block->owner] = peak;
    }
    return TN_OK;
}

tn_status tn__order_inner(const tn_order_task *task, uint64_t **inner, tn_error *error) {
    const tn_context *context = tn_graph_context(task->graph);
    size_t ops = tn_graph_op_count(task->graph), count = tn_graph_block_count(task->graph);
    *inner = NULL;
    if (count <= 1) return TN_OK;
    inner_block *blocks = tn__alloc_array(context, count, sizeof *blocks);
    uint64_t *bytes = tn__alloc_array(context, ops, sizeof *bytes);
    tn_status status = blocks && bytes ? inner_all(task, blocks, bytes, error)
                                       : tn__no_memory(error, "the order of operators");
    tn__free(context, blocks, count * sizeof *blocks);
    if (status == TN_OK)
        *inner = bytes;
    else
        tn__free(context, bytes, ops * sizeof *bytes);
    return status;
}
