/* operands.h - checks that kernels make before they use operands, and access to elements of real
 * types as doubles.
 *
 * Element types are known before the run, so `accepts` checks them once. Extents are checked during
 * the run. The graph's shape rules have already compared the extents on which the output's shape
 * depends; the functions here compare the others, for example the extent of a bias or of a scale
 * per channel.
 */
#ifndef TN_KERNELS_CHECK_H
#define TN_KERNELS_CHECK_H

#include "engine/kernels/kernel.h"

#define TN__TYPE(name) (UINT64_C(1) << TN_##name)
#define TN__TYPES_REAL                                                                             \
    (TN__TYPE(FLOAT32) | TN__TYPE(FLOAT64) | TN__TYPE(FLOAT16) | TN__TYPE(BFLOAT16))
/* Types for a kernel that accumulates sums in its output. 16-bit floats are excluded because small
 * summands would be lost; such operators run on float32 copies (wide.c). */
#define TN__TYPES_SUMMED (TN__TYPE(FLOAT32) | TN__TYPE(FLOAT64))
#define TN__TYPES_BYTE (TN__TYPE(INT8) | TN__TYPE(UINT8))
#define TN__TYPES_INDEX (TN__TYPE(INT32) | TN__TYPE(INT64))

/* The element type of input or output `index`; TN_UNDEFINED if it is omitted or does not exist. */
tn_dtype tn__input_type(const tn_kernel_setup *setup, uint32_t index);
tn_dtype tn__output_type(const tn_kernel_setup *setup, uint32_t index);
/* `is`: whether the operand exists and has one of the given types. `may_be`: whether it is missing
 * or has one of the given types. */
bool tn__input_is(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
bool tn__input_may_be(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
bool tn__output_is(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
bool tn__output_may_be(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
/* Whether output 0 exists and has one of `types`, and all operands in the bit sets `inputs` and
 * `outputs` that exist have its type. */
bool tn__types_agree(const tn_kernel_setup *setup, uint64_t types, uint64_t inputs,
                     uint64_t outputs);

/* Returns E_INVALID if input `index` exists and does not have `count` elements (tn__check_count) or
 * the given shape (tn__check_shape). */
tn_status tn__check_count(const tn_kernel_call *call, uint32_t index, uint64_t count);
tn_status tn__check_shape(const tn_kernel_call *call, uint32_t index, uint32_t rank,
                          const int64_t *shape);
/* Returns E_INVALID if output `index` exists and does not have this shape, which means that the
 * graph contradicts itself. */
tn_status tn__check_result(const tn_kernel_call *call, uint32_t index, uint32_t rank,
                           const int64_t *shape);
/* Returns E_INVALID if the workspace is smaller than `bytes`. This happens if extents exceed the
 * planned ones. */
tn_status tn__check_scratch(const tn_kernel_call *call, uint64_t bytes);
/* Reports that the shape of input `input` does not match the other operands. Returns E_INVALID. */
tn_status tn__call_bad_shape(const tn_kernel_call *call, uint32_t input);

/* Reads or writes elements as doubles, from element `at` on. `step`: distance between the elements
 * that are read. Types: real types, int8 and uint8. Stored values are rounded to the element type;
 * int8 and uint8 saturate. */
void tn__real_load(const tn_operand *operand, uint64_t at, uint64_t step, uint64_t count,
                   double *values);
void tn__real_store(const tn_operand *operand, uint64_t at, uint64_t count, const double *values);
static inline double tn__real_get(const tn_operand *operand, uint64_t at) {
    double value;
    tn__real_load(operand, at, 1, 1, &value);
    return value;
}
static inline void tn__real_set(const tn_operand *operand, uint64_t at, double value) {
    tn__real_store(operand, at, 1, &value);
}
#define TN__REAL_TILE 64u /* number of elements that most callers load at once */

#endif
