/* ranks.c - the kernels of operators that a division among ranks adds to a graph
 * (graph/ops/training/ranks.c), and of buckets of gradients (graph/ops/training/bucket.c).
 *
 * A kernel for values that are combined over all ranks only copies its rank's values to their
 * offset; messages between ranks (run/dist) do the rest. A bucket is one buffer for several
 * tensors. If the plan has placed a tensor inside the bucket, it is not copied. Gaps between
 * tensors are set to zero, so that a message that sends the whole bucket reads no uninitialised
 * bytes.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"
#include "graph/rules/bucket.h"

static tn_status bucket_fill(tn_kernel_call *call) {
    tn_operand *bucket = &call->outputs[0];
    uint64_t width = tn__element_size(bucket->dtype), at = 0, room = tn__operand_bytes(bucket);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const tn_operand *from = &call->inputs[i];
        uint64_t count = tn__operand_count(from), bytes = tn__bucket_bytes(count, width);
        char *to = (char *)bucket->data + at;
        if (bytes > room - at)
            return tn__call_fail(call, TN_E_INVALID, "input %u does not fit the bucket", i);
        if (from->data != to) tn__convert(from->dtype, from->data, bucket->dtype, to, count);
        memset(to + count * width, 0, (size_t)(bytes - count * width));
        at += bytes;
    }
    if (room > at) memset((char *)bucket->data + at, 0, (size_t)(room - at));
    return TN_OK;
}

static tn_status bucket_parts(tn_kernel_call *call) {
    const tn_operand *bucket = &call->inputs[0];
    uint64_t width = tn__element_size(bucket->dtype), at = 0, room = tn__operand_bytes(bucket);
    for (uint32_t k = 0; k < call->output_count; k++) {
        const tn_operand *to = &call->outputs[k];
        uint64_t count = tn__operand_count(to), bytes = tn__bucket_bytes(count, width);
        const char *from = (const char *)bucket->data + at;
        if (bytes > room - at)
            return tn__call_fail(call, TN_E_INVALID, "part %u is not in the bucket", k);
        if (to->data != from && !to->omitted) memcpy(to->data, from, (size_t)(count * width));
        at += bytes;
    }
    return TN_OK;
}

static tn_status ranks_copy(tn_kernel_call *call) {
    tn__operand_copy(&call->outputs[0], &call->inputs[0]);
    return TN_OK;
}

/* Computes the offset of a part in the whole tensor, in bytes. These kernels do not communicate:
 * each computes the result that is correct if all other ranks have zeros. */
static tn_status ranks_place(tn_kernel_call *call, const tn_operand *whole, const tn_operand *part,
                             uint64_t *at) {
    const char *name = strncmp(call->op->type, "Shard", 5) == 0 ? "part" : "rank";
    uint64_t bytes = tn__operand_bytes(part), end;
    int64_t number = tn__attr_int(call->op, name, 0);
    if (number >= 0 && tn__mul((uint64_t)number, bytes, at) && tn__add(*at, bytes, &end) &&
        end <= tn__operand_bytes(whole))
        return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "there is no part %lld", (long long)number);
}

static tn_status ranks_part(tn_kernel_call *call) {
    const tn_operand *whole = &call->inputs[0], *part = &call->outputs[0];
    uint64_t at = 0;
    TN_TRY(ranks_place(call, whole, part, &at));
    const char *from = (const char *)whole->data + at;
    if (part->data != from) memcpy(part->data, from, (size_t)tn__operand_bytes(part));
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

static const tn_kernel ranks_kernels[] = {
    {.type = "Bucket", .accepts = tn__numeric_accepts, .run = bucket_fill},
    {.type = "BucketParts", .accepts = tn__numeric_accepts, .run = bucket_parts},
    {.type = "ShardPart", .accepts = tn__numeric_accepts, .run = ranks_part},
    {.type = "ShardWhole", .accepts = tn__numeric_accepts, .run = ranks_whole},
    {.type = "RankCopy", .run = ranks_copy},
    {.type = "RankGather", .run = ranks_whole},
    {.type = "RankMax", .run = ranks_copy},
    {.type = "RankScatter", .run = ranks_part},
    {.type = "RankSum", .run = ranks_copy},
};

TN_KERNEL_FAMILY(ranks, "tenure");
