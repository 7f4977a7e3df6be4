/* megengine_interval_move.c - places long-lived buffers first; a new buffer may push others up.
 *
 * Buffers are sorted by the length of their live ranges, then by begin, then by size. A buffer that
 * fits into a hole without raising the peak takes the smallest such hole. Otherwise each place
 * right above an overlapping buffer, and offset 0, is evaluated: the buffers there would move up,
 * and those that lie on them too. The head room of a placed buffer is the minimum, over all buffers
 * above it, of the gap in between plus their head room. A push beyond the head room raises the
 * peak. The place with the least raise is taken, then that with the least push. A plan of the same
 * order without pushing is kept first, so that any limit leaves a result.
 *
 * Cost: O(n^2) for each buffer that finds no hole; for problems of up to a few thousand buffers.
 * Source: MegEngine, static memory allocation, INTERVAL_MOVE.
 */
#include "plan/frame/peers.h"

typedef struct move {
    tn_run *run;
    const tn_run_body *bodies;
    uint32_t *placed; /* numbers of the placed buffers, in order of offset */
    uint64_t *offset; /* [body] */
    uint64_t *room; /* [body], head room: how far the buffer can move up without raising the peak */
    uint32_t count;
    uint64_t peak;
} move;

/* The end of a placed buffer. All sums in this file saturate: tn__run_place refuses offsets that
 * are too high. */
static uint64_t move_end(const move *state, uint32_t id) {
    return tn__add_sat(state->offset[id], state->bodies[id].size);
}

static uint64_t move_align(const move *state, uint32_t id, uint64_t offset) {
    uint64_t mask = state->bodies[id].alignment - 1;
    return tn__add_sat(offset, mask) & ~mask;
}

static bool move_meets(const move *state, uint32_t a, uint32_t b) {
    return tn__peers_meet(&state->bodies[a], &state->bodies[b]);
}

/* Computes the head room of all placed buffers, from the highest to the lowest. */
static void move_measure(move *state) {
    for (uint32_t i = state->count; i-- > 0;) {
        uint32_t id = state->placed[i];
        uint64_t end = move_end(state, id), room = state->peak - end;
        for (uint32_t k = i + 1; k < state->count; k++) {
            uint32_t above = state->placed[k];
            /* `gap` wraps if the buffer `above` begins below this buffer's end; the next line skips
             * that case */
            uint64_t gap = state->offset[above] - end;
            if (state->offset[above] < end || !move_meets(state, id, above)) continue;
            if (gap + state->room[above] < room) room = gap + state->room[above];
        }
        state->room[id] = room;
    }
}

/* Returns the start of the smallest hole in which the buffer does not raise the peak; UINT64_MAX if
 * no such hole exists. */
static uint64_t move_hole(const move *state, uint32_t id) {
    uint64_t top = 0, least = UINT64_MAX, found = UINT64_MAX, size = state->bodies[id].size;
    for (uint32_t i = 0; i <= state->count; i++) {
        bool last = i == state->count;
        if (!last && !move_meets(state, state->placed[i], id)) continue;
        uint64_t start = move_align(state, id, top);
        uint64_t limit = last ? state->peak : state->offset[state->placed[i]];
        if (limit >= start && limit - start >= size && limit - start - size < least) {
            least = limit - start - size;
            found = start;
        }
        if (!last && move_end(state, state->placed[i]) > top)
            top = move_end(state, state->placed[i]);
    }
    return found;
}

typedef struct move_cost {
    uint64_t raise, push;
} move_cost;

/* Computes the cost of placing `id` at `start`: how far the buffers move up that it would overlap
 * in time and bytes, and by how much that raises the peak. */
static move_cost move_weigh(const move *state, uint32_t id, uint64_t start) {
    uint64_t end = tn__add_sat(start, state->bodies[id].size);
    move_cost cost = {end > state->peak ? end - state->peak : 0, 0};
    for (uint32_t i = 0; i < state->count; i++) {
        uint32_t other = state->placed[i];
        if (state->offset[other] >= end) break;
        if (move_end(state, other) <= start || !move_meets(state, id, other)) continue;
        uint64_t push = end - state->offset[other];
        if (push > cost.push) cost.push = push;
        if (push > state->room[other] && push - state->room[other] > cost.raise)
            cost.raise = push - state->room[other];
    }
    return cost;
}

static uint64_t move_choose(move *state, uint32_t id) {
    uint64_t best = move_align(state, id, 0);
    move_measure(state);
    move_cost least = move_weigh(state, id, best);
    for (uint32_t i = 0; i < state->count; i++) {
        if (!move_meets(state, id, state->placed[i])) continue;
        uint64_t start = move_align(state, id, move_end(state, state->placed[i]));
        move_cost cost = move_weigh(state, id, start);
        if (cost.raise > least.raise || (cost.raise == least.raise && cost.push >= least.push))
            continue;
        least = cost;
        best = start;
    }
    return best;
}

static void move_insert(move *state, uint32_t at, uint32_t id) {
    memmove(state->placed + at + 1, state->placed + at,
            (state->count - at) * sizeof *state->placed);
    state->placed[at] = id;
    state->count++;
    if (state->bodies[id].size > 0 && move_end(state, id) > state->peak)
        state->peak = move_end(state, id);
}

/* Places `id` at `start`. All buffers from there up are removed and placed again in their order,
 * each no lower than before and above all overlapping buffers that were placed again earlier. So no
 * buffers conflict, even if the estimated cost was wrong. */
static void move_put(move *state, uint32_t id, uint64_t start) {
    uint32_t from = 0;
    while (from < state->count && move_end(state, state->placed[from]) <= start) from++;
    state->offset[id] = start;
    for (uint32_t i = from; i < state->count; i++) {
        uint32_t other = state->placed[i];
        uint64_t least = state->offset[other];
        if (move_end(state, other) > start && move_meets(state, other, id) &&
            move_end(state, id) > least)
            least = move_end(state, id);
        for (uint32_t k = from; k < i; k++) {
            uint32_t below = state->placed[k];
            if (move_end(state, below) > least && move_meets(state, other, below))
                least = move_end(state, below);
        }
        state->offset[other] = move_align(state, other, least);
        if (move_end(state, other) > state->peak) state->peak = move_end(state, other);
    }
}

static int move_compare_at(const move *state, uint32_t a, uint32_t b) {
    if (state->offset[a] != state->offset[b]) return state->offset[a] < state->offset[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* Sorts the buffers by offset. After a push they are nearly sorted, so it uses insertion sort. */
static void move_sort(move *state) {
    for (uint32_t i = 1; i < state->count; i++) {
        uint32_t id = state->placed[i], at = i;
        for (; at > 0 && move_compare_at(state, state->placed[at - 1], id) > 0; at--)
            state->placed[at] = state->placed[at - 1];
        state->placed[at] = id;
    }
}

static tn_status move_add(move *state, uint32_t id) {
    uint64_t start = state->bodies[id].size == 0 ? 0 : move_hole(state, id);
    uint64_t n = state->count;
    TN_TRY(tn__run_work(state->run, 1 + n / 1024));
    if (start == UINT64_MAX) {
        TN_TRY(tn__run_work(state->run, n * n / 512));
        start = move_choose(state, id);
        move_put(state, id, start);
    }
    state->offset[id] = start;
    if (state->bodies[id].size > 0) move_insert(state, state->count, id);
    move_sort(state);
    return TN_OK;
}

static tn_status megengine_interval_move_solve(tn_run *run) {
    move state = {.run = run, .bodies = tn__run_bodies(run)};
    uint32_t n = tn__run_count(run), count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    state.placed = tn__run_scratch(run, (size_t)n + 1, sizeof *state.placed);
    state.offset = tn__run_scratch(run, n, sizeof *state.offset);
    state.room = tn__run_scratch(run, n, sizeof *state.room);
    if (!keys || !state.placed || !state.offset || !state.room) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const tn_run_body *body = &state.bodies[keys[i].id];
        keys[i].key[0] = tn__run_span(run, keys[i].id);
        keys[i].key[1] = ~(uint64_t)body->first;
        keys[i].key[2] = body->size;
    }
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    TN_TRY(tn__peers_try(run, order, count, tn__choose_tightest));
    if (tn__run_best(run) <= tn__run_lower_bound(run)) return TN_OK;
    for (uint32_t i = 0; i < count; i++) TN_TRY(move_add(&state, order[i]));
    tn__peers_clear(run);
    for (uint32_t i = 0; i < count; i++) tn__run_place(run, order[i], state.offset[order[i]]);
    return TN_OK;
}

const tn_planner tn__planner_megengine_interval_move = {
    .name = "megengine-interval-move",
    .summary = "MegEngine: longest live range first; buffers in the way move up",
    .source = "MegEngine",
    .features = TN_PLANS_ALIGNMENT | TN_PLANS_PIECES,
    .solve = megengine_interval_move_solve,
};
