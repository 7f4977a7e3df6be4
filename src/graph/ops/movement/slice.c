/* slice.c - operators that cut and join tensors: Slice, Split, Concat.
 *
 * A contiguous part is a view at an exact byte offset. A part is contiguous if all dimensions
 * before the cut one have extent 1 in the part, and it covers all dimensions after that one
 * completely.
 *
 *     [1, 6, 4] cut at dimension 1, rows 2..4:   one piece of 8 elements at element 8
 *     [2, 6, 4] cut the same way:                two pieces, so no view
 *
 * If the shape of the input is an upper bound, later offsets depend on the extents at run time, so
 * only a part that starts at 0 is a view.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

/* --- Slice --- */

/* begin, step and extent of the slice for each dimension of the input */
typedef struct slice_plan {
    int64_t start[TN_RANK_MAX], step[TN_RANK_MAX], extent[TN_RANK_MAX];
} slice_plan;

typedef struct slice_operands {
    const int64_t *starts, *ends, *axes, *steps;
    uint32_t count; /* number of entries of starts and ends */
    bool bounded;   /* true: the values of starts or ends are bounds */
} slice_operands;

/* Reads the operand lists, from attributes (before opset 10) or from inputs. Returns false if their
 * values are unknown, or there are no starts or ends. */
static bool slice_read(const tn_infer *infer, slice_operands *lists) {
    uint32_t starts, ends, axes, steps;
    *lists = (slice_operands){0};
    if (!tn__list(infer, 1, "starts", &lists->starts, &starts) ||
        !tn__list(infer, 2, "ends", &lists->ends, &ends) ||
        !tn__list(infer, 3, "axes", &lists->axes, &axes) ||
        !tn__list(infer, 4, "steps", &lists->steps, &steps))
        return false;
    lists->count = starts < ends ? starts : ends;
    if (lists->axes && axes < lists->count) lists->count = axes;
    if (lists->steps && steps < lists->count) lists->count = steps;
    lists->bounded = tn__value_is_bound(infer, 1) || tn__value_is_bound(infer, 2);
    return lists->starts && lists->ends;
}

static int64_t slice_clamp(int64_t at, int64_t extent, int64_t low, int64_t high) {
    if (at < 0) at = at < -extent ? low : at + extent;
    return at < low ? low : at > high ? high : at;
}

/* Computes the slice along one dimension. If the ends are bounds and the step is negative, any part
 * may remain, so the extent of the input stays as the upper bound. */
static void slice_cut(const slice_operands *lists, uint32_t i, uint32_t axis, int64_t step,
                      slice_plan *plan) {
    int64_t extent = plan->extent[axis], from = lists->starts[i], to = lists->ends[i];
    plan->step[axis] = step;
    if (extent == TN_DIM_UNKNOWN || (lists->bounded && step < 0)) return;
    bool forward = step > 0;
    from = slice_clamp(from, extent, 0, forward ? extent : extent - 1);
    to = slice_clamp(tn__slice_end(to, step), extent, forward ? 0 : -1,
                     forward ? extent : extent - 1);
    uint64_t span =
        forward ? (to > from ? (uint64_t)(to - from) : 0) : (from > to ? (uint64_t)(from - to) : 0);
    uint64_t stride = forward ? (uint64_t)step : 0 - (uint64_t)step;
    plan->start[axis] = from;
    plan->extent[axis] = (int64_t)(span / stride + (span % stride != 0));
}

static tn_status slice_plan_make(const tn_infer *infer, const slice_operands *lists,
                                 slice_plan *plan) {
    const tn_tensor *input = tn__input(infer, 0);
    uint64_t cut = 0;
    for (uint32_t d = 0; d < input->rank; d++) {
        plan->start[d] = 0;
        plan->step[d] = 1;
        plan->extent[d] = input->shape[d];
    }
    for (uint32_t i = 0; i < lists->count; i++) {
        uint32_t axis;
        int64_t step = lists->steps ? lists->steps[i] : 1;
        TN_TRY(tn__axis(infer, lists->axes ? lists->axes[i] : i, input->rank, &axis));
        if (step == 0) return tn__infer_fail((tn_infer *)infer, "the step of axis %u is 0", axis);
        if (cut >> axis & 1) return tn__infer_fail((tn_infer *)infer, "axis %u is cut twice", axis);
        cut |= UINT64_C(1) << axis;
        slice_cut(lists, i, axis, step, plan);
    }
    return TN_OK;
}

/* Sets the shape of a slice with unknown starts or ends: along the sliced axes, the input's extents
 * are an upper bound. */
static tn_status slice_unknown(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const int64_t *axes;
    uint32_t count, length = tn__list_length(tn__input(infer, 1));
    TN_TRY(tn__set_like(infer, 0, input));
    bool known = tn__list(infer, 3, "axes", &axes, &count);
    if (!known || (!axes && length == TN_NONE)) {
        tn__set_bound(infer, 0);
        return TN_OK;
    }
    for (uint32_t i = 0; i < (axes ? count : length); i++) {
        uint32_t axis;
        TN_TRY(tn__axis(infer, axes ? axes[i] : i, input->rank, &axis));
        tn__set_bound_axis(infer, 0, axis);
    }
    return TN_OK;
}

static tn_status slice_shape(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    slice_operands lists;
    slice_plan plan;
    if (!tn__rank_known(input)) return tn__set_dtype(infer, 0, input->dtype);
    if (!slice_read(infer, &lists)) return slice_unknown(infer);
    TN_TRY(slice_plan_make(infer, &lists, &plan));
    for (uint32_t d = 0; d < input->rank && lists.bounded; d++)
        if (plan.step[d] < 0) tn__set_bound_axis(infer, 0, d);
    return tn__set_output(infer, 0, input->dtype, input->rank, plan.extent);
}

static tn_status slice_fold(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0), *output = tn__output(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    uint32_t count = tn__fold_count(infer, 0);
    slice_operands lists;
    slice_plan plan;
    if (!value || count == TN_NONE || !slice_read(infer, &lists) || lists.bounded) return TN_OK;
    TN_TRY(slice_plan_make(infer, &lists, &plan));
    uint32_t *pick = tn__scratch(infer, (size_t)count + 1, sizeof *pick);
    int64_t stride[TN_RANK_MAX], place[TN_RANK_MAX] = {0}, at = 0, size = 1;
    if (!pick) return tn__infer_no_memory(infer);
    for (uint32_t d = input->rank; d-- > 0;) {
        if (count) at += plan.start[d] * size;
        /* a slice of one element does not use its step, which may be so large that it would
         * overflow */
        stride[d] = output->shape[d] > 1 ? plan.step[d] * size : 0;
        size *= input->shape[d];
    }
    for (uint32_t i = 0; i < count; i++) {
        pick[i] = (uint32_t)at;
        for (uint32_t d = input->rank; d-- > 0;) {
            at += stride[d];
            if (++place[d] < output->shape[d]) break;
            at -= stride[d] * place[d];
            place[d] = 0;
        }
    }
    return tn__fold_pick(infer, 0, value, pick, count);
}

/* The view of the part of the input that starts at `start` and has the extents of `output`, if that
 * part is contiguous. */
static tn_view slice_piece(const tn_infer *infer, const tn_tensor *output, const int64_t *start,
                           const int64_t *step) {
    const tn_tensor *input = tn__input(infer, 0);
    if (!tn__shape_known(input) || !tn__shape_known(output)) return tn__no_view;
    uint64_t stride = 1, offset = 0, bytes;
    bool whole = true; /* whether the part covers all later dimensions completely */
    for (uint32_t d = input->rank; d-- > 0;) {
        int64_t extent = output->shape[d];
        bool all = start[d] == 0 && extent == input->shape[d] && (extent <= 1 || step[d] == 1);
        if (extent != 1 && (!whole || step[d] != 1)) return tn__no_view;
        uint64_t skip;
        if (!tn__mul((uint64_t)start[d], stride, &skip) || !tn__add(offset, skip, &offset) ||
            !tn__mul(stride, (uint64_t)input->shape[d], &stride))
            return tn__no_view;
        whole = whole && all;
    }
    uint32_t bits = tn_dtype_bits(input->dtype);
    if (!tn__mul(offset, bits, &bytes) || bytes % 8) return tn__no_view;
    if (bytes && (input->flags & TN_TENSOR_BOUND)) return tn__no_view;
    return tn__view_input(infer, 0, bytes / 8);
}

static tn_view slice_view(tn_infer *infer, uint32_t output) {
    slice_operands lists;
    slice_plan plan;
    const tn_tensor *input = tn__input(infer, 0), *part = tn__output(infer, output);
    if (!part || part->rank != input->rank || !tn__shape_known(input) ||
        !slice_read(infer, &lists) || lists.bounded ||
        slice_plan_make(infer, &lists, &plan) != TN_OK)
        return tn__no_view;
    return slice_piece(infer, part, plan.start, plan.step);
}

/* --- Split --- */

/* Computes the extent of output `index` of a Split along the axis; returns false if it is
 * unknown. */
static bool slice_split_extent(const tn_infer *infer, int64_t extent, uint32_t index,
                               int64_t *part) {
    const int64_t *split;
    uint32_t count;
    int64_t outputs = tn__attr_int(infer->op, "num_outputs", tn__output_count(infer));
    if (!tn__list(infer, 1, "split", &split, &count)) return false;
    if (split) {
        *part = index < count ? split[index] : TN_DIM_UNKNOWN;
        return index < count;
    }
    if (extent == TN_DIM_UNKNOWN || outputs <= 0) return false;
    int64_t chunk = extent / outputs + (extent % outputs != 0);
    *part = chunk;
    uint32_t axis;
    if (tn__axis(infer, tn__attr_int(infer->op, "axis", 0), tn__input(infer, 0)->rank, &axis) !=
            TN_OK ||
        (tn__bound_axes(infer, infer->op->inputs[0]) >> axis & 1))
        return true;
    int64_t before; /* the last part of a Split into equal parts may be smaller than the others */
    if (__builtin_mul_overflow(chunk, (int64_t)index, &before) || before > extent) before = extent;
    if (extent - before < chunk) *part = extent - before;
    return true;
}

/* Checks a Split into parts of equal size: each part except the last must begin inside the
 * input. */
static tn_status slice_split_check_equal(tn_infer *infer, int64_t extent) {
    int64_t outputs = tn__attr_int(infer->op, "num_outputs", tn__output_count(infer)), before;
    if (outputs < 1) return tn__infer_fail(infer, "it has %lld parts", (long long)outputs);
    if (extent == TN_DIM_UNKNOWN || (tn__input(infer, 0)->flags & TN_TENSOR_BOUND)) return TN_OK;
    int64_t chunk = extent / outputs + (extent % outputs != 0);
    if (!__builtin_mul_overflow(outputs - 1, chunk, &before) && before <= extent) return TN_OK;
    return tn__infer_fail(infer,
                          "%lld elements do not make %lld parts of %lld: the last one would "
                          "begin behind the end",
                          (long long)extent, (long long)outputs, (long long)chunk);
}

static tn_status slice_split_check(tn_infer *infer, int64_t extent) {
    const int64_t *split;
    uint32_t count;
    const tn_tensor *input = tn__input(infer, 0);
    if (!tn__list(infer, 1, "split", &split, &count)) return TN_OK;
    if (!split) return slice_split_check_equal(infer, extent);
    if (count < tn__output_count(infer))
        return tn__infer_fail(infer, "%u sizes for %u outputs", count, tn__output_count(infer));
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        if (split[i] < 0 || __builtin_add_overflow(sum, split[i], &sum))
            return tn__infer_fail(infer, "size %u is %lld", i, (long long)split[i]);
    if (extent != TN_DIM_UNKNOWN && sum != extent && !(input->flags & TN_TENSOR_BOUND))
        return tn__infer_fail(infer, "the sizes make %lld, but '%.80s' has %lld there",
                              (long long)sum, input->name, (long long)extent);
    return TN_OK;
}

static tn_status slice_split_shape(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t axis;
    if (!tn__rank_known(input)) {
        for (uint32_t i = 0; i < tn__output_count(infer); i++)
            TN_TRY(tn__set_dtype(infer, i, input->dtype));
        return TN_OK;
    }
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), input->rank, &axis));
    TN_TRY(slice_split_check(infer, input->shape[axis]));
    if (input->rank) memcpy(shape, input->shape, input->rank * sizeof *shape);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        if (!slice_split_extent(infer, input->shape[axis], i, &shape[axis])) {
            /* the extent of the part is unknown, so the extent of the input is its upper bound */
            shape[axis] = input->shape[axis];
            tn__set_bound_axis(infer, i, axis);
        }
        TN_TRY(tn__set_output(infer, i, input->dtype, input->rank, shape));
    }
    return TN_OK;
}

/* Computes where output `index` of a Split begins along the axis. */
static bool slice_split_start(const tn_infer *infer, int64_t extent, uint32_t index,
                              int64_t *start) {
    *start = 0;
    for (uint32_t i = 0; i < index; i++) {
        int64_t part;
        if (!slice_split_extent(infer, extent, i, &part) ||
            __builtin_add_overflow(*start, part, start))
            return false;
    }
    return true;
}

static tn_status slice_split_fold(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    uint32_t axis, inner = 1, before = 0;
    if (!value || !tn__shape_known(input) ||
        tn__axis(infer, tn__attr_int(infer->op, "axis", 0), input->rank, &axis) != TN_OK)
        return TN_OK;
    for (uint32_t d = axis + 1; d < input->rank; d++) inner *= (uint32_t)input->shape[d];
    uint32_t row = (uint32_t)input->shape[axis] * inner;
    for (uint32_t k = 0; k < tn__output_count(infer); k++) {
        int64_t part;
        if (!slice_split_extent(infer, input->shape[axis], k, &part)) return TN_OK;
        uint32_t count = tn__fold_count(infer, k), run = (uint32_t)part * inner;
        if (count != TN_NONE) {
            uint32_t *pick = tn__scratch(infer, (size_t)count + 1, sizeof *pick);
            if (!pick) return tn__infer_no_memory(infer);
            for (uint32_t i = 0; i < count; i++) pick[i] = i / run * row + before + i % run;
            TN_TRY(tn__fold_pick(infer, k, value, pick, count));
        }
        before += run;
    }
    return TN_OK;
}

static tn_view slice_split_view(tn_infer *infer, uint32_t output) {
    const tn_tensor *input = tn__input(infer, 0), *part = tn__output(infer, output);
    int64_t start[TN_RANK_MAX] = {0}, step[TN_RANK_MAX];
    uint32_t axis;
    if (!part || !tn__rank_known(input) ||
        tn__axis(infer, tn__attr_int(infer->op, "axis", 0), input->rank, &axis) != TN_OK ||
        !slice_split_start(infer, input->shape[axis], output, &start[axis]))
        return tn__no_view;
    for (uint32_t d = 0; d < input->rank; d++) step[d] = 1;
    return slice_piece(infer, part, start, step);
}

/* --- Concat --- */

/* Adds the shape of one input to that of the concatenation: extents are summed along the axis and
 * must agree elsewhere. */
static tn_status slice_concat_add(tn_infer *infer, const tn_tensor *part, uint32_t axis,
                                  int64_t *shape, const tn_tensor *first) {
    if (part->rank != first->rank)
        return tn__infer_fail(infer, "'%.80s' has rank %u, but '%.80s' has rank %u", part->name,
                              part->rank, first->name, first->rank);
    for (uint32_t d = 0; d < part->rank; d++) {
        int64_t extent = part->shape[d];
        if (d == axis) {
            if (shape[d] == TN_DIM_UNKNOWN || extent == TN_DIM_UNKNOWN)
                shape[d] = TN_DIM_UNKNOWN;
            else if (__builtin_add_overflow(shape[d], extent, &shape[d]))
                return tn__infer_fail(infer, "the extents along axis %u overflow", d);
        } else if (shape[d] == TN_DIM_UNKNOWN) {
            shape[d] = extent;
        } else if (extent != TN_DIM_UNKNOWN && extent != shape[d]) {
            bool loose = (part->flags | first->flags) & TN_TENSOR_BOUND;
            if (!loose)
                return tn__infer_fail(
                    infer, "'%.80s' and '%.80s' differ at dimension %u: %lld and %lld", first->name,
                    part->name, d, (long long)shape[d], (long long)extent);
            if (extent > shape[d]) shape[d] = extent;
        }
    }
    return TN_OK;
}

static tn_status slice_concat_shape(tn_infer *infer) {
    const tn_tensor *first = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t axis;
    for (uint32_t i = 0; i < tn__input_count(infer); i++)
        if (!tn__rank_known(tn__input(infer, i))) return tn__set_dtype(infer, 0, first->dtype);
    if (infer->version >= 4 && !tn__attr(infer->op, "axis"))
        return tn__infer_fail(infer, "attribute axis is missing");
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", infer->version < 4 ? 1 : 0), first->rank,
                    &axis));
    memcpy(shape, first->shape, first->rank * sizeof *shape);
    for (uint32_t i = 1; i < tn__input_count(infer); i++)
        TN_TRY(slice_concat_add(infer, tn__input(infer, i), axis, shape, first));
    return tn__set_output(infer, 0, first->dtype, first->rank, shape);
}

static tn_status slice_concat_fold(tn_infer *infer) {
    const tn_tensor *output = tn__output(infer, 0);
    uint32_t count = tn__fold_count(infer, 0), axis, inner = 1, before = 0;
    if (count == TN_NONE ||
        tn__axis(infer, tn__attr_int(infer->op, "axis", infer->version < 4 ? 1 : 0), output->rank,
                 &axis) != TN_OK)
        return TN_OK;
    for (uint32_t d = axis + 1; d < output->rank; d++) inner *= (uint32_t)output->shape[d];
    uint32_t row = (uint32_t)output->shape[axis] * inner;
    int64_t *ints = tn__scratch(infer, (size_t)count + 1, sizeof *ints);
    double *floats = tn__scratch(infer, (size_t)count + 1, sizeof *floats);
    bool integers = tn__is_integer(output->dtype);
    if (!ints || !floats) return tn__infer_no_memory(infer);
    for (uint32_t k = 0; k < tn__input_count(infer); k++) {
        const tn_value *value = tn__value(infer, k);
        if (!value || (value->count && !(integers ? (const void *)value->ints : value->floats)))
            return TN_OK;
        uint32_t run = (uint32_t)tn__input(infer, k)->shape[axis] * inner;
        for (uint32_t i = 0; i < value->count; i++) {
            uint32_t at = i / run * row + before + i % run;
            if (integers)
                ints[at] = value->ints[i];
            else
                floats[at] = value->floats[i];
        }
        before += run;
    }
    return integers ? tn__set_value_ints(infer, 0, ints, count)
                    : tn__set_value_floats(infer, 0, floats, count);
}

/* The output of a Concat is a view of one input if all other inputs are empty. */
static tn_view slice_concat_view(tn_infer *infer, uint32_t output) {
    uint32_t only = TN_NONE;
    for (uint32_t i = 0; i < tn__input_count(infer); i++) {
        const tn_tensor *part = tn__input(infer, i);
        if (part && part->bytes == 0) continue;
        if (only != TN_NONE) return tn__no_view;
        only = i;
    }
    return output || only == TN_NONE ? tn__no_view : tn__view_input(infer, only, 0);
}

/* clang-format off */
static const tn_op_rule slice_rules[] = {
    {.type = "Concat", .inputs_min = 1, .inputs_max = UINT32_MAX, .outputs_max = 1,
     .shape = slice_concat_shape, .fold = slice_concat_fold, .view = slice_concat_view,
     .monotone = UINT64_MAX, .flags = TN_RULE_JOINS | TN_RULE_IMAGES,
     .split = tn__split_concat,     .gradient = tn__gradient_concat},
    {.type = "Slice", .inputs_min = 1, .inputs_max = 5, .outputs_max = 1, .shape = slice_shape,
     .fold = slice_fold, .view = slice_view, .monotone = 1 | 4,
     .antitone = 2, .split = tn__split_untouched, .gradient = tn__gradient_slice},
    {.type = "Split", .inputs_min = 1, .inputs_max = 2, .outputs_max = UINT32_MAX,
     .shape = slice_split_shape, .fold = slice_split_fold, .view = slice_split_view,
     .monotone = 1, .split = tn__split_outputs, .gradient = tn__gradient_split},
};
/* clang-format on */

TN_OP_FAMILY(slice, "");
