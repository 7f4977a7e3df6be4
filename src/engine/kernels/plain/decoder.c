/* decoder.c - operators of decoders in addition to attention: SwiGLU, TensorScatter (rows written
 * into a cache) and the recurrences of recurrence.h. Source: operator texts of ONNX, opsets 24 to
 * 28.
 */
#include "engine/kernels/approximate.h"
#include "engine/kernels/box.h"
#include "engine/kernels/recurrence.h"

/* --- SwiGLU: silu(alpha a) b --- */

static tn_status decoder_run_swiglu(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0];
    const float alpha = (float)tn__attr_float(call->op, "alpha", 1), *x = a->data,
                *gate = call->inputs[1].data;
    float *y = call->outputs[0].data;
    TN_TRY(tn__check_shape(call, 1, a->rank, a->shape));
    TN_TRY(tn__check_result(call, 0, a->rank, a->shape));
    uint64_t count = tn__operand_count(a);
    for (uint64_t i = 0; i < count; i++) y[i] = x[i] * tn__logisticf(alpha * x[i]) * gate[i];
    return TN_OK;
}

static bool decoder_accepts_swiglu(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 3, 0);
}

/* --- TensorScatter --- */

/* Rows of the update go to rows write_indices[b], ... of the cache; a circular cache continues at
 * row 0 after the last row. If the plan laid the output on the cache, only these rows are
 * written. */
static tn_status decoder_run_scatter(tn_kernel_call *call) {
    const tn_operand *past = &call->inputs[0], *update = &call->inputs[1],
                     *indices = tn__call_input(call, 2);
    bool circular = strcmp(tn__attr_string(call->op, "mode", "linear"), "circular") == 0;
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", -2), past->rank, &axis));
    TN_TRY(tn__call_same_type(call, 0, 1));
    if (axis == 0 || update->rank != past->rank)
        return tn__call_fail(call, TN_E_INVALID, "the update does not fit the cache");
    for (uint32_t d = 0; d < past->rank; d++)
        if (d == axis ? update->shape[d] > past->shape[d] : update->shape[d] != past->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "the update does not fit axis %u", d);
    TN_TRY(tn__check_result(call, 0, past->rank, past->shape));
    TN_TRY(tn__check_count(call, 2, (uint64_t)past->shape[0]));
    uint64_t width = tn__width(past->dtype), rows = (uint64_t)update->shape[axis],
             room = (uint64_t)past->shape[axis],
             inner = tn__operand_span(past, axis + 1, past->rank) * width,
             outer = tn__operand_span(past, 1, axis), batch = (uint64_t)past->shape[0];
    tn__operand_copy(&call->outputs[0], past);
    for (uint64_t b = 0; b < batch; b++) {
        int64_t first = indices != NULL ? tn__index(indices, b) : 0;
        if (first < 0 || (uint64_t)first > room || (!circular && (uint64_t)first + rows > room))
            return tn__call_bad_index(call, first, axis, (int64_t)room);
        for (uint64_t o = b * outer; o < (b + 1) * outer; o++)
            for (uint64_t r = 0; r < rows; r++)
                memcpy((char *)call->outputs[0].data +
                           (o * room + ((uint64_t)first + r) % room) * inner,
                       (const char *)update->data + (o * rows + r) * inner, inner);
    }
    return TN_OK;
}

static bool decoder_accepts_scatter(const tn_kernel_setup *setup) {
    return tn__accepts_bytes(setup) && tn__input_may_be(setup, 2, TN__TYPES_INDEX);
}

static const tn_kernel decoder_kernels[] = {
    {.type = "CausalConvWithState", .accepts = tn__causal_accepts, .run = tn__causal_run},
    {.type = "LinearAttention",
     .accepts = tn__linear_accepts,
     .workspace = tn__linear_workspace,
     .run = tn__linear_run},
    {.type = "SwiGLU", .accepts = decoder_accepts_swiglu, .run = decoder_run_swiglu},
    {.type = "TensorScatter", .accepts = decoder_accepts_scatter, .run = decoder_run_scatter},
};

TN_KERNEL_FAMILY(decoder, "");
