/* net.h - layers in a line each, on the calls of <tenure/graph.h>.
 *
 *     net n;
 *     net_open(&n, 1);
 *     tn_tensor_id x = net_input(&n, TN_FLOAT32, NET_SHAPE(64, 784));
 *     net_close_graph(&n, x, net_dense(&n, net_op(&n, "Relu", x), 784, 10));
 *
 * The first failure is kept in n.status and n.error; the layers behind it do nothing. What a
 * parameter starts from is kept beside the graph, and net_read hands it to whoever sets it up.
 */
#ifndef TRAINING_NET_H
#define TRAINING_NET_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenure/tenure.h>

#define NET_TENSORS 4096u

typedef struct net_start { /* uniform in middle +- spread, or what is given */
    float middle, spread;
    float *given;
} net_start;

typedef struct net {
    tn_graph *graph;
    tn_tensor_id input, output;
    uint64_t seed;
    net_start starts[NET_TENSORS];
    tn_status status;
    tn_error error;
} net;

#define NET_COUNT(type, ...) (uint32_t)(sizeof((const type[]){__VA_ARGS__}) / sizeof(type))
#define NET_SHAPE(...)                                                                             \
    NET_COUNT(int64_t, __VA_ARGS__), (const int64_t[]) { __VA_ARGS__ }
/* Fields of a tn_op_spec. */
#define NET_INPUTS(...)                                                                            \
    .inputs = (const tn_tensor_id[]){__VA_ARGS__},                                                 \
    .input_count = NET_COUNT(tn_tensor_id, __VA_ARGS__)
#define NET_ATTRS(...)                                                                             \
    .attrs = (const tn_attr[]){__VA_ARGS__}, .attr_count = NET_COUNT(tn_attr, __VA_ARGS__)
#define NET_INTS(key, ...)                                                                         \
    {                                                                                              \
        .name = key, .type = TN_ATTR_INTS, .count = NET_COUNT(int64_t, __VA_ARGS__),               \
        .ints = (const int64_t[]) {                                                                \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define NET_INT(key, value)                                                                        \
    {                                                                                              \
        .name = key, .type = TN_ATTR_INT, .count = 1, .ints = (const int64_t[]) { value }          \
    }

static inline void net_open(net *n, uint64_t seed) {
    memset(n, 0, sizeof *n);
    n->seed = seed;
    n->status = tn_graph_create(NULL, &n->graph, &n->error);
}

static inline void net_close(net *n) {
    for (uint32_t i = 0; i < NET_TENSORS; i++) free(n->starts[i].given);
    tn_graph_destroy(n->graph);
}

/* --- tensors --- */

static inline tn_tensor_id net_tensor(net *n, const tn_tensor_spec *spec) {
    tn_tensor_id id = TN_NONE;
    if (n->status == TN_OK) n->status = tn_graph_add_tensor(n->graph, spec, &id, &n->error);
    if (n->status == TN_OK && id >= NET_TENSORS) {
        n->status = TN_E_UNSUPPORTED;
        snprintf(n->error.message, sizeof n->error.message, "more than %u tensors", NET_TENSORS);
    }
    return n->status == TN_OK ? id : TN_NONE;
}

static inline tn_tensor_id net_input(net *n, tn_dtype dtype, uint32_t rank, const int64_t *shape) {
    return net_tensor(
        n, &(tn_tensor_spec){
               .name = "x", .dtype = dtype, .kind = TN_KIND_INPUT, .rank = rank, .shape = shape});
}

static inline tn_tensor_id net_param(net *n, const char *what, float middle, float spread,
                                     uint32_t rank, const int64_t *shape) {
    char name[64];
    snprintf(name, sizeof name, "%s.%u", what, n->graph ? tn_graph_tensor_count(n->graph) : 0);
    tn_tensor_id id = net_tensor(n, &(tn_tensor_spec){.name = name,
                                                      .dtype = TN_FLOAT32,
                                                      .kind = TN_KIND_PARAMETER,
                                                      .rank = rank,
                                                      .shape = shape});
    if (id != TN_NONE) n->starts[id] = (net_start){.middle = middle, .spread = spread};
    return id;
}

/* A constant of many numbers, whose memory the net takes over. */
static inline tn_tensor_id net_constant(net *n, float *given, uint32_t rank, const int64_t *shape) {
    tn_tensor_id id = net_tensor(n, &(tn_tensor_spec){.name = "constant",
                                                      .dtype = TN_FLOAT32,
                                                      .kind = TN_KIND_CONSTANT,
                                                      .rank = rank,
                                                      .shape = shape});
    if (id != TN_NONE)
        n->starts[id].given = given;
    else
        free(given);
    return id;
}

static inline tn_tensor_id net_number(net *n, double number) {
    return net_tensor(n, &(tn_tensor_spec){.name = "number",
                                           .dtype = TN_FLOAT32,
                                           .kind = TN_KIND_CONSTANT,
                                           .value = {.count = 1, .floats = &number}});
}

/* Whole numbers that shapes are made of. */
static inline tn_tensor_id net_numbers(net *n, uint32_t count, const int64_t *numbers) {
    return net_tensor(n, &(tn_tensor_spec){.name = "numbers",
                                           .dtype = TN_INT64,
                                           .kind = TN_KIND_CONSTANT,
                                           .rank = 1,
                                           .shape = (const int64_t[]){count},
                                           .value = {.count = count, .ints = numbers}});
}

/* For tn_session_options.read: element i of a parameter follows from seed, tensor and i. */
static inline tn_status net_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                 uint64_t size, tn_error *error) {
    const net *n = (const net *)self;
    const net_start *start = &n->starts[id < NET_TENSORS ? id : 0];
    (void)graph;
    (void)error;
    if (start->given != NULL) {
        memcpy(bytes, start->given, size);
        return TN_OK;
    }
    for (uint64_t i = 0; i < size / sizeof(float); i++) { /* splitmix64 */
        uint64_t z = ((n->seed << 32 | id) + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        float unit = (float)((z ^ z >> 31) >> 40) / 8388608.0f - 1; /* from -1 to below 1 */
        ((float *)bytes)[i] = start->middle + start->spread * unit;
    }
    return TN_OK;
}

/* --- operators --- */

/* Adds an operator with `count` outputs, of shapes that follow from its inputs. */
static inline void net_ops(net *n, tn_op_spec spec, uint32_t count, tn_tensor_id *outputs) {
    char name[64];
    snprintf(name, sizeof name, "%s_%u", spec.type, n->graph ? tn_graph_op_count(n->graph) : 0);
    for (uint32_t k = 0; k < count; k++)
        outputs[k] = net_tensor(
            n,
            &(tn_tensor_spec){.name = name, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN});
    spec.name = name;
    spec.outputs = outputs;
    spec.output_count = count;
    if (n->status == TN_OK) n->status = tn_graph_add_op(n->graph, &spec, NULL, &n->error);
}
static inline tn_tensor_id net_op(net *n, tn_op_spec spec) {
    tn_tensor_id output;
    net_ops(n, spec, 1, &output);
    return output;
}
static inline tn_tensor_id net_unary(net *n, const char *type, tn_tensor_id x) {
    return net_op(n, (tn_op_spec){.type = type, NET_INPUTS(x)});
}
static inline tn_tensor_id net_binary(net *n, const char *type, tn_tensor_id x, tn_tensor_id y) {
    return net_op(n, (tn_op_spec){.type = type, NET_INPUTS(x, y)});
}
static inline tn_tensor_id net_reshape(net *n, tn_tensor_id x, uint32_t rank,
                                       const int64_t *shape) {
    return net_binary(n, "Reshape", x, net_numbers(n, rank, shape));
}
static inline tn_tensor_id net_transpose(net *n, tn_tensor_id x, uint32_t rank,
                                         const int64_t *order) {
    tn_attr axes = {.name = "perm", .type = TN_ATTR_INTS, .count = rank, .ints = order};
    return net_op(
        n, (tn_op_spec){.type = "Transpose", NET_INPUTS(x), .attrs = &axes, .attr_count = 1});
}

/* --- layers --- */

/* The last axis: from `in` to `out` numbers. */
static inline tn_tensor_id net_dense(net *n, tn_tensor_id x, int64_t in, int64_t out) {
    float spread = sqrtf(3 / (float)in); /* keeps the variance */
    tn_tensor_id w = net_param(n, "weight", 0, spread, NET_SHAPE(in, out));
    tn_tensor_id b = net_param(n, "bias", 0, 0, NET_SHAPE(out));
    return net_binary(n, "Add", net_binary(n, "MatMul", x, w), b);
}

/* Convolution over pictures [batch, in, height, width], padded so that stride 1 keeps their size.
 */
static inline tn_tensor_id net_conv(net *n, tn_tensor_id x, int64_t in, int64_t out, int64_t kernel,
                                    int64_t stride) {
    float spread = sqrtf(6 / (float)(in * kernel * kernel)); /* a ReLU halves the variance */
    int64_t pad = kernel / 2;
    tn_tensor_id w = net_param(n, "kernel", 0, spread, NET_SHAPE(out, in, kernel, kernel));
    return net_op(n, (tn_op_spec){.type = "Conv",
                                  NET_INPUTS(x, w),
                                  NET_ATTRS(NET_INTS("kernel_shape", kernel, kernel),
                                            NET_INTS("strides", stride, stride),
                                            NET_INTS("pads", pad, pad, pad, pad))});
}

static inline tn_tensor_id net_batch_norm(net *n, tn_tensor_id x, int64_t channels) {
    tn_tensor_id scale = net_param(n, "scale", 1, 0, NET_SHAPE(channels));
    tn_tensor_id shift = net_param(n, "shift", 0, 0, NET_SHAPE(channels));
    tn_tensor_id mean = net_param(n, "running_mean", 0, 0, NET_SHAPE(channels));
    tn_tensor_id variance = net_param(n, "running_variance", 1, 0, NET_SHAPE(channels));
    return net_op(
        n, (tn_op_spec){.type = "BatchNormalization", NET_INPUTS(x, scale, shift, mean, variance)});
}

static inline tn_tensor_id net_conv_norm_relu(net *n, tn_tensor_id x, int64_t in, int64_t out,
                                              int64_t stride) {
    return net_unary(n, "Relu", net_batch_norm(n, net_conv(n, x, in, out, 3, stride), out));
}

static inline tn_tensor_id net_layer_norm(net *n, tn_tensor_id x, int64_t width) {
    tn_tensor_id scale = net_param(n, "scale", 1, 0, NET_SHAPE(width));
    tn_tensor_id shift = net_param(n, "shift", 0, 0, NET_SHAPE(width));
    return net_op(n, (tn_op_spec){.type = "LayerNormalization", NET_INPUTS(x, scale, shift)});
}

/* A row of `width` numbers for each of `count` things. */
static inline tn_tensor_id net_embedding(net *n, tn_tensor_id x, int64_t count, int64_t width) {
    tn_tensor_id rows = net_param(n, "embedding", 0, 0.1f, NET_SHAPE(count, width));
    return net_binary(n, "Gather", rows, x);
}

/* From input to output: the graph is done. */
static inline tn_status net_finish(net *n, tn_tensor_id input, tn_tensor_id output) {
    n->input = input;
    n->output = output;
    if (n->status == TN_OK)
        n->status = tn_graph_set_block_io(n->graph, 0, &input, 1, &output, 1, &n->error);
    if (n->status == TN_OK) n->status = tn_graph_infer(n->graph, &n->error);
    return n->status;
}

#endif
