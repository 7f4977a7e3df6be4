/* object_greedy_by_size.c - creates objects for the largest buffers; each other buffer joins the
 * object with the shortest idle time.
 *
 * The i-th positional maximum is the largest i-th greatest size over all steps. A buffer's position
 * is the last positional maximum that is not below its size: the number of objects that could serve
 * all buffers of the position. Positions are handled in turn. Within a position, the pair of buffer
 * and object with the shortest idle time between them is joined first, so that objects have no long
 * idle intervals; ties go to larger, then earlier buffers. Every buffer remembers its best object,
 * and searches again only if that object becomes unavailable, so no table of buffers x objects is
 * needed.
 *
 * Cost: O(n^2) steps, O(n) memory.
 * Source: Pisarchyk and Lee 2020 (arXiv:2001.03288), greedy by size improved; TensorFlow Lite (with
 * its ties: a distance that equals the best one changes nothing).
 */
#include "plan/sharing/object.h"

typedef struct by_size_state {
    tn_object_run *run;
    uint32_t *open; /* records without an object, sorted by position, then number */
    uint32_t open_count;
    uint32_t *position;
    /* idle time between each record and its best object; UINT64_MAX: no object can take the
     * record */
    uint64_t *distance;
    /* [count], the object with the least idle time for each record; valid if `distance` is not
     * UINT64_MAX */
    uint32_t *best_object;
    tn__object_lives *lives;
} by_size_state;

/* Chooses the record that joins its best object next: among the records of the lowest position, the
 * one with the least idle time. Returns an index into `open`. */
static uint32_t by_size_choose(const by_size_state *state) {
    uint32_t best = 0, position = state->position[state->open[0]];
    for (uint32_t at = 1; at < state->open_count; at++) {
        uint32_t a = state->open[at], b = state->open[best];
        if (state->position[a] != position) break;
        if (state->distance[a] != state->distance[b]) {
            if (state->distance[a] < state->distance[b]) best = at;
        } else if (state->run->bulk[a] > state->run->bulk[b]) {
            best = at;
        }
    }
    return best;
}

static uint64_t by_size_gap(const tn_object_record *a, const tn_object_record *b) {
    if (a->first < b->last && b->first < a->last) return UINT64_MAX;
    return a->last <= b->first ? (uint64_t)b->first - (uint64_t)a->last
                               : (uint64_t)a->first - (uint64_t)b->last;
}

static tn_status by_size_look_anew(by_size_state *state, uint32_t id) {
    state->distance[id] = UINT64_MAX;
    for (uint32_t object = 0; object < state->run->object_count; object++) {
        uint64_t distance = tn__object_lives_distance(state->lives, object, id);
        if (distance >= state->distance[id]) continue;
        state->distance[id] = distance;
        state->best_object[id] = object;
    }
    return tn__object_work(state->run, 1 + state->run->object_count / 128);
}

/* Updates the best objects after record `joined` has been added to `object`: records that overlap
 * it can no longer use the object, and records for which the object is now nearer choose it. */
static tn_status by_size_update(by_size_state *state, uint32_t joined, uint32_t object) {
    const tn_object_record *records = state->run->records;
    for (uint32_t at = 0; at < state->open_count; at++) {
        uint32_t id = state->open[at];
        uint64_t gap = by_size_gap(&records[id], &records[joined]);
        if (gap == UINT64_MAX) {
            if (state->distance[id] != UINT64_MAX && state->best_object[id] == object)
                TN_TRY(by_size_look_anew(state, id));
        } else if (gap < state->distance[id] &&
                   tn__object_lives_distance(state->lives, object, id) != UINT64_MAX) {
            state->distance[id] = gap;
            state->best_object[id] = object;
        }
    }
    return tn__object_work(state->run, 1 + state->open_count / 1024);
}

static bool by_size_init(by_size_state *state) {
    tn_object_run *run = state->run;
    uint32_t n = run->count;
    uint32_t *slot = tn__object_scratch(run, (size_t)n + 1, sizeof *slot);
    state->open = tn__object_scratch(run, n, sizeof *state->open);
    state->position = tn__object_scratch(run, n, sizeof *state->position);
    state->distance = tn__object_scratch(run, n, sizeof *state->distance);
    state->best_object = tn__object_scratch(run, n, sizeof *state->best_object);
    state->lives = tn__object_lives_create(run);
    if (!slot || !state->open || !state->position || !state->distance || !state->best_object ||
        !state->lives || tn__object_positions(run, state->position) != TN_OK)
        return false;
    /* counts the records of each position; a position is below n, so slot[position + 1] exists */
    for (uint32_t i = 0; i < n; i++) slot[state->position[i] + 1]++;
    for (uint32_t p = 0; p < n; p++) slot[p + 1] += slot[p];
    for (uint32_t i = 0; i < n; i++) {
        state->open[slot[state->position[i]]++] = i;
        state->distance[i] = UINT64_MAX;
    }
    state->open_count = n;
    return true;
}

static tn_status by_size_solve(tn_object_run *run) {
    by_size_state state = {.run = run};
    if (!by_size_init(&state)) return TN_E_NO_MEMORY;
    while (state.open_count > 0) {
        uint32_t at = by_size_choose(&state), id = state.open[at], object;
        state.open_count--;
        memmove(state.open + at, state.open + at + 1, (state.open_count - at) * sizeof(uint32_t));
        if (state.distance[id] == UINT64_MAX) {
            object = tn__object_new(run, id);
        } else {
            object = state.best_object[id];
            tn__object_join(run, id, object);
        }
        if (!tn__object_lives_add(state.lives, object, id)) return TN_E_NO_MEMORY;
        TN_TRY(by_size_update(&state, id, object));
    }
    return TN_OK;
}

const tn_object_strategy tn__object_greedy_by_size = {
    .name = "greedy-by-size",
    .summary = "larger buffers first, each in the object with the shortest idle time",
    .source = "Pisarchyk and Lee 2020; TensorFlow Lite",
    .features = TN_OBJECTS_BYTES,
    .solve = by_size_solve,
};
