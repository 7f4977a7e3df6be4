/* weights.c - weights as 8-bit numbers with one scale per channel (rewrites/weights.c).
 *
 * q = round(w / scale), scale = max |w| / 127: symmetric, so zero stays zero and no channel needs
 * an offset. QuantizeWeights runs once, at set-up; DequantizeWeights runs right before the reader
 * of the weights. Both see them as [outer, channels, inner] around the axis of channels.
 */
#include <math.h>

#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"

typedef struct weights_frame {
    uint64_t outer, channels, inner;
} weights_frame;

static tn_status weights_read(const tn_kernel_call *call, const tn_operand *w,
                              weights_frame *frame) {
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), w->rank, &axis));
    *frame = (weights_frame){tn__operand_span(w, 0, axis), (uint64_t)w->shape[axis],
                             tn__operand_span(w, axis + 1, w->rank)};
    return TN_OK;
}

/* --- once --- */

static float weights_scale(const float *w, const weights_frame *frame, uint64_t channel) {
    float most = 0;
    for (uint64_t o = 0; o < frame->outer; o++) {
        const float *row = w + (o * frame->channels + channel) * frame->inner;
        for (uint64_t i = 0; i < frame->inner; i++)
            if (fabsf(row[i]) > most || isnan(row[i])) most = fabsf(row[i]);
    }
    return most / 127; /* NaN stays NaN, and makes the whole channel NaN */
}

static int8_t weights_round(float value) {
    float near = nearbyintf(value);
    return (int8_t)(near >= 127 ? 127 : near > -127 ? near : -127); /* not-a-number: -127 */
}

static tn_status weights_run_quantize(tn_kernel_call *call) {
    const float *w = call->inputs[0].data;
    int8_t *q = call->outputs[0].data;
    float *scales = call->outputs[1].data;
    weights_frame frame;
    TN_TRY(weights_read(call, &call->inputs[0], &frame));
    for (uint64_t c = 0; c < frame.channels; c++) {
        scales[c] = weights_scale(w, &frame, c);
        for (uint64_t o = 0; o < frame.outer; o++)
            for (uint64_t i = 0; i < frame.inner; i++) {
                uint64_t at = (o * frame.channels + c) * frame.inner + i;
                q[at] = scales[c] > 0 ? weights_round(w[at] / scales[c]) : 0;
            }
    }
    return TN_OK;
}

/* --- in each run --- */

TN_WIDE static void weights_row(const int8_t *q, float scale, uint64_t count, float *to) {
    TN_APART
    for (uint64_t i = 0; i < count; i++) to[i] = scale * (float)q[i];
}

TN_WIDE static void weights_columns(const int8_t *q, const float *scales, uint64_t count,
                                    float *to) {
    TN_APART
    for (uint64_t i = 0; i < count; i++) to[i] = scales[i] * (float)q[i];
}

static tn_status weights_run_dequantize(tn_kernel_call *call) {
    const int8_t *q = call->inputs[0].data;
    const float *scales = call->inputs[1].data;
    float *to = call->outputs[0].data;
    weights_frame frame;
    TN_TRY(weights_read(call, &call->inputs[0], &frame));
    TN_TRY(tn__check_count(call, 1, frame.channels));
    for (uint64_t o = 0; o < frame.outer && frame.inner == 1; o++)
        weights_columns(q + o * frame.channels, scales, frame.channels, to + o * frame.channels);
    for (uint64_t r = 0; r < frame.outer * frame.channels && frame.inner > 1; r++)
        weights_row(q + r * frame.inner, scales[r % frame.channels], frame.inner,
                    to + r * frame.inner);
    return TN_OK;
}

static bool weights_accepts_quantize(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(FLOAT32)) && tn__output_is(setup, 0, TN__TYPE(INT8)) &&
           tn__output_is(setup, 1, TN__TYPE(FLOAT32));
}

static bool weights_accepts_dequantize(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(INT8)) && tn__input_is(setup, 1, TN__TYPE(FLOAT32)) &&
           tn__output_is(setup, 0, TN__TYPE(FLOAT32));
}

static const tn_kernel weights_kernels[] = {
    {.type = "DequantizeWeights",
     .accepts = weights_accepts_dequantize,
     .run = weights_run_dequantize},
    {.type = "QuantizeWeights", .accepts = weights_accepts_quantize, .run = weights_run_quantize},
};

TN_KERNEL_FAMILY(weights, "tenure");
