/* set.h - an ordered set of free chunks: a treap whose nodes are the chunks themselves.
 *
 * A chunk's rank in the heap is a hash of its number, so the shape depends only on the chunks in
 * the set, not on the order of insertion. The expected depth is O(log n), no balance is stored, and
 * insertion and removal are one walk down each. Chunks of one set have different offsets, so the
 * order is total.
 *
 * These are inline functions with the order as a constant, because most sets hold one or two chunks
 * and a call costs more than the walk; set.c has ordinary functions. (Branch-free steps were tried
 * and are slower: a processor that predicts half of the branches loads ahead.)
 * Source: Seidel, Aragon: Randomized search trees, 1996.
 */
#ifndef TN_POOL_SET_H
#define TN_POOL_SET_H

#include "memory/pool/chunks.h"

/* BY_SIZE: within one lane, by size, then offset. */
typedef enum set_order { SET_BY_LANE, SET_BY_SIZE, SET_BY_OFFSET } set_order;

/* A bijection (the finaliser of MurmurHash3), so that two chunks never have the same rank. */
static inline uint32_t set_rank(uint32_t chunk) {
    chunk ^= chunk >> 16;
    chunk *= 0x85ebca6bu;
    chunk ^= chunk >> 13;
    chunk *= 0xc2b2ae35u;
    return chunk ^ chunk >> 16;
}

static inline bool set_before(set_order order, const tn__chunk *a, const tn__chunk *b) {
    if (order == SET_BY_OFFSET) return a->offset < b->offset;
    if (order == SET_BY_LANE && a->lane != b->lane) return a->lane < b->lane;
    if (a->size != b->size) return a->size < b->size;
    return a->offset < b->offset;
}

static inline void set_add(tn__chunk *chunks, uint32_t *link, uint32_t chunk, set_order order) {
    tn__chunk *added = &chunks[chunk];
    uint32_t at = *link;
    if (at != TN__CHUNK_NONE) {
        uint32_t rank = set_rank(chunk);
        while (at != TN__CHUNK_NONE && set_rank(at) > rank) {
            tn__chunk *node = &chunks[at];
            link = set_before(order, node, added) ? &node->child[1] : &node->child[0];
            at = *link;
        }
    }
    *link = chunk;
    /* the former subtree goes below: earlier chunks to the left, later ones to the right */
    uint32_t *ends[2] = {&added->child[0], &added->child[1]};
    while (at != TN__CHUNK_NONE) {
        if (set_before(order, &chunks[at], added)) {
            *ends[0] = at;
            ends[0] = &chunks[at].child[1];
            at = *ends[0];
        } else {
            *ends[1] = at;
            ends[1] = &chunks[at].child[0];
            at = *ends[1];
        }
    }
    *ends[0] = *ends[1] = TN__CHUNK_NONE;
}

/* Takes the chunk at `link` out of the tree. */
static inline void set_unlink(tn__chunk *chunks, uint32_t *link) {
    uint32_t left = chunks[*link].child[0], right = chunks[*link].child[1];
    while (left != TN__CHUNK_NONE && right != TN__CHUNK_NONE) {
        if (set_rank(left) > set_rank(right)) {
            *link = left;
            link = &chunks[left].child[1];
            left = *link;
        } else {
            *link = right;
            link = &chunks[right].child[0];
            right = *link;
        }
    }
    *link = left != TN__CHUNK_NONE ? left : right;
}

static inline void set_remove(tn__chunk *chunks, uint32_t *link, uint32_t chunk, set_order order) {
    const tn__chunk *removed = &chunks[chunk];
    while (*link != chunk) {
        tn_assert(*link != TN__CHUNK_NONE);
        tn__chunk *node = &chunks[*link];
        link = set_before(order, node, removed) ? &node->child[1] : &node->child[0];
    }
    set_unlink(chunks, link);
}

/* The link to the first chunk of at least `size` bytes, order BY_SIZE; NULL: no such chunk. */
static inline uint32_t *set_at_least(tn__chunk *chunks, uint32_t *link, uint64_t size) {
    uint32_t *best = NULL;
    while (*link != TN__CHUNK_NONE) {
        bool enough = chunks[*link].size >= size;
        if (enough) best = link;
        link = &chunks[*link].child[!enough];
    }
    return best;
}

/* The link to the first chunk of a set that is not empty. */
static inline uint32_t *set_first(tn__chunk *chunks, uint32_t *link) {
    while (chunks[*link].child[0] != TN__CHUNK_NONE) link = &chunks[*link].child[0];
    return link;
}

#endif
