/* iteration_plan.c - makes a plan for the pool that learns iterations, puts it in force and ends
 * it; pools/iteration.c explains the method. */
#include "memory/pool/iteration.h"

enum {
    /* a plan that was in force for this number of rounds counts as good */
    ITERATION_ROUNDS_GOOD = 8,
    /* limit of the number of equal periods required before a plan, after plans that did not hold */
    ITERATION_PATIENCE_MAX = 64,
};

/* Doubles the number of equal periods required before the next plan, because the last plan did not
 * hold. */
static void iteration_wait(tn__iteration *state) {
    if (state->patience < ITERATION_PATIENCE_MAX) state->patience *= 2;
}

/* --- ending a plan --- */

/* Puts the record of a block inside a lent chunk into the list of chunks, in place of its bytes in
 * the lent chunk. */
static void iteration_list(tn_pool *pool, uint32_t lent, uint32_t inner) {
    tn__chunk *block = &pool->chunks[inner];
    uint32_t front, rest;
    uint32_t hole = tn__chunk_carve(pool, lent, block->offset, block->size, &front, &rest);
    block->before = pool->chunks[hole].before;
    block->after = pool->chunks[hole].after;
    if (block->before != TN__CHUNK_NONE)
        pool->chunks[block->before].after = inner;
    else
        pool->first = inner;
    if (block->after != TN__CHUNK_NONE)
        pool->chunks[block->after].before = inner;
    else
        pool->last = inner;
    tn__chunk_drop(pool, hole);
    block->is_inner = false;
    /* the request for this block is not in the ring of recorded requests */
    block->child[0] = TN__LEARN_NONE;
}

/* Returns the blocks inside lent chunks, sorted by offset; NULL if memory is out. */
static tn__sort_item *iteration_inner(const tn_pool *pool, uint64_t count) {
    tn__sort_item *items = tn__alloc_array(&pool->context, count + 1, sizeof *items);
    uint64_t found = 0;
    for (uint32_t i = 0; items != NULL && i < pool->chunk_count; i++)
        if (pool->chunks[i].state == TN__CHUNK_USED && pool->chunks[i].is_inner)
            items[found++] = (tn__sort_item){.key = pool->chunks[i].offset, .id = i};
    if (items != NULL && !tn__sort_items(&pool->context, items, found)) {
        tn__free(&pool->context, items, (count + 1) * sizeof *items);
        return NULL;
    }
    return items;
}

static void iteration_unlend(tn_pool *pool, const tn__sort_item *inner, uint64_t count) {
    tn__iteration *state = pool->state;
    uint64_t next = 0;
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        const tn__chunk *chunk = &pool->chunks[at];
        if (chunk->state != TN__CHUNK_LENT) continue;
        uint32_t lane = tn__lanes_of(pool, &state->lanes, state->recorded.streams[chunk->lane - 1]);
        tn_assert(lane != 0); /* the stream made a request before the plan, so its lane exists */
        if (next < count && inner[next].key < chunk->offset + chunk->size) {
            uint32_t before = chunk->before;
            iteration_list(pool, at, inner[next++].id);
            at = before != TN__CHUNK_NONE ? pool->chunks[before].after : pool->first;
        }
        if (pool->chunks[at].state != TN__CHUNK_LENT) continue;
        pool->chunks[at].state = TN__CHUNK_FREE;
        pool->chunks[at].lane = lane;
        at = tn__lanes_give(pool, &state->lanes, at);
    }
}

bool tn__iteration_forget(tn_pool *pool) {
    tn__iteration *state = pool->state;
    if (!tn__iteration_has_plan(state)) return true;
    tn__sort_item *inner = iteration_inner(pool, state->inner);
    if (inner == NULL) return false;
    bool done = tn__chunks_reserve(pool, state->inner * 2 + TN__CHUNKS_PER_CALL);
    if (done) {
        uint64_t held = state->recorded.rounds;
        iteration_unlend(pool, inner, state->inner);
        tn__recorded_close(&pool->context, &state->recorded);
        tn__learn_forget(&state->learn);
        state->period = 0;
        if (held >= ITERATION_ROUNDS_GOOD)
            state->patience = 1;
        else
            iteration_wait(state);
        state->lesson.period = state->lesson.height = 0;
    }
    tn__free(&pool->context, inner, (state->inner + 1) * sizeof *inner);
    if (done) state->inner = 0;
    return done;
}

/* --- making a plan --- */

/* Returns the offsets at which slots of the plan must begin or end: its base, the ends of its
 * zones, and where blocks in use between base and height begin and end. The array is large enough
 * for the plan's own blocks too. The height is raised if a block crosses it. NULL if memory is
 * out. */
static tn__sort_item *iteration_edges(const tn_pool *pool, tn__live_ranges *lives, size_t *count,
                                      size_t *room) {
    uint64_t *height = &lives->borders[lives->zones - 1];
    size_t blocks = 0;
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after)
        blocks += pool->chunks[at].state == TN__CHUNK_USED;
    *room = 2 * (blocks + lives->count) + lives->zones + 1;
    tn__sort_item *edges = tn__alloc_array(&pool->context, *room, sizeof *edges);
    *count = 0;
    if (edges == NULL) return NULL;
    edges[(*count)++].key = lives->base;
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        const tn__chunk *chunk = &pool->chunks[at];
        if (chunk->state != TN__CHUNK_USED || chunk->offset >= *height) continue;
        uint64_t end = chunk->offset + chunk->size;
        if (end <= lives->base) continue;
        if (end > *height) *height = end;
        edges[(*count)++].key = chunk->offset > lives->base ? chunk->offset : lives->base;
        edges[(*count)++].key = end;
    }
    for (uint32_t z = 0; z < lives->zones; z++) edges[(*count)++].key = lives->borders[z];
    return edges;
}

/* Marks the slots of the plan that blocks in use already occupy as taken; they become free when
 * these blocks are freed. */
static void iteration_hold(const tn_pool *pool, tn__recorded *recorded) {
    uint64_t height = recorded->borders[recorded->zones - 1];
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        const tn__chunk *chunk = &pool->chunks[at];
        if (chunk->state != TN__CHUNK_USED || chunk->offset >= height) continue;
        uint64_t end = chunk->offset + chunk->size;
        uint64_t from = chunk->offset > recorded->base ? chunk->offset : recorded->base;
        if (end <= recorded->base) continue;
        tn__slots_take(&recorded->slots, tn__slots_at(&recorded->slots, from),
                       end < height ? tn__slots_at(&recorded->slots, end - 1) + 1
                                    : recorded->slots.count);
    }
}

/* Whether a plan may come into force: it fits into the reserved bytes, or, if it lies above all
 * blocks in use, into the bytes that may be reserved. */
static bool iteration_is_worth(const tn_pool *pool, const tn__live_ranges *lives) {
    uint64_t top = lives->borders[lives->zones - 1];
    if (lives->base == 0) return top <= pool->reserved;
    return top <= pool->capacity &&
           tn__add_sat(pool->usage.allocated, top - lives->base) <= tn__iteration_bound(pool, NULL);
}

/* Returns the height of the plan; for a plan above all blocks in use (base is not 0), plus the
 * bytes of the blocks that stay in use. */
static uint64_t iteration_height(const tn__live_ranges *lives) {
    uint64_t height = lives->borders[lives->zones - 1] - lives->base;
    for (size_t a = 0; a < lives->around_count && lives->base != 0; a++)
        height = tn__add_sat(height, lives->around[a].size);
    return height;
}

static bool iteration_install(tn_pool *pool, tn__live_ranges *lives) {
    tn__iteration *state = pool->state;
    size_t count, room;
    if (!iteration_is_worth(pool, lives)) return false;
    tn__sort_item *edges = iteration_edges(pool, lives, &count, &room);
    bool done = edges != NULL && tn__chunks_reserve(pool, lives->zones + TN__CHUNKS_PER_CALL) &&
                tn__recorded_open(&pool->context, &state->recorded, lives, edges, count);
    tn__free(&pool->context, edges, room * sizeof *edges);
    if (!done) return false;
    tn__pool_settle(pool);
    tn__lanes_trim(pool, &state->lanes);
    iteration_hold(pool, &state->recorded);
    tn__lanes_lend(pool, &state->lanes, lives->base, lives->borders, lives->zones);
    state->recorded.next = (uint32_t)((state->learn.count - lives->now) % lives->count);
    state->beyond = state->round = state->surprises = state->held = state->jammed = 0;
    /* bytes that are freed below the plan will be released after a round */
    state->has_strangers = lives->base != 0;
    state->learn.skips = 0;
    state->lesson.plans++;
    state->lesson.period = lives->count;
    state->lesson.height = iteration_height(lives);
    tn__learn_forget(&state->learn);
    return true;
}

/* Whether all requests since the period was found have equalled those a period before. */
static bool iteration_goes_on(const tn__iteration *state) {
    const tn__learn *learn = &state->learn;
    return learn->lag != 0 && learn->count - state->run == learn->run;
}

bool tn__iteration_is_due(const tn__iteration *state) {
    if (state->is_planning) return false;
    if (state->period == 0) return tn__learn_ready(&state->learn, state->patience);
    return state->learn.count >= state->calm || !iteration_goes_on(state);
}

/* Called when iterations were found to be equal: computes `calm`, the number of the next request
 * before which few bytes are in use, so that a plan is made there. */
static void iteration_foresee(tn_pool *pool) {
    tn__iteration *state = pool->state;
    tn__live_ranges lives = {0};
    uint64_t now = state->learn.count, period = tn__learn_period(&state->learn, state->patience);
    if (period != 0 && tn__live_ranges_gather(pool, &state->learn, period, &lives)) {
        uint32_t calm = tn__live_ranges_calm(&pool->context, &lives);
        state->period = period;
        state->run = now - state->learn.run;
        state->calm = now + (calm != 0 ? calm : period);
    }
    tn__live_ranges_close(&pool->context, &lives);
}

/* Makes a plan from offset `base` on; releases the lock meanwhile. */
static bool iteration_plan_from(tn_pool *pool, tn__live_ranges *lives, uint64_t base) {
    pthread_mutex_unlock(&pool->lock);
    lives->base = base;
    bool done = tn__live_ranges_plan(&pool->context, lives, pool->unit);
    pthread_mutex_lock(&pool->lock);
    return done;
}

/* Whether a plan around the blocks in use needs more bytes than may be reserved. */
static bool iteration_is_high(const tn_pool *pool, const tn__live_ranges *lives) {
    return lives->base == 0 && lives->borders[lives->zones - 1] > tn__iteration_bound(pool, NULL);
}

/* Makes the plan and puts it in force. */
static void iteration_plan(tn_pool *pool) {
    tn__iteration *state = pool->state;
    tn__live_ranges lives = {0};
    bool any = iteration_goes_on(state) &&
               tn__live_ranges_gather(pool, &state->learn, state->period, &lives);
    state->is_planning = true;
    any = any && iteration_plan_from(pool, &lives, lives.base);
    if (any && pool->is_sparse && iteration_is_high(pool, &lives))
        any = iteration_plan_from(pool, &lives, tn__live_ranges_end_of_use(pool));
    if (any && lives.base != 0 && !iteration_is_worth(pool, &lives))
        /* the plan does not fit above the blocks in use, so it is made around them */
        any = iteration_plan_from(pool, &lives, 0);
    state->is_planning = false;
    state->period = 0;
    bool is_wanted = any && iteration_goes_on(state) && !tn__iteration_has_plan(state);
    if (!is_wanted || !iteration_install(pool, &lives)) iteration_wait(state);
    tn__live_ranges_close(&pool->context, &lives);
}

void tn__iteration_rest(tn_pool *pool) {
    tn__iteration *state = pool->state;
    pthread_mutex_lock(&pool->lock);
    bool is_due = !tn__iteration_has_plan(state) && tn__iteration_is_due(state);
    if (is_due && state->period == 0)
        iteration_foresee(pool);
    else if (is_due)
        iteration_plan(pool);
    pthread_mutex_unlock(&pool->lock);
}

void tn__iteration_reclaim(tn_pool *pool) {
    tn__iteration *state = pool->state;
    tn__recorded *recorded = &state->recorded;
    tn__pool_settle(pool);
    tn__lanes_trim(pool, &state->lanes);
    /* slots are marked again, because two blocks may have shared a slot, and one of them is gone */
    memset(recorded->slots.taken, 0,
           tn__slots_words(&recorded->slots) * sizeof *recorded->slots.taken);
    iteration_hold(pool, recorded);
    for (uint32_t i = 0; state->inner > 0 && i < pool->chunk_count; i++)
        if (pool->chunks[i].state == TN__CHUNK_USED && pool->chunks[i].is_inner)
            tn__slots_take(&recorded->slots, pool->chunks[i].before, pool->chunks[i].after);
    tn__lanes_lend(pool, &state->lanes, recorded->base, recorded->borders, recorded->zones);
    state->beyond = 0;
}
