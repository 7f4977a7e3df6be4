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

/* float16, bfloat16, float32 or float64: values of these types are folded as double */
bool tn__is_float(tn_dtype dtype);
/* integers and bool: values of these types are folded as int64 */
bool tn__is_integer(tn_dtype dtype);
int64_t tn__wrap(tn_dtype dtype, int64_t value);
double tn__round(tn_dtype dtype, double value);

/* The number of elements of output `index`, if its values may be computed, that is, its shape is
 * exact and small; otherwise TN_NONE. */
uint32_t tn__fold_count(const tn_infer *infer, uint32_t index);

/* Sets output 0 by applying a function to every element of input 0; a function is NULL if no
 * function applies to that class of types. */
tn_status tn__fold_unary(tn_infer *infer, double (*of_float)(double), int64_t (*of_int)(int64_t));

/* Sets the values of output 0 to those of input 0 in the same order, for operators such as
 * Reshape. */
tn_status tn__fold_same(tn_infer *infer);

/* Sets element i of an output to element pick[i] of `value`. */
tn_status tn__fold_pick(tn_infer *infer, uint32_t output, const tn_value *value,
                        const uint32_t *pick, uint32_t count);

/* Finds, for every element of output 0, the element of input `index` that numpy's broadcasting puts
 * there. The list is scratch memory. *spread is NULL if the shapes do not broadcast (operators
 * before opset 7). */
tn_status tn__fold_spread(tn_infer *infer, uint32_t index, uint32_t count, uint32_t **spread);

/* Reads a list of integers that is input `index` in newer operator sets and attribute `name` in
 * older ones. Returns false if the list is present but its values are unknown. *list is NULL if the
 * list is absent. */
bool tn__list(const tn_infer *infer, uint32_t index, const char *name, const int64_t **list,
              uint32_t *count);

/* The number of elements of a list input (a shape, pads), taken from the shape of the list itself;
 * TN_NONE: not known, or above TN_RANK_MAX. */
uint32_t tn__list_length(const tn_tensor *tensor);

/* Reads an attribute that holds ONNX's number of an element type; an absent one is `otherwise`.
 * Errors: E_INVALID if there is no such type. */
tn_status tn__attr_dtype(tn_infer *infer, const char *name, tn_dtype otherwise, tn_dtype *dtype);

/* TN_RANK_MAX unknown extents, for outputs of which only the rank is known. */
extern const int64_t tn__unknown_extents[TN_RANK_MAX];

/* Returns the view of input `index` that begins at `offset`. */
tn_view tn__view_input(const tn_infer *infer, uint32_t index, uint64_t offset);
extern const tn_view tn__no_view;

/* Sets the shape of a Gather: the shape of input 0 with the axis of attribute `axis` replaced by
 * the shape of input 1. */
tn_status tn__gather_shape(tn_infer *infer);

/* The in-place rule of element-wise operators with broadcasting, for the inputs in `mask`. If an
 * extent is an upper bound, equal bounds do not prove equal shapes. Then an input may be
 * overwritten only if all other inputs are single elements. */
uint64_t tn__inplace_broadcast(const tn_infer *infer, uint64_t mask);

/* --- extents, and shape rules of operators of several domains -------------------------------- */

/* Returns the extent along an axis; a negative axis counts from the end. TN_DIM_UNKNOWN for an
 * unknown rank or extent, for an omitted tensor, and for an axis outside the rank. */
int64_t tn__extent(const tn_tensor *tensor, int32_t axis);

/* Sum, product and exact quotient of two extents. The result is TN_DIM_UNKNOWN if an operand is
 * unknown or the result is outside of int64; the quotient also if the divisor is below 1 or the
 * division leaves a remainder. */
int64_t tn__extent_add(int64_t a, int64_t b);
int64_t tn__extent_mul(int64_t a, int64_t b);
int64_t tn__extent_div(int64_t a, int64_t b);
/* ceil(a / b); TN_DIM_UNKNOWN if an operand is unknown, a is negative or b is below 1. */
int64_t tn__extent_div_up(int64_t a, int64_t b);
/* Returns the first extent if it is known, otherwise the second. */
static inline int64_t tn__extent_or(int64_t a, int64_t b) { return a != TN_DIM_UNKNOWN ? a : b; }

/* Checks that two extents of inputs agree. Errors: E_INVALID if both are known, exact and
 * different. Axes are counted as by tn__extent; an omitted tensor agrees with everything. */
tn_status tn__extents_agree(tn_infer *infer, uint32_t a, int32_t axis_a, uint32_t b,
                            int32_t axis_b);
/* Checks the rank of input `input`: E_INVALID unless it is from `least` to `most`, unknown, or the
 * input is omitted. */
tn_status tn__rank_between(tn_infer *infer, uint32_t input, uint32_t least, uint32_t most);
/* Reads an attribute that is a count; the default is `otherwise`. Errors: E_INVALID if it is
 * outside [least, most]. */
tn_status tn__attr_count(tn_infer *infer, const char *name, int64_t otherwise, int64_t least,
                         int64_t most, int64_t *value);

/* Gives output `output` the shape of input `input` and element type `dtype`. */
tn_status tn__shape_as(tn_infer *infer, uint32_t output, uint32_t input, tn_dtype dtype);
/* Gives output 0 the type and shape of input 0. */
tn_status tn__shape_first(tn_infer *infer);
/* Operations of a mixture of experts. Its input 2 has the first weights of all experts. */
uint64_t tn__flops_experts(tn_infer *infer);
/* Sets output 0 to the shape of the product of two inputs, as numpy.matmul defines it
 * (matmul.c). */
tn_status tn__shape_matmul(tn_infer *infer, uint32_t left, uint32_t right, tn_dtype dtype);
/* Sets output 0 to the shape of the product of two tensors that need not be inputs, such as a
 * transposed operand. */
tn_status tn__shape_product(tn_infer *infer, const tn_tensor *a, const tn_tensor *b,
                            tn_dtype dtype);
/* Sets output 0 to the shape of a convolution of input `data` with input `weights` (conv.c). */
tn_status tn__shape_conv(tn_infer *infer, uint32_t data, uint32_t weights, tn_dtype dtype);
/* Sets output 0 to the shape and type of input 0 after quantisation or dequantisation, as ONNX's
 * QuantizeLinear and DequantizeLinear define it (quant.c). */
tn_status tn__shape_quantize(tn_infer *infer);
tn_status tn__shape_dequantize(tn_infer *infer);

/* The end of a Slice as ONNX Runtime reads it. With a negative step, INT32_MAX and INT64_MAX mean
 * "to the front", although the standard's text clamps them like any other number. */
static inline int64_t tn__slice_end(int64_t end, int64_t step) {
    return step < 0 && (end == INT32_MAX || end == INT64_MAX) ? INT64_MIN : end;
}

#endif
