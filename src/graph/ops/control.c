/* control.c - operators that own blocks: If, Loop, Scan, SequenceMap.
 *
 * If: with a known condition the other branch is dead and the result is the taken branch's;
 * without, the result must hold either: where both are known and differ, the larger extent as an
 * upper bound. Loop and Scan: what an iteration carries to the next starts as the initial value; an
 * extent that the body changes is widened to unknown and the body is inferred again, until nothing
 * changes. Each round loses at least one known extent, so that ends. What a loop collects gets the
 * number of iterations as its first extent: exact when nothing can stop the loop early, else a
 * bound. Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/op.h"

#define CONTROL_TRIPS_MAX (INT64_C(1) << 31) /* "for ever" in exports of while loops */

static tn_status control_body(tn_infer *infer, const char *name, tn_block_id *block) {
    const tn_attr *attr = tn__attr(infer, name);
    *block = 0;
    if (!attr || attr->type != TN_ATTR_BLOCK)
        return tn__infer_fail(infer, "it has no block '%s'", name);
    *block = attr->block;
    return TN_OK;
}

static tn_status control_check(tn_infer *infer, const tn_block *body, uint64_t inputs,
                               uint64_t outputs) {
    if (body->input_count != inputs)
        return tn__infer_fail(infer, "its block takes %u inputs where the operator passes %llu",
                              body->input_count, (unsigned long long)inputs);
    if (body->output_count != outputs)
        return tn__infer_fail(infer, "its block has %u outputs where the operator needs %llu",
                              body->output_count, (unsigned long long)outputs);
    return TN_OK;
}

static const tn_tensor *control_tensor(const tn_infer *infer, tn_tensor_id id) {
    return tn_graph_tensor(infer->graph, id);
}

/* Type, shape, flags and repeat of `like` for an output. */
static tn_status control_set(tn_infer *infer, uint32_t index, const tn_tensor *like) {
    if (like->flags & TN_TENSOR_SEQUENCE)
        TN_TRY(tn__set_sequence(infer, index, like->dtype, like->rank, like->shape, like->repeat));
    else
        TN_TRY(tn__set_output(infer, index, like->dtype, like->rank, like->shape));
    if (like->flags & TN_TENSOR_BOUND) tn__set_bound(infer, index);
    return TN_OK;
}

/* --- If --------------------------------------------------------------------------------------- */

/* The branch that runs: 0 then, 1 else, 2 not known. */
static uint32_t control_taken(const tn_infer *infer) {
    uint32_t count;
    const int64_t *condition = tn__value_ints(infer, 0, &count);
    return !condition || count != 1 ? 2 : condition[0] ? 0 : 1;
}

static tn_status control_branches(tn_infer *infer, tn_block_id branch[2]) {
    TN_TRY(control_body(infer, "then_branch", &branch[0]));
    TN_TRY(control_body(infer, "else_branch", &branch[1]));
    for (uint32_t i = 0; i < 2; i++)
        TN_TRY(control_check(infer, tn_graph_block(infer->graph, branch[i]), 0,
                             tn__output_count(infer)));
    return TN_OK;
}

static tn_status control_if_enter(tn_infer *infer, uint32_t round, bool *again) {
    tn_block_id branch[2];
    uint32_t taken = control_taken(infer);
    *again = round == 0;
    if (round) return TN_OK;
    TN_TRY(control_branches(infer, branch));
    if (taken < 2) tn__set_dead(infer, branch[1 - taken]);
    return TN_OK;
}

/* What holds whichever of two is the result. */
static tn_status control_either(tn_infer *infer, uint32_t index, const tn_tensor *a,
                                const tn_tensor *b) {
    int64_t shape[TN_RANK_MAX];
    tn_tensor either = *a;
    if (a->dtype != b->dtype) either.dtype = TN_UNDEFINED;
    either.flags |= b->flags & TN_TENSOR_BOUND;
    if (a->repeat != b->repeat) either.repeat = TN_SIZE_UNKNOWN;
    if (a->rank != b->rank || a->rank == TN_RANK_UNKNOWN) {
        either.rank = TN_RANK_UNKNOWN;
        return control_set(infer, index, &either);
    }
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t x = a->shape[d], y = b->shape[d];
        shape[d] = x == TN_DIM_UNKNOWN || y == TN_DIM_UNKNOWN ? TN_DIM_UNKNOWN : x > y ? x : y;
        if (x != y && shape[d] != TN_DIM_UNKNOWN) either.flags |= TN_TENSOR_BOUND;
    }
    either.shape = shape;
    return control_set(infer, index, &either);
}

static tn_status control_if(tn_infer *infer) {
    tn_block_id branch[2];
    uint32_t taken = control_taken(infer);
    TN_TRY(control_branches(infer, branch));
    const tn_block *yes = tn_graph_block(infer->graph, branch[0]);
    const tn_block *no = tn_graph_block(infer->graph, branch[1]);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        const tn_tensor *a = control_tensor(infer, (taken == 1 ? no : yes)->outputs[i]);
        const tn_tensor *b = control_tensor(infer, (taken == 0 ? yes : no)->outputs[i]);
        TN_TRY(a == b ? control_set(infer, i, a) : control_either(infer, i, a, b));
    }
    return TN_OK;
}

static tn_status control_if_fold(tn_infer *infer) {
    tn_block_id branch[2];
    uint32_t taken = control_taken(infer);
    if (taken == 2) return TN_OK;
    TN_TRY(control_branches(infer, branch));
    const tn_block *view = tn_graph_block(infer->graph, branch[taken]);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        const tn_tensor *from = control_tensor(infer, view->outputs[i]);
        if (!(from->flags & TN_TENSOR_FOLDED) && from->kind != TN_KIND_PARAMETER &&
            from->kind != TN_KIND_CONSTANT)
            continue;
        tn__set_folded(infer, i);
        if (!from->value) continue;
        if (from->value->ints)
            TN_TRY(tn__set_value_ints(infer, i, from->value->ints, from->value->count));
        else
            TN_TRY(tn__set_value_floats(infer, i, from->value->floats, from->value->count));
    }
    return TN_OK;
}

/* --- what iterations carry ----------------------------------------------------------------------
 */

/* Widens a formal until it holds what the body hands to the next iteration. */
static tn_status control_widen(tn_infer *infer, tn_tensor_id formal, const tn_tensor *next,
                               bool *changed) {
    const tn_tensor *now = control_tensor(infer, formal);
    int64_t shape[TN_RANK_MAX];
    tn_tensor wide = *now;
    bool differs = false;
    if (now->rank != TN_RANK_UNKNOWN) {
        if (next->rank != now->rank) {
            wide.rank = TN_RANK_UNKNOWN;
            differs = true;
        }
        for (uint32_t d = 0; d < now->rank && wide.rank != TN_RANK_UNKNOWN; d++) {
            bool same = next->shape[d] == now->shape[d];
            shape[d] = same ? now->shape[d] : TN_DIM_UNKNOWN;
            differs |= shape[d] != now->shape[d];
        }
        wide.shape = shape;
    }
    if (next->flags & ~now->flags & TN_TENSOR_BOUND) {
        wide.flags |= TN_TENSOR_BOUND;
        differs = true;
    }
    if (next->repeat != now->repeat && now->repeat != TN_SIZE_UNKNOWN) {
        wide.repeat = TN_SIZE_UNKNOWN;
        differs = true;
    }
    if (!differs) return TN_OK;
    *changed = true;
    return tn__set_formal(infer, formal, &wide);
}

/* A change travels through all that is carried in as many rounds as there are; a formal whose
 * extents the file states would be widened for ever, so later rounds are not asked for. */
static bool control_settled(uint32_t round, uint32_t carried) { return round > carried + 2; }

/* A formal of the loop's own making: a scalar, unless the file says otherwise. */
static tn_status control_scalar(tn_infer *infer, tn_tensor_id formal, tn_dtype dtype) {
    const tn_tensor scalar = {.dtype = dtype, .repeat = 1};
    if (tn__rank_known(control_tensor(infer, formal))) return TN_OK;
    return tn__set_formal(infer, formal, &scalar);
}

/* --- Loop ---------------------------------------------------------------------------------------
 */

static tn_status control_loop_body(tn_infer *infer, const tn_block **body, uint32_t *carried) {
    tn_block_id block;
    TN_TRY(control_body(infer, "body", &block));
    *body = tn_graph_block(infer->graph, block);
    *carried = tn__input_count(infer) > 2 ? tn__input_count(infer) - 2 : 0;
    uint32_t outputs = tn__output_count(infer);
    return control_check(infer, *body, (uint64_t)*carried + 2,
                         (uint64_t)(outputs > *carried ? outputs : *carried) + 1);
}

static tn_status control_loop_enter(tn_infer *infer, uint32_t round, bool *again) {
    const tn_block *body;
    uint32_t carried;
    TN_TRY(control_loop_body(infer, &body, &carried));
    if (round == 0) {
        TN_TRY(control_scalar(infer, body->inputs[0], TN_INT64));
        TN_TRY(control_scalar(infer, body->inputs[1], TN_BOOL));
        for (uint32_t i = 0; i < carried; i++) {
            const tn_tensor *initial = tn__input(infer, 2 + i);
            if (initial) TN_TRY(tn__set_formal(infer, body->inputs[2 + i], initial));
        }
        *again = true;
        return TN_OK;
    }
    for (uint32_t i = 0; i < carried && !control_settled(round, carried); i++)
        TN_TRY(control_widen(infer, body->inputs[2 + i],
                             control_tensor(infer, body->outputs[1 + i]), again));
    return TN_OK;
}

/* Whether the condition that the body computes is the one it was given: through Identity and Cast
 * only. */
static bool control_keeps_condition(const tn_infer *infer, const tn_block *body) {
    tn_tensor_id at = body->outputs[0];
    for (uint32_t hops = 0; hops < 16; hops++) {
        if (at == body->inputs[1]) return true;
        tn_op_id producer = control_tensor(infer, at)->producer;
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
static int64_t control_trips(const tn_infer *infer, const tn_block *body, bool *exact) {
    uint32_t count;
    const int64_t *most = tn__value_ints(infer, 0, &count);
    int64_t trips = most && count == 1 ? (most[0] > 0 ? most[0] : 0) : TN_DIM_UNKNOWN;
    *exact = true;
    if (!tn__input(infer, 1)) return trips; /* without a condition only the count decides */
    const int64_t *first = tn__value_ints(infer, 1, &count);
    const tn_value *later = control_tensor(infer, body->outputs[0])->value;
    bool starts = first && count == 1 && first[0];
    if (first && count == 1 && !first[0]) return 0;
    if (later && later->ints && later->count == 1) {
        if (!later->ints[0] && trips != 0) trips = 1;
        *exact = starts;
    } else {
        *exact = starts && control_keeps_condition(infer, body);
    }
    return !*exact && trips >= CONTROL_TRIPS_MAX ? TN_DIM_UNKNOWN : trips;
}

/* `like` with one more extent at `axis`. */
static tn_status control_collect(tn_infer *infer, uint32_t index, const tn_tensor *like,
                                 uint32_t axis, int64_t extent) {
    int64_t shape[TN_RANK_MAX + 1];
    tn_tensor all = *like;
    if (!tn__rank_known(like) || like->rank >= TN_RANK_MAX)
        return tn__set_dtype(infer, index, like->dtype);
    for (uint32_t d = 0; d < like->rank; d++) shape[d < axis ? d : d + 1] = like->shape[d];
    shape[axis] = extent;
    all.rank++;
    all.shape = shape;
    return control_set(infer, index, &all);
}

static tn_status control_loop(tn_infer *infer) {
    const tn_block *body;
    uint32_t carried;
    bool exact;
    TN_TRY(control_loop_body(infer, &body, &carried));
    int64_t trips = control_trips(infer, body, &exact);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        if (i < carried) {
            TN_TRY(control_set(infer, i, control_tensor(infer, body->inputs[2 + i])));
            continue;
        }
        const tn_tensor *each = control_tensor(infer, body->outputs[1 + i]);
        TN_TRY(control_collect(infer, i, each, 0, trips));
        if (!exact && trips != TN_DIM_UNKNOWN) tn__set_bound(infer, i);
    }
    return TN_OK;
}

/* --- Scan ---------------------------------------------------------------------------------------
 */

typedef struct control_scan {
    const tn_block *body;
    uint32_t states, scans; /* inputs of either sort */
    uint32_t first;         /* opset 8: an optional input before them, and a batch dimension */
    uint32_t batch;
} control_scan;

static tn_status control_scan_read(tn_infer *infer, control_scan *scan) {
    tn_block_id block;
    int64_t scans = tn__attr_int(infer, "num_scan_inputs", 0);
    TN_TRY(control_body(infer, "body", &block));
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
    return control_check(infer, scan->body, inputs,
                         outputs > scan->states ? outputs : scan->states);
}

/* Entry i of an attribute with one axis per scan input or output; 0 without. */
static tn_status control_scan_axis(const tn_infer *infer, const char *name, uint32_t i,
                                   uint32_t rank, uint32_t *axis) {
    uint32_t count;
    const int64_t *axes = tn__attr_ints(infer, name, &count);
    return tn__axis(infer, axes && i < count ? axes[i] : 0, rank, axis);
}

/* `tensor` without the batch dimension and, for a scan input, without the scanned one. */
static tn_status control_scan_formal(tn_infer *infer, const control_scan *scan, uint32_t i) {
    const tn_tensor *tensor = tn__input(infer, scan->first + i);
    int64_t shape[TN_RANK_MAX];
    if (!tensor) return tn__infer_fail(infer, "input %u is omitted", scan->first + i);
    tn_tensor each = *tensor;
    if (!tn__rank_known(tensor)) return tn__set_formal(infer, scan->body->inputs[i], &each);
    bool scanned = i >= scan->states;
    uint32_t axis = TN_RANK_MAX;
    if (tensor->rank < scan->batch + scanned)
        return tn__infer_fail(infer, "'%.80s' has rank %u, too few to scan", tensor->name,
                              tensor->rank);
    if (scanned && !scan->batch)
        TN_TRY(control_scan_axis(infer, "scan_input_axes", i - scan->states, tensor->rank, &axis));
    else if (scanned)
        axis = 1;
    each.rank = 0;
    for (uint32_t d = scan->batch; d < tensor->rank; d++)
        if (d != axis) shape[each.rank++] = tensor->shape[d];
    each.shape = shape;
    return tn__set_formal(infer, scan->body->inputs[i], &each);
}

static tn_status control_scan_enter(tn_infer *infer, uint32_t round, bool *again) {
    control_scan scan;
    TN_TRY(control_scan_read(infer, &scan));
    for (uint32_t i = 0; round == 0 && i < scan.states + scan.scans; i++)
        TN_TRY(control_scan_formal(infer, &scan, i));
    *again = round == 0;
    for (uint32_t i = 0; round && i < scan.states && !control_settled(round, scan.states); i++)
        TN_TRY(control_widen(infer, scan.body->inputs[i],
                             control_tensor(infer, scan.body->outputs[i]), again));
    return TN_OK;
}

/* The scanned extent, on which all scan inputs must agree. */
static tn_status control_scan_length(tn_infer *infer, const control_scan *scan, int64_t *length) {
    *length = TN_DIM_UNKNOWN;
    for (uint32_t i = 0; i < scan->scans; i++) {
        const tn_tensor *tensor = tn__input(infer, scan->first + scan->states + i);
        uint32_t axis = 1;
        if (!tn__rank_known(tensor)) continue;
        if (!scan->batch)
            TN_TRY(control_scan_axis(infer, "scan_input_axes", i, tensor->rank, &axis));
        int64_t extent = tensor->shape[axis];
        if (extent == TN_DIM_UNKNOWN) continue;
        if (*length != TN_DIM_UNKNOWN && *length != extent && !(tensor->flags & TN_TENSOR_BOUND))
            return tn__infer_fail(infer, "scan inputs of %lld and %lld elements",
                                  (long long)*length, (long long)extent);
        if (*length == TN_DIM_UNKNOWN || extent > *length) *length = extent;
    }
    return TN_OK;
}

static tn_status control_scan_shape(tn_infer *infer) {
    control_scan scan;
    int64_t length;
    TN_TRY(control_scan_read(infer, &scan));
    TN_TRY(control_scan_length(infer, &scan, &length));
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        bool state = i < scan.states;
        const tn_tensor *each =
            control_tensor(infer, state ? scan.body->inputs[i] : scan.body->outputs[i]);
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
            TN_TRY(control_collect(infer, i, &row, 0, batch));
        } else if (state) {
            TN_TRY(control_set(infer, i, each));
        } else {
            if (tn__rank_known(each))
                TN_TRY(control_scan_axis(infer, "scan_output_axes", i - scan.states, each->rank + 1,
                                         &axis));
            TN_TRY(control_collect(infer, i, each, axis, length));
        }
    }
    return TN_OK;
}

/* --- SequenceMap --------------------------------------------------------------------------------
 */

static tn_status control_map_enter(tn_infer *infer, uint32_t round, bool *again) {
    tn_block_id block;
    *again = round == 0;
    if (round) return TN_OK;
    TN_TRY(control_body(infer, "body", &block));
    const tn_block *body = tn_graph_block(infer->graph, block);
    TN_TRY(control_check(infer, body, tn__input_count(infer), tn__output_count(infer)));
    for (uint32_t i = 0; i < body->input_count; i++) {
        if (!tn__input(infer, i)) return tn__infer_fail(infer, "input %u is omitted", i);
        tn_tensor each = *tn__input(infer, i);
        each.flags &= ~(uint32_t)TN_TENSOR_SEQUENCE;
        each.repeat = 1;
        TN_TRY(tn__set_formal(infer, body->inputs[i], &each));
    }
    return TN_OK;
}

static tn_status control_map(tn_infer *infer) {
    tn_block_id block;
    TN_TRY(control_body(infer, "body", &block));
    const tn_block *body = tn_graph_block(infer->graph, block);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        const tn_tensor *each = control_tensor(infer, body->outputs[i]);
        TN_TRY(tn__set_sequence(infer, i, each->dtype, each->rank, each->shape,
                                tn__input(infer, 0)->repeat));
    }
    return TN_OK;
}

/* clang-format off */
#define CONTROL(name, least, most) .type = #name, .inputs_min = least, .inputs_max = most,         \
    .outputs_max = UINT32_MAX, .flags = TN_RULE_CONTROL
static const tn_op_rule control_rules[] = {
    {CONTROL(If, 1, 1), .shape = control_if, .fold = control_if_fold, .enter = control_if_enter},
    {CONTROL(Loop, 0, UINT32_MAX), .shape = control_loop, .enter = control_loop_enter,
     .monotone = 1},
    {CONTROL(Scan, 0, UINT32_MAX), .shape = control_scan_shape, .enter = control_scan_enter},
    {CONTROL(SequenceMap, 1, UINT32_MAX), .shape = control_map, .enter = control_map_enter},
};
/* clang-format on */

TN_OP_FAMILY(control, "");
