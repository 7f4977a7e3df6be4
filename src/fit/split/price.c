/* price.c - computes live bytes and operations of a split region without building its graph.
 *
 * The same rules apply as in a plan, for views and in-place outputs, and for copies of joins and
 * parts that are not contiguous. The numbers only guide the search; the report on a split graph
 * uses its own layout.
 *
 * All regions that end at one operator share their tail. Elements, bytes and copies of an
 * operator depend only on later operators, and are computed once for each number of parts. The
 * exception is an operand: it is known to exist in parts only when its maker joins the region,
 * and then the copies of its readers are counted again. A price is one walk over the bytes of a
 * few parts.
 *
 * Cost: O(operands x parts) for each operator of a window and number of parts, O(operands) for a
 * price.
 */
#include "fit/split/price.h"

/* Bytes that the next part still finds in the cache: a common size of a second-level cache. */
#define PRICE_CACHE (UINT64_C(1) << 20)

/* --- tensors that are live throughout --- */

/* Whether the root of a tensor is made before the region. */
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
            /* not of the window: it has no number, or one above the window's results */
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
    if (!region->ops[at].parts) { /* the operator runs before the parts */
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

/* Tensors share memory inside a part as in the whole graph, if both exist in parts. */
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

/* Lists the ends at each operator: entry 2 t, memory of tensor t; entry 2 t + 1, its last
 * reader, after which its tail is kept. In the order of the tensors. */
static void price_list_ends(split_pricer *pricer) {
    const split_region *region = pricer->region;
    for (uint32_t at = 0; at < region->op_count; at++) pricer->end[at] = TN_NONE;
    for (uint32_t t = region->made_count; t-- > 0;) {
        if (!tn__split_is_cut(region, t) || !region->tensors[t].read) continue;
        if (pricer->root[t] == t) price_put_end(pricer, pricer->last[t], 2 * t);
        if (region->keep) price_put_end(pricer, region->tensors[t].last, 2 * t + 1);
    }
}

/* --- a walk over the sampled parts --- */

typedef struct price_state {
    const split_pricer *pricer;
    uint64_t now, peak, moved, moves;
} price_state;

static void price_see(price_state *price, uint64_t more) {
    if (price->now + more > price->peak) price->peak = price->now + more;
}

/* The bytes of input 0 that die with this operator: its copy, or the part if it owns its memory. */
static uint64_t price_dying(const price_part *part, uint32_t at, uint64_t copied) {
    const split_pricer *pricer = part->pricer;
    uint32_t t = tn__split_local(pricer->region, tn__price_op(pricer, at)->inputs[0]);
    if (copied > 0) return copied;
    if (!tn__split_is_cut(pricer->region, t) || pricer->root[t] != t || pricer->last[t] != at)
        return 0;
    return part->tensors[t].need;
}

/* Bytes of the second copy that a TensorFlow Lite window needs, and whether it is a copy of the
 * input. 0: no second copy. */
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

/* A window that pads its input or crops its output. `now` includes its output. */
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
            continue; /* already part of the result */
        if (size->joins > 0) price_see(price, size->joins);
        if (pricer->root[tensor] == tensor)
            price->now = tn__add_sat(price->now, region->keep ? size->made : size->need);
    }
    price_see(price, part->steps[at].copied);
    if (pricer->model->copies) price_window(price, part, at);
}

/* Releases the tensors that had their last reader here, except the elements that are kept. */
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
        const price_part part = tn__price_part(pricer, table, s);
        if (!region->keep) price->now = pricer->floor;
        for (uint32_t at = region->begin; at < region->op_count; at++) {
            if (!region->ops[at].parts) continue;
            if (part.steps[at].any) price_walk_op(price, &part, at);
            price_walk_end(price, &part, at);
        }
    }
}

/* --- joins after the parts --- */

/* If results are not gathered in place, all parts of a result exist together with it. */
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

/* Joins a result that is not contiguous: its parts and the whole exist together. */
static void price_join(price_state *price, uint32_t t) {
    const split_region *region = price->pricer->region;
    const tn_tensor *whole = tn__price_whole(price->pricer, t);
    uint64_t bytes = tn__split_bytes(whole);
    if (!tn__price_is_piece(whole, region->tensors[t].axis[0])) {
        price->moved = tn__add_sat(price->moved, 2 * bytes);
        price->now = tn__add_sat(price->pricer->floor, bytes);
        price_see(price, 0);
    } else if (region->axis_count > 1) { /* a row of patches */
        price->moved = tn__add_sat(price->moved, 2 * bytes);
        price->peak = tn__add_sat(price->peak, bytes / region->parts[0]);
    }
}

/* --- the price --- */

/* Bytes that the parts read in addition to the whole operators: weights, keys and values of
 * attention, rows of a halo. 0 if all bytes that one part reads and writes stay in the cache
 * until the next part. Runtimes that only copy have kernels that read weights for each element
 * anyway. */
static uint64_t price_read_again(const split_pricer *pricer, const price_table *table,
                                 uint64_t parts) {
    uint64_t all = tn__mul_sat(table->bytes_read / table->seen, parts);
    if (pricer->model->copies) return 0;
    if (tn__add_sat(table->bytes_read, table->bytes_made) / table->seen <= PRICE_CACHE) return 0;
    return all > pricer->operands ? all - pricer->operands : 0;
}

/* Computes the values that do not depend on the number of parts. */
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
        TN_TRY(tn__price_make_table(pricer, parts, &pricer->tables[index], error));
    price_table *table = pricer->tables[index];
    tn__price_catch_up(pricer, table);
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
