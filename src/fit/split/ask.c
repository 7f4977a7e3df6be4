/* ask.c - computes the elements of an input that a part needs, without calling the operator's
 * rule.
 *
 * A search asks the same operators about millions of parts, and a rule looks up attributes by
 * name. Most answers follow a law (tn__law): all of the input, the same elements, or a sliding
 * window. The first answer along an axis gives the law; later parts are computed from it. An
 * operator without a law is asked each time.
 *
 * Cost: O(1) if a law is known, otherwise that of the rule. Memory: one law for each operator,
 * axis and input.
 */
#include "fit/split/region.h"

enum { ASK_UNKNOWN, ASK_RULE, ASK_LAW };

/* The known facts about one input of an operator, for parts along one axis of its outputs. */
struct split_law {
    uint8_t state;
    bool joins;         /* an empty range is a valid answer: the input is omitted */
    tn__law law;        /* of ASK_LAW */
    uint32_t axis;      /* of the input */
    int64_t out_extent; /* of the outputs along the axis */
    int64_t extent;     /* of the input along its axis */
    int64_t stride, front, reach;
};

static uint32_t ask_axes(const tn_graph *graph, const tn_op *op) {
    if (op->output_count == 0 || op->outputs[0] == TN_NONE) return 0;
    const tn_tensor *y = tn_graph_tensor(graph, op->outputs[0]);
    if (y->rank == TN_RANK_UNKNOWN) return 0;
    return y->rank < SPLIT_KNOWN ? y->rank : SPLIT_KNOWN;
}

tn_status tn__split_ask_begin(split_order *order, tn__arena *arena, tn_error *error) {
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

/* Asks the rule, and stores the law of its answer. */
static bool ask_rule(const split_order *order, struct split_law *law, tn_op_id id, tn__tile *part,
                     uint32_t input, tn__need *need) {
    const tn_op *op = tn_graph_op(order->graph, id);
    if (!tn__op_split(order->graph, id, part, input, need)) return false; /* only this part */
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
    if (law->law == TN__LAW_SAME && need->after > 0) return false; /* the input is shorter */
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
