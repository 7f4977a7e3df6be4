/* product.c - matrix products in plain loops.
 *
 * Integers are multiplied and added as unsigned numbers, which in two's complement gives the bits
 * of the signed result and wraps around without undefined behaviour. 16-bit floats are summed in
 * float32. The loops are compiled once for each width of vectors, because compilers generate slow
 * code for vectors that are wider than the machine's. The bits of the results are equal for all
 * widths.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/loops/product.h"

#define PRODUCT_SAME(value) (value)

/* Put before a short loop. The compiler must unroll this loop, so that its arrays stay in
 * registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define PRODUCT_UNROLL _Pragma("GCC unroll 4")
#else
#define PRODUCT_UNROLL
#endif

/* Multiplies a signed integer by a scale other than 1. The result is rounded towards zero and
 * saturates. */
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
