/* quantise.h - conversions between real numbers and 8-bit quantised numbers, for all quantised
 * operators.
 *
 * A quantised tensor represents real = (stored - zero) * scale. One expression reads stored bytes
 * of both types: (byte ^ flip) - bias, where flip and bias are 128 for int8 and 0 for uint8.
 */
#ifndef TN_KERNELS_QUANTISE_H
#define TN_KERNELS_QUANTISE_H

#include <math.h>

#include "engine/kernels/operands.h"

typedef struct tn__byte_coding {
    uint8_t flip;
    int32_t bias;
} tn__byte_coding;
static inline tn__byte_coding tn__bytes_of(tn_dtype dtype) {
    return dtype == TN_INT8 ? (tn__byte_coding){.flip = 128, .bias = 128} : (tn__byte_coding){0};
}
static inline int32_t tn__byte_read(tn__byte_coding bytes, uint8_t stored) {
    return (int32_t)(stored ^ bytes.flip) - bytes.bias;
}

/* Rounds to an integer (ties to even), adds `zero`, and limits the result to [least, most]. A NaN
 * becomes `least`. */
static inline int32_t tn__quantise(float value, int32_t zero, int32_t least, int32_t most) {
    float moved = nearbyintf(value) + (float)zero;
    if (!(moved > (float)least)) return least;
    return moved < (float)most ? (int32_t)moved : most;
}
/* Rounds a value that is already divided by the scale, adds the zero point, limits the result to
 * the range of int8 or uint8, and returns its byte. */
static inline uint8_t tn__quantise_byte(float value, int32_t zero, tn_dtype dtype) {
    bool sign = dtype == TN_INT8;
    return (uint8_t)tn__quantise(value, zero, sign ? -128 : 0, sign ? 127 : 255);
}

/* The kernels of QuantizeLinear and DequantizeLinear, which ONNX Runtime's domain has as well as
 * ONNX (families/quantised/quantise.c). */
bool tn__quantise_accepts_to(const tn_kernel_setup *setup);
tn_status tn__quantise_run_to(tn_kernel_call *call);
bool tn__quantise_accepts_from(const tn_kernel_setup *setup);
tn_status tn__quantise_run_from(tn_kernel_call *call);

#endif
