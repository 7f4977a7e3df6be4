/* element.h - accesses elements of plain arrays, and writes small known values as such an array. */
#ifndef TN_GRAPH_ELEMENT_H
#define TN_GRAPH_ELEMENT_H

#include <tenure/graph.h>

/* Whether the type is float16, bfloat16 or float32. */
static inline bool tn__is_short_float(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT16 || dtype == TN_BFLOAT16;
}

/* Writes the low `bits` bits of `element` at position `index` of a plain array. If an element is
 * smaller than a byte, the other elements in its byte stay as they are. */
static inline void tn__element_put(void *array, uint32_t bits, uint64_t index, uint64_t element) {
    uint8_t *bytes = array;
    if (bits < 8) {
        uint32_t shift = (uint32_t)(index * bits % 8), mask = ((1u << bits) - 1) << shift;
        uint8_t *at = bytes + index * bits / 8;
        *at = (uint8_t)((*at & ~mask) | ((uint32_t)(element << shift) & mask));
        return;
    }
    bytes += index * (bits / 8);
    for (uint32_t i = 0; i < bits / 8 && i < 8; i++) bytes[i] = (uint8_t)(element >> (8 * i));
}

/* The bits of a number as float16, bfloat16, float32 or float64, rounded to nearest even. */
uint64_t tn__element_of(tn_dtype dtype, double value);

/* The index of the first element of a floating type that is infinite or NaN; TN_SIZE_UNKNOWN if all
 * are finite, or if `dtype` is another type than those of tn__element_of. */
uint64_t tn__first_odd(const void *data, uint64_t size, tn_dtype dtype);

/* Writes the values of a tensor that the graph knows (tn_tensor.value). Returns false if they are
 * unknown or empty, or do not have `size` bytes. */
bool tn__tensor_fill(const tn_tensor *tensor, void *bytes, uint64_t size);

#endif
