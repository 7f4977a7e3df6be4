/* buddy.c - the buddy allocator: blocks are powers of two, cut into halves that join again.
 *
 * A block of 2^k bytes lies at a multiple of 2^k; its buddy is the other half of the block of
 * 2^(k+1) bytes from which both were cut. It is simple and bounded, and rounding loses up to half
 * of every block; it is the baseline for the other techniques. A range of a size that is no power
 * of two begins as the largest powers that fit, one after the other. `reserved` is the range below
 * the end of the last block in use. A request takes the smallest sufficient block that begins
 * within that range, and the lowest one above only if there is no such block. So offsets do not
 * depend on the capacity.
 *
 * Cost: O(log n) time for each power of two that has a free block; no memory of its own.
 * Source: Knowlton, A fast storage allocator, 1965; Knuth, TAOCP 1, 2.5.
 */
#include "memory/pool/chunks.h"

typedef struct buddy_state {
    tn__chunk_set sets[64]; /* the free blocks of each power of two */
    uint64_t nonempty;      /* bit k is set if set k is not empty */
} buddy_state;

static uint32_t buddy_power(uint64_t size) { return 63u - (uint32_t)__builtin_clzll(size); }

static void buddy_keep(tn_pool *pool, uint32_t chunk) {
    buddy_state *state = pool->state;
    uint32_t power = buddy_power(pool->chunks[chunk].size);
    tn__chunk_set_add(pool, &state->sets[power], chunk);
    state->nonempty |= 1ull << power;
}

static void buddy_drop(tn_pool *pool, uint32_t chunk) {
    buddy_state *state = pool->state;
    uint32_t power = buddy_power(pool->chunks[chunk].size);
    tn__chunk_set_remove(pool, &state->sets[power], chunk);
    if (state->sets[power].root == TN__CHUNK_NONE) state->nonempty &= ~(1ull << power);
}

static tn_status buddy_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    (void)options, (void)error;
    buddy_state *state = pool->state;
    for (uint32_t power = 0; power < 64; power++) state->sets[power].root = TN__CHUNK_NONE;
    uint32_t chunk = 0;
    pool->chunks[0].state = TN__CHUNK_FREE;
    for (;;) { /* the block sizes descend, so each block lies at a multiple of its size */
        uint64_t size = 1ull << buddy_power(pool->chunks[chunk].size);
        bool whole = size == pool->chunks[chunk].size;
        uint32_t rest = whole ? TN__CHUNK_NONE : tn__chunk_split(pool, chunk, size);
        buddy_keep(pool, chunk);
        if (whole) return TN_OK;
        chunk = rest;
    }
}

static uint32_t buddy_find(const tn_pool *pool, uint32_t power) {
    const buddy_state *state = pool->state;
    uint32_t lowest = TN__CHUNK_NONE;
    for (uint64_t left = state->nonempty >> power << power; left != 0; left &= left - 1) {
        uint32_t found = tn__chunk_set_at_least(pool, &state->sets[__builtin_ctzll(left)], 0, 0);
        if (pool->chunks[found].offset < pool->reserved) return found;
        if (lowest == TN__CHUNK_NONE || pool->chunks[found].offset < pool->chunks[lowest].offset)
            lowest = found;
    }
    return lowest;
}

static tn_status buddy_take(tn_pool *pool, const tn__want *want, uint32_t *chunk, tn_error *error) {
    (void)error;
    uint64_t least = want->size > want->alignment ? want->size : want->alignment;
    uint32_t power = buddy_power(least) + !tn__is_power_of_two(least);
    *chunk = buddy_find(pool, power);
    if (*chunk == TN__CHUNK_NONE) return TN_E_EXHAUSTED;
    buddy_drop(pool, *chunk);
    while (pool->chunks[*chunk].size > 1ull << power)
        buddy_keep(pool, tn__chunk_split(pool, *chunk, pool->chunks[*chunk].size / 2));
    const tn__chunk *taken = &pool->chunks[*chunk];
    if (taken->offset + taken->size > pool->reserved) pool->reserved = taken->offset + taken->size;
    return TN_OK;
}

/* The buddy of a chunk, which is a neighbour in the list and has the same size unless it is cut;
 * else NONE. */
static uint32_t buddy_of(const tn_pool *pool, uint32_t chunk) {
    const tn__chunk *block = &pool->chunks[chunk];
    uint32_t other = block->offset & block->size ? block->before : block->after;
    if (other == TN__CHUNK_NONE) return other;
    const tn__chunk *buddy = &pool->chunks[other];
    return buddy->state == TN__CHUNK_FREE && buddy->size == block->size ? other : TN__CHUNK_NONE;
}

static void buddy_give(tn_pool *pool, uint32_t chunk) {
    uint64_t end = pool->chunks[chunk].offset + pool->chunks[chunk].size;
    pool->chunks[chunk].lane = 0;
    for (;;) {
        uint32_t buddy = buddy_of(pool, chunk);
        if (buddy == TN__CHUNK_NONE) break;
        buddy_drop(pool, buddy);
        if (pool->chunks[buddy].offset < pool->chunks[chunk].offset) chunk = buddy;
        tn__chunk_join(pool, chunk);
    }
    buddy_keep(pool, chunk);
    if (end < pool->reserved) return;
    while (chunk != TN__CHUNK_NONE && pool->chunks[chunk].state == TN__CHUNK_FREE) {
        pool->reserved = pool->chunks[chunk].offset;
        chunk = pool->chunks[chunk].before;
    }
}

const tn__technique tn__pool_buddy = {
    .name = "buddy",
    .summary = "buddy system: blocks of powers of two that split and merge",
    .source = "Knowlton 1965",
    .unit = 1,
    .state_size = sizeof(buddy_state),
    .open = buddy_open,
    .take = buddy_take,
    .give = buddy_give,
};
