/* set.c - an ordered set of free chunks: a treap whose nodes are the chunks themselves.
 *
 * A chunk's rank in the heap is a hash of its number, so the shape depends on which chunks are in
 * the set and not on the order of adding: depth O(log n) expected, no balance to store, and adding
 * and removing are one walk down each. Chunks of one set have offsets that differ, so the order is
 * total. Source: Seidel, Aragon: Randomized search trees, 1996.
 */
#include "pool/technique.h"

/* A bijection (the finaliser of MurmurHash3), so that no two chunks have one rank. */
static inline uint32_t set_rank(uint32_t chunk) {
    chunk ^= chunk >> 16;
    chunk *= 0x85ebca6bu;
    chunk ^= chunk >> 13;
    chunk *= 0xc2b2ae35u;
    return chunk ^ chunk >> 16;
}

static inline bool set_before(const tn__set *set, const tn__chunk *a, const tn__chunk *b) {
    if (!set->by_offset) {
        if (a->lane != b->lane) return a->lane < b->lane;
        if (a->size != b->size) return a->size < b->size;
    }
    return a->offset < b->offset;
}

void tn__set_add(tn_pool *pool, tn__set *set, uint32_t chunk) {
    tn__chunk *chunks = pool->chunks, *added = &chunks[chunk];
    uint32_t *link = &set->root, rank = set_rank(chunk);
    tn_assert(added->state == TN__CHUNK_FREE || added->state == TN__CHUNK_OUTSIDE);
    while (*link != TN__CHUNK_NONE && set_rank(*link) > rank) {
        tn__chunk *at = &chunks[*link];
        link = set_before(set, at, added) ? &at->right : &at->left;
    }
    /* what hung here goes below: the lower part to the left, the upper to the right */
    uint32_t at = *link, *left = &added->left, *right = &added->right;
    *link = chunk;
    while (at != TN__CHUNK_NONE) {
        if (set_before(set, &chunks[at], added)) {
            *left = at;
            left = &chunks[at].right;
            at = *left;
        } else {
            *right = at;
            right = &chunks[at].left;
            at = *right;
        }
    }
    *left = *right = TN__CHUNK_NONE;
}

void tn__set_remove(tn_pool *pool, tn__set *set, uint32_t chunk) {
    tn__chunk *chunks = pool->chunks, *removed = &chunks[chunk];
    uint32_t *link = &set->root;
    while (*link != chunk) {
        tn_assert(*link != TN__CHUNK_NONE);
        tn__chunk *at = &chunks[*link];
        link = set_before(set, at, removed) ? &at->right : &at->left;
    }
    uint32_t left = removed->left, right = removed->right;
    while (left != TN__CHUNK_NONE && right != TN__CHUNK_NONE) {
        if (set_rank(left) > set_rank(right)) {
            *link = left;
            link = &chunks[left].right;
            left = *link;
        } else {
            *link = right;
            link = &chunks[right].left;
            right = *link;
        }
    }
    *link = left != TN__CHUNK_NONE ? left : right;
}

uint32_t tn__set_at_least(const tn_pool *pool, const tn__set *set, uint32_t lane, uint64_t size) {
    uint32_t best = TN__CHUNK_NONE;
    tn_assert(!set->by_offset);
    for (uint32_t at = set->root; at != TN__CHUNK_NONE;) {
        const tn__chunk *chunk = &pool->chunks[at];
        bool enough = chunk->lane != lane ? chunk->lane > lane : chunk->size >= size;
        if (enough) best = at;
        at = enough ? chunk->left : chunk->right;
    }
    return best == TN__CHUNK_NONE || pool->chunks[best].lane != lane ? TN__CHUNK_NONE : best;
}

uint32_t tn__set_up_to(const tn_pool *pool, const tn__set *set, uint64_t offset) {
    uint32_t best = TN__CHUNK_NONE;
    tn_assert(set->by_offset);
    for (uint32_t at = set->root; at != TN__CHUNK_NONE;) {
        const tn__chunk *chunk = &pool->chunks[at];
        bool fits = chunk->offset <= offset;
        if (fits) best = at;
        at = fits ? chunk->right : chunk->left;
    }
    return best;
}
