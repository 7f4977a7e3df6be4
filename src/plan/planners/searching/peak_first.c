/* peak_first.c - plans the buffers at the crowded steps (the peak set) first, then the others
 * around them.
 *
 * At a few steps nearly every byte of the lower bound is in use; there buffers must lie without a
 * gap, while other steps have slack. A planner that takes all buffers at once spends its time on
 * the slack. So the buffers that are live at a step with a load above a given fraction of the
 * highest load are planned alone by `scale`. On real networks these are a tenth of the buffers, and
 * `scale` reaches their bound in milliseconds. Peaks that share no buffer are planned separately,
 * because one order seldom suits all of them. The other buffers take the lowest remaining holes, in
 * order of the load at their steps, then of the length of their live ranges. A buffer that ends
 * above the bound joins the peak set in the next turn. If that does not help, another fraction is
 * tried, and then more work for `scale`.
 *
 * Problems with windows, pins or streams are left to `scale`.
 *
 * Cost: per turn O(buffers x buffers live at once), half a second for 10^8 pairs; 60 bytes per
 * buffer.
 * Source: new here; adding the buffers that end too high follows squeaky wheel optimisation
 * (Joslin, Clements 1999).
 */
#include "plan/frame/peers.h"
#include "plan/skyline/weighted_orders.h"

/* number of turns, each of which extends the peak set, with one fraction of the highest load; after
 * these, a plan is usually too high at other steps */
#define PEAK_TURNS 4u
/* number of pairs of simultaneously live buffers that cost as much as one placement */
#define PEAK_PAIRS 128u
/* the peak set is planned separately only if at least 1/4 of the buffers are outside it */
#define PEAK_REST 4u
/* number of placements that `scale` makes for each buffer of the peak set, in the first round */
#define PEAK_WORK 50u
#define PEAK_MORE 4u /* factor by which the placements of `scale` grow from round to round */
/* number of rounds over all fractions of the highest load if the caller set no limit */
#define PEAK_ROUNDS 1u
/* number of rounds over all fractions of the highest load if the caller set a limit */
#define PEAK_ROUNDS_MAX 4u

/* Fractions of the highest load, in 1/4096: a step with a higher load counts as crowded. */
static const uint32_t peak_shares[] = {3584, 3840, 3072, 4032};
#define PEAK_SHARES ((uint32_t)(sizeof peak_shares / sizeof *peak_shares))

typedef struct peak_state {
    tn_run *run;
    tn__weighted_orders orders;
    bool *in_set; /* [count] */
    /* [set_count], buffers of the peak set (those live at a crowded step), sorted by the number of
     * their peak */
    uint32_t *ids;
    tn__subproblem_body *bodies; /* [set_count], buffers of the peak set as a smaller problem */
    uint32_t set_count;
    uint32_t *peak_of; /* [steps + 1], the number of the peak to which each step belongs */
    /* peak_end: [peak_count], index in `ids` after the last buffer of each peak; peak_count: number
     * of peaks */
    uint32_t *peak_end, peak_count;
    uint64_t *offset, *key; /* [count] */
    uint64_t work;          /* number of placements that `scale` makes per buffer of the peak set */
    uint64_t fill_work;     /* units of work to place the other buffers */
    bool kept;              /* whether the run has received a plan from this planner */
} peak_state;

/* Returns the height at which the search ends: the lower bound, or the requested capacity if it is
 * higher. */
static uint64_t peak_goal(tn_run *run) {
    uint64_t bound = tn__run_lower_bound(run), capacity = tn__run_capacity(run);
    return tn__run_has_capacity(run) && capacity > bound ? capacity : bound;
}

static int peak_longer_first(const tn_run_body *a, const tn_run_body *b) {
    uint32_t x = a->last - a->first, y = b->last - b->first;
    if (x != y) return x > y ? -1 : 1;
    return (a->size < b->size) - (a->size > b->size);
}

static tn_status peak_prepare(peak_state *state) {
    tn_run *run = state->run;
    uint32_t n = tn__run_count(run);
    state->in_set = tn__run_scratch(run, n, sizeof *state->in_set);
    state->ids = tn__run_scratch(run, n, sizeof *state->ids);
    state->bodies = tn__run_scratch(run, n, sizeof *state->bodies);
    state->offset = tn__run_scratch(run, n, sizeof *state->offset);
    state->key = tn__run_scratch(run, n, sizeof *state->key);
    state->peak_of =
        tn__run_scratch(run, (size_t)tn__run_time_count(run) + 1, sizeof *state->peak_of);
    state->peak_end = tn__run_scratch(run, (size_t)n + 1, sizeof *state->peak_end);
    if (!state->in_set || !state->ids || !state->bodies || !state->offset || !state->key ||
        !state->peak_of || !state->peak_end)
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) state->ids[i] = i;
    if (!tn__weighted_orders_prepare(run, state->ids, n, &state->orders)) return TN_E_NO_MEMORY;
    if (!tn__peers_degrees(run, state->key)) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        state->fill_work += state->key[i] / PEAK_PAIRS;
        state->key[i] = UINT32_MAX - state->orders.load[i];
    }
    return TN_OK;
}

static bool peak_has(const peak_state *state, uint32_t body) {
    return state->in_set[body] && tn__run_bodies(state->run)[body].size > 0;
}

/* Assigns each step to a peak, a range of steps: two peaks are separated by a step that no live
 * range of the peak set crosses. */
static void peak_divide(peak_state *state) {
    const tn_run_body *bodies = tn__run_bodies(state->run);
    uint32_t times = tn__run_time_count(state->run), live = 0, *change = state->peak_of;
    memset(change, 0, ((size_t)times + 1) * sizeof *change);
    for (uint32_t i = 0; i < tn__run_count(state->run); i++) {
        if (!peak_has(state, i)) continue;
        /* a negative change wraps modulo 2^32, so the sums of changes are right */
        change[bodies[i].first]++;
        change[bodies[i].last]--;
    }
    state->peak_count = 0;
    for (uint32_t t = 0; t <= times; t++) {
        uint32_t before = live;
        live += change[t];
        state->peak_of[t] = state->peak_count;
        /* no live range crosses this step, so a new peak begins */
        state->peak_count += before > 0 && live == 0;
    }
}

/* Sorts the buffers of the peak set by peak, with a counting sort. */
static void peak_gather(peak_state *state) {
    const tn_run_body *bodies = tn__run_bodies(state->run);
    uint32_t *end = state->peak_end, n = tn__run_count(state->run);
    peak_divide(state);
    memset(end, 0, ((size_t)state->peak_count + 1) * sizeof *end);
    for (uint32_t i = 0; i < n; i++)
        if (peak_has(state, i)) end[state->peak_of[bodies[i].first] + 1]++;
    for (uint32_t h = 0; h < state->peak_count; h++) end[h + 1] += end[h];
    state->set_count = end[state->peak_count];
    for (uint32_t i = 0; i < n; i++) {
        if (!peak_has(state, i)) continue;
        uint32_t at = end[state->peak_of[bodies[i].first]]++;
        state->ids[at] = i;
        state->bodies[at] = (tn__subproblem_body){.size = bodies[i].size,
                                                  .alignment = bodies[i].alignment,
                                                  .first = bodies[i].first,
                                                  .last = bodies[i].last,
                                                  .pin = TN__FREE};
    }
}

/* Plans the buffers of each peak separately into offset[]. *peak receives the highest end of all
 * peaks; planning stops after the first peak that ends too high. */
static tn_status peak_plan(peak_state *state, uint64_t *peak) {
    tn_run *run = state->run;
    peak_gather(state);
    *peak = 0;
    tn__subproblem part = {.planner = tn__planner_find("scale"), .capacity = peak_goal(run)};
    for (uint32_t h = 0, from = 0; part.planner != NULL && h < state->peak_count; h++) {
        uint64_t height;
        part.bodies = state->bodies + from;
        part.count = state->peak_end[h] - from;
        part.work_limit = tn__mul_sat(state->work, part.count);
        TN_TRY(tn__run_part(run, &part, state->offset + from, &height));
        from = state->peak_end[h];
        if (height > *peak) *peak = height;
        if (*peak >= tn__run_best(run)) return TN_OK;
    }
    return TN_OK;
}

/* Places the buffers of the peak set, then the other buffers around them. */
static tn_status peak_fill(peak_state *state) {
    tn_run *run = state->run;
    const uint32_t *order;
    uint32_t count;
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (tn__run_placed(run, i)) tn__run_unplace(run, i);
    for (uint32_t i = 0; i < state->set_count; i++)
        tn__run_place(run, state->ids[i], state->offset[i]);
    TN_TRY(tn__run_order_by_key(run, state->key, peak_longer_first, &order, &count));
    TN_TRY(tn__run_greedy_all(run, order, count, tn__choose_lowest));
    TN_TRY(tn__run_keep(run));
    state->kept = true;
    return tn__run_work(run, state->fill_work);
}

/* Adds buffers that end above the bound to the peak set; returns the number of buffers added. */
static uint32_t peak_blame(peak_state *state) {
    tn_run *run = state->run;
    uint64_t goal = peak_goal(run);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        uint64_t end = tn__run_offset(run, i) + tn__run_bodies(run)[i].size;
        if (end <= goal || state->in_set[i]) continue;
        state->in_set[i] = true;
        count++;
    }
    return count;
}

static tn_status peak_share(peak_state *state, uint32_t share) {
    tn_run *run = state->run;
    uint32_t n = tn__run_count(run), count = 0;
    for (uint32_t i = 0; i < n; i++) {
        state->in_set[i] = state->orders.load[i] >= share;
        count += state->in_set[i];
    }
    /* nearly all buffers are in the peak set; `scale` plans them just as well */
    if (count > n - n / PEAK_REST) return TN_OK;
    for (uint32_t turn = 0; turn < PEAK_TURNS && !tn__run_is_done(run); turn++) {
        uint64_t peak;
        TN_TRY(peak_plan(state, &peak));
        /* the peak set alone is already as high as the best plan */
        if (peak >= tn__run_best(run)) return TN_OK;
        TN_TRY(peak_fill(state));
        if (peak_blame(state) == 0) return TN_OK;
    }
    return TN_OK;
}

static tn_status peak_solve(tn_run *run) {
    peak_state state = {.run = run, .work = PEAK_WORK};
    uint32_t rounds = tn__run_is_limited(run) ? PEAK_ROUNDS_MAX : PEAK_ROUNDS;
    if (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT) return tn__run_as(run, "scale");
    TN_TRY(peak_prepare(&state));
    for (uint32_t round = 0; round < rounds; round++, state.work *= PEAK_MORE)
        for (uint32_t i = 0; i < PEAK_SHARES && !tn__run_is_done(run); i++)
            TN_TRY(peak_share(&state, peak_shares[i]));
    /* with every fraction of the load the peak set contained nearly all buffers, so no plan was
     * made */
    return state.kept ? TN_OK : tn__run_as(run, "scale");
}

const tn_planner tn__planner_peak_first = {
    .name = "peak-first",
    .summary = "plans the buffers that are live near the peak first, then the others around them",
    .source = "ours; squeaky wheel (Joslin 1999)",
    .features = TN_PLANS_ALL,
    .solve = peak_solve,
};
