/* views.c - operators that give the same elements another shape: Reshape, Flatten, Squeeze,
 * Unsqueeze, Identity. Their output is a view of all of input 0, or may overwrite it.
 *
 * If the shape of the input is an upper bound, a computed extent (-1) is an upper bound too, and
 * numbers of elements need not agree.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

static tn_view views_whole(tn_infer *infer, uint32_t output) {
    return output ? tn__no_view : tn__view_input(infer, 0, 0);
}

/* --- Reshape --- */

/* Computes the number of elements that the other extents leave for extent -1. Extents copied by 0
 * occur on both sides, so they may even be unknown. Returns false if the number is unknown. */
static bool views_reshape_rest(const tn_tensor *input, const int64_t *target, uint32_t count,
                               bool zero_copies, uint64_t *have, uint64_t *others) {
    *have = *others = 1;
    if (!tn__rank_known(input)) return false;
    for (uint32_t i = 0; i < input->rank; i++) {
        if (zero_copies && i < count && target[i] == 0) continue;
        if (input->shape[i] == TN_DIM_UNKNOWN) return false;
        if (!tn__mul(*have, (uint64_t)input->shape[i], have)) return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (target[i] == -1 || (zero_copies && target[i] == 0)) continue;
        if (!tn__mul(*others, (uint64_t)target[i], others)) return false;
    }
    return true;
}

/* Sets the extents as the shape operand lists them; an extent of -1 stays unknown for now. */
static tn_status views_reshape_written(tn_infer *infer, const int64_t *target, uint32_t count,
                                       bool zero_copies, int64_t *shape, uint32_t *open) {
    const tn_tensor *input = tn__input(infer, 0);
    bool loose = tn__value_is_bound(infer, 1);
    *open = TN_NONE;
    for (uint32_t i = 0; i < count; i++) {
        shape[i] = target[i];
        if (target[i] == -1) {
            if (*open != TN_NONE) return tn__infer_fail(infer, "the shape has more than one -1");
            *open = i;
            shape[i] = TN_DIM_UNKNOWN;
        } else if (target[i] == 0 && zero_copies) {
            if (tn__rank_known(input) && i >= input->rank)
                return tn__infer_fail(infer,
                                      "extent %u of the shape is 0 (copy), but '%.80s' has rank %u",
                                      i, input->name, input->rank);
            shape[i] = tn__rank_known(input) ? input->shape[i] : TN_DIM_UNKNOWN;
            /* the extent is unknown if the 0 is only a lower bound: an extent above 0 is not
             * copied */
            if (loose && !tn__value_is_exact_at(infer, 1, i) && shape[i] != 0)
                shape[i] = TN_DIM_UNKNOWN;
        } else if (target[i] < 0) {
            return tn__infer_fail(infer, "extent %u of the shape is %lld", i, (long long)target[i]);
        }
    }
    return TN_OK;
}

/* Whether the extent for which -1 stands may shrink when another extent of the shape grows, because
 * that other extent is unknown or only a bound. */
static bool views_reshape_falls(const tn_infer *infer, const int64_t *shape, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (shape[i] == TN_DIM_UNKNOWN ||
            (tn__value_is_bound(infer, 1) && !tn__value_is_exact_at(infer, 1, i)))
            return true;
    return false;
}

static tn_status views_reshape_known(tn_infer *infer, const int64_t *target, uint32_t count) {
    const tn_tensor *input = tn__input(infer, 0);
    bool zero_copies = !tn__attr_int(infer->op, "allowzero", 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t open;
    if (count > TN_RANK_MAX)
        return tn__infer_fail(infer, "a shape of %u extents; the most is %u", count, TN_RANK_MAX);
    TN_TRY(views_reshape_written(infer, target, count, zero_copies, shape, &open));
    uint64_t have, others;
    bool loose_input = input->flags & TN_TENSOR_BOUND;
    if (!views_reshape_rest(input, target, count, zero_copies, &have, &others))
        return tn__set_output(infer, 0, input->dtype, count, shape);
    bool fits = open == TN_NONE ? have == others : others ? have % others == 0 : have == 0;
    if (!fits && !loose_input && !tn__value_is_bound(infer, 1))
        return tn__infer_fail(infer,
                              "'%.80s' has %llu elements where the shape leaves room for %s%llu",
                              input->name, (unsigned long long)have,
                              open == TN_NONE ? "" : "a multiple of ", (unsigned long long)others);
    if (open != TN_NONE) {
        uint64_t extent = others ? have / others + (have % others != 0) : 0;
        if (extent > INT64_MAX) return tn__infer_fail(infer, "extent %u overflows", open);
        /* lets the next call see this extent as known, so that it looks at the other extents */
        shape[open] = 1;
        bool falls = views_reshape_falls(infer, shape, count) && !loose_input;
        shape[open] = falls ? TN_DIM_UNKNOWN : (int64_t)extent;
    }
    return tn__set_output(infer, 0, input->dtype, count, shape);
}

static tn_status views_reshape(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const int64_t *target;
    uint32_t count;
    if (tn__list(infer, 1, "shape", &target, &count) && target)
        return views_reshape_known(infer, target, count);
    uint32_t rank = tn__list_length(tn__input(infer, 1));
    if (rank == TN_NONE) return tn__set_dtype(infer, 0, input->dtype);
    return tn__set_output(infer, 0, input->dtype, rank, tn__unknown_extents);
}

/* --- Flatten, Squeeze, Unsqueeze, Identity -----------------------------------------------------
 */

static tn_status views_flatten(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    int64_t axis = tn__attr_int(infer->op, "axis", 1), shape[2] = {1, 1};
    if (!tn__rank_known(input))
        return tn__set_output(infer, 0, input->dtype, 2, tn__unknown_extents);
    int64_t rank = input->rank;
    if (axis < -rank || axis > rank)
        return tn__infer_fail(infer, "axis %lld is outside rank %u", (long long)axis, input->rank);
    if (axis < 0) axis += rank;
    for (uint32_t i = 0; i < input->rank; i++) {
        int64_t *product = &shape[i >= axis];
        if (input->shape[i] == TN_DIM_UNKNOWN || *product == TN_DIM_UNKNOWN)
            *product = TN_DIM_UNKNOWN;
        else if (__builtin_mul_overflow(*product, input->shape[i], product))
            return tn__infer_fail(infer, "the extents of '%.80s' overflow", input->name);
    }
    return tn__set_output(infer, 0, input->dtype, 2, shape);
}

/* Converts a list of axes to a bit set. */
static tn_status views_axes(const tn_infer *infer, const int64_t *axes, uint32_t count,
                            uint32_t rank, uint64_t *set) {
    *set = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        TN_TRY(tn__axis(infer, axes[i], rank, &axis));
        if (*set >> axis & 1)
            return tn__infer_fail((tn_infer *)infer, "axis %u is given twice", axis);
        *set |= UINT64_C(1) << axis;
    }
    return TN_OK;
}

static tn_status views_squeeze(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const int64_t *axes;
    uint32_t count, rank = 0;
    uint64_t set;
    int64_t shape[TN_RANK_MAX];
    if (!tn__list(infer, 1, "axes", &axes, &count) || !tn__rank_known(input))
        return tn__set_dtype(infer, 0, input->dtype);
    TN_TRY(views_axes(infer, axes, count, input->rank, &set));
    if (count == 0) axes = NULL; /* as ONNX Runtime has it; the text would drop none */
    for (uint32_t i = 0; i < input->rank; i++) {
        int64_t extent = input->shape[i];
        if (!axes && extent == TN_DIM_UNKNOWN) return tn__set_dtype(infer, 0, input->dtype);
        bool squeezed = axes ? set >> i & 1 : extent == 1;
        if (!squeezed)
            shape[rank++] = extent;
        else if (extent != 1 && extent != TN_DIM_UNKNOWN && !(input->flags & TN_TENSOR_BOUND))
            return tn__infer_fail(infer, "dimension %u of '%.80s' is %lld, so it cannot be dropped",
                                  i, input->name, (long long)extent);
    }
    return tn__set_output(infer, 0, input->dtype, rank, shape);
}

static tn_status views_unsqueeze(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const int64_t *axes;
    uint32_t count;
    uint64_t set;
    int64_t shape[TN_RANK_MAX];
    if (!tn__list(infer, 1, "axes", &axes, &count) || !tn__rank_known(input))
        return tn__set_dtype(infer, 0, input->dtype);
    if (!axes) return tn__infer_fail(infer, "no axes are given");
    if (count > TN_RANK_MAX - input->rank)
        return tn__infer_fail(infer, "the rank would be above %u", TN_RANK_MAX);
    uint32_t rank = input->rank + count, next = 0;
    TN_TRY(views_axes(infer, axes, count, rank, &set));
    for (uint32_t i = 0; i < rank; i++) shape[i] = set >> i & 1 ? 1 : input->shape[next++];
    return tn__set_output(infer, 0, input->dtype, rank, shape);
}

static tn_status views_identity(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 0));
}

/* clang-format off */
#define VIEWS(name, most, rule)                                                                    \
    .type = #name, .inputs_min = 1, .inputs_max = most, .outputs_max = 1, .shape = rule,           \
    .flags = TN_RULE_RESHAPES, .fold = tn__fold_same, .inplace = 1, .view = views_whole,             \
    .no_gradient = 2, .split = tn__split_reshape, .gradient = tn__gradient_reshape
static const tn_op_rule views_rules[] = {
    {VIEWS(Flatten, 1, views_flatten), .monotone = 1},
    {VIEWS(Identity, 1, views_identity), .monotone = 1},
    {VIEWS(Reshape, 2, views_reshape), .monotone = 3, .part_form = TN__FORM_EXTENTS},
    {VIEWS(Squeeze, 2, views_squeeze), .monotone = 1},
    {VIEWS(Unsqueeze, 2, views_unsqueeze), .monotone = 1},
};
/* clang-format on */

TN_OP_FAMILY(views, "");
