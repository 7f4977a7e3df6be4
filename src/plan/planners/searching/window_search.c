/* window_search.c - repairs a plan at the steps where it is too high: plans windows of time again,
 * around the other buffers.
 *
 * Most plans are too high at a few steps only. Around each buffer that ends above the bound, a
 * window of time is opened: buffers that are live only inside it may move, buffers that extend
 * beyond it stay at their offsets, and `exact` plans the window. The new plan is kept if it is
 * lower. Windows begin narrow and grow, as long as they contain few enough buffers; every round
 * covers the whole time axis once.
 *
 * Problems with windows of bytes, or streams, are left to `scale`.
 *
 * It works well if few buffers are live at once, for any number of buffers in total; it is useless
 * if thousands are live at once. It starts from the best plan so far, else from that of
 * greedy-by-size.
 *
 * Cost: some milliseconds per window, plus O(n log n). 60 bytes per buffer.
 * Source: new here; a large neighbourhood search (Shaw 1998).
 */
#include "plan/frame/planner.h"

#define WINDOW_BODIES 800u /* limit of buffers that overlap a window */
/* number of buffers inside a window in the first round; it doubles in each next round */
#define WINDOW_NARROW 16u
/* number of rounds, each with wider windows, after which windows are narrow again */
#define WINDOW_WIDTHS 4u
/* nodes of `exact` for a window of the first rounds; fewer if many buffers overlap it */
#define WINDOW_WORK 3000u
/* work of `exact` per buffer before its search begins, which is added to its nodes */
#define WINDOW_BEGIN 60u
#define WINDOW_ROUNDS 16u       /* limit of rounds if the caller set no limit */
#define WINDOW_WINDOWS 2000u    /* limit of windows per round if the caller set no limit */
#define WINDOW_ROUNDS_MAX 1000u /* limit of rounds if the caller set a limit of work or time */

typedef struct window_state {
    tn_run *run;
    uint64_t *best;   /* [count], offsets of the current plan */
    uint32_t *order;  /* [count], buffers that end above the goal, in order of number */
    uint32_t *inside; /* [WINDOW_BODIES], buffers that are live only inside the window */
    tn__subproblem_body *bodies;
    uint64_t *offset;
    uint32_t target; /* number of buffers that a window should contain */
    /* the peak that this round tries to reach, at least one byte below the best peak */
    uint64_t goal;
    bool better; /* in this round, a window was planned again with all its buffers below the goal */
} window_state;

static uint64_t window_end(const window_state *state, uint32_t body) {
    return state->best[body] + tn__run_bodies(state->run)[body].size;
}

/* Places all buffers as in the plan, lowest first. */
static tn_status window_place_all(window_state *state) {
    tn_run *run = state->run;
    const uint32_t *order;
    uint32_t count;
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (tn__run_placed(run, i) && !tn__run_pinned(run, i)) tn__run_unplace(run, i);
    TN_TRY(tn__run_order_by_key(run, state->best, tn__larger_first, &order, &count));
    for (uint32_t i = 0; i < count; i++) tn__run_place(run, order[i], state->best[order[i]]);
    return tn__run_work(run, 0);
}

/* Opens a window of time around a buffer, with about `target` buffers inside. *near lists the
 * buffers that overlap the window; returns their number, or 0 if they are too many. */
static uint32_t window_open(window_state *state, uint32_t body, uint32_t steps[2],
                            const uint32_t **near) {
    tn_run *run = state->run;
    const tn_run_body *bodies = tn__run_bodies(run), *facts = &bodies[body];
    uint32_t end = tn__run_time_count(run) - 1, margin = 0;
    for (;;) {
        steps[0] = facts->first > margin ? facts->first - margin : 0;
        steps[1] = end - facts->last > margin ? facts->last + margin : end;
        uint32_t count = tn__run_near(run, steps[0], steps[1], near), inside = 0;
        if (count > WINDOW_BODIES) return 0;
        for (uint32_t i = 0; i < count; i++)
            inside += bodies[(*near)[i]].first >= steps[0] && bodies[(*near)[i]].last <= steps[1];
        if (inside >= state->target || (steps[0] == 0 && steps[1] == end)) return count;
        margin += margin / 2 + 1;
    }
}

static bool window_is_free(const window_state *state, uint32_t id, const uint32_t steps[2]) {
    const tn_run_body *body = &tn__run_bodies(state->run)[id];
    return !tn__run_pinned(state->run, id) && body->first >= steps[0] && body->last <= steps[1];
}

/* Makes a smaller problem of the `count` buffers in inside[], where buffers that are not free in
 * this window are pinned; returns the number of buffers left in it. Bytes of pinned buffers above
 * the goal are ignored, because another window will repair these buffers. */
static uint32_t window_fill(window_state *state, const uint32_t steps[2], uint32_t count) {
    tn_run *run = state->run;
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = state->inside[i];
        const tn_run_body *body = &tn__run_bodies(run)[id];
        tn__subproblem_body made = {.size = body->size,
                                    .alignment = body->alignment,
                                    .first = body->first > steps[0] ? body->first : steps[0],
                                    .last = body->last < steps[1] ? body->last : steps[1],
                                    .pin = TN__FREE};
        if (!window_is_free(state, id, steps)) {
            if (state->best[id] >= state->goal) continue;
            made.pin = state->best[id];
            if (window_end(state, id) > state->goal) made.size = state->goal - made.pin;
        }
        state->inside[left] = id;
        state->bodies[left++] = made;
    }
    return left;
}

static void window_move(window_state *state, uint32_t count) {
    tn_run *run = state->run;
    for (uint32_t i = 0; i < count; i++) {
        if (state->bodies[i].pin != TN__FREE) continue;
        tn__run_unplace(run, state->inside[i]);
        state->best[state->inside[i]] = state->offset[i];
        tn__run_place(run, state->inside[i], state->offset[i]);
    }
    state->better = true;
}

static tn_status window_window(window_state *state, uint32_t body, uint64_t work) {
    tn_run *run = state->run;
    uint32_t steps[2];
    const uint32_t *near;
    uint32_t count = window_open(state, body, steps, &near);
    TN_TRY(tn__run_work(run, 1));
    if (count < 2) return TN_OK;
    memcpy(state->inside, near, count * sizeof *near);
    count = window_fill(state, steps, count);
    uint64_t peak;
    tn__subproblem part = {.bodies = state->bodies,
                           .count = count,
                           .planner = tn__planner_find("exact"),
                           .capacity = state->goal,
                           .work_limit =
                               (uint64_t)WINDOW_BEGIN * count + work * WINDOW_NARROW / count};
    if (part.planner == NULL) return TN_OK;
    TN_TRY(tn__run_part(run, &part, state->offset, &peak));
    if (peak <= state->goal) window_move(state, count);
    return TN_OK;
}

/* Lists the buffers that end above `height` in state->order, in order of number; returns how many
 * there are. */
static uint32_t window_find_high(window_state *state, uint64_t height) {
    const tn_run_body *bodies = tn__run_bodies(state->run);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn__run_count(state->run); i++)
        if (bodies[i].size > 0 && !tn__run_pinned(state->run, i) && window_end(state, i) > height)
            state->order[count++] = i;
    return count;
}

/* One round: tries to repair all buffers that end above a goal, which lies `eighths` eighths of the
 * way down from the best peak to the bound. */
static tn_status window_round(window_state *state, uint32_t round, uint32_t eighths) {
    tn_run *run = state->run;
    uint64_t bound = tn__run_lower_bound(run), gap = tn__run_best(run) - bound;
    /* the goal is at least one byte lower than the best peak */
    uint64_t step = gap / 8 * eighths + (gap % 8 * eighths + 7) / 8;
    state->goal = tn__run_best(run) - step;
    uint32_t count = window_find_high(state, state->goal);
    bool limited = tn__run_is_limited(run);
    state->better = false;
    state->target = WINDOW_NARROW << round % WINDOW_WIDTHS;
    for (uint32_t i = 0; i < count && (limited || i < WINDOW_WINDOWS); i++) {
        /* this buffer was lowered together with another one, in an earlier window of this round */
        if (window_end(state, state->order[i]) <= state->goal) continue;
        TN_TRY(
            window_window(state, state->order[i], (uint64_t)WINDOW_WORK << round / WINDOW_WIDTHS));
    }
    tn__run_keep_offsets(run, state->best);
    return TN_OK;
}

static tn_status window_begin(window_state *state) {
    tn_run *run = state->run;
    uint32_t n = tn__run_count(run);
    if (tn__run_best(run) == UINT64_MAX) TN_TRY(tn__run_as(run, "greedy-by-size"));
    state->best = tn__run_scratch(run, n, sizeof *state->best);
    state->order = tn__run_scratch(run, n, sizeof *state->order);
    state->inside = tn__run_scratch(run, WINDOW_BODIES, sizeof *state->inside);
    state->bodies = tn__run_scratch(run, WINDOW_BODIES, sizeof *state->bodies);
    state->offset = tn__run_scratch(run, WINDOW_BODIES, sizeof *state->offset);
    if (!state->best || !state->order || !state->inside || !state->bodies || !state->offset)
        return TN_E_NO_MEMORY;
    memcpy(state->best, tn__run_best_offsets(run), n * sizeof *state->best);
    return window_place_all(state);
}

static tn_status window_solve(tn_run *run) {
    window_state state = {.run = run};
    uint32_t most = tn__run_is_limited(run) ? WINDOW_ROUNDS_MAX : WINDOW_ROUNDS, eighths = 4;
    if (tn__run_needs(run) & (TN_PLANS_PIECES | TN_PLANS_STREAMS)) return tn__run_as(run, "scale");
    TN_TRY(window_begin(&state));
    for (uint32_t round = 0, idle = 0; round < most && idle < WINDOW_WIDTHS; round++) {
        uint64_t before = tn__run_best(run);
        if (before <= tn__run_lower_bound(run)) return TN_OK;
        tn_status status = window_round(&state, round, eighths);
        tn__run_keep_offsets(run, state.best);
        if (status != TN_OK) return status;
        bool lower = tn__run_best(run) < before;
        idle = lower || state.better || eighths > 1 ? 0 : idle + 1;
        if (lower)
            eighths = 4;
        else if (round % WINDOW_WIDTHS + 1 == WINDOW_WIDTHS && eighths > 1)
            eighths /= 2;
    }
    return TN_OK;
}

const tn_planner tn__planner_window_search = {
    .name = "window-search",
    .summary = "lowers a plan where it is too high: exact plans windows of time again",
    .source = "Shaw 1998 (large neighbourhoods); ours",
    .features = TN_PLANS_ALL,
    .solve = window_solve,
};
