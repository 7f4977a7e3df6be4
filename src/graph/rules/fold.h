/* fold.h - arithmetic on folded values with the run time's exact results, arithmetic of extents
 * that may be unknown, and functions and shape rules that families share.
 *
 * Integers are kept as int64 and wrapped to their type after each operation (uint64 as the same 64
 * bits); floating types are kept as double and rounded to their type. Rounding a double result once
 * is the correctly rounded result for + - * / and sqrt of float32 and narrower, as double has more
 * than twice their digits (S. Figueroa, When is double rounding innocuous?, SIGNUM 30(3), 1995).
 */
#ifndef TN_RULES_FOLD_H
#define TN_RULES_FOLD_H

#include "graph/op.h"

bool tn__is_float(tn_dtype dtype);   /* float16, bfloat16, float32, float64: folded as double */
bool tn__is_integer(tn_dtype dtype); /* integers and bool: folded as int64 */
int64_t tn__wrap(tn_dtype dtype, int64_t value);
double tn__round(tn_dtype dtype, double value);

/* Elements of output `index` when its contents may be followed, else TN_NONE: the shape is exact
 * and small. */
uint32_t tn__fold_count(const tn_infer *infer, uint32_t index);

/* Sets output 0 by applying a function to every element of input 0; a function is NULL if that
 * class of types has none. */
tn_status tn__fold_unary(tn_infer *infer, double (*of_float)(double), int64_t (*of_int)(int64_t));

/* Output 0 has the contents of input 0, in the same order (Reshape and its like). */
tn_status tn__fold_same(tn_infer *infer);

/* Output element i is value element pick[i]. */
tn_status tn__fold_pick(tn_infer *infer, uint32_t output, const tn_value *value,
                        const uint32_t *pick, uint32_t count);

/* For every element of output 0, the element of input `index` that numpy broadcasting puts there;
 * in scratch. *spread is NULL when the shapes do not broadcast so (operators before opset 7). */
tn_status tn__fold_spread(tn_infer *infer, uint32_t index, uint32_t count, uint32_t **spread);

/* A list of integers that is input `index` in newer operator sets and attribute `name` in older
 * ones. False: given, but its contents are not known. *list NULL: not given at all. */
bool tn__list(const tn_infer *infer, uint32_t index, const char *name, const int64_t **list,
              uint32_t *count);

/* The number of elements of a list input (a shape, pads), from its own shape; TN_NONE: not known.
 */
uint32_t tn__list_length(const tn_tensor *tensor);

/* An attribute that holds an ONNX element type. Errors: E_INVALID when there is no such type. */
tn_status tn__attr_dtype(tn_infer *infer, const char *name, tn_dtype otherwise, tn_dtype *dtype);

/* TN_RANK_MAX extents that are not known: for outputs of which the rank alone is. */
extern const int64_t tn__unknown_extents[TN_RANK_MAX];

/* The view that is all of input `index`. */
tn_view tn__view_input(const tn_infer *infer, uint32_t index, uint64_t offset);
extern const tn_view tn__no_view;

/* The shape of Gather: input 0 with the axis of attribute `axis` exchanged for those of input 1. */
tn_status tn__gather_shape(tn_infer *infer);

/* In-place rule of element-wise operators with broadcasting, for the inputs of `mask`: with upper
 * bounds about, equal bounds do not prove equal shapes, so only one such input may be written. */
uint64_t tn__inplace_broadcast(const tn_infer *infer, uint64_t mask);

/* --- extents, and shape rules of operators of several domains -------------------------------- */

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
