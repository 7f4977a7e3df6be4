/* element.c - reads and writes numbers as elements of a plain array. Cost: O(1) per element. */
#include "graph/element.h"

#include <math.h>
#include <string.h>

#include "graph/fold.h"

/* Rounds to a float of `exponent_bits` and `fraction_bits`. frexp and nearbyint are exact, and the
 * default rounding is to nearest even. */
static uint64_t element_small_float(double value, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, exponent;
    uint64_t sign = signbit(value) ? UINT64_C(1) << (exponent_bits + fraction_bits) : 0;
    uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << fraction_bits;
    if (isnan(value)) return sign | infinity | UINT64_C(1) << (fraction_bits - 1);
    if (isinf(value)) return sign | infinity;
    if (value == 0) return sign;
    (void)frexp(value, &exponent);
    /* exponent of the lowest mantissa bit */
    int unit = exponent - 1 > -bias ? exponent - 1 : 1 - bias;
    if (unit > bias) return sign | infinity;
    /* In units of the last place, a number equals its own encoding: a carry out of the fraction
     * goes into the exponent, up to infinity. */
    uint64_t steps = (uint64_t)nearbyint(ldexp(fabs(value), fraction_bits - unit));
    return sign | (((uint64_t)(unit + bias - 1) << fraction_bits) + steps);
}

uint64_t tn__element_of(tn_dtype dtype, double value) {
    uint64_t bits = 0;
    uint32_t narrow;
    float single = (float)value;
    switch (dtype) {
    case TN_FLOAT16:
        return element_small_float(value, 5, 10);
    case TN_BFLOAT16:
        return element_small_float(value, 8, 7);
    case TN_FLOAT32:
        memcpy(&narrow, &single, sizeof narrow);
        return narrow;
    default:
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
}

/* Infinity and NaN have all bits of the exponent. */
uint64_t tn__first_odd(const void *data, uint64_t size, tn_dtype dtype) {
    static const struct {
        tn_dtype dtype;
        uint64_t exponent;
    } types[] = {{TN_FLOAT16, 0x7c00u},
                 {TN_BFLOAT16, 0x7f80u},
                 {TN_FLOAT32, 0x7f800000u},
                 {TN_FLOAT64, UINT64_C(0x7ff0000000000000)}};
    size_t type = 0;
    while (type < 4 && types[type].dtype != dtype) type++;
    if (type == 4) return TN_SIZE_UNKNOWN;
    uint64_t exponent = types[type].exponent, width = tn_dtype_bits(dtype) / 8;
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < size / width; i++) {
        uint64_t word = 0;
        memcpy(&word, bytes + i * width, width);
        if ((word & exponent) == exponent) return i;
    }
    return TN_SIZE_UNKNOWN;
}

bool tn__tensor_fill(const tn_tensor *tensor, void *bytes, uint64_t size) {
    const tn_value *value = tensor->value;
    uint32_t bits = tn_dtype_bits(tensor->dtype);
    bool real = tn__is_float(tensor->dtype);
    if (value == NULL || value->count == 0) return false;
    if (((uint64_t)value->count * bits + 7) / 8 != size) return false;
    if (real ? value->floats == NULL : value->ints == NULL) return false;
    memset(bytes, 0, (size_t)size); /* clears the last byte, which may not be full */
    for (uint32_t i = 0; i < value->count; i++)
        tn__element_put(bytes, bits, i,
                        real ? tn__element_of(tensor->dtype, value->floats[i])
                             : (uint64_t)value->ints[i]);
    return true;
}
