/* gather.c - operators that read elements by index: Gather, GatherElements, GatherND, Compress,
 * GatherPart, and the gradient of Gather.
 *
 * Every index is checked before it is used, because models are untrusted input. Gather copies
 * contiguous ranges that consist of all dimensions after the axis. A range is not copied if the
 * output is a view of it, which is possible with one constant index.
 * Source: the ONNX specifications of these operators, opsets 1 to 17.
 */
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"

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

/* --- Compress: the slices (or elements) whose condition is true --- */

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

/* --- GatherPart: this rank's part of a table; rows of other ranks become zeros --- */

static bool gather_accepts_part(const tn_kernel_setup *setup) {
    const tn_tensor *data = tn__setup_input(setup, 0);
    return tn_dtype_bits(data->dtype) % 8 == 0 && data->dtype != TN_STRING &&
           tn__input_is(setup, 1, TN__TYPES_INDEX);
}

/* Copies a row of a table of which this rank has only `extent` rows. A row that another rank has
 * becomes zeros. */
static void gather_part_row(char *to, const char *rows, int64_t row, int64_t extent,
                            uint64_t piece) {
    if (row >= 0 && row < extent)
        memcpy(to, rows + (uint64_t)row * piece, (size_t)piece);
    else
        memset(to, 0, (size_t)piece);
}

static tn_status gather_run_part(tn_kernel_call *call) {
    const tn_operand *data = &call->inputs[0], *indices = &call->inputs[1];
    int64_t first = tn__attr_int(call->op, "first", 0);
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), data->rank, &axis));
    int64_t extent = data->shape[axis], whole = tn__attr_int(call->op, "whole", extent);
    uint64_t outer = tn__operand_span(data, 0, axis), count = tn__operand_count(indices);
    uint64_t piece = tn__operand_span(data, axis + 1, data->rank) * tn__width(data->dtype);
    char *to = call->outputs[0].data;
    const char *rows = data->data;
    if (tn__operand_bytes(&call->outputs[0]) != outer * count * piece)
        return tn__call_fail(call, TN_E_INVALID, "the result has another size");
    for (uint64_t o = 0; o < outer; o++, rows += (uint64_t)extent * piece)
        for (uint64_t i = 0; i < count; i++, to += piece) {
            int64_t index = tn__index(indices, i);
            if (index < -whole || index >= whole)
                return tn__call_bad_index(call, index, axis, whole);
            gather_part_row(to, rows, (index < 0 ? index + whole : index) - first, extent, piece);
        }
    return TN_OK;
}

/* --- the gradient of Gather ---
 *
 * An element of the input may have been gathered several times, so its gradient is a sum. The terms
 * are added in a fixed order, so that the result is the same in every run.
 */

/* Computes to[at + i] += from[source + i] for i from 0 to count - 1. */
static void gather_grad_add(tn_operand *to, uint64_t at, const tn_operand *from, uint64_t source,
                            uint64_t count) {
    if (to->dtype == TN_FLOAT32) {
        float *sums = (float *)to->data + at;
        const float *values = (const float *)from->data + source;
        for (uint64_t i = 0; i < count; i++) sums[i] += values[i];
        return;
    }
    double sums[TN__REAL_TILE], values[TN__REAL_TILE];
    for (uint64_t i = 0; i < count; i += TN__REAL_TILE) {
        uint64_t some = count - i < TN__REAL_TILE ? count - i : TN__REAL_TILE;
        tn__real_load(to, at + i, 1, some, sums);
        tn__real_load(from, source + i, 1, some, values);
        for (uint64_t k = 0; k < some; k++) sums[k] += values[k];
        tn__real_store(to, at + i, some, sums);
    }
}

typedef struct gather_grad {
    const tn_operand *dy, *indices;
    tn_operand *dx;
    uint64_t outer, extent, inner, count; /* `count`: number of indices */
    /* the tensor has the rows from `first` on, of a table with `whole` rows */
    int64_t first, whole;
} gather_grad;

/* Finds the row of dx for index i. *row is `extent` if dx does not have this row, because another
 * rank has it. */
static tn_status gather_grad_index(const tn_kernel_call *call, const gather_grad *job, uint64_t i,
                                   uint64_t *row) {
    int64_t index = tn__index(job->indices, i), whole = job->whole;
    if (index < -whole || index >= whole)
        return tn__call_bad_index(call, index, (uint32_t)tn__attr_int(call->op, "axis", 0), whole);
    uint64_t at = (uint64_t)((index < 0 ? index + whole : index) - job->first);
    *row = at < job->extent ? at : job->extent;
    return TN_OK;
}

/* Computes the gradient for float32 and float64, which can sum many terms without large errors:
 * each term is added directly to the result. */
static tn_status gather_grad_direct(const tn_kernel_call *call, const gather_grad *job) {
    uint64_t row = 0;
    memset(job->dx->data, 0, tn__operand_bytes(job->dx));
    for (uint64_t o = 0; o < job->outer; o++)
        for (uint64_t i = 0; i < job->count; i++) {
            TN_TRY(gather_grad_index(call, job, i, &row));
            if (row == job->extent) continue;
            gather_grad_add(job->dx, (o * job->extent + row) * job->inner, job->dy,
                            (o * job->count + i) * job->inner, job->inner);
        }
    return TN_OK;
}

/* Computes one row of the gradient. Its terms are in a linked list (`head`, `next`) and are summed
 * in float64. */
static void gather_grad_row(const gather_grad *job, uint64_t outer, uint64_t row, uint64_t head,
                            const uint64_t *next) {
    double sums[TN__REAL_TILE], values[TN__REAL_TILE];
    for (uint64_t at = 0; at < job->inner; at += TN__REAL_TILE) {
        uint64_t some = job->inner - at < TN__REAL_TILE ? job->inner - at : TN__REAL_TILE;
        for (uint64_t k = 0; k < some; k++) sums[k] = 0;
        for (uint64_t i = head; i < job->count; i = next[i]) {
            uint64_t from = (outer * job->count + i) * job->inner + at;
            tn__real_load(job->dy, from, 1, some, values);
            for (uint64_t k = 0; k < some; k++) sums[k] += values[k];
        }
        tn__real_store(job->dx, (outer * job->extent + row) * job->inner + at, some, sums);
    }
}

/* Computes the gradient for 16-bit floats. A sum in such a type would ignore all terms after the
 * first few hundred, for example for a frequent word. Therefore the terms of each row are collected
 * in a linked list, and each row is summed in float64. */
static tn_status gather_grad_rows(const tn_kernel_call *call, const gather_grad *job) {
    uint64_t *next = call->workspace, *heads = next + job->count, row = 0;
    TN_TRY(tn__check_scratch(call, (job->count + job->extent) * sizeof *next));
    /* the number `count` marks the end of a list */
    for (uint64_t r = 0; r < job->extent; r++) heads[r] = job->count;
    for (uint64_t i = job->count; i-- > 0;) {
        TN_TRY(gather_grad_index(call, job, i, &row));
        if (row == job->extent) continue;
        next[i] = heads[row];
        heads[row] = i;
    }
    for (uint64_t o = 0; o < job->outer; o++)
        for (uint64_t r = 0; r < job->extent; r++) gather_grad_row(job, o, r, heads[r], next);
    return TN_OK;
}

static bool gather_is_short(tn_dtype dtype) { return dtype == TN_FLOAT16 || dtype == TN_BFLOAT16; }

static tn_status gather_run_grad(tn_kernel_call *call) {
    tn_operand *dx = &call->outputs[0];
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), dx->rank, &axis));
    gather_grad job = {.dy = &call->inputs[0],
                       .indices = &call->inputs[1],
                       .dx = dx,
                       .outer = tn__operand_span(dx, 0, axis),
                       .extent = (uint64_t)dx->shape[axis],
                       .inner = tn__operand_span(dx, axis + 1, dx->rank),
                       .count = tn__operand_count(&call->inputs[1]),
                       .first = tn__attr_int(call->op, "first", 0),
                       .whole = tn__attr_int(call->op, "whole", dx->shape[axis])};
    TN_TRY(tn__check_count(call, 0, tn__mul_sat(job.outer, tn__mul_sat(job.count, job.inner))));
    return gather_is_short(dx->dtype) ? gather_grad_rows(call, &job)
                                      : gather_grad_direct(call, &job);
}

static uint64_t gather_workspace_grad(const tn_kernel_setup *setup) {
    const tn_tensor *indices = tn__setup_input(setup, 1), *dx = tn__setup_output(setup, 0);
    int64_t axis = tn__attr_int(setup->op, "axis", 0);
    if (!gather_is_short(dx->dtype) || axis < 0 || axis >= (int64_t)dx->rank) return 0;
    uint64_t entries = tn__add_sat(tn__setup_count(indices), (uint64_t)dx->shape[axis]);
    return tn__mul_sat(entries, sizeof(uint64_t));
}

static bool gather_accepts_grad(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) && tn__input_is(setup, 1, TN__TYPES_INDEX);
}

static const tn_kernel gather_kernels[] = {
    PICK(Compress, gather_compress),
    PICK(Gather, gather_gather),
    PICK(GatherElements, gather_elements),
    PICK(GatherND, gather_nd),
    {.domain = "tenure",
     .type = "GatherGrad",
     .accepts = gather_accepts_grad,
     .workspace = gather_workspace_grad,
     .run = gather_run_grad},
    {.domain = "tenure",
     .type = "GatherPart",
     .accepts = gather_accepts_part,
     .run = gather_run_part},
};

TN_KERNEL_FAMILY(gather, "");
