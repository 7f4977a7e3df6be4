/* gather.c - operators that read or write elements by index: Gather, GatherElements, GatherND,
 * Scatter, ScatterElements, ScatterND, TensorScatter. A Gather of one constant index is a view.
 *
 * Scatter operators copy their data and then write updates into the copy, so they may work in the
 * memory of the data.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

/* --- Gather --- */

tn_status tn__gather_shape(tn_infer *infer) {
    const tn_tensor *data = tn__input(infer, 0), *indices = tn__input(infer, 1);
    int64_t shape[2 * TN_RANK_MAX];
    uint32_t axis, rank = 0;
    if (!tn__rank_known(data) || !tn__rank_known(indices))
        return tn__set_dtype(infer, 0, data->dtype);
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), data->rank, &axis));
    for (uint32_t d = 0; d < axis; d++) shape[rank++] = data->shape[d];
    for (uint32_t d = 0; d < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (uint32_t d = axis + 1; d < data->rank; d++) shape[rank++] = data->shape[d];
    return tn__set_output(infer, 0, data->dtype, rank, shape);
}

static tn_status gather_fold(tn_infer *infer) {
    const tn_tensor *data = tn__input(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    uint32_t count = tn__fold_count(infer, 0), index_count, axis, inner = 1;
    const int64_t *indices = tn__value_ints(infer, 1, &index_count);
    if (!value || !indices || count == TN_NONE) return TN_OK;
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), data->rank, &axis));
    for (uint32_t d = axis + 1; d < data->rank; d++) inner *= (uint32_t)data->shape[d];
    int64_t extent = data->shape[axis];
    for (uint32_t i = 0; i < index_count; i++)
        if (indices[i] < -extent || indices[i] >= extent)
            return tn__infer_fail(infer, "index %lld is outside extent %lld of '%.80s'",
                                  (long long)indices[i], (long long)extent, data->name);
    uint32_t *pick = tn__scratch(infer, (size_t)count + 1, sizeof *pick);
    if (!pick) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t outer = i / (index_count * inner), rest = i % (index_count * inner);
        int64_t index = indices[rest / inner];
        uint32_t at = (uint32_t)(index < 0 ? index + extent : index);
        pick[i] = (outer * (uint32_t)extent + at) * inner + rest % inner;
    }
    return tn__fold_pick(infer, 0, value, pick, count);
}

/* A Gather of one constant index along the first dimension with more than one element is a view:
 * its result is one contiguous row. */
static tn_view gather_view(tn_infer *infer, uint32_t output) {
    const tn_tensor *data = tn__input(infer, 0);
    uint32_t count, axis;
    const int64_t *index = tn__value_ints(infer, 1, &count);
    uint64_t inner = 1, elements, bits;
    if (output || !index || count != 1 || !tn__shape_known(data) ||
        tn__axis(infer, tn__attr_int(infer->op, "axis", 0), data->rank, &axis) != TN_OK)
        return tn__no_view;
    for (uint32_t d = 0; d < axis; d++)
        if (data->shape[d] != 1) return tn__no_view;
    for (uint32_t d = axis + 1; d < data->rank; d++)
        if (!tn__mul(inner, (uint64_t)data->shape[d], &inner)) return tn__no_view;
    int64_t at = index[0] < 0 ? index[0] + data->shape[axis] : index[0];
    if (at < 0 || at >= data->shape[axis]) return tn__no_view;
    bool moves = (data->flags & TN_TENSOR_BOUND) && (at != 0 || index[0] < 0);
    if (moves || !tn__mul((uint64_t)at, inner, &elements) ||
        !tn__mul(elements, tn_dtype_bits(data->dtype), &bits) || bits % 8)
        return tn__no_view;
    return tn__view_input(infer, 0, bits / 8);
}

/* --- GatherElements, GatherND -------------------------------------------------------------------
 */

static tn_status gather_elements_shape(tn_infer *infer) {
    const tn_tensor *data = tn__input(infer, 0), *indices = tn__input(infer, 1);
    if (!tn__rank_known(indices)) return tn__set_dtype(infer, 0, data->dtype);
    if (tn__rank_known(data) && data->rank != indices->rank)
        return tn__infer_fail(infer, "'%.80s' has rank %u, its indices have %u", data->name,
                              data->rank, indices->rank);
    return tn__set_output(infer, 0, data->dtype, indices->rank, indices->shape);
}

static tn_status gather_nd_shape(tn_infer *infer) {
    const tn_tensor *data = tn__input(infer, 0), *indices = tn__input(infer, 1);
    int64_t batch = tn__attr_int(infer->op, "batch_dims", 0), shape[2 * TN_RANK_MAX];
    uint32_t rank = 0;
    if (!tn__rank_known(data) || !tn__rank_known(indices) || indices->rank == 0 ||
        indices->shape[indices->rank - 1] == TN_DIM_UNKNOWN)
        return tn__set_dtype(infer, 0, data->dtype);
    int64_t length = indices->shape[indices->rank - 1];
    if (batch < 0 || batch >= indices->rank || length < 0 || length > (int64_t)data->rank - batch)
        return tn__infer_fail(infer,
                              "indices of length %lld with %lld batch dimensions for rank %u",
                              (long long)length, (long long)batch, data->rank);
    for (uint32_t d = 0; d + 1 < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (uint32_t d = (uint32_t)(batch + length); d < data->rank; d++)
        shape[rank++] = data->shape[d];
    return tn__set_output(infer, 0, data->dtype, rank, shape);
}

/* --- Scatter ------------------------------------------------------------------------------------
 */

static tn_status gather_scatter_shape(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 0));
}

/* Sets the shape of TensorScatter, which writes rows of `update` into a cache, at one index for
 * each entry of the batch. */
static tn_status gather_tensor_scatter_shape(tn_infer *infer) {
    const tn_tensor *cache = tn__input(infer, 0), *update = tn__input(infer, 1);
    uint32_t axis;
    TN_TRY(gather_scatter_shape(infer));
    if (!tn__rank_known(cache)) return TN_OK;
    TN_TRY(tn__rank_between(infer, 1, cache->rank, cache->rank));
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", -2), cache->rank, &axis));
    if (axis == 0) return tn__infer_fail(infer, "axis 0 is the batch; it cannot be written along");
    TN_TRY(tn__extents_agree(infer, 0, 0, 2, 0));
    if (!tn__rank_known(update)) return TN_OK;
    for (uint32_t d = 0; d < cache->rank; d++)
        if (d != axis) TN_TRY(tn__extents_agree(infer, 0, (int32_t)d, 1, (int32_t)d));
    int64_t rows = update->shape[axis], room = cache->shape[axis];
    bool loose = ((cache->flags | update->flags) & TN_TENSOR_BOUND) != 0;
    if (rows != TN_DIM_UNKNOWN && room != TN_DIM_UNKNOWN && rows > room && !loose)
        return tn__infer_fail(infer, "%lld rows do not fit in a cache of %lld", (long long)rows,
                              (long long)room);
    return TN_OK;
}

/* Computes the values of a ScatterND of single elements, which exporters write for `shape[i] =
 * n`. */
static tn_status gather_scatter_nd_fold(tn_infer *infer) {
    const tn_tensor *data = tn__input(infer, 0), *at = tn__input(infer, 1);
    const tn_value *value = tn__value(infer, 0), *updates = tn__value(infer, 2);
    uint32_t count = tn__fold_count(infer, 0), index_count;
    const int64_t *indices = tn__value_ints(infer, 1, &index_count);
    if (!value || !updates || !indices || count == TN_NONE || !value->ints || !updates->ints)
        return TN_OK;
    if (strcmp(tn__attr_string(infer->op, "reduction", "none"), "none") || at->rank == 0 ||
        at->shape[at->rank - 1] != data->rank || !data->rank ||
        index_count != updates->count * data->rank)
        return TN_OK;
    int64_t *result = tn__scratch(infer, (size_t)count + 1, sizeof *result);
    if (!result) return tn__infer_no_memory(infer);
    if (count) memcpy(result, value->ints, count * sizeof *result);
    for (uint32_t i = 0; i < updates->count; i++) {
        int64_t place = 0;
        for (uint32_t d = 0; d < data->rank; d++) {
            int64_t index = indices[i * data->rank + d], extent = data->shape[d];
            if (index < 0) index += extent;
            if (index < 0 || index >= extent)
                return tn__infer_fail(infer, "index %lld is outside extent %lld of '%.80s'",
                                      (long long)index, (long long)extent, data->name);
            place = place * extent + index;
        }
        result[place] = updates->ints[i];
    }
    return tn__set_value_ints(infer, 0, result, count);
}

/* clang-format off */
#define GATHER(name, inputs, rule) .type = #name, .inputs_min = inputs, .inputs_max = inputs,      \
    .outputs_max = 1, .shape = rule
static const tn_op_rule gather_rules[] = {
    {GATHER(Gather, 2, tn__gather_shape), .fold = gather_fold, .view = gather_view, .monotone = 1, .split = tn__split_gather,
     .sums = tn__sums_gather, .sums_as = "GatherPart", .gradient = tn__gradient_gather},
    {GATHER(GatherElements, 2, gather_elements_shape), .gradient = tn__gradient_gather_elements},
    {GATHER(GatherND, 2, gather_nd_shape), .gradient = tn__gradient_gather_nd},
    {GATHER(Scatter, 3, gather_scatter_shape), .inplace = 1,
     .gradient = tn__gradient_scatter_elements},
    {GATHER(ScatterElements, 3, gather_scatter_shape), .inplace = 1,
     .gradient = tn__gradient_scatter_elements},
    {GATHER(ScatterND, 3, gather_scatter_shape), .fold = gather_scatter_nd_fold, .inplace = 1,
     .monotone = 5, .gradient = tn__gradient_scatter_nd},
    {.type = "TensorScatter", .inputs_min = 2, .inputs_max = 3, .outputs_max = 1,
     .shape = gather_tensor_scatter_shape, .inplace = 1, .no_gradient = 4},
};
/* clang-format on */

TN_OP_FAMILY(gather, "");
