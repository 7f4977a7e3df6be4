/* product.h - a product of matrices in plain loops, for the kernels that need one. */
#ifndef TN_KERNELS_PRODUCT_H
#define TN_KERNELS_PRODUCT_H

#include "engine/kernels/operands.h"

/* c = scale * a b + addend_scale * addend. Steps count elements. `c` may be the addend, element by
 * element, but must not meet `a` or `b`. */
typedef struct tn__product {
    uint64_t rows, columns, inner;
    const void *a, *b, *addend; /* addend NULL: none */
    void *c;
    uint64_t a_row, a_inner, b_inner, b_column, c_row;
    uint64_t addend_row, addend_column; /* 0: repeated */
    double scale, addend_scale;         /* 1: exact, for integers too */
} tn__product;

/* The element types it has: real ones and integers of 32 and 64 bits, which wrap around. */
#define TN__PRODUCT_TYPES (TN__TYPES_REAL | TN__TYPES_INDEX | TN__TYPE(UINT32) | TN__TYPE(UINT64))

void tn__product_run(const tn__product *product, tn_dtype dtype);

#endif
