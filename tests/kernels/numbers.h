/* numbers.h - elements of any type as doubles, slowly and by definition, and random contents. */
#ifndef TENURE_TESTS_ENGINE_NUMBERS_H
#define TENURE_TESTS_ENGINE_NUMBERS_H

#include <math.h>

#include "kit.h"

/* A float of `exponent` bits and `fraction` bits, from its definition. */
static inline double number_of_bits(uint32_t bits, int exponent_bits, int fraction_bits) {
    uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    int exponent = (int)(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
    if (exponent == top) return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign *
           ldexp((double)fraction + ldexp(1, fraction_bits), exponent - bias - fraction_bits);
}

/* The nearest such float, halves to the even one: found by looking at both neighbours. */
static inline uint32_t number_to_bits(double value, int exponent_bits, int fraction_bits) {
    uint32_t sign = signbit(value) ? 1u << (exponent_bits + fraction_bits) : 0;
    uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    if (isnan(value)) return infinity | 1u << (fraction_bits - 1);
    uint32_t low = 0, high = infinity; /* low's value <= |value| < high's, but at the ends */
    double magnitude = fabs(value);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (number_of_bits(middle, exponent_bits, fraction_bits) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double least = number_of_bits(low, exponent_bits, fraction_bits), most;
    most = high == infinity ? ldexp(1, 1 << (exponent_bits - 1)) /* as if it went on */
                            : number_of_bits(high, exponent_bits, fraction_bits);
    double below = magnitude - least, above = most - magnitude;
    if (below < above || (!(below > above) && (low & 1) == 0)) return sign | low;
    return sign | high;
}

static inline double number_get(const kit_array *array, uint64_t i) {
    switch (array->dtype) {
    case TN_FLOAT32:
        return (double)((const float *)array->data)[i];
    case TN_FLOAT64:
        return ((const double *)array->data)[i];
    case TN_FLOAT16:
        return number_of_bits(((const uint16_t *)array->data)[i], 5, 10);
    case TN_BFLOAT16:
        return number_of_bits(((const uint16_t *)array->data)[i], 8, 7);
    case TN_BOOL:
    case TN_UINT8:
        return ((const uint8_t *)array->data)[i];
    case TN_INT8:
        return ((const int8_t *)array->data)[i];
    case TN_UINT16:
        return ((const uint16_t *)array->data)[i];
    case TN_INT16:
        return ((const int16_t *)array->data)[i];
    case TN_UINT32:
        return ((const uint32_t *)array->data)[i];
    case TN_INT32:
        return ((const int32_t *)array->data)[i];
    case TN_UINT64:
        return (double)((const uint64_t *)array->data)[i];
    case TN_INT64:
        return (double)((const int64_t *)array->data)[i];
    default:
        fail_msg("%s is not a number", tn_dtype_name(array->dtype));
        return 0;
    }
}

/* `value` fits the type. */
static inline void number_set(kit_array *array, uint64_t i, double value) {
    switch (array->dtype) {
    case TN_FLOAT32:
        ((float *)array->data)[i] = (float)value;
        break;
    case TN_FLOAT64:
        ((double *)array->data)[i] = value;
        break;
    case TN_FLOAT16:
        ((uint16_t *)array->data)[i] = (uint16_t)number_to_bits(value, 5, 10);
        break;
    case TN_BFLOAT16:
        ((uint16_t *)array->data)[i] = (uint16_t)number_to_bits(value, 8, 7);
        break;
    case TN_BOOL:
        ((uint8_t *)array->data)[i] = value != 0;
        break;
    case TN_UINT8:
        ((uint8_t *)array->data)[i] = (uint8_t)value;
        break;
    case TN_INT8:
        ((int8_t *)array->data)[i] = (int8_t)value;
        break;
    case TN_UINT16:
        ((uint16_t *)array->data)[i] = (uint16_t)value;
        break;
    case TN_INT16:
        ((int16_t *)array->data)[i] = (int16_t)value;
        break;
    case TN_UINT32:
        ((uint32_t *)array->data)[i] = (uint32_t)value;
        break;
    case TN_INT32:
        ((int32_t *)array->data)[i] = (int32_t)value;
        break;
    case TN_UINT64:
        ((uint64_t *)array->data)[i] = (uint64_t)value;
        break;
    case TN_INT64:
        ((int64_t *)array->data)[i] = (int64_t)value;
        break;
    default:
        fail_msg("%s is not a number", tn_dtype_name(array->dtype));
    }
}

static inline bool number_is_real(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}
static inline bool number_is_unsigned(tn_dtype dtype) {
    return dtype == TN_BOOL || dtype == TN_UINT8 || dtype == TN_UINT16 || dtype == TN_UINT32 ||
           dtype == TN_UINT64;
}

/* Relative error of one rounding in the type. */
static inline double number_unit(tn_dtype dtype) {
    return dtype == TN_FLOAT32    ? 0x1p-24
           : dtype == TN_FLOAT64  ? 0x1p-53
           : dtype == TN_FLOAT16  ? 0x1p-11
           : dtype == TN_BFLOAT16 ? 0x1p-8
                                  : 0;
}

/* --- random contents --- */

static inline double number_between(tn__random *random, double least, double most) {
    return least + (most - least) * ldexp((double)(tn__random_next(random) >> 11), -53);
}

/* Real types: anything between; others: whole numbers between, 0 or 1 for bool. */
static inline kit_array number_array(tn__random *random, tn_dtype dtype, uint32_t rank,
                                     const int64_t *shape, double least, double most) {
    kit_array array = {.dtype = dtype, .rank = rank};
    if (rank > 0) memcpy(array.shape, shape, rank * sizeof *shape);
    array.data = kit_copy(NULL, kit_bytes(&array));
    if (dtype == TN_BOOL) least = 0, most = 2;
    if (number_is_unsigned(dtype) && least < 0) least = 0;
    for (uint64_t i = 0; i < kit_count(&array); i++) {
        double value = number_between(random, least, most);
        if (dtype == TN_BOOL)
            number_set(&array, i, value >= 1);
        else
            number_set(&array, i, number_is_real(dtype) ? value : floor(value));
    }
    return array;
}

/* A shape of up to 6 dimensions and some thousand elements; now and then empty. */
static inline uint32_t number_shape(tn__random *random, int64_t *shape) {
    uint32_t rank = (uint32_t)tn__random_below(random, 7);
    int64_t room = 4000;
    for (uint32_t d = 0; d < rank; d++) {
        uint64_t pick = tn__random_below(random, 40);
        int64_t most = pick < 6 ? 700 : 7;
        shape[d] = pick == 39 ? 0
                   : pick < 4 ? 1
                              : 1 + (int64_t)tn__random_below(random, (uint64_t)most);
        if (shape[d] > room) shape[d] = 1;
        if (shape[d] > 1) room /= shape[d];
    }
    return rank;
}

/* An operand that broadcasts to the shape: leading dimensions left out, some made 1. */
static inline uint32_t number_broadcast(tn__random *random, uint32_t rank, const int64_t *shape,
                                        int64_t *own) {
    uint32_t pattern = (uint32_t)tn__random_below(random, 4), cut = 0;
    if (pattern > 1 && rank > 0) cut = (uint32_t)tn__random_below(random, rank + 1);
    for (uint32_t d = cut; d < rank; d++) {
        bool one = pattern != 0 && tn__random_below(random, 2) != 0;
        own[d - cut] = one ? 1 : shape[d];
    }
    return rank - cut;
}

/* The element of a broadcast operand that goes with element `i` of the result. */
static inline uint64_t number_place(const kit_array *array, const kit_array *result, uint64_t i) {
    uint64_t at = 0, stride = 1;
    for (uint32_t d = result->rank; d-- > 0;) {
        uint64_t extent = (uint64_t)result->shape[d], place = i % extent;
        i /= extent;
        if (d + array->rank < result->rank) continue;
        uint64_t own = (uint64_t)array->shape[d + array->rank - result->rank];
        at += (own == 1 ? 0 : place) * stride;
        stride *= own;
    }
    return at;
}

static inline bool number_near(double got, double want, double relative, double absolute) {
    if (isnan(want)) return isnan(got);
    if (isinf(want) || got == want) return got == want;
    return fabs(got - want) <= relative * fabs(want) + absolute;
}

#endif
