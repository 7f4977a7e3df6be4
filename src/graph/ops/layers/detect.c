/* detect.c - the losses, and NonMaxSuppression. Its output has a data-dependent size, for which its
 * rule gives a bound.
 *
 * NonMaxSuppression selects at most max_output_boxes_per_class boxes per batch element and class,
 * never more than there are.
 * Source: operator texts of ONNX, opsets 10 to 22.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"

static tn_status detect_shape_nms(tn_infer *infer) {
    const tn_tensor *boxes = tn__input(infer, 0), *scores = tn__input(infer, 1);
    uint32_t count;
    const int64_t *limit = tn__value_ints(infer, 2, &count);
    int64_t shape[2] = {TN_DIM_UNKNOWN, 3}, most = 0;
    if (tn__rank_known(boxes) && tn__rank_known(scores) && boxes->rank == 3 && scores->rank == 3) {
        most = boxes->shape[1];
        if (limit != NULL && count > 0 && (most == TN_DIM_UNKNOWN || limit[0] < most))
            most = limit[0];
        /* without the input max_output_boxes_per_class, its default of 0 selects no boxes */
        if (tn__input(infer, 2) == NULL) most = 0;
        int64_t pairs;
        bool known =
            most != TN_DIM_UNKNOWN && most >= 0 && scores->shape[0] >= 0 && scores->shape[1] >= 0;
        if (known && (__builtin_mul_overflow(scores->shape[0], scores->shape[1], &pairs) ||
                      __builtin_mul_overflow(pairs, most, &shape[0])))
            return tn__infer_fail(infer, "the number of selected boxes overflows");
    }
    TN_TRY(tn__set_output(infer, 0, TN_INT64, 2, shape));
    if (shape[0] != TN_DIM_UNKNOWN) tn__set_bound_axis(infer, 0, 0);
    return TN_OK;
}

/* Sets the shape of a loss: one number for the batch, or one per target with reduction "none". The
 * second output of SoftmaxCrossEntropyLoss holds the logarithms of the probabilities. */
static tn_status detect_shape_loss(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *target = tn__input(infer, 1);
    bool none = strcmp(tn__attr_string(infer->op, "reduction", "mean"), "none") == 0;
    TN_TRY(tn__set_like(infer, 1, x));
    if (!none) return tn__set_output(infer, 0, x->dtype, 0, NULL);
    if (!tn__rank_known(target)) return tn__set_dtype(infer, 0, x->dtype);
    return tn__set_output(infer, 0, x->dtype, target->rank, target->shape);
}

static uint64_t detect_flops(tn_infer *infer) { return tn__elements(tn__input(infer, 0)); }

/* clang-format off */
static const tn_op_rule detect_rules[] = {
    {.type = "NegativeLogLikelihoodLoss", .inputs_min = 2, .inputs_max = 3, .outputs_max = 1,
     .shape = detect_shape_loss, .flops = detect_flops, .no_gradient = 2 | 4,
     .gradient = tn__gradient_class_loss},
    {.type = "NonMaxSuppression", .inputs_min = 2, .inputs_max = 5, .outputs_max = 1,
     .shape = detect_shape_nms, .flops = detect_flops, .monotone = 4},
    {.type = "SoftmaxCrossEntropyLoss", .inputs_min = 2, .inputs_max = 3, .outputs_max = 2,
     .shape = detect_shape_loss, .flops = detect_flops, .no_gradient = 2 | 4,
     .gradient = tn__gradient_class_loss},
};
/* clang-format on */

TN_OP_FAMILY(detect, "");
