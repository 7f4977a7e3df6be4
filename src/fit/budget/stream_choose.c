/* stream_choose.c - chooses the blocks that stay, or are held from one use to the next.
 *
 * Each candidate saves one read and holds bytes over some steps. Its benefit is the reduction of
 * the run time, found by building the schedule with it. The candidate with the best benefit per
 * byte and step is taken, until nothing helps or fits. The benefit seldom rises while others are
 * taken; therefore candidates wait in a heap with their earlier benefits, and only the top one is
 * evaluated again. A last round evaluates all of them once more.
 *
 * If only file reads determine the time, every held byte has the same benefit. Small blocks then
 * come first, because each read has a latency; among equals the block that is needed first, because
 * no compute can hide its read. Cost: mostly O(uses) schedules. Source: Minoux 1978 (lazy greedy).
 */
#include "base/heap.h"
#include "fit/budget/stream.h"

typedef struct pick_item {
    double worth; /* benefit in picoseconds per byte and step, at the last evaluation */
    uint32_t use;
} pick_item;

typedef struct pick_state {
    tn__stream *stream;
    pick_item *heap;
    uint32_t count;
    uint64_t time; /* for the currently held uses */
} pick_state;

/* --- the heap: highest benefit first; among equals, the earlier use first --- */

static bool pick_before(const pick_item *a, const pick_item *b) {
    return a->worth != b->worth ? a->worth > b->worth : a->use < b->use;
}

TN__HEAP(pick_heap, pick_item, pick_before)

/* --- candidates --- */

static void pick_set(tn__stream *stream, uint32_t at, bool held) {
    tn__stream_use *use = &stream->uses[at];
    if (use->before == TN_NONE)
        stream->stays[use->block] = held;
    else
        use->held = held;
}

/* Bytes times the steps over which they are held: from the previous use to this one, or all steps
 * for a block that stays. */
static double pick_cost(const tn__stream *stream, uint32_t at) {
    const tn__stream_use *use = &stream->uses[at];
    uint32_t steps =
        use->before == TN_NONE ? stream->steps : use->step - stream->uses[use->before].step;
    return (double)stream->bytes[use->block] * (double)steps;
}

/* The run time with this candidate; UINT64_MAX: it does not fit. */
static uint64_t pick_try(pick_state *state, uint32_t at) {
    tn__stream *stream = state->stream;
    pick_set(stream, at, true);
    uint64_t time = tn__stream_clock(stream) ? stream->time : UINT64_MAX;
    pick_set(stream, at, false);
    return time;
}

static double pick_worth(const pick_state *state, uint32_t at, uint64_t time) {
    if (time >= state->time) return 0;
    double cost = pick_cost(state->stream, at);
    return (double)(state->time - time) / (cost > 0 ? cost : 1);
}

/* --- rounds --- */

static void pick_fill(pick_state *state) {
    const tn__stream *stream = state->stream;
    state->count = 0;
    for (uint32_t u = 0; u < stream->use_count; u++) {
        if (tn__stream_is_there(stream, &stream->uses[u])) continue;
        uint64_t time = pick_try(state, u);
        double worth = time != UINT64_MAX ? pick_worth(state, u, time) : 0;
        if (worth > 0) state->heap[state->count++] = (pick_item){worth, u};
    }
    for (uint32_t i = state->count / 2; i-- > 0;)
        pick_heap_sink(state->heap, state->count, i, state->heap[i]);
}

/* Takes candidates from the heap; returns whether any was taken. */
static bool pick_round(pick_state *state) {
    const tn__stream *stream = state->stream;
    bool any = false;
    pick_fill(state);
    while (state->count > 0) {
        pick_item *top = &state->heap[0];
        bool there = tn__stream_is_there(stream, &stream->uses[top->use]);
        uint64_t time = there ? UINT64_MAX : pick_try(state, top->use);
        double worth = time != UINT64_MAX ? pick_worth(state, top->use, time) : 0;
        if (worth <= 0) {
            pick_heap_pop(state->heap, state->count--);
            continue;
        }
        bool stale = worth < top->worth;
        top->worth = worth;
        uint32_t use = top->use;
        if (stale) pick_heap_sink(state->heap, state->count, 0, *top);
        if (stale && state->heap[0].use != use) continue;
        pick_set(state->stream, use, true);
        state->time = time;
        any = true;
        pick_heap_pop(state->heap, state->count--);
    }
    return any;
}

/* Candidates without a benefit at the given speeds still save reads; takes those that fit and cost
 * no time. */
static void pick_rest(pick_state *state) {
    const tn__stream *stream = state->stream;
    for (uint32_t u = 0; u < stream->use_count; u++) {
        if (tn__stream_is_there(stream, &stream->uses[u]) || pick_try(state, u) > state->time)
            continue;
        pick_set(state->stream, u, true);
    }
}

/* --- starts --- */

typedef struct pick_best {
    bool *stays, *held;  /* [blocks], [uses] */
    uint64_t time, read; /* UINT64_MAX: no result yet */
} pick_best;

static void pick_clear(tn__stream *stream) {
    for (uint32_t b = 0; b < stream->block_count; b++) stream->stays[b] = false;
    for (uint32_t u = 0; u < stream->use_count; u++) stream->uses[u].held = false;
}

static uint64_t pick_read(const tn__stream *stream) {
    uint64_t read = 0;
    for (uint32_t f = 0; f < stream->fetch_count; f++)
        read = tn__add_sat(read, stream->bytes[stream->fetches[f].block]);
    return read;
}

/* Keeps the fastest schedule; on ties, the one that reads less. */
static void pick_keep(tn__stream *stream, pick_best *best) {
    if (!tn__stream_clock(stream)) return;
    uint64_t read = pick_read(stream);
    if (stream->time > best->time || (stream->time == best->time && read >= best->read)) return;
    best->time = stream->time;
    best->read = read;
    memcpy(best->stays, stream->stays, stream->block_count * sizeof *best->stays);
    for (uint32_t u = 0; u < stream->use_count; u++) best->held[u] = stream->uses[u].held;
}

/* Sorts the blocks that may stay, the largest first. */
static tn_status pick_order(tn__stream *stream, tn__sort_item **order, uint32_t *count) {
    *order = tn__arena_array(&stream->arena, (size_t)stream->use_count + 1, sizeof **order);
    *count = 0;
    if (*order == NULL) return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t u = 0; u < stream->use_count; u++)
        if (stream->uses[u].before == TN_NONE)
            (*order)[(*count)++] = (tn__sort_item){
                UINT64_MAX - stream->bytes[stream->uses[u].block], stream->uses[u].block};
    if (!tn__sort_items(stream->arena.context, *order, *count))
        return tn__no_memory(stream->error, "what is fetched");
    return TN_OK;
}

/* A large block that is fetched repeatedly needs room for itself each time. Keeping it may be
 * better, even if other blocks have a higher benefit per byte. Therefore several starts keep the
 * largest few blocks from the beginning, and the best result is taken. */
tn_status tn__stream_choose(tn__stream *stream, bool *found) {
    static const uint32_t starts[] = {0, 1, 2, 4, 8};
    pick_state state = {.stream = stream};
    pick_best best = {.time = UINT64_MAX, .read = UINT64_MAX};
    tn__sort_item *order;
    uint32_t count;
    size_t uses = (size_t)stream->use_count + 1, blocks = (size_t)stream->block_count + 1;
    pick_clear(stream);
    *found = tn__stream_clock(stream);
    if (!*found) return TN_OK;
    state.heap = tn__arena_array(&stream->arena, uses, sizeof *state.heap);
    best.stays = tn__arena_array(&stream->arena, blocks, sizeof *best.stays);
    best.held = tn__arena_array(&stream->arena, uses, sizeof *best.held);
    if (state.heap == NULL || best.stays == NULL || best.held == NULL)
        return tn__no_memory(stream->error, "what is fetched");
    TN_TRY(pick_order(stream, &order, &count));
    for (size_t i = 0; i < sizeof starts / sizeof *starts && starts[i] <= count; i++) {
        pick_clear(stream);
        for (uint32_t k = 0; k < starts[i]; k++) stream->stays[order[k].id] = true;
        if (!tn__stream_clock(stream)) break;
        state.time = stream->time;
        while (pick_round(&state)) {
        }
        pick_rest(&state);
        pick_keep(stream, &best);
    }
    memcpy(stream->stays, best.stays, stream->block_count * sizeof *best.stays);
    for (uint32_t u = 0; u < stream->use_count; u++) stream->uses[u].held = best.held[u];
    *found = tn__stream_clock(stream);
    return TN_OK;
}
