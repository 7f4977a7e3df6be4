/* lanes.c - keeps the chunks of several streams in one list (lanes.h). The state of a chunk, its
 * lane, and whether it lies at the frontier determine its bin. So a chunk is removed from its bin
 * before any of these change, and added to a bin afterwards. Cost: O(log n) per call, O(n) to empty
 * the cache. */
#include "memory/pool/lanes.h"

void tn__lanes_open(tn_pool *pool, tn__lanes *all) { bins_open(pool, &all->outside); }

void tn__lanes_close(tn_pool *pool, tn__lanes *all) {
    for (size_t i = 0; i < all->count; i++)
        tn__free(&pool->context, all->lanes[i], sizeof **all->lanes);
    tn__free(&pool->context, all->lanes, all->room * sizeof *all->lanes);
}

uint32_t tn__lanes_of(tn_pool *pool, tn__lanes *all, uint32_t stream) {
    for (size_t i = 0; i < all->count; i++)
        if (all->lanes[i]->stream == stream) return (uint32_t)i + 1;
    if (!tn__reserve(&pool->context, &all->lanes, &all->room, all->count + 1, sizeof *all->lanes))
        return 0;
    tn__pool_lane *made = tn__alloc(&pool->context, sizeof *made);
    if (made == NULL) return 0;
    made->stream = stream;
    bins_open(pool, &made->holes);
    all->lanes[all->count++] = made;
    return (uint32_t)all->count;
}

/* --- the bin of a chunk --- */

static bool lanes_at_frontier(const tn_pool *pool, uint32_t chunk) {
    uint32_t after = pool->chunks[chunk].after;
    if (after == TN__CHUNK_NONE) return true;
    return after == pool->last && pool->chunks[after].state == TN__CHUNK_OUTSIDE;
}

/* Returns the bin that a chunk belongs to; NULL: it belongs to no bin. Among the chunks that are
 * not reserved, only the last one is in no bin, because it is used last. */
static bins *lanes_bin(const tn_pool *pool, tn__lanes *all, uint32_t chunk) {
    const tn__chunk *free = &pool->chunks[chunk];
    if (free->state == TN__CHUNK_OUTSIDE) return chunk == pool->last ? NULL : &all->outside;
    return lanes_at_frontier(pool, chunk) ? NULL : &all->lanes[free->lane - 1]->holes;
}

static void lanes_keep(tn_pool *pool, tn__lanes *all, uint32_t chunk) {
    bins *bin = lanes_bin(pool, all, chunk);
    if (bin != NULL) bins_add(pool, bin, chunk);
}

static void lanes_drop(tn_pool *pool, tn__lanes *all, uint32_t chunk) {
    bins *bin = lanes_bin(pool, all, chunk);
    if (bin != NULL) bins_remove(pool, bin, chunk);
}

/* --- joining --- */

static bool lanes_joins(const tn_pool *pool, uint32_t low, uint32_t high) {
    if (low == TN__CHUNK_NONE || high == TN__CHUNK_NONE) return false;
    const tn__chunk *a = &pool->chunks[low], *b = &pool->chunks[high];
    return a->state == b->state && a->lane == b->lane && a->state != TN__CHUNK_USED;
}

uint32_t tn__lanes_give(tn_pool *pool, tn__lanes *all, uint32_t chunk) {
    bool is_lent = pool->chunks[chunk].state == TN__CHUNK_LENT;
    uint32_t after = pool->chunks[chunk].after, before = pool->chunks[chunk].before;
    if (lanes_joins(pool, chunk, after)) {
        if (!is_lent) lanes_drop(pool, all, after);
        tn__chunk_join(pool, chunk);
    }
    if (lanes_joins(pool, before, chunk)) {
        if (!is_lent) lanes_drop(pool, all, before);
        tn__chunk_join(pool, before);
        chunk = before;
    }
    if (!is_lent) lanes_keep(pool, all, chunk);
    return chunk;
}

/* --- taking --- */

/* Cuts the requested block out of a free chunk that is in no bin, and puts the remaining bytes into
 * bins. */
static uint32_t lanes_carve(tn_pool *pool, tn__lanes *all, uint32_t chunk, const tn__want *want) {
    uint64_t offset = 0;
    uint32_t front, rest;
    bool fits = tn__chunk_fits(pool, chunk, want, &offset);
    tn_assert(fits);
    (void)fits;
    uint32_t found = tn__chunk_carve(pool, chunk, offset, want->size, &front, &rest);
    /* marks the block's chunk as used, so that the remaining bytes are not joined with it */
    pool->chunks[found].state = TN__CHUNK_USED;
    if (front != TN__CHUNK_NONE) lanes_keep(pool, all, front);
    if (rest != TN__CHUNK_NONE) tn__lanes_give(pool, all, rest);
    return found;
}

/* The free chunk of the lane at the frontier; NONE if there is no such chunk. */
static uint32_t lanes_frontier(const tn_pool *pool, uint32_t lane) {
    uint32_t at = pool->last;
    if (pool->chunks[at].state == TN__CHUNK_OUTSIDE) at = pool->chunks[at].before;
    if (at == TN__CHUNK_NONE) return at;
    const tn__chunk *chunk = &pool->chunks[at];
    return chunk->state == TN__CHUNK_FREE && chunk->lane == lane ? at : TN__CHUNK_NONE;
}

uint32_t tn__lanes_hole(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want) {
    uint64_t offset;
    uint32_t found = bins_take(pool, &all->lanes[lane - 1]->holes, want, &offset);
    if (found == TN__CHUNK_NONE) {
        found = lanes_frontier(pool, lane);
        if (found != TN__CHUNK_NONE && !tn__chunk_fits(pool, found, want, &offset))
            found = TN__CHUNK_NONE;
    }
    return found == TN__CHUNK_NONE ? found : lanes_carve(pool, all, found, want);
}

/* Moves the first `size` bytes of a chunk that is not reserved, and is in no bin, to the lane of a
 * stream. */
static void lanes_claim(tn_pool *pool, tn__lanes *all, uint32_t chunk, uint64_t size,
                        uint32_t lane) {
    uint32_t rest = TN__CHUNK_NONE;
    if (size < pool->chunks[chunk].size) rest = tn__chunk_split(pool, chunk, size);
    pool->chunks[chunk].state = TN__CHUNK_FREE;
    pool->chunks[chunk].lane = lane;
    pool->reserved += size;
    if (rest != TN__CHUNK_NONE) lanes_keep(pool, all, rest);
}

/* Returns the number of bytes from the start of a chunk to the end of the requested block, if that
 * is aligned within the chunk. */
static uint64_t lanes_reach(const tn_pool *pool, uint32_t chunk, const tn__want *want) {
    uint64_t begin = pool->chunks[chunk].offset;
    return ((begin + want->alignment - 1) & ~(want->alignment - 1)) - begin + want->size;
}

/* Takes a block from the unreserved bytes at the end of the range, together with the lane's free
 * chunk directly below them. */
static uint32_t lanes_beyond(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want) {
    uint32_t last = pool->last, before = pool->chunks[last].before;
    uint32_t own = lanes_frontier(pool, lane);
    if (pool->chunks[last].state != TN__CHUNK_OUTSIDE) return TN__CHUNK_NONE;
    uint64_t reach = lanes_reach(pool, own != TN__CHUNK_NONE ? own : last, want);
    uint64_t there = own != TN__CHUNK_NONE ? pool->chunks[own].size : 0;
    tn_assert(reach > there);
    if (reach - there > pool->chunks[last].size) return TN__CHUNK_NONE;
    lanes_claim(pool, all, last, reach - there, lane);
    if (own != TN__CHUNK_NONE)
        tn__chunk_join(pool, own);
    else if (before != TN__CHUNK_NONE && pool->chunks[before].state == TN__CHUNK_FREE)
        /* the chunk before lies no longer at the frontier (the end of the reserved bytes), so it
         * becomes an ordinary hole of its lane */
        lanes_keep(pool, all, before);
    return lanes_carve(pool, all, own != TN__CHUNK_NONE ? own : last, want);
}

/* Called if no other chunk fits: takes the first free chunk of the lane that can hold a block of a
 * large alignment; NONE if no chunk can. */
static uint32_t lanes_by_chance(tn_pool *pool, tn__lanes *all, uint32_t lane,
                                const tn__want *want) {
    uint64_t offset;
    if (want->alignment == pool->unit) return TN__CHUNK_NONE;
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        const tn__chunk *chunk = &pool->chunks[at];
        if (chunk->state != TN__CHUNK_FREE || chunk->lane != lane ||
            !tn__chunk_fits(pool, at, want, &offset))
            continue;
        lanes_drop(pool, all, at);
        return lanes_carve(pool, all, at, want);
    }
    return TN__CHUNK_NONE;
}

uint32_t tn__lanes_extend(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want) {
    uint64_t offset;
    uint32_t found = bins_take(pool, &all->outside, want, &offset);
    if (found == TN__CHUNK_NONE) {
        found = lanes_beyond(pool, all, lane, want);
        return found != TN__CHUNK_NONE ? found : lanes_by_chance(pool, all, lane, want);
    }
    lanes_claim(pool, all, found, lanes_reach(pool, found, want), lane);
    uint32_t before = pool->chunks[found].before;
    if (lanes_joins(pool, before, found)) {
        lanes_drop(pool, all, before);
        tn__chunk_join(pool, before);
        found = before;
    }
    return lanes_carve(pool, all, found, want);
}

/* --- releasing and lending all free bytes --- */

/* Makes a free chunk unreserved (state OUTSIDE), joins it with unreserved neighbours, and returns
 * the joined chunk. */
static uint32_t lanes_leave(tn_pool *pool, tn__lanes *all, uint32_t at) {
    tn__chunk *chunk = &pool->chunks[at];
    uint32_t before = chunk->before;
    if (before != TN__CHUNK_NONE && pool->chunks[before].state == TN__CHUNK_OUTSIDE)
        /* the unreserved chunk before this one will be joined with it */
        before = pool->chunks[before].before;
    if (lanes_at_frontier(pool, at) && before != TN__CHUNK_NONE &&
        pool->chunks[before].state == TN__CHUNK_FREE)
        /* the chunk before lies at the frontier now, and chunks there are in no bin */
        lanes_drop(pool, all, before);
    lanes_drop(pool, all, at);
    pool->reserved -= chunk->size;
    chunk->state = TN__CHUNK_OUTSIDE;
    chunk->lane = 0;
    tn__pool_release(pool, chunk->offset, chunk->size);
    return tn__lanes_give(pool, all, at);
}

void tn__lanes_trim(tn_pool *pool, tn__lanes *all) {
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after)
        if (pool->chunks[at].state == TN__CHUNK_FREE) at = lanes_leave(pool, all, at);
}

void tn__lanes_release(tn_pool *pool, tn__lanes *all, uint64_t bytes) {
    bytes = tn__add_sat(bytes, pool->unit - 1) & ~(pool->unit - 1);
    for (uint32_t at = pool->last; at != TN__CHUNK_NONE && bytes > 0;
         at = pool->chunks[at].before) {
        if (pool->chunks[at].state != TN__CHUNK_FREE) continue;
        uint64_t size = pool->chunks[at].size;
        if (size > bytes) {
            lanes_drop(pool, all, at);
            uint32_t rest = tn__chunk_split(pool, at, size - bytes);
            lanes_keep(pool, all, at);
            lanes_keep(pool, all, rest);
            at = rest;
            size = bytes;
        }
        bytes -= size;
        at = lanes_leave(pool, all, at);
    }
}

void tn__lanes_lend(tn_pool *pool, tn__lanes *all, uint64_t base, const uint64_t *borders,
                    uint32_t count) {
    uint32_t border = 0;
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        while (border < count && borders[border] <= pool->chunks[at].offset) border++;
        if (border == count) return;
        uint64_t offset = pool->chunks[at].offset;
        if (pool->chunks[at].state != TN__CHUNK_OUTSIDE || offset + pool->chunks[at].size <= base)
            continue;
        lanes_drop(pool, all, at);
        if (offset < base) {
            uint32_t rest = tn__chunk_split(pool, at, base - offset);
            lanes_keep(pool, all, at);
            at = rest;
        }
        uint64_t size = borders[border] - pool->chunks[at].offset;
        if (size < pool->chunks[at].size) lanes_keep(pool, all, tn__chunk_split(pool, at, size));
        pool->chunks[at].state = TN__CHUNK_LENT;
        pool->chunks[at].lane = border + 1;
        pool->reserved += pool->chunks[at].size;
        at = tn__lanes_give(pool, all, at);
    }
}
