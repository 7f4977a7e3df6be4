/* decoder.c - operators of decoders other than attention: SwiGLU, TensorScatter (which writes rows
 * into a cache) and a convolution with a state, which ONNX and ONNX Runtime have under the same
 * name. Linear attention is in linear.c.
 * Source: the ONNX specifications, opsets 24 to 28.
 */
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"

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

/* TensorScatter: copies the rows of the update for batch entry b to the rows from write_indices[b]
 * on of the cache. A circular cache continues with row 0 after its last row. If the plan has placed
 * the output at the address of the cache, only these rows are written. */
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

/* --- a causal convolution: each channel is convolved with its current and earlier columns --- */

static tn_status causal_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *w = &call->inputs[1], *bias = tn__call_input(call, 2),
                     *past = tn__call_input(call, 3), *state = tn__call_output(call, 1);
    const char *curve = tn__attr_string(call->op, "activation", "none");
    bool silu = strcmp(curve, "silu") == 0 || strcmp(curve, "swish") == 0;
    if (x->rank != 3) return tn__call_bad_shape(call, 0);
    if (w->rank != 3 || w->shape[0] != x->shape[1] || w->shape[1] != 1 || w->shape[2] < 1)
        return tn__call_bad_shape(call, 1);
    const int64_t before = w->shape[2] - 1, length = x->shape[2];
    const int64_t shape[3] = {x->shape[0], x->shape[1], before};
    TN_TRY(tn__check_count(call, 2, (uint64_t)x->shape[1]));
    TN_TRY(tn__check_shape(call, 3, 3, shape));
    TN_TRY(tn__check_result(call, 0, 3, x->shape));
    TN_TRY(tn__check_result(call, 1, 3, shape));
    for (int64_t row = 0; row < x->shape[0] * x->shape[1]; row++) {
        int64_t c = row % x->shape[1];
        const float *from = (const float *)x->data + row * length;
        const float *taps = (const float *)w->data + c * w->shape[2];
        const float *old = past != NULL ? (const float *)past->data + row * before : NULL;
        float *to = (float *)call->outputs[0].data + row * length;
        for (int64_t t = 0; t < length; t++) {
            double sum = bias != NULL ? (double)((const float *)bias->data)[c] : 0;
            for (int64_t j = 0; j <= before; j++) {
                int64_t at = t + j - before;
                float value = at >= 0 ? from[at] : old != NULL ? old[before + at] : 0;
                sum += (double)taps[j] * (double)value;
            }
            to[t] = silu ? (float)sum * tn__logisticf((float)sum) : (float)sum;
        }
        for (int64_t j = 0; j < before && state != NULL; j++) {
            int64_t at = length - before + j;
            ((float *)state->data)[row * before + j] = at >= 0       ? from[at]
                                                       : old != NULL ? old[before + at]
                                                                     : 0;
        }
    }
    return TN_OK;
}

static bool causal_accepts(const tn_kernel_setup *setup) {
    const tn_op *op = setup->op;
    const char *curve = tn__attr_string(op, "activation", "none");
    bool known = !strcmp(curve, "none") || !strcmp(curve, "silu") || !strcmp(curve, "swish");
    return known && tn__types_agree(setup, TN__TYPE(FLOAT32), 15, 2) &&
           tn__attr_int(op, "ndim", 1) == 1 && tn__attr_int(op, "dilation", 1) == 1 &&
           tn__attr_int(op, "channels_last", 0) == 0 && tn__attr_int(op, "state_window", 0) == 0;
}

static const tn_kernel decoder_kernels[] = {
    {.type = "CausalConvWithState", .accepts = causal_accepts, .run = causal_run},
    {.domain = "com.microsoft",
     .type = "CausalConvWithState",
     .accepts = causal_accepts,
     .run = causal_run},
    {.type = "SwiGLU", .accepts = decoder_accepts_swiglu, .run = decoder_run_swiglu},
    {.type = "TensorScatter", .accepts = decoder_accepts_scatter, .run = decoder_run_scatter},
};

TN_KERNEL_FAMILY(decoder, "");
