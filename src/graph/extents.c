/* extents.c - arithmetic of extents that may be unknown. See extents.h. */
#include "graph/extents.h"

#include <inttypes.h>

int64_t tn__extent(const tn_tensor *tensor, int32_t axis) {
    if (!tn__rank_known(tensor)) return TN_DIM_UNKNOWN;
    int64_t at = axis < 0 ? (int64_t)tensor->rank + axis : axis;
    return at >= 0 && at < (int64_t)tensor->rank ? tensor->shape[at] : TN_DIM_UNKNOWN;
}

int64_t tn__extent_add(int64_t a, int64_t b) {
    int64_t sum;
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN) return TN_DIM_UNKNOWN;
    return __builtin_add_overflow(a, b, &sum) ? TN_DIM_UNKNOWN : sum;
}

int64_t tn__extent_mul(int64_t a, int64_t b) {
    int64_t product;
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN) return TN_DIM_UNKNOWN;
    return __builtin_mul_overflow(a, b, &product) ? TN_DIM_UNKNOWN : product;
}

int64_t tn__extent_div(int64_t a, int64_t b) {
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN || b < 1 || a % b != 0) return TN_DIM_UNKNOWN;
    return a / b;
}

int64_t tn__extent_div_up(int64_t a, int64_t b) {
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN || b < 1 || a < 0) return TN_DIM_UNKNOWN;
    return a / b + (a % b != 0);
}

tn_status tn__extents_agree(tn_infer *infer, uint32_t a, int32_t axis_a, uint32_t b,
                            int32_t axis_b) {
    const tn_tensor *left = tn__input(infer, a), *right = tn__input(infer, b);
    int64_t one = tn__extent(left, axis_a), other = tn__extent(right, axis_b);
    if (one == TN_DIM_UNKNOWN || other == TN_DIM_UNKNOWN || one == other) return TN_OK;
    if ((left->flags | right->flags) & TN_TENSOR_BOUND) return TN_OK; /* seen at run time */
    return tn__infer_fail(infer,
                          "axis %d of '%.60s' has extent %" PRId64 " and axis %d of '%.60s' has "
                          "extent %" PRId64 "; they must be equal",
                          axis_a, left->name, one, axis_b, right->name, other);
}

tn_status tn__rank_between(tn_infer *infer, uint32_t input, uint32_t least, uint32_t most) {
    const tn_tensor *tensor = tn__input(infer, input);
    if (!tn__rank_known(tensor) || (tensor->rank >= least && tensor->rank <= most)) return TN_OK;
    return tn__infer_fail(infer, "'%.60s' has rank %u; input %u must have a rank from %u to %u",
                          tensor->name, tensor->rank, input, least, most);
}

tn_status tn__attr_count(tn_infer *infer, const char *name, int64_t otherwise, int64_t least,
                         int64_t most, int64_t *value) {
    *value = tn__attr_int(infer->op, name, otherwise);
    if (*value >= least && *value <= most) return TN_OK;
    if (tn__attr(infer->op, name) == NULL)
        return tn__infer_fail(infer, "attribute %s is missing", name);
    return tn__infer_fail(infer,
                          "attribute %s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64,
                          name, *value, least, most);
}

tn_status tn__shape_as(tn_infer *infer, uint32_t output, uint32_t input, tn_dtype dtype) {
    const tn_tensor *like = tn__input(infer, input);
    if (!tn__rank_known(like)) return tn__set_dtype(infer, output, dtype);
    return tn__set_output(infer, output, dtype, like->rank, like->shape);
}

tn_status tn__shape_first(tn_infer *infer) { return tn__set_like(infer, 0, tn__input(infer, 0)); }
