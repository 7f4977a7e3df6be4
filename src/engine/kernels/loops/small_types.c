/* small_types.c - numbers of floating types of 4 and 8 bits, and of integers of 4 and 2 bits.
 *
 * A small floating type has a sign, an exponent with a bias, and a mantissa; exponent 0 means
 * subnormal numbers. The types differ in their codes for NaN and infinity: float8e4m3fn has only
 * NaNs (all ones), float8e5m2 is as IEEE 754, the FNUZ types have one NaN in the place of -0, and
 * float4e2m1 has neither. float8e8m0 has only an exponent: 2^(code - 127), 255 for NaN.
 * Source: operator text of ONNX's Cast, opset 25; OCP Microscaling Formats, version 1.0, 2023.
 */
#include "engine/kernels/loops/small_types.h"

#include <math.h>

#include "engine/kernels/convert.h"

typedef struct small_format {
    tn_dtype dtype;
    uint32_t exponent, mantissa; /* bits */
    int bias;
    double largest;
    /* codes without a sign; `infinity` 0: the type has none; `nan` 0: it has none, or it is FNUZ */
    uint32_t nan, infinity;
    bool unsigned_zero; /* FNUZ: code 0x80 is NaN, and there is no -0 */
} small_format;

static const small_format small_formats[] = {
    {TN_FLOAT8E4M3FN, 4, 3, 7, 448, 0x7f, 0, false},
    {TN_FLOAT8E4M3FNUZ, 4, 3, 8, 240, 0, 0, true},
    {TN_FLOAT8E5M2, 5, 2, 15, 57344, 0x7e, 0x7c, false},
    {TN_FLOAT8E5M2FNUZ, 5, 2, 16, 57344, 0, 0, true},
    {TN_FLOAT4E2M1, 2, 1, 1, 6, 0, 0, false},
};

enum { SMALL_E8M0_NAN = 255, SMALL_E8M0_BIAS = 127 };

static const small_format *small_format_of(tn_dtype dtype) {
    for (size_t i = 0; i < sizeof small_formats / sizeof *small_formats; i++)
        if (small_formats[i].dtype == dtype) return &small_formats[i];
    return NULL;
}

bool tn__is_small_float(tn_dtype dtype) {
    return dtype == TN_FLOAT8E8M0 || small_format_of(dtype) != NULL;
}

bool tn__is_small(tn_dtype dtype) {
    return tn__is_small_float(dtype) || dtype == TN_INT4 || dtype == TN_UINT4 || dtype == TN_INT2 ||
           dtype == TN_UINT2;
}

/* --- from codes --- */

uint32_t tn__small_code(tn_dtype dtype, const void *array, uint64_t at) {
    return (uint32_t)tn__packed_number(array, at, tn_dtype_bits(dtype), false);
}

static double small_float_value(const small_format *format, uint32_t code) {
    const uint32_t bits = format->exponent + format->mantissa, sign = code >> bits & 1;
    const uint32_t rest = code & ((1u << bits) - 1),
                   mantissa = rest & ((1u << format->mantissa) - 1);
    const int exponent = (int)(rest >> format->mantissa);
    if (format->unsigned_zero && sign != 0 && rest == 0) return (double)NAN;
    if (format->nan != 0 && rest == format->infinity && format->infinity != 0)
        return sign != 0 ? -(double)INFINITY : (double)INFINITY;
    if (format->nan != 0 && rest >= (format->infinity != 0 ? format->infinity : format->nan))
        return (double)NAN;
    const uint32_t whole = exponent > 0 ? mantissa + (1u << format->mantissa) : mantissa;
    const double value =
        ldexp((double)whole, (exponent > 0 ? exponent : 1) - format->bias - (int)format->mantissa);
    return sign != 0 ? -value : value;
}

double tn__small_value(tn_dtype dtype, uint32_t code) {
    const small_format *format = small_format_of(dtype);
    if (format != NULL) return small_float_value(format, code);
    if (dtype == TN_FLOAT8E8M0)
        return code == SMALL_E8M0_NAN ? (double)NAN : ldexp(1, (int)code - SMALL_E8M0_BIAS);
    const int32_t sign = dtype == TN_INT4 ? 8 : dtype == TN_INT2 ? 2 : 0;
    return (double)(((int32_t)code ^ sign) - sign);
}

/* --- to codes --- */

/* Returns the code of a magnitude that the format has. */
static uint32_t small_magnitude(const small_format *format, double value) {
    int exponent;
    if (value == 0) return 0;
    frexp(value, &exponent); /* value = f 2^exponent, 0.5 <= f < 1 */
    exponent += format->bias - 1;
    if (exponent < 1) exponent = 0;
    const int unit = (exponent > 0 ? exponent : 1) - format->bias - (int)format->mantissa;
    const uint32_t whole = (uint32_t)ldexp(value, -unit);
    return exponent > 0
               ? ((uint32_t)exponent << format->mantissa) + whole - (1u << format->mantissa)
               : whole;
}

static uint32_t small_float_code(const small_format *format, double value, bool saturate) {
    const uint32_t bits = format->exponent + format->mantissa;
    const uint32_t sign = signbit(value) != 0 ? 1u << bits : 0;
    int exponent;
    if (isnan(value)) /* float4e2m1 has no NaN */
        return format->unsigned_zero || format->nan == 0 ? 1u << bits : format->nan | sign;
    double size = fabs(value);
    if (!isinf(size) && size != 0) {
        frexp(size, &exponent);
        if (exponent < 2 - format->bias) exponent = 2 - format->bias;
        const int unit = exponent - 1 - (int)format->mantissa;
        size = ldexp(nearbyint(ldexp(size, -unit)), unit);
    }
    if (size > format->largest) {
        if (saturate || (format->nan == 0 && !format->unsigned_zero))
            size = format->largest;
        else if (format->unsigned_zero)
            return 1u << bits;
        else
            return (format->infinity != 0 ? format->infinity : format->nan) | sign;
    }
    const uint32_t code = small_magnitude(format, size);
    return code == 0 && format->unsigned_zero ? 0 : code | sign;
}

static uint32_t small_power_code(double value, tn__small_options options) {
    const double size = fabs(value);
    int exponent;
    if (isnan(size)) return SMALL_E8M0_NAN;
    if (size == 0) return options.saturate ? 0 : SMALL_E8M0_NAN;
    if (isinf(size)) return options.saturate ? SMALL_E8M0_NAN - 1 : SMALL_E8M0_NAN;
    const double fraction = frexp(size, &exponent) * 2; /* 1 <= fraction < 2 */
    int64_t code = (int64_t)exponent - 1 + SMALL_E8M0_BIAS;
    if (options.round == TN__SMALL_NEAREST ? fraction >= 1.5
                                           : options.round == TN__SMALL_UP && fraction > 1)
        code++;
    if (code >= 0 && code < SMALL_E8M0_NAN) return (uint32_t)code;
    if (!options.saturate) return SMALL_E8M0_NAN;
    return code < 0 ? 0 : SMALL_E8M0_NAN - 1;
}

uint32_t tn__small_round_to(tn_dtype dtype, double value, tn__small_options options) {
    const small_format *format = small_format_of(dtype);
    return format != NULL ? small_float_code(format, value, options.saturate)
                          : small_power_code(value, options);
}
