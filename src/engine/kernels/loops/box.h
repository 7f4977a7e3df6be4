/* box.h - copies of multi-dimensional arrays with strides, shared by the kernels of Slice,
 * Transpose, Gather and similar operators.
 *
 * Elements have 1, 2, 4, 8 or 16 bytes. All strides are in bytes.
 */
#ifndef TN_KERNELS_BOX_H
#define TN_KERNELS_BOX_H

#include "engine/kernels/kernel.h"

/* Iterates over all indices of a box in C order, and keeps the offset of the current index in two
 * memories.
 *
 *     tn__walk walk = {.rank = 2, .extent = {3, 4}, .stride = {{16, 4}, {4, 12}}};
 *     do use(walk.at[0], walk.at[1]); while (tn__walk_next(&walk)); // all extents must be positive
 */
#define TN__WALK_RANK (2 * TN_RANK_MAX)
typedef struct tn__walk {
    uint32_t rank;
    int64_t extent[TN__WALK_RANK], place[TN__WALK_RANK];
    int64_t stride[2][TN__WALK_RANK];
    int64_t at[2];
} tn__walk;
/* Moves to the next index. Returns false after the last one; the walk is then at its first index
 * again. */
static inline bool tn__walk_next(tn__walk *walk) {
    for (uint32_t d = walk->rank; d-- > 0;) {
        walk->at[0] += walk->stride[0][d];
        walk->at[1] += walk->stride[1][d];
        if (++walk->place[d] < walk->extent[d]) return true;
        walk->at[0] -= walk->stride[0][d] * walk->extent[d];
        walk->at[1] -= walk->stride[1][d] * walk->extent[d];
        walk->place[d] = 0;
    }
    return false;
}
bool tn__walk_is_empty(const tn__walk *walk);
/* Adds a dimension, which becomes the innermost one. */
void tn__walk_add(tn__walk *walk, int64_t extent, int64_t stride_0, int64_t stride_1);

/* Copies all elements of a box from `from` (with stride[1]) to `to` (with stride[0]). The memories
 * must not overlap, unless they are identical in address and strides; then nothing is copied.
 * Afterwards the box can no longer be used. Errors: E_INTERNAL if `from` and `to` are one address
 * with different strides, which no view may have. */
tn_status tn__box_copy(const tn_kernel_call *call, tn__walk *box, uint32_t width, void *to,
                       const void *from);
/* Writes `count` copies of `element` to `to`. */
void tn__fill(void *to, uint64_t count, uint32_t width, const void *element);
/* Copies one element. The usual widths are constants, for which the compiler needs no call. */
static inline void tn__move(void *to, const void *from, uint64_t width) {
    switch (width) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, width);
        break;
    }
}

/* Bytes of an element; 0 if elements are smaller than a byte or have no fixed size. */
static inline uint32_t tn__width(tn_dtype dtype) {
    uint32_t bits = tn_dtype_bits(dtype);
    return bits % 8 ? 0 : bits / 8;
}
/* Computes the strides, in bytes, of the dimensions of an operand in C order. */
void tn__dense_strides(const tn_operand *operand, int64_t *strides);
/* Makes a box of the given extents between two operands of one format, with their strides. The
 * dimensions of the box are in the order of memory. Returns the position of dimension `axis` of the
 * shape in that order. The format must not be blocked. */
uint32_t tn__box_of(tn__walk *box, const int64_t *extents, const tn_operand *to,
                    const tn_operand *from, uint32_t axis);

/* Whether the operator has an output. A function for tn_kernel.accepts. */
bool tn__accepts_output(const tn_kernel_setup *setup);
/* Whether the operator has an output, and every operand has elements of whole bytes in C order. A
 * function for tn_kernel.accepts. */
bool tn__accepts_bytes(const tn_kernel_setup *setup);
/* Whether output 0 exists, and all operands have elements of whole bytes in the format of output 0,
 * which is not blocked. */
bool tn__accepts_one_format(const tn_kernel_setup *setup);
/* Whether tn__accepts_bytes is true and input 0 has a numeric type that tn__load and tn__store
 * support. */
bool tn__accepts_numbers(const tn_kernel_setup *setup);
/* Number of elements of a shape that is known before the run; UINT64_MAX if it is larger than that,
 * 0 if the shape is not known or `tensor` is NULL. */
uint64_t tn__setup_count(const tn_tensor *tensor);

/* Sets the current extents of an output; does nothing if it is omitted. Errors: E_INVALID if its
 * rank is another one, if more bytes are needed than are planned for the output, or if the graph
 * has exact extents for it and they are different. */
tn_status tn__call_shape(tn_kernel_call *call, uint32_t output, uint32_t rank,
                         const int64_t *shape);
/* Reads a list of integers from input `input` if the operator has it, else from attribute `attr`
 * (NULL: no attribute). *given becomes true if there is either. Errors: E_INVALID if there are more
 * than `most` integers. */
tn_status tn__call_list(const tn_kernel_call *call, uint32_t input, const char *attr, uint32_t most,
                        int64_t *list, uint32_t *count, bool *given);
/* Fails unless inputs `first` and `second` have one element type, because the kernel copies bytes
 * of both to one output. */
tn_status tn__call_same_type(const tn_kernel_call *call, uint32_t first, uint32_t second);
/* Checks that the scratch memory has at least `bytes`. Errors: E_INTERNAL if less was planned. */
tn_status tn__call_scratch(const tn_kernel_call *call, uint64_t bytes);
/* Returns element `index` of an operand that is a list of indices. */
static inline int64_t tn__index(const tn_operand *operand, uint64_t index) {
    if (operand->dtype == TN_INT64) return ((const int64_t *)operand->data)[index];
    if (operand->dtype == TN_INT32) return ((const int32_t *)operand->data)[index];
    return tn__operand_int(operand, index);
}
/* Reports an index that is outside [-extent, extent). Returns E_INVALID. */
tn_status tn__call_bad_index(const tn_kernel_call *call, int64_t index, uint32_t axis,
                             int64_t extent);

/* Read and write one element of any numeric type. tn__store rounds floats to nearest even, and
 * wraps integers instead of saturating. */
bool tn__is_number(tn_dtype dtype); /* whether tn__load and tn__store support the type */
bool tn__is_real(tn_dtype dtype);   /* whether the type is float16, bfloat16, float32 or float64 */
double tn__load(tn_dtype dtype, const void *element);
void tn__store(tn_dtype dtype, void *element, double real);
void tn__store_int(tn_dtype dtype, void *element, int64_t whole);
/* Returns an integer for an element, such that the integers have the order of the elements. -0
 * counts as 0, and NaN is larger than all numbers. */
uint64_t tn__order_key(tn_dtype dtype, const void *element);

/* A stable sort of `order`, which has `count` entries. `spare` is scratch for `count` entries.
 * `before` returns whether a must precede b. Cost: O(n log n). */
typedef bool (*tn__before)(const void *self, int64_t a, int64_t b); /* strictly */
void tn__sort(int64_t *order, int64_t *spare, int64_t count, tn__before before, const void *self);

#endif
