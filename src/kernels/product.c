/* product.c - a product of matrices in plain loops.
 *
 * Integers are multiplied and added without sign, which in two's complement is the same and wraps
 * around. Half precision is summed up in float32.
 */
#include "kernels/convert.h"
#include "kernels/product.h"

#define PRODUCT_SAME(value) (value)

#define PRODUCT(name) product_float_##name
#define PRODUCT_TYPE float
#define PRODUCT_SUM float
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((float)(scale) * (value))
#include "kernels/product_loops.h"

#define PRODUCT(name) product_double_##name
#define PRODUCT_TYPE double
#define PRODUCT_SUM double
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((scale) * (value))
#include "kernels/product_loops.h"

#define PRODUCT(name) product_half_##name
#define PRODUCT_TYPE uint16_t
#define PRODUCT_SUM float
#define PRODUCT_READ tn__half_to_float
#define PRODUCT_WRITE tn__float_to_half
#define PRODUCT_SCALE(scale, value) ((float)(scale) * (value))
#include "kernels/product_loops.h"

#define PRODUCT(name) product_bfloat_##name
#define PRODUCT_TYPE uint16_t
#define PRODUCT_SUM float
#define PRODUCT_READ tn__bfloat_to_float
#define PRODUCT_WRITE tn__float_to_bfloat
#define PRODUCT_SCALE(scale, value) ((float)(scale) * (value))
#include "kernels/product_loops.h"

/* What a scale that is no 1 makes of an integer: towards zero, saturating, as a signed number. */
static int64_t product_scaled(double scale, int64_t value) {
    double scaled = scale * (double)value;
    return scaled >= 0x1p63 ? INT64_MAX : scaled > -0x1p63 ? (int64_t)scaled : INT64_MIN;
}

#define PRODUCT(name) product_int32_##name
#define PRODUCT_TYPE uint32_t
#define PRODUCT_SUM uint32_t
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((uint32_t)product_scaled(scale, (int32_t)(value)))
#include "kernels/product_loops.h"

#define PRODUCT(name) product_int64_##name
#define PRODUCT_TYPE uint64_t
#define PRODUCT_SUM uint64_t
#define PRODUCT_READ PRODUCT_SAME
#define PRODUCT_WRITE PRODUCT_SAME
#define PRODUCT_SCALE(scale, value) ((uint64_t)product_scaled(scale, (int64_t)(value)))
#include "kernels/product_loops.h"

void tn__product_run(const tn__product *product, tn_dtype dtype) {
    switch (dtype) {
    case TN_FLOAT32:
        product_float_run(product);
        break;
    case TN_FLOAT64:
        product_double_run(product);
        break;
    case TN_FLOAT16:
        product_half_run(product);
        break;
    case TN_BFLOAT16:
        product_bfloat_run(product);
        break;
    case TN_INT32:
    case TN_UINT32:
        product_int32_run(product);
        break;
    case TN_INT64:
    case TN_UINT64:
        product_int64_run(product);
        break;
    default:
        break;
    }
}
