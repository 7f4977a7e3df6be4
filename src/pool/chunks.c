/* chunks.c - the list of chunks that tiles the range: cutting, joining, checking. */
#include "pool/technique.h"

bool tn__chunks_room(tn_pool *pool) {
    size_t spare = pool->chunk_room - pool->chunk_count + pool->vacant_count;
    if (spare >= TN__CHUNKS_PER_CALL) return true;
    size_t need = (size_t)pool->chunk_count + TN__CHUNKS_PER_CALL;
    if (need >= TN__CHUNK_NONE) return false;
    return tn__reserve(&pool->context, &pool->chunks, &pool->chunk_room, need,
                       sizeof *pool->chunks);
}

uint32_t tn__chunk_new(tn_pool *pool) {
    uint32_t chunk = pool->vacant, generation = 1; /* no block has the id 0 */
    if (chunk != TN__CHUNK_NONE) {
        pool->vacant = pool->chunks[chunk].after;
        pool->vacant_count--;
        generation = pool->chunks[chunk].generation;
    } else {
        tn_assert(pool->chunk_count < pool->chunk_room);
        chunk = pool->chunk_count++;
    }
    pool->chunks[chunk] = (tn__chunk){.before = TN__CHUNK_NONE,
                                      .after = TN__CHUNK_NONE,
                                      .left = TN__CHUNK_NONE,
                                      .right = TN__CHUNK_NONE,
                                      .generation = generation};
    return chunk;
}

void tn__chunk_drop(tn_pool *pool, uint32_t chunk) {
    pool->chunks[chunk].state = TN__CHUNK_VACANT;
    pool->chunks[chunk].after = pool->vacant;
    pool->vacant = chunk;
    pool->vacant_count++;
}

uint32_t tn__chunk_split(tn_pool *pool, uint32_t chunk, uint64_t size) {
    uint32_t rest = tn__chunk_new(pool);
    tn__chunk *low = &pool->chunks[chunk], *high = &pool->chunks[rest];
    tn_assert(size > 0 && size < low->size);
    high->offset = low->offset + size;
    high->size = low->size - size;
    high->lane = low->lane;
    high->state = low->state;
    high->is_large = low->is_large;
    high->before = chunk;
    high->after = low->after;
    if (high->after != TN__CHUNK_NONE)
        pool->chunks[high->after].before = rest;
    else
        pool->last = rest;
    low->after = rest;
    low->size = size;
    return rest;
}

void tn__chunk_join(tn_pool *pool, uint32_t chunk) {
    tn__chunk *low = &pool->chunks[chunk], *high = &pool->chunks[low->after];
    uint32_t joined = low->after;
    tn_assert(low->state == high->state && low->offset + low->size == high->offset);
    low->size += high->size;
    low->after = high->after;
    if (low->after != TN__CHUNK_NONE)
        pool->chunks[low->after].before = chunk;
    else
        pool->last = chunk;
    tn__chunk_drop(pool, joined);
}

uint32_t tn__chunk_carve(tn_pool *pool, uint32_t chunk, uint64_t offset, uint64_t size,
                         uint32_t *front, uint32_t *rest) {
    *front = *rest = TN__CHUNK_NONE;
    if (offset > pool->chunks[chunk].offset) {
        *front = chunk;
        chunk = tn__chunk_split(pool, chunk, offset - pool->chunks[chunk].offset);
    }
    if (size < pool->chunks[chunk].size) *rest = tn__chunk_split(pool, chunk, size);
    return chunk;
}

bool tn__chunk_joins_before(const tn_pool *pool, uint32_t chunk) {
    const tn__chunk *high = &pool->chunks[chunk];
    return high->before != TN__CHUNK_NONE && !high->is_segment &&
           pool->chunks[high->before].state == high->state;
}

bool tn__chunk_joins_after(const tn_pool *pool, uint32_t chunk) {
    uint32_t after = pool->chunks[chunk].after;
    return after != TN__CHUNK_NONE && tn__chunk_joins_before(pool, after);
}

bool tn__chunk_fits(const tn_pool *pool, uint32_t chunk, const tn__want *want, uint64_t *offset) {
    const tn__chunk *room = &pool->chunks[chunk];
    uint64_t start = (room->offset + want->alignment - 1) & ~(want->alignment - 1);
    if (start - room->offset > room->size || room->size - (start - room->offset) < want->size)
        return false;
    *offset = start;
    return true;
}

uint64_t tn__pool_largest_free(const tn_pool *pool) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        const tn__chunk *chunk = &pool->chunks[i];
        bool idle = chunk->state == TN__CHUNK_FREE || chunk->state == TN__CHUNK_OUTSIDE;
        if (idle && chunk->size > largest) largest = chunk->size;
    }
    return largest;
}

/* --- the judge of tests and audits --- */

typedef struct chunks_sums {
    uint64_t end, allocated, requested, blocks, listed;
} chunks_sums;

static const char *chunks_check_one(const tn_pool *pool, uint32_t id, uint32_t before,
                                    chunks_sums *sums) {
    const tn__chunk *chunk = &pool->chunks[id];
    if (chunk->offset != sums->end) return "chunks do not tile the range";
    if (chunk->size == 0 || chunk->is_empty) return "an empty chunk is in the list";
    if (chunk->before != before) return "a chunk does not know the one before it";
    if (chunk->state == TN__CHUNK_VACANT) return "a vacant record is in the list";
    sums->end += chunk->size;
    sums->listed++;
    if (chunk->state != TN__CHUNK_USED) return NULL;
    if (chunk->requested > chunk->size) return "a block is smaller than its request";
    return NULL;
}

static const char *chunks_check_records(const tn_pool *pool, chunks_sums *sums) {
    uint64_t vacant = 0, empty = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        const tn__chunk *chunk = &pool->chunks[i];
        vacant += chunk->state == TN__CHUNK_VACANT;
        empty += chunk->state == TN__CHUNK_USED && chunk->is_empty;
        if (chunk->state != TN__CHUNK_USED) continue;
        sums->blocks++;
        sums->allocated += chunk->size;
        sums->requested += chunk->requested;
    }
    if (vacant != pool->vacant_count) return "vacant records are lost";
    if (vacant + empty + sums->listed != pool->chunk_count) return "chunks are lost";
    return NULL;
}

const char *tn__pool_check(const tn_pool *pool) {
    chunks_sums sums = {0};
    uint32_t before = TN__CHUNK_NONE, id = 0;
    for (; id != TN__CHUNK_NONE; before = id, id = pool->chunks[id].after) {
        const char *wrong = chunks_check_one(pool, id, before, &sums);
        if (wrong != NULL) return wrong;
    }
    if (sums.end != pool->capacity) return "chunks do not reach the end of the range";
    if (before != pool->last) return "the last chunk is another one";
    const char *wrong = chunks_check_records(pool, &sums);
    if (wrong != NULL) return wrong;
    const tn_pool_usage *usage = &pool->usage;
    if (sums.allocated != usage->allocated) return "allocated bytes are miscounted";
    if (sums.requested != usage->requested) return "requested bytes are miscounted";
    if (sums.blocks != usage->block_count) return "blocks are miscounted";
    if (usage->alloc_count - usage->failed_count - usage->free_count != sums.blocks)
        return "calls are miscounted";
    if (pool->reserved < usage->allocated) return "less is reserved than is allocated";
    return NULL;
}
