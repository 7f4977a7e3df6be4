/* ranks.c - kernels of a model that is divided among ranks (graph/ops/ranks.c): rows of a rank's
 * part of a table, and values that are combined over all ranks afterwards. The latter are only
 * copied to their places. */
#include "engine/kernels/box.h"
#include "engine/kernels/check.h"

static tn_status ranks_copy(tn_kernel_call *call) {
    tn__operand_copy(&call->outputs[0], &call->inputs[0]);
    return TN_OK;
}

/* The place of the rank's part in the whole, in bytes. Communication is not done by these two
 * kernels but by dist: each kernel computes as if the other ranks had only zeros. */
static tn_status ranks_place(tn_kernel_call *call, const tn_operand *whole, const tn_operand *part,
                             uint64_t *at) {
    uint64_t bytes = tn__operand_bytes(part), end;
    int64_t rank = tn__attr_int(call->op, "rank", 0);
    if (rank >= 0 && tn__mul((uint64_t)rank, bytes, at) && tn__add(*at, bytes, &end) &&
        end <= tn__operand_bytes(whole))
        return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "there is no part %lld", (long long)rank);
}

static tn_status ranks_scatter(tn_kernel_call *call) {
    const tn_operand *whole = &call->inputs[0], *part = &call->outputs[0];
    uint64_t at = 0;
    TN_TRY(ranks_place(call, whole, part, &at));
    memcpy(part->data, (const char *)whole->data + at, (size_t)tn__operand_bytes(part));
    return TN_OK;
}

static tn_status ranks_whole(tn_kernel_call *call) {
    const tn_operand *part = &call->inputs[0], *whole = &call->outputs[0];
    uint64_t at = 0, bytes = tn__operand_bytes(part), all = tn__operand_bytes(whole);
    char *to = whole->data;
    TN_TRY(ranks_place(call, whole, part, &at));
    memset(to, 0, (size_t)at);
    memcpy(to + at, part->data, (size_t)bytes);
    memset(to + at + bytes, 0, (size_t)(all - at - bytes));
    return TN_OK;
}

static bool ranks_accepts_gather(const tn_kernel_setup *setup) {
    const tn_tensor *data = tn__setup_input(setup, 0);
    return tn_dtype_bits(data->dtype) % 8 == 0 && data->dtype != TN_STRING &&
           tn__input_is(setup, 1, TN__TYPES_INDEX);
}

/* Row `index` of the whole, where it is here, else zeros. */
static void ranks_row(char *to, const char *rows, int64_t row, int64_t extent, uint64_t piece) {
    if (row >= 0 && row < extent)
        memcpy(to, rows + (uint64_t)row * piece, (size_t)piece);
    else
        memset(to, 0, (size_t)piece);
}

static tn_status ranks_gather(tn_kernel_call *call) {
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
            ranks_row(to, rows, (index < 0 ? index + whole : index) - first, extent, piece);
        }
    return TN_OK;
}

static const tn_kernel train_ranks_kernels[] = {
    {.type = "GatherPart", .accepts = ranks_accepts_gather, .run = ranks_gather},
    {.type = "RankCopy", .run = ranks_copy},
    {.type = "RankGather", .run = ranks_whole},
    {.type = "RankMax", .run = ranks_copy},
    {.type = "RankScatter", .run = ranks_scatter},
    {.type = "RankSum", .run = ranks_copy},
};

TN_KERNEL_FAMILY(train_ranks, "tenure");
