/* price.c - computes live bytes and operations of a graph without tiles, and of a region in tiles
 * without building its graph.
 *
 * Views, in-place outputs, joins, and copies of parts that are not contiguous are counted as a plan
 * counts them. The numbers only guide the search; reports on a split graph use its own layout.
 *
 * All regions that end at one operator share their last operators. Elements, bytes and copies of an
 * operator depend only on later operators, and are counted once for each number of tiles. There is
 * one exception: whether an operand exists in tiles is known only when the operator that makes it
 * joins the region. The copies of its readers are then counted again. A price results from one walk
 * over the bytes of a few tiles.
 *
 * Cost: O(operands * tiles) for each operator of a window and number of tiles, O(operands) for a
 * price.
 */
#include "fit/split/price.h"

#include "graph/takes.h"

/* One of the tiles that are examined. */
typedef struct price_part {
    const split_pricer *pricer;
    price_table *table;
    const uint32_t *part; /* number of the tile along each cut */
    price_tensor *tensors;
    price_step *steps;
} price_part;

/* --- the unsplit graph, place by place -------------------------------------------------------- */

/* Computes shared memory, live bytes and operations at each place of a graph without tiles. (A
 * place is the position of an operator in the order.)
 *
 * Views and in-place outputs are counted as a plan counts them. The numbers only guide the search;
 * reports on a split graph use its own layout.
 *
 * Cost: O(tensors + operands).
 */

uint64_t tn__split_bytes(const tn_tensor *tensor) {
    if (tn_tensor_is_static(tensor) || tensor->bytes == TN_SIZE_UNKNOWN) return 0;
    return tensor->bytes;
}

static void model_live_from(split_model *model, tn_tensor_id id, uint32_t place) {
    const tn_tensor *tensor = tn_graph_tensor(model->order.graph, id);
    uint32_t last = model->order.last[id];
    model->lives[id] =
        (split_life){id, place, last == TN_NONE ? place : last, tn__split_bytes(tensor)};
}

/* Finds the input whose memory output 0 of an operator uses: as a view, or by writing over an input
 * that nothing else reads later. */
static void model_alias(split_model *model, uint32_t place) {
    const tn_graph *graph = model->order.graph;
    tn_op_id id = model->order.ops[place];
    const tn_op *op = tn_graph_op(graph, id);
    tn_view view = tn_op_view(graph, id, 0);
    uint64_t mask = tn_op_inplace(graph, id, 0);
    model->alias[place] = TN_NONE;
    if (model->copies && strcmp(op->domain, "tflite") == 0) return;
    for (uint32_t i = 0; i < op->input_count && i < 64; i++) {
        tn_tensor_id input = op->inputs[i];
        if (input == TN_NONE || tn_tensor_is_static(tn_graph_tensor(graph, input))) continue;
        bool seen = input == view.source;
        const split_life *root = &model->lives[model->lives[input].root];
        bool over = (mask >> i & 1) && root->last == place && model->order.last[input] == place;
        if (!seen && !over) continue;
        model->alias[place] = i;
        model->is_view[place] = seen;
        return;
    }
}

static void model_define(split_model *model, uint32_t place) {
    const tn_op *op = tn_graph_op(model->order.graph, model->order.ops[place]);
    model_alias(model, place);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id id = op->outputs[k];
        if (id == TN_NONE) continue;
        model_live_from(model, id, place);
        if (k > 0 || model->alias[place] == TN_NONE) continue;
        tn_tensor_id root = model->lives[op->inputs[model->alias[place]]].root;
        model->lives[id].root = root;
        if (model->lives[id].last > model->lives[root].last)
            model->lives[root].last = model->lives[id].last;
    }
}

static uint64_t model_scratch(const split_model *model, tn_op_id id) {
    return model->scratch != NULL ? model->scratch[id] : tn_op_workspace(model->order.graph, id);
}

/* Whether a tensor has memory of its own. *from: the first place before which it exists. */
static bool model_is_root(const split_model *model, tn_tensor_id id, uint32_t *from) {
    const split_life *life = &model->lives[id];
    if (life->root != id || life->first == TN_NONE) return false;
    /* inputs of the graph exist before all places */
    bool is_input = tn_graph_tensor(model->order.graph, id)->producer == TN_NONE;
    *from = is_input ? 0 : life->first + 1;
    return true;
}

/* Lists the tensors with memory of their own by the place that makes them. */
static void model_fill_roots(void *self, tn__lists *roots) {
    const split_model *model = self;
    uint32_t tensors = tn_graph_tensor_count(model->order.graph), from;
    for (tn_tensor_id id = 0; id < tensors; id++)
        if (model_is_root(model, id, &from) && from > 0) tn__lists_add(roots, from - 1, id);
}

/* Computes the live bytes at each place, and those that are live from before it until after it,
 * from the first and last places of live ranges. Sums beyond 64 bits wrap around. */
static tn_status model_sum(split_model *model, tn__arena *arena, tn_error *error) {
    uint32_t places = model->order.op_count, from;
    uint64_t *change = tn__arena_array(arena, (size_t)places + 2, sizeof *change), now = 0;
    uint64_t *behind = tn__arena_array(arena, (size_t)places + 2, sizeof *behind), later = 0;
    if (change == NULL || behind == NULL) return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(model->order.graph); id++) {
        const split_life *life = &model->lives[id];
        if (!model_is_root(model, id, &from)) continue;
        change[life->first] += life->bytes;
        if (life->last < places) change[life->last + 1] -= life->bytes;
        if (from >= life->last) continue;
        behind[from] += life->bytes;
        behind[life->last] -= life->bytes;
    }
    for (uint32_t p = 0; p < places; p++) {
        now += change[p];
        later += behind[p];
        model->live[p] = tn__add_sat(now, model_scratch(model, model->order.ops[p]));
        model->behind[p] = later;
    }
    return TN_OK;
}

void tn__split_across(split_model *model, uint32_t first, uint32_t last) {
    uint64_t bytes = model->behind[last];
    model->across_last = last;
    model->across[last] = bytes;
    for (uint32_t p = last; p-- > first;) { /* tensors that place p makes do not exist before it */
        for (uint32_t i = model->roots.first[p]; i < model->roots.first[p + 1]; i++) {
            const split_life *life = &model->lives[model->roots.items[i]];
            if (life->last > last) bytes -= life->bytes;
        }
        model->across[p] = bytes;
    }
}

/* Counts the operations at each place. The search compares operations, not times
 * (tn__work_added). */
static void model_count(split_model *model) {
    for (uint32_t p = 0; p < model->order.op_count; p++) {
        tn_op_id id = model->order.ops[p];
        bool runs = tn__op_runs(model->order.graph, id);
        uint64_t flops = tn_op_cost(model->order.graph, id).flops;
        model->flops[p] = !runs || flops == TN_SIZE_UNKNOWN ? 0 : flops;
        model->work = tn__add_sat(model->work, model->flops[p]);
    }
}

tn_status tn__split_model(const tn_graph *graph, const tn_split_options *options, tn__arena *arena,
                          split_model *model, tn_error *error) {
    *model = (split_model){.scratch = options->workspaces,
                           .copies = options->copies,
                           .kept = options->kept,
                           .move_kept = options->move_kept};
    TN_TRY(tn__split_order(graph, arena, &model->order, error));
    size_t tensors = tn_graph_tensor_count(graph), places = (size_t)model->order.op_count + 1;
    model->lives = tn__arena_array(arena, tensors + 1, sizeof *model->lives);
    model->live = tn__arena_array(arena, places, sizeof *model->live);
    model->flops = tn__arena_array(arena, places, sizeof *model->flops);
    model->alias = tn__arena_array(arena, places, sizeof *model->alias);
    model->is_view = tn__arena_array(arena, places, sizeof *model->is_view);
    model->across = tn__arena_array(arena, places + 1, sizeof *model->across);
    model->behind = tn__arena_array(arena, places + 1, sizeof *model->behind);
    if (model->across == NULL || model->lives == NULL || model->live == NULL ||
        model->flops == NULL || model->alias == NULL || model->is_view == NULL ||
        model->behind == NULL)
        return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tensors; id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        model->lives[id] = (split_life){.root = id, .first = TN_NONE};
        if (tensor->block == 0 && tensor->producer == TN_NONE) model_live_from(model, id, 0);
    }
    for (uint32_t p = 0; p < model->order.op_count; p++) model_define(model, p);
    model_count(model);
    if (!tn__lists_make(&model->roots, model->order.op_count, arena, model_fill_roots, model))
        return tn__no_memory(error, "a split graph");
    return model_sum(model, arena, error);
}

/* --- tables: one for each number of tiles ----------------------------------------------------- */

/* Counts elements, bytes and copies of each operator of a window for one number of tiles.
 *
 * All of these depend only on later operators, with one exception: an operand is known to exist in
 * tiles only when the operator that makes it joins the region. Until then, a tile is assumed to
 * take its elements from the whole operand; afterwards its copies are counted again.
 *
 * Cost: O(operands * tiles) for each operator.
 */

/* Whether a tile is examined: the first, the second, a middle and the last tile differ; the others
 * are like the middle one. */
static bool price_is_seen(uint32_t part, uint32_t parts) {
    return part < 2 || part == parts / 2 || part + 2 > parts;
}

static void price_use(split_pricer *pricer, const price_table *table) {
    split_region *region = pricer->region;
    for (uint32_t c = 0; c < TN_SPLIT_AXES; c++) {
        region->parts[c] = table->parts[c];
        region->need[c] = table->need[c];
        region->made[c] = table->made[c];
    }
}

/* Makes a table for a number of tiles, in which no operator is counted yet. Errors: E_NO_MEMORY. */
static tn_status price_make_table(split_pricer *pricer, const uint32_t *parts, price_table **made,
                                  tn_error *error) {
    split_region *region = pricer->region;
    tn__arena *arena = &region->arena;
    price_table *table = tn__arena_array(arena, 1, sizeof *table);
    if (table == NULL) return tn__no_memory(error, "a split graph");
    table->at = region->op_count;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        size_t count = (size_t)region->made_count * parts[c] + 1;
        table->parts[c] = parts[c];
        table->need[c] = tn__arena_array(arena, count, sizeof *table->need[c]);
        table->made[c] = tn__arena_array(arena, count, sizeof *table->made[c]);
        if (table->need[c] == NULL || table->made[c] == NULL)
            return tn__no_memory(error, "a split graph");
    }
    uint32_t across = region->axis_count > 1 ? parts[1] : 1;
    for (uint32_t a = 0; a < parts[0]; a++)
        for (uint32_t b = 0; b < across; b++) {
            if (!price_is_seen(a, parts[0]) || !price_is_seen(b, across)) continue;
            table->part[table->seen][0] = a;
            table->part[table->seen++][1] = b;
        }
    table->tensors = tn__arena_array(arena, (size_t)table->seen * region->made_count + 1,
                                     sizeof *table->tensors);
    table->steps =
        tn__arena_array(arena, (size_t)table->seen * region->op_count + 1, sizeof *table->steps);
    if (table->tensors == NULL || table->steps == NULL)
        return tn__no_memory(error, "a split graph");
    *made = table;
    return TN_OK;
}

static price_part price_part_of(const split_pricer *pricer, price_table *table, uint32_t seen) {
    const split_region *region = pricer->region;
    return (price_part){.pricer = pricer,
                        .table = table,
                        .part = table->part[seen],
                        .tensors = table->tensors + (size_t)seen * region->made_count,
                        .steps = table->steps + (size_t)seen * region->op_count};
}

/* Whether a range of elements along an axis is contiguous in memory. */
static bool price_is_piece(const tn_tensor *tensor, uint32_t axis) {
    for (uint32_t i = 0; i < tensor->rank && tn__memory_axis(tensor, i) != axis; i++)
        if (tensor->shape[tn__memory_axis(tensor, i)] != 1) return false;
    return true;
}

/* Returns the bytes of a tensor with `extents` elements along the cuts. */
static uint64_t price_bytes(const split_pricer *pricer, uint32_t tensor, const int64_t *extents) {
    const split_region *region = pricer->region;
    const split_tensor *at = &region->tensors[tensor];
    const tn_tensor *whole = tn__price_whole(pricer, tensor);
    uint64_t bytes = tn__split_bytes(whole);
    for (uint32_t c = 0; c < region->axis_count; c++)
        if (at->axis[c] != TN_NONE && whole->shape[at->axis[c]] > 0)
            bytes = bytes / (uint64_t)whole->shape[at->axis[c]] * (uint64_t)extents[c];
    return bytes;
}

static void price_extents(const price_part *part, uint32_t tensor, bool made, int64_t *extents) {
    const split_region *region = part->pricer->region;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        split_span span = made ? *tn__split_made(region, c, part->part[c], tensor)
                               : *tn__split_need(region, c, part->part[c], tensor);
        extents[c] = span.last > span.first ? span.last - span.first : 0;
    }
}

/* Whether an operand exists in tiles, and the table has already counted the operator that makes
 * it. */
static bool price_is_cut(const price_part *part, uint32_t tensor) {
    const split_region *region = part->pricer->region;
    return tn__split_is_cut(region, tensor) && region->tensors[tensor].maker >= part->table->at;
}

/* Returns the bytes that a tile reads of one operand. *copies: the elements must be copied first,
 * because they are not contiguous. */
static uint64_t price_operand(const price_part *part, uint32_t at, uint32_t input, bool *copies) {
    const split_region *region = part->pricer->region;
    const tn_op *op = tn__price_op(part->pricer, at);
    const tn_tensor *whole = tn_graph_tensor(region->graph, op->inputs[input]);
    uint32_t tensor = tn__split_local(region, op->inputs[input]);
    bool cut = price_is_cut(part, tensor), piece = true, all = true;
    uint64_t taken = whole->bytes == TN_SIZE_UNKNOWN ? 0 : whole->bytes;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        tn__tile wanted;
        tn__need need;
        if (!tn__split_part_need(region, at, input, c, part->part[c], &wanted, &need) ||
            need.axis == TN_NONE)
            continue;
        split_span have = {0, whole->shape[need.axis]};
        if (cut) have = *tn__split_need(region, c, part->part[c], tensor);
        bool same = need.first == have.first && need.last == have.last;
        if (same && !cut) continue;
        if (whole->shape[need.axis] > 0)
            taken = taken / (uint64_t)whole->shape[need.axis] * (uint64_t)(need.last - need.first);
        if (same) continue;
        all = false;
        piece = piece && price_is_piece(whole, need.axis);
    }
    *copies = !all && (!piece || part->pricer->model->copies);
    return taken;
}

/* Counts the reads and copies of one tile of an operator; replaces the previous count. */
static void price_count_step(const price_part *part, uint32_t at) {
    const tn_op *op = tn__price_op(part->pricer, at);
    price_table *table = part->table;
    price_step *step = &part->steps[at], before = *step;
    if (!step->any) return;
    step->copied = step->read = step->moves = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        bool copies;
        if (op->inputs[i] == TN_NONE) continue;
        uint64_t taken = price_operand(part, at, i, &copies);
        step->read = tn__add_sat(step->read, taken);
        if (!copies) continue;
        step->copied = tn__add_sat(step->copied, taken);
        step->moves++;
    }
    table->bytes_read += step->read - before.read;
    table->moved += 2 * (step->copied - before.copied);
    table->moves += step->moves - before.moves;
}

/* Returns the bytes of a tensor that are kept for the next tile. */
static uint64_t price_kept(const price_part *part, uint32_t tensor) {
    const split_region *region = part->pricer->region;
    uint32_t at = part->part[0];
    if (!region->keep || at + 1 >= region->parts[0]) return 0;
    split_span next = *tn__split_need(region, 0, at + 1, tensor);
    split_span made = *tn__split_made(region, 0, at + 1, tensor);
    int64_t end = made.first < made.last ? made.first : next.last, extent = end - next.first;
    return extent > 0 ? price_bytes(part->pricer, tensor, &extent) : 0;
}

static void price_count_result(const price_part *part, uint32_t tensor) {
    const split_pricer *pricer = part->pricer;
    const split_region *region = pricer->region;
    price_table *table = part->table;
    price_tensor *size = &part->tensors[tensor];
    int64_t need[TN_SPLIT_AXES], made[TN_SPLIT_AXES];
    price_extents(part, tensor, false, need);
    price_extents(part, tensor, true, made);
    size->need = price_bytes(pricer, tensor, need);
    size->made = price_bytes(pricer, tensor, made);
    bool joins = region->keep && need[0] > made[0] &&
                 !price_is_piece(tn__price_whole(pricer, tensor), region->tensors[tensor].axis[0]);
    size->joins = joins ? tn__add_sat(size->need, size->made) : 0;
    if (!region->tensors[tensor].read) return;
    size->kept = price_kept(part, tensor);
    table->moved += 3 * size->kept;
    table->halo += size->kept;
    table->moves += size->kept > 0 ? 2 : 0;
}

/* Returns the operations that all tiles of an operator need in addition to those of the whole
 * operator. */
static double price_extra(const split_pricer *pricer, uint32_t at) {
    const split_region *region = pricer->region;
    uint32_t t = tn__split_result(region, at);
    double times = 1;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        int64_t sum = 0, extent = tn__price_whole(pricer, t)->shape[region->tensors[t].axis[c]];
        for (uint32_t p = 0; p < region->parts[c]; p++) {
            split_span made = *tn__split_made(region, c, p, t);
            if (made.last > made.first) sum += made.last - made.first;
        }
        times *= (double)sum / (double)extent;
    }
    return times > 1 ? (times - 1) * (double)pricer->model->flops[pricer->first + at] : 0;
}

static void price_count_op(const split_pricer *pricer, price_table *table, uint32_t at) {
    const split_region *region = pricer->region;
    const tn_op *op = tn__price_op(pricer, at);
    table->at = at;
    table->extra += price_extra(pricer, at);
    for (uint32_t s = 0; s < table->seen; s++) {
        price_part part = price_part_of(pricer, table, s);
        int64_t made[TN_SPLIT_AXES];
        bool any = true;
        price_extents(&part, tn__split_result(region, at), true, made);
        for (uint32_t c = 0; c < region->axis_count; c++) any = any && made[c] > 0;
        part.steps[at].any = any;
        price_count_step(&part, at);
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (op->outputs[k] == TN_NONE) continue;
            uint32_t tensor = tn__split_local(region, op->outputs[k]);
            price_count_result(&part, tensor);
            if (any) table->bytes_made = tn__add_sat(table->bytes_made, part.tensors[tensor].made);
            const tn__lists *readers = &pricer->readers;
            for (uint32_t i = readers->first[tensor]; i < readers->first[tensor + 1]; i++)
                if (region->ops[readers->items[i]].parts)
                    price_count_step(&part, readers->items[i]);
        }
    }
}

/* Counts the operators of the region that the table does not contain yet. */
static void price_catch_up(split_pricer *pricer, price_table *table) {
    price_use(pricer, table);
    while (table->at > pricer->region->begin && !table->failed) {
        uint32_t at = table->at - 1;
        if (!pricer->region->ops[at].parts)
            table->at = at;
        else if (tn__split_ranges_op(pricer->region, at) != TN_OK)
            table->failed = true;
        else
            price_count_op(pricer, table, at);
    }
}

/* --- prices ----------------------------------------------------------------------------------- */

/* a common size of a second-level cache; so many bytes are still in the cache when the next tile
 * runs */
#define PRICE_CACHE (UINT64_C(1) << 20)

/* --- tensors that are live throughout --- */

/* Whether the memory of a tensor is made before the region. */
static bool price_is_outer(const split_pricer *pricer, uint32_t tensor, uint32_t first) {
    const split_model *model = pricer->model;
    const split_life *life = &model->lives[model->lives[pricer->region->tensors[tensor].id].root];
    return life->first == TN_NONE || life->first < first ||
           (life->first == first &&
            tn_graph_tensor(pricer->region->graph, life->root)->producer == TN_NONE);
}

uint64_t tn__price_floor(const split_pricer *pricer) {
    const split_model *model = pricer->model;
    const split_region *region = pricer->region;
    uint32_t first = pricer->first + region->begin, last = pricer->first + region->op_count - 1;
    uint64_t bytes = model->across[first];
    tn_assert(model->across_last == last);
    for (uint32_t t = 0; t < region->tensor_count; t++) {
        const split_tensor *tensor = &region->tensors[t];
        const split_life *life = &model->lives[tensor->id];
        if (!tensor->touched) continue;
        bool outer = price_is_outer(pricer, t, first);
        bool ends = life->root == tensor->id && life->last <= last;
        if (outer && ends) bytes = tn__add_sat(bytes, life->bytes);
        if (!outer && tensor->after && tn__split_is_cut(region, t))
            bytes = tn__add_sat(bytes, tn__split_bytes(tn__price_whole(pricer, t)));
        bool whole = !outer && !tn__split_is_cut(region, t) && tensor->read;
        if (whole && life->root == tensor->id) bytes = tn__add_sat(bytes, life->bytes);
    }
    return bytes;
}

/* --- the window --- */

static void price_fill_readers(void *self, tn__lists *readers) {
    split_pricer *pricer = self;
    split_region *region = pricer->region;
    for (uint32_t at = 0; at < region->op_count; at++) {
        const tn_op *op = tn__price_op(pricer, at);
        for (uint32_t i = 0; i < op->input_count; i++) {
            /* skips tensors from outside the window: they have no number, or one above those of its
             * results */
            uint32_t t =
                op->inputs[i] != TN_NONE ? tn__split_local(region, op->inputs[i]) : TN_NONE;
            if (t < region->made_count) tn__lists_add(readers, t, at);
        }
    }
}

tn_status tn__price_open(split_pricer *pricer, split_model *model, split_region *region,
                         uint32_t first, tn_error *error) {
    size_t made = (size_t)region->made_count + 1;
    *pricer = (split_pricer){.model = model, .region = region, .first = first, .shared = TN_NONE};
    if (!tn__lists_make(&pricer->readers, region->made_count, &region->arena, price_fill_readers,
                        pricer))
        return tn__no_memory(error, "a split graph");
    pricer->results = tn__arena_array(&region->arena, made, sizeof *pricer->results);
    pricer->root = tn__arena_array(&region->arena, made, sizeof *pricer->root);
    pricer->last = tn__arena_array(&region->arena, made, sizeof *pricer->last);
    pricer->next = tn__arena_array(&region->arena, 2 * made, sizeof *pricer->next);
    pricer->end =
        tn__arena_array(&region->arena, (size_t)region->op_count + 1, sizeof *pricer->end);
    if (pricer->results == NULL || pricer->root == NULL || pricer->last == NULL ||
        pricer->next == NULL || pricer->end == NULL)
        return tn__no_memory(error, "a split graph");
    tn__price_extend(pricer);
    return TN_OK;
}

void tn__price_extend(split_pricer *pricer) {
    const split_region *region = pricer->region;
    const split_model *model = pricer->model;
    uint32_t at = region->begin;
    const tn_op *op = tn__price_op(pricer, at);
    if (!region->ops[at].parts) { /* the operator runs whole, before the tiles */
        uint64_t live = model->live[pricer->first + at];
        if (!region->ops[at].idle && live > pricer->whole) pricer->whole = live;
        return;
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        uint64_t bytes = tn_graph_tensor(region->graph, op->inputs[i])->bytes;
        if (bytes != TN_SIZE_UNKNOWN) pricer->operands = tn__add_sat(pricer->operands, bytes);
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t t = tn__split_local(region, op->outputs[k]);
        bool is_last = at + 1 == region->op_count && k == 0;
        if (is_last || region->tensors[t].after) pricer->results[pricer->result_count++] = t;
    }
    if (model->kept != NULL)
        pricer->kept = tn__add_sat(pricer->kept, model->kept[region->ops[at].id]);
}

/* --- the region at its current length --- */

/* Finds which tensors share memory inside a tile: those that share it in the whole graph, if both
 * exist in tiles and the result is not read after the region. */
static void price_share(split_pricer *pricer) {
    const split_region *region = pricer->region;
    for (uint32_t t = 0; t < region->made_count; t++) {
        pricer->root[t] = t;
        pricer->last[t] = region->tensors[t].last;
    }
    for (uint32_t at = region->begin; at < region->op_count; at++) {
        const tn_op *op = tn__price_op(pricer, at);
        uint32_t alias = pricer->model->alias[pricer->first + at];
        if (!region->ops[at].parts || alias == TN_NONE) continue;
        uint32_t to = tn__split_result(region, at);
        uint32_t from = tn__split_local(region, op->inputs[alias]);
        if (!tn__split_is_cut(region, from) || region->tensors[to].after) continue;
        uint32_t root = pricer->root[from];
        if (!pricer->model->is_view[pricer->first + at] && pricer->last[root] != at) continue;
        pricer->root[to] = root;
        if (region->tensors[to].last > pricer->last[root])
            pricer->last[root] = region->tensors[to].last;
    }
}

static void price_put_end(split_pricer *pricer, uint32_t at, uint32_t entry) {
    pricer->next[entry] = pricer->end[at];
    pricer->end[at] = entry;
}

/* Lists for each operator what ends after it. Entry 2 t: the memory of tensor t is released; entry
 * 2 t + 1: tensor t had its last reader, so its elements for the next tile are kept. Entries are in
 * the order of the tensors. */
static void price_list_ends(split_pricer *pricer) {
    const split_region *region = pricer->region;
    for (uint32_t at = 0; at < region->op_count; at++) pricer->end[at] = TN_NONE;
    for (uint32_t t = region->made_count; t-- > 0;) {
        if (!tn__split_is_cut(region, t) || !region->tensors[t].read) continue;
        if (pricer->root[t] == t) price_put_end(pricer, pricer->last[t], 2 * t);
        if (region->keep) price_put_end(pricer, region->tensors[t].last, 2 * t + 1);
    }
}

/* --- a walk over the examined tiles --- */

typedef struct price_state {
    const split_pricer *pricer;
    uint64_t now, peak, moved, moves;
} price_state;

static void price_see(price_state *price, uint64_t more) {
    if (price->now + more > price->peak) price->peak = price->now + more;
}

/* Returns the bytes of input 0 that are released when this operator ends: its copy, or the tile if
 * that has memory of its own. */
static uint64_t price_dying(const price_part *part, uint32_t at, uint64_t copied) {
    const split_pricer *pricer = part->pricer;
    uint32_t t = tn__split_local(pricer->region, tn__price_op(pricer, at)->inputs[0]);
    if (copied > 0) return copied;
    if (!tn__split_is_cut(pricer->region, t) || pricer->root[t] != t || pricer->last[t] != at)
        return 0;
    return part->tensors[t].need;
}

/* Returns the bytes of the second copy that a TensorFlow Lite window needs, or 0 if it needs none.
 * *pads: it is a padded copy of the input, not a larger output. */
static uint64_t price_second(const price_part *at_part, uint32_t at, uint64_t in, uint64_t out,
                             bool *pads) {
    const split_region *region = at_part->pricer->region;
    tn__band band;
    if (!tn__band_read(region->graph, region->ops[at].id, &band) || band.way == TN__BAND_EXACT)
        return 0;
    double share = 1;
    *pads = band.way == TN__BAND_PAD;
    for (uint32_t i = 0; i < 2; i++) {
        tn__tile part = {1 + i, 0, band.output[i]};
        tn__need need;
        tn__band_made made = {.count = band.output[i]};
        for (uint32_t c = 0; c < region->axis_count; c++) {
            uint32_t result = tn__split_result(region, at);
            split_span span = *tn__split_made(region, c, at_part->part[c], result);
            if (region->tensors[result].axis[c] == 1 + i)
                part = (tn__tile){1 + i, span.first, span.last};
        }
        if (!tn__op_split(region->graph, region->ops[at].id, &part, 0, &need)) return 0;
        int64_t extent = need.last - need.first;
        if (*pads)
            share *= (double)(extent + need.before + need.after) / (double)extent;
        else if (tn__band_over(&band, i, need.first, need.last, &made))
            share *= (double)made.count / (double)(part.last - part.first);
    }
    return share > 1 ? (uint64_t)(share * (double)(*pads ? in : out)) : 0;
}

/* Counts a window of TensorFlow Lite that pads its input or crops its output. price->now includes
 * its output already. */
static void price_window(price_state *price, const price_part *part, uint32_t at) {
    const split_region *region = part->pricer->region;
    const tn_op *op = tn__price_op(part->pricer, at);
    if (tn__rule_of(region->graph, region->ops[at].id)->part_form != TN__FORM_BAND) return;
    uint32_t from = tn__split_local(region, op->inputs[0]);
    uint64_t copied = part->steps[at].copied;
    uint64_t out = part->tensors[tn__split_result(region, at)].made, in = copied;
    bool pads = false;
    if (in == 0)
        in = tn__split_is_cut(region, from)
                 ? part->tensors[from].need
                 : tn__split_bytes(tn_graph_tensor(region->graph, op->inputs[0]));
    uint64_t second = price_second(part, at, in, out, &pads);
    if (second == 0) return;
    uint64_t dying = price_dying(part, at, copied), more = tn__add_sat(copied, second);
    price_see(price, more > out ? more - out : 0);
    price_see(price, more > dying ? more - dying : 0);
    price->moves++;
    price->moved = tn__add_sat(price->moved, 2 * (pads ? second : out));
}

static void price_walk_op(price_state *price, const price_part *part, uint32_t at) {
    const split_pricer *pricer = part->pricer;
    const split_region *region = pricer->region;
    const tn_op *op = tn__price_op(pricer, at);
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t tensor = tn__split_local(region, op->outputs[k]);
        const price_tensor *size = &part->tensors[tensor];
        if (region->tensors[tensor].after && !region->tensors[tensor].read)
            /* the elements of this tile lie in the joined result, whose memory is counted
             * already */
            continue;
        if (size->joins > 0) price_see(price, size->joins);
        if (pricer->root[tensor] == tensor)
            price->now = tn__add_sat(price->now, region->keep ? size->made : size->need);
    }
    price_see(price, part->steps[at].copied);
    if (pricer->model->copies) price_window(price, part, at);
}

/* Releases the tensors that this operator is the last to read, except the elements that are kept
 * for the next tile. */
static void price_walk_end(price_state *price, const price_part *part, uint32_t at) {
    const split_pricer *pricer = part->pricer;
    for (uint32_t entry = pricer->end[at]; entry != TN_NONE; entry = pricer->next[entry]) {
        const price_tensor *size = &part->tensors[entry / 2];
        if (entry % 2 == 1) {
            price->now = tn__add_sat(price->now, size->kept);
            price_see(price, 0);
            continue;
        }
        price->now = price->now > size->need ? price->now - size->need : 0;
    }
}

static void price_walk(price_state *price, price_table *table) {
    const split_pricer *pricer = price->pricer;
    const split_region *region = pricer->region;
    for (uint32_t s = 0; s < table->seen; s++) {
        const price_part part = price_part_of(pricer, table, s);
        if (!region->keep) price->now = pricer->floor;
        for (uint32_t at = region->begin; at < region->op_count; at++) {
            if (!region->ops[at].parts) continue;
            if (part.steps[at].any) price_walk_op(price, &part, at);
            price_walk_end(price, &part, at);
        }
    }
}

/* --- joins after the tiles --- */

/* Counts the joins of results if tiles are not computed directly into the joined result: all tiles
 * of a result exist together with it. */
static void price_join_copies(price_state *price) {
    const split_pricer *pricer = price->pricer;
    uint64_t all = pricer->model->across[pricer->first + pricer->region->begin];
    for (int join = 0; join < 2; join++)
        for (uint32_t i = 0; i < pricer->result_count; i++) {
            uint32_t t = pricer->results[i];
            if (!pricer->region->tensors[t].after) continue;
            uint64_t bytes = tn__split_bytes(tn__price_whole(pricer, t));
            if (join == 0) {
                all = tn__add_sat(all, bytes);
                continue;
            }
            price->now = all;
            price_see(price, bytes);
            price->moved = tn__add_sat(price->moved, 2 * bytes);
        }
}

/* Counts the join of a result in which its tiles are not contiguous: the tiles and the whole exist
 * together. */
static void price_join(price_state *price, uint32_t t) {
    const split_region *region = price->pricer->region;
    const tn_tensor *whole = tn__price_whole(price->pricer, t);
    uint64_t bytes = tn__split_bytes(whole);
    if (!price_is_piece(whole, region->tensors[t].axis[0])) {
        price->moved = tn__add_sat(price->moved, 2 * bytes);
        price->now = tn__add_sat(price->pricer->floor, bytes);
        price_see(price, 0);
        /* if two axes are cut, each row of tiles is joined before the rows are joined */
    } else if (region->axis_count > 1) {
        price->moved = tn__add_sat(price->moved, 2 * bytes);
        price->peak = tn__add_sat(price->peak, bytes / region->parts[0]);
    }
}

/* --- the price --- */

/* Returns the bytes that the tiles read in addition to the whole operators: weights, keys and
 * values of attention, rows of a halo. It is 0 if all bytes that a tile reads and writes stay in
 * the cache until the next tile. It is also 0 for runtimes that only copy, because their kernels
 * read weights for each element anyway. */
static uint64_t price_read_again(const split_pricer *pricer, const price_table *table,
                                 uint64_t parts) {
    uint64_t all = tn__mul_sat(table->bytes_read / table->seen, parts);
    if (pricer->model->copies) return 0;
    if (tn__add_sat(table->bytes_read, table->bytes_made) / table->seen <= PRICE_CACHE) return 0;
    return all > pricer->operands ? all - pricer->operands : 0;
}

/* Computes the values that do not depend on the number of tiles. */
static void price_begin(split_pricer *pricer) {
    if (pricer->shared == pricer->region->begin) return;
    pricer->shared = pricer->region->begin;
    pricer->floor = tn__price_floor(pricer);
    price_share(pricer);
    price_list_ends(pricer);
}

tn_status tn__price(split_pricer *pricer, uint32_t index, const uint32_t *parts, split_price *price,
                    tn_error *error) {
    const split_region *region = pricer->region;
    const split_model *model = pricer->model;
    if (pricer->tables[index] == NULL)
        TN_TRY(price_make_table(pricer, parts, &pricer->tables[index], error));
    price_table *table = pricer->tables[index];
    price_catch_up(pricer, table);
    *price = (split_price){.peak = TN_SIZE_UNKNOWN};
    if (table->failed) return TN_OK;
    price_begin(pricer);
    price_state state = {.pricer = pricer, .now = pricer->floor, .peak = pricer->floor};
    price_walk(&state, table);
    uint64_t across = region->axis_count > 1 ? parts[1] : 1, all = parts[0] * across;
    uint64_t moves = ((table->moves + state.moves) * all + table->seen - 1) / table->seen + across;
    price->moved = tn__add_sat(table->moved, state.moved) / table->seen * all;
    price->moved = tn__add_sat(price->moved, price_read_again(pricer, table, all));
    price->kept =
        tn__add_sat(tn__mul_sat(moves, model->move_kept), tn__mul_sat(all - 1, pricer->kept));
    state.moved = 0;
    if (model->copies) price_join_copies(&state);
    for (uint32_t i = 0; (!model->copies || region->axis_count > 1) && i < pricer->result_count;
         i++)
        price_join(&state, pricer->results[i]);
    price->moved = tn__add_sat(price->moved, state.moved);
    price->peak = state.peak > pricer->whole ? state.peak : pricer->whole;
    price->halo = table->halo;
    price->extra = (uint64_t)table->extra;
    return TN_OK;
}
