/* packed_dot.c - dot products with packed rows of numbers of 4 or 8 bits.
 *
 * The halves of up to DOT_ROOM bytes, or up to 2 * DOT_ROOM bytes, are converted to floats in
 * arrays that stay in the processor's nearest cache; then each block is multiplied in DOT_LANES
 * lanes. The loops are compiled once for each width of vectors, because compilers generate slow
 * code for vectors that are wider than the machine's. The order of additions is the same for all
 * widths.
 */
#include "engine/kernels/loops/packed_dot.h"

#include "engine/kernels/convert.h"

enum { DOT_LANES = TN__DOT_BYTES, DOT_ROOM = TN__DOT_BLOCK / 2 };

#define DOT(name) dot_##name
#define DOT_VECTOR 16u
#define DOT_TARGET
#include "engine/kernels/loops/packed_dot_loops.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define DOT(name) dot_##name##_avx2
#define DOT_VECTOR 32u
#define DOT_TARGET __attribute__((target("avx2")))
#include "engine/kernels/loops/packed_dot_loops.h"

#define DOT(name) dot_##name##_avx512
#define DOT_VECTOR 64u
#define DOT_TARGET __attribute__((target("avx512f")))
#include "engine/kernels/loops/packed_dot_loops.h"

float tn__packed_dot(const tn__packed_row *row, const float *x) {
    if (TN_WIDEST >= 64 && __builtin_cpu_supports("avx512f")) return dot_row_avx512(row, x);
    return __builtin_cpu_supports("avx2") ? dot_row_avx2(row, x) : dot_row(row, x);
}
#else
float tn__packed_dot(const tn__packed_row *row, const float *x) { return dot_row(row, x); }
#endif

void tn__packed_pair(const float *x, uint64_t count, uint64_t block, float *to) {
    for (uint64_t first = 0; first < count; first += block, to += block)
        for (uint64_t i = 0; i < block; i++)
            to[i % 2 * (block / 2) + i / 2] = first + i < count ? x[first + i] : 0;
}
