/* operands.h - checks of operands that kernels make before they use them, and elements of any real
 * type as doubles.
 *
 * Element types are static, so `accepts` checks them once. Extents are checked while the program
 * runs: the graph's rules have compared those that decide the output's shape; the others (a bias, a
 * scale per channel) are compared here.
 */
#ifndef TN_KERNELS_CHECK_H
#define TN_KERNELS_CHECK_H

#include "engine/kernels/kernel.h"

#define TN__TYPE(name) (UINT64_C(1) << TN_##name)
#define TN__TYPES_REAL                                                                             \
    (TN__TYPE(FLOAT32) | TN__TYPE(FLOAT64) | TN__TYPE(FLOAT16) | TN__TYPE(BFLOAT16))
/* For a kernel that sums in the memory of its result: 16 bits would lose summands (wide.c). */
#define TN__TYPES_SUMMED (TN__TYPE(FLOAT32) | TN__TYPE(FLOAT64))
#define TN__TYPES_BYTE (TN__TYPE(INT8) | TN__TYPE(UINT8))
#define TN__TYPES_INDEX (TN__TYPE(INT32) | TN__TYPE(INT64))

/* The element type of input or output `index`; UNDEFINED when it is omitted or absent. */
tn_dtype tn__input_type(const tn_kernel_setup *setup, uint32_t index);
tn_dtype tn__output_type(const tn_kernel_setup *setup, uint32_t index);
/* Whether input `index` is there with one of `types` / is, if it is there, of one of `types`. */
bool tn__input_is(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
bool tn__input_may_be(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
bool tn__output_is(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
bool tn__output_may_be(const tn_kernel_setup *setup, uint32_t index, uint64_t types);
/* Whether output 0 exists and has one of `types`, and the existing inputs and further outputs of
 * the bit sets have the same type. */
bool tn__types_agree(const tn_kernel_setup *setup, uint64_t types, uint64_t inputs,
                     uint64_t outputs);

/* E_INVALID unless input `index`, when there, has exactly `count` elements / this shape. */
tn_status tn__check_count(const tn_kernel_call *call, uint32_t index, uint64_t count);
tn_status tn__check_shape(const tn_kernel_call *call, uint32_t index, uint32_t rank,
                          const int64_t *shape);
/* E_INVALID unless an output that is there has this shape (a contradiction in the graph). */
tn_status tn__check_result(const tn_kernel_call *call, uint32_t index, uint32_t rank,
                           const int64_t *shape);
/* E_INVALID unless the workspace has this number of bytes (it does not if extents exceed the
 * plan). */
tn_status tn__check_scratch(const tn_kernel_call *call, uint64_t bytes);
/* E_INVALID: input `input` does not fit the others. */
tn_status tn__call_bad_shape(const tn_kernel_call *call, uint32_t input);

/* Elements as doubles, from element `at` on, `step` apart: real types, int8 and uint8. Stored
 * numbers are rounded, and saturate in bytes. */
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
#define TN__REAL_TILE 64u /* elements loaded at once, by default */

#endif
