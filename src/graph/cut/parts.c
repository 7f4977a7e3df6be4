/* parts.c - copies a rank's part of a cut tensor's data out of the whole, and into it. */
#include "graph/cut/cut.h"

typedef struct parts_rows { /* the whole as `outer` rows; each holds the bytes along the axis */
    uint64_t outer, inner, run;
} parts_rows;

static parts_rows parts_of(const tn_tensor_part *part) {
    parts_rows rows = {.outer = 1, .inner = part->bytes};
    for (uint32_t d = 0; d < part->axis; d++) rows.outer *= (uint64_t)part->shape[d];
    rows.run = rows.outer > 0 ? rows.inner / rows.outer : 0;
    rows.inner = part->shape[part->axis] > 0 ? rows.run / (uint64_t)part->shape[part->axis] : 0;
    return rows;
}

static void parts_move(const tn_tensor_part *part, uint32_t ranks, uint32_t rank, uint8_t *whole,
                       uint8_t *mine, bool out) {
    parts_rows rows = parts_of(part);
    for (uint64_t o = 0; o < rows.outer; o++, whole += rows.run) {
        uint64_t at = 0;
        for (uint32_t b = 0; b < part->block_count; b++) {
            uint64_t block = (uint64_t)part->blocks[b] * rows.inner, size = block / ranks;
            uint8_t *from = whole + at + rank * size;
            memcpy(out ? mine : from, out ? from : mine, (size_t)size);
            mine += size;
            at += block;
        }
    }
}

void tn_tensor_part_take(const tn_tensor_part *part, uint32_t ranks, uint32_t rank,
                         const void *whole, void *mine) {
    parts_move(part, ranks, rank, (uint8_t *)(uintptr_t)whole, mine, true);
}

void tn_tensor_part_put(const tn_tensor_part *part, uint32_t ranks, uint32_t rank, const void *mine,
                        void *whole) {
    parts_move(part, ranks, rank, whole, (uint8_t *)(uintptr_t)mine, false);
}

tn_status tn__cuts_part(tn__arena *arena, const tn_tensor *whole, tn_tensor_id id,
                        const tn__cut *cut, tn_tensor_part *part, tn_error *error) {
    int64_t *blocks = tn__arena_array(arena, cut->blocks, sizeof *blocks);
    const int64_t *shape = tn__arena_copy(arena, whole->shape, whole->rank * sizeof *shape);
    if (blocks == NULL || shape == NULL) return tn__no_memory(error, "parts of a model");
    for (uint32_t b = 0; b < cut->blocks; b++)
        blocks[b] = cut->sizes != NULL ? cut->sizes[b] : whole->shape[cut->axis] / cut->blocks;
    *part = (tn_tensor_part){.tensor = id,
                             .axis = cut->axis,
                             .block_count = cut->blocks,
                             .blocks = blocks,
                             .rank = whole->rank,
                             .shape = shape,
                             .bytes = whole->bytes};
    return TN_OK;
}
