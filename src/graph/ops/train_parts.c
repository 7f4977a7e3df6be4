/* train_parts.c - gradients that are operators of their own, because ONNX's operators would keep or
 * move more.
 *
 *   ClipGrad(d y, y, low, high) -> d x                        zero where y is a bound
 *   GatherGrad(d y, indices) -> d x                           shape, axis; first, whole: it is rows
 *                                                             from `first` on, of `whole`
 *   LRNGrad(d y, x) -> d x                                    those of LRN
 *   LogSoftmaxGrad, SoftmaxGrad(d y, y) -> d x                axis; flat: all from it on is a row;
 *                                                             alpha: a factor of the gradient
 *   NormalizationGrad(d y, x, scale) -> d x, d scale, d bias  count, cycle, each, run: slices of
 *                                                             `count` elements, in slice s element
 *                                                             i has scale (s % cycle) * each +
 *                                                             i / run; epsilon; centered: the mean
 *                                                             was taken off
 *   PadGrad(d y) -> d x                                       shape, pads, mode
 *   ResizeGrad(d y, roi, scales, sizes) -> d x                shape, simple, and those of Resize
 *   SliceGrad(d y) -> d x                                     shape; starts, steps per dimension
 */
#include "graph/fold.h"
#include "graph/window.h"

static tn_status parts_shape_like(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 1));
}

static tn_status parts_shape_given(tn_infer *infer) {
    uint32_t count;
    const int64_t *shape = tn__attr_ints(infer->op, "shape", &count);
    if (count > TN_RANK_MAX) return tn__infer_fail(infer, "attribute shape is missing");
    return tn__set_output(infer, 0, tn__input(infer, 0)->dtype, count, shape);
}

static tn_status parts_shape_normalization(tn_infer *infer) {
    static const uint32_t like[] = {1, 2, 2};
    for (uint32_t k = 0; k < tn__output_count(infer); k++)
        TN_TRY(tn__set_like(infer, k, tn__input(infer, like[k])));
    return TN_OK;
}

/* Every element given is added once (Resize: once per tap). */
static uint64_t parts_flops_given(tn_infer *infer) { return tn__elements(tn__input(infer, 0)); }

static uint64_t parts_flops_resize(tn_infer *infer) {
    return tn__count_mul(tn__elements(tn__input(infer, 0)), 8);
}

/* clang-format off */
#define PARTS(name, least, most, outputs, rule) .type = #name, .inputs_min = least, \
    .inputs_max = most, .outputs_max = outputs, .shape = rule
static const tn_op_rule train_parts_rules[] = {
    {PARTS(ClipGrad, 2, 4, 1, parts_shape_like), .flops_per = 2, .inplace = 3},
    {PARTS(GatherGrad, 2, 2, 1, parts_shape_given), .flops = parts_flops_given},
    {PARTS(LRNGrad, 2, 2, 1, parts_shape_like), .flops_per = 40, .inplace = 3},
    {PARTS(LogSoftmaxGrad, 2, 2, 1, parts_shape_like), .flops_per = 13, .inplace = 3},
    {PARTS(NormalizationGrad, 3, 3, 3, parts_shape_normalization), .flops_per = 14, .inplace = 3},
    {PARTS(PadGrad, 1, 1, 1, parts_shape_given), .flops = parts_flops_given},
    {PARTS(ResizeGrad, 1, 4, 1, parts_shape_given), .flops = parts_flops_resize},
    {PARTS(SliceGrad, 1, 1, 1, parts_shape_given)},
    {PARTS(SoftmaxGrad, 2, 2, 1, parts_shape_like), .flops_per = 4, .inplace = 3},
};
/* clang-format on */

TN_OP_FAMILY(train_parts, "tenure");
