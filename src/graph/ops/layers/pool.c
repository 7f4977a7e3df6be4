/* pool.c - pools: over windows, over everything, over regions of interest.
 *
 * Source: operator texts of ONNX, opsets 1 to 22.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

static tn_status pool_shape(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x)) {
        TN_TRY(tn__set_dtype(infer, 0, x->dtype));
        return tn__set_dtype(infer, 1, TN_INT64);
    }
    TN_TRY(tn__window_pool(infer, x, shape));
    TN_TRY(tn__set_output(infer, 0, x->dtype, x->rank, shape));
    return tn__set_output(infer, 1, TN_INT64, x->rank, shape);
}

static tn_status pool_shape_global(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 2) return tn__infer_fail(infer, "the input has fewer than 2 dimensions");
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = i < 2 ? x->shape[i] : 1;
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status pool_shape_unpool(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count;
    const int64_t *given = tn__value_ints(infer, 2, &count);
    int64_t shape[TN_RANK_MAX];
    tn__window window;
    if (given != NULL && count <= TN_RANK_MAX)
        return tn__set_output(infer, 0, x->dtype, count, given);
    if (tn__input(infer, 2) != NULL || !tn__rank_known(x) || x->rank < 3)
        return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(tn__window_read(infer, x->rank - 2, NULL, &window));
    for (uint32_t i = 0; i < x->rank; i++) {
        shape[i] = x->shape[i];
        if (i < 2 || shape[i] == TN_DIM_UNKNOWN) continue;
        int64_t steps;
        if (__builtin_mul_overflow(shape[i] - 1, window.stride[i - 2], &steps) ||
            steps > INT64_MAX / 2)
            return tn__infer_fail(infer, "an output extent overflows");
        shape[i] = steps + window.kernel[i - 2] - window.begin[i - 2] - window.end[i - 2];
        if (shape[i] < 0) return tn__infer_fail(infer, "padding leaves dimension %u negative", i);
    }
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* Sets the shape of a pool over regions [R, ...] of feature maps [N, C, H, W]: [R, C, height,
 * width]. */
static tn_status pool_regions(tn_infer *infer, int64_t height, int64_t width) {
    const tn_tensor *x = tn__input(infer, 0), *regions = tn__input(infer, 1);
    int64_t shape[4] = {TN_DIM_UNKNOWN, TN_DIM_UNKNOWN, height, width};
    if (tn__rank_known(regions) && regions->rank > 0) shape[0] = regions->shape[0];
    if (tn__rank_known(x) && x->rank > 1) shape[1] = x->shape[1];
    if (height < 0 || width < 0) return tn__infer_fail(infer, "the pooled shape is negative");
    return tn__set_output(infer, 0, x->dtype, 4, shape);
}

static tn_status pool_shape_roi_align(tn_infer *infer) {
    return pool_regions(infer, tn__attr_int(infer->op, "output_height", 1),
                        tn__attr_int(infer->op, "output_width", 1));
}

static tn_status pool_shape_roi_max(tn_infer *infer) {
    uint32_t count;
    const int64_t *pooled = tn__attr_ints(infer->op, "pooled_shape", &count);
    if (pooled == NULL || count != 2)
        return tn__infer_fail(infer, "attribute pooled_shape needs two values");
    return pool_regions(infer, pooled[0], pooled[1]);
}

static uint64_t pool_flops(tn_infer *infer) {
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(infer->op, "kernel_shape", &count);
    uint64_t taps = 1;
    for (uint32_t i = 0; i < count; i++)
        taps = tn__mul_sat(taps, kernel[i] > 0 ? (uint64_t)kernel[i] : 1);
    return tn__count_mul(tn__elements(tn__output(infer, 0)), taps);
}

static uint64_t pool_flops_global(tn_infer *infer) { return tn__elements(tn__input(infer, 0)); }

/* clang-format off */
#define POOL(name, outputs) .type = #name, .inputs_min = 1, .inputs_max = 1, \
    .outputs_max = outputs, .shape = pool_shape, .flops = pool_flops, \
    .split = tn__split_pool, .part_form = TN__FORM_WINDOW
#define POOL_GLOBAL(name) .type = #name, .inputs_min = 1, .inputs_max = 1, .outputs_max = 1, \
    .shape = pool_shape_global, .flops = pool_flops_global, .split = tn__split_global_pool
static const tn_op_rule pool_rules[] = {
    {POOL(AveragePool, 1), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_average_pool},
    {POOL_GLOBAL(GlobalAveragePool), .flags = TN_RULE_IMAGES,
     .gradient = tn__gradient_global_average_pool},
    {POOL_GLOBAL(GlobalLpPool), .gradient = tn__gradient_global_lp_pool},
    {POOL_GLOBAL(GlobalMaxPool), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_global_max_pool},
    {POOL(LpPool, 1), .gradient = tn__gradient_lp_pool},
    {POOL(MaxPool, 2), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_max_pool},
    {.type = "MaxRoiPool", .inputs_min = 2, .inputs_max = 2, .outputs_max = 1,
     .shape = pool_shape_roi_max, .flops_per = 1},
    {.type = "MaxUnpool", .inputs_min = 2, .inputs_max = 3, .outputs_max = 1,
     .shape = pool_shape_unpool, .flops_per = 1, .monotone = 4,
     .gradient = tn__gradient_max_unpool},
    {.type = "RoiAlign", .inputs_min = 3, .inputs_max = 3, .outputs_max = 1,
     .shape = pool_shape_roi_align, .flops_per = 16},
};
/* clang-format on */

TN_OP_FAMILY(pool, "");
