/* chunks.c - grows and checks the list of chunks that covers the pool's range. Functions that cut
 * and join chunks are in chunks.h. */
#include "memory/pool/technique.h"

bool tn__chunks_reserve(tn_pool *pool, size_t more) {
    size_t need = (size_t)pool->chunk_count + more;
    if (need >= TN__CHUNK_NONE) return false;
    return tn__reserve(&pool->context, &pool->chunks, &pool->chunk_room, need,
                       sizeof *pool->chunks);
}

bool tn__chunks_grow(tn_pool *pool) { return tn__chunks_reserve(pool, TN__CHUNKS_PER_CALL); }

uint64_t tn__pool_largest_free(const tn_pool *pool) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        const tn__chunk *chunk = &pool->chunks[i];
        bool idle = chunk->state == TN__CHUNK_FREE || chunk->state == TN__CHUNK_OUTSIDE;
        uint64_t size = chunk->size;
        if (chunk->state == TN__CHUNK_OUTSIDE && pool->limit < pool->capacity &&
            size > pool->limit - pool->reserved)
            size = pool->limit - pool->reserved; /* the range is larger than the memory */
        if (idle && size > largest) largest = size;
    }
    return largest;
}

/* --- checking all invariants, for tests --- */

typedef struct chunks_sums {
    uint64_t end, allocated, requested, blocks, listed, lent, inner;
} chunks_sums;

static const char *chunks_check_one(const tn_pool *pool, uint32_t id, uint32_t before,
                                    chunks_sums *sums) {
    const tn__chunk *chunk = &pool->chunks[id];
    if (chunk->offset != sums->end) return "chunks do not tile the range";
    if (chunk->size == 0 || chunk->is_empty) return "an empty chunk is in the list";
    if (chunk->is_inner) return "a block within lent bytes is in the list";
    if (chunk->before != before) return "a chunk does not know the one before it";
    if (chunk->state == TN__CHUNK_VACANT) return "a vacant record is in the list";
    sums->end += chunk->size;
    sums->listed++;
    if (chunk->state == TN__CHUNK_LENT) sums->lent += chunk->size;
    if (chunk->state != TN__CHUNK_USED) return NULL;
    if (chunk->requested > chunk->size) return "a block is smaller than its request";
    return NULL;
}

static const char *chunks_check_records(const tn_pool *pool, chunks_sums *sums) {
    uint64_t vacant = 0, apart = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        const tn__chunk *chunk = &pool->chunks[i];
        vacant += chunk->state == TN__CHUNK_VACANT;
        if (chunk->state != TN__CHUNK_USED) continue;
        apart += chunk->is_empty || chunk->is_inner;
        sums->inner += chunk->is_inner ? chunk->size : 0;
        sums->blocks++;
        sums->allocated += chunk->size;
        sums->requested += chunk->requested;
    }
    if (vacant != pool->vacant_count) return "vacant records are lost";
    if (vacant + apart + sums->listed != pool->chunk_count) return "chunks are lost";
    if (sums->inner > sums->lent) return "more is handed out than was lent";
    return NULL;
}

const char *tn__pool_check(const tn_pool *pool) {
    chunks_sums sums = {0};
    uint32_t before = TN__CHUNK_NONE, id = pool->first;
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
