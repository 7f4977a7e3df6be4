/* small_float.h - converts float32 to floats of fewer bits and back, in a way that compilers
 * vectorise.
 *
 * Numbers are rounded to nearest, ties to even. A finite number stays finite: beyond the largest
 * number it becomes that number. NaNs stay NaNs (one of each sign). Infinities stay infinities if
 * the format has them, else they become the largest number too.
 *
 *     sign | exponent, bias 2^(e-1) - 1 | mantissa        exponent 0: less than the smallest normal
 *
 * In a format with `inf`, an exponent of all ones means infinity or NaN, as in IEEE 754. Without
 * `inf`, only all ones in exponent and mantissa together means NaN, and all other codes are numbers
 * (OCP, "8-bit floating point specification" (2023), for 4 and 3 bits).
 */
#ifndef TN_ENGINE_CODECS_SMALL_FLOAT_H
#define TN_ENGINE_CODECS_SMALL_FLOAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/kernels/loops/approximate.h"

typedef struct tn__small_float {
    uint32_t exponent, mantissa; /* bits */
    bool inf;
} tn__small_float;

static inline uint32_t tn__small_bias(tn__small_float f) { return (1u << (f.exponent - 1)) - 1; }
/* 2^power; from -126 on. */
static inline float tn__small_power(int power) {
    return tn__float_of_bits((uint32_t)(127 + power) << 23);
}
/* Codes without their sign. */
static inline uint32_t tn__small_nan(tn__small_float f) {
    uint32_t ones = (1u << (f.exponent + f.mantissa)) - 1;
    return f.inf ? ones ^ ((1u << (f.mantissa - 1)) - 1) : ones; /* quiet; the only one */
}
static inline uint32_t tn__small_infinity(tn__small_float f) {
    return ((1u << f.exponent) - 1) << f.mantissa;
}
static inline uint32_t tn__small_largest(tn__small_float f) {
    return f.inf ? tn__small_infinity(f) - 1 : tn__small_nan(f) - 1;
}

/* Below the smallest normal number, adding a power of two rounds to the quantum, because the last
 * bit of that power is worth one quantum. Above, the tail of the mantissa is rounded as a whole
 * number, and its carry goes into the exponent. */
static inline uint32_t tn__small_encode(tn__small_float f, float value) {
    const uint32_t cut = 23 - f.mantissa, bias = tn__small_bias(f);
    const uint32_t lowest = (127 - bias + 1) << 23; /* the smallest normal, as float32 */
    const float magic = tn__small_power(1 - (int)bias - (int)f.mantissa + 23);
    uint32_t bits = tn__bits_of_float(value), sign = bits >> 31, size = bits & 0x7fffffffu;
    uint32_t rounded = size + ((1u << (cut - 1)) - 1) + (size >> cut & 1);
    uint32_t normal = (rounded >> cut) - ((127 - bias) << f.mantissa);
    uint32_t small = tn__bits_of_float(tn__float_of_bits(size) + magic) - tn__bits_of_float(magic);
    uint32_t code = size < lowest ? small : normal;
    code = size >= 0x7f800000u || code > tn__small_largest(f) ? tn__small_largest(f) : code;
    code = f.inf && size == 0x7f800000u ? tn__small_infinity(f) : code;
    code = size > 0x7f800000u ? tn__small_nan(f) : code;
    return sign << (f.exponent + f.mantissa) | code;
}

static inline float tn__small_decode(tn__small_float f, uint32_t code) {
    const uint32_t bias = tn__small_bias(f), width = f.exponent + f.mantissa;
    const float quantum = tn__small_power(1 - (int)bias - (int)f.mantissa);
    uint32_t size = code & ((1u << width) - 1), sign = code >> width & 1;
    uint32_t normal = (size << (23 - f.mantissa)) + ((127 - bias) << 23);
    uint32_t small = tn__bits_of_float((float)(int32_t)size * quantum);
    uint32_t bits = size < 1u << f.mantissa ? small : normal;
    bits = f.inf && size >= tn__small_infinity(f)
               ? 0x7f800000u | (size & ((1u << f.mantissa) - 1)) << (23 - f.mantissa)
               : bits;
    bits = !f.inf && size == tn__small_nan(f) ? 0x7fc00000u : bits;
    return tn__float_of_bits(sign << 31 | bits);
}

#endif
