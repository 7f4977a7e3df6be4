/* expand.c - maps and unmaps the pages of expandable segments.
 *
 *   | block | free |    unmapped    | free | block |     unmapped      |     one segment
 *                  ^ pages of 2 MiB or 20 MiB; a free chunk grows into the unmapped chunk after it
 *
 * A segment is a sequence of neighbouring chunks; its first chunk is marked is_segment, so that
 * chunks are not joined across segments. Unmapped chunks have the state OUTSIDE and consist of
 * whole pages. A driver can map pages that lie anywhere; here mapping only counts them as reserved.
 *
 * Source: pytorch/c10/cuda/CUDACachingAllocator: ExpandableSegment, find_expandable_block,
 * try_allocate_expandable_block, map_block, unmap_block.
 */
#include "memory/pool/expand.h"

#define EXPAND_SMALL_PAGE (UINT64_C(2) << 20)
#define EXPAND_LARGE_PAGE (UINT64_C(20) << 20)

static uint64_t expand_page(const tn__chunk *chunk) {
    return chunk->is_large ? EXPAND_LARGE_PAGE : EXPAND_SMALL_PAGE;
}

static uint64_t expand_up(uint64_t bytes, uint64_t page) {
    return (bytes + page - 1) / page * page;
}

static bool expand_is_unmapped(const tn_pool *pool, uint32_t chunk) {
    return chunk != TN__CHUNK_NONE && pool->chunks[chunk].state == TN__CHUNK_OUTSIDE &&
           pool->chunks[chunk].is_span;
}

/* Returns the next chunk by address if it lies in the same segment; NONE: `chunk` is the last one
 * of its segment. */
static uint32_t expand_next(const tn_pool *pool, uint32_t chunk) {
    const uint32_t after = pool->chunks[chunk].after;
    if (after == TN__CHUNK_NONE || pool->chunks[after].is_segment) return TN__CHUNK_NONE;
    return after;
}

uint64_t tn__expand_size(const tn_pool *pool, uint32_t chunk) {
    const uint32_t next = expand_next(pool, chunk);
    return pool->chunks[chunk].size +
           (expand_is_unmapped(pool, next) ? pool->chunks[next].size : 0);
}

static bool expand_is_usable(const tn_pool *pool, uint32_t chunk) {
    return chunk != TN__CHUNK_NONE && pool->chunks[chunk].state != TN__CHUNK_USED;
}

static bool expand_has_addresses(const tn_pool *pool, uint32_t chunk, uint64_t size) {
    uint64_t bytes = 0;
    for (uint32_t at = chunk; bytes < size && expand_is_usable(pool, at);
         at = expand_next(pool, at))
        bytes += pool->chunks[at].size;
    return bytes >= size;
}

static uint32_t expand_begin(tn_pool *pool, const tn__expand *it, uint32_t stream, bool large) {
    uint32_t found = tn__chunk_set_at_least(pool, it->outside, 0, it->segment);
    if (found == TN__CHUNK_NONE) return found;
    tn__chunk_set_remove(pool, it->outside, found);
    if (it->segment < pool->chunks[found].size) {
        uint32_t rest = tn__chunk_split(pool, found, it->segment);
        /* marks the remaining unused bytes as the begin of a segment, so that they are never joined
         * with the segment before them */
        pool->chunks[rest].is_segment = true;
        tn__chunk_set_add(pool, it->outside, rest);
    }
    tn__chunk *chunk = &pool->chunks[found];
    chunk->is_segment = chunk->is_span = true;
    chunk->is_large = large;
    chunk->lane = stream;
    return found;
}

/* Finds the first chunk, free or unmapped, from which `size` bytes of addresses are available: at
 * the unmapped chunk of the stream with the lowest address, or in a new segment. */
static uint32_t expand_find(tn_pool *pool, const tn__expand *it, uint64_t size, uint32_t stream,
                            bool large) {
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        const tn__chunk *chunk = &pool->chunks[at];
        if (!expand_is_unmapped(pool, at) || chunk->lane != stream || chunk->is_large != large)
            continue;
        uint32_t from = at;
        if (!chunk->is_segment && expand_is_usable(pool, chunk->before)) from = chunk->before;
        if (expand_has_addresses(pool, from, size)) return from;
    }
    return size <= it->segment ? expand_begin(pool, it, stream, large) : TN__CHUNK_NONE;
}

static void expand_put(tn_pool *pool, const tn__expand *it, uint32_t chunk) {
    pool->chunks[chunk].birth = it->clock;
    tn__chunk_set_add(pool, it->free[pool->chunks[chunk].is_large], chunk);
}

/* Maps the first pages of an unmapped chunk, and joins them with free neighbours. Returns the free
 * chunk, which is in no set; NONE: the limit of mapped bytes would be exceeded. */
static uint32_t expand_pages(tn_pool *pool, const tn__expand *it, uint32_t chunk, uint64_t size) {
    tn__chunk_set *set = it->free[pool->chunks[chunk].is_large];
    uint64_t bytes = expand_up(size, expand_page(&pool->chunks[chunk]));
    if (bytes > it->limit || pool->reserved > it->limit - bytes) return TN__CHUNK_NONE;
    if (bytes < pool->chunks[chunk].size) tn__chunk_split(pool, chunk, bytes);
    pool->chunks[chunk].state = TN__CHUNK_FREE;
    pool->reserved += bytes;
    if (tn__chunk_joins_before(pool, chunk)) {
        chunk = pool->chunks[chunk].before;
        tn__chunk_set_remove(pool, set, chunk);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_after(pool, chunk)) {
        tn__chunk_set_remove(pool, set, pool->chunks[chunk].after);
        tn__chunk_join(pool, chunk);
    }
    return chunk;
}

uint32_t tn__expand_map(tn_pool *pool, const tn__expand *it, uint64_t size, uint32_t stream,
                        bool large) {
    uint32_t chunk = expand_find(pool, it, size, stream, large);
    if (chunk == TN__CHUNK_NONE) return chunk;
    const bool mapped = !expand_is_unmapped(pool, chunk);
    if (mapped) tn__chunk_set_remove(pool, it->free[large], chunk);
    while (expand_is_unmapped(pool, chunk) || pool->chunks[chunk].size < size) {
        const bool begins = expand_is_unmapped(pool, chunk);
        const uint32_t next = begins ? chunk : expand_next(pool, chunk);
        uint64_t want = begins ? size : size - pool->chunks[chunk].size;
        if (want > pool->chunks[next].size) want = pool->chunks[next].size;
        /* a free chunk that is extended is joined with the new pages by expand_pages, so it is not
         * put back */
        if (!begins) expand_put(pool, it, chunk);
        uint32_t made = expand_pages(pool, it, next, want);
        if (made == TN__CHUNK_NONE) return made;
        chunk = made;
    }
    return chunk;
}

/* Unmaps the whole pages in a free chunk. Returns the unmapped chunk, or the given chunk if it
 * contains no whole page. */
static uint32_t expand_release(tn_pool *pool, const tn__expand *it, uint32_t chunk) {
    const uint64_t page = expand_page(&pool->chunks[chunk]);
    const uint64_t begin = pool->chunks[chunk].offset, end = begin + pool->chunks[chunk].size;
    const uint64_t from = expand_up(begin, page), to = end / page * page;
    if (from >= to) return chunk;
    tn__chunk_set_remove(pool, it->free[pool->chunks[chunk].is_large], chunk);
    if (to < end) expand_put(pool, it, tn__chunk_split(pool, chunk, to - begin));
    if (from > begin) {
        uint32_t pages = tn__chunk_split(pool, chunk, from - begin);
        expand_put(pool, it, chunk);
        chunk = pages;
    }
    pool->chunks[chunk].state = TN__CHUNK_OUTSIDE;
    pool->reserved -= to - from;
    tn__pool_release(pool, from, to - from);
    if (tn__chunk_joins_after(pool, chunk)) tn__chunk_join(pool, chunk);
    if (!tn__chunk_joins_before(pool, chunk)) return chunk;
    chunk = pool->chunks[chunk].before;
    tn__chunk_join(pool, chunk);
    return chunk;
}

uint64_t tn__expand_unmap(tn_pool *pool, const tn__expand *it) {
    const uint64_t before = pool->reserved;
    uint32_t free_count = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        free_count += pool->chunks[i].state == TN__CHUNK_FREE;
    /* Reserves records: unmapping the middle of a free chunk leaves a free chunk on both sides, and
     * the call itself needs records, too. */
    if (!tn__chunks_reserve(pool, 2 * (size_t)free_count + TN__CHUNKS_PER_CALL)) return 0;
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after)
        if (pool->chunks[at].state == TN__CHUNK_FREE) at = expand_release(pool, it, at);
    return before - pool->reserved;
}
