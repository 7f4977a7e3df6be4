/* colouring.c - colours the interference graph, and assigns offsets in the order of the colours.
 *
 * Two buffers interfere if their live ranges overlap; buffers of one colour do not interfere. Three
 * ways to colour are tried: in order of time (which needs the fewest colours, because the graph is
 * an interval graph); the largest buffer first; and the most constrained first (DSATUR: the buffer
 * with the most colours among its neighbours, then the larger). Colours then act as layers: buffers
 * take their lowest place in order of colour, and within a colour the larger ones come first. This
 * treats memory as a register allocator treats registers, with sizes as weights.
 *
 * Cost: O(n log n) for the first way, O(n^2) for the others, which are left out beyond
 * COLOURING_MAX buffers; three greedy placements.
 * Source: Chaitin 1982; Brelaz 1979 (DSATUR); weighted colouring as in tensor allocators.
 */
#include "plan/frame/peers.h"

/* limit of buffers for the two ways to colour that take O(n^2) time: 2^28 pairs of buffers are
 * checked */
#define COLOURING_MAX 16384u

typedef struct colouring {
    tn_run *run;
    const tn_run_body *bodies;
    uint32_t *colour;    /* [body] */
    uint8_t *done;       /* [body] */
    uint64_t *taken;     /* [body] a row of bits for each buffer: the colours of its neighbours */
    uint32_t *different; /* [body] number of different colours among each buffer's neighbours */
    uint32_t words;
    const uint32_t *by_size;
    uint32_t count;
} colouring;

static tn_status colouring_place(colouring *state) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(state->run, &count);
    if (keys == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        keys[i].key[0] = ~(uint64_t)state->colour[keys[i].id];
        keys[i].key[1] = state->bodies[keys[i].id].size;
    }
    const uint32_t *order = tn__peers_order(state->run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__peers_try_lower(state->run, order, count, tn__choose_lowest);
}

typedef struct colouring_event {
    uint32_t time;
    /* 1: the event is the begin of a live range; 0: it is the end. At equal times, ends come before
     * begins. */
    uint32_t starts;
    uint64_t size;
    uint32_t body;
} colouring_event;

static int colouring_compare(const void *a, const void *b) {
    const colouring_event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->starts != y->starts) return x->starts < y->starts ? -1 : 1;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return (x->body > y->body) - (x->body < y->body);
}

/* Colours the buffers in order of time: each takes the free colour that was released last. */
static tn_status colouring_by_time(colouring *state) {
    uint32_t n = tn__run_count(state->run), free_count = 0, colours = 0;
    colouring_event *events = tn__run_scratch(state->run, 2 * (size_t)n, sizeof *events);
    uint32_t *free_colours = tn__run_scratch(state->run, n, sizeof *free_colours);
    if (events == NULL || free_colours == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        const tn_run_body *body = &state->bodies[i];
        events[2 * (size_t)i] = (colouring_event){body->first, 1, body->size, i};
        events[2 * (size_t)i + 1] = (colouring_event){body->last, 0, body->size, i};
    }
    qsort(events, 2 * (size_t)n, sizeof *events, colouring_compare);
    for (size_t i = 0; i < 2 * (size_t)n; i++) {
        uint32_t body = events[i].body;
        if (!events[i].starts)
            free_colours[free_count++] = state->colour[body];
        else
            state->colour[body] = free_count > 0 ? free_colours[--free_count] : colours++;
    }
    return tn__run_work(state->run, n);
}

static uint32_t colouring_lowest(const colouring *state, uint32_t body) {
    const uint64_t *row = state->taken + (size_t)body * state->words;
    uint32_t word = 0;
    /* the row has as many bits as there are buffers, so at least one colour is free */
    while (row[word] == UINT64_MAX) word++;
    return 64 * word + (uint32_t)__builtin_ctzll(~row[word]);
}

static uint32_t colouring_most_constrained(const colouring *state) {
    uint32_t best = UINT32_MAX;
    /* buffers are sorted by size, so among equally constrained buffers the first one found is the
     * largest */
    for (uint32_t i = 0; i < state->count; i++) {
        uint32_t body = state->by_size[i];
        if (state->done[body]) continue;
        if (best == UINT32_MAX || state->different[body] > state->different[best]) best = body;
    }
    return best;
}

static tn_status colouring_greedy(colouring *state, bool most_constrained) {
    uint32_t n = tn__run_count(state->run);
    memset(state->done, 0, n);
    memset(state->different, 0, n * sizeof *state->different);
    memset(state->taken, 0, (size_t)n * state->words * sizeof *state->taken);
    for (uint32_t i = 0; i < state->count; i++) {
        uint32_t body = most_constrained ? colouring_most_constrained(state) : state->by_size[i];
        uint32_t colour = colouring_lowest(state, body);
        uint64_t bit = 1ull << colour % 64;
        state->colour[body] = colour;
        state->done[body] = 1;
        for (uint32_t other = 0; other < n; other++) {
            uint64_t *word = state->taken + (size_t)other * state->words + colour / 64;
            if (!tn__peers_meet(&state->bodies[body], &state->bodies[other]) || *word & bit)
                continue;
            *word |= bit;
            state->different[other]++;
        }
        TN_TRY(tn__run_work(state->run, 1 + n / 512));
    }
    return TN_OK;
}

static tn_status colouring_solve(tn_run *run) {
    colouring state = {.run = run, .bodies = tn__run_bodies(run)};
    uint32_t n = tn__run_count(run);
    state.colour = tn__run_scratch(run, n, sizeof *state.colour);
    if (state.colour == NULL) return TN_E_NO_MEMORY;
    TN_TRY(colouring_by_time(&state));
    TN_TRY(colouring_place(&state));
    if (n > COLOURING_MAX) return TN_OK;
    state.words = n / 64 + 1;
    tn__peers_key *keys = tn__peers_keys(run, &state.count);
    state.done = tn__run_scratch(run, n, sizeof *state.done);
    state.different = tn__run_scratch(run, n, sizeof *state.different);
    state.taken = tn__run_scratch(run, (size_t)n * state.words, sizeof *state.taken);
    if (!keys || !state.done || !state.different || !state.taken) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < state.count; i++) {
        keys[i].key[0] = state.bodies[keys[i].id].size;
        keys[i].key[1] = tn__run_span(run, keys[i].id);
    }
    state.by_size = tn__peers_order(run, keys, state.count);
    if (state.by_size == NULL) return TN_E_NO_MEMORY;
    for (int which = 0; which < 2; which++) {
        if (tn__run_best(run) <= tn__run_lower_bound(run)) break;
        TN_TRY(colouring_greedy(&state, which == 1));
        TN_TRY(colouring_place(&state));
    }
    return TN_OK;
}

const tn_planner tn__planner_colouring = {
    .name = "colouring",
    .summary = "graph colouring: each colour is a layer; by time, by size, and DSATUR",
    .source = "Chaitin 1982; Brelaz 1979",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = colouring_solve,
};
