/* image.c - resampling, sampling grids, cropping.
 *
 * Source: operator texts of ONNX, opsets 7 to 21.
 */
#include <math.h>

#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

static tn_status image_scale(tn_infer *infer, int64_t extent, double scale, int64_t *result) {
    *result = TN_DIM_UNKNOWN;
    if (extent == TN_DIM_UNKNOWN) return TN_OK;
    double scaled = tn__window_scaled(extent, scale);
    if (!(scaled >= 0) || scaled > 9e15)
        return tn__infer_fail(infer, "an extent of %lld scaled by %g is out of range",
                              (long long)extent, scale);
    *result = (int64_t)scaled;
    return TN_OK;
}

/* The axes that the scales or sizes apply to: all axes, unless the attribute `axes` lists some. */
static tn_status image_axes(tn_infer *infer, uint32_t rank, uint32_t count, uint32_t *axes) {
    uint32_t given_count;
    const int64_t *given = tn__attr_ints(infer->op, "axes", &given_count);
    if (count != (given != NULL ? given_count : rank))
        return tn__infer_fail(infer, "%u scales or sizes for %u axes", count,
                              given != NULL ? given_count : rank);
    for (uint32_t i = 0; i < count; i++) {
        axes[i] = i;
        if (given != NULL) TN_TRY(tn__axis(infer, given[i], rank, &axes[i]));
    }
    return TN_OK;
}

/* Handles keep_aspect_ratio_policy: one scale for all axes, the smallest or the largest one;
 * extents are rounded. */
static void image_keep_aspect(tn_infer *infer, const tn_tensor *x, const uint32_t *axes,
                              uint32_t count, int64_t *shape) {
    const char *policy = tn__attr_string(infer->op, "keep_aspect_ratio_policy", "stretch");
    bool larger = strcmp(policy, "not_larger") != 0;
    double best = 0;
    if (strcmp(policy, "stretch") == 0) return;
    for (uint32_t i = 0; i < count; i++) {
        if (x->shape[axes[i]] <= 0) return;
        double scale = (double)shape[axes[i]] / (double)x->shape[axes[i]];
        if (i == 0 || (larger ? scale > best : scale < best)) best = scale;
    }
    for (uint32_t i = 0; i < count; i++)
        shape[axes[i]] = (int64_t)floor(best * (double)x->shape[axes[i]] + 0.5);
}

static tn_status image_by_sizes(tn_infer *infer, const int64_t *sizes, uint32_t count) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t axes[TN_RANK_MAX];
    if (count > TN_RANK_MAX) return tn__infer_fail(infer, "%u sizes", count);
    TN_TRY(image_axes(infer, x->rank, count, axes));
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] < 0) return tn__infer_fail(infer, "size %lld", (long long)sizes[i]);
        shape[axes[i]] = sizes[i];
    }
    image_keep_aspect(infer, x, axes, count, shape);
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status image_by_scales(tn_infer *infer, const tn_value *scales) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t axes[TN_RANK_MAX];
    if (scales->count > TN_RANK_MAX) return tn__infer_fail(infer, "%u scales", scales->count);
    TN_TRY(image_axes(infer, x->rank, scales->count, axes));
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    for (uint32_t i = 0; i < scales->count; i++)
        TN_TRY(image_scale(infer, x->shape[axes[i]], tn__value_at(scales, i), &shape[axes[i]]));
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* Sets the shape of Resize. In opset 10 its inputs are (X, scales); since opset 11 they are (X,
 * roi, scales, sizes), where scales or sizes is empty. */
static tn_status image_shape_resize(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count;
    bool newer = infer->version >= 11 && tn__input_count(infer) > 2;
    const int64_t *sizes = newer ? tn__value_ints(infer, 3, &count) : NULL;
    const tn_value *scales = tn__value(infer, newer ? 2 : 1);
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (sizes != NULL && count > 0) return image_by_sizes(infer, sizes, count);
    if (scales != NULL && scales->count > 0) return image_by_scales(infer, scales);
    return tn__set_output(infer, 0, x->dtype, x->rank, tn__unknown_extents);
}

static tn_status image_shape_upsample(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    const tn_attr *attr = tn__attr(infer->op, "scales");
    const tn_value *scales = tn__value(infer, 1);
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    tn_value given = {.count = attr != NULL ? attr->count : 0,
                      .floats = attr != NULL ? attr->floats : NULL};
    if (given.floats != NULL) scales = &given;
    if (scales != NULL && scales->count > 0) return image_by_scales(infer, scales);
    return tn__set_output(infer, 0, x->dtype, x->rank, tn__unknown_extents);
}

/* Sets the shape of GridSample: X [N, C, in...] and a grid [N, out..., dims] give [N, C,
 * out...]. */
static tn_status image_shape_grid_sample(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *grid = tn__input(infer, 1);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x) || !tn__rank_known(grid)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 3 || grid->rank != x->rank)
        return tn__infer_fail(infer, "input of rank %u and grid of rank %u", x->rank, grid->rank);
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = i < 2 ? x->shape[i] : grid->shape[i - 1];
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* Sets the shape of AffineGrid: the size (N, C, spatial...) gives [N, spatial..., dims]. */
static tn_status image_shape_affine_grid(tn_infer *infer) {
    const tn_tensor *theta = tn__input(infer, 0);
    uint32_t count;
    const int64_t *size = tn__value_ints(infer, 1, &count);
    int64_t shape[TN_RANK_MAX];
    if (size == NULL || count < 3 || count > TN_RANK_MAX)
        return tn__set_dtype(infer, 0, theta->dtype);
    for (uint32_t i = 0; i < count; i++)
        if (size[i] < 0) return tn__infer_fail(infer, "an extent of %lld", (long long)size[i]);
    shape[0] = size[0];
    for (uint32_t i = 2; i < count; i++) shape[i - 1] = size[i];
    shape[count - 1] = count - 2;
    return tn__set_output(infer, 0, theta->dtype, count, shape);
}

static tn_status image_shape_crop(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count, given_count;
    const int64_t *target = tn__value_ints(infer, 1, &count);
    const int64_t *given = tn__attr_ints(infer->op, "axes", &given_count);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x) || target == NULL) return tn__set_dtype(infer, 0, x->dtype);
    if (count != (given != NULL ? given_count : x->rank))
        return tn__infer_fail(infer, "%u extents for another number of axes", count);
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = i;
        if (given != NULL) TN_TRY(tn__axis(infer, given[i], x->rank, &axis));
        shape[axis] = target[i];
    }
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* clang-format off */
static const tn_op_rule image_rules[] = {
    {.type = "AffineGrid", .inputs_min = 2, .inputs_max = 2, .outputs_max = 1,
     .shape = image_shape_affine_grid, .flops_per = 6, .monotone = 2, .no_gradient = 2,
     .gradient = tn__gradient_affine_grid},
    {.type = "CenterCropPad", .inputs_min = 2, .inputs_max = 2, .outputs_max = 1,
     .shape = image_shape_crop, .flops_per = 0, .monotone = 2,
     .gradient = tn__gradient_center_crop_pad},
    {.type = "GridSample", .inputs_min = 2, .inputs_max = 2, .outputs_max = 1,
     .shape = image_shape_grid_sample, .flops_per = 8, .gradient = tn__gradient_grid_sample},
    {.type = "Resize", .inputs_min = 1, .inputs_max = 4, .outputs_max = 1,
     .shape = image_shape_resize, .flops_per = 8, .monotone = 12, .no_gradient = 2 | 4 | 8,
     .split = tn__split_resize,     .gradient = tn__gradient_resize},
    {.type = "Upsample", .inputs_min = 1, .inputs_max = 2, .outputs_max = 1,
     .shape = image_shape_upsample, .flops_per = 8, .no_gradient = 2,
     .split = tn__split_resize, .gradient = tn__gradient_resize},
};
/* clang-format on */

TN_OP_FAMILY(image, "");
