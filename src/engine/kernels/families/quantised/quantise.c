/* quantise.c - conversions between real and quantised numbers: QuantizeLinear, DequantizeLinear,
 * DynamicQuantizeLinear, FakeQuantize for training (both conversions in one step), and 8-bit
 * weights.
 *
 * There is one scale and zero point for all elements, one for each index along an axis, or one for
 * each block of elements along an axis. Elements are converted one by one, so the output may have
 * the address of the input if both have equal widths. Integers of 4 and 2 bits are read directly
 * from packed bytes. The quantised type may also be a float of 8 or 4 bits, and the scale a power
 * of two (float8e8m0).
 * Source: the ONNX specifications, opsets 10 to 25.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/loops/quantise.h"
#include "engine/kernels/loops/small_types.h"
#include "engine/kernels/operands.h"
#include "graph/element.h"

#define QUANTISE_WHOLE                                                                             \
    (TN__TYPES_BYTE | TN__TYPE(INT32) | TN__TYPE(INT16) | TN__TYPE(UINT16) | TN__TYPE(INT4) |      \
     TN__TYPE(UINT4) | TN__TYPE(INT2) | TN__TYPE(UINT2))
#define QUANTISE_FLOATS                                                                            \
    (TN__TYPE(FLOAT8E4M3FN) | TN__TYPE(FLOAT8E4M3FNUZ) | TN__TYPE(FLOAT8E5M2) |                    \
     TN__TYPE(FLOAT8E5M2FNUZ) | TN__TYPE(FLOAT4E2M1))
#define QUANTISE_SCALES (TN__TYPES_REAL | TN__TYPE(FLOAT8E8M0))

/* Which scale belongs to an element. Without blocks it is number at / inner % extent, and `extent`
 * is 1 if there is a single scale. With blocks, the axis is divided into `blocks` blocks, and each
 * index of the other axes has a scale for each block. */
typedef struct quantise_frame {
    /* scales and zero points of a tensor; `zero` NULL: all zero points are 0 */
    const tn_operand *scale, *zero;
    /* `block`: number of elements that share a scale; 0: the tensor is not divided into blocks */
    uint64_t count, inner, extent, block, blocks;
} quantise_frame;

static tn_status quantise_read(tn_kernel_call *call, quantise_frame *frame) {
    const tn_operand *x = &call->inputs[0], *scale = &call->inputs[1];
    uint64_t scales = tn__operand_count(scale);
    uint32_t axis;
    *frame = (quantise_frame){.scale = scale,
                              .zero = tn__call_input(call, 2),
                              .count = tn__operand_count(x),
                              .inner = 1,
                              .extent = 1};
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_count(call, 2, scales));
    if (scale->rank == 0 || scales == 1) return tn__check_count(call, 1, 1);
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 1), x->rank, &axis));
    frame->inner = tn__operand_span(x, axis + 1, x->rank);
    frame->extent = (uint64_t)x->shape[axis];
    int64_t block = tn__attr_int(call->op, "block_size", 0);
    if (block < 0) return tn__call_fail(call, TN_E_INVALID, "attribute block_size is negative");
    if (block == 0) return tn__check_count(call, 1, frame->extent);
    int64_t shape[TN_RANK_MAX];
    memcpy(shape, x->shape, x->rank * sizeof *shape);
    frame->block = (uint64_t)block;
    frame->blocks = frame->extent / frame->block + (frame->extent % frame->block != 0);
    shape[axis] = (int64_t)frame->blocks;
    TN_TRY(tn__check_shape(call, 2, x->rank, shape));
    return tn__check_shape(call, 1, x->rank, shape);
}

static uint64_t quantise_which(const quantise_frame *frame, uint64_t at) {
    if (frame->block > 0) {
        uint64_t place = at / frame->inner % frame->extent,
                 outer = at / frame->inner / frame->extent;
        return (outer * frame->blocks + place / frame->block) * frame->inner + at % frame->inner;
    }
    return frame->extent == 1 ? 0 : at / frame->inner % frame->extent;
}

/* Returns element `at` of a tensor of integers of 2 bits or more. */
static int64_t quantise_int(const tn_operand *x, uint64_t at) {
    uint32_t bits = tn_dtype_bits(x->dtype);
    if (bits >= 8) return tn__operand_int(x, at);
    uint32_t each = 8 / bits, shift = (uint32_t)(at % each) * bits;
    int32_t value = ((const uint8_t *)x->data)[at / each] >> shift & ((1 << bits) - 1);
    bool is_signed = x->dtype == TN_INT4 || x->dtype == TN_INT2;
    return is_signed && value >> (bits - 1) != 0 ? value - (1 << bits) : value;
}

/* Returns element `at` of a quantised tensor, or of its zero points. */
static double quantise_number(const tn_operand *x, uint64_t at) {
    return tn__is_small_float(x->dtype)
               ? tn__small_value(x->dtype, tn__small_code(x->dtype, x->data, at))
               : (double)quantise_int(x, at);
}

static float quantise_scale(const quantise_frame *frame, uint64_t which) {
    const tn_operand *scale = frame->scale;
    return tn__is_small_float(scale->dtype) ? (float)quantise_number(scale, which)
                                            : (float)tn__operand_float(scale, which);
}

/* Finds the smallest and the largest value of an integer type of at most 16 bits. Returns false for
 * other types. */
static bool quantise_range(tn_dtype to, int32_t *least, int32_t *most) {
    uint32_t bits = tn_dtype_bits(to);
    bool is_signed = to == TN_INT2 || to == TN_INT4 || to == TN_INT8 || to == TN_INT16;
    bool is_unsigned = to == TN_UINT2 || to == TN_UINT4 || to == TN_UINT8 || to == TN_UINT16;
    if (!is_signed && !is_unsigned) return false;
    *least = is_signed ? -(1 << (bits - 1)) : 0;
    *most = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    return true;
}

tn_status tn__quantise_run_to(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    tn_operand *y = &call->outputs[0];
    quantise_frame frame;
    int32_t least = 0, most = 0;
    TN_TRY(quantise_read(call, &frame));
    uint32_t bits = tn_dtype_bits(y->dtype);
    const bool floats = tn__is_small_float(y->dtype);
    const tn__small_options options = {.saturate = tn__attr_int(call->op, "saturate", 1) != 0};
    if (!floats && !quantise_range(y->dtype, &least, &most)) return tn__call_bad_shape(call, 0);
    for (uint64_t i = 0; i < frame.count; i++) {
        uint64_t which = quantise_which(&frame, i);
        float value = (float)tn__operand_float(x, i) / quantise_scale(&frame, which);
        if (floats) {
            float zero = frame.zero != NULL ? (float)quantise_number(frame.zero, which) : 0;
            tn__element_put(y->data, bits, i,
                            tn__small_round_to(y->dtype, (double)(value + zero), options));
            continue;
        }
        int32_t zero = frame.zero != NULL ? (int32_t)quantise_int(frame.zero, which) : 0;
        int32_t stored = tn__quantise(value, zero, least, most);
        if (bits == 8)
            ((uint8_t *)y->data)[i] = (uint8_t)stored;
        else
            tn__element_put(y->data, bits, i, (uint64_t)(int64_t)stored);
    }
    tn__element_pad(y->data, bits, frame.count);
    return TN_OK;
}

bool tn__quantise_accepts_to(const tn_kernel_setup *setup) {
    return tn__output_is(setup, 0, (QUANTISE_WHOLE | QUANTISE_FLOATS) & ~TN__TYPE(INT32)) &&
           tn__input_is(setup, 0, TN__TYPES_REAL | TN__TYPE(INT32)) &&
           tn__input_is(setup, 1, QUANTISE_SCALES | TN__TYPE(INT32)) &&
           (tn__setup_input(setup, 2) == NULL ||
            tn__input_type(setup, 2) == tn__output_type(setup, 0));
}

tn_status tn__quantise_run_from(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    quantise_frame frame;
    TN_TRY(quantise_read(call, &frame));
    for (uint64_t i = 0; i < frame.count; i++) {
        uint64_t which = quantise_which(&frame, i);
        double zero = frame.zero != NULL ? quantise_number(frame.zero, which) : 0;
        float apart = (float)(quantise_number(x, i) - zero);
        tn__real_set(y, i, (double)(apart * quantise_scale(&frame, which)));
    }
    return TN_OK;
}

bool tn__quantise_accepts_from(const tn_kernel_setup *setup) {
    return tn__output_is(setup, 0, TN__TYPES_REAL) &&
           tn__input_is(setup, 0, QUANTISE_WHOLE | QUANTISE_FLOATS) &&
           tn__input_is(setup, 1, QUANTISE_SCALES) &&
           (tn__setup_input(setup, 2) == NULL ||
            tn__input_type(setup, 2) == tn__input_type(setup, 0));
}

/* DynamicQuantizeLinear: maps the range of the data, extended to include 0, to 0..255. */
static tn_status quantise_run_dynamic(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = tn__call_output(call, 0);
    const tn_operand *scale_to = tn__call_output(call, 1), *zero_to = tn__call_output(call, 2);
    const float *values = x->data;
    uint64_t count = tn__operand_count(x);
    float least = 0, most = 0;
    if (y != NULL) TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    for (uint64_t i = 0; i < count; i++) {
        if (values[i] < least) least = values[i];
        if (values[i] > most) most = values[i];
    }
    float scale = (most - least) / 255;
    if (!(scale > 0)) scale = 1; /* if all elements are 0, any scale is right */
    int32_t zero = tn__quantise(-least / scale, 0, 0, 255);
    if (scale_to != NULL) *(float *)scale_to->data = scale;
    if (zero_to != NULL) *(uint8_t *)zero_to->data = (uint8_t)zero;
    for (uint64_t i = 0; i < count && y != NULL; i++)
        ((uint8_t *)y->data)[i] = tn__quantise_byte(values[i] / scale, zero, TN_UINT8);
    return TN_OK;
}

static bool quantise_accepts_dynamic(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(FLOAT32)) &&
           tn__output_may_be(setup, 0, TN__TYPE(UINT8)) &&
           tn__output_may_be(setup, 1, TN__TYPE(FLOAT32)) &&
           tn__output_may_be(setup, 2, TN__TYPE(UINT8));
}

/* --- FakeQuantize and FakeQuantizeGrad: numbers are quantised and converted back --- */

static tn_dtype fake_type(const tn_op *op) {
    return (tn_dtype)tn__attr_int(op, "to", TN_UNDEFINED);
}

/* Runs FakeQuantize, with inputs x, scale and zero point, or its gradient, which also reads dy. */
static tn_status fake_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *dy = tn__call_input(call, 3);
    tn_operand *y = &call->outputs[0];
    quantise_frame frame;
    int32_t least = 0, most = 0;
    TN_TRY(quantise_read(call, &frame));
    if (dy != NULL) TN_TRY(tn__check_count(call, 3, frame.count));
    if (!quantise_range(fake_type(call->op), &least, &most))
        return tn__call_fail(call, TN_E_INVALID, "attribute to is no integer type");
    const float *from = x->dtype == TN_FLOAT32 ? x->data : NULL;
    float scale = 1;
    int32_t zero = 0;
    for (uint64_t i = 0, last = UINT64_MAX; i < frame.count; i++) {
        uint64_t which = quantise_which(&frame, i);
        if (which != last) {
            zero = frame.zero != NULL ? (int32_t)quantise_int(frame.zero, which) : 0;
            scale = (float)tn__operand_float(frame.scale, which);
            last = which;
        }
        float value = (from != NULL ? from[i] : (float)tn__operand_float(x, i)) / scale;
        float moved = nearbyintf(value) + (float)zero;
        bool inside = moved >= (float)least && moved <= (float)most;
        float back = (float)(tn__quantise(value, zero, least, most) - zero) * scale;
        double result = dy == NULL ? (double)back : inside ? tn__operand_float(dy, i) : 0;
        if (y->dtype == TN_FLOAT32)
            ((float *)y->data)[i] = (float)result;
        else
            tn__real_set(y, i, result);
    }
    return TN_OK;
}

static bool fake_accepts(const tn_kernel_setup *setup) {
    int32_t least, most;
    return quantise_range(fake_type(setup->op), &least, &most) &&
           tn__output_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 0, TN__TYPES_REAL) &&
           tn__input_is(setup, 1, TN__TYPES_REAL) && tn__input_may_be(setup, 2, QUANTISE_WHOLE) &&
           tn__input_may_be(setup, 3, TN__TYPES_REAL);
}

/* --- QuantizeWeights, DequantizeWeights: 8-bit weights with one scale per channel ---
 *
 * rewrites/weights.c makes these operators. q = round(w / scale) with scale = max |w| / 127. This
 * is symmetric, so 0 is represented exactly and no zero points are needed. QuantizeWeights runs
 * once, when the engine is created. DequantizeWeights runs directly before the operator that reads
 * the weights. Both see the weights as [outer, channels, inner].
 */

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

static float weights_scale(const float *w, const weights_frame *frame, uint64_t channel) {
    float most = 0;
    for (uint64_t o = 0; o < frame->outer; o++) {
        const float *row = w + (o * frame->channels + channel) * frame->inner;
        for (uint64_t i = 0; i < frame->inner; i++)
            if (fabsf(row[i]) > most || isnan(row[i])) most = fabsf(row[i]);
    }
    return most / 127; /* a NaN among the weights makes this NaN, and thereby the whole channel */
}

static int8_t weights_round(float value) {
    float near = nearbyintf(value);
    /* the largest and smallest codes are 127 and -127; a NaN becomes -127 */
    return (int8_t)(near >= 127 ? 127 : near > -127 ? near : -127);
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

static const tn_kernel quantise_kernels[] = {
    {.type = "DequantizeLinear",
     .accepts = tn__quantise_accepts_from,
     .run = tn__quantise_run_from},
    {.type = "DynamicQuantizeLinear",
     .accepts = quantise_accepts_dynamic,
     .run = quantise_run_dynamic},
    {.type = "QuantizeLinear", .accepts = tn__quantise_accepts_to, .run = tn__quantise_run_to},
    {.domain = "tenure",
     .type = "DequantizeWeights",
     .accepts = weights_accepts_dequantize,
     .run = weights_run_dequantize},
    {.domain = "tenure", .type = "FakeQuantize", .accepts = fake_accepts, .run = fake_run},
    {.domain = "tenure", .type = "FakeQuantizeGrad", .accepts = fake_accepts, .run = fake_run},
    {.domain = "tenure",
     .type = "QuantizeWeights",
     .accepts = weights_accepts_quantize,
     .run = weights_run_quantize},
};

TN_KERNEL_FAMILY(quantise, "");
