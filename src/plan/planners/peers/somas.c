/* somas.c - tries eight combinations (two ways to place, two orders, two choices of a hole) and
 * keeps the best.
 *
 * Buffers are placed anywhere ("single object"), or in levels ("shared objects"): the first buffer
 * of a level sets its height, and a buffer goes into the lowest level in which all of it fits
 * between the overlapping buffers; if it fits into no level, it opens one on top. The orders are:
 * by size; or the buffers of the fullest step first, then by size. The choices of a hole are: the
 * smallest, or the lowest. MindSpore prefers levels unless 100 MiB are saved, because such plans
 * change little; here the lowest peak is kept.
 *
 * Cost: eight greedy placements; O(n x levels) for the four with levels.
 * Source: MindSpore, SOMAS (MLSys 2023), its solver's heuristics.
 */
#include "plan/frame/peers.h"

typedef struct somas {
    tn_run *run;
    const uint32_t *order;
    uint32_t count;
    /* offset at which each level begins; level[level_count] is the end of the highest one */
    uint64_t *level;
    uint32_t level_count;
} somas;

/* Sets at_peak[body] to 1 for buffers that are live at the fullest step (the first of equally full
 * ones), to 0 for others. */
static bool somas_at_peak(tn_run *run, uint64_t *at_peak) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const tn_run_piece *pieces = tn__run_pieces(run);
    uint32_t n = tn__run_count(run), times = tn__run_time_count(run), peak = 0;
    uint64_t *live = tn__run_scratch(run, (size_t)times + 1, sizeof *live);
    if (live == NULL) return false;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < bodies[i].piece_count; k++) {
            const tn_run_piece *piece = &pieces[bodies[i].piece_first + k];
            live[piece->first] += piece->hi - piece->lo;
            /* a negative change wraps modulo 2^64, so the sum of changes is right */
            live[piece->last] -= piece->hi - piece->lo;
        }
    }
    for (uint32_t t = 1; t < times; t++) {
        live[t] += live[t - 1];
        if (live[t] > live[peak]) peak = t;
    }
    for (uint32_t i = 0; i < n; i++) at_peak[i] = bodies[i].first <= peak && peak < bodies[i].last;
    return true;
}

/* Finds the best start of a buffer in a level, for starts from `low` to `high`: the start in the
 * smallest hole if `tightest`, else the lowest start. Holes are cut off at both ends of the
 * level. */
static bool somas_choose(const tn_hole *holes, uint32_t count, uint64_t low, uint64_t high,
                         uint64_t alignment, bool tightest, uint64_t *start) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t first = holes[i].first, last = holes[i].last;
        if (first < low && !tn__align_up(low, alignment, &first)) continue;
        if (high < last) last = high;
        if (first > last) continue;
        if (last - first >= least) continue;
        least = last - first;
        *start = first;
        if (!tightest) break;
    }
    return least != UINT64_MAX;
}

static tn_status somas_in_levels(somas *state, uint32_t id, bool tightest) {
    const tn_run_body *body = &tn__run_bodies(state->run)[id];
    const tn_hole *holes;
    uint32_t count;
    TN_TRY(tn__run_holes(state->run, id, &holes, &count));
    TN_TRY(tn__run_work(state->run, state->level_count / 256));
    for (uint32_t k = 0; k < state->level_count; k++) {
        uint64_t low = state->level[k], high = state->level[k + 1], start;
        if (high - low < body->size) continue;
        if (!somas_choose(holes, count, low, high - body->size, body->alignment, tightest, &start))
            continue;
        tn__run_place(state->run, id, start);
        return TN_OK;
    }
    /* no level has a hole for the buffer, so a new level begins above all levels and all
     * overlapping buffers */
    uint64_t start = holes[count - 1].first;
    uint64_t top = state->level[state->level_count];
    if (start < top && !tn__align_up(top, body->alignment, &start)) start = UINT64_MAX;
    tn__run_place(state->run, id, start);
    state->level[state->level_count++] = start;
    state->level[state->level_count] = tn__add_sat(start, body->size);
    return TN_OK;
}

static tn_status somas_levels(somas *state, bool tightest) {
    tn__peers_clear(state->run);
    state->level_count = 0;
    state->level[0] = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        TN_TRY(somas_in_levels(state, state->order[i], tightest));
        if (state->level[state->level_count] >= tn__run_best(state->run)) return TN_OK;
    }
    return tn__run_keep(state->run);
}

static tn_status somas_order(somas *state, const uint64_t *at_peak) {
    tn__peers_key *keys = tn__peers_keys(state->run, &state->count);
    if (keys == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < state->count; i++) {
        keys[i].key[0] = at_peak != NULL ? at_peak[keys[i].id] : 0;
        keys[i].key[1] = tn__run_bodies(state->run)[keys[i].id].size;
    }
    state->order = tn__peers_order(state->run, keys, state->count);
    return state->order != NULL ? TN_OK : TN_E_NO_MEMORY;
}

static tn_status somas_solve(tn_run *run) {
    somas state = {.run = run};
    uint32_t n = tn__run_count(run);
    uint64_t *at_peak = tn__run_scratch(run, n, sizeof *at_peak);
    state.level = tn__run_scratch(run, (size_t)n + 1, sizeof *state.level);
    if (at_peak == NULL || state.level == NULL || !somas_at_peak(run, at_peak))
        return TN_E_NO_MEMORY;
    for (int which = 0; which < 8; which++) {
        bool tightest = which % 2 == 0;
        if (which % 4 == 0) TN_TRY(somas_order(&state, which == 0 ? NULL : at_peak));
        TN_TRY(which / 2 % 2 == 0
                   ? tn__peers_try_lower(run, state.order, state.count,
                                         tightest ? tn__choose_tightest : tn__choose_lowest)
                   : somas_levels(&state, tightest));
        if (tn__run_best(run) <= tn__run_lower_bound(run)) break;
    }
    return TN_OK;
}

const tn_planner tn__planner_somas = {
    .name = "somas",
    .summary = "MindSpore's SOMAS: the best of eight greedy orders and placements",
    .source = "MindSpore SOMAS (MLSys 2023)",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = somas_solve,
};
