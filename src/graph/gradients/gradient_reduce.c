/* gradient_reduce.c - gradients of reductions, of Softmax and of normalisations.
 *
 * A sum keeps nothing; Softmax keeps its output; a minimum or maximum keeps its input and output,
 * to search for the elements that equal it. Normalisations keep their input: mean and deviation are
 * recomputed row by row, while the row is in the cache anyway.
 */
#include "graph/gradients/gradients.h"

static tn_status reduce_two(tn_gradient *it, const char *type, tn_tensor_id a, tn_tensor_id b,
                            tn_tensor_id *made) {
    return tn__gradient_op(it, type, TN__LIST(a, b), NULL, 0, made);
}

static tn_status reduce_axis(tn_gradient *it, int64_t axis, uint32_t rank, uint32_t *found) {
    *found = 0;
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return tn__gradient_fail(it, "axis %lld is outside rank %u", (long long)axis, rank);
    *found = (uint32_t)(axis < 0 ? axis + rank : axis);
    return TN_OK;
}

/* --- reductions --- */

typedef struct reduce_extents {
    uint64_t set; /* bit d is set if dimension d is reduced */
    int64_t shape[TN_RANK_MAX];
    int64_t kept[TN_RANK_MAX]; /* the input's shape with extent 1 in reduced dimensions */
    uint32_t rank;
    double count; /* number of elements that are reduced to one */
    tn_dtype dtype;
} reduce_extents;

static tn_status reduce_read(tn_gradient *it, reduce_extents *frame) {
    tn_tensor x = tn__gradient_input(it, 0);
    const tn_attr *attr = tn__attr(&it->op, "axes");
    uint32_t count;
    const int64_t *axes = tn__gradient_ints_of(it, 1, &count);
    if (axes == NULL && tn__gradient_in(it, 1) != TN_NONE)
        return tn__gradient_fail(it, "no gradient where the axes are not known");
    if (axes == NULL && attr != NULL && attr->ints != NULL) {
        axes = attr->ints;
        count = attr->count;
    }
    bool none = tn__attr_int(&it->op, "noop_with_empty_axes", 0) != 0;
    *frame = (reduce_extents){.rank = x.rank, .count = 1, .dtype = x.dtype};
    if (count == 0 && !none) frame->set = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        TN_TRY(reduce_axis(it, axes[i], x.rank, &axis));
        frame->set |= UINT64_C(1) << axis;
    }
    for (uint32_t d = 0; d < x.rank; d++) {
        bool reduced = frame->set >> d & 1;
        frame->shape[d] = x.shape[d];
        frame->kept[d] = reduced ? 1 : x.shape[d];
        frame->count *= reduced ? (double)x.shape[d] : 1;
    }
    return TN_OK;
}

/* Reshapes a tensor of the output's shape so that it broadcasts against the input. */
static tn_status reduce_wide(tn_gradient *it, const reduce_extents *frame, tn_tensor_id id,
                             tn_tensor_id *wide) {
    tn_tensor_id list;
    *wide = id;
    if (tn__gradient_output(it, 0).rank == frame->rank) return TN_OK;
    TN_TRY(tn__gradient_list(it, frame->kept, frame->rank, &list));
    return reduce_two(it, "Reshape", id, list, wide);
}

static tn_status reduce_expand(tn_gradient *it, const reduce_extents *frame, tn_tensor_id wide) {
    tn_tensor_id list;
    TN_TRY(tn__gradient_list(it, frame->shape, frame->rank, &list));
    return reduce_two(it, "Expand", wide, list, &it->found[0]);
}

static tn_status reduce_scaled(tn_gradient *it, const reduce_extents *frame, tn_tensor_id id,
                               double by, tn_tensor_id *made) {
    tn_tensor_id number;
    TN_TRY(tn__gradient_number(it, frame->dtype, by, &number));
    return reduce_two(it, "Mul", id, number, made);
}

static tn_status reduce_sum(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id wide;
    TN_TRY(reduce_wide(it, frame, it->given[0], &wide));
    return reduce_expand(it, frame, wide);
}

static tn_status reduce_mean(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id wide;
    TN_TRY(reduce_scaled(it, frame, it->given[0], 1 / frame->count, &wide));
    TN_TRY(reduce_wide(it, frame, wide, &wide));
    return reduce_expand(it, frame, wide);
}

static tn_status reduce_sum_square(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id wide;
    TN_TRY(reduce_scaled(it, frame, it->given[0], 2, &wide));
    TN_TRY(reduce_wide(it, frame, wide, &wide));
    return reduce_two(it, "Mul", it->op.inputs[0], wide, &it->found[0]);
}

static tn_status reduce_l1(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id wide, sign;
    TN_TRY(reduce_wide(it, frame, it->given[0], &wide));
    TN_TRY(tn__gradient_op(it, "Sign", TN__LIST(it->op.inputs[0]), NULL, 0, &sign));
    return reduce_two(it, "Mul", sign, wide, &it->found[0]);
}

/* Gradient of ReduceL2: dx = x dy / y, and 0 where y is 0. */
static tn_status reduce_l2(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id zero, none, part, wide;
    TN_TRY(tn__gradient_number(it, frame->dtype, 0, &zero));
    TN_TRY(reduce_two(it, "Equal", it->op.outputs[0], zero, &none));
    TN_TRY(reduce_two(it, "Div", it->given[0], it->op.outputs[0], &part));
    TN_TRY(tn__gradient_op(it, "Where", TN__LIST(none, zero, part), NULL, 0, &part));
    TN_TRY(reduce_wide(it, frame, part, &wide));
    return reduce_two(it, "Mul", it->op.inputs[0], wide, &it->found[0]);
}

/* Gradient of ReduceLogSum, y = log(sum x): dx = dy / exp(y). */
static tn_status reduce_log_sum(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id sum, part, wide;
    TN_TRY(tn__gradient_op(it, "Exp", TN__LIST(it->op.outputs[0]), NULL, 0, &sum));
    TN_TRY(reduce_two(it, "Div", it->given[0], sum, &part));
    TN_TRY(reduce_wide(it, frame, part, &wide));
    return reduce_expand(it, frame, wide);
}

/* Gradient of ReduceProd: dx is dy times the product of the other factors. If exactly one factor is
 * 0, only that one has a gradient; if several are 0, all gradients are 0. */
static tn_status reduce_prod(tn_gradient *it, const reduce_extents *frame) {
    int64_t axes[TN_RANK_MAX], to = frame->dtype, yes = 1;
    uint32_t number = 0;
    tn_tensor_id x = it->op.inputs[0], zero, one, none, safe, list, product, ones, zeros, some;
    tn_tensor_id rest, single, other, share, wide;
    const tn_attr keep = TN__ATTR_INT("keepdims", &yes);
    for (uint32_t d = 0; d < frame->rank; d++)
        if (frame->set >> d & 1) axes[number++] = d;
    TN_TRY(tn__gradient_number(it, frame->dtype, 0, &zero));
    TN_TRY(tn__gradient_number(it, frame->dtype, 1, &one));
    TN_TRY(tn__gradient_list(it, axes, number, &list));
    TN_TRY(reduce_two(it, "Equal", x, zero, &none));
    TN_TRY(tn__gradient_op(it, "Where", TN__LIST(none, one, x), NULL, 0, &safe));
    TN_TRY(tn__gradient_op(it, "ReduceProd", TN__LIST(safe, list), &keep, 1, &product));
    TN_TRY(tn__gradient_op(it, "Cast", TN__LIST(none), &TN__ATTR_INT("to", &to), 1, &ones));
    TN_TRY(tn__gradient_op(it, "ReduceSum", TN__LIST(ones, list), &keep, 1, &zeros));
    TN_TRY(reduce_two(it, "Equal", zeros, one, &single));
    TN_TRY(reduce_two(it, "Greater", zeros, zero, &some));
    TN_TRY(reduce_two(it, "Div", product, safe, &rest));
    TN_TRY(tn__gradient_op(it, "Where", TN__LIST(some, zero, rest), NULL, 0, &rest));
    TN_TRY(tn__gradient_op(it, "Where", TN__LIST(single, product, zero), NULL, 0, &other));
    TN_TRY(tn__gradient_op(it, "Where", TN__LIST(none, other, rest), NULL, 0, &share));
    TN_TRY(reduce_wide(it, frame, it->given[0], &wide));
    return reduce_two(it, "Mul", share, wide, &it->found[0]);
}

/* Gradient of ReduceLogSumExp: dx = dy exp(x - y). */
static tn_status reduce_log_sum_exp(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id y, wide, less, power;
    TN_TRY(reduce_wide(it, frame, it->op.outputs[0], &y));
    TN_TRY(reduce_wide(it, frame, it->given[0], &wide));
    TN_TRY(reduce_two(it, "Sub", it->op.inputs[0], y, &less));
    TN_TRY(tn__gradient_op(it, "Exp", TN__LIST(less), NULL, 0, &power));
    return reduce_two(it, "Mul", power, wide, &it->found[0]);
}

/* Gradient of ReduceMax and ReduceMin: all elements that equal the result share the gradient
 * equally. */
static tn_status reduce_extreme(tn_gradient *it, const reduce_extents *frame) {
    tn_tensor_id y, wide, mask, ones, count, list, share, zero;
    int64_t axes[TN_RANK_MAX], to = frame->dtype, yes = 1;
    uint32_t number = 0;
    for (uint32_t d = 0; d < frame->rank; d++)
        if (frame->set >> d & 1) axes[number++] = d;
    TN_TRY(reduce_wide(it, frame, it->op.outputs[0], &y));
    TN_TRY(reduce_wide(it, frame, it->given[0], &wide));
    TN_TRY(reduce_two(it, "Equal", it->op.inputs[0], y, &mask));
    TN_TRY(tn__gradient_op(it, "Cast", TN__LIST(mask), &TN__ATTR_INT("to", &to), 1, &ones));
    TN_TRY(tn__gradient_list(it, axes, number, &list));
    TN_TRY(tn__gradient_op(it, "ReduceSum", TN__LIST(ones, list), &TN__ATTR_INT("keepdims", &yes),
                           1, &count));
    TN_TRY(reduce_two(it, "Div", wide, count, &share));
    TN_TRY(tn__gradient_number(it, frame->dtype, 0, &zero));
    return tn__gradient_op(it, "Where", TN__LIST(mask, share, zero), NULL, 0, &it->found[0]);
}

typedef tn_status (*reduce_rule)(tn_gradient *it, const reduce_extents *frame);

/* `copies`: over an empty list of axes the reduction is a copy, because it computes nothing of one
 * element alone. */
static tn_status reduce_by(tn_gradient *it, reduce_rule rule, bool copies) {
    reduce_extents frame;
    TN_TRY(reduce_read(it, &frame));
    if (frame.set != 0 || !copies) return rule(it, &frame);
    it->found[0] = it->given[0];
    return TN_OK;
}

#define REDUCE(name, copies)                                                                       \
    tn_status tn__gradient_reduce_##name(tn_gradient *it) {                                        \
        return reduce_by(it, reduce_##name, copies);                                               \
    }
REDUCE(sum, true)
REDUCE(mean, true)
REDUCE(sum_square, false)
REDUCE(l1, false)
REDUCE(l2, false)
REDUCE(log_sum, false)
REDUCE(log_sum_exp, true)
REDUCE(prod, true)
REDUCE(extreme, true)

/* The gradient of a running sum is the running sum in the opposite direction. */
tn_status tn__gradient_cum_sum(tn_gradient *it) {
    int64_t exclusive = tn__attr_int(&it->op, "exclusive", 0);
    int64_t reverse = !tn__attr_int(&it->op, "reverse", 0);
    const tn_attr attrs[] = {TN__ATTR_INT("exclusive", &exclusive),
                             TN__ATTR_INT("reverse", &reverse)};
    return tn__gradient_op(it, "CumSum", TN__LIST(it->given[0], it->op.inputs[1]), attrs, 2,
                           &it->found[0]);
}

/* The gradient of a running product needs no division, so zeros among the factors are no special
 * case: an operator of its own computes it in two passes (reduce.c of the kernels). */
tn_status tn__gradient_cum_prod(tn_gradient *it) {
    int64_t exclusive = tn__attr_int(&it->op, "exclusive", 0);
    int64_t reverse = tn__attr_int(&it->op, "reverse", 0);
    const tn_attr attrs[] = {TN__ATTR_INT("exclusive", &exclusive),
                             TN__ATTR_INT("reverse", &reverse)};
    return tn__gradient_own(it, "CumProdGrad",
                            TN__LIST(it->given[0], it->op.inputs[0], it->op.inputs[1]), attrs, 2,
                            &it->found[0]);
}

/* --- Softmax --- */

static tn_status reduce_softmax(tn_gradient *it, const char *type) {
    bool old = it->version < 13; /* before opset 13 all dimensions from the axis on form one row */
    uint32_t rank = tn__gradient_input(it, 0).rank, axis;
    if (rank == 0) return tn__gradient_fail(it, "no gradient for a scalar");
    TN_TRY(reduce_axis(it, tn__attr_int(&it->op, "axis", old ? 1 : -1), rank + (old && rank == 1),
                       &axis));
    int64_t first = axis, flat = old;
    const tn_attr attrs[] = {TN__ATTR_INT("axis", &first), TN__ATTR_INT("flat", &flat)};
    return tn__gradient_own(it, type, TN__LIST(it->given[0], it->op.outputs[0]), attrs, 2,
                            &it->found[0]);
}

tn_status tn__gradient_softmax(tn_gradient *it) { return reduce_softmax(it, "SoftmaxGrad"); }
tn_status tn__gradient_log_softmax(tn_gradient *it) { return reduce_softmax(it, "LogSoftmaxGrad"); }

/* --- gradients of normalisations y = scale (x - mean) / deviation + bias, slice by slice --- */

/* Slices of elements that are normalised together. Each slice has `count` elements; element i of
 * slice s is scaled by entry (s % cycle) * each + i / run of the scale. */
typedef struct reduce_slices {
    int64_t count, cycle, each, run;
} reduce_slices;

static tn_status reduce_normalisation(tn_gradient *it, reduce_slices slices, bool centered,
                                      double epsilon) {
    tn_tensor scale = tn__gradient_input(it, 1), bias = tn__gradient_input(it, 2);
    int64_t center = centered;
    tn_tensor_id made[3];
    const tn_attr attrs[] = {
        TN__ATTR_INT("count", &slices.count), TN__ATTR_INT("cycle", &slices.cycle),
        TN__ATTR_INT("each", &slices.each),   TN__ATTR_INT("run", &slices.run),
        TN__ATTR_INT("centered", &center),    TN__ATTR_FLOAT("epsilon", &epsilon)};
    if (it->given[0] == TN_NONE || tn__gradient_given(it, 1) != TN_NONE ||
        tn__gradient_given(it, 2) != TN_NONE)
        return tn__gradient_fail(it, "no gradient through statistics of a normalisation");
    TN_TRY(tn__gradient_many(it, "NormalizationGrad",
                             TN__LIST(it->given[0], it->op.inputs[0], it->op.inputs[1]), attrs, 6,
                             made, 3));
    if (it->wanted[0]) it->found[0] = made[0];
    if (it->wanted[1]) it->found[1] = made[1];
    if (!tn__gradient_wants(it, 2)) return TN_OK;
    it->found[2] = made[2];
    bool same = bias.rank == scale.rank &&
                memcmp(bias.shape, scale.shape, bias.rank * sizeof *bias.shape) == 0;
    return same ? TN_OK : tn__gradient_reshaped(it, 2, made[2]);
}

static int64_t reduce_span(const tn_tensor *tensor, uint32_t first) {
    int64_t count = 1;
    for (uint32_t d = first; d < tensor->rank; d++) count *= tensor->shape[d];
    return count;
}

static tn_status reduce_rows(tn_gradient *it, bool centered) {
    tn_tensor x = tn__gradient_input(it, 0), scale = tn__gradient_input(it, 1);
    uint32_t axis;
    TN_TRY(reduce_axis(it, tn__attr_int(&it->op, "axis", -1), x.rank, &axis));
    int64_t count = reduce_span(&x, axis), scales = reduce_span(&scale, 0);
    if (scales != count && scales != 1)
        return tn__gradient_fail(it, "no gradient for a scale that is repeated within a row");
    reduce_slices slices = {.count = count, .cycle = 1, .run = scales == 1 ? count : 1};
    return reduce_normalisation(it, slices, centered,
                                tn__attr_float(&it->op, "epsilon", (double)1e-5f));
}

tn_status tn__gradient_layer_norm(tn_gradient *it) { return reduce_rows(it, true); }
tn_status tn__gradient_rms_norm(tn_gradient *it) { return reduce_rows(it, false); }

static tn_status reduce_groups(tn_gradient *it, int64_t groups) {
    tn_tensor x = tn__gradient_input(it, 0), scale = tn__gradient_input(it, 1);
    int64_t area = reduce_span(&x, 2), channels = x.shape[1];
    if (groups < 1 || channels % groups != 0)
        return tn__gradient_fail(it, "%lld groups do not divide the channels", (long long)groups);
    int64_t each = channels / groups;
    /* opset 18 has one scale per group, opset 21 one per channel */
    bool by_group = reduce_span(&scale, 0) == groups;
    reduce_slices slices = {.count = each * area,
                            .cycle = groups,
                            .each = by_group ? 1 : each,
                            .run = by_group ? each * area : area};
    return reduce_normalisation(it, slices, true,
                                tn__attr_float(&it->op, "epsilon", (double)1e-5f));
}

tn_status tn__gradient_instance_norm(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    if (x.rank < 2) return tn__gradient_fail(it, "an input of rank %u", x.rank);
    return reduce_groups(it, x.shape[1]);
}

tn_status tn__gradient_group_norm(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    if (x.rank < 2) return tn__gradient_fail(it, "an input of rank %u", x.rank);
    return reduce_groups(it, tn__attr_int(&it->op, "num_groups", 0));
}

tn_status tn__gradient_local_norm(tn_gradient *it) {
    return tn__gradient_own(it, "LRNGrad", TN__LIST(it->given[0], it->op.inputs[0]), it->op.attrs,
                            it->op.attr_count, &it->found[0]);
}

/* Gradient of LpNormalization: y = x / n, where n is the sum of magnitudes or the root of the sum
 * of squares. dx = (dy - u sum(dy y)) / n, where u is the sign of x in the first case and y in the
 * second. */
tn_status tn__gradient_lp_norm(tn_gradient *it) {
    uint32_t rank = tn__gradient_input(it, 0).rank, axis;
    bool first = tn__attr_int(&it->op, "p", 2) == 1;
    tn_tensor_id x = it->op.inputs[0], y = it->op.outputs[0], dy = it->given[0];
    tn_tensor_id list, norm, product, sum, along = y, less;
    TN_TRY(reduce_axis(it, tn__attr_int(&it->op, "axis", -1), rank, &axis));
    int64_t one = axis;
    TN_TRY(tn__gradient_list(it, &one, 1, &list));
    TN_TRY(reduce_two(it, first ? "ReduceL1" : "ReduceL2", x, list, &norm));
    TN_TRY(reduce_two(it, "Mul", dy, y, &product));
    TN_TRY(reduce_two(it, "ReduceSum", product, list, &sum));
    if (first) TN_TRY(tn__gradient_op(it, "Sign", TN__LIST(x), NULL, 0, &along));
    TN_TRY(reduce_two(it, "Mul", along, sum, &product));
    TN_TRY(reduce_two(it, "Sub", dy, product, &less));
    return reduce_two(it, "Div", less, norm, &it->found[0]);
}

/* Gradient of MeanVarianceNormalization: y = (x - mean) / deviation over the axes. dx = (dy -
 * mean(dy) - y mean(dy y)) / deviation. */
tn_status tn__gradient_mean_variance(tn_gradient *it) {
    static const int64_t usual[] = {0, 2, 3};
    const tn_attr *attr = tn__attr(&it->op, "axes");
    bool given = attr != NULL && attr->ints != NULL;
    tn_tensor_id x = it->op.inputs[0], y = it->op.outputs[0], dy = it->given[0];
    tn_tensor_id list, mean, less, square, variance, deviation, product, along;
    TN_TRY(tn__gradient_list(it, given ? attr->ints : usual, given ? attr->count : 3, &list));
    TN_TRY(reduce_two(it, "ReduceMean", x, list, &mean));
    TN_TRY(reduce_two(it, "Sub", x, mean, &less));
    TN_TRY(reduce_two(it, "Mul", less, less, &square));
    TN_TRY(reduce_two(it, "ReduceMean", square, list, &variance));
    TN_TRY(tn__gradient_op(it, "Sqrt", TN__LIST(variance), NULL, 0, &deviation));
    TN_TRY(reduce_two(it, "ReduceMean", dy, list, &mean));
    TN_TRY(reduce_two(it, "Sub", dy, mean, &less));
    TN_TRY(reduce_two(it, "Mul", dy, y, &product));
    TN_TRY(reduce_two(it, "ReduceMean", product, list, &mean));
    TN_TRY(reduce_two(it, "Mul", y, mean, &along));
    TN_TRY(reduce_two(it, "Sub", less, along, &less));
    return reduce_two(it, "Div", less, deviation, &it->found[0]);
}
