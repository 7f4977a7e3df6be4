/* reduce.c - reduces the elements of several ranks to one.
 *
 * The order of additions is a tree over the ranks: neighbours first, then pairs of them. It is the
 * same for each element, wherever it lies in a message. So sums depend neither on how tensors are
 * packed into messages nor on which rank is fast.
 *
 *     0   1   2   3   4
 *     └─+─┘   └─+─┘   │
 *       └───+───┘     │
 *           └────+────┘
 */
#include "run/dist/world.h"

#define REDUCE_SUM(name, type)                                                                     \
    static void name##_sum(void *to, const void *from, uint64_t count) {                           \
        type *a = to;                                                                              \
        const type *b = from;                                                                      \
        for (uint64_t i = 0; i < count; i++) a[i] = (type)(a[i] + b[i]);                           \
    }
#define REDUCE_MAX(name, type)                                                                     \
    static void name##_max(void *to, const void *from, uint64_t count) {                           \
        type *a = to;                                                                              \
        const type *b = from;                                                                      \
        for (uint64_t i = 0; i < count; i++)                                                       \
            if (!(b[i] <= a[i]) && a[i] == a[i]) a[i] = b[i]; /* NaN wins */                       \
    }
REDUCE_SUM(reduce_float, float)
REDUCE_SUM(reduce_double, double)
REDUCE_SUM(reduce_int, uint32_t) /* sums of integers wrap */
REDUCE_SUM(reduce_long, uint64_t)
REDUCE_MAX(reduce_float, float)
REDUCE_MAX(reduce_double, double)
REDUCE_MAX(reduce_int, int32_t)
REDUCE_MAX(reduce_long, int64_t)

typedef void (*reduce_loop)(void *to, const void *from, uint64_t count);

static reduce_loop reduce_find(tn_dtype dtype, tn_reduction reduction) {
    bool most = reduction == TN_REDUCTION_MAX;
    switch (dtype) {
    case TN_FLOAT32:
        return most ? reduce_float_max : reduce_float_sum;
    case TN_FLOAT64:
        return most ? reduce_double_max : reduce_double_sum;
    case TN_INT32:
        return most ? reduce_int_max : reduce_int_sum;
    case TN_INT64:
        return most ? reduce_long_max : reduce_long_sum;
    default:
        return NULL;
    }
}

bool tn__reduces(tn_dtype dtype, tn_reduction reduction) {
    bool real = dtype == TN_FLOAT32 || dtype == TN_FLOAT64;
    return (size_t)reduction < TN_REDUCTION_COUNT && reduce_find(dtype, reduction) != NULL &&
           (reduction != TN_REDUCTION_MEAN || real);
}

static void reduce_divide(void *data, uint64_t count, tn_dtype dtype, uint32_t ranks) {
    float *floats = data;
    double *doubles = data;
    for (uint64_t i = 0; i < count && dtype == TN_FLOAT32; i++) floats[i] /= (float)ranks;
    for (uint64_t i = 0; i < count && dtype == TN_FLOAT64; i++) doubles[i] /= ranks;
}

void tn__reduce(void *const *parts, uint32_t ranks, uint64_t count, tn_dtype dtype,
                tn_reduction reduction) {
    reduce_loop loop = reduce_find(dtype, reduction);
    for (uint32_t apart = 1; apart < ranks; apart *= 2)
        for (uint32_t i = 0; i + apart < ranks; i += 2 * apart)
            loop(parts[i], parts[i + apart], count);
    if (reduction == TN_REDUCTION_MEAN) reduce_divide(parts[0], count, dtype, ranks);
}
