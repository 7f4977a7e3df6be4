/* packed_dot.h - dot products of a vector and rows of 4-bit numbers, which stay packed in memory.
 */
#ifndef TN_KERNELS_PACKED_DOT_H
#define TN_KERNELS_PACKED_DOT_H

#include "base/base.h"

/* A row of unsigned 4-bit numbers, divided into blocks that have a scale and a zero point each. */
typedef struct tn__packed_row {
    const uint8_t *bytes;
    const float *scales; /* [blocks] */
    const float *zeros;  /* [blocks]; NULL: all zero points are 8 */
    /* `blocks`: number of blocks; `block`: numbers in a block, a multiple of 2 * TN__DOT_BYTES and
     * at most TN__DOT_BLOCK */
    uint64_t blocks, block;
} tn__packed_row;
#define TN__DOT_BYTES 16u
#define TN__DOT_BLOCK 1024u

/* Returns the dot product of a row and a vector x. The elements of x must be in the order that
 * tn__packed_pair makes. The bits of the result are the same on all machines. */
float tn__packed_dot(const tn__packed_row *row, const float *x);
/* Reorders each block of a vector: first the elements at even positions, then those at odd
 * positions. This is the order of the low and high halves of the bytes of a tn__packed_row. The
 * last block is filled up with zeros. */
void tn__packed_pair(const float *x, uint64_t count, uint64_t block, float *to);

#endif
