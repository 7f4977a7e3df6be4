/* region.c - decides which operators of a region run in tiles, along which axes of tensors, and
 * which elements each tile needs, computes and keeps.
 *
 * One walk from the last operator to the first visits all readers of a tensor before the operator
 * that makes it. So a longer region is a shorter one plus one step. An operator runs in tiles if
 * its rule allows the axes that the readers of its output want, and these readers agree. Otherwise
 * it runs whole, before the tiles, and so do all operators on which it depends. Therefore a Softmax
 * along the cut axis, keys of attention that every row of queries reads, and a computed shape need
 * no special case.
 *
 * Cost: O(operands of the region).
 */
#include "fit/split/region.h"

/* --- elements that a tile needs, from known laws ---------------------------------------------- */

/* Computes the elements of an input that a tile needs, without calling the operator's rule each
 * time.
 *
 * A search asks for the same operators and millions of tiles, and a rule looks up attributes by
 * name. Most answers follow a simple law (tn__law): the tile needs all of the input, or the
 * elements with its own indices, or a sliding window. The first answer along an axis gives the law,
 * and the answers for later tiles are computed from it. For an operator without a law, the rule is
 * called each time.
 *
 * Cost: O(1) if the law is known, otherwise that of the rule. Memory: one law for each operator,
 * axis and input.
 */

enum { ASK_UNKNOWN, ASK_RULE, ASK_LAW };

/* Facts about the needs of one input of an operator, for tiles along one axis of its outputs. */
struct split_law {
    uint8_t state;
    /* for an operator that joins tensors, an empty range is a valid answer: the tile does not need
     * this input */
    bool joins;
    tn__law law;        /* the law, if the state is ASK_LAW */
    uint32_t axis;      /* the axis of the input that is cut */
    int64_t out_extent; /* number of elements of the outputs along the axis of the tiles */
    int64_t extent;     /* number of elements of the input along its axis */
    int64_t stride, front, reach;
};

static uint32_t ask_axes(const tn_graph *graph, const tn_op *op) {
    if (op->output_count == 0 || op->outputs[0] == TN_NONE) return 0;
    const tn_tensor *y = tn_graph_tensor(graph, op->outputs[0]);
    if (y->rank == TN_RANK_UNKNOWN) return 0;
    return y->rank < SPLIT_KNOWN ? y->rank : SPLIT_KNOWN;
}

static tn_status ask_begin(split_order *order, tn__arena *arena, tn_error *error) {
    uint32_t ops = tn_graph_op_count(order->graph);
    size_t count = 0;
    order->first_law = tn__arena_array(arena, (size_t)ops + 1, sizeof *order->first_law);
    if (order->first_law == NULL) return tn__no_memory(error, "a split graph");
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(order->graph, id);
        order->first_law[id] = count;
        count += (size_t)ask_axes(order->graph, op) * op->input_count;
    }
    order->laws = tn__arena_array(arena, count + 1, sizeof *order->laws);
    return order->laws != NULL ? TN_OK : tn__no_memory(error, "a split graph");
}

/* Calls the operator's rule for a tile, and stores the law of the answer. */
static bool ask_rule(const split_order *order, struct split_law *law, tn_op_id id, tn__tile *part,
                     uint32_t input, tn__need *need) {
    const tn_op *op = tn_graph_op(order->graph, id);
    /* this tile is impossible; others may be possible */
    if (!tn__op_split(order->graph, id, part, input, need)) return false;
    if (law->state != ASK_UNKNOWN) return true;
    law->state = need->law == TN__LAW_NONE ? ASK_RULE : ASK_LAW;
    law->law = need->law;
    law->joins = tn__op_has(order->graph, id, TN_RULE_JOINS);
    law->axis = need->axis;
    law->out_extent = tn_graph_tensor(order->graph, op->outputs[0])->shape[part->axis];
    if (need->axis != TN_NONE)
        law->extent = tn_graph_tensor(order->graph, op->inputs[input])->shape[need->axis];
    law->stride = need->stride;
    law->front = need->front;
    law->reach = need->reach;
    return true;
}

static bool ask_law(const struct split_law *law, const tn__tile *part, tn__need *need) {
    if (part->first < 0 || part->first >= part->last || part->last > law->out_extent) return false;
    *need = (tn__need){.axis = law->axis, .law = law->law};
    if (law->law == TN__LAW_ALL) return true;
    int64_t first = part->first, last = part->last;
    if (law->law == TN__LAW_WINDOW) {
        first = part->first * law->stride - law->front;
        last = (part->last - 1) * law->stride - law->front + law->reach;
        need->stride = law->stride;
        need->front = law->front;
        need->reach = law->reach;
    }
    need->first = first > 0 ? first : 0;
    need->last = last < law->extent ? last : law->extent;
    need->before = need->first - first;
    need->after = last - need->last;
    /* the input has fewer elements than the output, so the law gives no answer */
    if (law->law == TN__LAW_SAME && need->after > 0) return false;
    return law->joins ? need->first <= need->last : need->first < need->last;
}

bool tn__split_ask(const split_order *order, tn_op_id id, tn__tile *part, uint32_t input,
                   tn__need *need) {
    const tn_op *op = tn_graph_op(order->graph, id);
    if (input >= op->input_count || op->inputs[input] == TN_NONE || part->axis >= SPLIT_KNOWN ||
        part->axis >= ask_axes(order->graph, op))
        return tn__op_split(order->graph, id, part, input, need);
    struct split_law *law =
        &order->laws[order->first_law[id] + (size_t)part->axis * op->input_count + input];
    if (law->state == ASK_LAW) return ask_law(law, part, need);
    return ask_rule(order, law, id, part, input, need);
}

/* --- operators that run in tiles, and the axes of their tensors ------------------------------- */

/* --- the order of a graph's operators --- */

tn_status tn__split_order(const tn_graph *graph, tn__arena *arena, split_order *order,
                          tn_error *error) {
    uint32_t ops = tn_graph_op_count(graph), tensors = tn_graph_tensor_count(graph);
    const tn_block *main = tn_graph_block(graph, 0);
    *order = (split_order){.graph = graph, .ops = main->ops, .op_count = main->op_count};
    order->place = tn__arena_array(arena, (size_t)ops + 1, sizeof *order->place);
    order->last = tn__arena_array(arena, (size_t)tensors + 1, sizeof *order->last);
    order->local = tn__arena_array(arena, (size_t)tensors + 1, sizeof *order->local);
    order->known = tn__arena_array(arena, ((size_t)ops + 1) * SPLIT_KNOWN, sizeof *order->known);
    if (order->place == NULL || order->last == NULL || order->local == NULL || order->known == NULL)
        return tn__no_memory(error, "a split graph");
    TN_TRY(ask_begin(order, arena, error));
    for (uint32_t i = 0; i < ops; i++) order->place[i] = TN_NONE;
    for (uint32_t i = 0; i < tensors; i++) order->last[i] = TN_NONE;
    for (uint32_t i = 0; i < main->op_count; i++) {
        const tn_op *op = tn_graph_op(graph, main->ops[i]);
        order->place[main->ops[i]] = i;
        for (uint32_t k = 0; k < op->input_count; k++)
            if (op->inputs[k] != TN_NONE) order->last[op->inputs[k]] = i;
    }
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(graph, id);
        for (uint32_t k = 0; k < op->input_count && op->block != 0; k++)
            if (op->inputs[k] != TN_NONE) order->last[op->inputs[k]] = main->op_count;
    }
    for (tn_block_id b = 0; b < tn_graph_block_count(graph); b++) {
        const tn_block *block = tn_graph_block(graph, b);
        for (uint32_t k = 0; k < block->output_count; k++)
            if (block->outputs[k] != TN_NONE) order->last[block->outputs[k]] = main->op_count;
    }
    return TN_OK;
}

/* --- the tensors of a region --- */

static const tn_op *region_op(const split_region *region, uint32_t at) {
    return tn_graph_op(region->graph, region->ops[at].id);
}

static uint32_t region_tensor(split_region *region, tn_tensor_id id) {
    uint32_t *local = &region->order->local[id];
    if (*local == 0) {
        split_tensor *made = &region->tensors[region->tensor_count++];
        *made = (split_tensor){.id = id, .axis = {TN_NONE, TN_NONE}, .maker = TN_NONE};
        /* a new tensor counts as needed whole, until it becomes a result of an operator in the
         * window */
        made->whole = true;
        *local = region->tensor_count;
    }
    return *local - 1;
}

static bool region_is_idle(const tn_graph *graph, const tn_op *op) {
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            !tn_tensor_is_static(tn_graph_tensor(graph, op->outputs[k])))
            return false;
    return op->output_count > 0;
}

/* Reads the operators of the window and the tensors that they make. */
static tn_status region_take(const split_order *order, uint32_t first, uint32_t last,
                             split_region *region) {
    size_t operands = 1;
    region->begin = region->op_count = last - first + 1;
    region->ops = tn__arena_array(&region->arena, region->op_count, sizeof *region->ops);
    if (region->ops == NULL) return tn__no_memory(region->error, "a split graph");
    for (uint32_t i = 0; i < region->op_count; i++) {
        const tn_op *op = tn_graph_op(order->graph, order->ops[first + i]);
        region->ops[i].id = order->ops[first + i];
        region->ops[i].idle = region_is_idle(order->graph, op);
        operands += (size_t)op->input_count + op->output_count;
    }
    region->tensors = tn__arena_array(&region->arena, operands, sizeof *region->tensors);
    if (region->tensors == NULL) return tn__no_memory(region->error, "a split graph");
    for (uint32_t i = 0; i < region->op_count; i++) {
        const tn_op *op = region_op(region, i);
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (op->outputs[k] == TN_NONE || region->ops[i].idle) continue;
            split_tensor *tensor = &region->tensors[region_tensor(region, op->outputs[k])];
            tensor->whole = false;
            tensor->after = order->last[tensor->id] != TN_NONE && order->last[tensor->id] > last;
        }
    }
    region->made_count = region->tensor_count;
    return TN_OK;
}

/* --- operators that run in tiles --- */

/* Whether all readers want the outputs of an operator in tiles, along axes that the outputs
 * share. */
static bool region_wanted(const split_region *region, uint32_t at, uint32_t *axes) {
    const tn_op *op = region_op(region, at);
    bool any = false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        const split_tensor *tensor = &region->tensors[tn__split_local(region, op->outputs[k])];
        if (tensor->whole || (tensor->after && !tensor->read)) return false;
        if (!tensor->read) continue;
        for (uint32_t c = 0; c < region->axis_count; c++) {
            if (tensor->axis[c] == TN_NONE || (any && axes[c] != tensor->axis[c])) return false;
            axes[c] = tensor->axis[c];
        }
        any = true;
    }
    return any;
}

/* stored answers to the question whether an operator can run in tiles along one of its axes */
enum { KNOWN_NOT_ASKED, KNOWN_NO, KNOWN_YES, KNOWN_CUTS_WEIGHTS };

/* Returns whether an operator can run in tiles along an axis, and whether that cuts the weights of
 * a product. Other constant operands may be cut, because their copies are small. */
static uint8_t region_ask(const split_region *region, uint32_t at, uint32_t axis) {
    const tn_graph *graph = region->graph;
    tn_op_id id = region->ops[at].id;
    const tn_op *op = region_op(region, at);
    bool product = tn__op_has(graph, id, TN_RULE_CONV | TN_RULE_MATMUL);
    if (!tn__op_splits(graph, id, axis)) return KNOWN_NO;
    for (uint32_t i = 0; i < op->input_count && product; i++) {
        tn__tile part = {axis, 0, tn_graph_tensor(graph, op->outputs[0])->shape[axis]};
        tn__need need;
        if (op->inputs[i] != TN_NONE && tn__split_ask(region->order, id, &part, i, &need) &&
            need.axis != TN_NONE && tn_tensor_is_static(tn_graph_tensor(graph, op->inputs[i])))
            return KNOWN_CUTS_WEIGHTS;
    }
    return KNOWN_YES;
}

static uint8_t region_answer(const split_region *region, uint32_t at, uint32_t axis) {
    if (axis >= SPLIT_KNOWN) return region_ask(region, at, axis);
    uint8_t *kept = &region->order->known[(size_t)region->ops[at].id * SPLIT_KNOWN + axis];
    if (*kept == KNOWN_NOT_ASKED) *kept = region_ask(region, at, axis);
    return *kept;
}

static bool region_splits(const split_region *region, uint32_t at, const uint32_t *axes) {
    /* the caller asked for the axes of the region's last operator, so there its weights may be
     * cut */
    bool asked = at + 1 == region->op_count;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        uint8_t answer = region_answer(region, at, axes[c]);
        if (answer != KNOWN_YES && !(asked && answer == KNOWN_CUTS_WEIGHTS)) return false;
    }
    return true;
}

/* Records that a reader wants an input in tiles along these axes. If two readers disagree, the
 * tensor must be whole. */
static void region_want(split_region *region, uint32_t at, uint32_t input, const uint32_t *wanted) {
    uint32_t index = region_tensor(region, region_op(region, at)->inputs[input]);
    split_tensor *tensor = &region->tensors[index];
    tensor->touched = true;
    /* the tensor is made outside of the window, so each tile takes its elements from the whole
     * tensor */
    if (index >= region->made_count) return;
    for (uint32_t c = 0; c < region->axis_count; c++) {
        bool agree = wanted[c] != TN_NONE && (!tensor->read || tensor->axis[c] == wanted[c]);
        if (!agree) tensor->whole = true;
        tensor->axis[c] = wanted[c];
    }
    if (!tensor->read) tensor->last = at;
    tensor->read = true;
}

static void region_in_parts(split_region *region, uint32_t at, const uint32_t *axes) {
    const tn_op *op = region_op(region, at);
    region->ops[at].parts = true;
    for (uint32_t k = 0; k < op->output_count; k++)
        for (uint32_t c = 0; op->outputs[k] != TN_NONE && c < region->axis_count; c++)
            region->tensors[tn__split_local(region, op->outputs[k])].axis[c] = axes[c];
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t wanted[TN_SPLIT_AXES];
        if (op->inputs[i] == TN_NONE) continue;
        for (uint32_t c = 0; c < region->axis_count; c++) {
            tn__tile part = {axes[c], 0,
                             tn_graph_tensor(region->graph, op->outputs[0])->shape[axes[c]]};
            tn__need need;
            (void)tn__split_ask(region->order, region->ops[at].id, &part, i, &need);
            wanted[c] = need.axis;
        }
        region_want(region, at, i, wanted);
    }
}

static void region_whole(split_region *region, uint32_t at) {
    const tn_op *op = region_op(region, at);
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        split_tensor *tensor = &region->tensors[region_tensor(region, op->inputs[i])];
        tensor->touched = tensor->whole = true;
    }
}

static tn_status region_fail(const split_region *region, uint32_t at, const char *why) {
    const tn_op *op = region_op(region, at);
    TN_FAIL(region->error, TN_E_INVALID, "operator '%.80s' (%.40s) %s", op->name, op->type, why);
}

static tn_status region_begin_last(split_region *region) {
    uint32_t at = region->op_count - 1;
    const tn_op *op = region_op(region, at);
    if (op->output_count == 0 || op->outputs[0] == TN_NONE || region->ops[at].idle)
        return region_fail(region, at, "has no result that a run computes");
    const tn_tensor *y = tn_graph_tensor(region->graph, op->outputs[0]);
    for (uint32_t c = 0; c < region->axis_count; c++)
        if (y->rank == TN_RANK_UNKNOWN || region->axes[c] >= y->rank ||
            y->shape[region->axes[c]] < (int64_t)region->parts[c])
            return region_fail(region, at, "cannot end a region that is cut so often there");
    if (!region_splits(region, at, region->axes))
        return region_fail(region, at, "cannot be run in parts along that axis");
    region_in_parts(region, at, region->axes);
    return TN_OK;
}

/* Refuses an operator that does more than compute its outputs, because tiles change the order of
 * the operators of a region. */
static tn_status region_check_effects(const split_region *region, uint32_t at) {
    tn_op_id id = region->ops[at].id;
    if (tn_op_changes(region->graph, id) != 0 || tn_op_is_ordered(region->graph, id))
        return region_fail(region, at, "does more than compute its results");
    return TN_OK;
}

/* Refuses results that cannot be made in order. If two axes are cut, only the result of the last
 * operator may be read after the region. */
static tn_status region_check_results(const split_region *region, uint32_t at) {
    const tn_op *op = region_op(region, at);
    bool last = at == region->op_count - 1;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        const split_tensor *tensor = &region->tensors[tn__split_local(region, op->outputs[k])];
        if (tensor->after && region->ops[at].parts && !last && region->axis_count > 1)
            return region_fail(region, at, "has a result that others read as well");
        if (last && k > 0) return region_fail(region, at, "has several results");
    }
    return TN_OK;
}

/* Adds an operator at the front of the region. */
static void region_join(split_region *region, uint32_t at) {
    const tn_op *op = region_op(region, at);
    for (uint32_t k = 0; k < op->output_count && !region->ops[at].idle; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        split_tensor *tensor = &region->tensors[tn__split_local(region, op->outputs[k])];
        tensor->maker = at;
        tensor->touched = true;
    }
    region->begin = at;
}

tn_status tn__split_extend(split_region *region) {
    uint32_t at = region->begin - 1, axes[TN_SPLIT_AXES];
    TN_TRY(region_check_effects(region, at));
    if (!region->ops[at].idle) {
        if (region_wanted(region, at, axes) && region_splits(region, at, axes))
            region_in_parts(region, at, axes);
        else
            region_whole(region, at);
        TN_TRY(region_check_results(region, at));
    }
    region_join(region, at);
    return TN_OK;
}

static tn_status region_open(const split_order *order, uint32_t first, uint32_t last,
                             split_region *region) {
    TN_TRY(region_take(order, first, last, region));
    TN_TRY(region_check_effects(region, region->op_count - 1));
    TN_TRY(region_begin_last(region));
    TN_TRY(region_check_results(region, region->op_count - 1));
    region_join(region, region->op_count - 1);
    return TN_OK;
}

tn_status tn__split_begin(const split_order *order, const tn_split_region *asked, uint32_t first,
                          uint32_t last, split_region *region, tn_error *error) {
    TN_TRY(tn__split_open(order, asked, first, last, region, error));
    while (region->begin > 0) TN_TRY(tn__split_extend(region));
    return TN_OK;
}

tn_status tn__split_open(const split_order *order, const tn_split_region *asked, uint32_t first,
                         uint32_t last, split_region *region, tn_error *error) {
    *region = (split_region){.graph = order->graph,
                             .order = order,
                             .keep = asked->keep,
                             .slices = asked->slices,
                             .error = error};
    tn__arena_init(&region->arena, tn_graph_context(order->graph));
    for (uint32_t c = 0; c < TN_SPLIT_AXES; c++) {
        if (asked->parts[c] < 2) continue;
        region->axes[region->axis_count] = asked->axes[c];
        region->parts[region->axis_count++] = asked->parts[c];
    }
    if (region->axis_count == 0) TN_FAIL(error, TN_E_INVALID, "a region of one part is not split");
    if (region->axis_count == 2 && region->axes[0] == region->axes[1])
        TN_FAIL(error, TN_E_INVALID, "axis %u is cut twice", region->axes[0]);
    if (region->axis_count == 2 && region->keep)
        TN_FAIL(error, TN_E_INVALID, "what overlaps is kept along one axis alone");
    return region_open(order, first, last, region);
}

void tn__split_end(split_region *region) {
    for (uint32_t t = 0; t < region->tensor_count; t++)
        region->order->local[region->tensors[t].id] = 0;
    tn__arena_release(&region->arena);
    region->tensor_count = 0;
}

uint32_t tn__split_result(const split_region *region, uint32_t at) {
    return tn__split_local(region, region_op(region, at)->outputs[0]);
}

/* --- elements of each tile: needed, computed, kept -------------------------------------------- */

/* Computes the elements of each tensor that each tile needs, and those that it computes.
 *
 * There is one walk from the last operator to the first for each cut. An operator computes the
 * elements that its readers need, and its rule gives the elements that it needs of its inputs. If
 * halos are kept, elements that the previous tile has computed are not computed again:
 *
 *     tile 0   computes |#########|
 *     tile 1      needs      |============|          windows need earlier elements, too
 *              computes           |#######|   and keeps |====| of tile 0
 *
 * This also reduces the needs of earlier operators. The cuts along two axes are independent of each
 * other.
 *
 * Cost: O(operands * tiles).
 */

static bool span_is_empty(split_span span) { return span.first >= span.last; }

static void span_join(split_span *span, int64_t first, int64_t last) {
    if (first >= last) return;
    if (span_is_empty(*span)) {
        *span = (split_span){first, last};
        return;
    }
    if (first < span->first) span->first = first;
    if (last > span->last) span->last = last;
}

static tn_status ranges_fail(const split_region *region, uint32_t at, const char *why) {
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    TN_FAIL(region->error, TN_E_INVALID, "operator '%.80s' (%.40s) %s", op->name, op->type, why);
}

static int64_t ranges_extent(const split_region *region, uint32_t tensor, uint32_t cut) {
    const split_tensor *at = &region->tensors[tensor];
    return tn_graph_tensor(region->graph, at->id)->shape[at->axis[cut]];
}

/* --- the results of a region --- */

/* For a result with readers outside of the region: sets the elements that each tile must provide.
 * They begin where those of the previous tile end. */
static void ranges_hand_out(split_region *region, uint32_t cut, uint32_t part, uint32_t tensor) {
    split_span *need = tn__split_need(region, cut, part, tensor);
    int64_t extent = ranges_extent(region, tensor, cut);
    int64_t from = part > 0 ? tn__split_need(region, cut, part - 1, tensor)->last : 0;
    bool ends = part + 1 == region->parts[cut];
    if (tensor == tn__split_result(region, region->op_count - 1)) {
        int64_t parts = region->parts[cut], at = part;
        int64_t last = extent / parts * (at + 1) + extent % parts * (at + 1) / parts;
        *need = (split_span){from, last > from ? last : from};
        return;
    }
    span_join(need, from, ends ? extent : span_is_empty(*need) ? from : need->last);
    if (span_is_empty(*need)) *need = (split_span){from, from};
}

/* --- one operator --- */

/* Returns the end of the elements of an output that the previous tile has; 0 if elements are not
 * kept. */
static int64_t ranges_done(const split_region *region, uint32_t cut, uint32_t part,
                           uint32_t tensor) {
    if (!region->keep || part == 0) return 0;
    return tn__split_need(region, cut, part - 1, tensor)->last;
}

static split_span ranges_wanted(split_region *region, uint32_t cut, uint32_t part, uint32_t at) {
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    split_span all = {0, 0};
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t tensor = tn__split_local(region, op->outputs[k]);
        split_span *need = tn__split_need(region, cut, part, tensor);
        int64_t done = ranges_done(region, cut, part, tensor);
        span_join(&all, need->first > done ? need->first : done, need->last);
    }
    return all;
}

bool tn__split_part_need(const split_region *region, uint32_t at, uint32_t input, uint32_t cut,
                         uint32_t part, tn__tile *whole, tn__need *need) {
    uint32_t result = tn__split_result(region, at);
    split_span made = *tn__split_made(region, cut, part, result);
    *whole = (tn__tile){region->tensors[result].axis[cut], made.first, made.last};
    return tn__split_ask(region->order, region->ops[at].id, whole, input, need);
}

/* number of inputs of an operator for which the needed elements are stored; few operators have more
 * inputs */
#define RANGES_FEW 8u

/* Computes the needs of the inputs if an operator computes `made`. Its rule may require a larger
 * range, which *made then becomes. */
static tn_status ranges_compute(split_region *region, uint32_t cut, uint32_t part, uint32_t at,
                                split_span *made) {
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    tn__tile asked = {region->tensors[tn__split_result(region, at)].axis[cut], made->first,
                      made->last};
    tn__need needs[RANGES_FEW], need;
    bool more = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const tn__tile before = asked;
        if (!tn__split_ask(region->order, region->ops[at].id, &asked, i, &need))
            return ranges_fail(region, at, "cannot compute one of the parts");
        more = more || asked.first != before.first || asked.last != before.last;
        if (i < RANGES_FEW) needs[i] = need;
    }
    *made = (split_span){asked.first, asked.last};
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        if (more || i >= RANGES_FEW)
            (void)tn__split_ask(region->order, region->ops[at].id, &asked, i,
                                &needs[i % RANGES_FEW]);
        need = needs[i % RANGES_FEW];
        uint32_t tensor = tn__split_local(region, op->inputs[i]);
        if (tensor < region->made_count && need.axis != TN_NONE)
            span_join(tn__split_need(region, cut, part, tensor), need.first, need.last);
    }
    return TN_OK;
}

static tn_status ranges_op(split_region *region, uint32_t cut, uint32_t part, uint32_t at) {
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    split_span made = ranges_wanted(region, cut, part, at);
    if (!span_is_empty(made)) TN_TRY(ranges_compute(region, cut, part, at, &made));
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t tensor = tn__split_local(region, op->outputs[k]);
        split_span *need = tn__split_need(region, cut, part, tensor);
        *tn__split_made(region, cut, part, tensor) = made;
        span_join(need, made.first, made.last);
        if (part == 0) continue;
        int64_t last = tn__split_need(region, cut, part - 1, tensor)->last;
        if (span_is_empty(*need)) *need = (split_span){last, last};
        /* elements that the previous tile already has are not computed again */
        if (region->keep && need->last < last) need->last = last;
    }
    return TN_OK;
}

/* Makes the needs of all tiles contiguous: elements that a later tile needs stay from the tile that
 * computes them, so that kept and computed elements are adjacent. */
static void ranges_stay(split_region *region, uint32_t cut, uint32_t tensor) {
    /* first: the first element that this tile or a later one needs */
    int64_t first = INT64_MAX, done = 0;
    for (uint32_t part = region->parts[cut]; part-- > 0;) {
        split_span *need = tn__split_need(region, cut, part, tensor);
        if (span_is_empty(*need))
            need->last = 0;
        else if (need->first < first)
            first = need->first;
        need->first = first;
    }
    for (uint32_t part = 0; part < region->parts[cut]; part++) {
        split_span *need = tn__split_need(region, cut, part, tensor);
        if (need->last > done) done = need->last;
        need->last = done;
        if (need->first > done) need->first = done;
    }
}

/* --- all operators --- */

/* Computes the elements of one operator along one cut for all tiles. Called after all readers of
 * its outputs were visited. */
static tn_status ranges_all(split_region *region, uint32_t cut, uint32_t at) {
    const tn_op *op = tn_graph_op(region->graph, region->ops[at].id);
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        uint32_t tensor = tn__split_local(region, op->outputs[k]);
        if (!region->tensors[tensor].read) continue;
        for (uint32_t part = 0; part < region->parts[cut]; part++)
            if (region->tensors[tensor].after) ranges_hand_out(region, cut, part, tensor);
        if (region->keep) ranges_stay(region, cut, tensor);
    }
    for (uint32_t part = 0; part < region->parts[cut]; part++) {
        if (at + 1 == region->op_count) /* each tile begins where the previous one ends */
            ranges_hand_out(region, cut, part, tn__split_result(region, at));
        TN_TRY(ranges_op(region, cut, part, at));
    }
    return TN_OK;
}

tn_status tn__split_ranges_op(split_region *region, uint32_t at) {
    for (uint32_t cut = 0; cut < region->axis_count; cut++) TN_TRY(ranges_all(region, cut, at));
    return TN_OK;
}

tn_status tn__split_ranges(split_region *region) {
    for (uint32_t cut = 0; cut < region->axis_count; cut++) {
        size_t count = (size_t)region->made_count * region->parts[cut];
        region->need[cut] = tn__arena_array(&region->arena, count + 1, sizeof *region->need[cut]);
        region->made[cut] = tn__arena_array(&region->arena, count + 1, sizeof *region->made[cut]);
        if (region->need[cut] == NULL || region->made[cut] == NULL)
            return tn__no_memory(region->error, "a split graph");
    }
    for (uint32_t at = region->op_count; at-- > region->begin;)
        if (region->ops[at].parts) TN_TRY(tn__split_ranges_op(region, at));
    return TN_OK;
}
