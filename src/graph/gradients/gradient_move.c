/* gradient_move.c - gradients of operators that move elements: they keep nothing but indices.
 *
 * The gradient of joining is splitting, and vice versa. Elements that were taken several times are
 * summed in the order of the elements, so that runs agree bit for bit.
 */
#include "graph/gradients/gradients.h"

static tn_status move_axis(tn_gradient *it, int64_t axis, uint32_t rank, uint32_t *found) {
    *found = 0;
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return tn__gradient_fail(it, "axis %lld is outside rank %u", (long long)axis, rank);
    *found = (uint32_t)(axis < 0 ? axis + rank : axis);
    return TN_OK;
}

/* Makes a tensor of zeros in the shape of another tensor. */
static tn_status move_zeros(tn_gradient *it, const tn_tensor *like, tn_tensor_id *zeros) {
    tn_tensor_id zero, list;
    TN_TRY(tn__gradient_list(it, like->shape, like->rank, &list));
    TN_TRY(tn__gradient_number(it, like->dtype, 0, &zero));
    return tn__gradient_op(it, "Expand", TN__LIST(zero, list), NULL, 0, zeros);
}

/* Reads a list that is input `input` in newer operator sets and attribute `name` in older ones.
 * Returns false if the list is given but unknown. */
static bool move_list(const tn_gradient *it, uint32_t input, const char *name, const int64_t **list,
                      uint32_t *count) {
    const tn_attr *attr = tn__attr(&it->op, name);
    *list = tn__gradient_ints_of(it, input, count);
    if (*list != NULL || *count > 0) return true;
    /* the list may be present and empty, and is then known */
    if (tn__gradient_in(it, input) != TN_NONE) return tn__gradient_input(it, input).bytes == 0;
    if (attr != NULL && attr->ints != NULL) {
        *list = attr->ints;
        *count = attr->count;
    }
    return true;
}

/* --- order --- */

tn_status tn__gradient_transpose(tn_gradient *it) {
    uint32_t rank = tn__gradient_input(it, 0).rank;
    const tn_attr *perm = tn__attr(&it->op, "perm");
    int64_t back[TN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t from = rank - 1 - d;
        if (perm != NULL && perm->ints != NULL && d < perm->count)
            TN_TRY(move_axis(it, perm->ints[d], rank, &from));
        back[from] = d;
    }
    return tn__gradient_op(it, "Transpose", TN__LIST(it->given[0]),
                           &TN__ATTR_INTS("perm", back, rank), 1, &it->found[0]);
}

static tn_status move_reshape(tn_gradient *it, tn_tensor_id id, const int64_t *shape, uint32_t rank,
                              tn_tensor_id *made) {
    static const int64_t literal = 1;
    tn_tensor_id list;
    TN_TRY(tn__gradient_list(it, shape, rank, &list));
    return tn__gradient_op(it, "Reshape", TN__LIST(id, list), &TN__ATTR_INT("allowzero", &literal),
                           1, made);
}

/* Gradient of DepthToSpace: SpaceToDepth, which moves blocks of the image back into channels. */
tn_status tn__gradient_depth_to_space(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    int64_t block = tn__attr_int(&it->op, "blocksize", 1);
    const int64_t n = x.shape[0], height = x.shape[2], width = x.shape[3];
    if (strcmp(tn__attr_string(&it->op, "mode", "DCR"), "CRD") != 0)
        return tn__gradient_op(it, "SpaceToDepth", TN__LIST(it->given[0]),
                               &TN__ATTR_INT("blocksize", &block), 1, &it->found[0]);
    const int64_t parts[] = {n, x.shape[1] / (block * block), height, block, width, block};
    static const int64_t perm[] = {0, 1, 3, 5, 2, 4};
    tn_tensor_id wide, turned;
    TN_TRY(move_reshape(it, it->given[0], parts, 6, &wide));
    TN_TRY(tn__gradient_op(it, "Transpose", TN__LIST(wide), &TN__ATTR_INTS("perm", perm, 6), 1,
                           &turned));
    return tn__gradient_reshaped(it, 0, turned);
}

tn_status tn__gradient_space_to_depth(tn_gradient *it) {
    int64_t block = tn__attr_int(&it->op, "blocksize", 1);
    return tn__gradient_op(it, "DepthToSpace", TN__LIST(it->given[0]),
                           &TN__ATTR_INT("blocksize", &block), 1, &it->found[0]);
}

/* Gradient of ReverseSequence and Trilu: the same operator, applied to dy. */
tn_status tn__gradient_again(tn_gradient *it) {
    const tn_tensor_id in[] = {it->given[0], tn__gradient_in(it, 1)};
    return tn__gradient_op(it, it->op.type, in, it->op.input_count < 2 ? 1 : 2, it->op.attrs,
                           it->op.attr_count, &it->found[0]);
}

/* --- parts --- */

static tn_status move_part(tn_gradient *it, uint32_t input, int64_t axis, int64_t from,
                           int64_t to) {
    tn_tensor_id starts, ends, axes;
    TN_TRY(tn__gradient_list(it, &from, 1, &starts));
    TN_TRY(tn__gradient_list(it, &to, 1, &ends));
    TN_TRY(tn__gradient_list(it, &axis, 1, &axes));
    return tn__gradient_op(it, "Slice", TN__LIST(it->given[0], starts, ends, axes), NULL, 0,
                           &it->found[input]);
}

tn_status tn__gradient_concat(tn_gradient *it) {
    uint32_t axis;
    int64_t at = 0;
    TN_TRY(move_axis(it, tn__attr_int(&it->op, "axis", 1), tn__gradient_output(it, 0).rank, &axis));
    for (uint32_t i = 0; i < it->op.input_count; i++) {
        int64_t extent = tn__gradient_input(it, i).shape[axis];
        if (it->wanted[i]) TN_TRY(move_part(it, i, axis, at, at + extent));
        at += extent;
    }
    return TN_OK;
}

tn_status tn__gradient_split(tn_gradient *it) {
    const tn_context *context = tn_graph_context(it->graph);
    uint32_t count = it->op.output_count, axis;
    TN_TRY(move_axis(it, tn__attr_int(&it->op, "axis", 0), tn__gradient_input(it, 0).rank, &axis));
    int64_t along = axis;
    tn_tensor_id *parts = tn__alloc_array(context, count, sizeof *parts);
    tn_status status = parts == NULL ? tn__no_memory(it->error, "a gradient") : TN_OK;
    for (uint32_t k = 0; k < count && status == TN_OK; k++) {
        tn_tensor like = tn__gradient_output(it, k);
        parts[k] = it->given[k];
        if (parts[k] != TN_NONE) continue;
        status = like.rank == TN_RANK_UNKNOWN
                     ? tn__gradient_fail(it, "no gradient where an output is omitted")
                     : move_zeros(it, &like, &parts[k]);
    }
    if (status == TN_OK)
        status = tn__gradient_op(it, "Concat", parts, count, &TN__ATTR_INT("axis", &along), 1,
                                 &it->found[0]);
    tn__free(context, parts, count * sizeof *parts);
    return status;
}

static int64_t move_clamp(int64_t at, int64_t extent, int64_t high) {
    if (at < 0) at = at < -extent ? 0 : at + extent;
    return at > high ? high : at;
}

tn_status tn__gradient_slice(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0), y = tn__gradient_output(it, 0);
    const int64_t *starts, *axes, *steps;
    uint32_t count, axis_count, step_count, axis;
    int64_t from[TN_RANK_MAX] = {0}, by[TN_RANK_MAX];
    if (!move_list(it, 1, "starts", &starts, &count) ||
        !move_list(it, 3, "axes", &axes, &axis_count) ||
        !move_list(it, 4, "steps", &steps, &step_count))
        return tn__gradient_fail(it, "no gradient for a part that is not known in advance");
    for (uint32_t d = 0; d < x.rank; d++) by[d] = 1;
    for (uint32_t i = 0; i < count; i++) {
        if ((axes != NULL && i >= axis_count) || (steps != NULL && i >= step_count)) break;
        TN_TRY(move_axis(it, axes != NULL ? axes[i] : i, x.rank, &axis));
        by[axis] = steps != NULL ? steps[i] : 1;
        int64_t extent = x.shape[axis];
        from[axis] = move_clamp(starts[i], extent, by[axis] > 0 ? extent : extent - 1);
        /* with one element along the axis, the step is not used, and may exceed the extent */
        if (y.shape[axis] == 1) by[axis] = 1;
    }
    const tn_attr attrs[] = {TN__ATTR_INTS("shape", x.shape, x.rank),
                             TN__ATTR_INTS("starts", from, x.rank),
                             TN__ATTR_INTS("steps", by, x.rank)};
    return tn__gradient_own(it, "SliceGrad", TN__LIST(it->given[0]), attrs, 3, &it->found[0]);
}

/* Gradient of Pad: cuts off the padding. Elements that were cropped get zero. Modes that repeat
 * elements add the gradients of all copies. */
tn_status tn__gradient_pad(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    const char *mode = tn__attr_string(&it->op, "mode", "constant");
    const char *name = tn__attr(&it->op, "paddings") != NULL ? "paddings" : "pads";
    const int64_t *pads, *axes;
    uint32_t count, axis_count, axis;
    int64_t all[2 * TN_RANK_MAX] = {0};
    bool cuts = strcmp(mode, "constant") == 0;
    if (!move_list(it, 1, name, &pads, &count) || !move_list(it, 3, "axes", &axes, &axis_count))
        return tn__gradient_fail(it, "no gradient for paddings that are not known in advance");
    for (uint32_t i = 0; i < count / 2; i++) {
        TN_TRY(move_axis(it, axes != NULL && i < axis_count ? axes[i] : i, x.rank, &axis));
        all[axis] = cuts ? -pads[i] : pads[i];
        all[x.rank + axis] = cuts ? -pads[count / 2 + i] : pads[count / 2 + i];
    }
    if (!cuts) {
        const tn_attr attrs[] = {TN__ATTR_INTS("shape", x.shape, x.rank),
                                 TN__ATTR_INTS("pads", all, 2 * x.rank),
                                 TN__ATTR_STRING("mode", &mode)};
        return tn__gradient_own(it, "PadGrad", TN__LIST(it->given[0]), attrs, 3, &it->found[0]);
    }
    tn_tensor_id list;
    TN_TRY(tn__gradient_list(it, all, 2 * x.rank, &list));
    return tn__gradient_op(it, "Pad", TN__LIST(it->given[0], list), NULL, 0, &it->found[0]);
}

/* Gradient of CenterCropPad: pads around a part that was cut from the middle, and cuts what was
 * padded. */
tn_status tn__gradient_center_crop_pad(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    tn_tensor_id list;
    TN_TRY(tn__gradient_list(it, x.shape, x.rank, &list));
    return tn__gradient_op(it, "CenterCropPad", TN__LIST(it->given[0], list), NULL, 0,
                           &it->found[0]);
}

/* --- repetition --- */

tn_status tn__gradient_expand(tn_gradient *it) {
    return tn__gradient_unbroadcast(it, 0, 0, it->given[0]);
}

/* Gradient of Tile: views the tensor of extents [r a, s b] as [r, a, s, b] and sums over r and
 * s. */
tn_status tn__gradient_tile(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0), y = tn__gradient_output(it, 0);
    int64_t parts[TN_RANK_MAX], axes[TN_RANK_MAX], drop = 0;
    uint32_t rank = 0, count = 0;
    for (uint32_t d = 0; d < x.rank; d++) {
        int64_t times = x.shape[d] > 0 ? y.shape[d] / x.shape[d] : 1;
        if (rank + 2 > TN_RANK_MAX) return tn__gradient_fail(it, "too many dimensions");
        if (times != 1) {
            axes[count++] = rank;
            parts[rank++] = times;
        }
        parts[rank++] = x.shape[d];
    }
    it->found[0] = it->given[0];
    if (count == 0) return TN_OK;
    tn_tensor_id wide, list;
    TN_TRY(move_reshape(it, it->given[0], parts, rank, &wide));
    TN_TRY(tn__gradient_list(it, axes, count, &list));
    return tn__gradient_op(it, "ReduceSum", TN__LIST(wide, list), &TN__ATTR_INT("keepdims", &drop),
                           1, &it->found[0]);
}

/* --- indices --- */

tn_status tn__gradient_gather(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    uint32_t axis;
    TN_TRY(move_axis(it, tn__attr_int(&it->op, "axis", 0), x.rank, &axis));
    int64_t along = axis;
    const tn_attr attrs[] = {TN__ATTR_INTS("shape", x.shape, x.rank), TN__ATTR_INT("axis", &along)};
    return tn__gradient_own(it, "GatherGrad", TN__LIST(it->given[0], it->op.inputs[1]), attrs, 2,
                            &it->found[0]);
}

/* Scatters `updates` into zeros of the shape of input 0, along `axis`, adding them up. */
static tn_status move_scatter(tn_gradient *it, tn_tensor_id indices, tn_tensor_id updates,
                              int64_t axis) {
    static const char *const add = "add";
    tn_tensor x = tn__gradient_input(it, 0);
    tn_tensor_id zeros;
    const tn_attr attrs[] = {TN__ATTR_INT("axis", &axis), TN__ATTR_STRING("reduction", &add)};
    TN_TRY(move_zeros(it, &x, &zeros));
    return tn__gradient_op(it, "ScatterElements", TN__LIST(zeros, indices, updates), attrs, 2,
                           &it->found[0]);
}

tn_status tn__gradient_gather_elements(tn_gradient *it) {
    return move_scatter(it, it->op.inputs[1], it->given[0], tn__attr_int(&it->op, "axis", 0));
}

tn_status tn__gradient_gather_nd(tn_gradient *it) {
    static const char *const add = "add";
    tn_tensor x = tn__gradient_input(it, 0);
    tn_tensor_id zeros;
    if (tn__attr_int(&it->op, "batch_dims", 0) != 0)
        return tn__gradient_fail(it, "no gradient for indices with batch_dims");
    TN_TRY(move_zeros(it, &x, &zeros));
    return tn__gradient_op(it, "ScatterND", TN__LIST(zeros, it->op.inputs[1], it->given[0]),
                           &TN__ATTR_STRING("reduction", &add), 1, &it->found[0]);
}

/* Gradient of operators that overwrite elements: overwritten elements get zero (with the reduction
 * "add" all keep their gradient), and the updates get the gradients at the positions that they were
 * written to. */
static tn_status move_written(tn_gradient *it, const char *gather, const tn_attr *attrs,
                              uint32_t count) {
    const char *how = tn__attr_string(&it->op, "reduction", "none");
    bool adds = strcmp(how, "add") == 0;
    tn_tensor updates = tn__gradient_input(it, 2);
    tn_tensor_id zeros;
    if (!adds && strcmp(how, "none") != 0)
        return tn__gradient_fail(it, "no gradient for the reduction '%.20s'", how);
    if (it->wanted[0]) it->found[0] = it->given[0];
    if (it->wanted[0] && !adds) {
        TN_TRY(move_zeros(it, &updates, &zeros));
        const char *type = strcmp(it->op.type, "Scatter") == 0 ? "ScatterElements" : it->op.type;
        TN_TRY(tn__gradient_op(it, type, TN__LIST(it->given[0], it->op.inputs[1], zeros), attrs,
                               count, &it->found[0]));
    }
    if (!it->wanted[2]) return TN_OK;
    return tn__gradient_op(it, gather, TN__LIST(it->given[0], it->op.inputs[1]), attrs, count,
                           &it->found[2]);
}

tn_status tn__gradient_scatter_elements(tn_gradient *it) {
    int64_t axis = tn__attr_int(&it->op, "axis", 0);
    return move_written(it, "GatherElements", &TN__ATTR_INT("axis", &axis), 1);
}

tn_status tn__gradient_scatter_nd(tn_gradient *it) { return move_written(it, "GatherND", NULL, 0); }

tn_status tn__gradient_top_k(tn_gradient *it) {
    if (it->given[0] == TN_NONE) return TN_OK;
    if (it->op.output_count < 2 || it->op.outputs[1] == TN_NONE)
        return tn__gradient_fail(it, "no gradient without the output Indices");
    return move_scatter(it, it->op.outputs[1], it->given[0], tn__attr_int(&it->op, "axis", -1));
}

/* --- resampling --- */

/* Gradient of Resize and Upsample. In older operator sets, scales are another operand or an
 * attribute. */
tn_status tn__gradient_resize(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    bool upsample = strcmp(it->op.type, "Upsample") == 0;
    bool newer = !upsample && it->version >= 11 && it->op.input_count > 2;
    int64_t simple = upsample || it->version < 11;
    tn_attr attrs[16];
    uint32_t count = 0;
    for (uint32_t i = 0; i < it->op.attr_count && count < 14; i++) attrs[count++] = it->op.attrs[i];
    attrs[count++] = TN__ATTR_INT("simple", &simple);
    attrs[count++] = TN__ATTR_INTS("shape", x.shape, x.rank);
    return tn__gradient_own(it, "ResizeGrad",
                            TN__LIST(it->given[0], newer ? tn__gradient_in(it, 1) : TN_NONE,
                                     tn__gradient_in(it, newer ? 2 : 1),
                                     newer ? tn__gradient_in(it, 3) : TN_NONE),
                            attrs, count, &it->found[0]);
}

/* --- sampling --- */

tn_status tn__gradient_affine_grid(tn_gradient *it) {
    tn_tensor theta = tn__gradient_input(it, 0);
    int64_t align = tn__attr_int(&it->op, "align_corners", 0);
    const tn_attr attrs[] = {TN__ATTR_INT("align_corners", &align),
                             TN__ATTR_INTS("shape", theta.shape, theta.rank)};
    if (!it->wanted[0]) return TN_OK;
    return tn__gradient_own(it, "AffineGridGrad", TN__LIST(it->given[0]), attrs, 2, &it->found[0]);
}

/* Gradients of the image and of the coordinates. */
tn_status tn__gradient_grid_sample(tn_gradient *it) {
    return tn__gradient_some(it, "GridSampleGrad",
                             TN__LIST(it->given[0], it->op.inputs[0], it->op.inputs[1]),
                             it->op.attrs, it->op.attr_count, it->wanted, it->found, 2);
}
