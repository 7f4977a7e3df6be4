/* control.c - inference that operators with blocks share; see control.h. */
#include "graph/control.h"

tn_status tn__control_body(tn_infer *infer, const char *name, tn_block_id *block) {
    const tn_attr *attr = tn__attr(infer->op, name);
    *block = 0;
    if (!attr || attr->type != TN_ATTR_BLOCK)
        return tn__infer_fail(infer, "it has no block '%s'", name);
    *block = attr->block;
    return TN_OK;
}

tn_status tn__control_check(tn_infer *infer, const tn_block *body, uint64_t inputs,
                            uint64_t outputs) {
    if (body->input_count != inputs)
        return tn__infer_fail(infer, "its block takes %u inputs where the operator passes %llu",
                              body->input_count, (unsigned long long)inputs);
    if (body->output_count < outputs) /* an operator may leave out its last ones */
        return tn__infer_fail(infer, "its block has %u outputs where the operator needs %llu",
                              body->output_count, (unsigned long long)outputs);
    return TN_OK;
}

const tn_tensor *tn__control_tensor(const tn_infer *infer, tn_tensor_id id) {
    return tn_graph_tensor(infer->graph, id);
}

tn_status tn__control_set(tn_infer *infer, uint32_t index, const tn_tensor *like, uint64_t axes) {
    if (like->flags & TN_TENSOR_SEQUENCE)
        TN_TRY(tn__set_sequence(infer, index, like->dtype, like->rank, like->shape, like->repeat));
    else
        TN_TRY(tn__set_output(infer, index, like->dtype, like->rank, like->shape));
    for (uint32_t d = 0; axes && d < TN_RANK_MAX; d++)
        if (axes >> d & 1) tn__set_bound_axis(infer, index, d);
    return TN_OK;
}

/* --- what iterations carry -------------------------------------------------------------------- */

/* The value before the last iteration of an extent that starts as `initial` and grows from `now` to
 * `next`. False: not known, or not growing by equal steps. */
static bool control_grow(const tn__carried *carried, int64_t initial, int64_t now, int64_t next,
                         int64_t *before_last) {
    int64_t step;
    int64_t times = carried->trips > 0 ? carried->trips - 1 : 0;
    if (carried->trips == TN_DIM_UNKNOWN || initial == TN_DIM_UNKNOWN || now == TN_DIM_UNKNOWN ||
        next == TN_DIM_UNKNOWN || next <= now)
        return false;
    return !__builtin_mul_overflow(next - now, times, &step) &&
           !__builtin_add_overflow(initial, step, before_last);
}

/* Extents of the formal, widened; the axes that grow are bounds inside the body. */
static bool control_widen_extents(tn_infer *infer, const tn__carried *carried, uint32_t round,
                                  int64_t *shape, uint64_t *axes) {
    const tn_tensor *now = tn__control_tensor(infer, carried->formal);
    const tn_tensor *next = tn__control_tensor(infer, carried->next);
    const tn_tensor *initial = carried->initial;
    bool differs = false;
    for (uint32_t d = 0; d < now->rank; d++) {
        int64_t last = TN_DIM_UNKNOWN;
        shape[d] = now->shape[d];
        if (next->shape[d] == now->shape[d]) continue;
        bool grows = initial && initial->rank == now->rank &&
                     control_grow(carried, initial->shape[d], now->shape[d], next->shape[d], &last);
        if (!grows || (round > 1 && last != now->shape[d])) last = TN_DIM_UNKNOWN;
        if (last != TN_DIM_UNKNOWN && last != initial->shape[d]) *axes |= UINT64_C(1) << d;
        differs |= last != now->shape[d];
        shape[d] = last;
    }
    return differs;
}

static bool control_widen_repeat(tn_infer *infer, const tn__carried *carried, uint32_t round,
                                 uint64_t *repeat) {
    const tn_tensor *now = tn__control_tensor(infer, carried->formal);
    const tn_tensor *next = tn__control_tensor(infer, carried->next);
    const tn_tensor *initial = carried->initial;
    int64_t last;
    *repeat = now->repeat;
    if (next->repeat == now->repeat || now->repeat == TN_SIZE_UNKNOWN) return false;
    bool grows = carried->exact && initial && initial->repeat <= INT64_MAX &&
                 now->repeat <= INT64_MAX && next->repeat <= INT64_MAX &&
                 control_grow(carried, (int64_t)initial->repeat, (int64_t)now->repeat,
                              (int64_t)next->repeat, &last);
    *repeat =
        grows && (round == 1 || (uint64_t)last == now->repeat) ? (uint64_t)last : TN_SIZE_UNKNOWN;
    return *repeat != now->repeat;
}

/* An empty sequence does not determine its elements; the first tensor put into it does. */
static bool control_is_empty(const tn_tensor *tensor) {
    return (tensor->flags & TN_TENSOR_SEQUENCE) && tensor->repeat == 0;
}

tn_status tn__control_widen(tn_infer *infer, const tn__carried *carried, uint32_t round,
                            bool *changed) {
    const tn_tensor *now = tn__control_tensor(infer, carried->formal);
    const tn_tensor *next = tn__control_tensor(infer, carried->next);
    int64_t shape[TN_RANK_MAX];
    tn_tensor wide = *now;
    uint64_t before = tn__bound_axes(infer, carried->formal);
    uint64_t axes = before | tn__bound_axes(infer, carried->next);
    bool differs = false;
    if (control_is_empty(now) && next->repeat != 0) {
        wide.rank = next->rank;
        wide.shape = next->shape;
        differs = true;
    } else if (now->rank != TN_RANK_UNKNOWN && next->rank != now->rank) {
        wide.rank = TN_RANK_UNKNOWN;
        differs = true;
    } else if (now->rank != TN_RANK_UNKNOWN) {
        differs |= control_widen_extents(infer, carried, round, shape, &axes);
        wide.shape = shape;
        differs |= (axes & ~before) != 0;
    }
    differs |= control_widen_repeat(infer, carried, round, &wide.repeat);
    if (!differs) return TN_OK;
    *changed = true;
    return tn__set_formal(infer, carried->formal, &wide, axes);
}

tn_status tn__control_last(tn_infer *infer, uint32_t index, const tn__carried *carried) {
    const tn_tensor *now = tn__control_tensor(infer, carried->formal);
    const tn_tensor *next = tn__control_tensor(infer, carried->next);
    const tn_tensor *initial = carried->initial;
    uint64_t axes = tn__bound_axes(infer, carried->formal);
    int64_t shape[TN_RANK_MAX];
    tn_tensor last = *now;
    bool none = carried->trips == 0 && initial;
    if (next->repeat != now->repeat) last.repeat = none ? initial->repeat : next->repeat;
    bool both = now->rank != TN_RANK_UNKNOWN && next->rank == now->rank;
    for (uint32_t d = 0; both && d < now->rank; d++) {
        shape[d] = now->shape[d];
        if (next->shape[d] == now->shape[d] || now->shape[d] == TN_DIM_UNKNOWN) continue;
        shape[d] = none ? initial->shape[d] : next->shape[d]; /* it grows: widen has seen to that */
        bool even = next->shape[d] != TN_DIM_UNKNOWN &&
                    tn__least_extent(infer, carried->next, d) -
                            tn__least_extent(infer, carried->formal, d) ==
                        next->shape[d] - now->shape[d];
        bool starts_exact = initial && !(initial->flags & TN_TENSOR_BOUND);
        if (carried->exact && even && starts_exact) axes &= ~(UINT64_C(1) << d);
    }
    if (both) last.shape = shape;
    return tn__control_set(infer, index, &last, axes);
}

bool tn__control_settled(uint32_t round, uint32_t carried) { return round > carried + 2; }

tn_status tn__control_scalar(tn_infer *infer, tn_tensor_id formal, tn_dtype dtype) {
    const tn_tensor scalar = {.dtype = dtype, .repeat = 1};
    if (tn__rank_known(tn__control_tensor(infer, formal))) return TN_OK;
    return tn__set_formal(infer, formal, &scalar, 0);
}

tn_status tn__control_collect(tn_infer *infer, uint32_t index, const tn_tensor *like, uint64_t axes,
                              uint32_t axis, int64_t extent) {
    int64_t shape[TN_RANK_MAX + 1];
    tn_tensor all = *like;
    if (!tn__rank_known(like) || like->rank >= TN_RANK_MAX)
        return tn__set_dtype(infer, index, like->dtype);
    for (uint32_t d = 0; d < like->rank; d++) shape[d < axis ? d : d + 1] = like->shape[d];
    shape[axis] = extent;
    all.rank++;
    all.shape = shape;
    uint64_t before = (UINT64_C(1) << axis) - 1;
    return tn__control_set(infer, index, &all, (axes & before) | (axes & ~before) << 1);
}
