/* product.h - matrix products in plain loops, for all kernels that contain a matrix product. */
#ifndef TN_KERNELS_PRODUCT_H
#define TN_KERNELS_PRODUCT_H

#include "engine/kernels/operands.h"

/* A matrix product: c = scale * (a b) + addend_scale * addend. All strides are in elements. `c` may
 * have the address and strides of the addend, but must not overlap `a` or `b`. */
typedef struct tn__product {
    uint64_t rows, columns, inner;
    /* the two factors, and an addend for the product; addend NULL: none */
    const void *a, *b, *addend;
    void *c;
    uint64_t a_row, a_inner, b_inner, b_column, c_row;
    uint64_t addend_row, addend_column; /* a stride of 0 broadcasts the addend */
    double scale, addend_scale;         /* with a scale of 1 the result is exact for integers too */
} tn__product;

/* The supported element types: real types and integers of 32 and 64 bits, which wrap around. */
#define TN__PRODUCT_TYPES (TN__TYPES_REAL | TN__TYPES_INDEX | TN__TYPE(UINT32) | TN__TYPE(UINT64))

void tn__product_run(const tn__product *product, tn_dtype dtype);

#endif
