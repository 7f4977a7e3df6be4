/* extents.h - arithmetic of extents that may be unknown, and the shape rules that operators of
 * several domains share. */
#ifndef TN_GRAPH_EXTENTS_H
#define TN_GRAPH_EXTENTS_H

#include "graph/op.h"

/* The extent along an axis; a negative axis counts from the end. TN_DIM_UNKNOWN for an unknown rank
 * or extent, for an omitted tensor, and for an axis outside the rank. */
int64_t tn__extent(const tn_tensor *tensor, int32_t axis);

/* Sum, product and exact quotient; TN_DIM_UNKNOWN when an operand is unknown or the result does not
 * fit. The quotient is TN_DIM_UNKNOWN as well for a divisor below 1. */
int64_t tn__extent_add(int64_t a, int64_t b);
int64_t tn__extent_mul(int64_t a, int64_t b);
int64_t tn__extent_div(int64_t a, int64_t b);
/* ceil(a / b); TN_DIM_UNKNOWN for a divisor below 1. */
int64_t tn__extent_div_up(int64_t a, int64_t b);
/* The first of two extents that is known. */
static inline int64_t tn__extent_or(int64_t a, int64_t b) { return a != TN_DIM_UNKNOWN ? a : b; }

/* E_INVALID when both extents are known, exact and different. Axes as in tn__extent; an omitted
 * tensor agrees with everything. */
tn_status tn__extents_agree(tn_infer *infer, uint32_t a, int32_t axis_a, uint32_t b,
                            int32_t axis_b);
/* E_INVALID unless input `input` is omitted, has an unknown rank, or a rank from `least` to `most`.
 */
tn_status tn__rank_between(tn_infer *infer, uint32_t input, uint32_t least, uint32_t most);
/* An attribute that counts something: `otherwise` when it is absent.
 * Errors: E_INVALID outside [least, most]. */
tn_status tn__attr_count(tn_infer *infer, const char *name, int64_t otherwise, int64_t least,
                         int64_t most, int64_t *value);

/* Output `output` has the shape of input `input`, and element type `dtype`. */
tn_status tn__shape_as(tn_infer *infer, uint32_t output, uint32_t input, tn_dtype dtype);
/* Output 0 = input 0. */
tn_status tn__shape_first(tn_infer *infer);
/* Output 0 is the product of two inputs as numpy.matmul defines it (matmul.c). */
tn_status tn__shape_matmul(tn_infer *infer, uint32_t left, uint32_t right, tn_dtype dtype);
/* The same of two tensors that need not be inputs: a transposed operand. */
tn_status tn__shape_product(tn_infer *infer, const tn_tensor *a, const tn_tensor *b,
                            tn_dtype dtype);
/* Output 0 is a convolution of input `data` with input `weights` (conv.c). */
tn_status tn__shape_conv(tn_infer *infer, uint32_t data, uint32_t weights, tn_dtype dtype);
/* Output 0 is input 0 quantised or dequantised, as ONNX's QuantizeLinear and DequantizeLinear
 * (quant.c). */
tn_status tn__shape_quantize(tn_infer *infer);
tn_status tn__shape_dequantize(tn_infer *infer);

/* The end of a Slice as ONNX Runtime reads it: with a negative step INT32_MAX and INT64_MAX stand
 * for "to the front", though the text of the standard clamps them like any number. */
static inline int64_t tn__slice_end(int64_t end, int64_t step) {
    return step < 0 && (end == INT32_MAX || end == INT64_MAX) ? INT64_MIN : end;
}

#endif
