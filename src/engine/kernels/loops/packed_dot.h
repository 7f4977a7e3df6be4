/* packed_dot.h - dot products of a vector and rows of numbers of 4 or 8 bits, which stay packed in
 * memory.
 */
#ifndef TN_KERNELS_PACKED_DOT_H
#define TN_KERNELS_PACKED_DOT_H

#include "base/base.h"

/* A row of numbers of 4 or 8 bits, divided into blocks that have a scale and a zero point each. The
 * weight of number n is ((n ^ flip) - shift - zero) * scale: for unsigned numbers `flip` and
 * `shift` are 0; for numbers in two's complement they are 8, or 128 if they have 8 bits. */
typedef struct tn__packed_row {
    const uint8_t *bytes;
    const float *scales; /* [blocks] */
    const float *zeros;  /* [blocks]; NULL: all zero points are 0 */
    /* `blocks`: number of blocks; `block`: numbers in a block, a multiple of 2 * TN__DOT_BYTES and
     * at most TN__DOT_BLOCK */
    uint64_t blocks, block;
    uint32_t bits; /* 4 or 8 */
    uint8_t flip, shift;
} tn__packed_row;
#define TN__DOT_BYTES 16u
#define TN__DOT_BLOCK 1024u

/* Returns the dot product of a row and a vector x. For numbers of 4 bits, the elements of x must be
 * in the order that tn__packed_pair makes; for numbers of 8 bits in their own order. The bits of
 * the result are the same on all machines. */
float tn__packed_dot(const tn__packed_row *row, const float *x);
/* Reorders each block of a vector: first the elements at even positions, then those at odd
 * positions. This is the order of the low and high halves of the bytes of a tn__packed_row. The
 * last block is filled up with zeros. */
void tn__packed_pair(const float *x, uint64_t count, uint64_t block, float *to);

#endif
