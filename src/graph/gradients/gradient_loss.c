/* gradient_loss.c - gradients of ONNX's own losses, for models whose output is their loss.
 *
 * Let q be the softmax of the scores. Then d scores = s (q - 1 at the label), and for the
 * likelihood s (-1 at the label). Here s is the weight of a sample's loss: the weight of its class,
 * 0 if the label is to be ignored, divided by the sum of these with reduction mean.
 */
#include "graph/gradients/gradients.h"

typedef struct loss_frame {
    tn_dtype dtype;
    tn_tensor_id labels;  /* int64; 0 where they are ignored */
    tn_tensor_id ignored; /* TN_NONE: none can be */
    tn_tensor_id counts;  /* weight of each sample */
} loss_frame;

/* Labels that are to be ignored may be any number: they are read as 0, and count nothing. */
static tn_status loss_labels(tn_gradient *it, loss_frame *frame) {
    static const int64_t wide = TN_INT64;
    const tn_attr *ignore = tn__attr(&it->op, "ignore_index");
    tn_tensor_id number, zero;
    frame->ignored = TN_NONE;
    TN_TRY(tn__gradient_op(it, "Cast", TN__LIST(it->op.inputs[1]), &TN__ATTR_INT("to", &wide), 1,
                           &frame->labels));
    if (ignore == NULL || ignore->ints == NULL) return TN_OK;
    TN_TRY(tn__gradient_integer(it, ignore->ints[0], &number));
    TN_TRY(tn__gradient_integer(it, 0, &zero));
    TN_TRY(tn__gradient_op(it, "Equal", TN__LIST(frame->labels, number), NULL, 0, &frame->ignored));
    return tn__gradient_op(it, "Where", TN__LIST(frame->ignored, zero, frame->labels), NULL, 0,
                           &frame->labels);
}

static tn_status loss_counts(tn_gradient *it, loss_frame *frame) {
    tn_tensor labels = tn__gradient_input(it, 1);
    tn_tensor_id one, zero, list, weights = tn__gradient_in(it, 2);
    TN_TRY(tn__gradient_number(it, frame->dtype, 1, &one));
    TN_TRY(tn__gradient_number(it, frame->dtype, 0, &zero));
    if (weights != TN_NONE) {
        TN_TRY(tn__gradient_op(it, "Gather", TN__LIST(weights, frame->labels), NULL, 0,
                               &frame->counts));
    } else {
        TN_TRY(tn__gradient_list(it, labels.shape, labels.rank, &list));
        TN_TRY(tn__gradient_op(it, "Expand", TN__LIST(one, list), NULL, 0, &frame->counts));
    }
    if (frame->ignored == TN_NONE) return TN_OK;
    return tn__gradient_op(it, "Where", TN__LIST(frame->ignored, zero, frame->counts), NULL, 0,
                           &frame->counts);
}

/* dy for each sample, times the weight of the sample. */
static tn_status loss_scale(tn_gradient *it, const loss_frame *frame, tn_tensor_id *scale) {
    const char *reduction = tn__attr_string(&it->op, "reduction", "mean");
    static const int64_t flat = 0, all = -1;
    tn_tensor_id dy = it->given[0], counts = frame->counts, list, line, sum;
    if (strcmp(reduction, "mean") == 0) {
        TN_TRY(tn__gradient_list(it, &all, 1, &list));
        TN_TRY(tn__gradient_op(it, "Reshape", TN__LIST(counts, list), NULL, 0, &line));
        TN_TRY(tn__gradient_op(it, "ReduceSum", TN__LIST(line), &TN__ATTR_INT("keepdims", &flat), 1,
                               &sum));
        TN_TRY(tn__gradient_op(it, "Div", TN__LIST(counts, sum), NULL, 0, &counts));
    }
    return tn__gradient_op(it, "Mul", TN__LIST(counts, dy), NULL, 0, scale);
}

/* 1 at the label, 0 elsewhere. */
static tn_status loss_hot(tn_gradient *it, const loss_frame *frame, int64_t classes,
                          const int64_t *axis, tn_tensor_id *hot) {
    static const int64_t ends[] = {0, 1};
    int64_t to = frame->dtype;
    tn_tensor_id depth, list, values;
    TN_TRY(tn__gradient_integer(it, classes, &depth));
    TN_TRY(tn__gradient_list(it, ends, 2, &list));
    TN_TRY(tn__gradient_op(it, "Cast", TN__LIST(list), &TN__ATTR_INT("to", &to), 1, &values));
    return tn__gradient_op(it, "OneHot", TN__LIST(frame->labels, depth, values),
                           &TN__ATTR_INT("axis", axis), 1, hot);
}

tn_status tn__gradient_class_loss(tn_gradient *it) {
    static const int64_t axis = 1;
    const bool soft = strcmp(it->op.type, "SoftmaxCrossEntropyLoss") == 0;
    tn_tensor x = tn__gradient_input(it, 0);
    loss_frame frame = {.dtype = x.dtype};
    tn_tensor_id scale, list, wide, hot, less;
    if (it->given[0] == TN_NONE || tn__gradient_given(it, 1) != TN_NONE)
        return tn__gradient_fail(it, "no gradient through log_prob; take LogSoftmax for it");
    TN_TRY(loss_labels(it, &frame));
    TN_TRY(loss_counts(it, &frame));
    TN_TRY(loss_scale(it, &frame, &scale));
    TN_TRY(tn__gradient_list(it, &axis, 1, &list));
    TN_TRY(tn__gradient_op(it, "Unsqueeze", TN__LIST(scale, list), NULL, 0, &wide));
    TN_TRY(loss_hot(it, &frame, x.shape[1], &axis, &hot));
    if (soft) {
        TN_TRY(tn__gradient_op(it, "Softmax", TN__LIST(it->op.inputs[0]),
                               &TN__ATTR_INT("axis", &axis), 1, &less));
        TN_TRY(tn__gradient_op(it, "Sub", TN__LIST(less, hot), NULL, 0, &less));
    } else {
        TN_TRY(tn__gradient_op(it, "Neg", TN__LIST(hot), NULL, 0, &less));
    }
    return tn__gradient_op(it, "Mul", TN__LIST(less, wide), NULL, 0, &it->found[0]);
}
