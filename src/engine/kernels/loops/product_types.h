/* product_types.h - instantiates the loops of product_loops.h for each element type, for one width
 * of vectors. product.c includes this file once per width, after it has defined PRODUCT_VECTOR
 * (bytes of a vector), PRODUCT_TARGET (the function attribute that enables these vectors) and
 * PRODUCT_AS(type, name) (which makes the names of the functions). */
#define PRODUCT(name) PRODUCT_AS(float, name)
#define PRODUCT_TYPE float
#define PRODUCT_SUM float
#define PRODUCT_PLAIN 1
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((float)(scale) * (value))
#include "engine/kernels/loops/product_loops.h"
#include <tenure/graph.h>

#define PRODUCT(name) PRODUCT_AS(double, name)
#define PRODUCT_TYPE double
#define PRODUCT_SUM double
#define PRODUCT_PLAIN 1
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((scale) * (value))
#include "engine/kernels/loops/product_loops.h"

#define PRODUCT(name) PRODUCT_AS(half, name)
#define PRODUCT_TYPE uint16_t
#define PRODUCT_SUM float
#define PRODUCT_PLAIN 0
#define PRODUCT_READ tn__half_to_float
#define PRODUCT_WRITE tn__float_to_half
#define PRODUCT_SCALE(scale, value) ((float)(scale) * (value))
#include "engine/kernels/loops/product_loops.h"

#define PRODUCT(name) PRODUCT_AS(bfloat, name)
#define PRODUCT_TYPE uint16_t
#define PRODUCT_SUM float
#define PRODUCT_PLAIN 0
#define PRODUCT_READ tn__bfloat_to_float
#define PRODUCT_WRITE tn__float_to_bfloat
#define PRODUCT_SCALE(scale, value) ((float)(scale) * (value))
#include "engine/kernels/loops/product_loops.h"

#define PRODUCT(name) PRODUCT_AS(int32, name)
#define PRODUCT_TYPE uint32_t
#define PRODUCT_SUM uint32_t
#define PRODUCT_PLAIN 1
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((uint32_t)product_scaled(scale, (int32_t)(value)))
#include "engine/kernels/loops/product_loops.h"

#define PRODUCT(name) PRODUCT_AS(int64, name)
#define PRODUCT_TYPE uint64_t
#define PRODUCT_SUM uint64_t
#define PRODUCT_PLAIN 1
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((uint64_t)product_scaled(scale, (int64_t)(value)))
#include "engine/kernels/loops/product_loops.h"

static void PRODUCT_AS(any, run)(const tn__product *product, tn_dtype dtype) {
    switch (dtype) {
    case TN_FLOAT32:
        PRODUCT_AS(float, run)(product);
        break;
    case TN_FLOAT64:
        PRODUCT_AS(double, run)(product);
        break;
    case TN_FLOAT16:
        PRODUCT_AS(half, run)(product);
        break;
    case TN_BFLOAT16:
        PRODUCT_AS(bfloat, run)(product);
        break;
    case TN_INT32:
    case TN_UINT32:
        PRODUCT_AS(int32, run)(product);
        break;
    case TN_INT64:
    case TN_UINT64:
        PRODUCT_AS(int64, run)(product);
        break;
    default:
        break;
    }
}

#undef PRODUCT_AS
#undef PRODUCT_VECTOR
#undef PRODUCT_TARGET
