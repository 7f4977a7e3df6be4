/* product.c - a product of matrices in plain loops.
 *
 * Integers are multiplied and added without sign, which in two's complement is the same and wraps
 * around. Half precision is summed up in float32. The loops are there for several widths of
 * vectors, as a compiler takes apart those that are wider than the machine's; the bits are the
 * same.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/loops/product.h"

#define PRODUCT_SAME(value) (value)

/* Before a loop of so few turns that its arrays are to be registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define PRODUCT_UNROLL _Pragma("GCC unroll 4")
#else
#define PRODUCT_UNROLL
#endif

/* Multiplies an integer by a scale other than 1: towards zero, saturating, as a signed number. */
static int64_t product_scaled(double scale, int64_t value) {
    double scaled = scale * (double)value;
    return scaled >= 0x1p63 ? INT64_MAX : scaled > -0x1p63 ? (int64_t)scaled : INT64_MIN;
}

#define PRODUCT_VECTOR 16u
#define PRODUCT_TARGET
#define PRODUCT_AS(type, name) product_##type##_##name
#include "engine/kernels/loops/product_types.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define PRODUCT_VECTOR 32u
#define PRODUCT_TARGET __attribute__((target("avx2")))
#define PRODUCT_AS(type, name) product_##type##_##name##_avx2
#include "engine/kernels/loops/product_types.h"

#define PRODUCT_VECTOR 64u
#define PRODUCT_TARGET __attribute__((target("avx512f")))
#define PRODUCT_AS(type, name) product_##type##_##name##_avx512
#include "engine/kernels/loops/product_types.h"

void tn__product_run(const tn__product *product, tn_dtype dtype) {
    if (TN_WIDEST >= 64 && __builtin_cpu_supports("avx512f"))
        product_any_run_avx512(product, dtype);
    else if (__builtin_cpu_supports("avx2"))
        product_any_run_avx2(product, dtype);
    else
        product_any_run(product, dtype);
}
#else
void tn__product_run(const tn__product *product, tn_dtype dtype) {
    product_any_run(product, dtype);
}
#endif
