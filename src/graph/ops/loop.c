/* loop.c - the rule of Loop.
 *
 * Collected outputs get the number of iterations as their first extent: exact if nothing can stop
 * the loop early, else an upper bound. Carried values: see control.h.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/control.h"

#define LOOP_TRIPS_MAX (INT64_C(1) << 31) /* "for ever" in exports of while loops */

static tn_status loop_body(tn_infer *infer, const tn_block **body, uint32_t *carried) {
    tn_block_id block;
    TN_TRY(tn__control_body(infer, "body", &block));
    *body = tn_graph_block(infer->graph, block);
    *carried = tn__input_count(infer) > 2 ? tn__input_count(infer) - 2 : 0;
    uint32_t outputs = tn__output_count(infer);
    return tn__control_check(infer, *body, (uint64_t)*carried + 2,
                             (uint64_t)(outputs > *carried ? outputs : *carried) + 1);
}

/* Whether the condition that the body computes is the one it was given: through Identity and Cast
 * only. */
static bool loop_keeps_condition(const tn_infer *infer, const tn_block *body) {
    tn_tensor_id at = body->outputs[0];
    for (uint32_t hops = 0; hops < 16; hops++) {
        if (at == body->inputs[1]) return true;
        tn_op_id producer = tn__control_tensor(infer, at)->producer;
        if (producer == TN_NONE) return false;
        const tn_op *op = tn_graph_op(infer->graph, producer);
        if ((strcmp(op->type, "Identity") && strcmp(op->type, "Cast")) || op->input_count != 1 ||
            op->inputs[0] == TN_NONE)
            return false;
        at = op->inputs[0];
    }
    return false;
}

/* The number of iterations, TN_DIM_UNKNOWN if nothing bounds it; *exact false: it may be fewer. */
static int64_t loop_trips(const tn_infer *infer, const tn_block *body, bool *exact) {
    uint32_t count;
    const int64_t *most = tn__value_ints(infer, 0, &count);
    int64_t trips = most && count == 1 ? (most[0] > 0 ? most[0] : 0) : TN_DIM_UNKNOWN;
    *exact = !tn__value_is_bound(infer, 0);
    if (!tn__input(infer, 1)) return trips; /* without a condition only the count decides */
    const int64_t *first = tn__value_ints(infer, 1, &count);
    const tn_value *later = tn__control_tensor(infer, body->outputs[0])->value;
    bool starts = first && count == 1 && first[0];
    if (first && count == 1 && !first[0]) return 0;
    if (later && later->ints && later->count == 1) {
        if (!later->ints[0] && trips != 0) trips = 1;
        *exact = *exact && starts;
    } else {
        *exact = *exact && starts && loop_keeps_condition(infer, body);
    }
    return !*exact && trips >= LOOP_TRIPS_MAX ? TN_DIM_UNKNOWN : trips;
}

static tn__carried loop_carried(const tn_infer *infer, const tn_block *body, uint32_t i) {
    tn__carried carried = {.initial = tn__input(infer, 2 + i),
                           .formal = body->inputs[2 + i],
                           .next = body->outputs[1 + i]};
    carried.trips = loop_trips(infer, body, &carried.exact);
    return carried;
}

static tn_status loop_enter(tn_infer *infer, uint32_t round, bool *again) {
    const tn_block *body;
    uint32_t count;
    TN_TRY(loop_body(infer, &body, &count));
    *again = round == 0;
    if (round == 0) {
        TN_TRY(tn__control_scalar(infer, body->inputs[0], TN_INT64));
        TN_TRY(tn__control_scalar(infer, body->inputs[1], TN_BOOL));
    }
    for (uint32_t i = 0; i < count && !tn__control_settled(round, count); i++) {
        tn__carried carried = loop_carried(infer, body, i);
        if (round)
            TN_TRY(tn__control_widen(infer, &carried, round, again));
        else if (carried.initial)
            TN_TRY(tn__set_formal(infer, carried.formal, carried.initial,
                                  tn__bound_axes(infer, infer->op->inputs[2 + i])));
    }
    return TN_OK;
}

static tn_status loop_shape(tn_infer *infer) {
    const tn_block *body;
    uint32_t carried;
    bool exact;
    TN_TRY(loop_body(infer, &body, &carried));
    int64_t trips = loop_trips(infer, body, &exact);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        if (i < carried) {
            tn__carried value = loop_carried(infer, body, i);
            TN_TRY(tn__control_last(infer, i, &value));
            continue;
        }
        const tn_tensor *each = tn__control_tensor(infer, body->outputs[1 + i]);
        TN_TRY(tn__control_collect(infer, i, each, tn__bound_axes(infer, body->outputs[1 + i]), 0,
                                   trips));
        if (!exact) tn__set_bound_axis(infer, i, 0);
    }
    return TN_OK;
}

static tn__turns loop_turns(const tn_op *op, const tn_block *body) {
    (void)body;
    return (tn__turns){.carried = op->input_count > 2 ? op->input_count - 2 : 0,
                       .given = 2,
                       .formal = 2,
                       .next = 1};
}

static const tn_op_rule loop_rules[] = {
    {.type = "Loop",
     .inputs_min = 0,
     .inputs_max = UINT32_MAX,
     .outputs_max = UINT32_MAX,
     .shape = loop_shape,
     .flags = TN_RULE_CONTROL,
     .monotone = 1,
     .enter = loop_enter,
     .turns = loop_turns},
};

TN_OP_FAMILY(loop, "");
