/* model.c - builds the model of a block that order.h describes: nodes, items, edges and takes. It
 * also estimates the bytes that operators with blocks need.
 *
 * It follows liveness.c and buffers.c as far as their rules do not depend on the order: the
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
 * Cost: O(operands log operands).
 */
#include "graph/attr.h"
#include "program/order/order.h"

/* --- nodes and items of a block --------------------------------------------------------------- */

typedef struct order_tensor {
    tn_tensor_id id;
    uint32_t maker; /* the node that makes the tensor, or ORDER_NONE */
    /* the tensor that owns the memory: the tensor itself, or the source of the view */
    uint32_t root;
    uint64_t delta, lo, hi, bytes;
    bool fixed; /* the tensor has no item, because it is static or comes from outside the block */
    bool whole, kept, there;
    uint32_t first_item, last_item; /* range of the items that hold the tensor's bytes */
} order_tensor;

typedef struct order_pair {
    uint32_t a, b;
} order_pair;

typedef struct order_pairs {
    order_pair *data;
    size_t count, room;
} order_pairs;

typedef struct order_build {
    const tn_order_task *task;
    tn__order_model *model;
    tn_error *error;
    const tn_graph *graph;
    const tn_context *context;
    order_tensor *tensors; /* the block's tensors, sorted by id */
    uint32_t tensor_count;
    order_pairs reads; /* pairs (node, tensor id) for each read, sorted by node */
    order_pairs uses;  /* pairs (item, node): the node uses the item */
    order_pairs edges; /* pairs of nodes: the first must run before the second */
    /* pairs (tensor id, index in `tensors`), sorted, to find a tensor of the block */
    order_pairs ids;
    order_pairs ops;     /* pairs (operator, node), sorted, to find the node of an operator */
    tn_block_id *blocks; /* stack of nested blocks that are still to be visited */
    size_t block_room;
    /* [nodes] 1: the node writes into its input 0; 2: it writes into a tensor that its blocks
     * read */
    uint8_t *changes;
} order_build;

static tn_status order_add(order_build *build, order_pairs *pairs, uint32_t a, uint32_t b) {
    if (!tn__reserve(build->context, &pairs->data, &pairs->room, pairs->count + 1,
                     sizeof *pairs->data))
        return tn__no_memory(build->error, "the order of operators");
    pairs->data[pairs->count++] = (order_pair){a, b};
    return TN_OK;
}

static int model_pair_order(const void *a, const void *b) {
    const order_pair *x = a, *y = b;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

/* Sorts the pairs and removes duplicates. */
static void order_normalise(order_pairs *pairs) {
    size_t kept = 0;
    if (pairs->count == 0) return;
    qsort(pairs->data, pairs->count, sizeof *pairs->data, model_pair_order);
    for (size_t i = 0; i < pairs->count; i++)
        if (i == 0 || model_pair_order(&pairs->data[i], &pairs->data[i - 1]) != 0)
            pairs->data[kept++] = pairs->data[i];
    pairs->count = kept;
}

/* Finds the pair with this `a` in sorted pairs and returns its `b`; ORDER_NONE if there is no such
 * pair. */
static uint32_t model_find(const order_pairs *pairs, uint32_t a) {
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

/* Whether a tensor is defined in the block or in a block around it, rather than inside one of the
 * block's operators. */
static bool model_is_in_reach(const order_build *build, tn_tensor_id id) {
    tn_block_id home = tn_graph_tensor(build->graph, id)->block, at = build->task->block;
    while (at != home && at != 0) {
        tn_op_id owner = tn_graph_block(build->graph, at)->owner;
        if (owner == TN_NONE) return false;
        at = tn_graph_op(build->graph, owner)->block;
    }
    return at == home;
}

static tn_status model_read(order_build *build, uint32_t node, tn_tensor_id id, bool nested) {
    if (id == TN_NONE || (nested && !model_is_in_reach(build, id))) return TN_OK;
    return order_add(build, &build->reads, node, id);
}

static tn_status model_push_blocks(order_build *build, const tn_op *op, size_t *depth) {
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

static tn_status model_read_all(order_build *build, uint32_t node, const tn_op *op) {
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

static tn_status model_nodes(order_build *build) {
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
        TN_TRY(order_add(build, &build->ops, block->ops[i], node));
        TN_TRY(model_read_all(build, node, op));
    }
    order_normalise(&build->ops);
    order_normalise(&build->reads);
    return TN_OK;
}

/* --- tensors --- */

static order_tensor *order_tensor_of(const order_build *build, tn_tensor_id id) {
    uint32_t number = id == TN_NONE ? ORDER_NONE : model_find(&build->ids, id);
    return number == ORDER_NONE ? NULL : &build->tensors[number];
}

static tn_status model_collect(order_build *build) {
    const tn_block *block = tn_graph_block(build->graph, build->task->block);
    order_pairs *ids = &build->ids;
    for (size_t i = 0; i < build->reads.count; i++)
        TN_TRY(order_add(build, ids, build->reads.data[i].b, 0));
    for (uint32_t p = 0; p < build->model->count; p++) {
        const tn_op *op = tn_graph_op(build->graph, build->model->ops[p]);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) TN_TRY(order_add(build, ids, op->outputs[k], 0));
    }
    for (uint32_t i = 0; i < block->input_count; i++)
        TN_TRY(order_add(build, ids, block->inputs[i], 0));
    for (uint32_t i = 0; i < block->output_count; i++)
        if (block->outputs[i] != TN_NONE) TN_TRY(order_add(build, ids, block->outputs[i], 0));
    order_normalise(ids);
    for (uint32_t i = 0; i < ids->count; i++) ids->data[i].b = i;
    build->tensor_count = (uint32_t)ids->count;
    build->tensors =
        tn__arena_array(&build->model->arena, build->tensor_count, sizeof *build->tensors);
    return build->tensors ? TN_OK : tn__no_memory(build->error, "the order of operators");
}

static void model_describe(order_build *build) {
    const tn_block *block = tn_graph_block(build->graph, build->task->block);
    for (uint32_t i = 0; i < build->tensor_count; i++) {
        order_tensor *tensor = &build->tensors[i];
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
        order_tensor *tensor = order_tensor_of(build, block->inputs[i]);
        tensor->there = true;
        /* the block may be the body of a loop, so a tensor from outside is needed until the last
         * iteration */
        if (build->task->block != 0) tensor->kept = true;
    }
    for (uint32_t i = 0; i < block->output_count; i++) {
        order_tensor *tensor = order_tensor_of(build, block->outputs[i]);
        if (tensor != NULL) tensor->kept = true;
    }
}

/* --- views: as in liveness/buffers.c --- */

static bool model_view_fits(const order_build *build, const order_tensor *tensor,
                            const order_tensor *source, tn_view view) {
    uint64_t end, alignment = build->task->memory.alignment;
    if (view.must) return true;
    if (build->task->memory.no_views || view.whole || source->whole) return false;
    if (!tn__add(view.offset, tensor->bytes, &end) || end > source->bytes) return false;
    return (source->delta + view.offset) % alignment == 0;
}

static void model_view(const order_build *build, order_tensor *tensor, tn_view view) {
    const order_tensor *source = order_tensor_of(build, view.source);
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

static void model_views(order_build *build) {
    for (uint32_t p = 0; p < build->model->count; p++) {
        tn_op_id id = build->model->ops[p];
        const tn_op *op = tn_graph_op(build->graph, id);
        if (tn__op_has_blocks(op)) continue;
        for (uint32_t k = 0; k < op->output_count; k++) {
            order_tensor *tensor = order_tensor_of(build, op->outputs[k]);
            if (tensor == NULL || tensor->fixed) continue;
            tn_view view = tn_op_view(build->graph, id, k);
            if (view.source != TN_NONE) model_view(build, tensor, view);
        }
    }
}

/* --- entry points --- */

void tn__order_model_release(tn__order_model *model) { tn__arena_release(&model->arena); }

static tn_status order_find_items(order_build *build);
static tn_status order_edges(order_build *build);

static tn_status order_takes(order_build *build);

static tn_status model_run(order_build *build) {
    TN_TRY(model_nodes(build));
    TN_TRY(model_collect(build));
    model_describe(build);
    model_views(build);
    TN_TRY(order_find_items(build));
    TN_TRY(order_edges(build));
    return order_takes(build);
}

tn_status tn__order_model_make(const tn_order_task *task, tn__order_model *model, tn_error *error) {
    const tn_context *context = tn_graph_context(task->graph);
    *model = (tn__order_model){.context = context};
    tn__arena_init(&model->arena, context);
    order_build build = {
        .task = task, .model = model, .error = error, .graph = task->graph, .context = context};
    tn_status status = model_run(&build);
    order_pairs *all[] = {&build.reads, &build.uses, &build.edges, &build.ids, &build.ops};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tn__free(context, all[i]->data, all[i]->room * sizeof *all[i]->data);
    tn__free(context, build.blocks, build.block_room * sizeof *build.blocks);
    return status;
}

/* --- items, edges and takes ------------------------------------------------------------------- */

/* Splits the memory of a block into items and finds edges and takes of its nodes.
 *
 * An edge orders two nodes; a take lets a node write an output over items (order.h).
 *
 * Cost: O(operands log operands). A view of a part of a tensor costs as many parts as it covers.
 */

#define ITEMS_PARTS_MAX 4096u /* a tensor with more windows than this is one item */

/* --- items: the memory of a root, cut where the windows of its views begin and end --- */

static int items_cut_order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool items_splits(const order_build *build, uint32_t count) {
    return count <= ITEMS_PARTS_MAX && !build->task->whole;
}

/* Writes the sorted offsets at which views of the members of one root begin and end, where the
 * root's bytes are cut into items. Returns their number. */
static uint32_t items_cut(const order_build *build, const order_pair *members, uint32_t count,
                          uint64_t *cuts) {
    const order_tensor *root = &build->tensors[members[0].a];
    uint32_t found = 2, kept = 0;
    cuts[0] = 0;
    cuts[1] = root->bytes;
    for (uint32_t i = 0; i < count && items_splits(build, count); i++) {
        const order_tensor *member = &build->tensors[members[i].b];
        if (member->lo == 0 && member->hi == root->bytes) continue;
        cuts[found++] = member->lo;
        cuts[found++] = member->hi;
    }
    if (found > 2) qsort(cuts, found, sizeof *cuts, items_cut_order);
    for (uint32_t i = 0; i < found; i++)
        if (i == 0 || cuts[i] != cuts[kept - 1]) cuts[kept++] = cuts[i];
    return kept;
}

static uint32_t items_part(const uint64_t *cuts, uint32_t count, uint64_t at) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cuts[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes the items of one root, and finds those of each member. Padding after the tensor belongs to
 * the last item. */
static void items_make(order_build *build, const order_pair *members, uint32_t count,
                       uint64_t *cuts) {
    tn__order_model *model = build->model;
    const order_tensor *root = &build->tensors[members[0].a];
    /* if rounding up overflows, the item gets the maximum size, and computing `largest` reports the
     * error */
    uint64_t aligned = UINT64_MAX;
    bool split = items_splits(build, count);
    if (root->bytes == 0) return;
    tn__align_up(root->bytes, build->task->memory.alignment, &aligned);
    uint32_t parts = items_cut(build, members, count, cuts), from = model->item_count;
    for (uint32_t i = 0; i + 1 < parts; i++)
        model->items[model->item_count++] = (tn__order_item){
            .bytes = (i + 2 < parts ? cuts[i + 1] : aligned) - cuts[i], .maker = root->maker};
    for (uint32_t i = 0; i < count; i++) {
        order_tensor *member = &build->tensors[members[i].b];
        member->first_item = split ? from + items_part(cuts, parts, member->lo) : from;
        member->last_item = split ? from + items_part(cuts, parts, member->hi) : model->item_count;
        for (uint32_t k = member->first_item; k < member->last_item && member->kept; k++)
            model->items[k].kept = true;
    }
}

static tn_status items_cut_all(order_build *build, order_pairs *roots, order_pairs *members) {
    size_t parts = 2 * members->count + 2;
    build->model->items =
        tn__arena_array(&build->model->arena, 3 * members->count + 1, sizeof(tn__order_item));
    uint32_t *start = tn__arena_array(&build->model->arena, build->tensor_count + 1, sizeof *start);
    uint64_t *cuts = tn__alloc_array(build->context, parts, sizeof *cuts);
    bool all = build->model->items != NULL && start != NULL && cuts != NULL;
    for (size_t i = 0; i < members->count && all; i++) start[members->data[i].a + 1]++;
    for (uint32_t i = 0; i < build->tensor_count && all; i++) start[i + 1] += start[i];
    for (size_t r = 0; r < roots->count && all; r++) {
        uint32_t root = roots->data[r].b;
        items_make(build, members->data + start[root], start[root + 1] - start[root], cuts);
    }
    tn__free(build->context, cuts, parts * sizeof *cuts);
    return all ? TN_OK : tn__no_memory(build->error, "the order of operators");
}

/* Builds the lists of users by item and of items by user. */
static tn_status items_uses(order_build *build) {
    tn__order_model *model = build->model;
    for (size_t i = 0; i < build->reads.count; i++) {
        const order_tensor *tensor = order_tensor_of(build, build->reads.data[i].b);
        for (uint32_t k = tensor->first_item; k < tensor->last_item; k++)
            TN_TRY(order_add(build, &build->uses, k, build->reads.data[i].a));
    }
    order_normalise(&build->uses);
    size_t count = build->uses.count;
    model->users = tn__arena_array(&model->arena, count, sizeof *model->users);
    model->used = tn__arena_array(&model->arena, count, sizeof *model->used);
    model->used_at = tn__arena_array(&model->arena, (size_t)model->count + 2, sizeof(uint32_t));
    if (!model->users || !model->used || !model->used_at)
        return tn__no_memory(build->error, "the order of operators");
    for (uint32_t i = 0; i < count; i++) {
        order_pair use = build->uses.data[i];
        tn__order_item *item = &model->items[use.a];
        if (item->first == item->last) item->first = item->last = i;
        model->users[item->last++] = use.b;
        model->used_at[use.b + 2]++;
    }
    for (uint32_t p = 0; p < model->count; p++) model->used_at[p + 2] += model->used_at[p + 1];
    for (uint32_t i = 0; i < count; i++) {
        order_pair use = build->uses.data[i];
        model->used[model->used_at[use.b + 1]++] = use.a;
    }
    return TN_OK;
}

/* Computes a lower bound of every order's peak: the live bytes while inputs arrive one by one
 * before the block, and the bytes that are left after the block. */
static void items_floor(const order_build *build) {
    tn__order_model *model = build->model;
    const tn_block *block = tn_graph_block(build->graph, build->task->block);
    uint64_t live = 0, left = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        const order_tensor *tensor = order_tensor_of(build, block->inputs[i]);
        for (uint32_t k = tensor->first_item; k < tensor->last_item; k++) {
            const tn__order_item *item = &model->items[k];
            uint64_t now = tn__add_sat(live, item->bytes);
            if (now > model->floor) model->floor = now;
            if (item->kept || item->first < item->last) live = now;
        }
    }
    for (uint32_t i = 0; i < model->item_count; i++)
        if (model->items[i].kept) left = tn__add_sat(left, model->items[i].bytes);
    if (left > model->floor) model->floor = left;
}

static tn_status items_totals(order_build *build) {
    tn__order_model *model = build->model;
    model->made_at = tn__arena_array(&model->arena, (size_t)model->count + 1, sizeof(uint32_t));
    if (model->made_at == NULL) return tn__no_memory(build->error, "the order of operators");
    uint32_t at = 0;
    for (; at < model->item_count && model->items[at].maker == ORDER_NONE; at++) {
        const tn__order_item *item = &model->items[at];
        if (item->kept || item->first < item->last)
            model->start = tn__add_sat(model->start, item->bytes);
    }
    for (uint32_t p = 0; p < model->count; p++) {
        model->made_at[p] = at;
        while (at < model->item_count && model->items[at].maker == p) at++;
    }
    model->made_at[model->count] = at;
    items_floor(build);
    for (uint32_t i = 0; i < model->item_count; i++)
        model->largest = tn__add_sat(model->largest, model->items[i].bytes);
    for (uint32_t p = 0; p < model->count; p++) {
        uint64_t aligned = UINT64_MAX;
        uint64_t workspace =
            tn__workspace(build->graph, &build->task->memory, model->ops[p], false);
        uint64_t inner = build->task->inner ? build->task->inner[model->ops[p]] : 0;
        tn__align_up(workspace, build->task->memory.alignment, &aligned);
        model->scratch[p] = tn__add_sat(aligned, inner);
        model->largest = tn__add_sat(model->largest, model->scratch[p]);
    }
    return TN_OK;
}

/* Makes the items of all roots, and finds their users. Roots that existed before the block come
 * first, then roots in the order of their makers, so that the items are sorted by maker. */
static tn_status order_find_items(order_build *build) {
    order_pairs roots = {0}, members = {0};
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < build->tensor_count && status == TN_OK; i++) {
        const order_tensor *tensor = &build->tensors[i];
        bool exists = !tensor->fixed && (tensor->maker != ORDER_NONE || tensor->there);
        status = order_add(build, &members, tensor->root, i);
        if (status == TN_OK && tensor->root == i && exists)
            /* sorts by maker; ORDER_NONE + 1 wraps to 0, so roots without a maker come first */
            status = order_add(build, &roots, tensor->maker + 1, i);
    }
    order_normalise(&roots);
    order_normalise(&members);
    if (status == TN_OK) status = items_cut_all(build, &roots, &members);
    if (status == TN_OK) status = items_uses(build);
    if (status == TN_OK) status = items_totals(build);
    tn__free(build->context, roots.data, roots.room * sizeof *roots.data);
    tn__free(build->context, members.data, members.room * sizeof *members.data);
    return status;
}

/* --- edges --- */

/* Returns the memory (an index) to which accesses of a tensor are ordered: that of its root. All
 * tensors from outside the block count as one memory, because they may be views of each other. */
static uint32_t items_home(const order_build *build, const order_tensor *tensor) {
    const tn_tensor *facts = tn_graph_tensor(build->graph, tensor->id);
    return facts->block == build->task->block ? tensor->root : build->tensor_count;
}

/* for one memory: the last node that wrote into it, and the nodes that have read it since */
typedef struct items_watch {
    /* reader: index in the list `chain` of the newest node that has read the memory */
    uint32_t writer, reader;
} items_watch;

static bool items_writes(const tn_graph *graph, tn_op_id id, tn_tensor_id tensor) {
    const tn_op *op = tn_graph_op(graph, id);
    uint64_t changes = tn_op_changes(graph, id);
    for (uint32_t i = 0; i < op->input_count && i < 64; i++)
        if ((changes >> i & 1) && op->inputs[i] == tensor) return true;
    return false;
}

/* Adds the edges between writers and readers of each memory, visiting nodes in file order. A writer
 * comes after all accesses since the last writer, and a reader comes after the last writer. */
static tn_status items_watch_all(order_build *build, items_watch *watch, order_pair *chain) {
    for (uint32_t i = 0; i < build->reads.count; i++) {
        uint32_t node = build->reads.data[i].a;
        const order_tensor *tensor = order_tensor_of(build, build->reads.data[i].b);
        items_watch *home = &watch[items_home(build, tensor)];
        bool writes = build->changes[node] == 2 ||
                      (build->changes[node] == 1 &&
                       items_writes(build->graph, build->model->ops[node], tensor->id));
        if (home->writer != ORDER_NONE && home->writer != node)
            TN_TRY(order_add(build, &build->edges, home->writer, node));
        for (uint32_t r = home->reader; writes && r != ORDER_NONE; r = chain[r].b)
            if (chain[r].a != node) TN_TRY(order_add(build, &build->edges, chain[r].a, node));
        if (writes) *home = (items_watch){node, ORDER_NONE};
        chain[i] = (order_pair){node, home->reader};
        home->reader = i;
    }
    return TN_OK;
}

static tn_status items_watch_writers(order_build *build) {
    bool any = false;
    for (uint32_t p = 0; p < build->model->count; p++) any = any || build->changes[p] != 0;
    if (!any) return TN_OK;
    size_t homes = (size_t)build->tensor_count + 1;
    items_watch *watch = tn__alloc_array(build->context, homes, sizeof *watch);
    order_pair *chain = tn__alloc_array(build->context, build->reads.count, sizeof *chain);
    for (size_t i = 0; i < homes && watch; i++) watch[i] = (items_watch){ORDER_NONE, ORDER_NONE};
    tn_status status = watch && chain ? items_watch_all(build, watch, chain)
                                      : tn__no_memory(build->error, "the order of operators");
    tn__free(build->context, watch, homes * sizeof *watch);
    tn__free(build->context, chain, build->reads.count * sizeof *chain);
    return status;
}

/* Builds the edges as lists in both directions. */
static tn_status items_link(order_build *build) {
    tn__order_model *model = build->model;
    const order_pairs *edges = &build->edges;
    size_t nodes = (size_t)model->count + 2;
    model->before_at = tn__arena_array(&model->arena, nodes, sizeof(uint32_t));
    model->after_at = tn__arena_array(&model->arena, nodes, sizeof(uint32_t));
    model->before = tn__arena_array(&model->arena, edges->count, sizeof(uint32_t));
    model->after = tn__arena_array(&model->arena, edges->count, sizeof(uint32_t));
    if (!model->before_at || !model->after_at || !model->before || !model->after)
        return tn__no_memory(build->error, "the order of operators");
    for (size_t i = 0; i < edges->count; i++) {
        model->after_at[edges->data[i].a + 1]++;
        model->before_at[edges->data[i].b + 2]++;
        model->after[i] = edges->data[i].b; /* the edges are sorted by their first node */
    }
    for (uint32_t p = 0; p < model->count; p++) {
        model->after_at[p + 1] += model->after_at[p];
        model->before_at[p + 2] += model->before_at[p + 1];
    }
    for (size_t i = 0; i < edges->count; i++)
        model->before[model->before_at[edges->data[i].b + 1]++] = edges->data[i].a;
    return TN_OK;
}

/* Adds edges so that operators with effects other than their outputs keep the order of the file. */
static tn_status items_chain_ordered(order_build *build) {
    uint32_t last = ORDER_NONE;
    for (uint32_t p = 0; p < build->model->count; p++) {
        if (!tn_op_is_ordered(build->graph, build->model->ops[p])) continue;
        if (last != ORDER_NONE) TN_TRY(order_add(build, &build->edges, last, p));
        last = p;
    }
    return TN_OK;
}

static tn_status order_edges(order_build *build) {
    for (size_t i = 0; i < build->reads.count; i++) {
        const order_tensor *tensor = order_tensor_of(build, build->reads.data[i].b);
        if (tensor->maker != ORDER_NONE)
            TN_TRY(order_add(build, &build->edges, tensor->maker, build->reads.data[i].a));
    }
    TN_TRY(items_watch_writers(build));
    TN_TRY(items_chain_ordered(build));
    order_normalise(&build->edges);
    return items_link(build);
}

/* --- in-place: as buffers_choose of liveness/buffers.c, except for conditions on the order --- */

static bool items_reads_askew(const order_build *build, const tn_op *op, const order_tensor *mine) {
    for (uint32_t i = 0; i < op->input_count; i++) {
        const order_tensor *other = order_tensor_of(build, op->inputs[i]);
        if (other == NULL || other == mine || other->fixed || other->root != mine->root) continue;
        bool same = other->lo == mine->lo && other->hi == mine->hi && !other->whole;
        if (other->lo < mine->hi && mine->lo < other->hi && !same) return true;
    }
    return false;
}

static bool items_may_take(const order_build *build, const tn_op *op, uint32_t input,
                           const order_tensor *output) {
    const order_tensor *source = order_tensor_of(build, op->inputs[input]);
    if (source == NULL || source->fixed || source->whole || source->bytes != output->bytes)
        return false;
    if (source->delta % build->task->memory.alignment != 0) return false;
    for (uint32_t k = source->first_item; k < source->last_item; k++)
        if (build->model->items[k].kept) return false;
    return source->first_item < source->last_item && !items_reads_askew(build, op, source);
}

static tn_status items_take(order_build *build, uint32_t node, uint32_t k, order_pairs *takes,
                            uint64_t mask) {
    const tn_op *op = tn_graph_op(build->graph, build->model->ops[node]);
    const order_tensor *output = order_tensor_of(build, op->outputs[k]);
    for (uint32_t i = 0; i < op->input_count && i < 64; i++)
        if ((mask >> i & 1) && items_may_take(build, op, i, output))
            TN_TRY(order_add(build, takes, k, op->inputs[i]));
    return TN_OK;
}

static tn_status items_find_takes(order_build *build, order_pairs *takes) {
    tn__order_model *model = build->model;
    for (uint32_t p = 0; p < model->count; p++) {
        const tn_op *op = tn_graph_op(build->graph, model->ops[p]);
        model->take_at[p] = (uint32_t)takes->count;
        if (tn__op_has_blocks(op)) continue;
        for (uint32_t k = 0; k < op->output_count; k++) {
            const order_tensor *output = order_tensor_of(build, op->outputs[k]);
            bool own = output && !output->fixed && build->tensors[output->root].id == output->id;
            if (!own || output->bytes == 0) continue;
            uint64_t mask = tn_op_inplace(build->graph, model->ops[p], k);
            if (mask != 0) TN_TRY(items_take(build, p, k, takes, mask));
        }
    }
    model->take_at[model->count] = (uint32_t)takes->count;
    return TN_OK;
}

static tn_status items_store_takes(order_build *build, const order_pairs *takes) {
    tn__order_model *model = build->model;
    model->takes = tn__arena_array(&model->arena, takes->count, sizeof *model->takes);
    if (model->takes == NULL) return tn__no_memory(build->error, "the order of operators");
    for (size_t i = 0; i < takes->count; i++) {
        const order_tensor *source = order_tensor_of(build, takes->data[i].b);
        tn__order_take *take = &model->takes[i];
        *take = (tn__order_take){
            .output = takes->data[i].a, .first = source->first_item, .last = source->last_item};
        uint64_t aligned = source->bytes;
        tn__align_up(source->bytes, build->task->memory.alignment, &aligned);
        take->bytes = aligned;
    }
    return TN_OK;
}

static tn_status order_takes(order_build *build) {
    tn__order_model *model = build->model;
    order_pairs takes = {0};
    model->take_at = tn__arena_array(&model->arena, (size_t)model->count + 1, sizeof(uint32_t));
    if (model->take_at == NULL) return tn__no_memory(build->error, "the order of operators");
    tn_status status = TN_OK;
    if (build->task->memory.inplace != TN_INPLACE_NONE) status = items_find_takes(build, &takes);
    if (status == TN_OK) status = items_store_takes(build, &takes);
    tn__free(build->context, takes.data, takes.room * sizeof *takes.data);
    return status;
}

/* --- bytes inside operators with blocks ------------------------------------------------------- */

/* Estimates the bytes that operators with blocks need while they run.
 *
 * The estimate is the worst step of the worst block, each block in file order, innermost blocks
 * first. It is not exact: the blocks are reordered later, too, and a branch may free early a
 * tensor that it reads from outside. The final orders are compared on the whole program.
 *
 * Cost: O(operands log operands) times the depth of nested blocks.
 */

typedef struct inner_block {
    uint32_t depth;
    tn_block_id block;
} inner_block;

/* sorts blocks so that the deepest come first */
static int inner_order(const void *a, const void *b) {
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

/* Computes the most live bytes over all steps of one block in file order. */
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
