/* convert.c - converts arrays of numbers from one element type to another (convert.h).
 *
 * There are direct loops only for pairs in which one type is float32, float64, int64 or uint64. All
 * other pairs are converted in two steps through one of these four types, which can represent every
 * value of the first type exactly. Therefore each number is rounded only once. A conversion of
 * float64 or 64-bit integers to a 16-bit float uses float32 in between, which cannot represent
 * every value. To avoid the error of rounding twice, the first step rounds to odd (S. Boldo, G.
 * Melquiond, Emulation of FMA and correctly rounded sums, IEEE Trans. Computers 57(4), 2008).
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"

typedef void (*convert_loop)(uint64_t count, const void *from, void *to);

/* --- conversions of one element --- */

/* Converts float16 to float32 without branches. The multiplication moves the exponent to the bias
 * of float32, and is also correct for subnormal numbers. */
static inline float convert_half(uint16_t half) {
    uint32_t magnitude = half & 0x7fffu;
    float scaled = tn__float_of_bits(magnitude << 13) * 0x1p112f;
    /* the exponent of infinity and NaN; 0 for other numbers */
    uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return tn__float_of_bits(tn__bits_of_float(scaled) | special | (half & 0x8000u) << 16);
}

/* Converts float32 to float16 without branches, rounding to nearest even. For a subnormal result,
 * adding 1/2 lets the hardware round the digits; they are then the low bits of the sum. */
static inline uint16_t convert_to_half(float value) {
    uint32_t bits = tn__bits_of_float(value), sign = bits >> 16 & 0x8000u;
    int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
    uint32_t odd = bits >> 13 & 1u;
    int32_t rounded = (int32_t)(((uint32_t)magnitude + 0xfffu + odd - 0x38000000u) >> 13);
    float swallowed = tn__float_of_bits((uint32_t)magnitude) + 0.5f;
    int32_t tiny = (int32_t)(tn__bits_of_float(swallowed) - tn__bits_of_float(0.5f));
    int32_t half = magnitude < 0x38800000 ? tiny : rounded;
    half = magnitude >= 0x477ff000 ? 0x7c00 : half; /* 65520 and above round to infinity */
    half = magnitude > 0x7f800000 ? 0x7e00 : half;
    return (uint16_t)(sign | (uint32_t)half);
}

/* Converts float32 to bfloat16 without branches, rounding to nearest even. */
static inline uint16_t convert_to_bfloat(float value) {
    uint32_t bits = tn__bits_of_float(value), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
    return (uint16_t)(magnitude > 0x7f800000 ? bits >> 16 | 0x40u : rounded >> 16);
}

/* Converts float64 to float32 with rounding to odd: an inexact result is rounded towards zero and
 * its last bit is set. */
static inline float convert_to_odd(double value) {
    float near = (float)value;
    if ((double)near == value || value != value) return near;
    uint32_t bits = tn__bits_of_float(near);
    /* go one step towards zero if the conversion rounded away from it */
    if (fabs((double)near) > fabs(value)) bits--;
    return tn__float_of_bits(bits | 1u);
}

/* Converts a 64-bit integer to float64 so that a later rounding to 24 bits or fewer gives the
 * correct result. If low bits do not fit, they are replaced by one bit that states whether any of
 * them was set (a sticky bit). */
static inline double convert_sticky(int64_t value) {
    bool fits = value < (INT64_C(1) << 53) && value > -(INT64_C(1) << 53);
    return (double)(fits ? value : (value & ~INT64_C(2047)) | ((value & 2047) != 0 ? 2048 : 0));
}
static inline double convert_sticky_unsigned(uint64_t value) {
    bool fits = value < (UINT64_C(1) << 53);
    return (double)(fits ? value : (value & ~UINT64_C(2047)) | ((value & 2047) != 0 ? 2048 : 0));
}

static inline int64_t convert_whole(double value) {
    if (value >= 0x1p63) return INT64_MAX;
    if (value < -0x1p63) return INT64_MIN;
    return value == value ? (int64_t)value : 0;
}
static inline uint64_t convert_whole_unsigned(double value) {
    if (value >= 0x1p64) return UINT64_MAX;
    if (value >= 0x1p63) return (uint64_t)(value - 0x1p63) | UINT64_C(1) << 63;
    return value < -0x1p63 ? 0 : (uint64_t)convert_whole(value);
}

/* Defines the conversion of a float64 to an integer type with fewer than 64 bits. A value that fits
 * 64 bits wraps to the type; a larger one becomes `least` or `most`. */
#define CONVERT_NARROW(type, least, most)                                                          \
    static inline type convert_narrow_##type(double value) {                                       \
        if (value >= 0x1p63) return most;                                                          \
        return value < -0x1p63 ? least : (type)(uint64_t)convert_whole(value);                     \
    }
CONVERT_NARROW(uint8_t, 0, UINT8_MAX)
CONVERT_NARROW(int8_t, INT8_MIN, INT8_MAX)
CONVERT_NARROW(uint16_t, 0, UINT16_MAX)
CONVERT_NARROW(int16_t, INT16_MIN, INT16_MAX)
CONVERT_NARROW(uint32_t, 0, UINT32_MAX)
CONVERT_NARROW(int32_t, INT32_MIN, INT32_MAX)

/* --- loops --- */

#define CONVERT_LOOP(wide, name, from_c, to_c, expression)                                         \
    wide static void convert_##name(uint64_t count, const void *from_bytes, void *to_bytes) {      \
        const from_c *from = from_bytes;                                                           \
        to_c *to = to_bytes;                                                                       \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            const from_c x = from[i];                                                              \
            to[i] = expression;                                                                    \
        }                                                                                          \
    }

/* X(name of the type, C type, and the element x as float32, as float64, as int64) */
/* clang-format off */
#define CONVERT_LOADS(X)                                                                       \
    X(UINT8,    uint8_t,  (float)x, (double)x, (int64_t)x)                                     \
    X(INT8,     int8_t,   (float)x, (double)x, (int64_t)x)                                     \
    X(UINT16,   uint16_t, (float)x, (double)x, (int64_t)x)                                     \
    X(INT16,    int16_t,  (float)x, (double)x, (int64_t)x)                                     \
    X(UINT32,   uint32_t, (float)x, (double)x, (int64_t)x)                                     \
    X(INT32,    int32_t,  (float)x, (double)x, (int64_t)x)                                     \
    X(UINT64,   uint64_t, (float)x, (double)x, (int64_t)x)                                     \
    X(INT64,    int64_t,  (float)x, (double)x, x)                                              \
    X(BOOL,     uint8_t,  (float)(x != 0), (double)(x != 0), (int64_t)(x != 0))                \
    X(FLOAT16,  uint16_t, convert_half(x), (double)convert_half(x),                            \
                          convert_whole((double)convert_half(x)))                              \
    X(BFLOAT16, uint16_t, tn__bfloat_to_float(x), (double)tn__bfloat_to_float(x),              \
                          convert_whole((double)tn__bfloat_to_float(x)))                       \
    X(FLOAT32,  float,    x, (double)x, convert_whole((double)x))                              \
    X(FLOAT64,  double,   (float)x, x, convert_whole(x))
/* X(name of the type, C type, and the result from a float32, float64, int64 or uint64 x) */
#define CONVERT_STORES(X)                                                                      \
    X(UINT8,    uint8_t,  convert_narrow_uint8_t((double)x), convert_narrow_uint8_t(x),        \
                          (uint8_t)x, (uint8_t)x)                                              \
    X(INT8,     int8_t,   convert_narrow_int8_t((double)x), convert_narrow_int8_t(x),          \
                          (int8_t)x, (int8_t)x)                                                \
    X(UINT16,   uint16_t, convert_narrow_uint16_t((double)x), convert_narrow_uint16_t(x),      \
                          (uint16_t)x, (uint16_t)x)                                            \
    X(INT16,    int16_t,  convert_narrow_int16_t((double)x), convert_narrow_int16_t(x),        \
                          (int16_t)x, (int16_t)x)                                              \
    X(UINT32,   uint32_t, convert_narrow_uint32_t((double)x), convert_narrow_uint32_t(x),      \
                          (uint32_t)x, (uint32_t)x)                                            \
    X(INT32,    int32_t,  convert_narrow_int32_t((double)x), convert_narrow_int32_t(x),        \
                          (int32_t)x, (int32_t)x)                                              \
    X(UINT64,   uint64_t, convert_whole_unsigned((double)x), convert_whole_unsigned(x),        \
                          (uint64_t)x, x)                                                      \
    X(INT64,    int64_t,  convert_whole((double)x), convert_whole(x), x, (int64_t)x)           \
    X(BOOL,     uint8_t,  x != 0, x != 0, x != 0, x != 0)                                      \
    X(FLOAT16,  uint16_t, convert_to_half(x), convert_to_half(convert_to_odd(x)),          \
                          convert_to_half(convert_to_odd(convert_sticky(x))),                \
                          convert_to_half(convert_to_odd(convert_sticky_unsigned(x))))       \
    X(BFLOAT16, uint16_t, convert_to_bfloat(x), tn__float_to_bfloat(convert_to_odd(x)),      \
                          tn__float_to_bfloat(convert_to_odd(convert_sticky(x))),              \
                          tn__float_to_bfloat(convert_to_odd(convert_sticky_unsigned(x))))     \
    X(FLOAT32,  float,    x, (float)x, (float)x, (float)x)                                     \
    X(FLOAT64,  double,   (double)x, x, (double)x, (double)x)
/* clang-format on */

#define CONVERT_LOAD_LOOPS(name, type, as_float, as_double, as_int)                                \
    CONVERT_LOOP(TN_WIDE, load_##name##_FLOAT32, type, float, as_float)                            \
    CONVERT_LOOP(, load_##name##_FLOAT64, type, double, as_double)                                 \
    CONVERT_LOOP(, load_##name##_INT64, type, int64_t, as_int)
#define CONVERT_STORE_LOOPS(name, type, of_float, of_double, of_int, of_uint)                      \
    CONVERT_LOOP(TN_WIDE, store_FLOAT32_##name, float, type, of_float)                             \
    CONVERT_LOOP(, store_FLOAT64_##name, double, type, of_double)                                  \
    CONVERT_LOOP(, store_INT64_##name, int64_t, type, of_int)                                      \
    CONVERT_LOOP(, store_UINT64_##name, uint64_t, type, of_uint)
CONVERT_LOADS(CONVERT_LOAD_LOOPS)
CONVERT_STORES(CONVERT_STORE_LOOPS)

enum { CONVERT_FLOAT32, CONVERT_FLOAT64, CONVERT_INT64, CONVERT_UINT64, CONVERT_KINDS };

static const convert_loop convert_loads[TN_DTYPE_COUNT][CONVERT_KINDS - 1] = {
#define CONVERT_ROW(name, type, as_float, as_double, as_int)                                       \
    [TN_##name] = {convert_load_##name##_FLOAT32, convert_load_##name##_FLOAT64,                   \
                   convert_load_##name##_INT64},
    CONVERT_LOADS(CONVERT_ROW)
#undef CONVERT_ROW
};
static const convert_loop convert_stores[TN_DTYPE_COUNT][CONVERT_KINDS] = {
#define CONVERT_ROW(name, type, of_float, of_double, of_int, of_uint)                              \
    [TN_##name] = {convert_store_FLOAT32_##name, convert_store_FLOAT64_##name,                     \
                   convert_store_INT64_##name, convert_store_UINT64_##name},
    CONVERT_STORES(CONVERT_ROW)
#undef CONVERT_ROW
};

/* --- conversions between any two types --- */

bool tn__is_numeric(tn_dtype dtype) {
    return dtype < TN_DTYPE_COUNT && convert_loads[dtype][0] != NULL;
}

tn_dtype tn__computed_type(tn_dtype dtype) {
    if (tn__is_short_float(dtype)) return TN_FLOAT32;
    return dtype == TN_FLOAT64 || dtype == TN_UINT64 ? dtype : TN_INT64;
}

static uint32_t convert_kind(tn_dtype dtype) {
    switch (dtype) {
    case TN_FLOAT32:
        return CONVERT_FLOAT32;
    case TN_FLOAT64:
        return CONVERT_FLOAT64;
    case TN_INT64:
        return CONVERT_INT64;
    case TN_UINT64:
        return CONVERT_UINT64;
    default:
        return CONVERT_KINDS;
    }
}

/* Returns the loop that converts one type to another in a single step, or NULL if two steps are
 * needed. */
static convert_loop convert_direct(tn_dtype from, tn_dtype to) {
    uint32_t kind = convert_kind(from);
    if (kind < CONVERT_KINDS) return convert_stores[to][kind];
    kind = convert_kind(to);
    /* A conversion to int64 gives the bits of uint64 as well, because `from` is a narrower type. */
    if (kind == CONVERT_UINT64) kind = CONVERT_INT64;
    bool whole = tn__is_short_float(from) && to == TN_UINT64;
    return kind < CONVERT_KINDS && !whole ? convert_loads[from][kind] : NULL;
}

void tn__convert(tn_dtype from_type, const void *from, tn_dtype to_type, void *to, uint64_t count) {
    if (from_type == to_type) {
        if (from != to) memcpy(to, from, count * tn__element_size(to_type));
        return;
    }
    convert_loop direct = convert_direct(from_type, to_type);
    if (direct != NULL) {
        direct(count, from, to);
        return;
    }
    tn_dtype between = tn__computed_type(from_type);
    size_t from_size = tn__element_size(from_type), to_size = tn__element_size(to_type);
    tn__block_room room;
    for (uint64_t done = 0; done < count; done += TN__BLOCK) {
        uint64_t some = count - done < TN__BLOCK ? count - done : TN__BLOCK;
        convert_direct(from_type, between)(some, (const char *)from + done * from_size, &room);
        convert_direct(between, to_type)(some, &room, (char *)to + done * to_size);
    }
}

const void *tn__convert_block(tn_dtype from_type, const void *from, tn_dtype wanted,
                              tn__block_room *room, size_t count) {
    if (from_type == wanted) return from;
    tn__convert(from_type, from, wanted, room, count);
    return room;
}

tn_status tn__call_expect(const tn_kernel_call *call, tn_dtype dtype, uint64_t count) {
    const tn_operand *output = &call->outputs[0];
    if (output->dtype == dtype && tn__operand_count(output) == count) return TN_OK;
    return tn__call_fail(
        call, TN_E_INVALID, "its result has %llu elements of %s, but the output %llu of %s",
        (unsigned long long)count, tn_dtype_name(dtype),
        (unsigned long long)tn__operand_count(output), tn_dtype_name(output->dtype));
}

static bool convert_is_plain(const tn_tensor *tensor) {
    return tn__is_numeric(tensor->dtype) && tensor->format.block == 0 &&
           tensor->format.order != TN_ORDER_NHWC;
}

bool tn__numeric_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *output = tn__setup_output(setup, 0);
    if (output == NULL || !convert_is_plain(output)) return false;
    for (uint32_t i = 0; i < setup->op->input_count; i++) {
        const tn_tensor *input = tn__setup_input(setup, i);
        if (input != NULL && !convert_is_plain(input)) return false;
    }
    return true;
}

/* --- packed integers of 2, 4 or 8 bits ---
 *
 * A signed number is stored in two's complement. With f = 2^(bits - 1), its value is (code ^ f) -
 * f. Only 8-bit numbers, and 4-bit numbers that begin at a byte boundary, have loops that compilers
 * can vectorise.
 */

int32_t tn__packed_number(const uint8_t *bytes, uint64_t at, uint32_t bits, bool is_signed) {
    int32_t sign = is_signed ? 1 << (bits - 1) : 0;
    if (bits == 8) return (bytes[at] ^ sign) - sign;
    uint32_t each = 8 / bits, shift = (uint32_t)(at % each) * bits;
    int32_t code = bytes[at / each] >> shift & ((1 << bits) - 1);
    return (code ^ sign) - sign;
}

TN_WIDE static void expand_halves(const uint8_t *bytes, uint64_t count, int32_t sign, float scale,
                                  float zero, float *to) {
    TN_APART
    for (uint64_t b = 0; b < count; b++) {
        to[2 * b] = ((float)(((bytes[b] & 15) ^ sign) - sign) - zero) * scale;
        to[2 * b + 1] = ((float)(((bytes[b] >> 4) ^ sign) - sign) - zero) * scale;
    }
}

TN_WIDE static void expand_bytes(const uint8_t *bytes, uint64_t count, int32_t sign, float scale,
                                 float zero, float *to) {
    TN_APART
    for (uint64_t b = 0; b < count; b++) to[b] = ((float)((bytes[b] ^ sign) - sign) - zero) * scale;
}

void tn__packed_expand(const uint8_t *bytes, uint64_t at, uint64_t count, uint32_t bits,
                       bool is_signed, float scale, float zero, float *to) {
    uint64_t done = 0;
    if (bits == 8) {
        expand_bytes(bytes + at, count, is_signed ? 128 : 0, scale, zero, to);
        done = count;
    } else if (bits == 4 && at % 2 == 0) {
        expand_halves(bytes + at / 2, count / 2, is_signed ? 8 : 0, scale, zero, to);
        done = count - count % 2;
    }
    for (; done < count; done++)
        to[done] = ((float)tn__packed_number(bytes, at + done, bits, is_signed) - zero) * scale;
}

enum { DOT_LANES = TN__DOT_BYTES };

TN_WIDE static float dot_row(const tn__packed_row *row, const float *x) {
    float lanes[DOT_LANES] = {0};
    uint64_t pairs = row->block / 2;
    for (uint64_t b = 0; b < row->blocks; b++) {
        const uint8_t *bytes = row->bytes + b * pairs;
        const float *even = x + b * row->block, *odd = even + pairs;
        const float scale = row->scales[b], zero = row->zeros[b];
        for (uint64_t p = 0; p < pairs; p += DOT_LANES) {
            TN_APART
            for (uint64_t l = 0; l < DOT_LANES; l++)
                lanes[l] += scale * (((float)(bytes[p + l] & 15) - zero) * even[p + l] +
                                     ((float)(bytes[p + l] >> 4) - zero) * odd[p + l]);
        }
    }
    for (uint64_t half = DOT_LANES / 2; half > 0; half /= 2)
        for (uint64_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0];
}

float tn__packed_dot(const tn__packed_row *row, const float *x) { return dot_row(row, x); }

void tn__packed_pair(const float *x, uint64_t count, uint64_t block, float *to) {
    for (uint64_t first = 0; first < count; first += block, to += block)
        for (uint64_t i = 0; i < block; i++)
            to[i % 2 * (block / 2) + i / 2] = first + i < count ? x[first + i] : 0;
}
