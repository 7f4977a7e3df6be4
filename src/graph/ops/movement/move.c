/* move.c - operators that move elements: Transpose, Expand, Tile, Pad, DepthToSpace, SpaceToDepth,
 * ReverseSequence, Trilu, CumSum, CumProd.
 *
 * Operators that happen to change nothing (Transpose of unit dimensions only, Expand to the same
 * shape, Tile by 1, Pad by 0) are views.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

static tn_status move_like(tn_infer *infer) { return tn__set_like(infer, 0, tn__input(infer, 0)); }

static tn_status move_open(tn_infer *infer, uint32_t rank) {
    tn_dtype dtype = tn__input(infer, 0)->dtype;
    if (rank > TN_RANK_MAX) return tn__set_dtype(infer, 0, dtype);
    return tn__set_output(infer, 0, dtype, rank, tn__unknown_extents);
}

/* The output is a view of the whole input if both have equal shapes, so that no element has
 * moved. */
static tn_view move_unchanged(tn_infer *infer, uint32_t output) {
    const tn_tensor *to = tn__output(infer, output), *from = tn__input(infer, 0);
    if (output || !tn__shape_known(to) || !tn__shape_known(from) || to->rank != from->rank ||
        (to->rank && memcmp(to->shape, from->shape, to->rank * sizeof *to->shape)))
        return tn__no_view;
    return tn__view_input(infer, 0, 0);
}

/* --- Transpose --- */

static tn_status move_permutation(const tn_infer *infer, uint32_t rank, uint32_t *from) {
    uint32_t count;
    const int64_t *perm = tn__attr_ints(infer->op, "perm", &count);
    uint64_t seen = 0;
    if (perm && count != rank)
        return tn__infer_fail((tn_infer *)infer, "'perm' has %u entries for rank %u", count, rank);
    for (uint32_t i = 0; i < rank; i++) {
        from[i] = rank - 1 - i;
        if (!perm) continue;
        TN_TRY(tn__axis(infer, perm[i], rank, &from[i]));
        if (seen >> from[i] & 1)
            return tn__infer_fail((tn_infer *)infer, "'perm' names axis %u twice", from[i]);
        seen |= UINT64_C(1) << from[i];
    }
    return TN_OK;
}

static tn_status move_transpose(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    uint32_t from[TN_RANK_MAX], count;
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(input))
        return move_open(infer, tn__attr_ints(infer->op, "perm", &count) ? count : TN_RANK_UNKNOWN);
    TN_TRY(move_permutation(infer, input->rank, from));
    for (uint32_t i = 0; i < input->rank; i++) shape[i] = input->shape[from[i]];
    return tn__set_output(infer, 0, input->dtype, input->rank, shape);
}

static tn_status move_transpose_fold(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    uint32_t from[TN_RANK_MAX], stride[TN_RANK_MAX], place[TN_RANK_MAX] = {0}, size = 1, at = 0;
    uint32_t count = tn__fold_count(infer, 0), rank = input->rank;
    if (!value || count == TN_NONE) return TN_OK;
    TN_TRY(move_permutation(infer, rank, from));
    uint32_t *pick = tn__scratch(infer, (size_t)count + 1, sizeof *pick);
    if (!pick) return tn__infer_no_memory(infer);
    for (uint32_t d = rank; d-- > 0; size *= (uint32_t)input->shape[d]) stride[d] = size;
    for (uint32_t i = 0; i < count; i++) {
        pick[i] = at;
        for (uint32_t d = rank; d-- > 0;) {
            at += stride[from[d]];
            if (++place[d] < input->shape[from[d]]) break;
            at -= stride[from[d]] * place[d];
            place[d] = 0;
        }
    }
    return tn__fold_pick(infer, 0, value, pick, count);
}

/* A Transpose is a view if the dimensions with more than one element keep their order, because its
 * elements then keep their order. */
static tn_view move_transpose_view(tn_infer *infer, uint32_t output) {
    const tn_tensor *input = tn__input(infer, 0);
    uint32_t from[TN_RANK_MAX], last = 0;
    if (output || !tn__shape_known(input) || move_permutation(infer, input->rank, from) != TN_OK)
        return tn__no_view;
    for (uint32_t i = 0; i < input->rank; i++) {
        if (input->shape[from[i]] == 1) continue;
        if (from[i] < last) return tn__no_view;
        last = from[i];
    }
    return tn__view_input(infer, 0, 0);
}

/* --- Expand -------------------------------------------------------------------------------------
 */

static tn_status move_expand(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    uint32_t count, rank;
    const int64_t *target = tn__value_ints(infer, 1, &count);
    int64_t shape[TN_RANK_MAX];
    bool known;
    if (!target) {
        uint32_t length = tn__list_length(tn__input(infer, 1));
        if (length == TN_NONE || !tn__rank_known(input)) return move_open(infer, TN_RANK_UNKNOWN);
        return move_open(infer, length > input->rank ? length : input->rank);
    }
    if (count > TN_RANK_MAX) return tn__infer_fail(infer, "a shape of %u extents", count);
    for (uint32_t i = 0; i < count; i++)
        if (target[i] < 0)
            return tn__infer_fail(infer, "extent %u of the shape is %lld", i, (long long)target[i]);
    tn_tensor wanted = {.name = "the shape",
                        .rank = count,
                        .shape = target,
                        .flags = tn__value_is_bound(infer, 1) ? TN_TENSOR_BOUND : 0};
    const tn_tensor *both[2] = {input, &wanted};
    TN_TRY(tn__broadcast(infer, both, 2, shape, &rank, &known));
    if (!known) return move_open(infer, TN_RANK_UNKNOWN);
    return tn__set_output(infer, 0, input->dtype, rank, shape);
}

static tn_status move_expand_fold(tn_infer *infer) {
    const tn_value *value = tn__value(infer, 0);
    uint32_t count = tn__fold_count(infer, 0);
    if (!value || count == TN_NONE) return TN_OK;
    uint32_t *pick;
    TN_TRY(tn__fold_spread(infer, 0, count, &pick));
    return pick ? tn__fold_pick(infer, 0, value, pick, count) : TN_OK;
}

/* An Expand is a view if the shapes are equal. If the input's shape is a bound, equal shapes prove
 * nothing: in a run the input may have one element that is repeated. */
static tn_view move_expand_view(tn_infer *infer, uint32_t output) {
    if (tn__input(infer, 0)->flags & TN_TENSOR_BOUND) return tn__no_view;
    return move_unchanged(infer, output);
}

/* --- Tile ---------------------------------------------------------------------------------------
 */

static tn_status move_tile(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    uint32_t count;
    const int64_t *repeats = tn__value_ints(infer, 1, &count);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(input)) return move_open(infer, TN_RANK_UNKNOWN);
    if (infer->version < 6 || !repeats) return move_open(infer, input->rank);
    if (count != input->rank)
        return tn__infer_fail(infer, "%u repeats for rank %u", count, input->rank);
    for (uint32_t i = 0; i < count; i++) {
        shape[i] = input->shape[i];
        if (repeats[i] < 0 ||
            (shape[i] != TN_DIM_UNKNOWN && __builtin_mul_overflow(shape[i], repeats[i], &shape[i])))
            return tn__infer_fail(infer, "repeat %u is %lld", i, (long long)repeats[i]);
    }
    return tn__set_output(infer, 0, input->dtype, count, shape);
}

static tn_status move_tile_fold(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0), *output = tn__output(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    uint32_t count = tn__fold_count(infer, 0), place[TN_RANK_MAX] = {0};
    if (!value || count == TN_NONE || output->rank != input->rank) return TN_OK;
    uint32_t *pick = tn__scratch(infer, (size_t)count + 1, sizeof *pick);
    if (!pick) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t d = 0; d < input->rank; d++)
            pick[i] = pick[i] * (uint32_t)input->shape[d] + place[d] % (uint32_t)input->shape[d];
        for (uint32_t d = input->rank; d-- > 0; place[d] = 0)
            if (++place[d] < output->shape[d]) break;
    }
    return tn__fold_pick(infer, 0, value, pick, count);
}

/* --- Pad ----------------------------------------------------------------------------------------
 */

static tn_status move_pad(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    const int64_t *pads, *axes = NULL;
    uint32_t count, axis_count = 0;
    int64_t shape[TN_RANK_MAX];
    /* in opset 1 the attribute is called "paddings" */
    const char *name = tn__attr(infer->op, "paddings") ? "paddings" : "pads";
    if (!tn__rank_known(input)) return move_open(infer, TN_RANK_UNKNOWN);
    if (!tn__list(infer, 1, name, &pads, &count) || !pads) return move_open(infer, input->rank);
    if (tn__input(infer, 3) && !(axes = tn__value_ints(infer, 3, &axis_count)))
        return move_open(infer, input->rank);
    if (!axes) axis_count = input->rank;
    if (count != 2 * axis_count)
        return tn__infer_fail(infer, "%u pads for %u axes", count, axis_count);
    if (input->rank) memcpy(shape, input->shape, input->rank * sizeof *shape);
    for (uint32_t i = 0; i < axis_count; i++) {
        uint32_t axis;
        TN_TRY(tn__axis(infer, axes ? axes[i] : i, input->rank, &axis));
        if (shape[axis] == TN_DIM_UNKNOWN) continue;
        if (__builtin_add_overflow(shape[axis], pads[i], &shape[axis]) ||
            __builtin_add_overflow(shape[axis], pads[i + axis_count], &shape[axis]) ||
            shape[axis] < 0)
            return tn__infer_fail(infer, "pads %lld and %lld do not fit extent %lld of axis %u",
                                  (long long)pads[i], (long long)pads[i + axis_count],
                                  (long long)input->shape[axis], axis);
    }
    return tn__set_output(infer, 0, input->dtype, input->rank, shape);
}

/* A Pad is a view if all of its pads are 0. Equal shapes are not enough: a negative pad could move
 * elements even though the shapes are equal. */
static tn_view move_pad_view(tn_infer *infer, uint32_t output) {
    const int64_t *pads;
    uint32_t count;
    const char *name = tn__attr(infer->op, "paddings") ? "paddings" : "pads";
    if (!tn__list(infer, 1, name, &pads, &count) || !pads || tn__value_is_bound(infer, 1))
        return tn__no_view;
    for (uint32_t i = 0; i < count; i++)
        if (pads[i]) return tn__no_view;
    return move_unchanged(infer, output);
}

/* --- DepthToSpace, SpaceToDepth -----------------------------------------------------------------
 */

static tn_status move_blocks(tn_infer *infer, bool to_space) {
    const tn_tensor *input = tn__input(infer, 0);
    int64_t block = tn__attr_int(infer->op, "blocksize", 0), shape[4];
    if (!tn__rank_known(input)) return move_open(infer, 4);
    if (input->rank != 4)
        return tn__infer_fail(infer, "'%.80s' has rank %u, not 4", input->name, input->rank);
    if (block < 1 || block > 65535)
        return tn__infer_fail(infer, "a blocksize of %lld", (long long)block);
    for (uint32_t d = 0; d < 4; d++) {
        int64_t factor = d == 0 ? 1 : d == 1 ? block * block : block;
        shape[d] = input->shape[d];
        if (shape[d] == TN_DIM_UNKNOWN) continue;
        bool divides = d && (d == 1) == to_space;
        if (divides && shape[d] % factor && !(input->flags & TN_TENSOR_BOUND))
            return tn__infer_fail(infer, "extent %lld of axis %u is not a multiple of %lld",
                                  (long long)shape[d], d, (long long)factor);
        if (divides)
            shape[d] /= factor;
        else if (__builtin_mul_overflow(shape[d], factor, &shape[d]))
            return tn__infer_fail(infer, "axis %u overflows", d);
    }
    return tn__set_output(infer, 0, input->dtype, 4, shape);
}

static tn_status move_depth_to_space(tn_infer *infer) { return move_blocks(infer, true); }
static tn_status move_space_to_depth(tn_infer *infer) { return move_blocks(infer, false); }

/* clang-format off */
#define MOVE(name, least, most) .type = #name, .inputs_min = least, .inputs_max = most,            \
    .outputs_max = 1
static const tn_op_rule move_rules[] = {
    {MOVE(CumProd, 2, 2), .shape = move_like, .flops_per = 1, .inplace = 1, .no_gradient = 2},
    {MOVE(CumSum, 2, 2), .shape = move_like, .flops_per = 1, .gradient = tn__gradient_cum_sum},
    {MOVE(DepthToSpace, 1, 1), .shape = move_depth_to_space,
     .split = tn__split_to_space, .gradient = tn__gradient_depth_to_space},
    {MOVE(Expand, 2, 2), .shape = move_expand, .fold = move_expand_fold,
     .view = move_expand_view, .monotone = 3, .split = tn__split_expand,
     .part_form = TN__FORM_EXTENTS, .gradient = tn__gradient_expand},
    {MOVE(Pad, 1, 4), .shape = move_pad, .flops_per = 0, .view = move_pad_view, .monotone = 2,
     .no_gradient = 4, .split = tn__split_untouched, .gradient = tn__gradient_pad},
    {MOVE(ReverseSequence, 2, 2), .shape = move_like, .gradient = tn__gradient_again},
    {MOVE(SpaceToDepth, 1, 1), .shape = move_space_to_depth,
     .split = tn__split_to_depth, .gradient = tn__gradient_space_to_depth},
    {MOVE(Tile, 2, 3), .shape = move_tile, .fold = move_tile_fold, .view = move_unchanged,
     .monotone = 3, .gradient = tn__gradient_tile},
    {MOVE(Transpose, 1, 1), .shape = move_transpose, .fold = move_transpose_fold,
     .view = move_transpose_view, .monotone = 1, .split = tn__split_transpose,
     .gradient = tn__gradient_transpose},
    {MOVE(Trilu, 1, 2), .shape = move_like, .inplace = 1, .gradient = tn__gradient_again},
};
/* clang-format on */

TN_OP_FAMILY(move, "");
