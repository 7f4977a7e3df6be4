/* networks.h - five networks for an interpreter, each a function that makes its parameters and one
 * that runs forward on a batch drawn at random and returns the loss. `size` makes them larger:
 * batches up to size 8, widths beyond.
 */
#ifndef EXAMPLES_EAGER_NETWORKS_H
#define EXAMPLES_EAGER_NETWORKS_H

#include "net.h"

static inline int64_t batch_of(int64_t count, int64_t size) {
    return count * (size < 8 ? size : 8);
}
static inline int64_t width_of(int64_t width, int64_t size) {
    return size > 8 ? width * size / 8 : width;
}

/* --- layers --- */

static inline tn_handle linear(net *n, tn_handle x, tn_handle weights, tn_handle bias) {
    return net_g2(n, "Add", net_f2(n, "MatMul", x, weights), bias);
}

static inline tn_handle matrix(net *n, const char *name, int64_t in, int64_t out) {
    return net_parameter(n, name, sqrtf(3.0f / (float)in), 0, SHAPE(in, out));
}

static inline tn_handle row(net *n, const char *name, int64_t count, float middle) {
    return net_parameter(n, name, 0, middle, SHAPE(count));
}

static inline tn_handle filter(net *n, const char *name, int64_t in, int64_t out, int64_t side) {
    return net_parameter(n, name, sqrtf(3.0f / (float)(in * side * side)), 0,
                         SHAPE(out, in, side, side));
}

static inline tn_handle convolve(net *n, tn_handle x, tn_handle weights, int64_t pad,
                                 int64_t stride) {
    return net_op(n, "Conv", IN(x, weights),
                  ATTRS(INTS("pads", 4, pad, pad, pad, pad), INTS("strides", 2, stride, stride)));
}

static inline tn_handle join(net *n, tn_handle x, tn_handle y, int64_t axis) {
    return net_op(n, "Concat", IN(x, y), ATTRS(INT("axis", axis)));
}

/* Mean loss of scores [..., classes] (axis 1 of pictures) and class numbers. */
static inline tn_handle class_loss(net *n, tn_handle scores, tn_handle labels, int64_t axis) {
    tn_handle out[2];
    net_call(n, ".CrossEntropy", IN(scores, labels), ATTRS(INT("axis", axis)), 2, out);
    return out[0];
}

/* Noisy pictures [count, 1, side, side] of a bright square; `where` gets what is told of each. */
static inline void draw_squares(net *n, uint32_t count, uint32_t side, float *pixels,
                                int64_t *quarter, int64_t *inside) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t x = (uint32_t)net_draw(n, side * 3 / 4), y = (uint32_t)net_draw(n, side * 3 / 4);
        quarter[i] = (x >= side * 3 / 8) + 2 * (y >= side * 3 / 8);
        for (uint32_t k = 0; k < side * side; k++) {
            bool in = k % side - x < side / 4 && k / side - y < side / 4;
            pixels[i * side * side + k] = (float)in + (float)net_draw(n, 1000) / 2000;
            inside[i * side * side + k] = in;
        }
    }
}

/* A text of words that follow each other by a rule, so that there is something to learn. */
static inline void draw_text(net *n, size_t count, int64_t *bytes) {
    static const char *const words[] = {"the ", "plan ", "of ", "a ", "budget ", "keeps ", "what "};
    uint64_t word = net_draw(n, 7);
    for (size_t i = 0; i < count; word = (word * 3 + net_draw(n, 2)) % 7)
        for (const char *c = words[word]; *c != '\0' && i < count; c++) bytes[i++] = *c;
}

/* --- a residual network on pictures --- */

#define RESIDUAL_CONVS 17

typedef struct residual_cnn {
    int64_t batch, side, width;
    tn_handle stem, scale[RESIDUAL_CONVS], shift[RESIDUAL_CONVS], mean[RESIDUAL_CONVS],
        variance[RESIDUAL_CONVS], conv[RESIDUAL_CONVS], head, bias, flat;
} residual_cnn;

static inline void residual_cnn_make(net *n, residual_cnn *it, int64_t size) {
    *it = (residual_cnn){.batch = batch_of(4, size), .side = 16, .width = width_of(8, size)};
    it->stem = filter(n, "stem", 1, it->width, 3);
    for (uint32_t k = 0; k < RESIDUAL_CONVS; k++) {
        it->conv[k] = filter(n, "conv", it->width, it->width, 3);
        it->scale[k] = row(n, "scale", it->width, 1);
        it->shift[k] = row(n, "shift", it->width, 0);
        it->mean[k] = net_fixed(n, TN_KIND_OPTIMIZER_STATE, "mean", 0, 0, SHAPE(it->width));
        it->variance[k] = net_fixed(n, TN_KIND_OPTIMIZER_STATE, "variance", 0, 1, SHAPE(it->width));
    }
    it->head = matrix(n, "head", it->width, 4);
    it->bias = row(n, "bias", 4, 0);
    it->flat = net_constant(n, 2, (int64_t[]){-1, it->width});
}

static inline tn_handle residual_cnn_normal(net *n, const residual_cnn *it, uint32_t k,
                                            tn_handle x) {
    tn_handle out[5];
    net_call(n, ".BatchNormTrain", IN(x, it->scale[k], it->shift[k], it->mean[k], it->variance[k]),
             0, NULL, 5, out);
    for (uint32_t i = 3; i < 5; i++) net_then(n, out[i], 0);
    return net_then(n, x, out[0]);
}

static inline tn_handle residual_cnn_loss(net *n, const residual_cnn *it) {
    float pixels[64 * 16 * 16];
    int64_t labels[64], inside[64 * 16 * 16];
    draw_squares(n, (uint32_t)it->batch, (uint32_t)it->side, pixels, labels, inside);
    tn_handle images = net_input(n, TN_FLOAT32, pixels, SHAPE(it->batch, 1, it->side, it->side));
    tn_handle classes = net_input(n, TN_INT64, labels, SHAPE(it->batch));
    tn_handle x = net_then(n, images, convolve(n, images, it->stem, 1, 1));
    for (uint32_t k = 0; k + 1 < RESIDUAL_CONVS; k += 2) {
        tn_handle y = residual_cnn_normal(n, it, k, convolve(n, x, it->conv[k], 1, 1));
        y = net_g(n, "Relu", y);
        y = net_then(n, y, convolve(n, y, it->conv[k + 1], 1, 1));
        y = residual_cnn_normal(n, it, k + 1, y);
        y = net_then(n, x, net_g2(n, "Add", y, x));
        x = net_g(n, "Relu", y);
    }
    x = net_then(n, x, convolve(n, x, it->conv[RESIDUAL_CONVS - 1], 1, 2));
    x = net_g(n, "GlobalAveragePool", residual_cnn_normal(n, it, RESIDUAL_CONVS - 1, x));
    x = net_g2(n, "Reshape", x, it->flat);
    x = net_then(n, x, linear(n, x, it->head, it->bias));
    return class_loss(n, x, classes, 1);
}

/* --- a U-Net: which pixels belong to the square --- */

#define UNET_DEPTH 3
#define UNET_CONVS 4 /* at each scale */

typedef struct unet {
    int64_t batch, side, width;
    tn_handle first, last, down[UNET_DEPTH + 1][UNET_CONVS], up[UNET_DEPTH],
        merge[UNET_DEPTH][UNET_CONVS];
} unet;

static inline void unet_make(net *n, unet *it, int64_t size) {
    *it = (unet){.batch = batch_of(2, size), .side = 32, .width = width_of(8, size)};
    it->first = filter(n, "first", 1, it->width, 3);
    for (uint32_t d = 0; d <= UNET_DEPTH; d++) {
        for (uint32_t i = 0; i < UNET_CONVS; i++)
            it->down[d][i] = filter(n, "down", it->width, it->width, 3);
    }
    for (uint32_t d = 0; d < UNET_DEPTH; d++) {
        it->up[d] = filter(n, "up", it->width, it->width, 2);
        for (uint32_t i = 0; i < UNET_CONVS; i++)
            it->merge[d][i] = filter(n, "merge", i == 0 ? 2 * it->width : it->width, it->width, 3);
    }
    it->last = filter(n, "last", it->width, 2, 1);
}

static inline tn_handle unet_scale(net *n, tn_handle x, const tn_handle *weights) {
    for (uint32_t i = 0; i < UNET_CONVS; i++)
        x = net_g(n, "Relu", net_then(n, x, convolve(n, x, weights[i], 1, 1)));
    return x;
}

static inline tn_handle unet_loss(net *n, const unet *it) {
    float pixels[16 * 32 * 32];
    int64_t quarter[16], inside[16 * 32 * 32];
    tn_handle skip[UNET_DEPTH];
    draw_squares(n, (uint32_t)it->batch, (uint32_t)it->side, pixels, quarter, inside);
    tn_handle images = net_input(n, TN_FLOAT32, pixels, SHAPE(it->batch, 1, it->side, it->side));
    tn_handle classes = net_input(n, TN_INT64, inside, SHAPE(it->batch, it->side, it->side));
    tn_handle x = net_g(n, "Relu", convolve(n, images, it->first, 1, 1));
    for (uint32_t d = 0; d < UNET_DEPTH; d++) {
        skip[d] = unet_scale(n, x, it->down[d]);
        x = net_op(n, "MaxPool", IN(skip[d]),
                   ATTRS(INTS("kernel_shape", 2, 2, 2), INTS("strides", 2, 2, 2)));
    }
    x = unet_scale(n, x, it->down[UNET_DEPTH]);
    for (uint32_t d = UNET_DEPTH; d-- > 0;) {
        tn_handle y = net_op(n, "ConvTranspose", IN(x, it->up[d]), ATTRS(INTS("strides", 2, 2, 2)));
        y = net_then(n, x, net_then(n, y, join(n, y, skip[d], 1)));
        x = net_then(n, skip[d], unet_scale(n, y, it->merge[d]));
    }
    return class_loss(n, net_then(n, x, convolve(n, x, it->last, 0, 1)), classes, 1);
}

/* --- a transformer on bytes --- */

#define TRANSFORMER_LAYERS 6

typedef struct transformer {
    int64_t batch, length, width, heads;
    tn_handle bytes, places, mask, scale;
    tn_handle norm1[TRANSFORMER_LAYERS][2], norm2[TRANSFORMER_LAYERS][2];
    tn_handle mix[TRANSFORMER_LAYERS], out[TRANSFORMER_LAYERS], wide[TRANSFORMER_LAYERS];
    tn_handle wide_bias[TRANSFORMER_LAYERS], narrow[TRANSFORMER_LAYERS], head;
    tn_handle split_heads, join_heads, thirds;
} transformer;

static inline void transformer_make(net *n, transformer *it, int64_t size) {
    *it = (transformer){
        .batch = batch_of(2, size), .length = 32, .width = width_of(24, size), .heads = 4};
    int64_t w = it->width;
    it->bytes = net_parameter(n, "bytes", 0.5f, 0, SHAPE(128, w));
    it->places = net_parameter(n, "places", 0.1f, 0, SHAPE(it->length, w));
    for (uint32_t l = 0; l < TRANSFORMER_LAYERS; l++) {
        it->norm1[l][0] = row(n, "norm1.scale", w, 1), it->norm1[l][1] = row(n, "norm1.bias", w, 0);
        it->norm2[l][0] = row(n, "norm2.scale", w, 1), it->norm2[l][1] = row(n, "norm2.bias", w, 0);
        it->mix[l] = matrix(n, "mix", w, 3 * w), it->out[l] = matrix(n, "out", w, w);
        it->wide[l] = matrix(n, "wide", w, 4 * w), it->wide_bias[l] = row(n, "wide.bias", 4 * w, 0);
        it->narrow[l] = matrix(n, "narrow", 4 * w, w);
    }
    it->head = matrix(n, "head", w, 128);
    it->split_heads =
        net_constant(n, 4, (int64_t[]){it->batch, it->length, it->heads, w / it->heads});
    it->join_heads = net_constant(n, 3, (int64_t[]){it->batch, it->length, w});
    it->thirds = net_constant(n, 3, (int64_t[]){w, w, w});
    float mask[32 * 32], scale = 1 / sqrtf((float)(w / it->heads));
    for (int i = 0; i < 32 * 32; i++) mask[i] = i % 32 > i / 32 ? -1e9f : 0;
    it->mask = net_put(n, TN_FLOAT32, TN_KIND_INPUT, "mask", mask, SHAPE(32, 32));
    it->scale = net_put(n, TN_FLOAT32, TN_KIND_CONSTANT, NULL, &scale, 0, NULL);
}

/* [batch, length, width] as [batch, heads, length, width of a head], or with the last two turned.
 */
static inline tn_handle transformer_heads(net *n, const transformer *it, tn_handle x, bool turned) {
    tn_handle y = net_g2(n, "Reshape", x, it->split_heads);
    return net_then(n, y,
                    net_op(n, "Transpose", IN(y),
                           ATTRS(INTS("perm", 4, 0, 2, turned ? 3 : 1, turned ? 1 : 3))));
}

static inline tn_handle transformer_attention(net *n, const transformer *it, uint32_t l,
                                              tn_handle x) {
    tn_handle third[3], mixed = net_f2(n, "MatMul", x, it->mix[l]);
    net_call(n, "Split", IN(mixed, it->thirds), ATTRS(INT("axis", 2)), 3, third);
    net_then(n, mixed, 0);
    for (uint32_t i = 0; i < 3; i++) third[i] = transformer_heads(n, it, third[i], i == 1);
    tn_handle scores = net_g2(n, "MatMul", third[0], third[1]);
    scores = net_g2(n, "Mul", net_then(n, third[1], scores), it->scale);
    scores = net_g(n, "Softmax", net_g2(n, "Add", scores, it->mask));
    tn_handle y = net_then(n, third[2], net_g2(n, "MatMul", scores, third[2]));
    y = net_then(n, y, net_op(n, "Transpose", IN(y), ATTRS(INTS("perm", 4, 0, 2, 1, 3))));
    y = net_g2(n, "Reshape", y, it->join_heads);
    return net_g2(n, "MatMul", y, it->out[l]);
}

static inline tn_handle transformer_norm(net *n, tn_handle x, const tn_handle *norm) {
    return net_op(n, "LayerNormalization", IN(x, norm[0], norm[1]), ATTRS(INT("axis", -1)));
}

static inline tn_handle transformer_loss(net *n, const transformer *it) {
    int64_t text[16 * 33], from[16 * 32], to[16 * 32];
    for (int64_t b = 0; b < it->batch; b++) {
        draw_text(n, 33, text);
        memcpy(from + b * 32, text, 32 * sizeof *from);
        memcpy(to + b * 32, text + 1, 32 * sizeof *to);
    }
    tn_handle bytes = net_input(n, TN_INT64, from, SHAPE(it->batch, 32));
    tn_handle labels = net_input(n, TN_INT64, to, SHAPE(it->batch, 32));
    tn_handle x = net_g2(n, "Add", net_f2(n, "Gather", it->bytes, bytes), it->places);
    for (uint32_t l = 0; l < TRANSFORMER_LAYERS; l++) {
        tn_handle y = transformer_norm(n, x, it->norm1[l]);
        y = net_then(n, y, transformer_attention(n, it, l, y));
        x = net_then(n, y, net_g2(n, "Add", x, y));
        y = transformer_norm(n, x, it->norm2[l]);
        y = net_g(n, "Gelu", net_then(n, y, linear(n, y, it->wide[l], it->wide_bias[l])));
        y = net_g2(n, "MatMul", y, it->narrow[l]);
        x = net_then(n, y, net_g2(n, "Add", x, y));
    }
    return class_loss(n, net_g2(n, "MatMul", x, it->head), labels, 2);
}

/* --- cells of an LSTM: gates i, f, o, u side by side in [batch, 4 width] --- */

typedef struct cell {
    tn_handle h, c;
} cell;

/* Of gates [batch, parts x width]: input, forgets (one for each c in `kept`), output, update. */
static inline cell lstm_cell(net *n, tn_handle gates, tn_handle widths, uint32_t kept_count,
                             const tn_handle *kept) {
    tn_handle part[5];
    net_call(n, "Split", IN(gates, widths), ATTRS(INT("axis", 1)), 3 + kept_count, part);
    net_then(n, gates, 0);
    tn_handle in = net_g(n, "Sigmoid", part[0]), update = net_g(n, "Tanh", part[2 + kept_count]);
    tn_handle c = net_then(n, update, net_g2(n, "Mul", in, update));
    for (uint32_t k = 0; k < kept_count; k++) {
        tn_handle forget = net_g(n, "Sigmoid", part[1 + k]);
        tn_handle old = net_g2(n, "Mul", forget, kept[k]);
        c = net_then(n, old, net_g2(n, "Add", c, old));
    }
    tn_handle out = net_g(n, "Sigmoid", part[1 + kept_count]), seen = net_f(n, "Tanh", c);
    return (cell){.h = net_then(n, seen, net_g2(n, "Mul", out, seen)), .c = c};
}

typedef struct lstm {
    int64_t batch, length, width;
    tn_handle bytes, weights, bias, head, head_bias, widths;
} lstm;

static inline void lstm_make(net *n, lstm *it, int64_t size) {
    *it = (lstm){.batch = batch_of(8, size), .length = 24, .width = width_of(24, size)};
    int64_t w = it->width;
    it->bytes = net_parameter(n, "bytes", 0.5f, 0, SHAPE(128, w));
    it->weights = matrix(n, "weights", 2 * w, 4 * w);
    it->bias = row(n, "bias", 4 * w, 0);
    it->head = matrix(n, "head", w, 128);
    it->head_bias = row(n, "head.bias", 128, 0);
    it->widths = net_constant(n, 4, (int64_t[]){w, w, w, w});
}

static inline tn_handle lstm_loss(net *n, const lstm *it) {
    int64_t text[64][25], from[64], to[64];
    tn_handle loss = TN_HANDLE_NONE;
    for (int64_t b = 0; b < it->batch; b++) draw_text(n, 25, text[b]);
    cell at = {.h = net_input(n, TN_FLOAT32, NULL, SHAPE(it->batch, it->width)),
               .c = net_input(n, TN_FLOAT32, NULL, SHAPE(it->batch, it->width))};
    for (int64_t t = 0; t < it->length; t++) {
        for (int64_t b = 0; b < it->batch; b++) from[b] = text[b][t], to[b] = text[b][t + 1];
        tn_handle bytes = net_input(n, TN_INT64, from, SHAPE(it->batch));
        tn_handle labels = net_input(n, TN_INT64, to, SHAPE(it->batch));
        tn_handle x = net_then(n, bytes, net_f2(n, "Gather", it->bytes, bytes));
        tn_handle both = net_then(n, x, join(n, x, at.h, 1));
        tn_handle gates = net_then(n, both, linear(n, both, it->weights, it->bias));
        cell next = lstm_cell(n, gates, it->widths, 1, &at.c);
        net_then(n, at.h, 0), net_then(n, at.c, 0);
        at = next;
        tn_handle one = class_loss(n, linear(n, at.h, it->head, it->head_bias), labels, 1);
        net_then(n, labels, 0);
        loss = t == 0 ? one : net_then(n, one, net_g2(n, "Add", loss, one));
    }
    return loss;
}

/* --- a TreeLSTM over random trees: which way the words of a sentence lean --- */

typedef struct tree_lstm {
    int64_t batch, width, leaves;
    tn_handle words, leaf, leaf_bias, inner, inner_bias, head, head_bias, leaf_widths, widths;
} tree_lstm;

static inline void tree_lstm_make(net *n, tree_lstm *it, int64_t size) {
    *it = (tree_lstm){.batch = batch_of(8, size), .width = width_of(16, size), .leaves = 16};
    int64_t w = it->width;
    it->words = net_parameter(n, "words", 0.5f, 0, SHAPE(64, w));
    it->leaf = matrix(n, "leaf", w, 3 * w);
    it->leaf_bias = row(n, "leaf.bias", 3 * w, 0);
    it->inner = matrix(n, "inner", 2 * w, 5 * w);
    it->inner_bias = row(n, "inner.bias", 5 * w, 0);
    it->head = matrix(n, "head", w, 2);
    it->head_bias = row(n, "head.bias", 2, 0);
    it->leaf_widths = net_constant(n, 3, (int64_t[]){w, w, w});
    it->widths = net_constant(n, 5, (int64_t[]){w, w, w, w, w});
}

static inline cell tree_lstm_leaf(net *n, const tree_lstm *it, int64_t word) {
    tn_handle number = net_input(n, TN_INT64, &word, SHAPE(1));
    tn_handle x = net_then(n, number, net_f2(n, "Gather", it->words, number));
    tn_handle gates = net_then(n, x, linear(n, x, it->leaf, it->leaf_bias));
    return lstm_cell(n, gates, it->leaf_widths, 0, NULL);
}

static inline cell tree_lstm_join(net *n, const tree_lstm *it, cell left, cell right) {
    tn_handle both = join(n, left.h, right.h, 1);
    net_then(n, left.h, 0), net_then(n, right.h, 0);
    tn_handle gates = net_then(n, both, linear(n, both, it->inner, it->inner_bias));
    cell made = lstm_cell(n, gates, it->widths, 2, (tn_handle[]){left.c, right.c});
    net_then(n, left.c, 0), net_then(n, right.c, 0);
    return made;
}

/* A tree of its own for every sentence: neighbours are joined in a random order. */
static inline tn_handle tree_lstm_sentence(net *n, const tree_lstm *it, int64_t *label) {
    cell nodes[64];
    uint64_t count = 3 + net_draw(n, (uint64_t)it->leaves - 2);
    int64_t leaning = 0;
    for (uint64_t i = 0; i < count; i++) {
        int64_t word = (int64_t)net_draw(n, 64);
        leaning += word % 2 == 0 ? 1 : -1;
        nodes[i] = tree_lstm_leaf(n, it, word);
    }
    for (; count > 1; count--) {
        uint64_t at = net_draw(n, count - 1);
        nodes[at] = tree_lstm_join(n, it, nodes[at], nodes[at + 1]);
        memmove(&nodes[at + 1], &nodes[at + 2], (count - at - 2) * sizeof *nodes);
    }
    *label = leaning > 0;
    net_then(n, nodes[0].c, 0);
    return nodes[0].h;
}

static inline tn_handle tree_lstm_loss(net *n, const tree_lstm *it) {
    int64_t labels[64];
    tn_handle roots = TN_HANDLE_NONE;
    for (int64_t b = 0; b < it->batch; b++) {
        tn_handle root = tree_lstm_sentence(n, it, &labels[b]);
        roots = b == 0 ? root : net_then(n, root, net_then(n, roots, join(n, roots, root, 0)));
    }
    tn_handle scores = net_then(n, roots, linear(n, roots, it->head, it->head_bias));
    return class_loss(n, scores, net_input(n, TN_INT64, labels, SHAPE(it->batch)), 1);
}

/* --- all of them --- */

typedef struct network_state {
    residual_cnn residual_cnn;
    unet unet;
    transformer transformer;
    lstm lstm;
    tree_lstm tree_lstm;
} network_state;

typedef struct network {
    const char *name;
    void (*make)(net *n, network_state *state, int64_t size);
    tn_handle (*loss)(net *n, const network_state *state);
    double rate;
} network;

#define NETWORK(name)                                                                              \
    static inline void name##_begin(net *n, network_state *state, int64_t size) {                  \
        name##_make(n, &state->name, size);                                                        \
    }                                                                                              \
    static inline tn_handle name##_run(net *n, const network_state *state) {                       \
        return name##_loss(n, &state->name);                                                       \
    }
NETWORK(residual_cnn)
NETWORK(unet)
NETWORK(transformer)
NETWORK(lstm)
NETWORK(tree_lstm)
#undef NETWORK

static const network networks[] = {
    {"residual_cnn", residual_cnn_begin, residual_cnn_run, 3e-3},
    {"unet", unet_begin, unet_run, 3e-3},
    {"transformer", transformer_begin, transformer_run, 3e-3},
    {"lstm", lstm_begin, lstm_run, 1e-2},
    {"tree_lstm", tree_lstm_begin, tree_lstm_run, 1e-2},
};
#define NETWORK_COUNT (sizeof networks / sizeof *networks)

#endif
