/* net.h - networks for tests in a line per layer, with contents that are drawn from a seed. */
#ifndef TN_TESTS_TRAIN_NET_H
#define TN_TESTS_TRAIN_NET_H

#include "support.h"

#include <math.h>

#include <tenure/graph.h>

#include "base/base.h"

#define NET_TENSORS 512u

typedef struct net {
    tn_graph *graph;
    tn_error error;
    tn_dtype dtype; /* of tensors that say nothing else */
    uint32_t version;
    tn__random random;
    double *contents[NET_TENSORS]; /* of inputs and parameters */
    uint64_t counts[NET_TENSORS];
    tn_attr attrs[12]; /* of the next operator */
    int64_t ints[12][8];
    double floats[12];
    const char *strings[12];
    uint32_t attr_count;
} net;

#define NET_SHAPE(...)                                                                             \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) {            \
        __VA_ARGS__                                                                                \
    }
#define NET_LIST(...)                                                                              \
    (uint32_t)(sizeof((tn_tensor_id[]){__VA_ARGS__}) / sizeof(tn_tensor_id)),                      \
        (const tn_tensor_id[]) {                                                                   \
        __VA_ARGS__                                                                                \
    }

static inline void net_ok(const net *n, tn_status status) {
    if (status != TN_OK)
        fail_msg("%s: %s: %s", tn_status_name(status), n->error.where, n->error.message);
}

static inline void net_open(net *n, tn_dtype dtype, uint64_t seed) {
    memset(n, 0, sizeof *n);
    n->dtype = dtype;
    n->version = 18;
    n->random.state = seed;
    net_ok(n, tn_graph_create(NULL, &n->graph, &n->error));
}

static inline void net_close(net *n) {
    for (uint32_t i = 0; i < NET_TENSORS; i++) free(n->contents[i]);
    tn_graph_destroy(n->graph);
}

/* Between -1 and 1. */
static inline double net_draw(net *n) {
    return (double)(tn__random_next(&n->random) >> 11) / 4503599627370496.0 - 1;
}

static inline tn_tensor_id net_tensor(net *n, const char *name, tn_kind kind, tn_dtype dtype,
                                      uint32_t rank, const int64_t *shape) {
    tn_tensor_id id;
    tn_tensor_spec spec = {
        .name = name, .kind = kind, .dtype = dtype, .rank = rank, .shape = shape};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    assert_true(id < NET_TENSORS);
    return id;
}

/* An input or parameter: contents uniform in [middle - spread, middle + spread]. */
static inline tn_tensor_id net_given(net *n, const char *name, tn_kind kind, double middle,
                                     double spread, uint32_t rank, const int64_t *shape) {
    tn_tensor_id id = net_tensor(n, name, kind, n->dtype, rank, shape);
    uint64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) count *= (uint64_t)shape[d];
    n->counts[id] = count;
    n->contents[id] = malloc((count + 1) * sizeof(double));
    for (uint64_t i = 0; i < count; i++) n->contents[id][i] = middle + spread * net_draw(n);
    return id;
}
static inline tn_tensor_id net_input(net *n, const char *name, uint32_t rank,
                                     const int64_t *shape) {
    return net_given(n, name, TN_KIND_INPUT, 0, 1, rank, shape);
}
static inline tn_tensor_id net_param(net *n, const char *name, double spread, uint32_t rank,
                                     const int64_t *shape) {
    return net_given(n, name, TN_KIND_PARAMETER, 0, spread, rank, shape);
}
/* Integers from 0 to below `bound`: labels, indices. */
static inline tn_tensor_id net_numbers(net *n, const char *name, int64_t bound, uint32_t rank,
                                       const int64_t *shape) {
    tn_dtype dtype = n->dtype;
    n->dtype = TN_INT64;
    tn_tensor_id id = net_given(n, name, TN_KIND_INPUT, 0, 1, rank, shape);
    n->dtype = dtype;
    for (uint64_t i = 0; i < n->counts[id]; i++)
        n->contents[id][i] = (double)tn__random_below(&n->random, (uint64_t)bound);
    return id;
}
static inline tn_tensor_id net_ints(net *n, uint32_t count, const int64_t *values) {
    int64_t shape[] = {(int64_t)count};
    tn_tensor_id id;
    tn_tensor_spec spec = {.dtype = TN_INT64,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = shape,
                           .value = {.count = count, .ints = values}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    return id;
}

/* --- attributes of the next operator --- */

static inline void net_attr_ints(net *n, const char *name, uint32_t count, const int64_t *values) {
    uint32_t at = n->attr_count++;
    memcpy(n->ints[at], values, count * sizeof *values);
    n->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_INTS, .count = count, .ints = n->ints[at]};
}
static inline void net_attr_int(net *n, const char *name, int64_t value) {
    net_attr_ints(n, name, 1, &value);
    n->attrs[n->attr_count - 1].type = TN_ATTR_INT;
}
static inline void net_attr_float(net *n, const char *name, double value) {
    uint32_t at = n->attr_count++;
    n->floats[at] = value;
    n->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_FLOAT, .count = 1, .floats = &n->floats[at]};
}
static inline void net_attr_string(net *n, const char *name, const char *value) {
    uint32_t at = n->attr_count++;
    n->strings[at] = value;
    n->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_STRING, .count = 1, .strings = &n->strings[at]};
}

/* --- operators --- */

static inline void net_ops(net *n, const char *type, uint32_t input_count,
                           const tn_tensor_id *inputs, uint32_t output_count,
                           tn_tensor_id *outputs) {
    char name[64];
    snprintf(name, sizeof name, "%s_%u", type, tn_graph_op_count(n->graph));
    for (uint32_t k = 0; k < output_count; k++)
        outputs[k] = net_tensor(n, name, TN_KIND_ACTIVATION, TN_UNDEFINED, TN_RANK_UNKNOWN, NULL);
    tn_op_spec spec = {.name = name,
                       .type = type,
                       .version = n->version,
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count,
                       .attrs = n->attrs,
                       .attr_count = n->attr_count};
    net_ok(n, tn_graph_add_op(n->graph, &spec, NULL, &n->error));
    n->attr_count = 0;
}
static inline tn_tensor_id net_op(net *n, const char *type, uint32_t input_count,
                                  const tn_tensor_id *inputs) {
    tn_tensor_id output;
    net_ops(n, type, input_count, inputs, 1, &output);
    return output;
}

/* The graph ends here. */
static inline void net_output(net *n, tn_tensor_id id) {
    const tn_block *block = tn_graph_block(n->graph, 0);
    tn_tensor_id inputs[NET_TENSORS];
    uint32_t count = block->input_count;
    if (count > 0) memcpy(inputs, block->inputs, count * sizeof *inputs);
    net_ok(n, tn_graph_set_block_io(n->graph, 0, inputs, count, &id, 1, &n->error));
    net_ok(n, tn_graph_infer(n->graph, &n->error));
}

/* --- layers --- */

static inline tn_tensor_id net_dense(net *n, tn_tensor_id x, int64_t from, int64_t to) {
    double spread = 1 / sqrt((double)from);
    tn_tensor_id w = net_param(n, "w", spread, NET_SHAPE(to, from));
    tn_tensor_id b = net_param(n, "b", spread, NET_SHAPE(to));
    net_attr_int(n, "transB", 1);
    return net_op(n, "Gemm", NET_LIST(x, w, b));
}
static inline tn_tensor_id net_conv(net *n, tn_tensor_id x, int64_t from, int64_t to,
                                    int64_t kernel, int64_t stride, bool bias) {
    double spread = 1 / sqrt((double)(from * kernel * kernel));
    int64_t pads[] = {kernel / 2, kernel / 2, kernel / 2, kernel / 2}, strides[] = {stride, stride};
    tn_tensor_id w = net_param(n, "conv.w", spread, NET_SHAPE(to, from, kernel, kernel));
    tn_tensor_id b = bias ? net_param(n, "conv.b", spread, NET_SHAPE(to)) : TN_NONE;
    net_attr_ints(n, "pads", 4, pads);
    net_attr_ints(n, "strides", 2, strides);
    return net_op(n, "Conv", bias ? 3 : 2, (const tn_tensor_id[]){x, w, b});
}
static inline tn_tensor_id net_batch_norm(net *n, tn_tensor_id x, int64_t channels) {
    tn_tensor_id scale = net_given(n, "bn.scale", TN_KIND_PARAMETER, 1, 0.3, NET_SHAPE(channels));
    tn_tensor_id bias = net_param(n, "bn.bias", 0.3, NET_SHAPE(channels));
    tn_tensor_id mean = net_param(n, "bn.mean", 0.3, NET_SHAPE(channels));
    tn_tensor_id variance =
        net_given(n, "bn.variance", TN_KIND_PARAMETER, 1, 0.3, NET_SHAPE(channels));
    return net_op(n, "BatchNormalization", NET_LIST(x, scale, bias, mean, variance));
}

#endif
