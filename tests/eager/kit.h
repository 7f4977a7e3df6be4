/* kit.h - an interpreter in a test: commands that fail the test when they fail. */
#ifndef TN_TESTS_EAGER_KIT_H
#define TN_TESTS_EAGER_KIT_H

#include "../support.h"

#include <tenure/eager.h>

#include "base/base.h"

static tn_error failure;
static void check(tn_status status) {
    if (status != TN_OK) fail_msg("%s: %s", failure.where, failure.message);
}

#define SHAPE(...)                                                                                 \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define LIST(...)                                                                                  \
    (uint32_t)(sizeof((tn_handle[]){__VA_ARGS__}) / sizeof(tn_handle)), (tn_handle[]) {            \
        __VA_ARGS__                                                                                \
    }

static inline tn_eager *kit_open(tn_eager_options options) {
    tn_eager *eager = NULL;
    options.struct_size = sizeof options;
    check(tn_eager_create(&options, &eager, &failure));
    return eager;
}

static inline tn_handle kit_put(tn_eager *eager, tn_dtype dtype, tn_kind kind, const void *data,
                                uint32_t rank, const int64_t *shape) {
    tn_handle handle;
    const tn_eager_data put = {
        .dtype = dtype, .kind = kind, .rank = rank, .shape = shape, .data = data};
    check(tn_eager_put(eager, &put, &handle, &failure));
    return handle;
}

/* Floats of a sequence of its own. */
static inline tn_handle kit_floats(tn_eager *eager, tn_kind kind, uint64_t seed, uint32_t rank,
                                   const int64_t *shape) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) count *= (uint64_t)shape[d];
    float *numbers = malloc((count + 1) * sizeof *numbers);
    tn__random random = {.state = seed};
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = (float)((double)tn__random_below(&random, 2001) / 1000 - 1);
    tn_handle handle = kit_put(eager, TN_FLOAT32, kind, numbers, rank, shape);
    free(numbers);
    return handle;
}

static inline tn_status kit_try(tn_eager *eager, const char *type, uint32_t count,
                                const tn_handle *inputs, tn_handle *output) {
    const bool own = type[0] == '.';
    const tn_eager_call call = {.type = type + own,
                                .domain = own ? "tenure" : "",
                                .inputs = inputs,
                                .input_count = count,
                                .output_count = 1};
    return tn_eager_apply(eager, &call, output, &failure);
}

/* ".SgdStep": of domain "tenure". */
static inline tn_handle kit_op(tn_eager *eager, const char *type, uint32_t count,
                               const tn_handle *inputs) {
    tn_handle output = TN_HANDLE_NONE;
    check(kit_try(eager, type, count, inputs, &output));
    return output;
}

static inline void kit_get(tn_eager *eager, tn_handle handle, void *data, uint64_t size) {
    check(tn_eager_get(eager, handle, data, size, &failure));
}

static inline void kit_del(tn_eager *eager, tn_handle handle) {
    check(tn_eager_del(eager, handle, &failure));
}

static inline tn_eager_counts kit_count(const tn_eager *eager) {
    tn_eager_counts counts;
    tn_eager_count(eager, &counts);
    return counts;
}

#endif
