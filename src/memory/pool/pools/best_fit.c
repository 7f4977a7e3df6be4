/* best_fit.c - takes the smallest sufficient free block, the lowest of equal ones; free neighbours
 * are joined.
 *
 * Free blocks are kept in bins (free_chunks.h), which give the exact best fit. The bytes above the
 * last block in use are taken only when no hole is large enough. So offsets do not depend on the
 * capacity, and a capacity of `reserved`, the bytes below that end, would have been enough so far.
 *
 * Use it when nothing is known about the requests. It is weak if long and short lifetimes are mixed
 * (use two-ended), and if the same sizes recur in another order each time.
 *
 * Cost: O(log n) time, O(n) to refuse a request of a large alignment; no memory of its own.
 * Source: Knuth, The Art of Computer Programming 1, 2.5.
 */
#include "memory/pool/free_chunks.h"

typedef struct best_fit_state {
    bins holes;
} best_fit_state;

static void best_fit_keep(tn_pool *pool, uint32_t chunk) {
    best_fit_state *state = pool->state;
    if (chunk != pool->last) bins_add(pool, &state->holes, chunk);
}

static void best_fit_drop(tn_pool *pool, uint32_t chunk) {
    best_fit_state *state = pool->state;
    if (chunk != pool->last) bins_remove(pool, &state->holes, chunk);
}

/* Takes a chunk if no hole is large enough: from the bytes above all blocks, else the first chunk
 * that can hold a block of a large alignment. The chunk is removed from the bins. */
static uint32_t best_fit_last(tn_pool *pool, const tn__want *want, uint64_t *offset) {
    uint32_t found = pool->last;
    bool is_free = pool->chunks[found].state == TN__CHUNK_FREE;
    if (is_free && tn__chunk_fits(pool, found, want, offset)) return found;
    if (want->alignment == pool->unit) return TN__CHUNK_NONE;
    for (found = 0; found != TN__CHUNK_NONE; found = pool->chunks[found].after) {
        is_free = pool->chunks[found].state == TN__CHUNK_FREE;
        if (is_free && tn__chunk_fits(pool, found, want, offset)) break;
    }
    if (found != TN__CHUNK_NONE) best_fit_drop(pool, found);
    return found;
}

static void best_fit_count(tn_pool *pool) {
    const tn__chunk *last = &pool->chunks[pool->last];
    pool->reserved = last->state == TN__CHUNK_FREE ? last->offset : pool->capacity;
}

static tn_status best_fit_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    (void)options, (void)error;
    best_fit_state *state = pool->state;
    bins_open(pool, &state->holes);
    pool->chunks[0].state = TN__CHUNK_FREE;
    return TN_OK;
}

static tn_status best_fit_take(tn_pool *pool, const tn__want *want, uint32_t *chunk,
                               tn_error *error) {
    (void)error;
    uint64_t offset = 0;
    best_fit_state *state = pool->state;
    uint32_t front, rest, found = bins_take(pool, &state->holes, want, &offset);
    if (found == TN__CHUNK_NONE) found = best_fit_last(pool, want, &offset);
    if (found == TN__CHUNK_NONE) return TN_E_EXHAUSTED;
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
    .summary = "the smallest free block that fits; free neighbours merge",
    .source = "Knuth, TAOCP 1, 2.5; bins as in TLSF (2004)",
    .unit = 1,
    .state_size = sizeof(best_fit_state),
    .open = best_fit_open,
    .take = best_fit_take,
    .give = best_fit_give,
};
