/* slice.c - operators that cut and join tensors: Slice, Split, Concat, Part of domain "tenure", and
 * the gradient of Slice.
 *
 * A part is not copied if its address is already that of its bytes in the whole. This is the case
 * for an output of Slice or Split that is a view, and for an input of Concat that was computed in
 * place.
 * Source: the ONNX specifications, opsets 1 to 17. Attributes may be inputs since opset 10 (Slice)
 * and 13 (Split).
 */
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"
#include "graph/rules/fold.h"

/* --- Slice --- */

/* Converts a start or end of a slice: a negative one counts from the end of the axis; the result is
 * limited to [low, high]. */
static int64_t slice_clamp(int64_t at, int64_t extent, int64_t low, int64_t high) {
    if (at < 0) at = at < -extent ? low : at + extent;
    return at < low ? low : at > high ? high : at;
}

typedef struct slice_bounds {
    int64_t starts[TN_RANK_MAX], ends[TN_RANK_MAX], axes[TN_RANK_MAX], steps[TN_RANK_MAX];
    uint32_t count;
    bool has_axes, has_steps;
} slice_bounds;

static tn_status slice_read(const tn_kernel_call *call, slice_bounds *lists) {
    uint32_t starts, ends, axes, steps, most = TN_RANK_MAX;
    bool given;
    TN_TRY(tn__call_list(call, 1, "starts", most, lists->starts, &starts, &given));
    TN_TRY(tn__call_list(call, 2, "ends", most, lists->ends, &ends, &given));
    TN_TRY(tn__call_list(call, 3, "axes", most, lists->axes, &axes, &lists->has_axes));
    TN_TRY(tn__call_list(call, 4, "steps", most, lists->steps, &steps, &lists->has_steps));
    if (starts != ends || (lists->has_axes && axes != starts) ||
        (lists->has_steps && steps != starts))
        return tn__call_fail(call, TN_E_INVALID, "starts, ends, axes and steps differ in length");
    lists->count = starts;
    return TN_OK;
}

/* Limits dimension `axis` of a box to a slice with a step: changes its extent and its stride in the
 * source. Returns the byte offset of the first element of the slice. */
static int64_t slice_cut(tn__walk *box, uint32_t axis, int64_t from, int64_t to, int64_t step) {
    int64_t extent = box->extent[axis];
    bool forward = step > 0;
    from = slice_clamp(from, extent, 0, forward ? extent : extent - 1);
    to = slice_clamp(tn__slice_end(to, step), extent, forward ? 0 : -1,
                     forward ? extent : extent - 1);
    int64_t span = forward ? to - from : from - to;
    uint64_t stride = forward ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t whole = span > 0 ? (uint64_t)span : 0;
    box->extent[axis] = (int64_t)(whole / stride + (whole % stride != 0));
    int64_t first = from * box->stride[1][axis];
    /* the stride of a single element is not used, and could overflow */
    if (box->extent[axis] > 1) box->stride[1][axis] *= step;
    return first;
}

static tn_status slice_slice(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn__walk box = {.rank = from->rank};
    slice_bounds lists;
    uint64_t cut = 0;
    int64_t first = 0;
    TN_TRY(slice_read(call, &lists));
    tn__dense_strides(from, box.stride[1]);
    if (from->rank) memcpy(box.extent, from->shape, from->rank * sizeof *from->shape);
    for (uint32_t i = 0; i < lists.count; i++) {
        int64_t step = lists.has_steps ? lists.steps[i] : 1;
        uint32_t axis;
        TN_TRY(tn__call_axis(call, lists.has_axes ? lists.axes[i] : i, from->rank, &axis));
        if (step == 0 || cut >> axis & 1)
            return tn__call_fail(call, TN_E_INVALID, "axis %u is cut %s", axis,
                                 step ? "twice" : "with step 0");
        cut |= UINT64_C(1) << axis;
        first += slice_cut(&box, axis, lists.starts[i], lists.ends[i], step);
    }
    TN_TRY(tn__call_shape(call, 0, from->rank, box.extent));
    if (tn__walk_is_empty(&box)) return TN_OK;
    tn__dense_strides(&call->outputs[0], box.stride[0]);
    return tn__box_copy(call, &box, tn__width(from->dtype), call->outputs[0].data,
                        (const char *)from->data + first);
}

/* --- Split --- */

/* Returns the size of a part if Split makes equal parts. The last part may be smaller. */
static int64_t slice_equal(const tn_kernel_call *call, int64_t extent, int64_t begin) {
    int64_t parts = tn__attr_int(call->op, "num_outputs", call->output_count);
    if (parts < 1) parts = 1;
    int64_t part = extent / parts + (extent % parts != 0);
    return part > extent - begin ? extent - begin : part;
}

static tn_status slice_split(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    const tn_operand *input = tn__call_input(call, 1);
    uint32_t axis, count = 0;
    const int64_t *attr = tn__attr_ints(call->op, "split", &count);
    int64_t begin = 0, part, shape[TN_RANK_MAX], strides[TN_RANK_MAX];
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), from->rank, &axis));
    uint64_t length = input != NULL ? tn__operand_count(input) : count;
    if ((input != NULL || attr != NULL) && length < call->output_count)
        return tn__call_fail(call, TN_E_INVALID, "%llu sizes for %u outputs",
                             (unsigned long long)length, call->output_count);
    tn__dense_strides(from, strides);
    memcpy(shape, from->shape, from->rank * sizeof *shape);
    for (uint32_t k = 0; k < call->output_count; k++, begin += part) {
        tn_operand *to = tn__call_output(call, k);
        int64_t left = from->shape[axis] - begin;
        part = input != NULL  ? tn__index(input, k)
               : attr != NULL ? attr[k]
                              : slice_equal(call, from->shape[axis], begin);
        if (part < 0 || part > left)
            return tn__call_fail(call, TN_E_INVALID,
                                 "part %u of %lld elements, where %lld are left", k,
                                 (long long)part, (long long)left);
        if (to == NULL) continue;
        shape[axis] = part;
        TN_TRY(tn__call_shape(call, k, from->rank, shape));
        tn__walk box = {.rank = from->rank};
        memcpy(box.extent, shape, from->rank * sizeof *shape);
        memcpy(box.stride[1], strides, from->rank * sizeof *strides);
        tn__dense_strides(to, box.stride[0]);
        TN_TRY(tn__box_copy(call, &box, tn__width(from->dtype), to->data,
                            (const char *)from->data + begin * strides[axis]));
    }
    if (length == call->output_count && begin != from->shape[axis])
        return tn__call_fail(call, TN_E_INVALID, "the sizes make %lld, but there are %lld elements",
                             (long long)begin, (long long)from->shape[axis]);
    return TN_OK;
}

/* --- Concat --- */

/* Computes the shape of a concatenation: extents along the axis are added, all others must be
 * equal. */
static tn_status slice_whole(const tn_kernel_call *call, uint32_t axis, int64_t *shape) {
    const tn_operand *first = &call->inputs[0];
    memcpy(shape, first->shape, first->rank * sizeof *shape);
    for (uint32_t k = 1; k < call->input_count; k++) {
        const tn_operand *part = &call->inputs[k];
        if (part->omitted || part->rank != first->rank || part->dtype != first->dtype)
            return tn__call_fail(call, TN_E_INVALID, "input %u is of another rank or type", k);
        for (uint32_t d = 0; d < part->rank; d++) {
            if (d != axis && part->shape[d] != shape[d])
                return tn__call_fail(call, TN_E_INVALID,
                                     "input %u has extent %lld at axis %u, not %lld", k,
                                     (long long)part->shape[d], d, (long long)shape[d]);
            if (d == axis && __builtin_add_overflow(shape[d], part->shape[d], &shape[d]))
                return tn__call_fail(call, TN_E_INVALID, "the extents at axis %u overflow", d);
        }
    }
    return TN_OK;
}

static tn_status slice_concat(tn_kernel_call *call) {
    uint32_t axis, rank = call->inputs[0].rank, width = tn__width(call->inputs[0].dtype);
    int64_t shape[TN_RANK_MAX];
    int64_t otherwise = call->version < 4 ? 1 : 0;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", otherwise), rank, &axis));
    TN_TRY(slice_whole(call, axis, shape));
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    char *to = call->outputs[0].data;
    for (uint32_t k = 0; k < call->input_count; k++) {
        const tn_operand *part = &call->inputs[k];
        tn__walk box;
        uint32_t place = tn__box_of(&box, part->shape, &call->outputs[0], part, axis);
        int64_t step = box.stride[0][place];
        TN_TRY(tn__box_copy(call, &box, width, to, part->data));
        to += part->shape[axis] * step;
    }
    return TN_OK;
}

#define PARTS(name, function)                                                                      \
    { .type = #name, .accepts = tn__accepts_bytes, .run = function }

/* --- Part: a range of elements along each of a few axes --- */

static tn_status slice_run_part(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint32_t count, others;
    const int64_t *axes = tn__attr_ints(call->op, "axes", &count);
    const int64_t *starts = tn__attr_ints(call->op, "starts", &others);
    const char *first = from->data;
    tn__walk box;
    (void)tn__box_of(&box, to->shape, to, from, 0);
    if (tn__walk_is_empty(&box)) return TN_OK;
    for (uint32_t i = 0; i < count && i < others; i++) {
        uint32_t place = tn__box_of(&box, to->shape, to, from, (uint32_t)axes[i]);
        first += starts[i] * box.stride[1][place];
    }
    return tn__box_copy(call, &box, tn__width(from->dtype), to->data, first);
}

/* --- the gradient of Slice: zeros, except for dy at the positions of the slice --- */

static tn_status slice_ints(const tn_kernel_call *call, const char *name, uint32_t wanted,
                            const int64_t **list) {
    uint32_t count;
    *list = tn__attr_ints(call->op, name, &count);
    if (count == wanted) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "attribute %s has %u values, not %u", name, count,
                         wanted);
}

static tn_status slice_run_grad(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0];
    tn_operand *dx = &call->outputs[0];
    const int64_t *starts, *steps;
    int64_t to[TN_RANK_MAX], from[TN_RANK_MAX], first = 0;
    tn__walk box = {.rank = 0};
    TN_TRY(slice_ints(call, "starts", dx->rank, &starts));
    TN_TRY(slice_ints(call, "steps", dx->rank, &steps));
    if (dy->rank != dx->rank)
        return tn__call_fail(call, TN_E_INVALID, "a part of rank %u of rank %u", dy->rank,
                             dx->rank);
    tn__dense_strides(dx, to);
    tn__dense_strides(dy, from);
    bool empty = tn__operand_count(dy) == 0;
    for (uint32_t d = 0; d < dx->rank && !empty; d++) {
        int64_t last = dy->shape[d] - 1, reach;
        if (starts[d] < 0 || starts[d] >= dx->shape[d] ||
            __builtin_mul_overflow(last, steps[d], &reach) ||
            __builtin_add_overflow(starts[d], reach, &reach) || reach < 0 || reach >= dx->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "the part leaves dimension %u", d);
        first += starts[d] * to[d];
        tn__walk_add(&box, dy->shape[d], last > 0 ? steps[d] * to[d] : 0, from[d]);
    }
    memset(dx->data, 0, tn__operand_bytes(dx));
    if (empty) return TN_OK;
    return tn__box_copy(call, &box, tn__width(dx->dtype), (char *)dx->data + first, dy->data);
}

static bool slice_accepts_grad(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

static const tn_kernel slice_kernels[] = {
    {.type = "Concat", .accepts = tn__accepts_one_format, .run = slice_concat, .formats = true},
    PARTS(Slice, slice_slice),
    PARTS(Split, slice_split),
    {.domain = "tenure",
     .type = "Part",
     .accepts = tn__accepts_one_format,
     .run = slice_run_part,
     .formats = true},
    {.domain = "tenure", .type = "SliceGrad", .accepts = slice_accepts_grad, .run = slice_run_grad},
};

TN_KERNEL_FAMILY(slice, "");
