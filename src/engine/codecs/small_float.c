/* small_float.c - codecs that store float32 as floats of fewer bits (float16, float10, float8), in
 * loops that compilers vectorise.
 *
 * Numbers are rounded to nearest, ties to even. A finite number that is too large becomes the
 * largest finite number of the format. NaNs stay NaNs (one for each sign). Infinities stay
 * infinities if the format has them; otherwise they become the largest number.
 *
 * sign | exponent, bias 2^(e-1) - 1 | mantissa        exponent 0: subnormal numbers
 *
 * In a format with `inf`, an exponent of all ones means infinity or NaN, as in IEEE 754. In a
 * format without `inf`, only a code of all ones in exponent and mantissa means NaN, and all other
 * codes are numbers (OCP, "8-bit floating point specification" (2023), for 4 bits of exponent and 3
 * of mantissa).
 * Source: Jain et al., "Gist" (2018), delayed precision reduction.
 */
#include "engine/codecs/codec.h"
#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"

typedef struct small_float {
    uint32_t exponent, mantissa; /* bits */
    bool inf;
} small_float;

static inline uint32_t small_bias(small_float f) { return (1u << (f.exponent - 1)) - 1; }
/* Returns 2^power as float32, for a power of at least -126. */
static inline float small_power(int power) {
    return tn__float_of_bits((uint32_t)(127 + power) << 23);
}
/* Code of the NaN of a format, without its sign. */
static inline uint32_t small_nan(small_float f) {
    uint32_t ones = (1u << (f.exponent + f.mantissa)) - 1;
    /* the quiet NaN, or the only NaN of the format */
    return f.inf ? ones ^ ((1u << (f.mantissa - 1)) - 1) : ones;
}
static inline uint32_t small_infinity(small_float f) {
    return ((1u << f.exponent) - 1) << f.mantissa;
}
static inline uint32_t small_largest(small_float f) {
    return f.inf ? small_infinity(f) - 1 : small_nan(f) - 1;
}

/* Encodes a number. In the range of subnormal numbers, adding a power of two with a last mantissa
 * bit worth one subnormal step makes the hardware round the number. In the range of normal numbers,
 * the mantissa is rounded as an integer, and a carry increases the exponent. */
static inline uint32_t small_encode(small_float f, float value) {
    const uint32_t cut = 23 - f.mantissa, bias = small_bias(f);
    /* bits of the smallest normal number of the format, as float32 */
    const uint32_t lowest = (127 - bias + 1) << 23;
    const float magic = small_power(1 - (int)bias - (int)f.mantissa + 23);
    uint32_t bits = tn__bits_of_float(value), sign = bits >> 31, size = bits & 0x7fffffffu;
    uint32_t rounded = size + ((1u << (cut - 1)) - 1) + (size >> cut & 1);
    uint32_t normal = (rounded >> cut) - ((127 - bias) << f.mantissa);
    uint32_t small = tn__bits_of_float(tn__float_of_bits(size) + magic) - tn__bits_of_float(magic);
    uint32_t code = size < lowest ? small : normal;
    code = size >= 0x7f800000u || code > small_largest(f) ? small_largest(f) : code;
    code = f.inf && size == 0x7f800000u ? small_infinity(f) : code;
    code = size > 0x7f800000u ? small_nan(f) : code;
    return sign << (f.exponent + f.mantissa) | code;
}

static inline float small_decode(small_float f, uint32_t code) {
    const uint32_t bias = small_bias(f), width = f.exponent + f.mantissa;
    const float quantum = small_power(1 - (int)bias - (int)f.mantissa);
    uint32_t size = code & ((1u << width) - 1), sign = code >> width & 1;
    uint32_t normal = (size << (23 - f.mantissa)) + ((127 - bias) << 23);
    uint32_t small = tn__bits_of_float((float)(int32_t)size * quantum);
    uint32_t bits = size < 1u << f.mantissa ? small : normal;
    bits = f.inf && size >= small_infinity(f)
               ? 0x7f800000u | (size & ((1u << f.mantissa) - 1)) << (23 - f.mantissa)
               : bits;
    bits = !f.inf && size == small_nan(f) ? 0x7fc00000u : bits;
    return tn__float_of_bits(sign << 31 | bits);
}

/* --- float16: 5 bits of exponent, 10 of mantissa, as in IEEE 754; largest number 65504 --- */

#define FLOAT16_FORMAT                                                                             \
    (small_float) { .exponent = 5, .mantissa = 10, .inf = true }

TN_WIDE static void float16_pack(const float *from, uint64_t count, uint16_t *to) {
    for (uint64_t i = 0; i < count; i++) to[i] = (uint16_t)small_encode(FLOAT16_FORMAT, from[i]);
}

TN_WIDE static void float16_unpack(const uint16_t *from, uint64_t count, float *to) {
    for (uint64_t i = 0; i < count; i++) to[i] = small_decode(FLOAT16_FORMAT, from[i]);
}

static tn_status float16_encode(tn__form *form, tn_error *error) {
    (void)error;
    float16_pack(form->plain, form->count, (uint16_t *)form->code);
    return TN_OK;
}

static tn_status float16_decode(const tn__form *form, tn_error *error) {
    (void)error;
    float16_unpack((const uint16_t *)form->code, form->count, form->plain);
    return TN_OK;
}

const tn__coder tn__coder_float16 = {
    .lossy = true, .encode = float16_encode, .decode = float16_decode};

/* --- float10: 5 bits of exponent, 4 of mantissa ---
 *
 * A 32-bit word has three numbers, the first in the lowest bits. The largest number is 63488. The
 * format has infinities, as float16 does.
 */

#define FLOAT10_FORMAT                                                                             \
    (small_float) { .exponent = 5, .mantissa = 4, .inf = true }

TN_WIDE static void float10_pack(const float *from, uint64_t words, uint32_t *to) {
    for (uint64_t w = 0; w < words; w++)
        to[w] = small_encode(FLOAT10_FORMAT, from[3 * w]) |
                small_encode(FLOAT10_FORMAT, from[3 * w + 1]) << 10 |
                small_encode(FLOAT10_FORMAT, from[3 * w + 2]) << 20;
}

TN_WIDE static void float10_unpack(const uint32_t *from, uint64_t words, float *to) {
    for (uint64_t w = 0; w < words; w++) {
        to[3 * w] = small_decode(FLOAT10_FORMAT, from[w] & 0x3ff);
        to[3 * w + 1] = small_decode(FLOAT10_FORMAT, from[w] >> 10 & 0x3ff);
        to[3 * w + 2] = small_decode(FLOAT10_FORMAT, from[w] >> 20 & 0x3ff);
    }
}

static tn_status float10_encode(tn__form *form, tn_error *error) {
    (void)error;
    const float *from = form->plain;
    uint32_t *to = (uint32_t *)(void *)form->code;
    uint64_t words = form->count / 3;
    float rest[3] = {0};
    float10_pack(from, words, to);
    for (uint64_t i = 3 * words; i < form->count; i++) rest[i - 3 * words] = from[i];
    if (form->count % 3 != 0) float10_pack(rest, 1, to + words);
    return TN_OK;
}

static tn_status float10_decode(const tn__form *form, tn_error *error) {
    (void)error;
    const uint32_t *from = (const uint32_t *)(const void *)form->code;
    float *to = form->plain;
    uint64_t words = form->count / 3;
    float rest[3];
    float10_unpack(from, words, to);
    if (form->count % 3 == 0) return TN_OK;
    float10_unpack(from + words, 1, rest);
    for (uint64_t i = 3 * words; i < form->count; i++) to[i] = rest[i - 3 * words];
    return TN_OK;
}

const tn__coder tn__coder_float10 = {
    .lossy = true, .encode = float10_encode, .decode = float10_decode};

/* --- float8: 4 bits of exponent, 3 of mantissa; largest number 448, no infinities --- */

#define FLOAT8_FORMAT                                                                              \
    (small_float) { .exponent = 4, .mantissa = 3, .inf = false }

TN_WIDE static void float8_pack(const float *from, uint64_t count, uint8_t *to) {
    for (uint64_t i = 0; i < count; i++) to[i] = (uint8_t)small_encode(FLOAT8_FORMAT, from[i]);
}

TN_WIDE static void float8_unpack(const uint8_t *from, uint64_t count, float *to) {
    for (uint64_t i = 0; i < count; i++) to[i] = small_decode(FLOAT8_FORMAT, from[i]);
}

static tn_status float8_encode(tn__form *form, tn_error *error) {
    (void)error;
    float8_pack(form->plain, form->count, (uint8_t *)form->code);
    return TN_OK;
}

static tn_status float8_decode(const tn__form *form, tn_error *error) {
    (void)error;
    float8_unpack((const uint8_t *)form->code, form->count, form->plain);
    return TN_OK;
}

const tn__coder tn__coder_float8 = {
    .lossy = true, .encode = float8_encode, .decode = float8_decode};
