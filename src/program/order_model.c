/* order_model.c - reads the nodes and items that order.h describes from a block of a graph.
 *
 * It follows lifetime.c and bodies.c as far as their rules do not depend on the order: the
 * tensors that take memory, the place of each view in its source, and the operators that may
 * write in place. If views keep parts of a tensor alive, its bytes are cut at the ends of the
 * views, and every part is an item.
 *
 * An operator that writes into its input (relu_) orders all other accesses to those bytes, under
 * every name: each access stays before or after it, as in the file. This includes static
 * tensors, because optimizers write into parameters.
 *
 * Operators with blocks read all tensors that their blocks read from outside, and need `inner`
 * bytes while they run. The order of a block does not change tensors that come from outside the
 * block.
 *
 * Cost: O(operands log operands), times the depth of nested blocks.
 */
#include "graph/attr.h"
#include "program/order_build.h"

tn_status tn__order_add(tn__order_build *build, tn__order_pairs *pairs, uint32_t a, uint32_t b) {
    if (!tn__reserve(build->context, &pairs->data, &pairs->room, pairs->count + 1,
                     sizeof *pairs->data))
        return tn__no_memory(build->error, "the order of operators");
    pairs->data[pairs->count++] = (tn__order_pair){a, b};
    return TN_OK;
}

static int model_pair_order(const void *a, const void *b) {
    const tn__order_pair *x = a, *y = b;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

/* Sorts the pairs and removes duplicates. */
void tn__order_normalise(tn__order_pairs *pairs) {
    size_t kept = 0;
    if (pairs->count == 0) return;
    qsort(pairs->data, pairs->count, sizeof *pairs->data, model_pair_order);
    for (size_t i = 0; i < pairs->count; i++)
        if (i == 0 || model_pair_order(&pairs->data[i], &pairs->data[i - 1]) != 0)
            pairs->data[kept++] = pairs->data[i];
    pairs->count = kept;
}

/* The b of the pair with this a; ORDER_NONE: no such pair. Pairs are sorted. */
static uint32_t model_find(const tn__order_pairs *pairs, uint32_t a) {
    size_t low = 0, high = pairs->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pairs->data[middle].a < a)
            low = middle + 1;
        else
            high = middle;
    }
    return low < pairs->count && pairs->data[low].a == a ? pairs->data[low].b : ORDER_NONE;
}

/* --- nodes and their reads --- */

static bool model_is_folded(const tn_graph *graph, const tn_op *op) {
    uint32_t present = 0;
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        present++;
        if (!tn_tensor_is_static(tn_graph_tensor(graph, op->outputs[i]))) return false;
    }
    return present > 0;
}

/* Whether a tensor is defined in the block or around it, not inside one of its operators. */
static bool model_is_in_reach(const tn__order_build *build, tn_tensor_id id) {
    tn_block_id home = tn_graph_tensor(build->graph, id)->block, at = build->task->block;
    while (at != home && at != 0) {
        tn_op_id owner = tn_graph_block(build->graph, at)->owner;
        if (owner == TN_NONE) return false;
        at = tn_graph_op(build->graph, owner)->block;
    }
    return at == home;
}

static tn_status model_read(tn__order_build *build, uint32_t node, tn_tensor_id id, bool nested) {
    if (id == TN_NONE || (nested && !model_is_in_reach(build, id))) return TN_OK;
    return tn__order_add(build, &build->reads, node, id);
}

static tn_status model_push_blocks(tn__order_build *build, const tn_op *op, size_t *depth) {
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].type != TN_ATTR_BLOCK ||
            tn_graph_block(build->graph, op->attrs[i].block)->dead)
            continue;
        if (!tn__reserve(build->context, &build->blocks, &build->block_room, *depth + 1,
                         sizeof *build->blocks))
            return tn__no_memory(build->error, "the order of operators");
        build->blocks[(*depth)++] = op->attrs[i].block;
    }
    return TN_OK;
}

static tn_status model_read_all(tn__order_build *build, uint32_t node, const tn_op *op) {
    size_t depth = 0;
    for (uint32_t i = 0; i < op->input_count; i++)
        TN_TRY(model_read(build, node, op->inputs[i], false));
    TN_TRY(model_push_blocks(build, op, &depth));
    while (depth > 0) {
        const tn_block *block = tn_graph_block(build->graph, build->blocks[--depth]);
        for (uint32_t k = 0; k < block->op_count; k++) {
            const tn_op *inner = tn_graph_op(build->graph, block->ops[k]);
            if (tn_op_changes(build->graph, block->ops[k]) != 0) build->changes[node] = 2;
            for (uint32_t i = 0; i < inner->input_count; i++)
                TN_TRY(model_read(build, node, inner->inputs[i], true));
            TN_TRY(model_push_blocks(build, inner, &depth));
        }
        for (uint32_t i = 0; i < block->output_count; i++)
            TN_TRY(model_read(build, node, block->outputs[i], true));
    }
    return TN_OK;
}

static tn_status model_nodes(tn__order_build *build) {
    tn__order_model *model = build->model;
    const tn_block *block = tn_graph_block(build->graph, build->task->block);
    tn_op_id *ops = tn__arena_array(&model->arena, block->op_count, sizeof *ops);
    build->changes = tn__arena_array(&model->arena, block->op_count, sizeof *build->changes);
    model->scratch = tn__arena_array(&model->arena, block->op_count, sizeof *model->scratch);
    if (!ops || !build->changes || !model->scratch)
        return tn__no_memory(build->error, "the order of operators");
    model->ops = ops;
    for (uint32_t i = 0; i < block->op_count; i++) {
        const tn_op *op = tn_graph_op(build->graph, block->ops[i]);
        if (model_is_folded(build->graph, op)) continue;
        uint32_t node = model->count++;
        ops[node] = block->ops[i];
        build->changes[node] = tn_op_changes(build->graph, block->ops[i]) != 0;
        TN_TRY(tn__order_add(build, &build->ops, block->ops[i], node));
        TN_TRY(model_read_all(build, node, op));
    }
    tn__order_normalise(&build->ops);
    tn__order_normalise(&build->reads);
    return TN_OK;
}

/* --- tensors --- */

tn__order_tensor *tn__order_tensor_of(const tn__order_build *build, tn_tensor_id id) {
    uint32_t number = id == TN_NONE ? ORDER_NONE : model_find(&build->ids, id);
    return number == ORDER_NONE ? NULL : &build->tensors[number];
}

static tn_status model_collect(tn__order_build *build) {
    const tn_block *block = tn_graph_block(build->graph, build->task->block);
    tn__order_pairs *ids = &build->ids;
    for (size_t i = 0; i < build->reads.count; i++)
        TN_TRY(tn__order_add(build, ids, build->reads.data[i].b, 0));
    for (uint32_t p = 0; p < build->model->count; p++) {
        const tn_op *op = tn_graph_op(build->graph, build->model->ops[p]);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) TN_TRY(tn__order_add(build, ids, op->outputs[k], 0));
    }
    for (uint32_t i = 0; i < block->input_count; i++)
        TN_TRY(tn__order_add(build, ids, block->inputs[i], 0));
    for (uint32_t i = 0; i < block->output_count; i++)
        if (block->outputs[i] != TN_NONE) TN_TRY(tn__order_add(build, ids, block->outputs[i], 0));
    tn__order_normalise(ids);
    for (uint32_t i = 0; i < ids->count; i++) ids->data[i].b = i;
    build->tensor_count = (uint32_t)ids->count;
    build->tensors =
        tn__arena_array(&build->model->arena, build->tensor_count, sizeof *build->tensors);
    return build->tensors ? TN_OK : tn__no_memory(build->error, "the order of operators");
}

static void model_describe(tn__order_build *build) {
    const tn_block *block = tn_graph_block(build->graph, build->task->block);
    for (uint32_t i = 0; i < build->tensor_count; i++) {
        tn__order_tensor *tensor = &build->tensors[i];
        tensor->id = build->ids.data[i].a;
        const tn_tensor *facts = tn_graph_tensor(build->graph, tensor->id);
        tensor->bytes = facts->bytes == TN_SIZE_UNKNOWN ? 0 : facts->bytes;
        tensor->maker = facts->block == build->task->block && facts->producer != TN_NONE
                            ? model_find(&build->ops, facts->producer)
                            : ORDER_NONE;
        tensor->fixed = tn_tensor_is_static(facts) || facts->block != build->task->block;
        tensor->root = i;
        tensor->hi = tensor->bytes;
    }
    for (uint32_t i = 0; i < block->input_count; i++) {
        tn__order_tensor *tensor = tn__order_tensor_of(build, block->inputs[i]);
        tensor->there = true;
        if (build->task->block != 0) tensor->kept = true; /* needed until a loop's last turn */
    }
    for (uint32_t i = 0; i < block->output_count; i++) {
        tn__order_tensor *tensor = tn__order_tensor_of(build, block->outputs[i]);
        if (tensor != NULL) tensor->kept = true;
    }
}

/* --- views: as in bodies.c --- */

static bool model_view_fits(const tn__order_build *build, const tn__order_tensor *tensor,
                            const tn__order_tensor *source, tn_view view) {
    uint64_t end, alignment = build->task->memory.alignment;
    if (view.must) return true;
    if (build->task->memory.no_views || view.whole || source->whole) return false;
    if (!tn__add(view.offset, tensor->bytes, &end) || end > source->bytes) return false;
    return (source->delta + view.offset) % alignment == 0;
}

static void model_view(const tn__order_build *build, tn__order_tensor *tensor, tn_view view) {
    const tn__order_tensor *source = tn__order_tensor_of(build, view.source);
    bool fixed =
        source ? source->fixed : tn_tensor_is_static(tn_graph_tensor(build->graph, view.source));
    if (fixed) {
        if (!view.must && build->task->memory.no_views) return;
        tensor->fixed = true;
        if (source != NULL) tensor->root = source->root;
        return;
    }
    if (source == NULL || !model_view_fits(build, tensor, source, view)) return;
    uint64_t end, offset = view.whole ? 0 : view.offset;
    bool known = !view.whole && !source->whole && tn__add(offset, tensor->bytes, &end) &&
                 end <= source->bytes;
    tensor->root = source->root;
    tensor->whole = !known;
    tensor->delta = known ? source->delta + offset : source->delta;
    tensor->lo = known ? tensor->delta : source->lo;
    tensor->hi = known ? tensor->delta + tensor->bytes : source->hi;
}

static void model_views(tn__order_build *build) {
    for (uint32_t p = 0; p < build->model->count; p++) {
        tn_op_id id = build->model->ops[p];
        const tn_op *op = tn_graph_op(build->graph, id);
        if (tn__op_has_blocks(op)) continue;
        for (uint32_t k = 0; k < op->output_count; k++) {
            tn__order_tensor *tensor = tn__order_tensor_of(build, op->outputs[k]);
            if (tensor == NULL || tensor->fixed) continue;
            tn_view view = tn_op_view(build->graph, id, k);
            if (view.source != TN_NONE) model_view(build, tensor, view);
        }
    }
}

/* --- entry points --- */

void tn__order_model_release(tn__order_model *model) { tn__arena_release(&model->arena); }

static tn_status model_run(tn__order_build *build) {
    TN_TRY(model_nodes(build));
    TN_TRY(model_collect(build));
    model_describe(build);
    model_views(build);
    TN_TRY(tn__order_items(build));
    TN_TRY(tn__order_edges(build));
    return tn__order_takes(build);
}

tn_status tn__order_model_make(const tn_order_task *task, tn__order_model *model, tn_error *error) {
    const tn_context *context = tn_graph_context(task->graph);
    *model = (tn__order_model){.context = context};
    tn__arena_init(&model->arena, context);
    tn__order_build build = {
        .task = task, .model = model, .error = error, .graph = task->graph, .context = context};
    tn_status status = model_run(&build);
    tn__order_pairs *all[] = {&build.reads, &build.uses, &build.edges, &build.ids, &build.ops};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tn__free(context, all[i]->data, all[i]->room * sizeof *all[i]->data);
    tn__free(context, build.blocks, build.block_room * sizeof *build.blocks);
    return status;
}
