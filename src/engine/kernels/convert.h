/* convert.h - converts arrays of numbers from one element type to another.
 *
 * Cast is just this conversion; other kernels compute in few types (float32, float64, int64,
 * uint64) and convert blocks of other types on input and output.
 *
 * To an integer: rounds towards zero. A result that fits 64 bits wraps to the width, like integers;
 * a larger one becomes the nearest number of the type; NaN becomes 0. To bool: 0 is false, all else
 * true. To a floating type: one rounding, to nearest even; overflow becomes infinity.
 */
#ifndef TN_KERNELS_CONVERT_H
#define TN_KERNELS_CONVERT_H

#include "engine/kernels/kernel.h"
#include "base/base.h"
#include "graph/element.h"

/* Put before a loop with operands that are the same memory or do not overlap, so that gcc need not
 * check for overlap. */
#if defined(__GNUC__) && !defined(__clang__)
#define TN_APART _Pragma("GCC ivdep")
#else
#define TN_APART
#endif

/* Bytes of the widest vectors; a build may set 32, to measure machines without AVX-512. */
#ifndef TN_WIDEST
#define TN_WIDEST 64
#endif

/* A loop that is also compiled for wider vectors; the version is chosen when the program is loaded.
 * Each operation is rounded separately, so the bits are the same. Sanitizers cannot run before that
 * choice. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && !defined(__clang__) &&  \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if TN_WIDEST >= 64
#define TN_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TN_WIDE __attribute__((target_clones("avx2", "default")))
#endif
#else
#define TN_WIDE
#endif

/* Elements handled at a time, where operands need converting or repeating: some 4 KiB each. */
#define TN__BLOCK 512u
typedef union tn__block_room {
    float floats[TN__BLOCK];
    double doubles[TN__BLOCK];
    int64_t ints[TN__BLOCK];
    uint8_t bytes[8 * TN__BLOCK];
} tn__block_room;

/* Integers of 8 to 64 bits, bool, float16, bfloat16, float32, float64. */
bool tn__is_numeric(tn_dtype dtype);
static inline size_t tn__element_size(tn_dtype dtype) { return tn_dtype_bits(dtype) / 8; }

/* Both types are numbers; `to` may be `from`, when the widths are equal. */
void tn__convert(tn_dtype from_type, const void *from, tn_dtype to_type, void *to, uint64_t count);

/* `count` <= TN__BLOCK elements as `wanted`, one of the four types: `from` itself when it is that
 * already, else converted into `room`. */
const void *tn__convert_block(tn_dtype from_type, const void *from, tn_dtype wanted,
                              tn__block_room *room, size_t count);

/* The type to compute in: float32 for the short floats, float64, int64; uint64 for itself. */
tn_dtype tn__computed_type(tn_dtype dtype);

/* E_INVALID unless output 0 has `count` elements of type `dtype`. Shapes come from rules, but
 * extents that rules leave open may have any value. */
tn_status tn__call_expect(const tn_kernel_call *call, tn_dtype dtype, uint64_t count);

/* Whether all operands are numbers in plain order. For `accepts`. */
bool tn__numeric_accepts(const tn_kernel_setup *setup);

/* --- packed whole numbers of one scale, for kernels that read quantised weights where they are
 * stored --- */

/* Element `at` of numbers of 2, 4 or 8 bits, the lowest bits first. */
int32_t tn__packed_number(const uint8_t *bytes, uint64_t at, uint32_t bits, bool is_signed);
/* to[i] = (number `at` + i - zero) * scale, for `count` numbers. */
void tn__packed_expand(const uint8_t *bytes, uint64_t at, uint64_t count, uint32_t bits,
                       bool is_signed, float scale, float zero, float *to);

/* A row of 4-bit codes without sign, in blocks with a scale and a zero point each. */
typedef struct tn__packed_row {
    const uint8_t *bytes;
    const float *scales, *zeros; /* [blocks] */
    uint64_t blocks, block;      /* codes of a block: a multiple of 2 TN__DOT_BYTES */
} tn__packed_row;
#define TN__DOT_BYTES 16u

/* The dot product of the row with numbers in the order of tn__packed_pair, without expanding it. */
float tn__packed_dot(const tn__packed_row *row, const float *x);
/* Sorts each block of numbers into those at even places and those at odd ones, as the low and the
 * high halves of bytes are; the last block is filled with zeros. */
void tn__packed_pair(const float *x, uint64_t count, uint64_t block, float *to);

#endif
