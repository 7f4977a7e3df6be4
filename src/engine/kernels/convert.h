/* convert.h - converts arrays of numbers from one element type to another.
 *
 * The operator Cast is exactly such a conversion. Other kernels compute in float32, float64, int64
 * or uint64 only, and convert blocks of other types when they read and write.
 *
 * To an integer type: rounds towards zero. A result that fits 64 bits wraps to the width of the
 * type; a larger one becomes the nearest number of the type; NaN becomes 0. To bool: 0 is false,
 * everything else true. To a floating-point type: rounds once, to nearest even; overflow becomes
 * infinity.
 */
#ifndef TN_KERNELS_CONVERT_H
#define TN_KERNELS_CONVERT_H

#include "engine/kernels/kernel.h"
#include "base/base.h"
#include "graph/element.h"

/* Put before a loop. States that operands of the loop are either identical or do not overlap, which
 * allows gcc to vectorise the loop without checks for overlap. */
#if defined(__GNUC__) && !defined(__clang__)
#define TN_APART _Pragma("GCC ivdep")
#else
#define TN_APART
#endif

/* Bytes of the widest vectors. A build may define 32 to measure the performance of machines without
 * AVX-512. */
#ifndef TN_WIDEST
#define TN_WIDEST 64
#endif

/* Marks a function that is compiled several times, for different vector widths; the dynamic loader
 * chooses the version for the machine. All versions compute the same bits, because no operations
 * are fused. Not used with sanitizers, which are not initialised yet when the choice is made. */
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

/* Number of elements that are converted or repeated at a time: at most 4 KiB per operand. */
#define TN__BLOCK 512u
typedef union tn__block_room {
    float floats[TN__BLOCK];
    double doubles[TN__BLOCK];
    int64_t ints[TN__BLOCK];
    uint8_t bytes[8 * TN__BLOCK];
} tn__block_room;

/* Whether the type is an integer of 8 to 64 bits, bool, float16, bfloat16, float32 or float64. */
bool tn__is_numeric(tn_dtype dtype);
static inline size_t tn__element_size(tn_dtype dtype) { return tn_dtype_bits(dtype) / 8; }

/* Converts `count` elements. Both types must be numeric (tn__is_numeric). `to` may be equal to
 * `from` if both types have the same width. */
void tn__convert(tn_dtype from_type, const void *from, tn_dtype to_type, void *to, uint64_t count);

/* Returns `count` elements in the type `wanted`, which is float32, float64, int64 or uint64: `from`
 * itself if it has this type already, else a converted copy in `room`. `count` is at most
 * TN__BLOCK. */
const void *tn__convert_block(tn_dtype from_type, const void *from, tn_dtype wanted,
                              tn__block_room *room, size_t count);

/* The type in which kernels compute with elements of `dtype`: float32 for float32 and 16-bit
 * floats, float64 for float64, uint64 for uint64, and int64 for other integers and bool. */
tn_dtype tn__computed_type(tn_dtype dtype);

/* Fails with E_INVALID unless output 0 has `count` elements of type `dtype`. The check is needed
 * because an extent that the shape rule could not determine may have any value. */
tn_status tn__call_expect(const tn_kernel_call *call, tn_dtype dtype, uint64_t count);

/* Whether output 0 exists, and it and all inputs are numeric and have their elements in C order. A
 * function for tn_kernel.accepts. */
bool tn__numeric_accepts(const tn_kernel_setup *setup);

/* --- packed integers with one scale, for kernels that read quantised weights as they are stored
 * --- */

/* Returns element `at` of an array of 2-, 4- or 8-bit integers; the first element of a byte is in
 * its lowest bits. */
int32_t tn__packed_number(const uint8_t *bytes, uint64_t at, uint32_t bits, bool is_signed);
/* Computes to[i] = (element `at` + i of the array - zero) * scale for `count` elements of `bits`
 * bits. */
void tn__packed_expand(const uint8_t *bytes, uint64_t at, uint64_t count, uint32_t bits,
                       bool is_signed, float scale, float zero, float *to);

/* A row of unsigned 4-bit numbers, divided into blocks that have a scale and a zero point each. */
typedef struct tn__packed_row {
    const uint8_t *bytes;
    const float *scales, *zeros; /* [blocks] scale and zero point of each block */
    /* `blocks`: number of blocks; `block`: numbers in a block, a multiple of 2 * TN__DOT_BYTES */
    uint64_t blocks, block;
} tn__packed_row;
#define TN__DOT_BYTES 16u

/* Returns the dot product of a row and a vector x, without storing the row's numbers as floats. The
 * elements of x must be in the order that tn__packed_pair makes. */
float tn__packed_dot(const tn__packed_row *row, const float *x);
/* Reorders each block of a vector: first the elements at even positions, then those at odd
 * positions. This is the order of the low and high halves of the bytes of a tn__packed_row. The
 * last block is filled up with zeros. */
void tn__packed_pair(const float *x, uint64_t count, uint64_t block, float *to);

#endif
