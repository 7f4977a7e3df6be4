/* caching.c - PyTorch's CUDA allocator: segments per stream, which are kept when they are free.
 *
 * Blocks are multiples of 512 bytes. Requests up to 1 MiB share small segments of 2 MiB, larger
 * ones below 10 MiB share large segments of 20 MiB, and each request from 10 MiB on gets its own
 * segment, rounded up to 2 MiB. A request takes the smallest sufficient free block of its own
 * stream and kind. The block is cut if 512 bytes (small) or more than 1 MiB (large) are left. If
 * the range has no room for a segment, all segments without a block in use are released, and the
 * request is tried once more. Reserved is the sum of the segments.
 *
 * A driver can map pages anywhere; here a segment needs contiguous bytes of the range. So this pool
 * may run out of memory earlier than a real device of that size; `reserved` is the same.
 *
 * Use it to see what PyTorch would do, or if streams must not share memory.
 * Cost:   O(log n) time, to empty the cache O(n); no memory of its own.
 * Source: pytorch/c10/cuda/CUDACachingAllocator with its default settings.
 */
#include "pool/chunks.h"

#define CACHING_UNIT 512u
#define CACHING_SMALL (1ull << 20)
#define CACHING_SMALL_SEGMENT (2ull << 20)
#define CACHING_SHARED_BELOW (10ull << 20)
#define CACHING_LARGE_SEGMENT (20ull << 20)
#define CACHING_SEGMENT_UNIT (2ull << 20)

typedef struct caching_state {
    tn__set free[2]; /* for small and for large segments; lane: the stream */
    tn__set outside;
} caching_state;

static tn_status caching_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    (void)options, (void)error;
    caching_state *state = pool->state;
    state->free[0].root = state->free[1].root = state->outside.root = TN__CHUNK_NONE;
    tn__set_add(pool, &state->outside, 0);
    return TN_OK;
}

static uint64_t caching_segment(uint64_t size) {
    if (size <= CACHING_SMALL) return CACHING_SMALL_SEGMENT;
    if (size < CACHING_SHARED_BELOW) return CACHING_LARGE_SEGMENT;
    return (size + CACHING_SEGMENT_UNIT - 1) & ~(CACHING_SEGMENT_UNIT - 1);
}

static tn__set *caching_set(tn_pool *pool, bool large) {
    caching_state *state = pool->state;
    return &state->free[large];
}

/* Takes a new segment as one free chunk, in no set; or NONE. */
static uint32_t caching_extend(tn_pool *pool, uint64_t size, uint32_t stream, bool large) {
    caching_state *state = pool->state;
    uint64_t bytes = caching_segment(size);
    uint32_t found = tn__set_at_least(pool, &state->outside, 0, bytes);
    if (found == TN__CHUNK_NONE) return found;
    tn__set_remove(pool, &state->outside, found);
    if (bytes < pool->chunks[found].size)
        tn__set_add(pool, &state->outside, tn__chunk_split(pool, found, bytes));
    tn__chunk *chunk = &pool->chunks[found];
    chunk->state = TN__CHUNK_FREE;
    chunk->is_segment = true;
    chunk->is_large = large;
    chunk->lane = stream;
    pool->reserved += bytes;
    return found;
}

static bool caching_is_whole(const tn_pool *pool, uint32_t chunk) {
    const tn__chunk *segment = &pool->chunks[chunk];
    if (segment->state != TN__CHUNK_FREE || !segment->is_segment) return false;
    if (segment->after == TN__CHUNK_NONE) return true;
    const tn__chunk *after = &pool->chunks[segment->after];
    return after->is_segment || after->state == TN__CHUNK_OUTSIDE;
}

/* Returns the segment to the range and joins it with outside neighbours. Returns the joined
 * chunk. */
static uint32_t caching_return(tn_pool *pool, uint32_t chunk) {
    caching_state *state = pool->state;
    tn__chunk *segment = &pool->chunks[chunk];
    tn__set_remove(pool, caching_set(pool, segment->is_large), chunk);
    pool->reserved -= segment->size;
    segment->state = TN__CHUNK_OUTSIDE;
    segment->is_segment = segment->is_large = false;
    segment->lane = 0;
    if (tn__chunk_joins_after(pool, chunk)) {
        tn__set_remove(pool, &state->outside, segment->after);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_before(pool, chunk)) {
        chunk = pool->chunks[chunk].before;
        tn__set_remove(pool, &state->outside, chunk);
        tn__chunk_join(pool, chunk);
    }
    tn__set_add(pool, &state->outside, chunk);
    return chunk;
}

static uint64_t caching_trim(tn_pool *pool) {
    uint64_t before = pool->reserved;
    tn__pool_settle(pool);
    for (uint32_t chunk = 0; chunk != TN__CHUNK_NONE; chunk = pool->chunks[chunk].after)
        if (caching_is_whole(pool, chunk)) chunk = caching_return(pool, chunk);
    return before - pool->reserved;
}

static tn_status caching_take(tn_pool *pool, const tn__want *want, uint32_t *chunk,
                              tn_error *error) {
    (void)error;
    bool large = want->size > CACHING_SMALL;
    tn__set *set = caching_set(pool, large);
    uint64_t offset = 0, padded = want->size + want->alignment - pool->unit;
    uint32_t front, rest, found = tn__set_at_least(pool, set, want->stream, want->size);
    if (found != TN__CHUNK_NONE && !tn__chunk_fits(pool, found, want, &offset))
        found = tn__set_at_least(pool, set, want->stream, padded);
    if (found != TN__CHUNK_NONE) {
        tn__set_remove(pool, set, found);
    } else {
        found = caching_extend(pool, padded, want->stream, large);
        if (found == TN__CHUNK_NONE && caching_trim(pool) > 0)
            found = caching_extend(pool, padded, want->stream, large);
        if (found == TN__CHUNK_NONE) return TN_E_EXHAUSTED;
    }
    bool fits = tn__chunk_fits(pool, found, want, &offset);
    tn_assert(fits);
    (void)fits;
    uint64_t room = pool->chunks[found].size - (offset - pool->chunks[found].offset);
    bool cut = large ? room - want->size > CACHING_SMALL : room > want->size;
    *chunk = tn__chunk_carve(pool, found, offset, cut ? want->size : room, &front, &rest);
    if (front != TN__CHUNK_NONE) tn__set_add(pool, set, front);
    if (rest != TN__CHUNK_NONE) tn__set_add(pool, set, rest);
    return TN_OK;
}

static void caching_give(tn_pool *pool, uint32_t chunk) {
    tn__set *set = caching_set(pool, pool->chunks[chunk].is_large);
    if (tn__chunk_joins_after(pool, chunk)) {
        tn__set_remove(pool, set, pool->chunks[chunk].after);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_before(pool, chunk)) {
        chunk = pool->chunks[chunk].before;
        tn__set_remove(pool, set, chunk);
        tn__chunk_join(pool, chunk);
    }
    tn__set_add(pool, set, chunk);
}

const tn__technique tn__pool_caching = {
    .name = "caching",
    .summary = "caches small and large segments per stream, as in PyTorch",
    .source = "PyTorch, CUDACachingAllocator",
    .unit = CACHING_UNIT,
    .state_size = sizeof(caching_state),
    .open = caching_open,
    .take = caching_take,
    .give = caching_give,
    .trim = caching_trim,
};
