/* control.c - what the operators that own blocks share; see control.h. */
#include "graph/control.h"

tn_status tn__control_body(tn_infer *infer, const char *name, tn_block_id *block) {
    const tn_attr *attr = tn__attr(infer, name);
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

/* --- what iterations carry ----------------------------------------------------------------------
 */

tn_status tn__control_widen(tn_infer *infer, tn_tensor_id formal, tn_tensor_id from,
                            bool *changed) {
    const tn_tensor *now = tn__control_tensor(infer, formal);
    const tn_tensor *next = tn__control_tensor(infer, from);
    int64_t shape[TN_RANK_MAX];
    tn_tensor wide = *now;
    bool differs = false;
    if (now->rank != TN_RANK_UNKNOWN) {
        if (next->rank != now->rank) {
            wide.rank = TN_RANK_UNKNOWN;
            differs = true;
        }
        for (uint32_t d = 0; d < now->rank && wide.rank != TN_RANK_UNKNOWN; d++) {
            bool same = next->shape[d] == now->shape[d];
            shape[d] = same ? now->shape[d] : TN_DIM_UNKNOWN;
            differs |= shape[d] != now->shape[d];
        }
        wide.shape = shape;
    }
    uint64_t axes = tn__bound_axes(infer, formal), more = tn__bound_axes(infer, from);
    differs |= wide.rank != TN_RANK_UNKNOWN && (more & ~axes) != 0;
    if (next->repeat != now->repeat && now->repeat != TN_SIZE_UNKNOWN) {
        wide.repeat = TN_SIZE_UNKNOWN;
        differs = true;
    }
    if (!differs) return TN_OK;
    *changed = true;
    return tn__set_formal(infer, formal, &wide, axes | more);
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
