/* bucket.c - puts tensors into one contiguous buffer, so that one message transfers all of them.
 *
 *   Bucket(tensors...) -> bucket                 to: its element type
 *                                                parts: number of equal parts that it divides into
 *   BucketParts(bucket) -> tensors...            shapes: for each the rank, then the extents
 *   ShardPart(bucket) -> part                    parts, part: number of parts, index of this one
 *   ShardWhole(part) -> bucket                   parts, part: the others are filled with zeros
 *
 * A bucket is flat. Tensors lie in it one after the other, each at a multiple of 64 bytes, with
 * zeros between them; tensors of another type are converted. So a tensor of the bucket's type can
 * be made at its place in the bucket (program/liveness/buffers.c), and a part is a view: nothing is
 * copied. The folder run/dist inserts communication between the two operators, which changes the
 * bucket. So a bucket is never recomputed: that would give its content before the communication.
 * ShardPart and ShardWhole mark where a rank that keeps only one part receives it, and where it
 * needs the whole bucket. In a program of several ranks, SCATTER and GATHER do that.
 */
#include "graph/rules/bucket.h"

#include "graph/rules/fold.h"

#define BUCKET_PARTS_MOST 65536

static tn_status bucket_shape(tn_infer *infer) {
    tn_dtype to;
    uint64_t bytes = 0;
    TN_TRY(tn__attr_dtype(infer, "to", TN_FLOAT32, &to));
    uint64_t width = tn_dtype_bits(to) / 8;
    if (width == 0 || tn_dtype_bits(to) % 8 != 0)
        return tn__infer_fail(infer, "a bucket of %s", tn_dtype_name(to));
    for (uint32_t i = 0; i < tn__input_count(infer); i++) {
        uint64_t count = tn__elements(tn__input(infer, i));
        if (count == TN_SIZE_UNKNOWN) return tn__set_dtype(infer, 0, to);
        bytes = tn__add_sat(bytes, tn__bucket_bytes(count, width));
    }
    int64_t parts = tn__attr_int(infer->op, "parts", 1);
    if (parts < 1 || parts > BUCKET_PARTS_MOST)
        return tn__infer_fail(infer, "a bucket of %lld parts", (long long)parts);
    if (parts > 1) bytes = tn__bucket_whole(bytes, (uint64_t)parts);
    if (bytes / width > INT64_MAX) return tn__infer_fail(infer, "the bucket is too large");
    int64_t length = (int64_t)(bytes / width);
    return tn__set_output(infer, 0, to, 1, &length);
}

/* The extents of part `index`; NULL if the attribute has no such part. */
static const int64_t *bucket_extents(const tn_infer *infer, uint32_t index, uint32_t *rank) {
    uint32_t count, at = 0;
    const int64_t *shapes = tn__attr_ints(infer->op, "shapes", &count);
    for (uint32_t k = 0; shapes != NULL && at < count; k++) {
        int64_t extents = shapes[at];
        if (extents < 0 || extents > TN_RANK_MAX || (uint64_t)extents >= count - at) return NULL;
        *rank = (uint32_t)extents;
        if (k == index) return &shapes[at + 1];
        at += 1 + *rank;
    }
    return NULL;
}

static uint64_t bucket_part_bytes(const tn_infer *infer, uint32_t index, uint64_t width) {
    uint32_t rank;
    uint64_t count = 1;
    const int64_t *extents = bucket_extents(infer, index, &rank);
    if (extents == NULL) return TN_SIZE_UNKNOWN;
    for (uint32_t d = 0; d < rank; d++) {
        if (extents[d] < 0) return TN_SIZE_UNKNOWN;
        count = tn__mul_sat(count, (uint64_t)extents[d]);
    }
    return tn__bucket_bytes(count, width);
}

static tn_status bucket_shape_parts(tn_infer *infer) {
    const tn_tensor *bucket = tn__input(infer, 0);
    uint64_t width = tn_dtype_bits(bucket->dtype) / 8, bytes = 0;
    for (uint32_t k = 0; k < tn__output_count(infer); k++) {
        uint32_t rank;
        const int64_t *extents = bucket_extents(infer, k, &rank);
        if (extents == NULL) return tn__infer_fail(infer, "attribute shapes has no part %u", k);
        TN_TRY(tn__set_output(infer, k, bucket->dtype, rank, extents));
        bytes = tn__add_sat(bytes, bucket_part_bytes(infer, k, width));
    }
    if (width > 0 && tn__shape_known(bucket) && bytes / width > tn__elements(bucket))
        return tn__infer_fail(infer, "the parts take %llu bytes, more than there are",
                              (unsigned long long)bytes);
    return TN_OK;
}

static tn_view bucket_view(tn_infer *infer, uint32_t output) {
    uint64_t width = tn_dtype_bits(tn__input(infer, 0)->dtype) / 8, at = 0;
    for (uint32_t k = 0; k < output; k++) at = tn__add_sat(at, bucket_part_bytes(infer, k, width));
    return at == TN_SIZE_UNKNOWN ? tn__no_view : tn__view_input(infer, 0, at);
}

/* --- ShardPart, ShardWhole: one of several equal parts of a bucket --- */

/* Reads the attributes: the number of parts and the index of this part. */
static tn_status bucket_which(tn_infer *infer, int64_t *parts, int64_t *part) {
    *parts = tn__attr_int(infer->op, "parts", 0);
    *part = tn__attr_int(infer->op, "part", 0);
    if (*parts >= 1 && *parts <= BUCKET_PARTS_MOST && *part >= 0 && *part < *parts) return TN_OK;
    return tn__infer_fail(infer, "part %lld of %lld", (long long)*part, (long long)*parts);
}

static tn_status bucket_shape_part(tn_infer *infer) {
    const tn_tensor *bucket = tn__input(infer, 0);
    int64_t parts, part;
    TN_TRY(bucket_which(infer, &parts, &part));
    if (!tn__shape_known(bucket)) return tn__set_dtype(infer, 0, bucket->dtype);
    int64_t length = bucket->rank == 1 ? bucket->shape[0] : -1;
    if (length < 0 || length % parts != 0)
        return tn__infer_fail(infer, "the bucket does not divide into %lld parts",
                              (long long)parts);
    length /= parts;
    return tn__set_output(infer, 0, bucket->dtype, 1, &length);
}

static tn_status bucket_shape_whole(tn_infer *infer) {
    const tn_tensor *part = tn__input(infer, 0);
    int64_t parts, which;
    TN_TRY(bucket_which(infer, &parts, &which));
    if (!tn__shape_known(part)) return tn__set_dtype(infer, 0, part->dtype);
    if (part->rank != 1 || part->shape[0] > INT64_MAX / parts)
        return tn__infer_fail(infer, "what is one of %lld parts is a flat tensor",
                              (long long)parts);
    int64_t length = part->shape[0] * parts;
    return tn__set_output(infer, 0, part->dtype, 1, &length);
}

static tn_view bucket_view_part(tn_infer *infer, uint32_t output) {
    uint64_t bytes = tn__input(infer, 0)->bytes;
    int64_t parts = tn__attr_int(infer->op, "parts", 0), part = tn__attr_int(infer->op, "part", 0);
    if (output != 0 || bytes == TN_SIZE_UNKNOWN || parts < 1 || part < 0) return tn__no_view;
    return tn__view_input(infer, 0, tn__mul_sat(bytes / (uint64_t)parts, (uint64_t)part));
}

/* clang-format off */
static const tn_op_rule bucket_rules[] = {
    {.type = "Bucket", .inputs_min = 1, .inputs_max = UINT32_MAX, .outputs_max = 1,
     .shape = bucket_shape, .flags = TN_RULE_SPACED | TN_RULE_ORDERED},
    {.type = "BucketParts", .inputs_min = 1, .inputs_max = 1, .outputs_max = UINT32_MAX,
     .shape = bucket_shape_parts, .view = bucket_view},
    {.type = "ShardPart", .inputs_min = 1, .inputs_max = 1, .outputs_max = 1,
     .shape = bucket_shape_part, .view = bucket_view_part},
    {.type = "ShardWhole", .inputs_min = 1, .inputs_max = 1, .outputs_max = 1,
     .shape = bucket_shape_whole, .flags = TN_RULE_SHARD_WHOLE},
};
/* clang-format on */

TN_OP_FAMILY(bucket, "tenure");
