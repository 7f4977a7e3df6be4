/* ranges.c - computes the elements that each part needs of each tensor, and those it computes.
 *
 * One walk backwards per part. An operator computes the elements that its readers need, and its
 * rule gives the elements that it needs of its inputs. If halos are kept, elements that the
 * previous part has computed are not computed again:
 *
 *     part 0   computes |#########|
 *     part 1      needs      |============|          windows reach back
 *              computes           |#######|   and keeps |====| of part 0
 *
 * This also reduces the needs of earlier operators. Cuts are independent of each other.
 *
 * Cost: O(operands x parts).
 */
#include "fit/split/region.h"

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

/* Results with outside readers are produced piece by piece, each from the end of the last part. */
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

/* The end of the elements of an output that the previous part has. */
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

#define RANGES_FEW 8u /* number of inputs with remembered needs: most operators have fewer */

/* The operator computes `made`, or a larger range if its rule requires it. */
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
        if (region->keep && need->last < last) need->last = last; /* already there */
    }
    return TN_OK;
}

/* Elements that later parts need of an earlier part stay until then. The kept and the computed
 * elements must be contiguous. */
static void ranges_stay(split_region *region, uint32_t cut, uint32_t tensor) {
    int64_t first = INT64_MAX, done = 0; /* first: element that this part or a later one needs */
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

/* Called when all readers have been visited for all parts. */
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
        if (at + 1 == region->op_count) /* each part begins at the end of the previous one, or
                                         * later */
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
