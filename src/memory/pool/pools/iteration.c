/* iteration.c - learns the requests of an iteration, plans them, and serves the next iterations
 * from the plan.
 *
 * Without a plan it uses best fit for each stream separately (lanes.h), and records requests
 * (learn.h). When two iterations were equal, the offline planners plan their live ranges
 * (live_ranges.h). The bytes of the plan are cut into slots (recorded.h), and each request that
 * arrives as expected finds its place by examining a few bits. A request that is not expected, or
 * finds its place in use, is a surprise and is placed elsewhere. After too many surprises the plan
 * is given up: blocks in use stay at their offsets, and learning begins again. The shorter the plan
 * lasted, the longer the pool learns before the next one.
 *
 * The lock is released while a plan is made. Blocks in use stay at their offsets, so the plan comes
 * into force at the step with the fewest live bytes. It does so only if it needs no more of the
 * range than is reserved already, and only if the iterations still repeat.
 *
 * A surprise goes into the first of these places that exists:
 *
 * 1. a hole outside the plan;
 * 2. bytes that the plan does not use for as long as the block will be in use;
 * 3. new bytes beyond all reserved ones, as long as such bytes are few compared with the plan,
 *    because a place taken from the plan causes the next surprise;
 * 4. bytes of the plan that are free now.
 *
 * If places are in use in several rounds in a row, each displaced block takes the place of another.
 * Then surprises go beyond the reserved bytes without that limit, once. Before a request is
 * refused, the plan is given up and the cache emptied, so that one stream may use all free bytes.
 *
 * `reserved` is the memory of all streams and of the plan in force, until the cache is emptied. If
 * the owner can release memory page by page (tn_pool_options.release), that is done before
 * `reserved` exceeds the most bytes that were in use at once; and a plan is put above all blocks in
 * use, so that it has no obstacles.
 *
 * Use it if a program repeats its requests: training, inference of one size. It is weak if sizes
 * change from step to step, when it works like best fit.
 *
 * Cost: O(1) time for expected requests, else O(log n); 36 bytes for each of the last 2^18
 * requests.
 * Source: Huang et al., STAlloc, EuroSys 2026 (arXiv:2507.16274), for a plan that is learned; the
 * handling of changed requests and of streams is new here.
 */
#include "memory/pool/iteration.h"

enum {
    /* number of surprises (unexpected requests) in a round after which the plan is given up, in
     * addition to a fraction of its requests */
    ITERATION_SURPRISES = 16,
    /* denominator of the fraction of the plan's requests that may be surprises */
    ITERATION_PART = 4,
    /* a block whose lifetime is unknown is assumed to be in use for 1/8 of a round */
    ITERATION_UNKNOWN = 8,
    /* 1/64 of the plan's height may be reserved beyond the plan for surprises */
    ITERATION_LITTLE = 64,
    ITERATION_YOUNG = 2, /* number of rounds until all blocks of a new plan are at their places */
    /* number of rounds in a row with displaced blocks after which unexpected requests get new bytes
     * without the limit ITERATION_LITTLE; four times as many if that raises the peak of the
     * reserved bytes */
    ITERATION_JAMMED = 2,
};

static tn_status iteration_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    tn__iteration *state = pool->state;
    (void)options, (void)error;
    tn__lanes_open(pool, &state->lanes);
    state->patience = 1;
    return TN_OK;
}

static void iteration_close(tn_pool *pool) {
    tn__iteration *state = pool->state;
    tn__recorded_close(&pool->context, &state->recorded);
    tn__learn_close(&pool->context, &state->learn);
    tn__lanes_close(pool, &state->lanes);
}

/* --- allocating --- */

/* Makes the record of a block in the slots [from, to) of the plan, and marks the slots as taken. */
static uint32_t iteration_place(tn_pool *pool, uint64_t offset, uint64_t size, uint32_t from,
                                uint32_t to) {
    tn__iteration *state = pool->state;
    uint32_t chunk = tn__chunk_new(pool);
    tn__chunk *block = &pool->chunks[chunk];
    tn__slots_take(&state->recorded.slots, from, to);
    block->offset = offset;
    block->size = size;
    block->before = from;
    block->after = to;
    block->is_inner = true;
    block->state = TN__CHUNK_FREE;
    state->inner++;
    return chunk;
}

/* Takes bytes of the plan that are free now and that the next `ahead` requests will not use; NONE
 * if there are no such bytes. */
static uint32_t iteration_borrow(tn_pool *pool, const tn__want *want, uint32_t ahead) {
    tn__iteration *state = pool->state;
    tn__recorded *recorded = &state->recorded;
    const uint64_t *taken = ahead == 0 ? recorded->slots.taken : tn__recorded_soon(recorded, ahead);
    uint64_t offset;
    for (uint32_t z = 0; z < recorded->zones; z++) {
        uint32_t from = z == 0 ? 0 : tn__slots_at(&recorded->slots, recorded->borders[z - 1]);
        uint32_t to = tn__slots_at(&recorded->slots, recorded->borders[z]);
        if (recorded->streams[z] != want->stream) continue;
        if (!tn__slots_hole(&recorded->slots, taken, &from, &to, want, &offset)) continue;
        return iteration_place(pool, offset, want->size, from, to);
    }
    return TN__CHUNK_NONE;
}

/* Releases free bytes to the system if the reserved bytes would otherwise exceed their bound. */
static void iteration_give_back(tn_pool *pool, const tn__want *want) {
    tn__iteration *state = pool->state;
    uint64_t needs = tn__add_sat(pool->reserved, want->size);
    if (pool->release == NULL || needs <= tn__iteration_bound(pool, want)) return;
    tn__pool_settle(pool);
    tn__lanes_release(pool, &state->lanes, needs - tn__iteration_bound(pool, want));
}

static uint32_t iteration_beyond(tn_pool *pool, uint32_t lane, const tn__want *want) {
    tn__iteration *state = pool->state;
    uint64_t before = pool->reserved;
    uint32_t found = tn__lanes_extend(pool, &state->lanes, lane, want);
    state->beyond += pool->reserved - before;
    return found;
}

/* Takes new bytes beyond all reserved ones for an unexpected request. NONE: in the first rounds of
 * a plan, this would raise the peak of the reserved bytes; or memory can be released, and the
 * reserved bytes would exceed their bound. */
static uint32_t iteration_beyond_young(tn_pool *pool, uint32_t lane, const tn__want *want) {
    const tn__iteration *state = pool->state;
    uint64_t bound =
        state->recorded.rounds < ITERATION_YOUNG ? pool->usage.reserved_peak : UINT64_MAX;
    if (pool->release != NULL) bound = tn__iteration_bound(pool, want);
    iteration_give_back(pool, want);
    uint64_t needs = tn__add_sat(pool->reserved, want->size + want->alignment - pool->unit);
    return needs > bound ? TN__CHUNK_NONE : iteration_beyond(pool, lane, want);
}

/* Places an unexpected request. `length`: number of requests for which the block will be in use, as
 * far as is known. NONE: no place is free within the limits. */
static uint32_t iteration_surprise(tn_pool *pool, uint32_t lane, const tn__want *want,
                                   uint32_t length) {
    tn__iteration *state = pool->state;
    uint64_t little = state->lesson.height / ITERATION_LITTLE;
    bool is_below = tn__add_sat(pool->reserved, want->size) <= pool->usage.reserved_peak;
    bool is_jammed = state->jammed >= (is_below ? ITERATION_JAMMED : 4 * ITERATION_JAMMED);
    uint32_t found = tn__lanes_hole(pool, &state->lanes, lane, want);
    if (found == TN__CHUNK_NONE) found = iteration_borrow(pool, want, length);
    if (found == TN__CHUNK_NONE && (is_jammed || tn__add_sat(state->beyond, want->size) <= little))
        found = iteration_beyond_young(pool, lane, want);
    if (found == TN__CHUNK_NONE) found = iteration_borrow(pool, want, 0);
    return found != TN__CHUNK_NONE ? found : iteration_beyond_young(pool, lane, want);
}

/* Called between two rounds. After a round without a surprise, the bytes that surprises took beyond
 * the plan are released. Free bytes in the zone of another stream are released in any case. */
static void iteration_between(tn_pool *pool) {
    tn__iteration *state = pool->state;
    bool was_calm = state->surprises == 0 && state->beyond > 0;
    state->round = state->recorded.rounds;
    state->jammed = state->held > 0 ? state->jammed + 1 : 0;
    state->surprises = state->held = 0;
    if (!was_calm && !state->has_strangers) return;
    if (!tn__chunks_reserve(pool, state->recorded.zones + TN__CHUNKS_PER_CALL)) return;
    tn__iteration_reclaim(pool);
    state->has_strangers = false;
}

/* Counts an unexpected request; returns whether this round has had too many of them, so that the
 * plan must be given up. */
static bool iteration_counts(tn__iteration *state) {
    return ++state->surprises > ITERATION_SURPRISES + state->recorded.count / ITERATION_PART;
}

/* Serves a request from the plan in force; NONE: nothing fits, or the plan was given up. */
static uint32_t iteration_play(tn_pool *pool, uint32_t lane, const tn__want *want) {
    tn__iteration *state = pool->state;
    const tn__expected *line = tn__recorded_match(&state->recorded, want->size, want->stream);
    bool has_place = line != NULL && line->from != line->to;
    if (state->round != state->recorded.rounds) iteration_between(pool);
    if (has_place && (line->offset & (want->alignment - 1)) == 0 &&
        tn__slots_idle(&state->recorded.slots, line->from, line->to)) {
        state->lesson.served++;
        return iteration_place(pool, line->offset, line->size, line->from, line->to);
    }
    uint32_t some = state->recorded.count / ITERATION_UNKNOWN + 1;
    if (line != NULL && !has_place) return iteration_surprise(pool, lane, want, some);
    state->held += has_place;
    state->lesson.surprises++;
    if (iteration_counts(state) && tn__iteration_forget(pool)) return TN__CHUNK_NONE;
    return iteration_surprise(pool, lane, want, has_place ? line->length : some);
}

/* Serves a request without a plan. */
static uint32_t iteration_fit(tn_pool *pool, uint32_t lane, const tn__want *want) {
    tn__iteration *state = pool->state;
    uint32_t found = tn__lanes_hole(pool, &state->lanes, lane, want);
    if (found != TN__CHUNK_NONE) return found;
    iteration_give_back(pool, want);
    return tn__lanes_extend(pool, &state->lanes, lane, want);
}

/* Records the request of a block that was placed, if it is to be learned. */
static void iteration_note(tn_pool *pool, uint32_t chunk, const tn__want *want) {
    tn__iteration *state = pool->state;
    tn__asked asked = {.size = want->size,
                       .alignment = (uint32_t)want->alignment,
                       .birth = pool->usage.alloc_count + 1,
                       .stream = want->stream};
    pool->chunks[chunk].child[0] = tn__learn_ask(&pool->context, &state->learn, &asked);
    __atomic_store_n(&pool->is_due, tn__iteration_is_due(state), __ATOMIC_RELAXED);
}

static uint32_t iteration_find(tn_pool *pool, uint32_t lane, const tn__want *want) {
    tn__iteration *state = pool->state;
    uint32_t found = TN__CHUNK_NONE;
    if (tn__iteration_has_plan(state)) found = iteration_play(pool, lane, want);
    if (found == TN__CHUNK_NONE && tn__iteration_has_plan(state)) tn__iteration_forget(pool);
    if (found == TN__CHUNK_NONE && !tn__iteration_has_plan(state))
        found = iteration_fit(pool, lane, want);
    if (found != TN__CHUNK_NONE) return found;
    tn__pool_settle(pool);
    tn__lanes_trim(pool, &state->lanes);
    return iteration_fit(pool, lane, want);
}

static tn_status iteration_take(tn_pool *pool, const tn__want *want, uint32_t *chunk,
                                tn_error *error) {
    tn__iteration *state = pool->state;
    uint32_t lane = tn__lanes_of(pool, &state->lanes, want->stream);
    if (lane == 0) return tn__no_memory(error, "a stream of a pool");
    *chunk = iteration_find(pool, lane, want);
    if (*chunk == TN__CHUNK_NONE) return TN_E_EXHAUSTED;
    if (tn__iteration_has_plan(state))
        pool->chunks[*chunk].child[0] = TN__LEARN_NONE;
    else
        iteration_note(pool, *chunk, want);
    return TN_OK;
}

static void iteration_give(tn_pool *pool, uint32_t chunk) {
    tn__iteration *state = pool->state;
    tn__recorded *recorded = &state->recorded;
    tn__chunk *block = &pool->chunks[chunk];
    if (block->is_inner) {
        tn__slots_give(&recorded->slots, block->before, block->after);
        tn__chunk_drop(pool, chunk);
        state->inner--;
        return;
    }
    uint32_t zone = tn__recorded_zone(recorded, block->offset);
    uint64_t end = block->offset + block->size;
    if (!tn__iteration_has_plan(state))
        tn__learn_free(&state->learn, block->child[0], block->birth);
    if (zone < recorded->zones &&
        /* the block was allocated before the plan came into force, and its bytes belong to the plan
         * now */
        end <= recorded->borders[zone]) {
        if (recorded->streams[zone] != block->lane) tn__pool_settle(pool);
        state->has_strangers |= !tn__slots_give_whole(&recorded->slots, block->offset, end);
        block->state = TN__CHUNK_LENT;
        block->lane = zone + 1;
    } else {
        block->lane = tn__lanes_of(pool, &state->lanes, block->lane);
        state->has_strangers |=
            zone < recorded->zones || (block->offset < recorded->base && end > recorded->base);
    }
    tn__lanes_give(pool, &state->lanes, chunk);
}

static uint64_t iteration_trim(tn_pool *pool) {
    tn__iteration *state = pool->state;
    uint64_t before = pool->reserved;
    tn__iteration_forget(pool);
    tn__pool_settle(pool);
    tn__lanes_trim(pool, &state->lanes);
    return before - pool->reserved;
}

static void iteration_lesson(const tn_pool *pool, tn_pool_lesson *lesson) {
    *lesson = ((const tn__iteration *)pool->state)->lesson;
}

const tn__technique tn__pool_iteration = {
    .name = "iteration",
    .summary = "records an iteration, plans it, and serves the next ones from the plan",
    .source = "Huang et al., STAlloc, EuroSys 2026 (arXiv:2507.16274)",
    .unit = 1,
    .state_size = sizeof(tn__iteration),
    .open = iteration_open,
    .take = iteration_take,
    .give = iteration_give,
    .trim = iteration_trim,
    .close = iteration_close,
    .rest = tn__iteration_rest,
    .lesson = iteration_lesson,
};
