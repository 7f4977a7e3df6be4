/* pad.c - Pad, which adds elements around a tensor, with a constant value or copied from nearby
 * elements; its gradient; and CenterCropPad.
 *
 * A negative pad removes elements; nearby elements are then taken from the cropped tensor. In
 * constant mode, the output is filled and then the input is copied into it. The other modes first
 * store in scratch memory, for each axis, the input index of every output index.
 * Source: the ONNX specifications, opsets 1 to 19 (pads are inputs from opset 11, axes from opset
 * 18).
 */
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"

/* the padding before each axis, and the part of the input that is copied */
typedef struct pad_plan {
    int64_t before[TN_RANK_MAX];
    /* the range of the input that is copied along each axis: first index and length */
    int64_t first[TN_RANK_MAX], kept[TN_RANK_MAX];
    int64_t shape[TN_RANK_MAX];
} pad_plan;

static tn_status pad_axis(const tn_kernel_call *call, pad_plan *plan, uint32_t axis, int64_t before,
                          int64_t after) {
    int64_t extent = call->inputs[0].shape[axis], whole;
    bool fits = before >= -extent && after >= -extent &&
                !__builtin_add_overflow(extent, before, &whole) &&
                !__builtin_add_overflow(whole, after, &whole) && whole >= 0;
    int64_t crop_first = fits && before < 0 ? -before : 0;
    int64_t crop_last = fits && after < 0 ? -after : 0;
    if (!fits || crop_last > extent - crop_first)
        return tn__call_fail(call, TN_E_INVALID, "pads %lld and %lld do not fit extent %lld",
                             (long long)before, (long long)after, (long long)extent);
    plan->before[axis] = before > 0 ? before : 0;
    plan->first[axis] = crop_first;
    plan->kept[axis] = extent - crop_first - crop_last;
    plan->shape[axis] = whole;
    return TN_OK;
}

static tn_status pad_read(const tn_kernel_call *call, pad_plan *plan) {
    const char *name = tn__attr(call->op, "paddings") != NULL ? "paddings" : "pads";
    int64_t pads[2 * TN_RANK_MAX], axes[TN_RANK_MAX];
    uint32_t rank = call->inputs[0].rank, count, axis_count;
    bool given, some;
    uint64_t seen = 0;
    TN_TRY(tn__call_list(call, 1, name, 2 * TN_RANK_MAX, pads, &count, &given));
    TN_TRY(tn__call_list(call, 3, NULL, TN_RANK_MAX, axes, &axis_count, &some));
    if (!some) axis_count = rank;
    if (count != 2 * axis_count)
        return tn__call_fail(call, TN_E_INVALID, "%u pads for %u axes", count, axis_count);
    for (uint32_t d = 0; d < rank; d++) TN_TRY(pad_axis(call, plan, d, 0, 0));
    for (uint32_t i = 0; i < axis_count; i++) {
        uint32_t axis;
        TN_TRY(tn__call_axis(call, some ? axes[i] : i, rank, &axis));
        if (seen >> axis & 1)
            return tn__call_fail(call, TN_E_INVALID, "axis %u is padded twice", axis);
        seen |= UINT64_C(1) << axis;
        TN_TRY(pad_axis(call, plan, axis, pads[i], pads[axis_count + i]));
    }
    return TN_OK;
}

/* --- constant --- */

static tn_status pad_constant(tn_kernel_call *call, const pad_plan *plan, const void *element) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint32_t width = tn__width(from->dtype);
    tn__walk box = {.rank = from->rank};
    char *out = to->data;
    const char *in = from->data;
    bool grows = false;
    tn__dense_strides(to, box.stride[0]);
    tn__dense_strides(from, box.stride[1]);
    for (uint32_t d = 0; d < from->rank; d++) {
        box.extent[d] = plan->kept[d];
        grows = grows || plan->kept[d] != plan->shape[d];
    }
    if (grows) tn__fill(out, tn__operand_count(to), width, element);
    if (tn__walk_is_empty(&box)) return TN_OK;
    for (uint32_t d = 0; d < from->rank; d++) {
        out += plan->before[d] * box.stride[0][d];
        in += plan->first[d] * box.stride[1][d];
    }
    return tn__box_copy(call, &box, width, out, in);
}

/* Reads the value of constant mode: input 2, or an attribute before opset 11. */
static tn_status pad_value(const tn_kernel_call *call, char element[16]) {
    const tn_operand *input = tn__call_input(call, 2);
    memset(element, 0, 16);
    if (input != NULL) {
        TN_TRY(tn__call_same_type(call, 0, 2));
        if (tn__operand_count(input) > 0) tn__move(element, input->data, tn__width(input->dtype));
    } else if (tn__is_number(call->inputs[0].dtype)) {
        tn__store(call->inputs[0].dtype, element, tn__attr_float(call->op, "value", 0));
    }
    return TN_OK;
}

/* --- Pad in the modes edge, reflect and wrap, which copy nearby elements --- */

/* Returns the index that output index `at` copies. Both are counted from the first of the `kept`
 * elements. `mode` is 'e' for edge, 'w' for wrap, else reflect. */
static int64_t pad_near(char mode, int64_t at, int64_t kept) {
    if (mode == 'e') return at < 0 ? 0 : at >= kept ? kept - 1 : at;
    int64_t period = mode == 'w' ? kept : 2 * (kept - 1);
    if (period == 0) return 0;
    at %= period;
    if (at < 0) at += period;
    return at < kept ? at : period - at;
}

static tn_status pad_nearby(tn_kernel_call *call, const pad_plan *plan, char mode) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    uint32_t width = tn__width(from->dtype), rank = from->rank;
    int64_t strides[TN_RANK_MAX], *offsets[TN_RANK_MAX], *next = call->workspace;
    uint64_t entries = 0;
    tn__walk walk = {.rank = rank};
    for (uint32_t d = 0; d < rank; d++) entries += (uint64_t)plan->shape[d];
    TN_TRY(tn__call_scratch(call, entries * sizeof *next));
    tn__dense_strides(from, strides);
    for (uint32_t d = 0; d < rank; d++) {
        offsets[d] = next;
        walk.extent[d] = plan->shape[d];
        if (plan->kept[d] == 0 && plan->shape[d] > 0)
            return tn__call_fail(call, TN_E_INVALID, "axis %u is empty: nothing to pad with", d);
        for (int64_t i = 0; i < plan->shape[d]; i++)
            *next++ =
                strides[d] * (plan->first[d] + pad_near(mode, i - plan->before[d], plan->kept[d]));
    }
    if (tn__walk_is_empty(&walk)) return TN_OK;
    if (rank == 0) return tn__box_copy(call, &walk, width, to->data, from->data);
    walk.rank--;
    char *out = to->data;
    do {
        const char *in = from->data;
        for (uint32_t d = 0; d + 1 < rank; d++) in += offsets[d][walk.place[d]];
        for (int64_t i = 0; i < plan->shape[rank - 1]; i++, out += width)
            tn__move(out, in + offsets[rank - 1][i], width);
    } while (tn__walk_next(&walk));
    return TN_OK;
}

static char pad_mode(const tn_op *op) {
    const char *mode = tn__attr_string(op, "mode", "constant");
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    for (uint32_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i]) == 0) return *mode;
    return 0;
}

static tn_status pad_run(tn_kernel_call *call) {
    pad_plan plan;
    char element[16], mode = pad_mode(call->op);
    bool still = true;
    TN_TRY(pad_read(call, &plan));
    TN_TRY(tn__call_shape(call, 0, call->inputs[0].rank, plan.shape));
    for (uint32_t d = 0; d < call->inputs[0].rank; d++)
        still = still && plan.kept[d] == plan.shape[d] && plan.kept[d] == call->inputs[0].shape[d];
    if (still && call->outputs[0].data == call->inputs[0].data) return TN_OK;
    if (mode != 'c' && !still) return pad_nearby(call, &plan, mode);
    TN_TRY(pad_value(call, element));
    return pad_constant(call, &plan, element);
}

static bool pad_accepts(const tn_kernel_setup *setup) {
    return pad_mode(setup->op) != 0 && tn__accepts_bytes(setup);
}

static uint64_t pad_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *to = tn__setup_output(setup, 0);
    uint64_t entries = 0;
    if (pad_mode(setup->op) == 'c' || to == NULL || to->rank > TN_RANK_MAX) return 0;
    for (uint32_t d = 0; d < to->rank; d++)
        if (to->shape[d] > 0) entries = tn__add_sat(entries, (uint64_t)to->shape[d]);
    return tn__mul_sat(entries, sizeof(int64_t));
}

/* --- CenterCropPad: the middle, or the middle of zeros; an odd difference goes to the end --- */

static tn_status pad_center(tn_kernel_call *call) {
    static const char nought[16];
    pad_plan plan;
    int64_t target[TN_RANK_MAX];
    uint32_t rank = call->inputs[0].rank, count, axis_count;
    const int64_t *axes = tn__attr_ints(call->op, "axes", &axis_count);
    bool given;
    TN_TRY(tn__call_list(call, 1, NULL, TN_RANK_MAX, target, &count, &given));
    if (count != (axes != NULL ? axis_count : rank))
        return tn__call_fail(call, TN_E_INVALID, "%u extents for another number of axes", count);
    for (uint32_t d = 0; d < rank; d++) TN_TRY(pad_axis(call, &plan, d, 0, 0));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        TN_TRY(tn__call_axis(call, axes != NULL ? axes[i] : i, rank, &axis));
        int64_t extent = call->inputs[0].shape[axis];
        if (target[i] < 0)
            return tn__call_fail(call, TN_E_INVALID, "extent %lld", (long long)target[i]);
        int64_t more = target[i] - extent;
        TN_TRY(pad_axis(call, &plan, axis, more / 2, more - more / 2));
    }
    TN_TRY(tn__call_shape(call, 0, rank, plan.shape));
    return pad_constant(call, &plan, nought);
}

/* --- the gradient of Pad in the modes edge, reflect and wrap ---
 *
 * The gradient of an output element is added to the gradient of the input element that it copies,
 * in the order of the output elements.
 */

/* Returns the index along axis d of the input element that element `at` of the padded tensor
 * copies. */
static int64_t pad_source(const pad_plan *pad, char mode, uint32_t d, int64_t at) {
    return pad->first[d] + pad_near(mode, at - pad->before[d], pad->kept[d]);
}

static void pad_add(const tn_operand *to, uint64_t at, const tn_operand *from, uint64_t source) {
    tn__real_set(to, at, tn__real_get(to, at) + tn__real_get(from, source));
}

static tn_status pad_read_grad(const tn_kernel_call *call, pad_plan *pad) {
    const tn_operand *dy = &call->inputs[0], *dx = &call->outputs[0];
    const char *mode = tn__attr_string(call->op, "mode", "");
    const int64_t *pads;
    uint32_t count;
    pads = tn__attr_ints(call->op, "pads", &count);
    if (count != 2 * dx->rank)
        return tn__call_fail(call, TN_E_INVALID, "attribute pads has %u values, not %u", count,
                             2 * dx->rank);
    if (pad_mode(call->op) == 0 || pad_mode(call->op) == 'c')
        return tn__call_fail(call, TN_E_INVALID, "the mode '%.40s' is unknown", mode);
    if (dy->rank != dx->rank)
        return tn__call_fail(call, TN_E_INVALID, "rank %u of rank %u", dy->rank, dx->rank);
    for (uint32_t d = 0; d < dx->rank; d++) {
        int64_t before = pads[d], after = pads[dx->rank + d], whole;
        if (__builtin_add_overflow(before, after, &whole) ||
            __builtin_add_overflow(whole, dx->shape[d], &whole) || whole != dy->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "pads do not fit dimension %u", d);
        pad->before[d] = before > 0 ? before : 0;
        pad->first[d] = before < 0 ? -before : 0;
        pad->kept[d] = dx->shape[d] - pad->first[d] - (after < 0 ? -after : 0);
        if (pad->kept[d] < 1 && dy->shape[d] > 0)
            return tn__call_fail(call, TN_E_INVALID, "dimension %u has nothing to repeat", d);
    }
    return TN_OK;
}

static tn_status pad_run_grad(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0];
    tn_operand *dx = &call->outputs[0];
    int64_t strides[TN_RANK_MAX], stride = 1;
    const char mode = pad_mode(call->op);
    pad_plan pad;
    TN_TRY(pad_read_grad(call, &pad));
    memset(dx->data, 0, tn__operand_bytes(dx));
    if (dx->rank == 0) tn__operand_copy(dx, dy);
    if (dx->rank == 0 || tn__operand_count(dy) == 0) return TN_OK;
    uint32_t last = dx->rank - 1;
    tn__walk walk = {.rank = last};
    for (uint32_t d = 0; d < last; d++) walk.extent[d] = dy->shape[d];
    for (uint32_t d = dx->rank; d-- > 0; stride *= dx->shape[d]) strides[d] = stride;
    uint64_t row = 0;
    do {
        int64_t to = 0;
        for (uint32_t d = 0; d < last; d++)
            to += pad_source(&pad, mode, d, walk.place[d]) * strides[d];
        for (int64_t i = 0; i < dy->shape[last]; i++, row++)
            pad_add(dx, (uint64_t)(to + pad_source(&pad, mode, last, i)), dy, row);
    } while (tn__walk_next(&walk));
    return TN_OK;
}

static bool pad_accepts_grad(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1, 0);
}

static const tn_kernel pad_kernels[] = {
    {.type = "CenterCropPad", .accepts = tn__accepts_bytes, .run = pad_center},
    {.type = "Pad", .accepts = pad_accepts, .workspace = pad_workspace, .run = pad_run},
    {.domain = "tenure", .type = "PadGrad", .accepts = pad_accepts_grad, .run = pad_run_grad},
};

TN_KERNEL_FAMILY(pad, "");
