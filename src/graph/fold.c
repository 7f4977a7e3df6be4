/* fold.c - arithmetic of folded contents; fold.h says why it is exact. */
#include "graph/fold.h"

#include <math.h>

bool tn__is_float(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}

bool tn__is_unsigned(tn_dtype dtype) {
    switch (dtype) {
    case TN_BOOL:
    case TN_UINT2:
    case TN_UINT4:
    case TN_UINT8:
    case TN_UINT16:
    case TN_UINT32:
    case TN_UINT64:
        return true;
    default:
        return false;
    }
}

bool tn__is_integer(tn_dtype dtype) {
    switch (dtype) {
    case TN_INT2:
    case TN_INT4:
    case TN_INT8:
    case TN_INT16:
    case TN_INT32:
    case TN_INT64:
        return true;
    default:
        return tn__is_unsigned(dtype);
    }
}

int64_t tn__wrap(tn_dtype dtype, int64_t value) {
    uint32_t bits = tn_dtype_bits(dtype);
    if (dtype == TN_BOOL) return value != 0;
    if (bits >= 64 || bits == 0) return value;
    uint64_t mask = (UINT64_C(1) << bits) - 1, low = (uint64_t)value & mask;
    if (!tn__is_unsigned(dtype) && (low >> (bits - 1) & 1)) low |= ~mask;
    int64_t wrapped;
    memcpy(&wrapped, &low, sizeof wrapped);
    return wrapped;
}

/* Rounds to `digits` binary digits with exponents from `least` on (subnormals below); ties to even,
 * as rint does in the default mode. */
static double fold_round_digits(double value, int digits, int least, double largest) {
    if (!isfinite(value) || value == 0) return value;
    int exponent;
    (void)frexp(value, &exponent); /* |value| in [2^(exponent-1), 2^exponent) */
    if (exponent < least) exponent = least;
    double unit = ldexp(1.0, exponent - digits);
    double rounded = rint(value / unit) * unit;
    return fabs(rounded) > largest ? copysign((double)INFINITY, value) : rounded;
}

double tn__round(tn_dtype dtype, double value) {
    switch (dtype) {
    case TN_FLOAT32:
        return (double)(float)value;
    case TN_FLOAT16:
        return fold_round_digits(value, 11, -13, 65504.0);
    case TN_BFLOAT16:
        return fold_round_digits(value, 8, -125, 0x1.fep127);
    default:
        return value;
    }
}

tn_status tn__fold_unary(tn_infer *infer, double (*of_float)(double), int64_t (*of_int)(int64_t)) {
    const tn_tensor *output = tn__output(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    if (!value || !output) return TN_OK;
    if (value->floats && of_float && tn__is_float(output->dtype)) {
        double *result = tn__scratch(infer, (size_t)value->count + 1, sizeof *result);
        if (!result) return tn__infer_no_memory(infer);
        for (uint32_t i = 0; i < value->count; i++)
            result[i] = tn__round(output->dtype, of_float(value->floats[i]));
        return tn__set_value_floats(infer, 0, result, value->count);
    }
    if (value->ints && of_int && tn__is_integer(output->dtype)) {
        int64_t *result = tn__scratch(infer, (size_t)value->count + 1, sizeof *result);
        if (!result) return tn__infer_no_memory(infer);
        for (uint32_t i = 0; i < value->count; i++)
            result[i] = tn__wrap(output->dtype, of_int(value->ints[i]));
        return tn__set_value_ints(infer, 0, result, value->count);
    }
    return TN_OK;
}
