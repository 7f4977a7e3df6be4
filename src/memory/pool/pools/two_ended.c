/* two_ended.c - places long-lived blocks from the front of the range and short-lived ones from its
 * end.
 *
 *     | long | long |  hole  | long |      the middle      | short | hole | short |
 *
 * Blocks that outlive a step do not lie between blocks of that step, so short-lived blocks leave no
 * holes between long-lived ones. Each end first uses its own holes (best fit), then takes from the
 * middle; free blocks at the middle return to it. `reserved` is the size of both ends without the
 * middle: the capacity that would have been enough so far.
 *
 * A request is short-lived unless it has the flag TN_POOL_LONG_LIVED; if lifetimes are unknown, use
 * best-fit.
 *
 * Cost: O(log n) time, no memory of its own.
 * Source: double-ended stacks as in Knuth, TAOCP 1, 2.2.2; two-ended pools of training runtimes.
 */
#include "memory/pool/free_chunks.h"

enum { FRONT, BACK };

typedef struct two_ended_state {
    /* holes (free chunks) of the front and of the back; the index in this array is the `lane` of
     * the chunks */
    bins holes[2];
    uint32_t middle; /* the free chunk between the two ends; NONE: the ends touch */
    uint64_t border; /* offset at which the back begins; used while no middle chunk exists */
} two_ended_state;

static uint64_t two_ended_border(const tn_pool *pool) {
    const two_ended_state *state = pool->state;
    return state->middle != TN__CHUNK_NONE ? pool->chunks[state->middle].offset : state->border;
}

static void two_ended_count(tn_pool *pool) {
    const two_ended_state *state = pool->state;
    uint64_t idle = state->middle != TN__CHUNK_NONE ? pool->chunks[state->middle].size : 0;
    pool->reserved = pool->capacity - idle;
}

static tn_status two_ended_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    (void)options, (void)error;
    two_ended_state *state = pool->state;
    for (uint32_t end = FRONT; end <= BACK; end++) bins_open(pool, &state->holes[end]);
    state->middle = 0;
    pool->chunks[0].state = TN__CHUNK_FREE;
    return TN_OK;
}

static void two_ended_keep(tn_pool *pool, uint32_t chunk, uint32_t end) {
    two_ended_state *state = pool->state;
    if (chunk == TN__CHUNK_NONE) return;
    pool->chunks[chunk].lane = end;
    bins_add(pool, &state->holes[end], chunk);
}

static void two_ended_drop(tn_pool *pool, uint32_t chunk) {
    two_ended_state *state = pool->state;
    bins_remove(pool, &state->holes[pool->chunks[chunk].lane], chunk);
}

static bool two_ended_take_hole(tn_pool *pool, const tn__want *want, uint32_t end,
                                uint32_t *chunk) {
    two_ended_state *state = pool->state;
    uint64_t offset;
    uint32_t front, rest, found = bins_take(pool, &state->holes[end], want, &offset);
    if (found == TN__CHUNK_NONE) return false;
    *chunk = tn__chunk_carve(pool, found, offset, want->size, &front, &rest);
    two_ended_keep(pool, front, end);
    two_ended_keep(pool, rest, end);
    return true;
}

/* Takes the lowest place in the middle for the front, the highest for the back. Bytes that
 * alignment leaves between the block and its end become a hole of that end. False if the block does
 * not fit. */
static bool two_ended_take_middle(tn_pool *pool, const tn__want *want, uint32_t end,
                                  uint32_t *chunk) {
    two_ended_state *state = pool->state;
    uint64_t offset;
    uint32_t front, rest;
    if (state->middle == TN__CHUNK_NONE || !tn__chunk_fits(pool, state->middle, want, &offset))
        return false;
    const tn__chunk *middle = &pool->chunks[state->middle];
    uint64_t border = middle->offset + middle->size;
    if (end == BACK) offset = (border - want->size) & ~(want->alignment - 1);
    *chunk = tn__chunk_carve(pool, state->middle, offset, want->size, &front, &rest);
    state->middle = end == FRONT ? rest : front;
    two_ended_keep(pool, end == FRONT ? front : rest, end);
    state->border = end == FRONT ? border : offset;
    return true;
}

static tn_status two_ended_take(tn_pool *pool, const tn__want *want, uint32_t *chunk,
                                tn_error *error) {
    (void)error;
    uint32_t end = want->long_lived ? FRONT : BACK;
    /* a hole of the other end is used rather than refusing the request */
    if (!two_ended_take_hole(pool, want, end, chunk) &&
        !two_ended_take_middle(pool, want, end, chunk) &&
        !two_ended_take_hole(pool, want, end == FRONT ? BACK : FRONT, chunk))
        return TN_E_EXHAUSTED;
    two_ended_count(pool);
    return TN_OK;
}

/* Whether the chunk can be joined with the one after it. Holes of different ends are never joined:
 * the border between them stays until one of the ends is empty. */
static bool two_ended_absorbs(const tn_pool *pool, uint32_t low, uint64_t border) {
    const two_ended_state *state = pool->state;
    const tn__chunk *chunk = &pool->chunks[low];
    if (chunk->after == TN__CHUNK_NONE || pool->chunks[chunk->after].state != TN__CHUNK_FREE)
        return false;
    return low == state->middle || chunk->after == state->middle ||
           (chunk->offset < border) == (pool->chunks[chunk->after].offset < border);
}

static void two_ended_give(tn_pool *pool, uint32_t chunk) {
    two_ended_state *state = pool->state;
    uint64_t border = two_ended_border(pool);
    uint32_t end = pool->chunks[chunk].offset < border ? FRONT : BACK;
    bool in_middle = false;
    if (two_ended_absorbs(pool, chunk, border)) {
        uint32_t after = pool->chunks[chunk].after;
        if (after == state->middle)
            in_middle = true;
        else
            two_ended_drop(pool, after);
        tn__chunk_join(pool, chunk);
    }
    uint32_t before = pool->chunks[chunk].before;
    if (before != TN__CHUNK_NONE && pool->chunks[before].state == TN__CHUNK_FREE &&
        (in_middle || two_ended_absorbs(pool, before, border))) {
        if (before == state->middle)
            in_middle = true;
        else
            two_ended_drop(pool, before);
        chunk = before;
        tn__chunk_join(pool, chunk);
    }
    bool touches = state->middle == TN__CHUNK_NONE &&
                   (pool->chunks[chunk].offset == border ||
                    pool->chunks[chunk].offset + pool->chunks[chunk].size == border);
    if (in_middle || touches)
        state->middle = chunk;
    else
        two_ended_keep(pool, chunk, end);
    two_ended_count(pool);
}

const tn__technique tn__pool_two_ended = {
    .name = "two-ended",
    .summary = "long-lived blocks from the front, short-lived from the end, best fit in each",
    .source = "double-ended stacks: Knuth, TAOCP 1, 2.2.2",
    .unit = 1,
    .state_size = sizeof(two_ended_state),
    .open = two_ended_open,
    .take = two_ended_take,
    .give = two_ended_give,
};
