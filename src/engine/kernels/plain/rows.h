/* rows.h - functions of plain kernels on one row, for kernels that do more. */
#ifndef TN_KERNELS_PLAIN_ROWS_H
#define TN_KERNELS_PLAIN_ROWS_H

#include <stdint.h>

/* As Softmax computes a row of float32; y may be x. */
void tn__softmax_floats(uint64_t extent, const float *x, float *y);

#endif
