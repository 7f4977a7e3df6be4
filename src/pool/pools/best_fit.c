/* best_fit.c - the smallest free block that is large enough, the lowest of equals; neighbours join.
 *
 * Free blocks lie in bins, sixteen to a power of two, each bin an ordered set: a request looks into
 * its own bin for the least that is enough, else takes the least of the next bin that is not
 * empty. That is exactly the best fit. What lies above the last block in use is no block of any
 * size and comes last, when no hole is enough: so where things go does not depend on the capacity,
 * and reserved, which is what lies below it, has been enough so far.
 *
 * Use it when nothing is known. Weak where long and short lives come mixed (two-ended) and when the
 * same sizes come again in another order each time.
 * Cost:   O(log n) time, O(n) to refuse a request of a large alignment; no memory of its own.
 * Source: Knuth, The Art of Computer Programming 1, 2.5; bins as in Masmano et al., TLSF, 2004.
 */
#include "pool/technique.h"

enum { BINS_PER_OCTAVE_LOG = 4, BIN_COUNT = 1024, WORD_COUNT = BIN_COUNT / 64 };

typedef struct best_fit_state {
    uint32_t unit_log;
    uint32_t words;            /* bit w: word w of `bins` is not 0 */
    uint64_t bins[WORD_COUNT]; /* bit b: set b is not empty */
    tn__set sets[BIN_COUNT];
} best_fit_state;

static uint32_t best_fit_bin(const best_fit_state *state, uint64_t size) {
    uint64_t units = size >> state->unit_log;
    if (units < 1u << BINS_PER_OCTAVE_LOG) return (uint32_t)units;
    uint32_t log = 63u - (uint32_t)__builtin_clzll(units), shift = log - BINS_PER_OCTAVE_LOG;
    return (shift << BINS_PER_OCTAVE_LOG) + (uint32_t)(units >> shift);
}

static void best_fit_keep(tn_pool *pool, uint32_t chunk) {
    best_fit_state *state = pool->state;
    if (chunk == pool->last) return;
    uint32_t bin = best_fit_bin(state, pool->chunks[chunk].size);
    tn_assert(bin < BIN_COUNT);
    tn__set_add(pool, &state->sets[bin], chunk);
    state->bins[bin / 64] |= 1ull << bin % 64;
    state->words |= 1u << bin / 64;
}

static void best_fit_drop(tn_pool *pool, uint32_t chunk) {
    best_fit_state *state = pool->state;
    if (chunk == pool->last) return;
    uint32_t bin = best_fit_bin(state, pool->chunks[chunk].size);
    tn__set_remove(pool, &state->sets[bin], chunk);
    if (state->sets[bin].root != TN__CHUNK_NONE) return;
    state->bins[bin / 64] &= ~(1ull << bin % 64);
    if (state->bins[bin / 64] == 0) state->words &= ~(1u << bin / 64);
}

/* The first bin from `bin` on that is not empty, or BIN_COUNT. */
static uint32_t best_fit_next(const best_fit_state *state, uint32_t bin) {
    if (bin >= BIN_COUNT) return BIN_COUNT;
    uint64_t here = state->bins[bin / 64] >> bin % 64;
    if (here != 0) return bin + (uint32_t)__builtin_ctzll(here);
    uint32_t words = state->words & (uint32_t)(~1ull << bin / 64);
    if (words == 0) return BIN_COUNT;
    uint32_t word = (uint32_t)__builtin_ctz(words);
    return word * 64 + (uint32_t)__builtin_ctzll(state->bins[word]);
}

static uint32_t best_fit_hole(const tn_pool *pool, uint64_t size) {
    const best_fit_state *state = pool->state;
    uint32_t bin = best_fit_bin(state, size);
    uint32_t found = tn__set_at_least(pool, &state->sets[bin], 0, size);
    if (found != TN__CHUNK_NONE) return found;
    bin = best_fit_next(state, bin + 1);
    return bin == BIN_COUNT ? TN__CHUNK_NONE : tn__set_at_least(pool, &state->sets[bin], 0, 0);
}

/* A large alignment may be kept by a hole of the very size, surely by one with room to spare;
 * before giving up, all are tried. */
static uint32_t best_fit_find(const tn_pool *pool, const tn__want *want, uint64_t *offset) {
    uint64_t padded = want->size + want->alignment - pool->unit;
    uint32_t found = best_fit_hole(pool, want->size);
    if (found != TN__CHUNK_NONE && tn__chunk_fits(pool, found, want, offset)) return found;
    if (padded > want->size) found = best_fit_hole(pool, padded);
    if (found == TN__CHUNK_NONE) found = pool->last;
    bool is_free = pool->chunks[found].state == TN__CHUNK_FREE;
    if (is_free && tn__chunk_fits(pool, found, want, offset)) return found;
    if (padded == want->size) return TN__CHUNK_NONE;
    for (found = 0; found != TN__CHUNK_NONE; found = pool->chunks[found].after) {
        is_free = pool->chunks[found].state == TN__CHUNK_FREE;
        if (is_free && tn__chunk_fits(pool, found, want, offset)) break;
    }
    return found;
}

static void best_fit_count(tn_pool *pool) {
    const tn__chunk *last = &pool->chunks[pool->last];
    pool->reserved = last->state == TN__CHUNK_FREE ? last->offset : pool->capacity;
}

static tn_status best_fit_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    (void)options, (void)error;
    best_fit_state *state = pool->state;
    state->unit_log = (uint32_t)__builtin_ctzll(pool->unit);
    for (uint32_t bin = 0; bin < BIN_COUNT; bin++) state->sets[bin].root = TN__CHUNK_NONE;
    pool->chunks[0].state = TN__CHUNK_FREE;
    return TN_OK;
}

static tn_status best_fit_take(tn_pool *pool, const tn__want *want, uint32_t *chunk,
                               tn_error *error) {
    (void)error;
    uint64_t offset = 0;
    uint32_t front, rest, found = best_fit_find(pool, want, &offset);
    if (found == TN__CHUNK_NONE) return TN_E_EXHAUSTED;
    best_fit_drop(pool, found);
    *chunk = tn__chunk_carve(pool, found, offset, want->size, &front, &rest);
    if (front != TN__CHUNK_NONE) best_fit_keep(pool, front);
    if (rest != TN__CHUNK_NONE) best_fit_keep(pool, rest);
    if (*chunk == pool->last)
        pool->reserved = pool->capacity;
    else
        best_fit_count(pool);
    return TN_OK;
}

static void best_fit_give(tn_pool *pool, uint32_t chunk) {
    pool->chunks[chunk].lane = 0;
    if (tn__chunk_joins_after(pool, chunk)) {
        best_fit_drop(pool, pool->chunks[chunk].after);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_before(pool, chunk)) {
        chunk = pool->chunks[chunk].before;
        best_fit_drop(pool, chunk);
        tn__chunk_join(pool, chunk);
    }
    best_fit_keep(pool, chunk);
    best_fit_count(pool);
}

const tn__technique tn__pool_best_fit = {
    .name = "best-fit",
    .summary = "the smallest free block that is enough; free neighbours join",
    .source = "Knuth, TAOCP 1, 2.5; bins as in TLSF (2004)",
    .unit = 1,
    .state_size = sizeof(best_fit_state),
    .open = best_fit_open,
    .take = best_fit_take,
    .give = best_fit_give,
};
