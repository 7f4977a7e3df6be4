/* control.c - control flow: If, Loop and Scan, and the inference that they share.
 *
 * A carried value starts as the initial value. If the body changes an extent (or the length of a
 * sequence), inference assumes that it grows by the same amount in each iteration: with a known
 * number of iterations, the extent gets its value before the last one, and the body is inferred
 * again. If it then grows by the same amount, the assumption holds; inside the body the extent is
 * an upper bound, because earlier iterations see less. Any other change makes the extent unknown,
 * and the body is inferred again until nothing changes. Each such round loses a known extent, so
 * the rounds end.
 */
#include "graph/op.h"

/* --- code that If, Loop and Scan share -------------------------------------------------------- */

typedef struct control_carried { /* one value that a loop carries from iteration to iteration */
    const tn_tensor *initial;    /* the initial value, an input of the operator */
    /* formal: an input of the body. next: the output of the body that becomes this input in the
     * next iteration */
    tn_tensor_id formal, next;
    int64_t trips; /* number of iterations; TN_DIM_UNKNOWN: not known */
    bool exact;    /* true: the number of iterations cannot be smaller than `trips` */
} control_carried;

/* Reads the block of an attribute. Errors: E_INVALID if it is missing. */
static tn_status control_body(tn_infer *infer, const char *name, tn_block_id *block) {
    const tn_attr *attr = tn__attr(infer->op, name);
    *block = 0;
    if (!attr || attr->type != TN_ATTR_BLOCK)
        return tn__infer_fail(infer, "it has no block '%s'", name);
    *block = attr->block;
    return TN_OK;
}

/* Checks the body of a loop. Errors: E_INVALID if the block has another number of inputs, or fewer
 * outputs. */
static tn_status control_check(tn_infer *infer, const tn_block *body, uint64_t inputs,
                               uint64_t outputs) {
    if (body->input_count != inputs)
        return tn__infer_fail(infer, "its block takes %u inputs where the operator passes %llu",
                              body->input_count, (unsigned long long)inputs);
    if (body->output_count < outputs) /* the operator may omit its last outputs */
        return tn__infer_fail(infer, "its block has %u outputs where the operator needs %llu",
                              body->output_count, (unsigned long long)outputs);
    return TN_OK;
}

static const tn_tensor *control_tensor(const tn_infer *infer, tn_tensor_id id) {
    return tn_graph_tensor(infer->graph, id);
}

/* Sets type, shape and repeat of an output to those of `like`, with bounds at `axes`. */
static tn_status control_set(tn_infer *infer, uint32_t index, const tn_tensor *like,
                             uint64_t axes) {
    if (like->flags & TN_TENSOR_SEQUENCE)
        TN_TRY(tn__set_sequence(infer, index, like->dtype, like->rank, like->shape, like->repeat));
    else
        TN_TRY(tn__set_output(infer, index, like->dtype, like->rank, like->shape));
    for (uint32_t d = 0; axes && d < TN_RANK_MAX; d++)
        if (axes >> d & 1) tn__set_bound_axis(infer, index, d);
    return TN_OK;
}

/* --- values that a loop carries from iteration to iteration ----------------------------------- */

/* Computes the value that an extent has before the last iteration, if it starts as `initial` and
 * one iteration takes it from `now` to `next`. Returns false if that is unknown, or if it does not
 * grow by equal steps. */
static bool control_grow(const control_carried *carried, int64_t initial, int64_t now, int64_t next,
                         int64_t *before_last) {
    int64_t step;
    int64_t times = carried->trips > 0 ? carried->trips - 1 : 0;
    if (carried->trips == TN_DIM_UNKNOWN || initial == TN_DIM_UNKNOWN || now == TN_DIM_UNKNOWN ||
        next == TN_DIM_UNKNOWN || next <= now)
        return false;
    return !__builtin_mul_overflow(next - now, times, &step) &&
           !__builtin_add_overflow(initial, step, before_last);
}

/* Widens the extents of a formal input; axes that grow become bounds inside the body. */
static bool control_widen_extents(tn_infer *infer, const control_carried *carried, uint32_t round,
                                  int64_t *shape, uint64_t *axes) {
    const tn_tensor *now = control_tensor(infer, carried->formal);
    const tn_tensor *next = control_tensor(infer, carried->next);
    const tn_tensor *initial = carried->initial;
    bool differs = false;
    for (uint32_t d = 0; d < now->rank; d++) {
        int64_t last = TN_DIM_UNKNOWN;
        shape[d] = now->shape[d];
        if (next->shape[d] == now->shape[d]) continue;
        bool grows = initial && initial->rank == now->rank &&
                     control_grow(carried, initial->shape[d], now->shape[d], next->shape[d], &last);
        if (!grows || (round > 1 && last != now->shape[d])) last = TN_DIM_UNKNOWN;
        if (last != TN_DIM_UNKNOWN && last != initial->shape[d]) *axes |= UINT64_C(1) << d;
        differs |= last != now->shape[d];
        shape[d] = last;
    }
    return differs;
}

static bool control_widen_repeat(tn_infer *infer, const control_carried *carried, uint32_t round,
                                 uint64_t *repeat) {
    const tn_tensor *now = control_tensor(infer, carried->formal);
    const tn_tensor *next = control_tensor(infer, carried->next);
    const tn_tensor *initial = carried->initial;
    int64_t last;
    *repeat = now->repeat;
    if (next->repeat == now->repeat || now->repeat == TN_SIZE_UNKNOWN) return false;
    bool grows = carried->exact && initial && initial->repeat <= INT64_MAX &&
                 now->repeat <= INT64_MAX && next->repeat <= INT64_MAX &&
                 control_grow(carried, (int64_t)initial->repeat, (int64_t)now->repeat,
                              (int64_t)next->repeat, &last);
    *repeat =
        grows && (round == 1 || (uint64_t)last == now->repeat) ? (uint64_t)last : TN_SIZE_UNKNOWN;
    return *repeat != now->repeat;
}

/* Whether a sequence is empty: then its element type and shape are still open, and the first tensor
 * put into it decides. */
static bool control_is_empty(const tn_tensor *tensor) {
    return (tensor->flags & TN_TENSOR_SEQUENCE) && tensor->repeat == 0;
}

/* Widens a formal input until it can hold the value that the body passes on; sets *changed if it
 * did so. Rounds count from 1. */
static tn_status control_widen(tn_infer *infer, const control_carried *carried, uint32_t round,
                               bool *changed) {
    const tn_tensor *now = control_tensor(infer, carried->formal);
    const tn_tensor *next = control_tensor(infer, carried->next);
    int64_t shape[TN_RANK_MAX];
    tn_tensor wide = *now;
    uint64_t before = tn__bound_axes(infer, carried->formal);
    uint64_t axes = before | tn__bound_axes(infer, carried->next);
    bool differs = false;
    if (control_is_empty(now) && next->repeat != 0) {
        wide.rank = next->rank;
        wide.shape = next->shape;
        differs = true;
    } else if (now->rank != TN_RANK_UNKNOWN && next->rank != now->rank) {
        wide.rank = TN_RANK_UNKNOWN;
        differs = true;
    } else if (now->rank != TN_RANK_UNKNOWN) {
        differs |= control_widen_extents(infer, carried, round, shape, &axes);
        wide.shape = shape;
        differs |= (axes & ~before) != 0;
    }
    differs |= control_widen_repeat(infer, carried, round, &wide.repeat);
    if (!differs) return TN_OK;
    *changed = true;
    return tn__set_formal(infer, carried->formal, &wide, axes);
}

/* Sets the shape of an output to that of the carried value after the last iteration. */
static tn_status control_last(tn_infer *infer, uint32_t index, const control_carried *carried) {
    const tn_tensor *now = control_tensor(infer, carried->formal);
    const tn_tensor *next = control_tensor(infer, carried->next);
    const tn_tensor *initial = carried->initial;
    uint64_t axes = tn__bound_axes(infer, carried->formal);
    int64_t shape[TN_RANK_MAX];
    tn_tensor last = *now;
    bool none = carried->trips == 0 && initial;
    if (next->repeat != now->repeat) last.repeat = none ? initial->repeat : next->repeat;
    bool both = now->rank != TN_RANK_UNKNOWN && next->rank == now->rank;
    for (uint32_t d = 0; both && d < now->rank; d++) {
        shape[d] = now->shape[d];
        if (next->shape[d] == now->shape[d] || now->shape[d] == TN_DIM_UNKNOWN) continue;
        /* the extent grows from iteration to iteration; control_widen has checked this */
        shape[d] = none ? initial->shape[d] : next->shape[d];
        bool even = next->shape[d] != TN_DIM_UNKNOWN &&
                    tn__least_extent(infer, carried->next, d) -
                            tn__least_extent(infer, carried->formal, d) ==
                        next->shape[d] - now->shape[d];
        bool starts_exact = initial && !(initial->flags & TN_TENSOR_BOUND);
        if (carried->exact && even && starts_exact) axes &= ~(UINT64_C(1) << d);
    }
    if (both) last.shape = shape;
    return control_set(infer, index, &last, axes);
}

/* Whether all changes have settled. A change passes through all carried values in as many rounds as
 * there are values. If the file states the extents of a formal input, that input would be widened
 * forever, so later rounds do not count. */
static bool control_settled(uint32_t round, uint32_t carried) { return round > carried + 2; }

/* Sets a formal input that the loop itself provides: a scalar, unless the file says otherwise. */
static tn_status control_scalar(tn_infer *infer, tn_tensor_id formal, tn_dtype dtype) {
    const tn_tensor scalar = {.dtype = dtype, .repeat = 1};
    if (tn__rank_known(control_tensor(infer, formal))) return TN_OK;
    return tn__set_formal(infer, formal, &scalar, 0);
}

/* Sets an output that a loop collects: the value of one iteration with one more extent at
 * `axis`. */
static tn_status control_collect(tn_infer *infer, uint32_t index, const tn_tensor *like,
                                 uint64_t axes, uint32_t axis, int64_t extent) {
    int64_t shape[TN_RANK_MAX + 1];
    tn_tensor all = *like;
    if (!tn__rank_known(like) || like->rank >= TN_RANK_MAX)
        return tn__set_dtype(infer, index, like->dtype);
    for (uint32_t d = 0; d < like->rank; d++) shape[d < axis ? d : d + 1] = like->shape[d];
    shape[axis] = extent;
    all.rank++;
    all.shape = shape;
    uint64_t before = (UINT64_C(1) << axis) - 1;
    return control_set(infer, index, &all, (axes & before) | (axes & ~before) << 1);
}

/* --- If --------------------------------------------------------------------------------------- */

/* The rule of If.
 *
 * With a known condition the other branch is dead and the result is that of the taken branch. With
 * an unknown one, the result must be able to hold either: if both extents are known and differ, it
 * gets the larger one, as an upper bound.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */

/* Which branch runs: 0 then, 1 else, 2 not known. */
static uint32_t branch_taken(const tn_infer *infer) {
    uint32_t count;
    const int64_t *condition = tn__value_ints(infer, 0, &count);
    return !condition || count != 1 ? 2 : condition[0] ? 0 : 1;
}

static tn_status branch_branches(tn_infer *infer, tn_block_id branch[2]) {
    TN_TRY(control_body(infer, "then_branch", &branch[0]));
    TN_TRY(control_body(infer, "else_branch", &branch[1]));
    for (uint32_t i = 0; i < 2; i++)
        TN_TRY(control_check(infer, tn_graph_block(infer->graph, branch[i]), 0,
                             tn__output_count(infer)));
    return TN_OK;
}

/* Which branch runs, after both were tried: a branch that failed cannot run. 0 then, 1 else, 2 not
 * known. */
static uint32_t branch_left(const tn_infer *infer, const tn_block_id branch[2]) {
    for (uint32_t i = 0; i < 2; i++)
        if (tn_graph_block(infer->graph, branch[i])->dead) return 1 - i;
    return branch_taken(infer);
}

static tn_status branch_if_enter(tn_infer *infer, uint32_t round, bool *again) {
    tn_block_id branch[2];
    uint32_t taken = branch_taken(infer);
    *again = round == 0;
    if (round) return TN_OK;
    TN_TRY(branch_branches(infer, branch));
    for (uint32_t i = 0; i < 2; i++) {
        if (taken == 2) tn__set_tried(infer, branch[i]);
        if (taken == 1 - i) tn__set_dead(infer, branch[i]);
    }
    return TN_OK;
}

/* Computes the type and shape that can hold either of two results. */
static tn_status branch_either(tn_infer *infer, uint32_t index, tn_tensor_id first,
                               tn_tensor_id second) {
    const tn_tensor *a = control_tensor(infer, first);
    const tn_tensor *b = control_tensor(infer, second);
    int64_t shape[TN_RANK_MAX];
    tn_tensor either = *a;
    if (a->dtype != b->dtype) either.dtype = TN_UNDEFINED;
    uint64_t axes = tn__bound_axes(infer, first) | tn__bound_axes(infer, second);
    if (a->repeat != b->repeat) either.repeat = TN_SIZE_UNKNOWN;
    if (a->rank != b->rank || a->rank == TN_RANK_UNKNOWN) {
        either.rank = TN_RANK_UNKNOWN;
        return control_set(infer, index, &either, 0);
    }
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t x = a->shape[d], y = b->shape[d];
        shape[d] = x == TN_DIM_UNKNOWN || y == TN_DIM_UNKNOWN ? TN_DIM_UNKNOWN : x > y ? x : y;
        if (x != y) axes |= UINT64_C(1) << d;
    }
    either.shape = shape;
    return control_set(infer, index, &either, axes);
}

static tn_status branch_if(tn_infer *infer) {
    tn_block_id branch[2];
    TN_TRY(branch_branches(infer, branch));
    uint32_t taken = branch_left(infer, branch);
    const tn_block *yes = tn_graph_block(infer->graph, branch[0]);
    const tn_block *no = tn_graph_block(infer->graph, branch[1]);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        tn_tensor_id a = (taken == 1 ? no : yes)->outputs[i];
        tn_tensor_id b = (taken == 0 ? yes : no)->outputs[i];
        TN_TRY(a == b ? control_set(infer, i, control_tensor(infer, a), tn__bound_axes(infer, a))
                      : branch_either(infer, i, a, b));
    }
    return TN_OK;
}

static tn_status branch_if_fold(tn_infer *infer) {
    tn_block_id branch[2];
    TN_TRY(branch_branches(infer, branch));
    uint32_t taken = branch_left(infer, branch);
    if (taken == 2) return TN_OK;
    const tn_block *view = tn_graph_block(infer->graph, branch[taken]);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        const tn_tensor *from = control_tensor(infer, view->outputs[i]);
        if (!tn_tensor_is_constant(from)) continue;
        tn__set_folded(infer, i);
        if (!from->value || tn__value_is_rough(infer, view->outputs[i])) continue;
        if (from->value->ints)
            TN_TRY(tn__set_value_ints(infer, i, from->value->ints, from->value->count));
        else
            TN_TRY(tn__set_value_floats(infer, i, from->value->floats, from->value->count));
    }
    return TN_OK;
}

/* --- Loop ------------------------------------------------------------------------------------- */

/* The rule of Loop.
 *
 * Collected outputs get the number of iterations as their first extent: exact if nothing can stop
 * the loop early, else an upper bound. Carried values are described at the top of this file.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */

/* a limit of at least this number of iterations counts as no limit if the loop may stop earlier,
 * because exporters write such numbers for while loops */
#define LOOP_TRIPS_MAX (INT64_C(1) << 31)

static tn_status loop_body(tn_infer *infer, const tn_block **body, uint32_t *carried) {
    tn_block_id block;
    TN_TRY(control_body(infer, "body", &block));
    *body = tn_graph_block(infer->graph, block);
    *carried = tn__input_count(infer) > 2 ? tn__input_count(infer) - 2 : 0;
    uint32_t outputs = tn__output_count(infer);
    return control_check(infer, *body, (uint64_t)*carried + 2,
                         (uint64_t)(outputs > *carried ? outputs : *carried) + 1);
}

/* Whether the body returns its condition unchanged: only Identity and Cast are between. */
static bool loop_keeps_condition(const tn_infer *infer, const tn_block *body) {
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

/* The largest number of iterations. *exact is set to false if there may be fewer. TN_DIM_UNKNOWN:
 * the number is not known, has no limit, or is not exact and at least LOOP_TRIPS_MAX. */
static int64_t loop_trips(const tn_infer *infer, const tn_block *body, bool *exact) {
    uint32_t count;
    const int64_t *most = tn__value_ints(infer, 0, &count);
    int64_t trips = most && count == 1 ? (most[0] > 0 ? most[0] : 0) : TN_DIM_UNKNOWN;
    *exact = !tn__value_is_bound(infer, 0);
    /* without a condition input, only the number of iterations limits the loop */
    if (!tn__input(infer, 1)) return trips;
    const int64_t *first = tn__value_ints(infer, 1, &count);
    const tn_value *later = control_tensor(infer, body->outputs[0])->value;
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

static control_carried loop_carried(const tn_infer *infer, const tn_block *body, uint32_t i) {
    control_carried carried = {.initial = tn__input(infer, 2 + i),
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
        TN_TRY(control_scalar(infer, body->inputs[0], TN_INT64));
        TN_TRY(control_scalar(infer, body->inputs[1], TN_BOOL));
    }
    for (uint32_t i = 0; i < count && !control_settled(round, count); i++) {
        control_carried carried = loop_carried(infer, body, i);
        if (round)
            TN_TRY(control_widen(infer, &carried, round, again));
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
            control_carried value = loop_carried(infer, body, i);
            TN_TRY(control_last(infer, i, &value));
            continue;
        }
        const tn_tensor *each = control_tensor(infer, body->outputs[1 + i]);
        TN_TRY(
            control_collect(infer, i, each, tn__bound_axes(infer, body->outputs[1 + i]), 0, trips));
        if (!exact) tn__set_bound_axis(infer, i, 0);
    }
    return TN_OK;
}

static tn__loop_values loop_turns(const tn_op *op, const tn_block *body) {
    (void)body;
    return (tn__loop_values){.carried = op->input_count > 2 ? op->input_count - 2 : 0,
                             .given = 2,
                             .formal = 2,
                             .next = 1};
}

/* --- Scan ------------------------------------------------------------------------------------- */

/* Scan and SequenceMap, which run a block for each element.
 *
 * Source: operator texts of ONNX, opsets 8 to 21.
 */

typedef struct scan_plan {
    const tn_block *body;
    uint32_t states, scans; /* number of state inputs and of scan inputs */
    /* index of the first state input. In opset 8 an optional input comes before it, and tensors
     * have a batch dimension */
    uint32_t first;
    uint32_t batch;
} scan_plan;

static tn_status scan_read(tn_infer *infer, scan_plan *scan) {
    tn_block_id block;
    int64_t scans = tn__attr_int(infer->op, "num_scan_inputs", 0);
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

/* Entry i of an attribute that holds one axis per scan input or output; 0 if the attribute is
 * absent. */
static tn_status scan_axis(const tn_infer *infer, const char *name, uint32_t i, uint32_t rank,
                           uint32_t *axis) {
    uint32_t count;
    const int64_t *axes = tn__attr_ints(infer->op, name, &count);
    return tn__axis(infer, axes && i < count ? axes[i] : 0, rank, axis);
}

/* Sets a formal input of the body: the operator's input without the batch dimension and, for a scan
 * input, without the scanned one. */
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

/* Finds the scanned extent, which must be equal for all scan inputs. */
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

static control_carried scan_state(const tn_infer *infer, const scan_plan *scan, uint32_t i,
                                  int64_t length) {
    return (control_carried){.initial = scan->batch ? NULL : tn__input(infer, i),
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
    if (round == 0 || control_settled(round, scan.states)) return TN_OK;
    TN_TRY(scan_length(infer, &scan, &length));
    for (uint32_t i = 0; i < scan.states; i++) {
        control_carried state = scan_state(infer, &scan, i, length);
        TN_TRY(control_widen(infer, &state, round, again));
    }
    return TN_OK;
}

static tn_status scan_shape(tn_infer *infer) {
    scan_plan scan;
    int64_t length;
    TN_TRY(scan_read(infer, &scan));
    TN_TRY(scan_length(infer, &scan, &length));
    /* whether any input has upper bounds as extents; it is not known which axes those are */
    bool loose = false;
    for (uint32_t i = 0; i < tn__input_count(infer); i++)
        loose |= tn__input(infer, i) && (tn__input(infer, i)->flags & TN_TENSOR_BOUND);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        bool state = i < scan.states;
        const tn_tensor *each =
            control_tensor(infer, state ? scan.body->inputs[i] : scan.body->outputs[i]);
        uint64_t axes =
            loose ? UINT64_MAX
                  : tn__bound_axes(infer, state ? scan.body->inputs[i] : scan.body->outputs[i]);
        uint32_t axis = 0;
        if (scan.batch) { /* opset 8 has shapes [batch, ...] and [batch, length, ...] */
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
            TN_TRY(control_collect(infer, i, &row, axes, 0, batch));
        } else if (state) {
            control_carried value = scan_state(infer, &scan, i, length);
            value.exact = !loose;
            TN_TRY(control_last(infer, i, &value));
        } else {
            if (tn__rank_known(each))
                TN_TRY(
                    scan_axis(infer, "scan_output_axes", i - scan.states, each->rank + 1, &axis));
            TN_TRY(control_collect(infer, i, each, axes, axis, length));
        }
    }
    return TN_OK;
}

/* Returns the carried values of a Scan: none if the file does not state which inputs are sliced. */
static tn__loop_values scan_turns(const tn_op *op, const tn_block *body) {
    int64_t sliced = tn__attr_int(op, "num_scan_inputs", -1), formal = body->input_count;
    bool known = sliced >= 0 && sliced <= formal;
    return (tn__loop_values){.carried = known ? (uint32_t)(formal - sliced) : 0,
                             .sliced = known ? (uint32_t)sliced : 0,
                             .batch = op->version != 0 && op->version < 9};
}

/* --- SequenceMap --------------------------------------------------------------------------------
 */

static tn_status scan_map_enter(tn_infer *infer, uint32_t round, bool *again) {
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
        TN_TRY(tn__set_formal(infer, body->inputs[i], &each,
                              tn__bound_axes(infer, infer->op->inputs[i])));
    }
    return TN_OK;
}

static tn_status scan_map(tn_infer *infer) {
    tn_block_id block;
    TN_TRY(control_body(infer, "body", &block));
    const tn_block *body = tn_graph_block(infer->graph, block);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        const tn_tensor *each = control_tensor(infer, body->outputs[i]);
        TN_TRY(tn__set_sequence(infer, i, each->dtype, each->rank, each->shape,
                                tn__input(infer, 0)->repeat));
        if (each->flags & TN_TENSOR_BOUND) tn__set_bound(infer, i);
    }
    return TN_OK;
}

/* --- the table of these operators ------------------------------------------------------------- */

/* clang-format off */
#define CONTROL(name, least, most, more) .type = #name, .inputs_min = least, .inputs_max = most, \
    .outputs_max = UINT32_MAX, .flags = TN_RULE_CONTROL | (more)
static const tn_op_rule control_rules[] = {
    {CONTROL(If, 1, 1, TN_RULE_ONCE), .shape = branch_if, .fold = branch_if_fold,
     .enter = branch_if_enter},
    {CONTROL(Loop, 0, UINT32_MAX, 0), .shape = loop_shape, .monotone = 1, .enter = loop_enter,
     .turns = loop_turns},
    {CONTROL(Scan, 0, UINT32_MAX, TN_RULE_HOLDS), .shape = scan_shape, .enter = scan_enter,
     .turns = scan_turns},
    {CONTROL(SequenceMap, 1, UINT32_MAX, 0), .shape = scan_map, .enter = scan_map_enter},
};
/* clang-format on */

TN_OP_FAMILY(control, "");
