/* parts.c - contents of cut tensors: the part of a rank out of the whole, and into it. */
#include "shard/shard.h"

typedef struct parts_rows { /* bytes of the whole: `outer` times what lies along the axis */
    uint64_t outer, inner, run;
} parts_rows;

static parts_rows parts_of(const tn_tensor_part *shard) {
    parts_rows rows = {.outer = 1, .inner = shard->bytes};
    for (uint32_t d = 0; d < shard->axis; d++) rows.outer *= (uint64_t)shard->shape[d];
    rows.run = rows.outer > 0 ? rows.inner / rows.outer : 0;
    rows.inner = shard->shape[shard->axis] > 0 ? rows.run / (uint64_t)shard->shape[shard->axis] : 0;
    return rows;
}

static void parts_move(const tn_tensor_part *shard, uint32_t ranks, uint32_t rank, uint8_t *whole,
                       uint8_t *part, bool out) {
    parts_rows rows = parts_of(shard);
    for (uint64_t o = 0; o < rows.outer; o++, whole += rows.run) {
        uint64_t at = 0;
        for (uint32_t b = 0; b < shard->block_count; b++) {
            uint64_t block = (uint64_t)shard->blocks[b] * rows.inner, size = block / ranks;
            uint8_t *from = whole + at + rank * size;
            memcpy(out ? part : from, out ? from : part, (size_t)size);
            part += size;
            at += block;
        }
    }
}

void tn_tensor_part_take(const tn_tensor_part *shard, uint32_t ranks, uint32_t rank,
                         const void *whole, void *part) {
    parts_move(shard, ranks, rank, (uint8_t *)(uintptr_t)whole, part, true);
}

void tn_tensor_part_put(const tn_tensor_part *shard, uint32_t ranks, uint32_t rank,
                        const void *part, void *whole) {
    parts_move(shard, ranks, rank, whole, (uint8_t *)(uintptr_t)part, false);
}

tn_status tn__shard_part(tn__arena *arena, const tn_tensor *whole, tn_tensor_id id,
                         const tn__cut *cut, tn_tensor_part *shard, tn_error *error) {
    int64_t *blocks = tn__arena_array(arena, cut->blocks, sizeof *blocks);
    const int64_t *shape = tn__arena_copy(arena, whole->shape, whole->rank * sizeof *shape);
    if (blocks == NULL || shape == NULL) return tn__no_memory(error, "parts of a model");
    for (uint32_t b = 0; b < cut->blocks; b++)
        blocks[b] = cut->sizes != NULL ? cut->sizes[b] : whole->shape[cut->axis] / cut->blocks;
    *shard = (tn_tensor_part){.tensor = id,
                              .axis = cut->axis,
                              .block_count = cut->blocks,
                              .blocks = blocks,
                              .rank = whole->rank,
                              .shape = shape,
                              .bytes = whole->bytes};
    return TN_OK;
}
