/* gradients_reduce.c - cases of gradients: reductions, softmax, normalisations.
 */
#include "gradients.h"

/* --- reductions --- */

typedef struct reduction {
    const char *type;
    double middle, spread;
} reduction;

static tn_tensor_id build_reduction(net *n, const void *data) {
    const reduction *r = data;
    shape s = draw_shape(n, 1, 4, 4);
    int64_t axes[8];
    uint32_t count = 0;
    tn_tensor_id x = param(n, r->middle, r->spread, &s);
    bool none = draw(n, 0, 3) == 0; /* over no axes each element is reduced for itself */
    for (uint32_t d = 0; d < s.rank && !none; d++)
        if (draw(n, 0, 1)) axes[count++] = draw(n, 0, 1) ? (int64_t)d : (int64_t)d - s.rank;
    net_attr_int(n, "keepdims", draw(n, 0, 1));
    if (none || draw(n, 0, 3) == 0) net_attr_int(n, "noop_with_empty_axes", 1);
    if (count > 0 && draw(n, 0, 2) == 0) {
        n->version = 11;
        net_attr_ints(n, "axes", count, axes);
        return net_op(n, r->type, NET_LIST(x));
    }
    tn_tensor_id list = count > 0 ? net_ints(n, count, axes) : TN_NONE;
    return net_op(n, r->type, count > 0 ? 2 : 1, (const tn_tensor_id[]){x, list});
}

static tn_tensor_id build_cum_sum(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 4);
    int64_t axis = draw(n, -(int64_t)s.rank, s.rank - 1);
    (void)data;
    net_attr_int(n, "exclusive", draw(n, 0, 1));
    net_attr_int(n, "reverse", draw(n, 0, 1));
    return net_op(n, "CumSum", NET_LIST(param(n, 0, 1, &s), net_ints(n, 1, &axis)));
}

/* Of the factors none, one or two in a row of the axis are 0. */
static tn_tensor_id build_cum_prod(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 5);
    int64_t axis = draw(n, -(int64_t)s.rank, s.rank - 1);
    tn_tensor_id x = param(n, 0, 1.5, &s);
    (void)data;
    n->version = 26;
    for (uint64_t i = 0; i < n->counts[x]; i++)
        if (draw(n, 0, 3) == 0) n->contents[x][i] = 0;
    net_attr_int(n, "exclusive", draw(n, 0, 1));
    net_attr_int(n, "reverse", draw(n, 0, 1));
    return net_op(n, "CumProd", NET_LIST(x, net_ints(n, 1, &axis)));
}

static tn_tensor_id build_softmax(net *n, const void *data) {
    shape s = draw_shape(n, 2, 4, 5);
    tn_tensor_id x = param(n, 0, 2, &s);
    if (draw(n, 0, 1)) n->version = 11;
    if (draw(n, 0, 2)) net_attr_int(n, "axis", draw(n, -(int64_t)s.rank, s.rank - 1));
    /* a last Softmax could be taken for part of the loss */
    return net_op(n, "Mul", NET_LIST(net_op(n, data, NET_LIST(x)), x));
}

/* Factors that are 0: one or several of a product. */
static tn_tensor_id build_zeros(net *n, const void *data) {
    shape s = {.rank = 2, .extent = {3, 4}};
    int64_t last = 1;
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    n->contents[x][1] = n->contents[x][5] = n->contents[x][6] = 0;
    return net_op(n, "ReduceProd", NET_LIST(x, net_ints(n, 1, &last)));
}

void reductions(void **state) {
    static const reduction all[] = {
        {"ReduceSum", 0, 1},    {"ReduceMean", 0, 1},      {"ReduceMax", 0, 1},
        {"ReduceMin", 0, 1},    {"ReduceL1", 0, 1},        {"ReduceL2", 0, 1},
        {"ReduceLogSum", 2, 1}, {"ReduceLogSumExp", 0, 2}, {"ReduceSumSquare", 0, 1},
        {"ReduceProd", 0.5, 1},
    };
    (void)state;
    for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            check(build_reduction, &all[i], all[i].type, seed);
        check(build_zeros, NULL, "ReduceProd of zeros", seed);
        check(build_cum_sum, NULL, "CumSum", seed);
        check(build_cum_prod, NULL, "CumProd", seed);
        check(build_softmax, "Softmax", "Softmax", seed);
        check(build_softmax, "LogSoftmax", "LogSoftmax", seed);
    }
}

/* --- normalisations --- */

static tn_tensor_id build_layer_norm(net *n, const void *data) {
    const char *type = data;
    shape s = draw_shape(n, 2, 4, 5);
    uint32_t axis = (uint32_t)draw(n, 0, s.rank - 1);
    s.extent[axis] += 1; /* of one element alone nothing is left */
    shape t = {.rank = s.rank - axis};
    for (uint32_t d = axis; d < s.rank; d++) t.extent[d - axis] = s.extent[d];
    if (draw(n, 0, 3) == 0)
        for (uint32_t d = 0; d < t.rank; d++) t.extent[d] = 1;
    tn_tensor_id x = param(n, 0.5, 1, &s), scale = param(n, 1, 0.5, &t), bias = param(n, 0, 1, &t);
    bool biased = strcmp(type, "LayerNormalization") == 0 && draw(n, 0, 2) > 0;
    net_attr_int(n, "axis", draw(n, 0, 1) ? (int64_t)axis : (int64_t)axis - s.rank);
    net_attr_float(n, "epsilon", 1e-3);
    tn_tensor_id y = net_op(n, type, biased ? 3 : 2, (const tn_tensor_id[]){x, scale, bias});
    return biased ? y : net_op(n, "Add", NET_LIST(y, bias));
}

static tn_tensor_id build_group_norm(net *n, const void *data) {
    int64_t groups = draw(n, 1, 3), each = draw(n, 1, 3), channels = groups * each;
    bool by_group = *(const int *)data == 1, instance = *(const int *)data == 2;
    shape s = {.rank = 4, .extent = {draw(n, 1, 3), channels, draw(n, 2, 4), draw(n, 1, 4)}};
    shape t = {.rank = 1, .extent = {by_group ? groups : channels}};
    tn_tensor_id x = param(n, 0.5, 1, &s), scale = param(n, 1, 0.5, &t), bias = param(n, 0, 1, &t);
    net_attr_float(n, "epsilon", 1e-3);
    if (by_group) n->version = 18;
    if (instance) return net_op(n, "InstanceNormalization", NET_LIST(x, scale, bias));
    net_attr_int(n, "num_groups", groups);
    return net_op(n, "GroupNormalization", NET_LIST(x, scale, bias));
}

static tn_tensor_id build_lp_norm(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 5);
    tn_tensor_id x = param(n, 0, 1, &s);
    (void)data;
    net_attr_int(n, "p", draw(n, 1, 2));
    net_attr_int(n, "axis", draw(n, -(int64_t)s.rank, s.rank - 1));
    return net_op(n, "LpNormalization", NET_LIST(x));
}

static tn_tensor_id build_lrn(net *n, const void *data) {
    shape s = {.rank = (uint32_t)draw(n, 2, 4),
               .extent = {draw(n, 1, 2), draw(n, 1, 7), draw(n, 1, 9), draw(n, 1, 9)}};
    tn_tensor_id x = param(n, 0, 2, &s);
    (void)data;
    net_attr_int(n, "size", draw(n, 1, 6));
    net_attr_float(n, "alpha", 0.7);
    if (draw(n, 0, 1)) net_attr_float(n, "beta", 0.6);
    if (draw(n, 0, 1)) net_attr_float(n, "bias", 1.5);
    return net_op(n, "LRN", NET_LIST(x));
}

static tn_tensor_id build_mean_variance(net *n, const void *data) {
    static const int64_t axes[] = {1, 2};
    shape s = {.rank = 4, .extent = {draw(n, 2, 3), draw(n, 2, 3), draw(n, 2, 3), draw(n, 1, 4)}};
    tn_tensor_id x = param(n, 0.5, 1, &s);
    (void)data;
    if (draw(n, 0, 1)) net_attr_ints(n, "axes", 2, axes);
    return net_op(n, "MeanVarianceNormalization", NET_LIST(x));
}

/* As in inference: statistics that two of them read are given. */
static tn_tensor_id build_batch_norm(net *n, const void *data) {
    shape s = draw_shape(n, 2, 4, 4);
    shape t = {.rank = 1, .extent = {s.extent[1]}};
    tn_tensor_id x = param(n, 0, 1, &s), scale = param(n, 1, 0.3, &t), bias = param(n, 0, 1, &t);
    tn_tensor_id mean = param(n, 0, 1, &t), variance = param(n, 1, 0.5, &t);
    (void)data;
    n->version = 15;
    for (int k = 0; k < 2; k++)
        x = net_op(n, "BatchNormalization", NET_LIST(x, scale, bias, mean, variance));
    return x;
}

void normalisations(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
        check(build_layer_norm, "LayerNormalization", "LayerNormalization", seed);
        check(build_layer_norm, "RMSNormalization", "RMSNormalization", seed);
        check(build_group_norm, &(int){0}, "GroupNormalization", seed);
        check(build_group_norm, &(int){1}, "GroupNormalization 18", seed);
        check(build_group_norm, &(int){2}, "InstanceNormalization", seed);
        check(build_lp_norm, NULL, "LpNormalization", seed);
        check(build_lrn, NULL, "LRN", seed);
        check(build_mean_variance, NULL, "MeanVarianceNormalization", seed);
        check(build_batch_norm, NULL, "BatchNormalization", seed);
    }
}

/* --- losses --- */

static tn_tensor_id build_loss(net *n, const void *data) {
    static const char *const reductions_of[] = {"mean", "sum", "none"};
    bool soft = strcmp(data, "SoftmaxCrossEntropyLoss") == 0, ignores = draw(n, 0, 1) != 0;
    shape s = draw_shape(n, 2, 4, 3), t = {.rank = 1}, labels = {.rank = s.rank - 1};
    s.extent[1] += 1;
    t.extent[0] = s.extent[1];
    for (uint32_t d = 0; d < labels.rank; d++) labels.extent[d] = s.extent[d == 0 ? 0 : d + 1];
    tn_tensor_id x = param(n, 0, 2, &s);
    tn_tensor_id y = net_numbers(n, "y", s.extent[1], labels.rank, labels.extent);
    tn_tensor_id weights = net_input(n, "weights", t.rank, t.extent);
    for (int64_t c = 0; c < t.extent[0]; c++) n->contents[weights][c] += 1.5;
    if (ignores) net_attr_int(n, "ignore_index", -100);
    if (ignores && n->counts[y] > 1) n->contents[y][1] = -100;
    net_attr_string(n, "reduction", reductions_of[draw(n, 0, 2)]);
    return net_op(n, soft ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
                  draw(n, 0, 1) ? 3 : 2, (const tn_tensor_id[]){x, y, weights});
}

void losses(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
        check(build_loss, "SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", seed);
        check(build_loss, "NegativeLogLikelihoodLoss", "NegativeLogLikelihoodLoss", seed);
    }
}
