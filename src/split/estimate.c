/* estimate.c - live bytes and work of a region in parts, counted without making it.
 *
 * The same things are counted as in a plan: who is a view of whom, who may be written over, what a
 * join or a part of a tensor takes where that is not one piece of memory. It is a guide for the
 * search alone: what is told of a split graph is of its own layout.
 * Cost: O(operands) for the whole, O(operands x parts) for a region.
 */
#include "split/estimate.h"

#include "graph/takes.h"

/* Bytes that the next part finds near: a second-level cache, as is common. */
#define PRICE_CACHE (UINT64_C(1) << 20)

/* --- the graph as it is --- */

static uint64_t model_bytes(const tn_tensor *tensor) {
    if (tn_tensor_is_static(tensor) || tensor->bytes == TN_SIZE_UNKNOWN) return 0;
    return tensor->bytes;
}

static void model_live_from(split_model *model, tn_tensor_id id, uint32_t place) {
    const tn_tensor *tensor = tn_graph_tensor(model->order.graph, id);
    uint32_t last = model->order.last[id];
    model->lives[id] = (split_life){id, place, last == TN_NONE ? place : last, model_bytes(tensor)};
}

/* Which input output 0 shares memory with. */
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

/* Bytes come and go at the ends of lives. */
static tn_status model_sum(split_model *model, tn__arena *arena, tn_error *error) {
    uint32_t places = model->order.op_count;
    int64_t *change = tn__arena_array(arena, (size_t)places + 2, sizeof *change), now = 0;
    if (change == NULL) return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(model->order.graph); id++) {
        const split_life *life = &model->lives[id];
        if (life->root != id || life->first == TN_NONE) continue;
        change[life->first] += (int64_t)life->bytes;
        if (life->last < places) change[life->last + 1] -= (int64_t)life->bytes;
    }
    for (uint32_t p = 0; p < places; p++) {
        now += change[p];
        model->live[p] = tn__add_sat((uint64_t)now, model_scratch(model, model->order.ops[p]));
    }
    return TN_OK;
}

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
    if (model->across == NULL || model->lives == NULL || model->live == NULL ||
        model->flops == NULL || model->alias == NULL || model->is_view == NULL)
        return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tensors; id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        model->lives[id] = (split_life){.root = id, .first = TN_NONE};
        if (tensor->block == 0 && tensor->producer == TN_NONE) model_live_from(model, id, 0);
    }
    for (uint32_t p = 0; p < model->order.op_count; p++) model_define(model, p);
    model_count(model);
    return model_sum(model, arena, error);
}

/* --- a region: what lives throughout --- */

/* Whether the place of a tensor's root is in front of the region. */
static bool price_is_outer(const split_model *model, const split_region *region, uint32_t tensor,
                           uint32_t first) {
    const split_life *life = &model->lives[model->lives[region->tensors[tensor].id].root];
    return life->first == TN_NONE || life->first < first ||
           (life->first == first &&
            tn_graph_tensor(region->graph, life->root)->producer == TN_NONE);
}

void tn__split_across(split_model *model, uint32_t last) {
    const tn_graph *graph = model->order.graph;
    uint64_t bytes = 0;
    model->across_last = last;
    for (uint32_t p = 0; p <= model->order.op_count; p++) model->across[p] = 0;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const split_life *life = &model->lives[id];
        if (life->root != id || life->first == TN_NONE || life->last <= last) continue;
        /* What the caller puts there is before all. */
        uint32_t from = tn_graph_tensor(graph, id)->producer == TN_NONE ? 0 : life->first + 1;
        model->across[from] = tn__add_sat(model->across[from], life->bytes);
    }
    for (uint32_t p = 0; p <= model->order.op_count; p++)
        model->across[p] = bytes = tn__add_sat(bytes, model->across[p]);
}

uint64_t tn__split_floor(const split_model *model, const split_region *region, uint32_t first,
                         uint32_t last) {
    uint64_t bytes = model->across[first];
    tn_assert(model->across_last == last);
    for (uint32_t t = 0; t < region->tensor_count; t++) {
        const split_tensor *tensor = &region->tensors[t];
        const split_life *life = &model->lives[tensor->id];
        bool outer = price_is_outer(model, region, t, first);
        bool ends = life->root == tensor->id && model->lives[life->root].last <= last;
        if (outer && ends) bytes = tn__add_sat(bytes, life->bytes);
        if (!outer && tensor->after && tn__split_is_cut(region, t))
            bytes = tn__add_sat(bytes, model_bytes(tn_graph_tensor(region->graph, tensor->id)));
        bool whole = !outer && !tn__split_is_cut(region, t) && tensor->read;
        if (whole && life->root == tensor->id) bytes = tn__add_sat(bytes, life->bytes);
    }
    return bytes;
}

/* --- one part --- */

typedef struct price_state {
    const split_model *model;
    const split_region *region;
    uint32_t part[TN_SPLIT_AXES];
    uint32_t *root; /* [tensors] of the region whose memory it is in, in a part */
    uint32_t *last; /* [tensors] place of the last reader of a root's memory */
    uint64_t now, peak, moved, halo;
    uint64_t read, made; /* bytes of operands and of results, of all parts that were seen */
    uint64_t moves;      /* operators that only move elements */
} price_state;

/* Whether elements along an axis follow each other in one piece of memory. */
static bool price_is_piece(const tn_tensor *tensor, uint32_t axis) {
    for (uint32_t i = 0; i < tensor->rank && tn__memory_axis(tensor, i) != axis; i++)
        if (tensor->shape[tn__memory_axis(tensor, i)] != 1) return false;
    return true;
}

/* Bytes of a tensor of which so many elements are there along each cut. */
static uint64_t price_bytes(const price_state *price, uint32_t tensor, const int64_t *extents) {
    const split_tensor *at = &price->region->tensors[tensor];
    const tn_tensor *whole = tn_graph_tensor(price->region->graph, at->id);
    uint64_t bytes = model_bytes(whole);
    for (uint32_t c = 0; c < price->region->axis_count; c++)
        if (at->axis[c] != TN_NONE && whole->shape[at->axis[c]] > 0)
            bytes = bytes / (uint64_t)whole->shape[at->axis[c]] * (uint64_t)extents[c];
    return bytes;
}

static void price_extents(const price_state *price, uint32_t tensor, bool made, int64_t *extents) {
    for (uint32_t c = 0; c < price->region->axis_count; c++) {
        split_span span = made ? *tn__split_made(price->region, c, price->part[c], tensor)
                               : *tn__split_need(price->region, c, price->part[c], tensor);
        extents[c] = span.last > span.first ? span.last - span.first : 0;
    }
}

/* What the operator reads that has to be copied first: parts that are not in one piece. */
static uint64_t price_parts(price_state *price, uint32_t at) {
    const split_region *region = price->region;
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        uint32_t tensor = tn__split_local(region, op->inputs[i]);
        const tn_tensor *whole = tn_graph_tensor(region->graph, op->inputs[i]);
        bool cut = tn__split_is_cut(region, tensor), piece = true, all = true;
        uint64_t taken = whole->bytes == TN_SIZE_UNKNOWN ? 0 : whole->bytes;
        for (uint32_t c = 0; c < region->axis_count; c++) {
            tn__part part;
            tn__need need;
            if (!tn__split_part_need(region, at, i, c, price->part[c], &part, &need)) continue;
            if (need.axis == TN_NONE) continue;
            split_span have = {0, whole->shape[need.axis]};
            if (cut) have = *tn__split_need(region, c, price->part[c], tensor);
            if (need.first == have.first && need.last == have.last) {
                if (cut && whole->shape[need.axis] > 0)
                    taken = taken / (uint64_t)whole->shape[need.axis] *
                            (uint64_t)(have.last - have.first);
                continue;
            }
            all = false;
            piece = piece && price_is_piece(whole, need.axis);
            taken = taken / (uint64_t)whole->shape[need.axis] * (uint64_t)(need.last - need.first);
        }
        price->read = tn__add_sat(price->read, taken);
        if (all || (piece && !price->model->copies)) continue;
        bytes = tn__add_sat(bytes, taken);
        price->moves++;
    }
    return bytes;
}

static void price_see(price_state *price, uint64_t more) {
    if (price->now + more > price->peak) price->peak = price->now + more;
}

/* Bytes of the tail of a tensor that the next part keeps. */
static uint64_t price_kept(const price_state *price, uint32_t tensor) {
    const split_region *region = price->region;
    uint32_t part = price->part[0];
    if (!region->keep || part + 1 >= region->parts[0]) return 0;
    split_span next = *tn__split_need(region, 0, part + 1, tensor);
    split_span made = *tn__split_made(region, 0, part + 1, tensor);
    int64_t end = made.first < made.last ? made.first : next.last, extent = end - next.first;
    return extent > 0 ? price_bytes(price, tensor, &extent) : 0;
}

/* Whether an operand dies with this operator, and nobody has taken a part of it. */
static uint64_t price_dying(const price_state *price, uint32_t at, uint64_t parts) {
    const split_region *region = price->region;
    uint32_t t = tn__split_local(region, tn_graph_op(region->graph, region->ops[at].id)->inputs[0]);
    int64_t need[TN_SPLIT_AXES];
    if (parts > 0) return parts;
    if (!tn__split_is_cut(region, t) || price->root[t] != t || price->last[t] != at) return 0;
    price_extents(price, t, false, need);
    return price_bytes(price, t, need);
}

/* Bytes of the second copy that a window of TensorFlow Lite takes, and whether it is of what goes
 * in. 0: none. `bytes` of `extents` become those of others along height and width. */
static uint64_t price_second(const price_state *price, uint32_t at, uint64_t in, uint64_t out,
                             bool *pads) {
    const split_region *region = price->region;
    tn__band band;
    if (!tn__band_read(region->graph, region->ops[at].id, &band) || band.way == TN__BAND_EXACT)
        return 0;
    double share = 1;
    *pads = band.way == TN__BAND_PAD;
    for (uint32_t i = 0; i < 2; i++) {
        tn__part part = {1 + i, 0, band.output[i]};
        tn__need need;
        tn__band_made made = {.count = band.output[i]};
        for (uint32_t c = 0; c < region->axis_count; c++) {
            uint32_t result = tn__split_result(region, at);
            split_span span = *tn__split_made(region, c, price->part[c], result);
            if (region->tensors[result].axis[c] == 1 + i)
                part = (tn__part){1 + i, span.first, span.last};
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

/* A window that pads what goes in, or cuts off of what comes out. `now` is with its output. */
static void price_window(price_state *price, uint32_t at, uint64_t parts) {
    const split_region *region = price->region;
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    if (tn__rule_of(region->graph, region->ops[at].id)->part_form != TN__FORM_BAND) return;
    uint32_t from = tn__split_local(region, op->inputs[0]), to = tn__split_result(region, at);
    int64_t made[TN_SPLIT_AXES], need[TN_SPLIT_AXES];
    bool pads = false;
    price_extents(price, to, true, made);
    uint64_t out = price_bytes(price, to, made), in = parts;
    if (in == 0) {
        price_extents(price, from, false, need);
        in = tn__split_is_cut(region, from)
                 ? price_bytes(price, from, need)
                 : model_bytes(tn_graph_tensor(region->graph, op->inputs[0]));
    }
    uint64_t second = price_second(price, at, in, out, &pads);
    if (second == 0) return;
    uint64_t dying = price_dying(price, at, parts), more = tn__add_sat(parts, second);
    price_see(price, more > out ? more - out : 0);
    price_see(price, more > dying ? more - dying : 0);
    price->moves++;
    price->moved = tn__add_sat(price->moved, 2 * (pads ? second : out));
}

static void price_outputs(price_state *price, uint32_t at) {
    const split_region *region = price->region;
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    for (uint32_t k = 0; k < op->output_count; k++) {
        int64_t need[TN_SPLIT_AXES], made[TN_SPLIT_AXES];
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t tensor = tn__split_local(region, op->outputs[k]);
        price_extents(price, tensor, false, need);
        price_extents(price, tensor, true, made);
        price->made = tn__add_sat(price->made, price_bytes(price, tensor, made));
        if (region->tensors[tensor].after && !region->tensors[tensor].read)
            continue; /* in the result */
        int64_t kept = need[0] - made[0];
        bool joins = price->region->keep && kept > 0 &&
                     !price_is_piece(tn_graph_tensor(region->graph, op->outputs[k]),
                                     region->tensors[tensor].axis[0]);
        if (joins) /* what was kept and what is made are there beside both in one */
            price_see(price, tn__add_sat(price_bytes(price, tensor, need),
                                         price_bytes(price, tensor, made)));
        if (price->root[tensor] == tensor)
            price->now =
                tn__add_sat(price->now, price_bytes(price, tensor, region->keep ? made : need));
    }
}

/* Tensors of which this was the last reader go, but for what is kept of them. */
static void price_end(price_state *price, uint32_t at) {
    const split_region *region = price->region;
    for (uint32_t t = 0; t < region->tensor_count; t++) {
        int64_t need[TN_SPLIT_AXES];
        if (!tn__split_is_cut(region, t) || !region->tensors[t].read) continue;
        if (region->keep && region->tensors[t].last == at) {
            uint64_t kept = price_kept(price, t);
            price->now = tn__add_sat(price->now, kept);
            price->moved = tn__add_sat(price->moved, 3 * kept);
            price->halo = tn__add_sat(price->halo, kept);
            price->moves += kept > 0 ? 2 : 0;
            price_see(price, 0);
        }
        if (price->root[t] != t || price->last[t] != at) continue;
        price_extents(price, t, false, need);
        uint64_t bytes = price_bytes(price, t, need);
        price->now = price->now > bytes ? price->now - bytes : 0;
    }
}

static void price_part(price_state *price) {
    const split_region *region = price->region;
    for (uint32_t at = 0; at < region->op_count; at++) {
        int64_t made[TN_SPLIT_AXES];
        if (!region->ops[at].parts) continue;
        price_extents(price, tn__split_result(region, at), true, made);
        bool any = true;
        for (uint32_t c = 0; c < region->axis_count; c++) any = any && made[c] > 0;
        if (any) {
            uint64_t parts = price_parts(price, at);
            price->moved = tn__add_sat(price->moved, 2 * parts);
            price_outputs(price, at);
            price_see(price, parts);
            if (price->model->copies) price_window(price, at, parts);
        }
        price_end(price, at);
    }
}

/* Who shares memory inside a part: as in the whole, where both are there in parts. */
static void price_share(price_state *price, uint32_t first) {
    const split_region *region = price->region;
    for (uint32_t t = 0; t < region->tensor_count; t++) {
        price->root[t] = t;
        price->last[t] = region->tensors[t].last;
    }
    for (uint32_t at = 0; at < region->op_count; at++) {
        const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
        uint32_t alias = price->model->alias[first + at];
        if (!region->ops[at].parts || alias == TN_NONE) continue;
        uint32_t to = tn__split_result(region, at);
        uint32_t from = tn__split_local(region, op->inputs[alias]);
        if (!tn__split_is_cut(region, from) || region->tensors[to].after) continue;
        uint32_t root = price->root[from];
        if (!price->model->is_view[first + at] && price->last[root] != at) continue;
        price->root[to] = root;
        if (region->tensors[to].last > price->last[root])
            price->last[root] = region->tensors[to].last;
    }
}

/* Where nothing is gathered in place, all parts of a result are there beside it. */
static void price_join_copies(price_state *price, uint32_t first) {
    const split_region *region = price->region;
    uint64_t all = price->model->across[first];
    for (int join = 0; join < 2; join++)
        for (uint32_t t = 0; t < region->tensor_count; t++) {
            if (!region->tensors[t].after || !tn__split_is_cut(region, t)) continue;
            uint64_t bytes = model_bytes(tn_graph_tensor(region->graph, region->tensors[t].id));
            if (join == 0) {
                all = tn__add_sat(all, bytes);
                continue;
            }
            price->now = all;
            price_see(price, bytes);
            price->moved = tn__add_sat(price->moved, 2 * bytes);
        }
}

/* Joining a result where it is not one piece of memory: its parts and the whole are there. */
static void price_join(price_state *price, uint32_t t, uint64_t floor) {
    const split_region *region = price->region;
    const tn_tensor *whole = tn_graph_tensor(region->graph, region->tensors[t].id);
    uint64_t bytes = model_bytes(whole);
    bool patches = region->axis_count > 1;
    if (!price_is_piece(whole, region->tensors[t].axis[0])) {
        price->moved = tn__add_sat(price->moved, 2 * bytes);
        price->now = tn__add_sat(floor, bytes);
        price_see(price, 0);
    } else if (patches) { /* a row of them */
        price->moved = tn__add_sat(price->moved, 2 * bytes);
        price->peak = tn__add_sat(price->peak, bytes / region->parts[0]);
    }
}

static void price_joins(price_state *price, uint64_t floor) {
    const split_region *region = price->region;
    uint32_t result = tn__split_result(region, region->op_count - 1);
    for (uint32_t t = 0; t < region->tensor_count; t++)
        if (t == result || (region->tensors[t].after && tn__split_is_cut(region, t)))
            price_join(price, t, floor);
}

/* Work: what all parts of each operator compute, over the whole of it. */
static uint64_t price_extra(const split_model *model, const split_region *region, uint32_t first) {
    double extra = 0;
    for (uint32_t at = 0; at < region->op_count; at++) {
        double times = 1;
        if (!region->ops[at].parts) continue;
        uint32_t t = tn__split_result(region, at);
        for (uint32_t c = 0; c < region->axis_count; c++) {
            int64_t sum = 0, extent = tn_graph_tensor(region->graph, region->tensors[t].id)
                                          ->shape[region->tensors[t].axis[c]];
            for (uint32_t p = 0; p < region->parts[c]; p++) {
                split_span made = *tn__split_made(region, c, p, t);
                if (made.last > made.first) sum += made.last - made.first;
            }
            times *= (double)sum / (double)extent;
        }
        if (times > 1) extra += (times - 1) * (double)model->flops[first + at];
    }
    return (uint64_t)extra;
}

/* Bytes that parts read beyond what the whole operators do: weights, keys and values of attention,
 * rows of a halo. Nothing, where all that one part reads and makes is in a cache when the next one
 * begins. Run times that only copy have kernels that read weights for each element anyway. */
static uint64_t price_read_again(const price_state *price, uint64_t seen, uint64_t parts) {
    const split_region *region = price->region;
    uint64_t whole = 0, all = tn__mul_sat(price->read / seen, parts);
    if (price->model->copies) return 0;
    if (tn__add_sat(price->read, price->made) / seen <= PRICE_CACHE) return 0;
    for (uint32_t at = 0; at < region->op_count; at++) {
        const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
        for (uint32_t i = 0; i < op->input_count && region->ops[at].parts; i++) {
            if (op->inputs[i] == TN_NONE) continue;
            uint64_t bytes = tn_graph_tensor(region->graph, op->inputs[i])->bytes;
            if (bytes != TN_SIZE_UNKNOWN) whole = tn__add_sat(whole, bytes);
        }
    }
    return all > whole ? all - whole : 0;
}

/* Bytes for good: each part has operators of its own. */
static uint64_t price_kept_for_good(const split_model *model, const split_region *region,
                                    uint64_t moves) {
    uint64_t bytes = tn__mul_sat(moves, model->move_kept), parts = region->parts[0];
    if (region->axis_count > 1) parts = tn__mul_sat(parts, region->parts[1]);
    for (uint32_t at = 0; model->kept != NULL && at < region->op_count; at++)
        if (region->ops[at].parts)
            bytes = tn__add_sat(bytes, tn__mul_sat(parts - 1, model->kept[region->ops[at].id]));
    return bytes;
}

/* The first, the second, one in the middle and the last differ; between them all are alike. */
static bool price_is_seen(uint32_t part, uint32_t parts) {
    return part < 2 || part == parts / 2 || part + 2 > parts;
}

void tn__split_price(const split_model *model, const split_region *region, uint32_t first,
                     uint32_t last, split_price *price) {
    uint64_t floor = tn__split_floor(model, region, first, last);
    tn__arena *arena = (tn__arena *)(uintptr_t)&region->arena;
    price_state state = {.model = model, .region = region, .now = floor, .peak = floor};
    uint32_t across = region->axis_count > 1 ? region->parts[1] : 1, seen = 0;
    state.root = tn__arena_array(arena, (size_t)region->tensor_count + 1, sizeof *state.root);
    state.last = tn__arena_array(arena, (size_t)region->tensor_count + 1, sizeof *state.last);
    *price = (split_price){.peak = UINT64_MAX};
    if (state.root == NULL || state.last == NULL) return; /* benign: it is not chosen */
    price_share(&state, first);
    for (state.part[0] = 0; state.part[0] < region->parts[0]; state.part[0]++)
        for (state.part[1] = 0; state.part[1] < across; state.part[1]++) {
            if (!price_is_seen(state.part[0], region->parts[0]) ||
                !price_is_seen(state.part[1], across))
                continue;
            if (!region->keep) state.now = floor;
            price_part(&state);
            seen++;
        }
    uint64_t parts = (uint64_t)region->parts[0] * across;
    price->moved = state.moved / seen * parts;
    price->moved = tn__add_sat(price->moved, price_read_again(&state, seen, parts));
    uint64_t moves = (state.moves * parts + seen - 1) / seen;
    price->kept = price_kept_for_good(model, region, moves + across);
    state.moved = 0;
    if (model->copies) price_join_copies(&state, first);
    if (!model->copies || region->axis_count > 1) price_joins(&state, floor);
    price->moved = tn__add_sat(price->moved, state.moved);
    price->peak = state.peak;
    price->halo = state.halo;
    for (uint32_t at = 0; at < region->op_count; at++) /* those that run whole, before */
        if (!region->ops[at].parts && !region->ops[at].idle &&
            model->live[first + at] > price->peak)
            price->peak = model->live[first + at];
    price->extra = price_extra(model, region, first);
}
