/* expand.h - packed whole numbers of one scale as float32, for kernels that read quantised weights
 * where they are stored. */
#ifndef TN_KERNELS_EXPAND_H
#define TN_KERNELS_EXPAND_H

#include "base/base.h"

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
