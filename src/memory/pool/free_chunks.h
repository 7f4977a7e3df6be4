/* free_chunks.h - finds free chunks by size or by address: ordered sets, and bins of such sets.
 *
 * The functions are inline and take the order as a constant, because most sets contain one or two
 * chunks, and a call would cost more than the search. For techniques with few sets, free_chunks.c
 * has ordinary functions (technique.h).
 */
#ifndef TN_POOL_FREE_CHUNKS_H
#define TN_POOL_FREE_CHUNKS_H

#include "memory/pool/chunks.h"

/* --- sets: treaps with the chunks as their nodes ----------------------------------------------
 *
 * A chunk's priority in the treap is a hash of its number, so the shape depends only on the chunks
 * in the set, not on the order of insertion. The expected depth is O(log n), no balance information
 * is stored, and insertion and removal are one walk down each. Chunks of one set have different
 * offsets, so the order is total. (Branch-free steps are slower: a processor that predicts half of
 * the branches correctly loads data in advance.)
 *
 * Source: Seidel, Aragon: Randomized search trees, 1996.
 */

/* BY_SIZE: within one lane, by size, then by offset */
typedef enum set_order { SET_BY_LANE, SET_BY_SIZE, SET_BY_OFFSET } set_order;

/* The treap priority of a chunk: a bijection (the finaliser of MurmurHash3), so that no two chunks
 * have equal priorities. */
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
    /* splits the subtree that was at this link between the two children of the added chunk: earlier
     * chunks to the left, later ones to the right */
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

/* Removes the chunk at `link` from the tree. */
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

/* Returns the link to the first chunk of at least `size` bytes, in order BY_SIZE; NULL if there is
 * no such chunk. */
static inline uint32_t *set_at_least(tn__chunk *chunks, uint32_t *link, uint64_t size) {
    uint32_t *best = NULL;
    while (*link != TN__CHUNK_NONE) {
        bool enough = chunks[*link].size >= size;
        if (enough) best = link;
        link = &chunks[*link].child[!enough];
    }
    return best;
}

/* Returns the link to the first chunk of a set that is not empty. */
static inline uint32_t *set_first(tn__chunk *chunks, uint32_t *link) {
    while (chunks[*link].child[0] != TN__CHUNK_NONE) link = &chunks[*link].child[0];
    return link;
}

/* --- bins: free chunks of nearly equal sizes, each bin with an exact order -----------------------
 *
 * There are 64 bins per power of two, so even with a thousand holes there are seldom more than one
 * or two per bin. Cutting leaves many small chunks: a bin below 64 units contains chunks of a
 * single size, and is divided further, by offset, into 64 regions of the range. Within a bin or
 * region, a set orders the chunks (large chunks by size, then offset; small ones by offset); most
 * sets contain one chunk. Bits mark the bins, and the regions of a small bin, that are not empty.
 *
 * A request takes the smallest sufficient chunk of its own bin, else the smallest chunk of the next
 * bin that is not empty. That is exactly the smallest sufficient chunk, and the lowest of equal
 * ones, for any number of bins and regions. Regions double when the range in use outgrows them, at
 * most once per power of two.
 *
 * Cost: O(1) while bins contain few chunks, O(log n) at worst; 31 KiB.
 * Source: two levels of bits as in Masmano et al., TLSF, 2004, with the order kept exact.
 */

enum {
    BINS_PER_OCTAVE_LOG = 6,
    /* below this number of units, a bin contains chunks of one size */
    BINS_SMALL = 1 << BINS_PER_OCTAVE_LOG,
    BINS_COUNT = 58 << BINS_PER_OCTAVE_LOG,
    BINS_REGIONS = 64
};

typedef struct bins {
    uint32_t unit_log;
    /* log2 of the bytes of a region: a small chunk is in region offset >> region_log, and the last
     * region contains all chunks above */
    uint32_t region_log;
    uint64_t top;                    /* bit w is set if word w of `words` is not 0 */
    uint64_t words[BINS_COUNT / 64]; /* bit b is set if bin b is not empty */
    uint64_t regions[BINS_SMALL];    /* bit r is set if region r of the bin is not empty */
    uint32_t small[BINS_SMALL][BINS_REGIONS];
    uint32_t large[BINS_COUNT - BINS_SMALL];
} bins;

/* the bin and the region of a chunk */
typedef struct bins_place {
    uint32_t bin, region; /* bin of the chunk; region within the bin, used only for small chunks */
    uint32_t *root;
} bins_place;

static inline uint32_t bins_of(const bins *all, uint64_t size) {
    uint64_t units = size >> all->unit_log;
    if (units < BINS_SMALL) return (uint32_t)units;
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(units) - BINS_PER_OCTAVE_LOG;
    return (shift << BINS_PER_OCTAVE_LOG) + (uint32_t)(units >> shift);
}

static inline bins_place bins_place_of(bins *all, const tn__chunk *chunk) {
    bins_place place = {.bin = bins_of(all, chunk->size)};
    if (place.bin < BINS_SMALL) {
        uint64_t region = chunk->offset >> all->region_log;
        place.region = region < BINS_REGIONS ? (uint32_t)region : BINS_REGIONS - 1;
        place.root = &all->small[place.bin][place.region];
    } else {
        place.root = &all->large[place.bin - BINS_SMALL];
    }
    return place;
}

static inline void bins_open(const tn_pool *pool, bins *all) {
    *all = (bins){.unit_log = (uint32_t)__builtin_ctzll(pool->unit)};
    all->region_log = all->unit_log + BINS_PER_OCTAVE_LOG;
    /* sets all heads of sets to TN__CHUNK_NONE, so that all bins are empty */
    memset(all->small, 0xff, sizeof all->small);
    memset(all->large, 0xff, sizeof all->large);
    tn_assert(bins_of(all, TN_POOL_CAPACITY_MAX) < BINS_COUNT);
}

static inline void bins_insert(tn_pool *pool, bins *all, uint32_t chunk) {
    bins_place place = bins_place_of(all, &pool->chunks[chunk]);
    if (place.bin < BINS_SMALL) {
        set_add(pool->chunks, place.root, chunk, SET_BY_OFFSET);
        all->regions[place.bin] |= 1ull << place.region;
    } else {
        set_add(pool->chunks, place.root, chunk, SET_BY_SIZE);
    }
    all->words[place.bin / 64] |= 1ull << place.bin % 64;
    all->top |= 1ull << place.bin / 64;
}

/* Doubles the regions until `offset` is below the end of the last one. */
void tn__bins_widen(tn_pool *pool, bins *all, uint64_t offset);

static inline void bins_add(tn_pool *pool, bins *all, uint32_t chunk) {
    uint64_t offset = pool->chunks[chunk].offset;
    tn_assert(pool->chunks[chunk].state != TN__CHUNK_USED);
    if (offset >> all->region_log >= BINS_REGIONS) tn__bins_widen(pool, all, offset);
    bins_insert(pool, all, chunk);
}

/* Updates the bits that mark non-empty bins and regions after a chunk was removed from its bin. */
static inline void bins_note(bins *all, const bins_place *place) {
    if (*place->root != TN__CHUNK_NONE) return;
    if (place->bin < BINS_SMALL) {
        all->regions[place->bin] &= ~(1ull << place->region);
        if (all->regions[place->bin] != 0) return;
    }
    all->words[place->bin / 64] &= ~(1ull << place->bin % 64);
    if (all->words[place->bin / 64] == 0) all->top &= ~(1ull << place->bin / 64);
}

/* Removes a chunk, which must be in a bin. */
static inline void bins_remove(tn_pool *pool, bins *all, uint32_t chunk) {
    bins_place place = bins_place_of(all, &pool->chunks[chunk]);
    if (place.bin < BINS_SMALL)
        set_remove(pool->chunks, place.root, chunk, SET_BY_OFFSET);
    else
        set_remove(pool->chunks, place.root, chunk, SET_BY_SIZE);
    bins_note(all, &place);
}

/* The first bin after `bin` that is not empty; BINS_COUNT if all are empty. */
static inline uint32_t bins_next(const bins *all, uint32_t bin) {
    uint64_t here = all->words[bin / 64] & ~1ull << bin % 64;
    if (here != 0) return bin / 64 * 64 + (uint32_t)__builtin_ctzll(here);
    uint64_t above = all->top & ~1ull << bin / 64;
    if (above == 0) return BINS_COUNT;
    uint32_t word = (uint32_t)__builtin_ctzll(above);
    return word * 64 + (uint32_t)__builtin_ctzll(all->words[word]);
}

/* Returns the link to the smallest chunk of a bin; the bin must not be empty. */
static inline uint32_t *bins_first(tn_pool *pool, bins *all, bins_place *place) {
    if (place->bin < BINS_SMALL) {
        place->region = (uint32_t)__builtin_ctzll(all->regions[place->bin]);
        place->root = &all->small[place->bin][place->region];
    } else {
        place->root = &all->large[place->bin - BINS_SMALL];
    }
    return set_first(pool->chunks, place->root);
}

/* Returns the link to the smallest chunk of at least `size` bytes, the lowest of equal ones; NULL
 * if there is no such chunk. */
static inline uint32_t *bins_seek(tn_pool *pool, bins *all, uint64_t size, bins_place *place) {
    uint32_t own = place->bin = bins_of(all, size);
    if (own < BINS_SMALL) {
        if (all->regions[own] != 0) return bins_first(pool, all, place);
    } else {
        place->root = &all->large[own - BINS_SMALL];
        uint32_t *found = set_at_least(pool->chunks, place->root, size);
        if (found != NULL) return found;
    }
    place->bin = bins_next(all, own);
    return place->bin == BINS_COUNT ? NULL : bins_first(pool, all, place);
}

/* Removes and returns the smallest chunk of at least `want->size` bytes. If the block does not fit
 * into it at the requested alignment, takes the smallest chunk in which it fits at any offset; NONE
 * if there is no such chunk. */
static inline uint32_t bins_take(tn_pool *pool, bins *all, const tn__want *want, uint64_t *offset) {
    bins_place place = {0};
    uint32_t *link = bins_seek(pool, all, want->size, &place);
    *offset = 0;
    if (link != NULL && !tn__chunk_fits(pool, *link, want, offset)) {
        link = bins_seek(pool, all, want->size + want->alignment - pool->unit, &place);
        if (link != NULL && !tn__chunk_fits(pool, *link, want, offset)) link = NULL;
    }
    if (link == NULL) return TN__CHUNK_NONE;
    uint32_t found = *link;
    set_unlink(pool->chunks, link);
    bins_note(all, &place);
    return found;
}

#endif
