/* region.c - decides which operators of a region run in parts, and along which axes of tensors.
 *
 * One walk from the last operator to the first visits all readers of a tensor before its maker.
 * So a longer region is a shorter one plus one step. The maker runs in parts if its rule allows
 * the axes that its readers want, and the readers agree. Otherwise it runs whole, and so do all
 * operators that it depends on. So a Softmax along the axis, keys that every row of queries
 * reads, and a computed shape need no special case.
 *
 * Cost: O(operands of the region).
 */
#include "fit/split/region.h"

/* --- the order --- */

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
    TN_TRY(tn__split_ask_begin(order, arena, error));
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
        made->whole = true; /* until it becomes a result of the window */
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

/* Reads the operators of the window and their results. */
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

/* --- operators that run in parts --- */

/* Whether all readers want the outputs in parts, along axes that the outputs share. */
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

/* Answers of an operator for one of its axes. */
enum { KNOWN_NOT_ASKED, KNOWN_NO, KNOWN_YES, KNOWN_CUTS_WEIGHTS };

/* Constant operands may be cut if the copy is small, but not the weights of matrix products. */
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
    bool asked = at + 1 == region->op_count; /* one flag per axis: a reader wants it */
    for (uint32_t c = 0; c < region->axis_count; c++) {
        uint8_t answer = region_answer(region, at, axes[c]);
        if (answer != KNOWN_YES && !(asked && answer == KNOWN_CUTS_WEIGHTS)) return false;
    }
    return true;
}

/* A reader wants one input along these axes; if two readers disagree, the tensor is made whole. */
static void region_want(split_region *region, uint32_t at, uint32_t input, const uint32_t *wanted) {
    uint32_t index = region_tensor(region, region_op(region, at)->inputs[input]);
    split_tensor *tensor = &region->tensors[index];
    tensor->touched = true;
    if (index >= region->made_count) return; /* made outside: each part takes its own elements */
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

/* Parts reorder the operators of a region, so none may do more than compute its outputs. */
static tn_status region_check_effects(const split_region *region, uint32_t at) {
    tn_op_id id = region->ops[at].id;
    if (tn_op_changes(region->graph, id) != 0 || tn_op_is_ordered(region->graph, id))
        return region_fail(region, at, "does more than compute its results");
    return TN_OK;
}

/* Results that are read after the region must be made in order: with two cuts, only the last
 * operator's. */
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

/* Adds the operator to the region. */
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
