/* gather.c - operators that read elements by index: Gather, GatherElements, GatherND, Compress.
 *
 * Every index is checked before it is used, because models are untrusted input. Gather copies whole
 * pieces of the dimensions after the axis; a piece that is in place already (one constant index as
 * a view) is skipped.
 * Source: operator texts of ONNX, opsets 1 to 17.
 */
#include "engine/kernels/box.h"

/* --- Gather --- */

static tn_status gather_gather_check(const tn_kernel_call *call, uint32_t axis, uint64_t *count) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    int64_t extent = data->shape[axis];
    *count = tn__operand_count(indices);
    for (uint64_t i = 0; i < *count; i++) {
        int64_t index = tn__index(indices, i);
        if (index < -extent || index >= extent)
            return tn__call_bad_index(call, index, axis, extent);
    }
    return TN_OK;
}

static tn_status gather_gather(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    int64_t shape[2 * TN_RANK_MAX];
    uint32_t axis, rank = 0;
    uint64_t count;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), data->rank, &axis));
    for (uint32_t d = 0; d < axis; d++) shape[rank++] = data->shape[d];
    for (uint32_t d = 0; d < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (uint32_t d = axis + 1; d < data->rank; d++) shape[rank++] = data->shape[d];
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    TN_TRY(gather_gather_check(call, axis, &count));
    uint64_t outer = tn__operand_span(data, 0, axis), extent = (uint64_t)data->shape[axis];
    uint64_t piece = tn__operand_span(data, axis + 1, data->rank) * tn__width(data->dtype);
    char *to = call->outputs[0].data;
    const char *row = data->data;
    if (piece == 0) return TN_OK;
    for (uint64_t o = 0; o < outer; o++, row += extent * piece)
        for (uint64_t i = 0; i < count; i++, to += piece) {
            int64_t index = tn__index(indices, i);
            const char *from =
                row + (uint64_t)(index < 0 ? index + data->shape[axis] : index) * piece;
            if (to != from) tn__move(to, from, piece);
        }
    return TN_OK;
}

/* --- GatherElements: out[i][j][k] = data[i][index[i][j][k]][k] along axis 1 ----------------------
 */

static tn_status gather_elements(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    uint32_t axis, width = tn__width(data->dtype);
    tn__walk walk = {.rank = indices->rank};
    if (data->rank != indices->rank)
        return tn__call_fail(call, TN_E_INVALID, "data of rank %u, indices of rank %u", data->rank,
                             indices->rank);
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), data->rank, &axis));
    tn__dense_strides(data, walk.stride[0]);
    for (uint32_t d = 0; d < walk.rank; d++) {
        walk.extent[d] = indices->shape[d];
        if (d != axis && indices->shape[d] > data->shape[d])
            return tn__call_bad_index(call, indices->shape[d] - 1, d, data->shape[d]);
    }
    TN_TRY(tn__call_shape(call, 0, indices->rank, indices->shape));
    int64_t extent = data->shape[axis], stride = walk.stride[0][axis];
    walk.stride[0][axis] = 0;
    if (tn__walk_is_empty(&walk)) return TN_OK;
    char *to = call->outputs[0].data;
    uint64_t i = 0;
    do {
        int64_t index = tn__index(indices, i++);
        if (index < -extent || index >= extent)
            return tn__call_bad_index(call, index, axis, extent);
        if (index < 0) index += extent;
        tn__move(to, (const char *)data->data + walk.at[0] + index * stride, width);
        to += width;
    } while (tn__walk_next(&walk));
    return TN_OK;
}

/* --- GatherND --- */

static tn_status gather_nd(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    int64_t given = tn__attr_int(call->op, "batch_dims", 0), shape[2 * TN_RANK_MAX];
    int64_t length = indices->rank ? indices->shape[indices->rank - 1] : -1;
    uint32_t rank = 0;
    if (given < 0 || given >= (int64_t)indices->rank || length < 0 ||
        length > (int64_t)data->rank - given)
        return tn__call_fail(call, TN_E_INVALID, "indices of length %lld behind %lld batch axes",
                             (long long)length, (long long)given);
    uint32_t batch = (uint32_t)given, behind = batch + (uint32_t)length;
    for (uint32_t d = 0; d + 1 < indices->rank; d++) shape[rank++] = indices->shape[d];
    for (uint32_t d = behind; d < data->rank; d++) shape[rank++] = data->shape[d];
    for (uint32_t d = 0; d < batch; d++)
        if (data->shape[d] != indices->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "data and indices differ at batch axis %u", d);
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    uint64_t batches = tn__operand_span(data, 0, batch), width = tn__width(data->dtype);
    uint64_t each = tn__operand_span(indices, batch, indices->rank - 1);
    uint64_t piece = tn__operand_span(data, behind, data->rank) * width;
    uint64_t block = tn__operand_span(data, batch, data->rank) * width, next = 0;
    char *to = call->outputs[0].data;
    if (tn__operand_bytes(&call->outputs[0]) == 0) return TN_OK;
    for (uint64_t b = 0; b < batches; b++)
        for (uint64_t i = 0; i < each; i++, to += piece) {
            uint64_t at = 0;
            for (uint32_t d = batch; d < behind; d++) {
                int64_t index = tn__index(indices, next++), extent = data->shape[d];
                if (index < -extent || index >= extent)
                    return tn__call_bad_index(call, index, d, extent);
                at = at * (uint64_t)extent + (uint64_t)(index < 0 ? index + extent : index);
            }
            tn__move(to, (const char *)data->data + b * block + at * piece, piece);
        }
    return TN_OK;
}

/* --- Compress: the slices (or elements) with a true condition --- */

static tn_status gather_compress(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0], *condition = &call->inputs[1];
    bool flat = tn__attr(call->op, "axis") == NULL;
    uint32_t axis = 0, width = tn__width(data->dtype);
    int64_t shape[TN_RANK_MAX], kept = 0;
    if (!flat) TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), data->rank, &axis));
    uint64_t extent = flat ? tn__operand_count(data) : (uint64_t)data->shape[axis];
    uint64_t flags = tn__operand_count(condition);
    if (flags > extent) flags = extent;
    for (uint64_t i = 0; i < flags; i++) kept += tn__index(condition, i) != 0;
    if (!flat) memcpy(shape, data->shape, data->rank * sizeof *shape);
    shape[axis] = kept;
    TN_TRY(tn__call_shape(call, 0, flat ? 1 : data->rank, shape));
    uint64_t outer = flat ? 1 : tn__operand_span(data, 0, axis);
    uint64_t piece = flat ? width : tn__operand_span(data, axis + 1, data->rank) * width;
    char *to = call->outputs[0].data;
    for (uint64_t o = 0; o < outer && piece; o++)
        for (uint64_t i = 0; i < flags; i++) {
            if (tn__index(condition, i) == 0) continue;
            tn__move(to, (const char *)data->data + (o * extent + i) * piece, piece);
            to += piece;
        }
    return TN_OK;
}

#define PICK(name, function)                                                                       \
    { .type = #name, .accepts = tn__accepts_bytes, .run = function }
static const tn_kernel gather_kernels[] = {
    PICK(Compress, gather_compress),
    PICK(Gather, gather_gather),
    PICK(GatherElements, gather_elements),
    PICK(GatherND, gather_nd),
};

TN_KERNEL_FAMILY(gather, "");
