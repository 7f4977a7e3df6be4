/* fold.h - arithmetic on folded values with the run time's exact results, and a few reading
 * functions that families share.
 *
 * Integers are kept as int64 and wrapped to their type after each operation (uint64 as the same 64
 * bits); floating types are kept as double and rounded to their type. Rounding a double result once
 * is the correctly rounded result for + - * / and sqrt of float32 and narrower, as double has more
 * than twice their digits (S. Figueroa, When is double rounding innocuous?, SIGNUM 30(3), 1995).
 */
#ifndef TN_GRAPH_FOLD_H
#define TN_GRAPH_FOLD_H

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

#endif
