/* net.h - what the eager examples share: an interpreter whose first error sticks, parameters drawn
 * at random, operators in a line each, and handles that go at the end of a step.
 *
 * After an error every call does nothing and returns no handle, so that networks are written
 * without asking; who calls net_train or net_get is told.
 */
#ifndef EXAMPLES_EAGER_NET_H
#define EXAMPLES_EAGER_NET_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/tenure.h>

#define NET_PARAMETERS 128u

typedef struct net {
    tn_eager *eager;
    tn_eager_optimizer *optimizer;
    tn_handle parameters[NET_PARAMETERS];
    uint32_t parameter_count;
    tn_handle *made; /* in this step */
    size_t made_count, made_room;
    uint64_t random;
    tn_status status;
    tn_error error;
} net;

/* A list and its length, for operands, extents and attributes. */
#define IN(...)                                                                                    \
    (uint32_t)(sizeof((tn_handle[]){__VA_ARGS__}) / sizeof(tn_handle)), (tn_handle[]) {            \
        __VA_ARGS__                                                                                \
    }
#define SHAPE(...)                                                                                 \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define ATTRS(...)                                                                                 \
    (uint32_t)(sizeof((tn_attr[]){__VA_ARGS__}) / sizeof(tn_attr)), (tn_attr[]) { __VA_ARGS__ }
#define INT(text, number)                                                                          \
    {                                                                                              \
        .name = text, .type = TN_ATTR_INT, .count = 1, .ints = (int64_t[]) { number }              \
    }
#define INTS(text, number, ...)                                                                    \
    {                                                                                              \
        .name = text, .type = TN_ATTR_INTS, .count = number, .ints = (int64_t[]) { __VA_ARGS__ }   \
    }

/* Uniform below `bound`; xorshift64*. */
static inline uint64_t net_draw(net *n, uint64_t bound) {
    n->random ^= n->random >> 12;
    n->random ^= n->random << 25;
    n->random ^= n->random >> 27;
    return (n->random * 0x2545f4914f6cdd1du >> 32) * bound >> 32;
}

static inline bool net_ok(net *n, tn_status status) {
    if (n->status == TN_OK) n->status = status;
    return n->status == TN_OK;
}

static inline void net_open(net *n, const tn_eager_options *options, uint64_t seed) {
    *n = (net){.random = seed * 0x9e3779b97f4a7c15u + 1};
    n->status = tn_eager_create(options, &n->eager, &n->error);
}

static inline void net_close(net *n) {
    tn_eager_optimizer_destroy(n->optimizer);
    tn_eager_destroy(n->eager);
    free(n->made);
}

/* The handle goes at the end of the step. */
static inline tn_handle net_keep(net *n, tn_handle handle) {
    if (n->made_count == n->made_room) {
        n->made_room = n->made_room * 2 + 256;
        n->made = realloc(n->made, n->made_room * sizeof *n->made);
        if (n->made == NULL) abort();
    }
    return n->made[n->made_count++] = handle;
}

/* The handle goes now: what it names is needed by nobody but, perhaps, the tape. Returns `next`. */
static inline tn_handle net_then(net *n, tn_handle handle, tn_handle next) {
    for (size_t i = n->made_count; i-- > 0;)
        if (n->made[i] == handle) {
            n->made[i] = TN_HANDLE_NONE;
            net_ok(n, tn_eager_del(n->eager, handle, &n->error));
            break;
        }
    return next;
}

/* --- contents --- */

static inline tn_handle net_put(net *n, tn_dtype dtype, tn_kind kind, const char *name,
                                const void *data, uint32_t rank, const int64_t *shape) {
    const tn_eager_data put = {
        .dtype = dtype, .kind = kind, .rank = rank, .shape = shape, .data = data, .name = name};
    tn_handle handle = TN_HANDLE_NONE;
    if (n->status == TN_OK) net_ok(n, tn_eager_put(n->eager, &put, &handle, &n->error));
    return handle;
}

static inline tn_handle net_input(net *n, tn_dtype dtype, const void *data, uint32_t rank,
                                  const int64_t *shape) {
    return net_keep(n, net_put(n, dtype, TN_KIND_INPUT, NULL, data, rank, shape));
}

/* For the whole life of the network. */
static inline tn_handle net_constant(net *n, uint32_t count, const int64_t *numbers) {
    return net_put(n, TN_INT64, TN_KIND_CONSTANT, NULL, numbers, SHAPE(count));
}

static inline tn_handle net_fixed(net *n, tn_kind kind, const char *name, float spread,
                                  float middle, uint32_t rank, const int64_t *shape) {
    size_t count = 1;
    for (uint32_t d = 0; d < rank; d++) count *= (size_t)shape[d];
    float *numbers = malloc(count * sizeof *numbers);
    if (numbers == NULL) abort();
    for (size_t i = 0; i < count; i++)
        numbers[i] = middle + spread * ((float)net_draw(n, 1 << 20) / (1 << 19) - 1);
    tn_handle handle = net_put(n, TN_FLOAT32, kind, name, numbers, rank, shape);
    free(numbers);
    return handle;
}

/* A trained tensor: uniform in [-spread, spread] around `middle`. */
static inline tn_handle net_parameter(net *n, const char *name, float spread, float middle,
                                      uint32_t rank, const int64_t *shape) {
    if (n->parameter_count == NET_PARAMETERS) abort();
    return n->parameters[n->parameter_count++] =
               net_fixed(n, TN_KIND_PARAMETER, name, spread, middle, rank, shape);
}

/* --- operators --- */

/* ".CrossEntropy": of domain "tenure". */
static inline void net_call(net *n, const char *type, uint32_t input_count, const tn_handle *inputs,
                            uint32_t attr_count, const tn_attr *attrs, uint32_t output_count,
                            tn_handle *outputs) {
    const bool own = type[0] == '.';
    const tn_eager_call call = {.type = type + own,
                                .domain = own ? "tenure" : "",
                                .inputs = inputs,
                                .input_count = input_count,
                                .attrs = attrs,
                                .attr_count = attr_count,
                                .output_count = output_count};
    for (uint32_t k = 0; k < output_count; k++) outputs[k] = TN_HANDLE_NONE;
    if (n->status != TN_OK) return;
    net_ok(n, tn_eager_apply(n->eager, &call, outputs, &n->error));
    for (uint32_t k = 0; k < output_count; k++) net_keep(n, outputs[k]);
}

static inline tn_handle net_op(net *n, const char *type, uint32_t input_count,
                               const tn_handle *inputs, uint32_t attr_count, const tn_attr *attrs) {
    tn_handle output;
    net_call(n, type, input_count, inputs, attr_count, attrs, 1, &output);
    return output;
}

static inline tn_handle net_f(net *n, const char *type, tn_handle x) {
    return net_op(n, type, IN(x), 0, NULL);
}

static inline tn_handle net_f2(net *n, const char *type, tn_handle x, tn_handle y) {
    return net_op(n, type, IN(x, y), 0, NULL);
}

/* The same of an operand that is needed no more. */
static inline tn_handle net_g(net *n, const char *type, tn_handle x) {
    return net_then(n, x, net_f(n, type, x));
}

static inline tn_handle net_g2(net *n, const char *type, tn_handle x, tn_handle y) {
    return net_then(n, x, net_f2(n, type, x, y));
}

/* --- a step --- */

static inline void net_optimizer(net *n, tn_optimizer optimizer) {
    tn_eager_optimizer_options options = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    options.optimizer = optimizer;
    if (n->status == TN_OK)
        net_ok(n, tn_eager_optimizer_create(n->eager, &options, n->parameters, n->parameter_count,
                                            &n->optimizer, &n->error));
}

static inline void net_end_step(net *n) {
    for (size_t i = 0; i < n->made_count; i++)
        net_ok(n, tn_eager_del(n->eager, n->made[i], &n->error));
    n->made_count = 0;
}

/* Backward, update, and away with what the step made. Returns the loss. */
static inline float net_train(net *n, tn_handle loss, double rate) {
    tn_handle gradients[NET_PARAMETERS];
    float value = NAN;
    if (n->status == TN_OK &&
        net_ok(n, tn_eager_get(n->eager, loss, &value, sizeof value, &n->error)) &&
        net_ok(n, tn_eager_backward(n->eager, loss, n->parameters, n->parameter_count, gradients,
                                    &n->error))) {
        net_end_step(n); /* what is held when parameters change has to be there, or is made first */
        net_ok(n, tn_eager_optimizer_step(n->optimizer, gradients, rate, &n->error));
    }
    net_end_step(n);
    return value;
}

#endif
