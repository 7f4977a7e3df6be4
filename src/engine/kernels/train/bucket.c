/* bucket.c - copies tensors into one piece of memory and out of it (graph/ops/bucket.c).
 *
 * Tensors that the plan placed in the bucket are there already. Then only the gaps are written, so
 * that readers of the whole bucket never read uninitialised bytes.
 */
#include "graph/rules/bucket.h"

#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"

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

/* Where the part is in the whole. Among ranks these two are no kernels' business (dist). */
static tn_status bucket_place(tn_kernel_call *call, const tn_operand *whole, const tn_operand *part,
                              uint64_t *at) {
    uint64_t bytes = tn__operand_bytes(part), which;
    int64_t number = tn__attr_int(call->op, "part", 0);
    bool inside = number >= 0 && tn__mul((uint64_t)number, bytes, at) &&
                  tn__add(*at, bytes, &which) && which <= tn__operand_bytes(whole);
    if (inside) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "part %lld is not in the bucket", (long long)number);
}

static tn_status bucket_part(tn_kernel_call *call) {
    const tn_operand *whole = &call->inputs[0], *part = &call->outputs[0];
    uint64_t at = 0;
    TN_TRY(bucket_place(call, whole, part, &at));
    const char *from = (const char *)whole->data + at;
    if (part->data != from) memcpy(part->data, from, tn__operand_bytes(part));
    return TN_OK;
}

static tn_status bucket_whole(tn_kernel_call *call) {
    const tn_operand *part = &call->inputs[0], *whole = &call->outputs[0];
    uint64_t at = 0, bytes = tn__operand_bytes(part);
    TN_TRY(bucket_place(call, whole, part, &at));
    char *to = whole->data;
    memset(to, 0, at);
    memcpy(to + at, part->data, bytes);
    memset(to + at + bytes, 0, tn__operand_bytes(whole) - at - bytes);
    return TN_OK;
}

static const tn_kernel train_bucket_kernels[] = {
    {.type = "Bucket", .accepts = tn__numeric_accepts, .run = bucket_fill},
    {.type = "BucketParts", .accepts = tn__numeric_accepts, .run = bucket_parts},
    {.type = "ShardPart", .accepts = tn__numeric_accepts, .run = bucket_part},
    {.type = "ShardWhole", .accepts = tn__numeric_accepts, .run = bucket_whole},
};

TN_KERNEL_FAMILY(train_bucket, "tenure");
