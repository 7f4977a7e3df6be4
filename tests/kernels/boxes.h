/* boxes.h - random boxes of elements, and places in them, for tests of what moves elements. */
#ifndef TENURE_TESTS_ENGINE_BOXES_H
#define TENURE_TESTS_ENGINE_BOXES_H

#include "kit.h"

static inline int64_t random_in(tn__random *random, int64_t low, int64_t high) { /* both inside */
    return low + (int64_t)tn__random_below(random, (uint64_t)(high - low + 1));
}

/* Types of 1, 2, 4, 8 and 16 bytes. */
static inline tn_dtype random_type(tn__random *random) {
    static const tn_dtype types[] = {TN_UINT8, TN_FLOAT16, TN_FLOAT32, TN_INT64, TN_COMPLEX128};
    return types[tn__random_below(random, 5)];
}

static inline void fill_random(tn__random *random, kit_array *array) {
    size_t size = kit_bytes(array);
    array->data = malloc(size + 1);
    assert_non_null(array->data);
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)array->data)[i] = (uint8_t)tn__random_next(random);
}

/* Small whole numbers, which every type holds and whose sums are exact. */
static inline void fill_small(tn__random *random, kit_array *array, int64_t low, int64_t high) {
    uint64_t count = kit_count(array);
    array->data = malloc(kit_bytes(array) + 1);
    assert_non_null(array->data);
    for (uint64_t i = 0; i < count; i++) {
        int64_t whole = random_in(random, low, high);
        switch (array->dtype) {
        case TN_FLOAT32:
            ((float *)array->data)[i] = (float)whole;
            break;
        case TN_FLOAT64:
            ((double *)array->data)[i] = (double)whole;
            break;
        case TN_INT32:
            ((int32_t *)array->data)[i] = (int32_t)whole;
            break;
        case TN_INT64:
            ((int64_t *)array->data)[i] = whole;
            break;
        default:
            ((uint8_t *)array->data)[i] = (uint8_t)whole;
        }
    }
}

/* Extents of 1 to `most`, now and then 0. */
static inline void random_shape(tn__random *random, kit_array *array, uint32_t rank, int64_t most) {
    array->rank = rank;
    for (uint32_t d = 0; d < rank; d++)
        array->shape[d] = tn__random_below(random, 25) == 0 ? 0 : random_in(random, 1, most);
}

/* A list whose contents inference knows; `ints` must live on. */
static inline kit_array list_of(int64_t *ints, uint32_t count) {
    return (kit_array){
        .dtype = TN_INT64, .rank = 1, .shape = {count}, .data = ints, .constant = true};
}

static inline tn_attr attr_int(const char *name, const int64_t *value) {
    return (tn_attr){.name = name, .type = TN_ATTR_INT, .count = 1, .ints = value};
}
static inline tn_attr attr_ints(const char *name, const int64_t *values, uint32_t count) {
    return (tn_attr){.name = name, .type = TN_ATTR_INTS, .count = count, .ints = values};
}
static inline tn_attr attr_string(const char *name, const char *const *value) {
    return (tn_attr){.name = name, .type = TN_ATTR_STRING, .count = 1, .strings = value};
}

/* The place of element `index`, and back. */
static inline void place_of(const kit_array *array, uint64_t index, int64_t *place) {
    for (uint32_t d = array->rank; d-- > 0;) {
        place[d] = (int64_t)(index % (uint64_t)array->shape[d]);
        index /= (uint64_t)array->shape[d];
    }
}
static inline uint64_t index_of(const kit_array *array, const int64_t *place) {
    uint64_t index = 0;
    for (uint32_t d = 0; d < array->rank; d++) {
        assert_in_range((uint64_t)place[d], 0, (uint64_t)array->shape[d] - 1);
        index = index * (uint64_t)array->shape[d] + (uint64_t)place[d];
    }
    return index;
}

static inline const uint8_t *element_of(const kit_array *array, uint64_t index) {
    return (const uint8_t *)array->data + index * (tn_dtype_bits(array->dtype) / 8);
}

/* Every element of `out` must be that of `in` at the place that `source` says, or `fill` where it
 * says there is none. */
typedef bool (*place_source)(const void *self, const int64_t *out, int64_t *in);
static inline void assert_moved(uint64_t seed, const kit_array *out, const kit_array *in,
                                place_source source, const void *self, const void *fill) {
    uint64_t count = kit_count(out);
    size_t width = tn_dtype_bits(in->dtype) / 8;
    for (uint64_t i = 0; i < count; i++) {
        int64_t to[TN_RANK_MAX], from[TN_RANK_MAX] = {0};
        place_of(out, i, to);
        const void *expected = source(self, to, from) ? element_of(in, index_of(in, from)) : fill;
        if (memcmp(element_of(out, i), expected, width) != 0)
            fail_msg("seed %llu: element %llu is wrong", (unsigned long long)seed,
                     (unsigned long long)i);
    }
}

static inline void assert_shape(uint64_t seed, const kit_array *array, uint32_t rank,
                                const int64_t *shape) {
    if (array->rank != rank || memcmp(array->shape, shape, rank * sizeof *shape) != 0)
        fail_msg("seed %llu: the shape is wrong", (unsigned long long)seed);
}

static inline void run_well(uint64_t seed, const kit_op *op, kit_array *outputs) {
    tn_error error;
    if (kit_run(op, outputs, &error) != TN_OK)
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, error.where, error.message);
}

/* A kernel of ONNX's domain by its type, without an operator that `accepts` could be asked about:
 * the last of our own loops, as those for other formats come first. */
static inline const tn_kernel *kernel_of(const char *type) {
    const tn_kernel *found = NULL;
    for (uint32_t f = 0; f < tn__kernel_family_count(); f++) {
        const tn_kernel_family *family = tn__kernel_family_at(f);
        for (uint32_t k = 0; k < family->kernel_count && !family->library; k++)
            if (strcmp(family->kernels[k].type, type) == 0 &&
                strcmp(tn__kernel_domain(family, &family->kernels[k]), "") == 0)
                found = &family->kernels[k];
    }
    if (found != NULL) return found;
    fail_msg("no kernel for %s", type);
    return NULL;
}

#endif
