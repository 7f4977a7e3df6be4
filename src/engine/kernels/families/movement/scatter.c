/* scatter.c - ScatterElements (called Scatter before opset 11) and ScatterND, which write updates
 * by index into a copy of their data.
 *
 * The copy is not needed if the plan has placed the output at the address of the data. Updates of
 * the same element are applied in their order, so the last one remains, and sums are the same in
 * every run.
 * Source: the ONNX specifications, opsets 9 to 18.
 */
#include <math.h>

#include "engine/kernels/loops/box.h"

typedef enum scatter_reduction {
    SCATTER_NONE,
    SCATTER_ADD,
    SCATTER_MUL,
    SCATTER_MAX,
    SCATTER_MIN
} scatter_reduction;

static bool scatter_reduction_of(const tn_op *op, scatter_reduction *reduction) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *name = tn__attr_string(op, "reduction", "none");
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *reduction = (scatter_reduction)i;
            return true;
        }
    return false;
}

static double scatter_real(scatter_reduction reduction, double a, double b) {
    switch (reduction) {
    case SCATTER_ADD:
        return a + b;
    case SCATTER_MUL:
        return a * b;
    case SCATTER_MAX:
        return isnan(a) || a > b ? a : b;
    default:
        return isnan(a) || a < b ? a : b;
    }
}

/* Combines two integers in 64 bits; storing the result wraps it to the element type. */
static uint64_t scatter_whole(scatter_reduction reduction, uint64_t a, uint64_t b, bool is_signed) {
    bool above = is_signed ? (int64_t)a > (int64_t)b : a > b;
    switch (reduction) {
    case SCATTER_ADD:
        return a + b;
    case SCATTER_MUL:
        return a * b;
    case SCATTER_MAX:
        return above ? a : b;
    default:
        return above ? b : a;
    }
}

/* Combines `count` elements of `updates` with the elements at `to`. Real types are computed in
 * double precision. For float32 this gives the bits of float32 arithmetic, because rounding to
 * double first does not change the rounded result of one operation (graph/rules/fold.h). */
static void scatter_combine(scatter_reduction reduction, tn_dtype dtype, char *to,
                            const char *updates, uint64_t count) {
    uint32_t width = tn__width(dtype);
    if (reduction == SCATTER_NONE) {
        tn__move(to, updates, count * width);
        return;
    }
    for (uint64_t i = 0; i < count; i++, to += width, updates += width) {
        if (tn__is_real(dtype)) {
            double result = scatter_real(reduction, tn__load(dtype, to), tn__load(dtype, updates));
            tn__store(dtype, to, result);
            continue;
        }
        tn_operand a = {.data = to, .dtype = dtype}, b = {.data = (void *)updates, .dtype = dtype};
        uint64_t result = scatter_whole(reduction, (uint64_t)tn__operand_int(&a, 0),
                                        (uint64_t)tn__operand_int(&b, 0), dtype != TN_UINT64);
        tn__store_int(dtype, to, (int64_t)result);
    }
}

/* --- ScatterElements --- */

static tn_status scatter_elements(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    const tn_operand *updates = &call->inputs[2];
    uint32_t axis, width = tn__width(data->dtype);
    scatter_reduction reduction = SCATTER_NONE;
    tn__walk walk = {.rank = data->rank};
    scatter_reduction_of(call->op, &reduction);
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), data->rank, &axis));
    TN_TRY(tn__call_same_type(call, 0, 2));
    if (indices->rank != data->rank || updates->rank != data->rank)
        return tn__call_fail(call, TN_E_INVALID, "data, indices and updates differ in rank");
    for (uint32_t d = 0; d < data->rank; d++) {
        walk.extent[d] = indices->shape[d];
        if (indices->shape[d] != updates->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "indices and updates differ at axis %u", d);
        if (d != axis && indices->shape[d] > data->shape[d])
            return tn__call_bad_index(call, indices->shape[d] - 1, d, data->shape[d]);
    }
    TN_TRY(tn__call_shape(call, 0, data->rank, data->shape));
    tn__operand_copy(&call->outputs[0], data);
    tn__dense_strides(data, walk.stride[0]);
    int64_t extent = data->shape[axis], stride = walk.stride[0][axis];
    walk.stride[0][axis] = 0;
    if (tn__walk_is_empty(&walk)) return TN_OK;
    const char *from = updates->data;
    uint64_t i = 0;
    do {
        int64_t index = tn__index(indices, i++);
        if (index < -extent || index >= extent)
            return tn__call_bad_index(call, index, axis, extent);
        if (index < 0) index += extent;
        scatter_combine(reduction, data->dtype,
                        (char *)call->outputs[0].data + walk.at[0] + index * stride, from, 1);
        from += width;
    } while (tn__walk_next(&walk));
    return TN_OK;
}

/* --- ScatterND --- */

/* Checks the shape of the updates of ScatterND: the dimensions of the indices without the last one,
 * then those dimensions of the data that are not indexed. */
static tn_status scatter_nd_check(const tn_kernel_call *call, uint32_t length) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    const tn_operand *updates = &call->inputs[2];
    uint32_t outer = indices->rank - 1;
    bool same = updates->rank == outer + data->rank - length;
    for (uint32_t d = 0; d < updates->rank && same; d++)
        same =
            updates->shape[d] == (d < outer ? indices->shape[d] : data->shape[d - outer + length]);
    if (!same)
        return tn__call_fail(call, TN_E_INVALID, "updates have not the shape of what they replace");
    return tn__call_same_type(call, 0, 2);
}

static tn_status scatter_nd(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    int64_t given = indices->rank ? indices->shape[indices->rank - 1] : -1;
    scatter_reduction reduction = SCATTER_NONE;
    scatter_reduction_of(call->op, &reduction);
    if (given < 0 || given > (int64_t)data->rank)
        return tn__call_fail(call, TN_E_INVALID, "indices of length %lld for rank %u",
                             (long long)given, data->rank);
    uint32_t length = (uint32_t)given, width = tn__width(data->dtype);
    TN_TRY(scatter_nd_check(call, length));
    TN_TRY(tn__call_shape(call, 0, data->rank, data->shape));
    tn__operand_copy(&call->outputs[0], data);
    uint64_t count = tn__operand_span(indices, 0, indices->rank - 1), next = 0;
    uint64_t piece = tn__operand_span(data, length, data->rank);
    const char *from = call->inputs[2].data;
    if (piece == 0) return TN_OK;
    for (uint64_t i = 0; i < count; i++, from += piece * width) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < length; d++) {
            int64_t index = tn__index(indices, next++), extent = data->shape[d];
            if (index < -extent || index >= extent)
                return tn__call_bad_index(call, index, d, extent);
            at = at * (uint64_t)extent + (uint64_t)(index < 0 ? index + extent : index);
        }
        scatter_combine(reduction, data->dtype, (char *)call->outputs[0].data + at * piece * width,
                        from, piece);
    }
    return TN_OK;
}

/* Any type of whole bytes is accepted without a reduction, but only numeric types with one. */
static bool scatter_accepts(const tn_kernel_setup *setup) {
    scatter_reduction reduction;
    if (!scatter_reduction_of(setup->op, &reduction)) return false;
    return reduction == SCATTER_NONE ? tn__accepts_bytes(setup) : tn__accepts_numbers(setup);
}

#define SCATTER(name, function)                                                                    \
    { .type = #name, .accepts = scatter_accepts, .run = function }

static const tn_kernel scatter_kernels[] = {
    SCATTER(Scatter, scatter_elements),
    SCATTER(ScatterElements, scatter_elements),
    SCATTER(ScatterND, scatter_nd),
};

TN_KERNEL_FAMILY(scatter, "");
