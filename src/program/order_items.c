/* order_items.c - splits the memory of a block into items and finds edges and takes of its
 * nodes.
 *
 * An edge orders two nodes; a take lets a node write an output over items (order.h).
 *
 * Cost: O(operands log operands). A view of a part of a tensor costs as many parts as it covers.
 */
#include "graph/attr.h"
#include "program/order_build.h"

#define ITEMS_PARTS_MAX 4096u /* a tensor with more windows than this is one item */

/* --- items: the memory of a root, cut where the windows of its views begin and end --- */

static int items_cut_order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool items_splits(const tn__order_build *build, uint32_t count) {
    return count <= ITEMS_PARTS_MAX && !build->task->whole;
}

/* Sorted offsets where the windows of the members begin and end; returns their number. */
static uint32_t items_cut(const tn__order_build *build, const tn__order_pair *members,
                          uint32_t count, uint64_t *cuts) {
    const tn__order_tensor *root = &build->tensors[members[0].a];
    uint32_t found = 2, kept = 0;
    cuts[0] = 0;
    cuts[1] = root->bytes;
    for (uint32_t i = 0; i < count && items_splits(build, count); i++) {
        const tn__order_tensor *member = &build->tensors[members[i].b];
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

/* The items of one root; its padding belongs to the last. */
static void items_make(tn__order_build *build, const tn__order_pair *members, uint32_t count,
                       uint64_t *cuts) {
    tn__order_model *model = build->model;
    const tn__order_tensor *root = &build->tensors[members[0].a];
    uint64_t aligned = UINT64_MAX; /* too large: `largest` will report the overflow */
    bool split = items_splits(build, count);
    if (root->bytes == 0) return;
    tn__align_up(root->bytes, build->task->memory.alignment, &aligned);
    uint32_t parts = items_cut(build, members, count, cuts), from = model->item_count;
    for (uint32_t i = 0; i + 1 < parts; i++)
        model->items[model->item_count++] = (tn__order_item){
            .bytes = (i + 2 < parts ? cuts[i + 1] : aligned) - cuts[i], .maker = root->maker};
    for (uint32_t i = 0; i < count; i++) {
        tn__order_tensor *member = &build->tensors[members[i].b];
        member->first_item = split ? from + items_part(cuts, parts, member->lo) : from;
        member->last_item = split ? from + items_part(cuts, parts, member->hi) : model->item_count;
        for (uint32_t k = member->first_item; k < member->last_item && member->kept; k++)
            model->items[k].kept = true;
    }
}

static tn_status items_cut_all(tn__order_build *build, tn__order_pairs *roots,
                               tn__order_pairs *members) {
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
static tn_status items_uses(tn__order_build *build) {
    tn__order_model *model = build->model;
    for (size_t i = 0; i < build->reads.count; i++) {
        const tn__order_tensor *tensor = tn__order_tensor_of(build, build->reads.data[i].b);
        for (uint32_t k = tensor->first_item; k < tensor->last_item; k++)
            TN_TRY(tn__order_add(build, &build->uses, k, build->reads.data[i].a));
    }
    tn__order_normalise(&build->uses);
    size_t count = build->uses.count;
    model->users = tn__arena_array(&model->arena, count, sizeof *model->users);
    model->used = tn__arena_array(&model->arena, count, sizeof *model->used);
    model->used_at = tn__arena_array(&model->arena, (size_t)model->count + 2, sizeof(uint32_t));
    if (!model->users || !model->used || !model->used_at)
        return tn__no_memory(build->error, "the order of operators");
    for (uint32_t i = 0; i < count; i++) {
        tn__order_pair use = build->uses.data[i];
        tn__order_item *item = &model->items[use.a];
        if (item->first == item->last) item->first = item->last = i;
        model->users[item->last++] = use.b;
        model->used_at[use.b + 2]++;
    }
    for (uint32_t p = 0; p < model->count; p++) model->used_at[p + 2] += model->used_at[p + 1];
    for (uint32_t i = 0; i < count; i++) {
        tn__order_pair use = build->uses.data[i];
        model->used[model->used_at[use.b + 1]++] = use.a;
    }
    return TN_OK;
}

/* The live bytes while inputs arrive one by one before the block, and the bytes left after the
 * block. */
static void items_floor(const tn__order_build *build) {
    tn__order_model *model = build->model;
    const tn_block *block = tn_graph_block(build->graph, build->task->block);
    uint64_t live = 0, left = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn__order_tensor *tensor = tn__order_tensor_of(build, block->inputs[i]);
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

static tn_status items_totals(tn__order_build *build) {
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

/* Visits roots in the order of their makers, those that existed before the block first, so that
 * items come sorted. */
tn_status tn__order_items(tn__order_build *build) {
    tn__order_pairs roots = {0}, members = {0};
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < build->tensor_count && status == TN_OK; i++) {
        const tn__order_tensor *tensor = &build->tensors[i];
        bool exists = !tensor->fixed && (tensor->maker != ORDER_NONE || tensor->there);
        status = tn__order_add(build, &members, tensor->root, i);
        if (status == TN_OK && tensor->root == i && exists)
            status = tn__order_add(build, &roots, tensor->maker + 1, i); /* ORDER_NONE + 1 is 0 */
    }
    tn__order_normalise(&roots);
    tn__order_normalise(&members);
    if (status == TN_OK) status = items_cut_all(build, &roots, &members);
    if (status == TN_OK) status = items_uses(build);
    if (status == TN_OK) status = items_totals(build);
    tn__free(build->context, roots.data, roots.room * sizeof *roots.data);
    tn__free(build->context, members.data, members.room * sizeof *members.data);
    return status;
}

/* --- edges --- */

/* The memory in which a tensor is written: its root. All tensors from outside the block share
 * one home, because they may be views of each other. */
static uint32_t items_home(const tn__order_build *build, const tn__order_tensor *tensor) {
    const tn_tensor *facts = tn_graph_tensor(build->graph, tensor->id);
    return facts->block == build->task->block ? tensor->root : build->tensor_count;
}

typedef struct items_watch { /* one home: its last writer, and its readers since then */
    uint32_t writer, reader; /* reader: newest entry in `chain` */
} items_watch;

static bool items_writes(const tn_graph *graph, tn_op_id id, tn_tensor_id tensor) {
    const tn_op *op = tn_graph_op(graph, id);
    uint64_t changes = tn_op_changes(graph, id);
    for (uint32_t i = 0; i < op->input_count && i < 64; i++)
        if ((changes >> i & 1) && op->inputs[i] == tensor) return true;
    return false;
}

/* Visits nodes in file order. A writer comes after all accesses since the last writer, and a
 * reader comes after the last writer. */
static tn_status items_watch_all(tn__order_build *build, items_watch *watch,
                                 tn__order_pair *chain) {
    for (uint32_t i = 0; i < build->reads.count; i++) {
        uint32_t node = build->reads.data[i].a;
        const tn__order_tensor *tensor = tn__order_tensor_of(build, build->reads.data[i].b);
        items_watch *home = &watch[items_home(build, tensor)];
        bool writes = build->changes[node] == 2 ||
                      (build->changes[node] == 1 &&
                       items_writes(build->graph, build->model->ops[node], tensor->id));
        if (home->writer != ORDER_NONE && home->writer != node)
            TN_TRY(tn__order_add(build, &build->edges, home->writer, node));
        for (uint32_t r = home->reader; writes && r != ORDER_NONE; r = chain[r].b)
            if (chain[r].a != node) TN_TRY(tn__order_add(build, &build->edges, chain[r].a, node));
        if (writes) *home = (items_watch){node, ORDER_NONE};
        chain[i] = (tn__order_pair){node, home->reader};
        home->reader = i;
    }
    return TN_OK;
}

static tn_status items_watch_writers(tn__order_build *build) {
    bool any = false;
    for (uint32_t p = 0; p < build->model->count; p++) any = any || build->changes[p] != 0;
    if (!any) return TN_OK;
    size_t homes = (size_t)build->tensor_count + 1;
    items_watch *watch = tn__alloc_array(build->context, homes, sizeof *watch);
    tn__order_pair *chain = tn__alloc_array(build->context, build->reads.count, sizeof *chain);
    for (size_t i = 0; i < homes && watch; i++) watch[i] = (items_watch){ORDER_NONE, ORDER_NONE};
    tn_status status = watch && chain ? items_watch_all(build, watch, chain)
                                      : tn__no_memory(build->error, "the order of operators");
    tn__free(build->context, watch, homes * sizeof *watch);
    tn__free(build->context, chain, build->reads.count * sizeof *chain);
    return status;
}

/* Builds the edges as lists in both directions. */
static tn_status items_link(tn__order_build *build) {
    tn__order_model *model = build->model;
    const tn__order_pairs *edges = &build->edges;
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
        model->after[i] = edges->data[i].b; /* the edges are sorted by a */
    }
    for (uint32_t p = 0; p < model->count; p++) {
        model->after_at[p + 1] += model->after_at[p];
        model->before_at[p + 2] += model->before_at[p + 1];
    }
    for (size_t i = 0; i < edges->count; i++)
        model->before[model->before_at[edges->data[i].b + 1]++] = edges->data[i].a;
    return TN_OK;
}

/* Operators that do more than compute their outputs keep the order of the file. */
static tn_status items_chain_ordered(tn__order_build *build) {
    uint32_t last = ORDER_NONE;
    for (uint32_t p = 0; p < build->model->count; p++) {
        if (!tn_op_is_ordered(build->graph, build->model->ops[p])) continue;
        if (last != ORDER_NONE) TN_TRY(tn__order_add(build, &build->edges, last, p));
        last = p;
    }
    return TN_OK;
}

tn_status tn__order_edges(tn__order_build *build) {
    for (size_t i = 0; i < build->reads.count; i++) {
        const tn__order_tensor *tensor = tn__order_tensor_of(build, build->reads.data[i].b);
        if (tensor->maker != ORDER_NONE)
            TN_TRY(tn__order_add(build, &build->edges, tensor->maker, build->reads.data[i].a));
    }
    TN_TRY(items_watch_writers(build));
    TN_TRY(items_chain_ordered(build));
    tn__order_normalise(&build->edges);
    return items_link(build);
}

/* --- in-place: as groups_choose of bodies.c, except for conditions on the order --- */

static bool items_reads_askew(const tn__order_build *build, const tn_op *op,
                              const tn__order_tensor *mine) {
    for (uint32_t i = 0; i < op->input_count; i++) {
        const tn__order_tensor *other = tn__order_tensor_of(build, op->inputs[i]);
        if (other == NULL || other == mine || other->fixed || other->root != mine->root) continue;
        bool same = other->lo == mine->lo && other->hi == mine->hi && !other->whole;
        if (other->lo < mine->hi && mine->lo < other->hi && !same) return true;
    }
    return false;
}

static bool items_may_take(const tn__order_build *build, const tn_op *op, uint32_t input,
                           const tn__order_tensor *output) {
    const tn__order_tensor *source = tn__order_tensor_of(build, op->inputs[input]);
    if (source == NULL || source->fixed || source->whole || source->bytes != output->bytes)
        return false;
    if (source->delta % build->task->memory.alignment != 0) return false;
    for (uint32_t k = source->first_item; k < source->last_item; k++)
        if (build->model->items[k].kept) return false;
    return source->first_item < source->last_item && !items_reads_askew(build, op, source);
}

static tn_status items_take(tn__order_build *build, uint32_t node, uint32_t k,
                            tn__order_pairs *takes, uint64_t mask) {
    const tn_op *op = tn_graph_op(build->graph, build->model->ops[node]);
    const tn__order_tensor *output = tn__order_tensor_of(build, op->outputs[k]);
    for (uint32_t i = 0; i < op->input_count && i < 64; i++)
        if ((mask >> i & 1) && items_may_take(build, op, i, output))
            TN_TRY(tn__order_add(build, takes, k, op->inputs[i]));
    return TN_OK;
}

static tn_status items_find_takes(tn__order_build *build, tn__order_pairs *takes) {
    tn__order_model *model = build->model;
    for (uint32_t p = 0; p < model->count; p++) {
        const tn_op *op = tn_graph_op(build->graph, model->ops[p]);
        model->take_at[p] = (uint32_t)takes->count;
        if (tn__op_has_blocks(op)) continue;
        for (uint32_t k = 0; k < op->output_count; k++) {
            const tn__order_tensor *output = tn__order_tensor_of(build, op->outputs[k]);
            bool own = output && !output->fixed && build->tensors[output->root].id == output->id;
            if (!own || output->bytes == 0) continue;
            uint64_t mask = tn_op_inplace(build->graph, model->ops[p], k);
            if (mask != 0) TN_TRY(items_take(build, p, k, takes, mask));
        }
    }
    model->take_at[model->count] = (uint32_t)takes->count;
    return TN_OK;
}

static tn_status items_store_takes(tn__order_build *build, const tn__order_pairs *takes) {
    tn__order_model *model = build->model;
    model->takes = tn__arena_array(&model->arena, takes->count, sizeof *model->takes);
    if (model->takes == NULL) return tn__no_memory(build->error, "the order of operators");
    for (size_t i = 0; i < takes->count; i++) {
        const tn__order_tensor *source = tn__order_tensor_of(build, takes->data[i].b);
        tn__order_take *take = &model->takes[i];
        *take = (tn__order_take){
            .output = takes->data[i].a, .first = source->first_item, .last = source->last_item};
        uint64_t aligned = source->bytes;
        tn__align_up(source->bytes, build->task->memory.alignment, &aligned);
        take->bytes = aligned;
    }
    return TN_OK;
}

tn_status tn__order_takes(tn__order_build *build) {
    tn__order_model *model = build->model;
    tn__order_pairs takes = {0};
    model->take_at = tn__arena_array(&model->arena, (size_t)model->count + 1, sizeof(uint32_t));
    if (model->take_at == NULL) return tn__no_memory(build->error, "the order of operators");
    tn_status status = TN_OK;
    if (build->task->memory.inplace != TN_INPLACE_NONE) status = items_find_takes(build, &takes);
    if (status == TN_OK) status = items_store_takes(build, &takes);
    tn__free(build->context, takes.data, takes.room * sizeof *takes.data);
    return status;
}
