/* caching.c - PyTorch's CUDA allocator: segments per stream, which are kept when they are free.
 *
 * Blocks are multiples of 512 bytes. Requests up to 1 MiB share small segments of 2 MiB, larger
 * ones below 10 MiB share large segments of 20 MiB, and each request from 10 MiB on gets its own
 * segment, rounded up to 2 MiB. A request takes the smallest sufficient free block of its own
 * stream and kind. The block is cut if 512 bytes (small) or more than 1 MiB (large) are left. If a
 * new segment does not fit into the range, all segments without a block in use are released, and
 * the request is tried once more. `reserved` is the sum of the segments.
 *
 * The settings of PYTORCH_CUDA_ALLOC_CONF (tn_pool_caching) change single steps: the size of a
 * request (roundup_power2_divisions), which blocks are cut and shared (max_split_size), which
 * segments are released before a new one is taken (garbage_collection_threshold), and where bytes
 * come from (expandable: expand.c).
 *
 * A driver can map pages anywhere; here a segment needs contiguous bytes of the range. So this pool
 * may run out of memory earlier than a real device of that size; `reserved` is the same.
 *
 * Use it to see how PyTorch would behave, or if streams must not share memory.
 *
 * Cost: O(log n) time; O(n) to empty the cache, to collect and to map pages; no memory of its own.
 * Source: pytorch/c10/cuda/CUDACachingAllocator: round_size, get_free_block, should_split,
 * garbage_collect_cached_blocks, release_available_cached_blocks.
 */
#include <inttypes.h>

#include "memory/pool/expand.h"

#define CACHING_UNIT 512u
#define CACHING_SMALL (1ull << 20)
#define CACHING_SMALL_SEGMENT (2ull << 20)
#define CACHING_SHARED_BELOW (10ull << 20)
#define CACHING_LARGE_SEGMENT (20ull << 20)
#define CACHING_SEGMENT_UNIT (2ull << 20)
/* an oversized block is handed out only if fewer than this many of its bytes stay unused */
#define CACHING_ROUNDING (20ull << 20)
/* bytes of addresses that an expandable segment gets if the pool has no limit */
#define CACHING_SPAN_MAX (1ull << 56)

typedef struct caching_state {
    /* free chunks of small segments ([0]) and of large ones ([1]), by stream (stored in `lane`) */
    tn__chunk_set free[2];
    tn__chunk_set outside;
    tn_pool_caching options;
    /* number of searches for a large block so far, the clock of garbage collection */
    uint64_t searches;
    tn__expand expand; /* the expandable segments, used only with the option `expandable` */
} caching_state;

/* --- settings --- */

static tn_status caching_check(const tn_pool *pool, const tn_pool_caching *options,
                               tn_error *error) {
    const uint64_t most = options->max_split_size, limit = options->limit;
    const double share = options->garbage_collection_threshold;
    if (most != 0 && most <= CACHING_LARGE_SEGMENT)
        TN_FAIL(error, TN_E_INVALID,
                "max_split_size must be above 20 MiB, or 0 for no limit, not %" PRIu64, most);
    for (uint32_t i = 0; i <= TN_POOL_ROUNDUP_SIZES; i++) {
        const uint32_t steps = i < TN_POOL_ROUNDUP_SIZES ? options->roundup_by_size[i]
                                                         : options->roundup_power2_divisions;
        if (steps != 0 && !tn__is_power_of_two(steps))
            TN_FAIL(error, TN_E_INVALID,
                    "roundup_power2_divisions must be a power of two, not %" PRIu32, steps);
    }
    if (!(share >= 0 && share < 1))
        TN_FAIL(error, TN_E_INVALID, "garbage_collection_threshold must be between 0 and 1, not %g",
                share);
    if (share > 0 && limit == 0 && pool->capacity > TN_POOL_CAPACITY_MAX / 2)
        TN_FAIL(error, TN_E_INVALID, "garbage_collection_threshold needs a limit or a capacity");
    if (options->expandable && limit != 0 && pool->capacity / 16 < limit)
        TN_FAIL(error, TN_E_INVALID,
                "expandable segments need a capacity of at least 16 times the limit");
    return TN_OK;
}

static void caching_open_expand(tn_pool *pool, caching_state *state) {
    const uint64_t unit = CACHING_LARGE_SEGMENT;
    uint64_t bytes = state->options.limit / 8 * 9, most = pool->capacity / 16;
    if (most > CACHING_SPAN_MAX) most = CACHING_SPAN_MAX;
    if (bytes == 0) bytes = most;
    bytes = (bytes + unit - 1) / unit * unit;
    state->expand = (tn__expand){.free = {&state->free[0], &state->free[1]},
                                 .outside = &state->outside,
                                 .segment = bytes,
                                 .limit = pool->limit};
}

static tn_status caching_open(tn_pool *pool, const tn_pool_options *given, tn_error *error) {
    caching_state *state = pool->state;
    tn_pool_caching options = TN_POOL_CACHING_INIT;
    tn__options(&options, sizeof options, given->caching);
    TN_TRY(caching_check(pool, &options, error));
    state->options = options;
    if (options.max_split_size == 0) state->options.max_split_size = UINT64_MAX;
    if (options.limit != 0) pool->limit = options.limit;
    state->free[0].root = state->free[1].root = state->outside.root = TN__CHUNK_NONE;
    tn__chunk_set_add(pool, &state->outside, 0);
    if (options.expandable) caching_open_expand(pool, state);
    return TN_OK;
}

static uint64_t caching_steps(const tn_pool_caching *options, uint64_t size) {
    const uint32_t power = size > CACHING_SMALL ? 63u - (uint32_t)__builtin_clzll(size) - 20u : 0;
    if (options->roundup_power2_divisions != 0) return options->roundup_power2_divisions;
    return options
        ->roundup_by_size[power < TN_POOL_ROUNDUP_SIZES ? power : TN_POOL_ROUNDUP_SIZES - 1];
}

/* Computes the bytes of a block: a multiple of 512, or with roundup_power2_divisions one of that
 * number of steps between two powers of two. */
static uint64_t caching_round(const tn_pool *pool, const tn__want *want) {
    const caching_state *state = pool->state;
    const uint64_t size = want->requested, steps = caching_steps(&state->options, size);
    if (steps <= 1 || size <= CACHING_UNIT * steps || tn__is_power_of_two(size)) return want->size;
    const uint64_t step = (UINT64_C(1) << (63 - __builtin_clzll(size))) / steps;
    const uint64_t rounded = (size + step - 1) / step * step;
    return (rounded + pool->unit - 1) & ~(pool->unit - 1);
}

static uint64_t caching_segment(uint64_t size) {
    if (size <= CACHING_SMALL) return CACHING_SMALL_SEGMENT;
    if (size < CACHING_SHARED_BELOW) return CACHING_LARGE_SEGMENT;
    return (size + CACHING_SEGMENT_UNIT - 1) & ~(CACHING_SEGMENT_UNIT - 1);
}

static tn__chunk_set *caching_set(tn_pool *pool, bool large) {
    caching_state *state = pool->state;
    return &state->free[large];
}

/* Adds a free chunk to its set, and stores the time from which its age counts. */
static void caching_put(tn_pool *pool, uint32_t chunk) {
    const caching_state *state = pool->state;
    pool->chunks[chunk].birth = state->searches;
    tn__chunk_set_add(pool, caching_set(pool, pool->chunks[chunk].is_large), chunk);
}

/* --- segments --- */

/* Takes a new segment as one free chunk, in no set; NONE if the range or the limit does not allow
 * it. */
static uint32_t caching_extend(tn_pool *pool, uint64_t size, uint32_t stream, bool large) {
    caching_state *state = pool->state;
    uint64_t bytes = caching_segment(size);
    if (state->options.expandable) {
        state->expand.clock = state->searches;
        return tn__expand_map(pool, &state->expand, size, stream, large);
    }
    if (bytes > pool->limit || pool->reserved > pool->limit - bytes) return TN__CHUNK_NONE;
    uint32_t found = tn__chunk_set_at_least(pool, &state->outside, 0, bytes);
    if (found == TN__CHUNK_NONE) return found;
    tn__chunk_set_remove(pool, &state->outside, found);
    if (bytes < pool->chunks[found].size)
        tn__chunk_set_add(pool, &state->outside, tn__chunk_split(pool, found, bytes));
    tn__chunk *chunk = &pool->chunks[found];
    chunk->state = TN__CHUNK_FREE;
    chunk->is_segment = true;
    chunk->is_large = large;
    chunk->lane = stream;
    pool->reserved += bytes;
    return found;
}

static bool caching_is_whole(const tn_pool *pool, uint32_t chunk) {
    const tn__chunk *segment = &pool->chunks[chunk];
    if (segment->state != TN__CHUNK_FREE || !segment->is_segment) return false;
    if (segment->after == TN__CHUNK_NONE) return true;
    const tn__chunk *after = &pool->chunks[segment->after];
    return after->is_segment || after->state == TN__CHUNK_OUTSIDE;
}

/* Returns a segment to the range, as unreserved bytes, and joins it with unreserved neighbours.
 * Returns the joined chunk. */
static uint32_t caching_return(tn_pool *pool, uint32_t chunk) {
    caching_state *state = pool->state;
    tn__chunk *segment = &pool->chunks[chunk];
    tn__chunk_set_remove(pool, caching_set(pool, segment->is_large), chunk);
    pool->reserved -= segment->size;
    segment->state = TN__CHUNK_OUTSIDE;
    segment->is_segment = segment->is_large = false;
    segment->lane = 0;
    if (tn__chunk_joins_after(pool, chunk)) {
        tn__chunk_set_remove(pool, &state->outside, segment->after);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_before(pool, chunk)) {
        chunk = pool->chunks[chunk].before;
        tn__chunk_set_remove(pool, &state->outside, chunk);
        tn__chunk_join(pool, chunk);
    }
    tn__chunk_set_add(pool, &state->outside, chunk);
    return chunk;
}

static uint64_t caching_trim(tn_pool *pool) {
    caching_state *state = pool->state;
    uint64_t before = pool->reserved;
    tn__pool_settle(pool);
    if (state->options.expandable) return tn__expand_unmap(pool, &state->expand);
    for (uint32_t chunk = 0; chunk != TN__CHUNK_NONE; chunk = pool->chunks[chunk].after)
        if (caching_is_whole(pool, chunk)) chunk = caching_return(pool, chunk);
    return before - pool->reserved;
}

/* Returns free large segments to the range when more than a given fraction of the limit is
 * reserved: those that were unused for at least the average number of searches, until the
 * reservation is below that fraction. */
static void caching_collect(tn_pool *pool) {
    caching_state *state = pool->state;
    const double threshold = state->options.garbage_collection_threshold * (double)pool->limit;
    const uint64_t target = threshold < (double)pool->limit ? (uint64_t)threshold : pool->limit;
    uint64_t age = 0, count = 0;
    if (threshold <= 0 || state->options.expandable || pool->reserved <= target) return;
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        if (!pool->chunks[at].is_large || !caching_is_whole(pool, at)) continue;
        age += state->searches - pool->chunks[at].birth;
        count++;
    }
    if (count > 0) tn__pool_settle(pool);
    for (bool more = true; more && count > 0 && pool->reserved > target;) {
        const double mean = (double)age / (double)count;
        more = false;
        for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
            const uint64_t own = state->searches - pool->chunks[at].birth;
            if (!pool->chunks[at].is_large || !caching_is_whole(pool, at) || (double)own < mean)
                continue;
            age -= own;
            count--;
            at = caching_return(pool, at);
            more = true;
        }
    }
}

/* With max_split_size: returns to the range the smallest free segment of the stream that is large
 * enough for the request but must not be shared, or else the largest such segments, until their sum
 * is large enough. False if it is not. */
static bool caching_return_oversized(tn_pool *pool, uint64_t size, uint32_t stream, bool large) {
    caching_state *state = pool->state;
    const uint64_t least = state->options.max_split_size;
    const uint64_t need = size < least ? least : size;
    tn__chunk_set *set = caching_set(pool, large);
    uint64_t sum = 0;
    if (least == UINT64_MAX || state->options.expandable) return false;
    uint32_t at = tn__chunk_set_at_least(pool, set, stream, need);
    tn__pool_settle(pool);
    if (at != TN__CHUNK_NONE) {
        caching_return(pool, at);
        return true;
    }
    at = tn__chunk_set_last(pool, set, stream);
    while (at != TN__CHUNK_NONE && sum < need && pool->chunks[at].size >= least) {
        const uint32_t next = tn__chunk_set_before(pool, set, at);
        sum += pool->chunks[at].size;
        caching_return(pool, at);
        at = next;
    }
    return sum >= need;
}

/* --- blocks --- */

/* Finds the free chunk for a request, and leaves it in its set; NONE: a new segment is needed. */
static uint32_t caching_find(tn_pool *pool, uint64_t size, uint32_t stream, bool large) {
    caching_state *state = pool->state;
    const uint64_t oversized = state->options.max_split_size;
    tn__chunk_set *set = caching_set(pool, large);
    uint32_t found = tn__chunk_set_at_least(pool, set, stream, size);
    if (found == TN__CHUNK_NONE) return found;
    /* with expandable segments, a chunk that can grow counts as if it had all the addresses into
     * which it can grow */
    while (state->options.expandable) {
        const uint32_t next = tn__chunk_set_after(pool, set, found);
        if (next == TN__CHUNK_NONE || tn__expand_size(pool, next) >= tn__expand_size(pool, found))
            break;
        found = next;
    }
    const uint64_t bytes = pool->chunks[found].size;
    if (size < oversized && bytes >= oversized) return TN__CHUNK_NONE;
    if (size >= oversized && bytes >= tn__add_sat(size, CACHING_ROUNDING)) return TN__CHUNK_NONE;
    return found;
}

static uint32_t caching_new(tn_pool *pool, uint64_t size, uint32_t stream, bool large) {
    caching_collect(pool);
    uint32_t found = caching_extend(pool, size, stream, large);
    if (found == TN__CHUNK_NONE && caching_return_oversized(pool, size, stream, large))
        found = caching_extend(pool, size, stream, large);
    if (found != TN__CHUNK_NONE) return found;
    /* oversized segments were returned already, so nothing else may be left to return; that is no
     * error */
    (void)caching_trim(pool);
    return caching_extend(pool, size, stream, large);
}

static bool caching_cuts(const tn_pool *pool, uint64_t size, uint64_t room, bool large) {
    const caching_state *state = pool->state;
    if (!large || state->options.expandable) return room > size;
    return size < state->options.max_split_size && room - size > CACHING_SMALL;
}

static tn_status caching_take(tn_pool *pool, const tn__want *asked, uint32_t *chunk,
                              tn_error *error) {
    (void)error;
    caching_state *state = pool->state;
    tn__want want = *asked;
    want.size = caching_round(pool, asked);
    const bool large = want.size > CACHING_SMALL;
    uint64_t offset = 0, padded = want.size + want.alignment - pool->unit;
    state->searches += large;
    uint32_t front, rest, found = caching_find(pool, want.size, want.stream, large);
    if (found != TN__CHUNK_NONE && !tn__chunk_fits(pool, found, &want, &offset))
        found = caching_find(pool, padded, want.stream, large);
    if (found != TN__CHUNK_NONE)
        tn__chunk_set_remove(pool, caching_set(pool, large), found);
    else
        found = caching_new(pool, padded, want.stream, large);
    if (found == TN__CHUNK_NONE) return TN_E_EXHAUSTED;
    bool fits = tn__chunk_fits(pool, found, &want, &offset);
    tn_assert(fits);
    (void)fits;
    uint64_t room = pool->chunks[found].size - (offset - pool->chunks[found].offset);
    bool cut = caching_cuts(pool, want.size, room, large);
    *chunk = tn__chunk_carve(pool, found, offset, cut ? want.size : room, &front, &rest);
    if (front != TN__CHUNK_NONE) caching_put(pool, front);
    if (rest != TN__CHUNK_NONE) caching_put(pool, rest);
    return TN_OK;
}

static void caching_give(tn_pool *pool, uint32_t chunk) {
    tn__chunk_set *set = caching_set(pool, pool->chunks[chunk].is_large);
    if (tn__chunk_joins_after(pool, chunk)) {
        tn__chunk_set_remove(pool, set, pool->chunks[chunk].after);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_before(pool, chunk)) {
        chunk = pool->chunks[chunk].before;
        tn__chunk_set_remove(pool, set, chunk);
        tn__chunk_join(pool, chunk);
    }
    caching_put(pool, chunk);
}

const tn__technique tn__pool_caching = {
    .name = "caching",
    .summary = "caches small and large segments per stream, as in PyTorch",
    .source = "PyTorch, CUDACachingAllocator",
    .unit = CACHING_UNIT,
    .state_size = sizeof(caching_state),
    .open = caching_open,
    .take = caching_take,
    .give = caching_give,
    .trim = caching_trim,
};
