/* box.h - moves elements; shared by the kernels of Slice, Transpose, Gather and similar operators.
 *
 * Elements are 1, 2, 4, 8 or 16 bytes of any type. All strides are in bytes.
 */
#ifndef TN_KERNELS_BOX_H
#define TN_KERNELS_BOX_H

#include "engine/kernels/kernel.h"

/* Every place of a box of extents in C order, with an offset into each of a few memories.
 *
 *     tn__walk walk = {.rank = 2, .extent = {3, 4}, .stride = {{16, 4}, {4, 12}}};
 *     do use(walk.at[0], walk.at[1]); while (tn__walk_next(&walk)); // extents above 0
 */
#define TN__WALK_RANK (2 * TN_RANK_MAX)
typedef struct tn__walk {
    uint32_t rank;
    int64_t extent[TN__WALK_RANK], place[TN__WALK_RANK];
    int64_t stride[2][TN__WALK_RANK];
    int64_t at[2];
} tn__walk;
/* False after the last place, and then the walk is at its first again. */
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
/* Adds a dimension, innermost so far. */
void tn__walk_add(tn__walk *walk, int64_t extent, int64_t stride_0, int64_t stride_1);

/* Copies every element of a box from `from` (stride[1]) to `to` (stride[0]), which do not overlap,
 * or are the same bytes: then nothing is done. Dimensions are merged first; transposed planes go in
 * tiles. The walk is used up. Errors: E_INTERNAL if both are the same place but have different
 * orders, which a view may not have. */
tn_status tn__box_copy(const tn_kernel_call *call, tn__walk *box, uint32_t width, void *to,
                       const void *from);
/* `count` times the element `element`. */
void tn__fill(void *to, uint64_t count, uint32_t width, const void *element);
/* One element of a constant number of bytes, or of any. */
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

/* Bytes of an element; 0 when it has not a whole number of them, or no size. */
static inline uint32_t tn__width(tn_dtype dtype) {
    uint32_t bits = tn_dtype_bits(dtype);
    return bits % 8 ? 0 : bits / 8;
}
/* Strides in bytes of the dimensions of an operand, in the order of its shape. */
void tn__dense_strides(const tn_operand *operand, int64_t *strides);
/* A box of these extents between two operands of one format that is not blocked, with their strides
 * in it: dimensions in the order of memory. The axis is where dimension `axis` of the shape is. */
uint32_t tn__box_of(tn__walk *box, const int64_t *extents, const tn_operand *to,
                    const tn_operand *from, uint32_t axis);

/* For `accepts`: there is an output at all. */
bool tn__accepts_output(const tn_kernel_setup *setup);
/* The same, and every operand has elements of whole bytes, in C order. */
bool tn__accepts_bytes(const tn_kernel_setup *setup);
/* There is an output, and all operands have elements of whole bytes in one format, not blocked. */
bool tn__accepts_one_format(const tn_kernel_setup *setup);
/* As tn__accepts_bytes, and input 0 is of a number type that tn__load and tn__store know. */
bool tn__accepts_numbers(const tn_kernel_setup *setup);
/* Elements of a static shape, saturating; 0 when it is not known. */
uint64_t tn__setup_count(const tn_tensor *tensor);

/* Writes the extents that an output has. Errors: E_INVALID when its memory has no room for them, or
 * they are not those of the plan where these are no bounds. */
tn_status tn__call_shape(tn_kernel_call *call, uint32_t output, uint32_t rank,
                         const int64_t *shape);
/* Integers that are input `input` where it is there, else attribute `attr` (may be NULL); *given:
 * either is. Errors: E_INVALID for more than `most`. */
tn_status tn__call_list(const tn_kernel_call *call, uint32_t input, const char *attr, uint32_t most,
                        int64_t *list, uint32_t *count, bool *given);
/* Inputs `first` and `second` must have the same element type: their bytes are mixed. */
tn_status tn__call_same_type(const tn_kernel_call *call, uint32_t first, uint32_t second);
/* Scratch of at least `bytes`. Errors: E_INTERNAL when the plan was made for less. */
tn_status tn__call_scratch(const tn_kernel_call *call, uint64_t bytes);
/* Element `index` of a list of indices. */
static inline int64_t tn__index(const tn_operand *operand, uint64_t index) {
    if (operand->dtype == TN_INT64) return ((const int64_t *)operand->data)[index];
    if (operand->dtype == TN_INT32) return ((const int32_t *)operand->data)[index];
    return tn__operand_int(operand, index);
}
/* E_INVALID for an index outside [-extent, extent). */
tn_status tn__call_bad_index(const tn_kernel_call *call, int64_t index, uint32_t axis,
                             int64_t extent);

/* Numbers of any type. `tn__store` rounds to nearest even, saturates nothing but wraps integers. */
bool tn__is_number(tn_dtype dtype); /* that these two know */
bool tn__is_real(tn_dtype dtype);   /* float16, bfloat16, float32, float64 */
double tn__load(tn_dtype dtype, const void *element);
void tn__store(tn_dtype dtype, void *element, double real);
void tn__store_int(tn_dtype dtype, void *element, int64_t whole);
/* A number that orders as uint64 like the elements; -0 is 0, NaN is above all numbers. */
uint64_t tn__order_key(tn_dtype dtype, const void *element);

/* Stable sort of `order` [count]; `spare` [count]. Cost: O(n log n). */
typedef bool (*tn__before)(const void *self, int64_t a, int64_t b); /* strictly */
void tn__sort(int64_t *order, int64_t *spare, int64_t count, tn__before before, const void *self);

#endif
