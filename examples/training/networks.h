/* networks.h - a residual CNN, a U-Net, a byte-level transformer and an LSTM.
 *
 * Each adds itself to an opened net and finishes it. Scores have their classes on axis 1 for
 * pictures [batch, classes, height, width], else on the last one.
 */
#ifndef TRAINING_NETWORKS_H
#define TRAINING_NETWORKS_H

#include "net.h"

/* --- pictures --- */

/* Two convolutions and a way around them, by a convolution of one pixel where the size changes. */
static inline tn_tensor_id residual_block(net *n, tn_tensor_id x, int64_t in, int64_t out,
                                          int64_t stride) {
    tn_tensor_id y = net_conv_norm_relu(n, x, in, out, stride);
    y = net_batch_norm(n, net_conv(n, y, out, out, 3, 1), out);
    if (stride != 1 || in != out) x = net_batch_norm(n, net_conv(n, x, in, out, 1, stride), out);
    return net_unary(n, "Relu", net_binary(n, "Add", x, y));
}

/* Pictures [batch, 1, side, side] to scores [batch, classes]. */
static inline tn_status residual_cnn(net *n, int64_t batch, int64_t side, int64_t width,
                                     int64_t classes) {
    tn_tensor_id input = net_input(n, TN_FLOAT32, NET_SHAPE(batch, 1, side, side));
    tn_tensor_id x = net_conv_norm_relu(n, input, 1, width, 1);
    x = residual_block(n, x, width, width, 1);
    x = residual_block(n, x, width, 2 * width, 2);
    x = residual_block(n, x, 2 * width, 4 * width, 2);
    x = net_reshape(n, net_unary(n, "GlobalAveragePool", x), NET_SHAPE(batch, 4 * width));
    return net_finish(n, input, net_dense(n, x, 4 * width, classes));
}

static inline tn_tensor_id unet_pair(net *n, tn_tensor_id x, int64_t in, int64_t out) {
    return net_conv_norm_relu(n, net_conv_norm_relu(n, x, in, out, 1), out, out, 1);
}

static inline tn_tensor_id unet_down(net *n, tn_tensor_id x) {
    return net_op(
        n, (tn_op_spec){.type = "MaxPool",
                        NET_INPUTS(x),
                        NET_ATTRS(NET_INTS("kernel_shape", 2, 2), NET_INTS("strides", 2, 2))});
}

/* Twice as large, joined with what the way down had at that size. */
static inline tn_tensor_id unet_up(net *n, tn_tensor_id x, tn_tensor_id kept, int64_t width) {
    float spread = sqrtf(3 / (float)(2 * width));
    tn_tensor_id w = net_param(n, "kernel", 0, spread, NET_SHAPE(2 * width, width, 2, 2));
    x = net_op(n,
               (tn_op_spec){.type = "ConvTranspose",
                            NET_INPUTS(x, w),
                            NET_ATTRS(NET_INTS("kernel_shape", 2, 2), NET_INTS("strides", 2, 2))});
    x = net_op(n,
               (tn_op_spec){.type = "Concat", NET_INPUTS(kept, x), NET_ATTRS(NET_INT("axis", 1))});
    return unet_pair(n, x, 2 * width, width);
}

/* Pictures [batch, 1, side, side] to scores of each pixel [batch, classes, side, side]; `side` is a
 * multiple of 4. */
static inline tn_status unet(net *n, int64_t batch, int64_t side, int64_t width, int64_t classes) {
    tn_tensor_id input = net_input(n, TN_FLOAT32, NET_SHAPE(batch, 1, side, side));
    tn_tensor_id one = unet_pair(n, input, 1, width);
    tn_tensor_id two = unet_pair(n, unet_down(n, one), width, 2 * width);
    tn_tensor_id x = unet_pair(n, unet_down(n, two), 2 * width, 4 * width);
    x = unet_up(n, x, two, 2 * width);
    x = unet_up(n, x, one, width);
    return net_finish(n, input, net_conv(n, x, width, classes, 1, 1));
}

/* --- text --- */

typedef struct transformer_size {
    int64_t batch, time, width, heads, depth, words;
} transformer_size;

/* [batch, time, width] to [batch, heads, time, width / heads]. */
static inline tn_tensor_id transformer_heads(net *n, const transformer_size *s, tn_tensor_id x) {
    x = net_reshape(n, x, NET_SHAPE(s->batch, s->time, s->heads, s->width / s->heads));
    return net_transpose(n, x, NET_SHAPE(0, 2, 1, 3));
}

static inline tn_tensor_id transformer_attention(net *n, const transformer_size *s, tn_tensor_id x,
                                                 tn_tensor_id mask) {
    tn_tensor_id q = transformer_heads(n, s, net_dense(n, x, s->width, s->width));
    tn_tensor_id k = transformer_heads(n, s, net_dense(n, x, s->width, s->width));
    tn_tensor_id v = transformer_heads(n, s, net_dense(n, x, s->width, s->width));
    tn_tensor_id scale = net_number(n, 1 / sqrt((double)(s->width / s->heads)));
    x = net_binary(n, "MatMul", q, net_transpose(n, k, NET_SHAPE(0, 1, 3, 2)));
    x = net_binary(n, "Add", net_binary(n, "Mul", x, scale), mask);
    x = net_binary(n, "MatMul", net_unary(n, "Softmax", x), v);
    x = net_reshape(n, net_transpose(n, x, NET_SHAPE(0, 2, 1, 3)),
                    NET_SHAPE(s->batch, s->time, s->width));
    return net_dense(n, x, s->width, s->width);
}

/* No place looks at those behind it. */
static inline tn_tensor_id transformer_mask(net *n, int64_t time) {
    float *mask = (float *)calloc((size_t)(time * time), sizeof *mask);
    for (int64_t i = 0; mask != NULL && i < time * time; i++)
        if (i % time > i / time) mask[i] = -1e9f;
    return net_constant(n, mask, NET_SHAPE(time, time));
}

/* Bytes (or other words) [batch, time] to scores of the next one [batch, time, words]. */
static inline tn_status transformer(net *n, const transformer_size *s) {
    tn_tensor_id input = net_input(n, TN_INT64, NET_SHAPE(s->batch, s->time));
    tn_tensor_id mask = transformer_mask(n, s->time);
    tn_tensor_id x = net_embedding(n, input, s->words, s->width);
    x = net_binary(n, "Add", x, net_param(n, "places", 0, 0.1f, NET_SHAPE(s->time, s->width)));
    for (int64_t i = 0; i < s->depth; i++) {
        tn_tensor_id y = transformer_attention(n, s, net_layer_norm(n, x, s->width), mask);
        x = net_binary(n, "Add", x, y);
        y = net_dense(n, net_layer_norm(n, x, s->width), s->width, 4 * s->width);
        y = net_dense(n, net_unary(n, "Gelu", y), 4 * s->width, s->width);
        x = net_binary(n, "Add", x, y);
    }
    return net_finish(n, input, net_dense(n, net_layer_norm(n, x, s->width), s->width, s->words));
}

/* One layer of LSTM cells, the same task. ONNX wants time first and gives [time, 1, batch, width].
 */
static inline tn_status lstm(net *n, int64_t batch, int64_t time, int64_t width, int64_t words) {
    float spread = 1 / sqrtf((float)width);
    tn_tensor_id input = net_input(n, TN_INT64, NET_SHAPE(batch, time));
    tn_tensor_id x = net_embedding(n, net_transpose(n, input, NET_SHAPE(1, 0)), words, width);
    tn_tensor_id w = net_param(n, "lstm.input", 0, spread, NET_SHAPE(1, 4 * width, width));
    tn_tensor_id r = net_param(n, "lstm.state", 0, spread, NET_SHAPE(1, 4 * width, width));
    tn_tensor_id b = net_param(n, "lstm.bias", 0, spread, NET_SHAPE(1, 8 * width));
    x = net_op(n, (tn_op_spec){.type = "LSTM",
                               NET_INPUTS(x, w, r, b),
                               NET_ATTRS(NET_INT("hidden_size", width))});
    x = net_transpose(n, net_reshape(n, x, NET_SHAPE(time, batch, width)), NET_SHAPE(1, 0, 2));
    return net_finish(n, input, net_dense(n, x, width, words));
}

#endif
