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

#endif
