/* chunks.h - the list of chunks that covers the pool's range without a gap: functions that cut and
 * join chunks, inline.
 *
 * A new chunk takes the record that became vacant last, because it is likely to be in the
 * processor's cache.
 */
#ifndef TN_POOL_CHUNKS_H
#define TN_POOL_CHUNKS_H

#include "memory/pool/technique.h"

/* tn__chunk_new takes a vacant record that is not in the list; tn__chunk_drop makes a record vacant
 * again. */
static inline uint32_t tn__chunk_new(tn_pool *pool) {
    /* the generation (a part of a block's id) begins at 1, because no block has the id 0 */
    uint32_t chunk = pool->vacant, generation = 1;
    if (chunk != TN__CHUNK_NONE) {
        pool->vacant = pool->chunks[chunk].after;
        pool->vacant_count--;
        generation = pool->chunks[chunk].generation;
    } else {
        tn_assert(pool->chunk_count < pool->chunk_room);
        chunk = pool->chunk_count++;
    }
    pool->chunks[chunk] =
        (tn__chunk){.before = TN__CHUNK_NONE, .after = TN__CHUNK_NONE, .generation = generation};
    return chunk;
}

static inline void tn__chunk_drop(tn_pool *pool, uint32_t chunk) {
    pool->chunks[chunk].state = TN__CHUNK_VACANT;
    pool->chunks[chunk].after = pool->vacant;
    pool->vacant = chunk;
    pool->vacant_count++;
}

/* Leaves the first `size` bytes (0 < size < the chunk's size) in the chunk, and returns a new chunk
 * with the other bytes. The new chunk has the same properties, except that it is not the first of a
 * segment. */
static inline uint32_t tn__chunk_split(tn_pool *pool, uint32_t chunk, uint64_t size) {
    uint32_t rest = tn__chunk_new(pool);
    tn__chunk *low = &pool->chunks[chunk], *high = &pool->chunks[rest];
    tn_assert(size > 0 && size < low->size);
    high->offset = low->offset + size;
    high->size = low->size - size;
    high->lane = low->lane;
    high->state = low->state;
    high->is_large = low->is_large;
    high->is_span = low->is_span;
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

/* Joins the chunk with the one after it, which is removed. */
static inline void tn__chunk_join(tn_pool *pool, uint32_t chunk) {
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

/* Cuts [offset, offset + size) out of the chunk and returns it; *front and *rest are the chunks of
 * the bytes below and above it, or NONE. */
static inline uint32_t tn__chunk_carve(tn_pool *pool, uint32_t chunk, uint64_t offset,
                                       uint64_t size, uint32_t *front, uint32_t *rest) {
    *front = *rest = TN__CHUNK_NONE;
    if (offset > pool->chunks[chunk].offset) {
        *front = chunk;
        chunk = tn__chunk_split(pool, chunk, offset - pool->chunks[chunk].offset);
    }
    if (size < pool->chunks[chunk].size) *rest = tn__chunk_split(pool, chunk, size);
    return chunk;
}

/* Whether `chunk` and the chunk before it can be joined: both have the same state and lie in the
 * same segment. `chunk` must not be in a set of free chunks. */
static inline bool tn__chunk_joins_before(const tn_pool *pool, uint32_t chunk) {
    const tn__chunk *high = &pool->chunks[chunk];
    return high->before != TN__CHUNK_NONE && !high->is_segment &&
           pool->chunks[high->before].state == high->state;
}
static inline bool tn__chunk_joins_after(const tn_pool *pool, uint32_t chunk) {
    uint32_t after = pool->chunks[chunk].after;
    return after != TN__CHUNK_NONE && tn__chunk_joins_before(pool, after);
}
/* Finds the first offset in the chunk at which a block of the requested alignment can start; false
 * if `want->size` bytes do not fit. */
static inline bool tn__chunk_fits(const tn_pool *pool, uint32_t chunk, const tn__want *want,
                                  uint64_t *offset) {
    const tn__chunk *room = &pool->chunks[chunk];
    uint64_t start = (room->offset + want->alignment - 1) & ~(want->alignment - 1);
    if (start - room->offset > room->size || room->size - (start - room->offset) < want->size)
        return false;
    *offset = start;
    return true;
}
#endif
