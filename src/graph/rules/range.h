/* range.h - the number and values of the elements of Range: for its shape rule, its values that are
 * known before the run, and its kernel.
 *
 * Floats are computed in float64 if they are float64 or if attribute stash_type says so (opset 27),
 * else in float32, also those of 16 bits, and rounded once to their type. So the last element may
 * not be before the limit: from 0 to 0.3 in steps of 0.1 there are 4 in float32.
 * Source: the ONNX specification, opsets 11 and 27; ONNX Runtime 1.30.
 */
#ifndef TN_GRAPH_RANGE_H
#define TN_GRAPH_RANGE_H

#include <math.h>

#include "graph/attr.h"
#include "graph/rules/fold.h"

/* The type in which the elements are computed. */
static inline tn_dtype tn__range_in(const tn_op *op, tn_dtype dtype) {
    const int64_t onnx_double = 11;
    bool wide = dtype == TN_FLOAT64 || tn__attr_int(op, "stash_type", 1) == onnx_double;
    return wide && dtype != TN_FLOAT32 ? TN_FLOAT64 : TN_FLOAT32;
}

/* The number of elements; -1: NaN, or beyond 2^62. `in`: the result of tn__range_in. */
static inline int64_t tn__range_floats(tn_dtype in, double start, double limit, double delta) {
    double count = ceil(tn__round(in, limit - start) / delta);
    return !(count < 0x1p62) ? -1 : count > 0 ? (int64_t)count : 0;
}

static inline int64_t tn__range_ints(int64_t start, int64_t limit, int64_t delta) {
    if (delta > 0 ? limit <= start : limit >= start) return 0;
    bool up = delta > 0;
    uint64_t span = up ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t step = up ? (uint64_t)delta : 0 - (uint64_t)delta;
    uint64_t count = step > 0 ? span / step + (span % step != 0) : UINT64_MAX;
    return count < UINT64_C(1) << 62 ? (int64_t)count : -1;
}

/* Element `index`, before it is rounded to its type. */
static inline double tn__range_at(tn_dtype in, double start, double delta, int64_t index) {
    return tn__round(in, start + tn__round(in, (double)index * delta));
}

#endif
