/* small_types.h - elements of 8 bits and fewer that C has no type for: the float8 types,
 * float4e2m1, and integers of 4 and 2 bits. */
#ifndef TN_KERNELS_SMALL_TYPES_H
#define TN_KERNELS_SMALL_TYPES_H

#include <tenure/graph.h>

#include "base/base.h"

typedef enum tn__small_round {
    TN__SMALL_UP,     /* to the next larger power of two */
    TN__SMALL_DOWN,   /* to the next smaller power of two */
    TN__SMALL_NEAREST /* to the nearest power of two, ties up */
} tn__small_round;

typedef struct tn__small_options {
    bool saturate; /* whether a number that is too large becomes the largest one of the type */
    tn__small_round round; /* for float8e8m0 only; the other types round to nearest, ties to even */
} tn__small_options;

/* Whether the type is one of float8, float4e2m1, or an integer of 4 or 2 bits. */
bool tn__is_small(tn_dtype dtype);
/* Whether the type is one of float8 or float4e2m1. */
bool tn__is_small_float(tn_dtype dtype);

/* Returns the number with a code of a small type. */
double tn__small_value(tn_dtype dtype, uint32_t code);
/* Returns the code of element `at` of a plain array of a small type. */
uint32_t tn__small_code(tn_dtype dtype, const void *array, uint64_t at);
/* Returns the code of the element of a small floating type that a number is rounded to, by the
 * tables of ONNX's Cast. float8e8m0 has no sign: the magnitude of the number counts. float4e2m1 has
 * no NaN and gives -0 instead. */
uint32_t tn__small_round_to(tn_dtype dtype, double value, tn__small_options options);

#endif
