/* gradient_train.c - gradients of losses and of batch normalisation.
 *
 * A loss keeps the scores; a normalisation its input and one mean and variance per channel.
 */
#include "graph/gradients/gradients.h"

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

/* Draws the mask of the forward pass again from its counter, so no mask is kept, unless the
 * operator returns it as bits (output 1). */
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

/* [channels] as [1, channels, 1, ...]. */
static tn_status train_per_channel(tn_gradient *it, tn_tensor_id id, uint32_t rank,
                                   int64_t channels, tn_tensor_id *wide) {
    int64_t shape[TN_RANK_MAX];
    tn_tensor_id list;
    for (uint32_t d = 0; d < rank; d++) shape[d] = d == 1 ? channels : 1;
    TN_TRY(tn__gradient_list(it, shape, rank, &list));
    return tn__gradient_op(it, "Reshape", TN__LIST(id, list), NULL, 0, wide);
}

/* 1 / sqrt(variance + epsilon), per channel. */
static tn_status train_deviation(tn_gradient *it, tn_tensor_id *inverse) {
    double epsilon = tn__attr_float(&it->op, "epsilon", (double)1e-5f);
    tn_tensor_id small, sum, root;
    TN_TRY(tn__gradient_number(it, tn__gradient_input(it, 4).dtype, epsilon, &small));
    TN_TRY(tn__gradient_op(it, "Add", TN__LIST(it->op.inputs[4], small), NULL, 0, &sum));
    TN_TRY(tn__gradient_op(it, "Sqrt", TN__LIST(sum), NULL, 0, &root));
    return tn__gradient_op(it, "Reciprocal", TN__LIST(root), NULL, 0, inverse);
}

/* Sums over all but the channels. */
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

/* d scale = sum dy (x - mean) / deviation. */
static tn_status train_given_scale(tn_gradient *it, const tn_tensor *x, tn_tensor_id inverse) {
    tn_tensor_id mean, centered, product, sum;
    TN_TRY(train_per_channel(it, it->op.inputs[3], x->rank, x->shape[1], &mean));
    TN_TRY(tn__gradient_op(it, "Sub", TN__LIST(it->op.inputs[0], mean), NULL, 0, &centered));
    TN_TRY(tn__gradient_op(it, "Mul", TN__LIST(it->given[0], centered), NULL, 0, &product));
    TN_TRY(train_channel_sum(it, product, x->rank, &sum));
    return tn__gradient_op(it, "Mul", TN__LIST(sum, inverse), NULL, 0, &it->found[1]);
}

/* y = (x - mean) scale / deviation + bias, mean and variance given: those are no variables. */
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
        int64_t to = x.dtype; /* the numbers of ONNX */
        TN_TRY(tn__gradient_op(it, "Cast", TN__LIST(wide), &TN__ATTR_INT("to", &to), 1, &wide));
    }
    return tn__gradient_op(it, "Mul", TN__LIST(it->given[0], wide), NULL, 0, &it->found[0]);
}
