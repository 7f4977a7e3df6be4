/* scan.c - Scan and SequenceMap, which run a block for each element.
 *
 * Source: operator texts of ONNX, opsets 8 to 21.
 */
#include "graph/control.h"

typedef struct scan_plan {
    const tn_block *body;
    uint32_t states, scans; /* inputs of either sort */
    uint32_t first;         /* opset 8: an optional input before them, and a batch dimension */
    uint32_t batch;
} scan_plan;

static tn_status scan_read(tn_infer *infer, scan_plan *scan) {
    tn_block_id block;
    int64_t scans = tn__attr_int(infer->op, "num_scan_inputs", 0);
    TN_TRY(tn__control_body(infer, "body", &block));
    scan->body = tn_graph_block(infer->graph, block);
    scan->first = scan->batch = infer->version < 9;
    if (tn__input_count(infer) <= scan->first) return tn__infer_fail(infer, "it has no inputs");
    uint32_t inputs = tn__input_count(infer) - scan->first;
    if (scans < 1 || scans > inputs)
        return tn__infer_fail(infer, "num_scan_inputs is %lld of %u inputs", (long long)scans,
                              inputs);
    scan->scans = (uint32_t)scans;
    scan->states = inputs - scan->scans;
    uint32_t outputs = tn__output_count(infer);
    return tn__control_check(infer, scan->body, inputs,
                             outputs > scan->states ? outputs : scan->states);
}

/* Entry i of an attribute with one axis per scan input or output; 0 without. */
static tn_status scan_axis(const tn_infer *infer, const char *name, uint32_t i, uint32_t rank,
                           uint32_t *axis) {
    uint32_t count;
    const int64_t *axes = tn__attr_ints(infer->op, name, &count);
    return tn__axis(infer, axes && i < count ? axes[i] : 0, rank, axis);
}

/* `tensor` without the batch dimension and, for a scan input, without the scanned one. */
static tn_status scan_formal(tn_infer *infer, const scan_plan *scan, uint32_t i) {
    const tn_tensor *tensor = tn__input(infer, scan->first + i);
    int64_t shape[TN_RANK_MAX];
    if (!tensor) return tn__infer_fail(infer, "input %u is omitted", scan->first + i);
    tn_tensor each = *tensor;
    uint64_t axes = tensor->flags & TN_TENSOR_BOUND ? UINT64_MAX : 0;
    if (!tn__rank_known(tensor)) return tn__set_formal(infer, scan->body->inputs[i], &each, axes);
    bool scanned = i >= scan->states;
    uint32_t axis = TN_RANK_MAX;
    if (tensor->rank < scan->batch + scanned)
        return tn__infer_fail(infer, "'%.80s' has rank %u, too few to scan", tensor->name,
                              tensor->rank);
    if (scanned && !scan->batch)
        TN_TRY(scan_axis(infer, "scan_input_axes", i - scan->states, tensor->rank, &axis));
    else if (scanned)
        axis = 1;
    each.rank = 0;
    for (uint32_t d = scan->batch; d < tensor->rank; d++)
        if (d != axis) shape[each.rank++] = tensor->shape[d];
    each.shape = shape;
    return tn__set_formal(infer, scan->body->inputs[i], &each, axes);
}

/* The scanned extent, on which all scan inputs must agree. */
static tn_status scan_length(tn_infer *infer, const scan_plan *scan, int64_t *length) {
    *length = TN_DIM_UNKNOWN;
    for (uint32_t i = 0; i < scan->scans; i++) {
        const tn_tensor *tensor = tn__input(infer, scan->first + scan->states + i);
        uint32_t axis = 1;
        if (!tn__rank_known(tensor)) continue;
        if (!scan->batch) TN_TRY(scan_axis(infer, "scan_input_axes", i, tensor->rank, &axis));
        int64_t extent = tensor->shape[axis];
        if (extent == TN_DIM_UNKNOWN) continue;
        if (*length != TN_DIM_UNKNOWN && *length != extent && !(tensor->flags & TN_TENSOR_BOUND))
            return tn__infer_fail(infer, "scan inputs of %lld and %lld elements",
                                  (long long)*length, (long long)extent);
        if (*length == TN_DIM_UNKNOWN || extent > *length) *length = extent;
    }
    return TN_OK;
}

static tn__carried scan_state(const tn_infer *infer, const scan_plan *scan, uint32_t i,
                              int64_t length) {
    return (tn__carried){.initial = scan->batch ? NULL : tn__input(infer, i),
                         .formal = scan->body->inputs[i],
                         .next = scan->body->outputs[i],
                         .trips = length,
                         .exact = true};
}

static tn_status scan_enter(tn_infer *infer, uint32_t round, bool *again) {
    scan_plan scan;
    int64_t length;
    TN_TRY(scan_read(infer, &scan));
    *again = round == 0;
    for (uint32_t i = 0; round == 0 && i < scan.states + scan.scans; i++)
        TN_TRY(scan_formal(infer, &scan, i));
    if (round == 0 || tn__control_settled(round, scan.states)) return TN_OK;
    TN_TRY(scan_length(infer, &scan, &length));
    for (uint32_t i = 0; i < scan.states; i++) {
        tn__carried state = scan_state(infer, &scan, i, length);
        TN_TRY(tn__control_widen(infer, &state, round, again));
    }
    return TN_OK;
}

static tn_status scan_shape(tn_infer *infer) {
    scan_plan scan;
    int64_t length;
    TN_TRY(scan_read(infer, &scan));
    TN_TRY(scan_length(infer, &scan, &length));
    bool loose = false; /* which axis of which input is a bound is not followed */
    for (uint32_t i = 0; i < tn__input_count(infer); i++)
        loose |= tn__input(infer, i) && (tn__input(infer, i)->flags & TN_TENSOR_BOUND);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        bool state = i < scan.states;
        const tn_tensor *each =
            tn__control_tensor(infer, state ? scan.body->inputs[i] : scan.body->outputs[i]);
        uint64_t axes =
            loose ? UINT64_MAX
                  : tn__bound_axes(infer, state ? scan.body->inputs[i] : scan.body->outputs[i]);
        uint32_t axis = 0;
        if (scan.batch) { /* opset 8: [batch, ...] and [batch, length, ...] */
            const tn_tensor *any = tn__input(infer, scan.first);
            tn_tensor row = *each;
            int64_t shape[TN_RANK_MAX + 1];
            if (!state && tn__rank_known(each) && each->rank + 2 <= TN_RANK_MAX) {
                shape[0] = length;
                if (each->rank) memcpy(shape + 1, each->shape, each->rank * sizeof *shape);
                row.rank++;
                row.shape = shape;
            }
            int64_t batch = tn__rank_known(any) ? any->shape[0] : TN_DIM_UNKNOWN;
            TN_TRY(tn__control_collect(infer, i, &row, axes, 0, batch));
        } else if (state) {
            tn__carried value = scan_state(infer, &scan, i, length);
            value.exact = !loose;
            TN_TRY(tn__control_last(infer, i, &value));
        } else {
            if (tn__rank_known(each))
                TN_TRY(
                    scan_axis(infer, "scan_output_axes", i - scan.states, each->rank + 1, &axis));
            TN_TRY(tn__control_collect(infer, i, each, axes, axis, length));
        }
    }
    return TN_OK;
}

/* No values are carried if the file does not state which inputs are sliced. */
static tn__turns scan_turns(const tn_op *op, const tn_block *body) {
    int64_t sliced = tn__attr_int(op, "num_scan_inputs", -1), formal = body->input_count;
    bool known = sliced >= 0 && sliced <= formal;
    return (tn__turns){.carried = known ? (uint32_t)(formal - sliced) : 0,
                       .sliced = known ? (uint32_t)sliced : 0,
                       .batch = op->version != 0 && op->version < 9};
}

/* --- SequenceMap --------------------------------------------------------------------------------
 */

static tn_status scan_map_enter(tn_infer *infer, uint32_t round, bool *again) {
    tn_block_id block;
    *again = round == 0;
    if (round) return TN_OK;
    TN_TRY(tn__control_body(infer, "body", &block));
    const tn_block *body = tn_graph_block(infer->graph, block);
    TN_TRY(tn__control_check(infer, body, tn__input_count(infer), tn__output_count(infer)));
    for (uint32_t i = 0; i < body->input_count; i++) {
        if (!tn__input(infer, i)) return tn__infer_fail(infer, "input %u is omitted", i);
        tn_tensor each = *tn__input(infer, i);
        each.flags &= ~(uint32_t)TN_TENSOR_SEQUENCE;
        each.repeat = 1;
        TN_TRY(tn__set_formal(infer, body->inputs[i], &each,
                              tn__bound_axes(infer, infer->op->inputs[i])));
    }
    return TN_OK;
}

static tn_status scan_map(tn_infer *infer) {
    tn_block_id block;
    TN_TRY(tn__control_body(infer, "body", &block));
    const tn_block *body = tn_graph_block(infer->graph, block);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        const tn_tensor *each = tn__control_tensor(infer, body->outputs[i]);
        TN_TRY(tn__set_sequence(infer, i, each->dtype, each->rank, each->shape,
                                tn__input(infer, 0)->repeat));
        if (each->flags & TN_TENSOR_BOUND) tn__set_bound(infer, i);
    }
    return TN_OK;
}

/* clang-format off */
#define SCAN(name, least, most, more) .type = #name, .inputs_min = least, .inputs_max = most,         \
    .outputs_max = UINT32_MAX, .flags = TN_RULE_CONTROL | (more)
static const tn_op_rule scan_rules[] = {
    {SCAN(Scan, 0, UINT32_MAX, TN_RULE_HOLDS), .shape = scan_shape, .enter = scan_enter,
     .turns = scan_turns},
    {SCAN(SequenceMap, 1, UINT32_MAX, 0), .shape = scan_map, .enter = scan_map_enter},
};
/* clang-format on */

TN_OP_FAMILY(scan, "");
