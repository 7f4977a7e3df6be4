/* bfc.c - TensorFlow's allocator: best fit with coalescing, in bins, over regions that grow.
 *
 * Bin b contains the free chunks of [256 << b, 512 << b) bytes, ordered by size and offset; a
 * request searches upwards from its own bin. A chunk is cut only if it is at least twice the
 * request, or at least 128 MiB too large; else all of it is handed out. If nothing fits, a new
 * region is taken from the range: 2 MiB at first, twice as much each time, or more if the request
 * needs it. Regions are never released, and chunks of two regions are never joined. `reserved` is
 * the sum of the regions.
 *
 * Use it to see how TensorFlow would behave; best-fit wastes less.
 *
 * Cost: O(log n) time, no memory of its own.
 * Source: tensorflow/core/common_runtime/bfc_allocator, with allow_growth; blocks are multiples of
 * 256 bytes there, too.
 */
#include "memory/pool/free_chunks.h"

#define BFC_UNIT 256u
#define BFC_REGION_FIRST (2ull << 20)
#define BFC_WASTE_MAX (128ull << 20)

typedef struct bfc_state {
    bins chunks;
    uint64_t region; /* size in bytes of the region that is taken next from the range */
} bfc_state;

static bins *bfc_bins(tn_pool *pool) {
    bfc_state *state = pool->state;
    return &state->chunks;
}

static tn_status bfc_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    (void)options, (void)error;
    bfc_state *state = pool->state;
    bins_open(pool, &state->chunks);
    state->region = BFC_REGION_FIRST;
    return TN_OK;
}

/* Takes a new region of at least `size` bytes as one free chunk, in no bin; NONE if the range is
 * used up. */
static uint32_t bfc_extend(tn_pool *pool, uint64_t size) {
    bfc_state *state = pool->state;
    uint32_t outside = pool->last;
    if (pool->chunks[outside].state != TN__CHUNK_OUTSIDE || pool->chunks[outside].size < size)
        return TN__CHUNK_NONE;
    bool grown = false;
    while (state->region < size) {
        state->region *= 2; /* the product cannot overflow, because size <= TN_POOL_CAPACITY_MAX */
        grown = true;
    }
    uint64_t available = pool->chunks[outside].size;
    uint64_t bytes = state->region < available ? state->region : available;
    if (bytes < available) tn__chunk_split(pool, outside, bytes);
    if (!grown && state->region < TN_POOL_CAPACITY_MAX) state->region *= 2;
    pool->chunks[outside].state = TN__CHUNK_FREE;
    pool->chunks[outside].is_segment = true;
    pool->reserved += bytes;
    return outside;
}

/* Takes a chunk. TensorFlow has no alignments above the unit; here the bytes before an aligned
 * block stay a free chunk. */
static tn_status bfc_take(tn_pool *pool, const tn__want *want, uint32_t *chunk, tn_error *error) {
    (void)error;
    uint64_t offset, padded = want->size + want->alignment - pool->unit;
    uint32_t front, rest, found = bins_take(pool, bfc_bins(pool), want, &offset);
    if (found == TN__CHUNK_NONE) {
        found = bfc_extend(pool, padded);
        if (found == TN__CHUNK_NONE) return TN_E_EXHAUSTED;
        bool fits = tn__chunk_fits(pool, found, want, &offset);
        tn_assert(fits);
        (void)fits;
    }
    uint64_t room = pool->chunks[found].size - (offset - pool->chunks[found].offset);
    bool cut = room >= 2 * want->size || room - want->size >= BFC_WASTE_MAX;
    *chunk = tn__chunk_carve(pool, found, offset, cut ? want->size : room, &front, &rest);
    if (front != TN__CHUNK_NONE) bins_add(pool, bfc_bins(pool), front);
    if (rest != TN__CHUNK_NONE) bins_add(pool, bfc_bins(pool), rest);
    return TN_OK;
}

static void bfc_give(tn_pool *pool, uint32_t chunk) {
    pool->chunks[chunk].lane = 0;
    if (tn__chunk_joins_after(pool, chunk)) {
        uint32_t after = pool->chunks[chunk].after;
        bins_remove(pool, bfc_bins(pool), after);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_before(pool, chunk)) {
        chunk = pool->chunks[chunk].before;
        bins_remove(pool, bfc_bins(pool), chunk);
        tn__chunk_join(pool, chunk);
    }
    bins_add(pool, bfc_bins(pool), chunk);
}

const tn__technique tn__pool_bfc = {
    .name = "bfc",
    .summary = "best fit with coalescing, in bins and growing regions, as in TensorFlow",
    .source = "TensorFlow, bfc_allocator",
    .unit = BFC_UNIT,
    .state_size = sizeof(bfc_state),
    .open = bfc_open,
    .take = bfc_take,
    .give = bfc_give,
};
