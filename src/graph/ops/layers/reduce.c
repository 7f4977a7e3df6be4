/* reduce.c - reductions over axes, and the position of the largest or smallest element.
 *
 * The axes are an attribute in older operator sets and an input in newer ones; if there are none,
 * all axes are reduced, or no axis with noop_with_empty_axes. Small values are tracked, because
 * exporters compute sizes with ReduceProd, ReduceMax and ReduceMin, often after a Cast to float32.
 * Source: operator texts of ONNX, opsets 1 to 20.
 */
#include <math.h>

#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

/* Reads the axes as a bit set; returns false if they are unknown. */
static bool reduce_axes(tn_infer *infer, uint32_t rank, uint64_t *set, tn_status *status) {
    const int64_t *axes;
    uint32_t count;
    *status = TN_OK;
    *set = 0;
    if (!tn__list(infer, 1, "axes", &axes, &count)) return false;
    if (axes == NULL || count == 0) {
        bool noop = tn__attr_int(infer->op, "noop_with_empty_axes", 0) != 0;
        *set = noop ? 0 : UINT64_MAX;
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        *status = tn__axis(infer, axes[i], rank, &axis);
        if (*status != TN_OK) return false;
        *set |= 1ull << axis;
    }
    return true;
}

static tn_status reduce_apply(tn_infer *infer, uint64_t set, bool keep, tn_dtype dtype) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        bool reduced = set >> i & 1;
        if (!reduced || keep) shape[rank++] = reduced ? 1 : x->shape[i];
    }
    return tn__set_output(infer, 0, dtype, rank, shape);
}

static tn_status reduce_shape(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    bool keep = tn__attr_int(infer->op, "keepdims", 1) != 0;
    uint64_t set;
    tn_status status;
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (reduce_axes(infer, x->rank, &set, &status)) return reduce_apply(infer, set, keep, x->dtype);
    TN_TRY(status);
    if (keep) return tn__set_output(infer, 0, x->dtype, x->rank, tn__unknown_extents);
    return tn__set_dtype(infer, 0, x->dtype);
}

static tn_status reduce_shape_arg(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t axis;
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, TN_INT64);
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), x->rank, &axis));
    return reduce_apply(infer, 1ull << axis, tn__attr_int(infer->op, "keepdims", 1) != 0, TN_INT64);
}

/* --- contents, by walking the input once --------------------------------------------------------
 */

typedef struct reduce_step { /* a function that combines two elements, and its identity */
    int64_t (*of_ints)(int64_t a, int64_t b);
    double (*of_floats)(double a, double b);
    /* whether the reduction of no elements is defined, as for the product of the extents of a
     * scalar */
    bool has_identity;
    int64_t identity;
} reduce_step;

static int64_t reduce_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t reduce_times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t reduce_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t reduce_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static double reduce_float_add(double a, double b) { return a + b; }
static double reduce_float_times(double a, double b) { return a * b; }

static const reduce_step reduce_sum = {reduce_add, reduce_float_add, true, 0};
static const reduce_step reduce_prod = {reduce_times, reduce_float_times, true, 1};
static const reduce_step reduce_max = {reduce_larger, fmax, false, 0};
static const reduce_step reduce_min = {reduce_smaller, fmin, false, 0};

/* Returns the index of the output element to which input element `index` contributes. */
static uint32_t reduce_target(const tn_tensor *x, uint64_t set, uint32_t index) {
    uint32_t target = 0, stride = 1;
    for (uint32_t i = x->rank; i-- > 0;) {
        uint32_t extent = (uint32_t)x->shape[i], at = index % extent;
        index /= extent;
        if (set >> i & 1) continue;
        target += at * stride;
        stride *= extent;
    }
    return target;
}

static tn_status reduce_fold(tn_infer *infer, const reduce_step *step, bool mean) {
    const tn_tensor *x = tn__input(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    uint32_t count = tn__fold_count(infer, 0);
    uint64_t set;
    tn_status status;
    if (value == NULL || count == TN_NONE || !tn__shape_known(x)) return TN_OK;
    if (value->count == 0 && (!step->has_identity || mean)) return TN_OK;
    if (!reduce_axes(infer, x->rank, &set, &status)) return status;
    int64_t *ints = tn__scratch(infer, (size_t)count + 1, sizeof *ints);
    double *floats = tn__scratch(infer, (size_t)count + 1, sizeof *floats);
    uint32_t *begun = tn__scratch(infer, (size_t)count + 1, sizeof *begun);
    if (ints == NULL || floats == NULL || begun == NULL) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < value->count; i++) {
        uint32_t to = reduce_target(x, set, i);
        bool first = begun[to]++ == 0;
        if (value->ints != NULL)
            ints[to] = first ? value->ints[i]
                             : tn__wrap(x->dtype, step->of_ints(ints[to], value->ints[i]));
        else
            floats[to] = first ? value->floats[i]
                               : tn__round(x->dtype, step->of_floats(floats[to], value->floats[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (begun[i] == 0) floats[i] = (double)(ints[i] = step->identity);
        if (mean && begun[i] != 0) {
            ints[i] /= (int64_t)begun[i];
            floats[i] = tn__round(x->dtype, floats[i] / begun[i]);
        }
    }
    return value->ints != NULL ? tn__set_value_ints(infer, 0, ints, count)
                               : tn__set_value_floats(infer, 0, floats, count);
}

static tn_status reduce_fold_sum(tn_infer *infer) { return reduce_fold(infer, &reduce_sum, false); }
static tn_status reduce_fold_mean(tn_infer *infer) { return reduce_fold(infer, &reduce_sum, true); }
static tn_status reduce_fold_max(tn_infer *infer) { return reduce_fold(infer, &reduce_max, false); }
static tn_status reduce_fold_min(tn_infer *infer) { return reduce_fold(infer, &reduce_min, false); }

/* Computes the values of ReduceProd. A product of bounds is a bound if no factor is negative. */
static tn_status reduce_fold_prod(tn_infer *infer) {
    const tn_value *least, *most;
    if (tn__value_is_bound(infer, 0)) {
        if (!tn__value_range(infer, 0, &least, &most)) return TN_OK;
        for (uint32_t i = 0; i < least->count; i++)
            if (!(tn__value_at(least, i) >= 0)) return TN_OK;
    }
    return reduce_fold(infer, &reduce_prod, false);
}

/* A reduction can be divided into parts along an axis that is not reduced. */
static bool reduce_split(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0);
    bool keep = tn__attr_int(infer->op, "keepdims", 1) != 0;
    uint32_t seen = 0;
    uint64_t set;
    tn_status status;
    if (input > 0) return tn__need_all(need);
    if (!reduce_axes(infer, x->rank, &set, &status)) return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        bool reduced = set >> d & 1;
        if (!reduced && (keep ? d : seen) == part->axis) return tn__need_same(need, d, part);
        seen += !reduced;
    }
    return false;
}

static uint64_t reduce_flops(tn_infer *infer) { return tn__elements(tn__input(infer, 0)); }

/* clang-format off */
#define REDUCE(name) .type = #name, .inputs_min = 1, .inputs_max = 2, .outputs_max = 1, \
    .shape = reduce_shape, .flops = reduce_flops, .split = reduce_split
#define REDUCE_ARG(name) .type = #name, .inputs_min = 1, .inputs_max = 1, .outputs_max = 1, \
    .shape = reduce_shape_arg, .flops = reduce_flops
static const tn_op_rule reduce_rules[] = {
    {REDUCE_ARG(ArgMax)},
    {REDUCE_ARG(ArgMin)},
    {REDUCE(ReduceL1), .gradient = tn__gradient_reduce_l1},
    {REDUCE(ReduceL2), .gradient = tn__gradient_reduce_l2},
    {REDUCE(ReduceLogSum), .gradient = tn__gradient_reduce_log_sum},
    {REDUCE(ReduceLogSumExp), .gradient = tn__gradient_reduce_log_sum_exp},
    {REDUCE(ReduceMax), .fold = reduce_fold_max, .monotone = 1,
     .gradient = tn__gradient_reduce_extreme},
    {REDUCE(ReduceMean), .flags = TN_RULE_ROUGH, .fold = reduce_fold_mean, .monotone = 1,
     .gradient = tn__gradient_reduce_mean},
    {REDUCE(ReduceMin), .fold = reduce_fold_min, .monotone = 1,
     .gradient = tn__gradient_reduce_extreme},
    {REDUCE(ReduceProd), .flags = TN_RULE_ROUGH, .fold = reduce_fold_prod, .monotone = 1,
     .gradient = tn__gradient_reduce_prod},
    {REDUCE(ReduceSum), .flags = TN_RULE_ROUGH, .fold = reduce_fold_sum, .monotone = 1,
     .gradient = tn__gradient_reduce_sum},
    {REDUCE(ReduceSumSquare), .gradient = tn__gradient_reduce_sum_square},
};
/* clang-format on */

TN_OP_FAMILY(reduce, "");
