/* tflite_reference.h - what operators of TensorFlow Lite compute, as far as who is made of what
 * goes: a graph of them from random contents to its outputs, for tests of graphs that ought to
 * compute the same. Elements are integers, sums wrap around, and every function that is not a sum
 * mixes its operands, with the type's name, so that no two different sets of operands are likely to
 * agree. Of our code it shares the graph alone. Contents are drawn from a seed and the tensor's
 * name. */
#ifndef TN_TESTS_TFLITE_REFERENCE_H
#define TN_TESTS_TFLITE_REFERENCE_H

#include <tenure/graph.h>

#include "base/base.h"
#include "graph/attr.h"
#include "support.h"

typedef struct reference {
    const tn_graph *graph;
    uint64_t **values; /* [tensors] elements; NULL: not there */
} reference;

typedef struct reference_op { /* an operator in hand; absent operands: NULL */
    const tn_op *op;
    const tn_tensor *x[8], *y;
    const uint64_t *in[8];
    uint64_t *out, name;
} reference_op;

static inline uint64_t reference_mix(uint64_t a, uint64_t b) {
    tn__random random = {a * UINT64_C(0x9e3779b97f4a7c15) ^ b};
    return tn__random_next(&random);
}

static inline uint64_t reference_hash(uint64_t seed, const char *name) {
    for (; *name != '\0'; name++) seed = reference_mix(seed, (uint8_t)*name);
    return seed;
}

static inline uint64_t reference_count(const tn_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) count *= (uint64_t)tensor->shape[d];
    return count;
}

/* Coordinates of element `at`, and back; an extent of 1 stands for all. */
static inline void reference_where(const tn_tensor *tensor, uint64_t at, int64_t *where) {
    for (uint32_t d = tensor->rank; d-- > 0; at /= (uint64_t)tensor->shape[d])
        where[d] = (int64_t)(at % (uint64_t)tensor->shape[d]);
}
static inline uint64_t reference_at(const tn_tensor *tensor, const int64_t *where) {
    uint64_t at = 0;
    for (uint32_t d = 0; d < tensor->rank; d++)
        at = at * (uint64_t)tensor->shape[d] + (uint64_t)(tensor->shape[d] == 1 ? 0 : where[d]);
    return at;
}

/* --- operators --- */

/* Each element of its operands' elements at its place, which broadcast. */
static inline void reference_each(reference_op *at) {
    for (uint64_t i = 0; i < reference_count(at->y); i++) {
        int64_t where[TN_RANK_MAX];
        uint64_t mixed = at->name;
        reference_where(at->y, i, where);
        for (uint32_t k = 0; k < 8 && at->x[k] != NULL; k++)
            mixed = reference_mix(
                mixed, at->in[k][reference_at(at->x[k], where + at->y->rank - at->x[k]->rank)]);
        at->out[i] = mixed;
    }
}

static inline void reference_copy(reference_op *at) {
    memcpy(at->out, at->in[0], reference_count(at->y) * sizeof *at->out);
}

/* Each row's elements, of all of the row. */
static inline void reference_rows(reference_op *at) {
    uint64_t row = (uint64_t)at->y->shape[at->y->rank - 1], count = reference_count(at->y);
    for (uint64_t first = 0; first < count; first += row) {
        uint64_t mixed = at->name;
        for (uint64_t i = 0; i < row; i++) mixed = reference_mix(mixed, at->in[0][first + i]);
        for (uint64_t i = 0; i < row; i++)
            at->out[first + i] = reference_mix(mixed, at->in[0][first + i]);
    }
}

static inline void reference_dense(reference_op *at) {
    uint64_t outs = (uint64_t)at->x[1]->shape[0], ins = (uint64_t)at->x[1]->shape[1];
    for (uint64_t i = 0; i < reference_count(at->y); i++) {
        uint64_t sum = at->in[2] != NULL ? at->in[2][i % outs] : 0;
        for (uint64_t k = 0; k < ins; k++)
            sum += at->in[0][i / outs * ins + k] * at->in[1][i % outs * ins + k];
        at->out[i] = reference_mix(at->name, sum);
    }
}

/* Padding in front, by the documentation of SAME. */
static inline int64_t reference_front(const tn_op *op, int64_t in, int64_t out, int64_t stride,
                                      int64_t reach) {
    int64_t total = (out - 1) * stride + reach - in;
    return tn__attr_int(op, "padding", 0) == 1 || total < 0 ? 0 : total / 2;
}

typedef struct reference_window {
    int64_t kernel[2], stride[2], dilation[2], front[2];
    bool pools, depthwise;
} reference_window;

static inline reference_window reference_window_of(const reference_op *at) {
    const tn_op *op = at->op;
    reference_window window = {.depthwise = strcmp(op->type, "DEPTHWISE_CONV_2D") == 0,
                               .pools = strstr(op->type, "POOL") != NULL};
    static const char *const names[3][2] = {{"stride_h", "stride_w"},
                                            {"dilation_h_factor", "dilation_w_factor"},
                                            {"filter_height", "filter_width"}};
    for (uint32_t i = 0; i < 2; i++) {
        window.stride[i] = tn__attr_int(op, names[0][i], 1);
        window.dilation[i] = window.pools ? 1 : tn__attr_int(op, names[1][i], 1);
        window.kernel[i] = window.pools ? tn__attr_int(op, names[2][i], 1) : at->x[1]->shape[1 + i];
        window.front[i] =
            reference_front(op, at->x[0]->shape[1 + i], at->y->shape[1 + i], window.stride[i],
                            (window.kernel[i] - 1) * window.dilation[i] + 1);
    }
    return window;
}

/* One element: the taps that are inside, summed; pools count them, as an average does. */
static inline uint64_t reference_taps(const reference_op *at, const reference_window *window,
                                      const int64_t *where) {
    uint64_t sum = 0, count = 0;
    int64_t channels = at->x[0]->shape[3], filters = at->y->shape[3];
    int64_t group = window->pools ? 1 : window->depthwise ? channels : at->x[1]->shape[3];
    int64_t first = window->pools       ? where[3]
                    : window->depthwise ? where[3] / (filters / channels)
                                        : where[3] / (filters / (channels / group)) * group;
    int64_t taken = window->pools || window->depthwise ? 1 : group;
    for (int64_t h = 0; h < window->kernel[0]; h++)
        for (int64_t w = 0; w < window->kernel[1]; w++) {
            int64_t y = where[1] * window->stride[0] - window->front[0] + h * window->dilation[0];
            int64_t x = where[2] * window->stride[1] - window->front[1] + w * window->dilation[1];
            if (y < 0 || x < 0 || y >= at->x[0]->shape[1] || x >= at->x[0]->shape[2]) continue;
            for (int64_t c = 0; c < taken; c++) {
                int64_t from[4] = {where[0], y, x, first + c};
                uint64_t value = at->in[0][reference_at(at->x[0], from)];
                int64_t tap[4] = {window->depthwise ? 0 : where[3], h, w,
                                  window->depthwise ? where[3] : c};
                sum += window->pools ? reference_mix(at->name, value)
                                     : value * at->in[1][reference_at(at->x[1], tap)];
                count++;
            }
        }
    return window->pools ? reference_mix(sum, count) : sum;
}

static inline void reference_slide(reference_op *at) {
    reference_window window = reference_window_of(at);
    for (uint64_t i = 0; i < reference_count(at->y); i++) {
        int64_t where[TN_RANK_MAX];
        reference_where(at->y, i, where);
        uint64_t sum = reference_taps(at, &window, where);
        if (!window.pools && at->in[2] != NULL) sum += at->in[2][where[3]];
        at->out[i] = sum;
    }
}

static inline void reference_reduce(reference_op *at) {
    bool gone[TN_RANK_MAX] = {false}, keeps = tn__attr_int(at->op, "keep_dims", 0) != 0;
    uint32_t rank = at->x[0]->rank;
    for (uint64_t k = 0; k < reference_count(at->x[1]); k++) {
        int64_t axis = (int64_t)at->in[1][k];
        gone[axis < 0 ? axis + rank : axis] = true;
    }
    for (uint64_t i = 0; i < reference_count(at->y); i++) at->out[i] = at->name;
    for (uint64_t i = 0; i < reference_count(at->x[0]); i++) {
        int64_t from[TN_RANK_MAX], to[TN_RANK_MAX];
        uint32_t out = 0;
        reference_where(at->x[0], i, from);
        for (uint32_t d = 0; d < rank; d++)
            if (!gone[d] || keeps) to[out++] = gone[d] ? 0 : from[d];
        at->out[reference_at(at->y, to)] += reference_mix(at->name, at->in[0][i]);
    }
}

/* Element by element from a place that the other place tells. */
static inline void reference_transpose(reference_op *at) {
    for (uint64_t i = 0; i < reference_count(at->y); i++) {
        int64_t to[TN_RANK_MAX], from[TN_RANK_MAX];
        reference_where(at->y, i, to);
        for (uint32_t d = 0; d < at->y->rank; d++) from[at->in[1][d]] = to[d];
        at->out[i] = at->in[0][reference_at(at->x[0], from)];
    }
}

/* Shifted by so much along each axis; what is outside is 0. */
static inline void reference_shift(reference_op *at, const int64_t *by) {
    for (uint64_t i = 0; i < reference_count(at->y); i++) {
        int64_t where[TN_RANK_MAX];
        bool inside = true;
        reference_where(at->y, i, where);
        for (uint32_t d = 0; d < at->y->rank; d++) {
            where[d] += by[d];
            inside = inside && where[d] >= 0 && where[d] < at->x[0]->shape[d];
        }
        at->out[i] = inside ? at->in[0][reference_at(at->x[0], where)] : 0;
    }
}

static inline void reference_pad(reference_op *at) {
    int64_t by[TN_RANK_MAX];
    uint32_t count;
    const int64_t *pads = tn__attr_ints(at->op, "paddings", &count); /* of a part */
    for (uint32_t d = 0; d < at->y->rank; d++)
        by[d] = -(pads != NULL ? pads[2 * d] : (int64_t)at->in[1][2 * d]);
    reference_shift(at, by);
}

static inline void reference_slice(reference_op *at) {
    int64_t by[TN_RANK_MAX];
    for (uint32_t d = 0; d < at->y->rank; d++) by[d] = (int64_t)at->in[1][d];
    reference_shift(at, by);
}

static inline void reference_part(reference_op *at) {
    int64_t by[TN_RANK_MAX] = {0};
    uint32_t count, others;
    const int64_t *axes = tn__attr_ints(at->op, "axes", &count);
    const int64_t *starts = tn__attr_ints(at->op, "starts", &others);
    for (uint32_t i = 0; i < count; i++) by[axes[i]] = starts[i];
    reference_shift(at, by);
}

static inline void reference_join(const reference *run, reference_op *at) {
    int64_t axis = tn__attr_int(at->op, "axis", 0), before = 0;
    if (axis < 0) axis += at->y->rank;
    for (uint32_t k = 0; k < at->op->input_count; k++) {
        const tn_tensor *x = tn_graph_tensor(run->graph, at->op->inputs[k]);
        for (uint64_t i = 0; i < reference_count(x); i++) {
            int64_t where[TN_RANK_MAX];
            reference_where(x, i, where);
            where[axis] += before;
            at->out[reference_at(at->y, where)] = run->values[at->op->inputs[k]][i];
        }
        before += x->shape[axis];
    }
    assert_int_equal(before, at->y->shape[axis]);
}

static inline void reference_do(const reference *run, reference_op *at) {
    static const struct {
        const char *type;
        void (*what)(reference_op *at);
    } known[] = {{"CONV_2D", reference_slide},
                 {"DEPTHWISE_CONV_2D", reference_slide},
                 {"AVERAGE_POOL_2D", reference_slide},
                 {"MAX_POOL_2D", reference_slide},
                 {"L2_POOL_2D", reference_slide},
                 {"FULLY_CONNECTED", reference_dense},
                 {"SOFTMAX", reference_rows},
                 {"LOG_SOFTMAX", reference_rows},
                 {"L2_NORMALIZATION", reference_rows},
                 {"MEAN", reference_reduce},
                 {"SUM", reference_reduce},
                 {"REDUCE_ALL", reference_reduce},
                 {"REDUCE_ANY", reference_reduce},
                 {"REDUCE_MAX", reference_reduce},
                 {"REDUCE_MIN", reference_reduce},
                 {"REDUCE_PROD", reference_reduce},
                 {"TRANSPOSE", reference_transpose},
                 {"PAD", reference_pad},
                 {"SLICE", reference_slice},
                 {"Part", reference_part},
                 {"RESHAPE", reference_copy},
                 {"SQUEEZE", reference_copy},
                 {"EXPAND_DIMS", reference_copy}};
    if (strcmp(at->op->type, "CONCATENATION") == 0 || strcmp(at->op->type, "Concat") == 0) {
        reference_join(run, at);
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].type, at->op->type) == 0) {
            known[i].what(at);
            return;
        }
    reference_each(at);
}

/* --- a graph --- */

static inline void reference_draw(reference *run, tn_tensor_id id, uint64_t seed) {
    const tn_tensor *tensor = tn_graph_tensor(run->graph, id);
    uint64_t count = reference_count(tensor), *values = malloc(count * sizeof *values + 8);
    tn__random random = {reference_hash(seed, tensor->name)};
    bool known = tensor->value != NULL && tensor->value->ints != NULL;
    for (uint64_t i = 0; i < count; i++)
        values[i] = known ? (uint64_t)tensor->value->ints[i] : tn__random_next(&random);
    run->values[id] = values;
}

static inline void reference_step(reference *run, const tn_op *op) {
    reference_op at = {.op = op, .name = reference_hash(0, op->type)};
    assert_int_equal(op->output_count, 1);
    for (uint32_t k = 0; k < op->input_count && k < 8; k++) {
        if (op->inputs[k] == TN_NONE) continue;
        at.x[k] = tn_graph_tensor(run->graph, op->inputs[k]);
        at.in[k] = run->values[op->inputs[k]];
        assert_non_null(at.in[k]);
    }
    at.y = tn_graph_tensor(run->graph, op->outputs[0]);
    at.out = malloc(reference_count(at.y) * sizeof *at.out + 8);
    reference_do(run, &at);
    run->values[op->outputs[0]] = at.out;
}

/* All values of an inferred graph of one block. */
static inline void reference_run(reference *run, const tn_graph *graph, uint64_t seed) {
    const tn_block *block = tn_graph_block(graph, 0);
    uint32_t tensors = tn_graph_tensor_count(graph);
    run->graph = graph;
    run->values = calloc((size_t)tensors + 1, sizeof *run->values);
    for (tn_tensor_id id = 0; id < tensors; id++)
        if (tn_graph_tensor(graph, id)->producer == TN_NONE) reference_draw(run, id, seed);
    for (uint32_t i = 0; i < block->op_count; i++)
        reference_step(run, tn_graph_op(graph, block->ops[i]));
}

static inline void reference_end(reference *run) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(run->graph); id++) free(run->values[id]);
    free(run->values);
}

/* Whether two graphs with the same names of inputs and weights compute the same outputs. */
static inline bool reference_same(const tn_graph *one, const tn_graph *two, uint64_t seed) {
    const tn_block *a = tn_graph_block(one, 0), *b = tn_graph_block(two, 0);
    reference left, right;
    bool same = a->output_count == b->output_count;
    reference_run(&left, one, seed);
    reference_run(&right, two, seed);
    for (uint32_t i = 0; same && i < a->output_count; i++) {
        uint64_t count = reference_count(tn_graph_tensor(one, a->outputs[i]));
        same = reference_count(tn_graph_tensor(two, b->outputs[i])) == count &&
               memcmp(left.values[a->outputs[i]], right.values[b->outputs[i]],
                      count * sizeof(uint64_t)) == 0;
    }
    reference_end(&left);
    reference_end(&right);
    return same;
}

#endif
