/* gradient_train.c - gradients of losses, of batch normalisation and dropout, of FakeQuantize, and
 * of operators that are divided among ranks.
 *
 * For the backward pass, a loss keeps the scores, and a batch normalisation in training keeps its
 * input and one mean and variance per channel.
 */
#include "graph/gradients/gradients.h"

/* --- gradients of the losses of domain "tenure", of Dropout and of batch normalisation -------- */

static tn_status train_loss(tn_gradient *it, const char *type, const tn_attr *attrs,
                            uint32_t count) {
    if (it->given[0] == TN_NONE) return TN_OK;
    return tn__gradient_own(it, type, TN__LIST(it->op.inputs[0], it->op.inputs[1], it->given[0]),
                            attrs, count, &it->found[0]);
}

tn_status tn__gradient_cross_entropy(tn_gradient *it) {
    int64_t axis = tn__attr_int(&it->op, "axis", 1);
    return train_loss(it, "CrossEntropyGrad", &TN__ATTR_INT("axis", &axis), 1);
}

tn_status tn__gradient_mean_squared(tn_gradient *it) {
    return train_loss(it, "MeanSquaredGrad", NULL, 0);
}

tn_status tn__gradient_batch_norm_train(tn_gradient *it) {
    const tn_tensor_id *in = it->op.inputs, *out = it->op.outputs;
    double epsilon = tn__attr_float(&it->op, "epsilon", (double)1e-5f);
    tn_tensor_id made[3];
    if (it->given[0] == TN_NONE) return TN_OK;
    TN_TRY(tn__gradient_many(it, "BatchNormGrad",
                             TN__LIST(it->given[0], in[0], in[1], out[3], out[4]),
                             &TN__ATTR_FLOAT("epsilon", &epsilon), 1, made, 3));
    for (uint32_t i = 0; i < 3; i++) it->found[i] = made[i];
    return TN_OK;
}

/* Gradient of DropoutTrain. It draws the mask of the forward pass again from its counter, so no
 * mask is kept, unless the operator returns the mask as bits (output 1). */
tn_status tn__gradient_dropout_train(tn_gradient *it) {
    double ratio = tn__attr_float(&it->op, "ratio", 0.5);
    if (it->op.output_count > 1 && it->op.outputs[1] != TN_NONE)
        return tn__gradient_own(it, "DropoutBits", TN__LIST(it->given[0], it->op.outputs[1]),
                                &TN__ATTR_FLOAT("ratio", &ratio), 1, &it->found[0]);
    tn_tensor_id inputs[3] = {it->given[0], tn__gradient_in(it, 1), tn__gradient_in(it, 2)};
    return tn__gradient_own(it, "DropoutTrain", inputs, it->op.input_count, it->op.attrs,
                            it->op.attr_count, &it->found[0]);
}

/* A Dropout in inference mode returns its input, so the gradient passes through. A Dropout
 * in training mode has become a DropoutTrain before, unless its ratio is 1 or not known; then the
 * gradient is refused. */
tn_status tn__gradient_dropout(tn_gradient *it) {
    uint32_t count;
    const int64_t *mode = tn__gradient_ints_of(it, 2, &count);
    bool draws = it->version < 7 ? tn__attr_int(&it->op, "is_test", 0) == 0
                                 : tn__gradient_in(it, 2) != TN_NONE &&
                                       (mode == NULL || count == 0 || mode[0] != 0);
    if (draws) return tn__gradient_fail(it, "no gradient where the share is not known, or 1");
    it->found[0] = it->given[0];
    return TN_OK;
}

/* Reshapes a tensor [channels] to [1, channels, 1, ...]. */
static tn_status train_per_channel(tn_gradient *it, tn_tensor_id id, uint32_t rank,
                                   int64_t channels, tn_tensor_id *wide) {
    int64_t shape[TN_RANK_MAX];
    tn_tensor_id list;
    for (uint32_t d = 0; d < rank; d++) shape[d] = d == 1 ? channels : 1;
    TN_TRY(tn__gradient_list(it, shape, rank, &list));
    return tn__gradient_op(it, "Reshape", TN__LIST(id, list), NULL, 0, wide);
}

/* Computes 1 / sqrt(variance + epsilon) for each channel. */
static tn_status train_deviation(tn_gradient *it, tn_tensor_id *inverse) {
    double epsilon = tn__attr_float(&it->op, "epsilon", (double)1e-5f);
    tn_tensor_id small, sum, root;
    TN_TRY(tn__gradient_number(it, tn__gradient_input(it, 4).dtype, epsilon, &small));
    TN_TRY(tn__gradient_op(it, "Add", TN__LIST(it->op.inputs[4], small), NULL, 0, &sum));
    TN_TRY(tn__gradient_op(it, "Sqrt", TN__LIST(sum), NULL, 0, &root));
    return tn__gradient_op(it, "Reciprocal", TN__LIST(root), NULL, 0, inverse);
}

/* Sums over all dimensions except the channels. */
static tn_status train_channel_sum(tn_gradient *it, tn_tensor_id id, uint32_t rank,
                                   tn_tensor_id *sum) {
    int64_t axes[TN_RANK_MAX], drop = 0;
    uint32_t count = 0;
    tn_tensor_id list;
    for (uint32_t d = 0; d < rank; d++)
        if (d != 1) axes[count++] = d;
    TN_TRY(tn__gradient_list(it, axes, count, &list));
    return tn__gradient_op(it, "ReduceSum", TN__LIST(id, list), &TN__ATTR_INT("keepdims", &drop), 1,
                           sum);
}

/* Gradient of the scale: d scale = sum dy (x - mean) / deviation. */
static tn_status train_given_scale(tn_gradient *it, const tn_tensor *x, tn_tensor_id inverse) {
    tn_tensor_id mean, centered, product, sum;
    TN_TRY(train_per_channel(it, it->op.inputs[3], x->rank, x->shape[1], &mean));
    TN_TRY(tn__gradient_op(it, "Sub", TN__LIST(it->op.inputs[0], mean), NULL, 0, &centered));
    TN_TRY(tn__gradient_op(it, "Mul", TN__LIST(it->given[0], centered), NULL, 0, &product));
    TN_TRY(train_channel_sum(it, product, x->rank, &sum));
    return tn__gradient_op(it, "Mul", TN__LIST(sum, inverse), NULL, 0, &it->found[1]);
}

/* Gradient of BatchNormalization in inference mode: y = (x - mean) scale / deviation + bias. Mean
 * and variance are given constants and have no gradient. */
tn_status tn__gradient_batch_norm(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0), scale = tn__gradient_input(it, 1);
    tn_tensor_id inverse, factor, wide;
    if (it->given[0] == TN_NONE || tn__gradient_given(it, 1) != TN_NONE ||
        tn__gradient_given(it, 2) != TN_NONE)
        return tn__gradient_fail(it, "no gradient through statistics of a normalisation");
    if (x.rank < 2 || scale.rank != 1)
        return tn__gradient_fail(it, "no gradient for a normalisation that is not per channel");
    if (tn__attr_int(&it->op, "training_mode", 0) != 0)
        return tn__gradient_fail(it, "no gradient where running statistics are shared");
    TN_TRY(train_deviation(it, &inverse));
    if (it->wanted[2]) TN_TRY(train_channel_sum(it, it->given[0], x.rank, &it->found[2]));
    if (it->wanted[1]) TN_TRY(train_given_scale(it, &x, inverse));
    if (!it->wanted[0]) return TN_OK;
    TN_TRY(tn__gradient_op(it, "Mul", TN__LIST(it->op.inputs[1], inverse), NULL, 0, &factor));
    TN_TRY(train_per_channel(it, factor, x.rank, x.shape[1], &wide));
    if (x.dtype != scale.dtype) {
        /* ONNX's numbers of element types, as the attribute `to` needs them */
        int64_t to = x.dtype;
        TN_TRY(tn__gradient_op(it, "Cast", TN__LIST(wide), &TN__ATTR_INT("to", &to), 1, &wide));
    }
    return tn__gradient_op(it, "Mul", TN__LIST(it->given[0], wide), NULL, 0, &it->found[0]);
}

/* --- gradients of the losses of ONNX ---------------------------------------------------------- */

/* Gradients of ONNX's own losses, for models that output their loss.
 *
 * Let q be the softmax of the scores. Then d scores = s (q - 1 at the label), and for the
 * likelihood s (-1 at the label). Here s is the weight of a sample's loss: the weight of its class,
 * 0 if the label is to be ignored, divided by the sum of these with reduction mean.
 */

typedef struct loss_targets {
    tn_dtype dtype;
    tn_tensor_id labels;  /* labels as int64; ignored labels are replaced by 0 */
    tn_tensor_id ignored; /* marks the labels that are ignored; TN_NONE: no label can be ignored */
    tn_tensor_id counts;  /* weight of each sample in the loss */
} loss_targets;

/* Replaces labels that are to be ignored by 0, because they may be any number, and marks them in
 * frame->ignored. */
static tn_status loss_labels(tn_gradient *it, loss_targets *frame) {
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

static tn_status loss_counts(tn_gradient *it, loss_targets *frame) {
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

/* Computes dy for each sample, times the weight of the sample. */
static tn_status loss_scale(tn_gradient *it, const loss_targets *frame, tn_tensor_id *scale) {
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

/* Makes a one-hot tensor: 1 at the label's class, 0 at the others. */
static tn_status loss_hot(tn_gradient *it, const loss_targets *frame, int64_t classes,
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
    loss_targets frame = {.dtype = x.dtype};
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

/* --- gradients of operators that are divided among ranks -------------------------------------- */

/* Gradients of operators that are divided among ranks (graph/ops/training/ranks.c).
 *
 * The loss is one number on all ranks, so the result of a sum over ranks has the same gradient on
 * all of them, which is the gradient of each summand. A tensor that all ranks read, each for its
 * part, gets the sum of their gradients. If a rank has only a part of a tensor, the same holds for
 * that part.
 */

tn_status tn__gradient_rank_sum(tn_gradient *it) {
    it->found[0] = it->given[0];
    return TN_OK;
}

/* d x = d y where x is within the range of the quantised type, else 0: the straight-through
 * estimator (Bengio et al. 2013; Jacob et al. 2018). */
tn_status tn__gradient_fake_quantize(tn_gradient *it) {
    const tn_tensor_id operands[] = {it->op.inputs[0], it->op.inputs[1], tn__gradient_in(it, 2),
                                     it->given[0]};
    return tn__gradient_own(it, "FakeQuantizeGrad", operands, 4, it->op.attrs, it->op.attr_count,
                            &it->found[0]);
}

tn_status tn__gradient_rank_copy(tn_gradient *it) {
    return tn__gradient_own(it, "RankSum", TN__LIST(it->given[0]), NULL, 0, &it->found[0]);
}

/* Copies the attributes that say how the operator's tensors are divided among ranks. */
static uint32_t ranks_attrs(const tn_gradient *it, tn_attr attrs[3]) {
    static const char *const names[] = {"axis", "ranks", "rank"};
    uint32_t count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const tn_attr *attr = tn__attr(&it->op, names[i]);
        if (attr != NULL) attrs[count++] = *attr;
    }
    return count;
}

tn_status tn__gradient_rank_scatter(tn_gradient *it) {
    tn_attr attrs[3];
    uint32_t count = ranks_attrs(it, attrs);
    return tn__gradient_own(it, "RankGather", TN__LIST(it->given[0]), attrs, count, &it->found[0]);
}

/* Sets the gradient of an operand to this rank's part of a gradient that all ranks have. */
static tn_status ranks_own(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    int64_t axis = tn__attr_int(&it->op, "axis", 0);
    if (axis < 0) axis += x.rank;
    int64_t first = tn__attr_int(&it->op, "rank", 0) * x.shape[axis];
    int64_t last = first + x.shape[axis];
    tn_tensor_id from, to, along;
    TN_TRY(tn__gradient_list(it, &first, 1, &from));
    TN_TRY(tn__gradient_list(it, &last, 1, &to));
    TN_TRY(tn__gradient_list(it, &axis, 1, &along));
    return tn__gradient_op(it, "Slice", TN__LIST(it->given[0], from, to, along), NULL, 0,
                           &it->found[0]);
}

tn_status tn__gradient_rank_gather(tn_gradient *it) {
    tn_attr attrs[3];
    uint32_t count = ranks_attrs(it, attrs);
    if (tn__attr_int(&it->op, "alike", 0) != 0) return ranks_own(it);
    return tn__gradient_own(it, "RankScatter", TN__LIST(it->given[0]), attrs, count, &it->found[0]);
}

tn_status tn__gradient_gather_part(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    int64_t axis = tn__attr_int(&it->op, "axis", 0), first = tn__attr_int(&it->op, "first", 0);
    if (axis < 0) axis += x.rank;
    int64_t whole = tn__attr_int(&it->op, "whole", x.shape[axis]);
    const tn_attr attrs[] = {TN__ATTR_INTS("shape", x.shape, x.rank), TN__ATTR_INT("axis", &axis),
                             TN__ATTR_INT("first", &first), TN__ATTR_INT("whole", &whole)};
    return tn__gradient_own(it, "GatherGrad", TN__LIST(it->given[0], it->op.inputs[1]), attrs, 4,
                            &it->found[0]);
}

tn_status tn__gradient_class_loss_parts(tn_gradient *it) {
    const tn_tensor_id *in = it->op.inputs;
    if (it->given[0] == TN_NONE) return TN_OK;
    return tn__gradient_own(it, "ClassLossGrad", TN__LIST(in[0], in[1], in[2], in[3], it->given[0]),
                            it->op.attrs, it->op.attr_count, &it->found[0]);
}
