/* free_chunks.c - the ordered sets of free_chunks.h as ordinary functions, and the function that
 * widens the regions of bins. */
#include "memory/pool/free_chunks.h"

void tn__chunk_set_add(tn_pool *pool, tn__chunk_set *set, uint32_t chunk) {
    tn_assert(pool->chunks[chunk].state == TN__CHUNK_FREE ||
              pool->chunks[chunk].state == TN__CHUNK_OUTSIDE);
    if (set->by_offset)
        set_add(pool->chunks, &set->root, chunk, SET_BY_OFFSET);
    else
        set_add(pool->chunks, &set->root, chunk, SET_BY_LANE);
}

void tn__chunk_set_remove(tn_pool *pool, tn__chunk_set *set, uint32_t chunk) {
    if (set->by_offset)
        set_remove(pool->chunks, &set->root, chunk, SET_BY_OFFSET);
    else
        set_remove(pool->chunks, &set->root, chunk, SET_BY_LANE);
}

uint32_t tn__chunk_set_at_least(const tn_pool *pool, const tn__chunk_set *set, uint32_t lane,
                                uint64_t size) {
    uint32_t best = TN__CHUNK_NONE;
    tn_assert(!set->by_offset);
    for (uint32_t at = set->root; at != TN__CHUNK_NONE;) {
        const tn__chunk *chunk = &pool->chunks[at];
        bool enough = chunk->lane != lane ? chunk->lane > lane : chunk->size >= size;
        if (enough) best = at;
        at = chunk->child[!enough];
    }
    return best == TN__CHUNK_NONE || pool->chunks[best].lane != lane ? TN__CHUNK_NONE : best;
}

uint32_t tn__chunk_set_after(const tn_pool *pool, const tn__chunk_set *set, uint32_t chunk) {
    const tn__chunk *from = &pool->chunks[chunk];
    uint32_t best = TN__CHUNK_NONE;
    for (uint32_t at = set->root; at != TN__CHUNK_NONE;) {
        bool later = set_before(SET_BY_LANE, from, &pool->chunks[at]);
        if (later) best = at;
        at = pool->chunks[at].child[!later];
    }
    return best == TN__CHUNK_NONE || pool->chunks[best].lane != from->lane ? TN__CHUNK_NONE : best;
}

uint32_t tn__chunk_set_before(const tn_pool *pool, const tn__chunk_set *set, uint32_t chunk) {
    const tn__chunk *from = &pool->chunks[chunk];
    uint32_t best = TN__CHUNK_NONE;
    for (uint32_t at = set->root; at != TN__CHUNK_NONE;) {
        bool earlier = set_before(SET_BY_LANE, &pool->chunks[at], from);
        if (earlier) best = at;
        at = pool->chunks[at].child[earlier];
    }
    return best == TN__CHUNK_NONE || pool->chunks[best].lane != from->lane ? TN__CHUNK_NONE : best;
}

uint32_t tn__chunk_set_last(const tn_pool *pool, const tn__chunk_set *set, uint32_t lane) {
    uint32_t best = TN__CHUNK_NONE;
    for (uint32_t at = set->root; at != TN__CHUNK_NONE;) {
        bool fits = pool->chunks[at].lane <= lane;
        if (fits) best = at;
        at = pool->chunks[at].child[fits];
    }
    return best == TN__CHUNK_NONE || pool->chunks[best].lane != lane ? TN__CHUNK_NONE : best;
}

uint32_t tn__chunk_set_up_to(const tn_pool *pool, const tn__chunk_set *set, uint64_t offset) {
    uint32_t best = TN__CHUNK_NONE;
    tn_assert(set->by_offset);
    for (uint32_t at = set->root; at != TN__CHUNK_NONE;) {
        const tn__chunk *chunk = &pool->chunks[at];
        bool fits = chunk->offset <= offset;
        if (fits) best = at;
        at = chunk->child[fits];
    }
    return best;
}

/* --- bins --- */

void tn__bins_widen(tn_pool *pool, bins *all, uint64_t offset) {
    /* collects the chunks of all small bins in a list, linked by their first child, to insert them
     * again */
    uint32_t list = TN__CHUNK_NONE;
    for (uint32_t bin = 0; bin < BINS_SMALL; bin++) {
        for (uint32_t region = 0; region < BINS_REGIONS; region++) {
            uint32_t *root = &all->small[bin][region], chunk;
            while ((chunk = *root) != TN__CHUNK_NONE) {
                set_unlink(pool->chunks, root);
                pool->chunks[chunk].child[0] = list;
                list = chunk;
            }
        }
        all->regions[bin] = 0;
    }
    while (offset >> all->region_log >= BINS_REGIONS) all->region_log++;
    while (list != TN__CHUNK_NONE) {
        uint32_t chunk = list;
        list = pool->chunks[chunk].child[0];
        bins_insert(pool, all, chunk);
    }
}
