/* capuchin.c - swaps and recomputes values, guided by the times at which tensors are accessed.
 *
 * Passive mode: swapping on demand (capuchin_passive.c), which needs no knowledge of the future.
 * Measured execution: the accesses of a run, with their times, are the gaps of the work on the time
 * axis of its costs. The policy then repeats: it looks at a job where memory is above the budget,
 * and chooses one gap that covers it:
 *
 *     FT    of a swap: the time from the end of the copy out to the start of the copy back. A gap
 *           with FT >= 0 is hidden by compute; such gaps are chosen first, the largest FT first
 *     MSPS  of recomputing: bytes saved per unit of time, including the time for all sources that
 *           are evicted by then. If no gap is hidden, the gap with the largest MSPS is compared,
 *           per byte, with the swap that is least exposed
 *
 * A choice changes the costs of the others, because a source may now be evicted; costs are
 * therefore computed anew each time. A copy back starts at the last job (the in-trigger) that
 * leaves enough time for it, but not before memory was above the budget for the last time. Compute
 * waits for a copy out only where its memory is needed. Guided execution with feedback: the
 * schedule is timed, and the in-trigger of a late value is moved ahead by a twentieth of its copy,
 * as long as that helps.
 *
 * The policy runs three times (swaps and recomputation, and each alone), and the fastest result
 * that fits is kept: FT takes the queue of copies out into account, but not later uses of the link.
 * Cost: O(choices x (acts + gaps)). Source: Peng et al., "Capuchin" (2020).
 */
#include "fit/budget/capuchin.h"

#include <inttypes.h>
#include <stdio.h>

#define CAPUCHIN_FEEDBACK 40 /* rounds */

typedef struct capuchin_state {
    tn__pass_run *run;
    tn__gaps gaps;
    tn__capuchin_clock clock;
    tn__schedule schedule;
    uint32_t allow;    /* TN__ALLOW_SWAP, TN__ALLOW_RECOMPUTE: allowed in the current policy */
    uint64_t *profile; /* [jobs] bytes if everything is kept */
    uint64_t *late;    /* [gaps] how late each copy back is, for the feedback */
    tn__text told;     /* decisions of the policy whose schedule was kept */
    uint32_t worst;    /* job at which the schedule needs the most bytes */
    tn__replay found;
} capuchin_state;

static uint64_t capuchin_bytes(const capuchin_state *s, uint32_t gap) {
    return s->run->work->values[s->gaps.list[gap].value].bytes;
}

/* --- the schedule of the choices --- */

/* The next job in the order of first runs, at each act. */
static uint32_t capuchin_job_of(const capuchin_state *s, uint32_t act) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < act; i++)
        if (s->schedule.acts[i].kind == TN__RUN && s->schedule.acts[i].what == next) next++;
    return next;
}

static tn_status capuchin_build(capuchin_state *s, bool *possible) {
    TN_TRY(tn__capuchin_place(&s->clock));
    TN_TRY(tn__gaps_schedule(&s->gaps, &s->schedule, possible));
    if (!*possible) return TN_OK;
    TN_TRY(tn__replay_schedule(s->run->work, &s->schedule, &s->found, NULL, s->run->error));
    s->worst = capuchin_job_of(s, s->found.peak_act);
    return tn__pass_work(s->run, s->schedule.count + s->gaps.count);
}

/* --- choosing --- */

typedef struct capuchin_offer {
    uint32_t gap; /* TN_NONE: none */
    tn__gap_how how;
    int64_t ft;
    uint64_t overhead; /* time */
} capuchin_offer;

/* Whether a costs less per byte than b. */
static bool capuchin_cheaper(const capuchin_state *s, const capuchin_offer *a,
                             const capuchin_offer *b) {
    if (b->gap == TN_NONE) return true;
    double x = (double)a->overhead / (double)capuchin_bytes(s, a->gap);
    double y = (double)b->overhead / (double)capuchin_bytes(s, b->gap);
    return x < y;
}

static void capuchin_look(capuchin_state *s, uint32_t index, capuchin_offer *hidden,
                          capuchin_offer *exposed, capuchin_offer *again) {
    const tn__gap *gap = &s->gaps.list[index];
    if ((s->allow & TN__ALLOW_SWAP) &&
        (s->run->work->values[gap->value].flags & TN__VALUE_COPIES)) {
        capuchin_offer swap = {index, TN__GAP_SWAP, tn__capuchin_ft(&s->clock, index), 0};
        if (swap.ft < 0) swap.overhead = (uint64_t)-swap.ft;
        if (swap.ft >= 0 && (hidden->gap == TN_NONE || swap.ft > hidden->ft)) *hidden = swap;
        if (swap.ft < 0 && capuchin_cheaper(s, &swap, exposed)) *exposed = swap;
    }
    if (!(s->allow & TN__ALLOW_RECOMPUTE)) return;
    capuchin_offer run = {index, TN__GAP_AGAIN, 0, tn__gaps_again_cost(&s->gaps, index)};
    if (run.overhead != UINT64_MAX && capuchin_cheaper(s, &run, again)) *again = run;
}

static void capuchin_tell(const capuchin_state *s, const capuchin_offer *offer) {
    char why[120];
    double bytes = (double)capuchin_bytes(s, offer->gap);
    if (s->run->explain == NULL) return;
    if (offer->how == TN__GAP_SWAP)
        snprintf(why, sizeof why, "FT %" PRId64 "%s", offer->ft,
                 offer->ft >= 0 ? ", hidden" : ", exposed, and still the least for a byte");
    else
        snprintf(why, sizeof why, "MSPS %.4g bytes a unit of time, takes %" PRIu64,
                 offer->overhead > 0 ? bytes / (double)offer->overhead : bytes, offer->overhead);
    tn__gaps_explain(&s->gaps, offer->gap, offer->how == TN__GAP_SWAP ? "swap" : "compute again",
                     why);
}

/* Chooses one more gap that covers the worst job. */
static bool capuchin_choose(capuchin_state *s) {
    capuchin_offer hidden = {.gap = TN_NONE}, exposed = hidden, again = hidden;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__gap *gap = &s->gaps.list[g];
        if (gap->how == TN__GAP_KEEP && gap->leave < s->worst && gap->back > s->worst)
            capuchin_look(s, g, &hidden, &exposed, &again);
    }
    const capuchin_offer *best = &hidden;
    if (best->gap == TN_NONE) best = again.gap != TN_NONE ? &again : &exposed;
    if (best == &again && exposed.gap != TN_NONE && capuchin_cheaper(s, &exposed, &again))
        best = &exposed;
    if (best->gap == TN_NONE) return false;
    s->gaps.list[best->gap].how = best->how;
    capuchin_tell(s, best);
    return true;
}

/* When no gap is left to choose: makes compute wait for the first copy out, or delays a copy
 * back. */
static bool capuchin_relieve(capuchin_state *s) {
    uint32_t first = TN_NONE, job = s->worst;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__gap *gap = &s->gaps.list[g];
        if (gap->how != TN__GAP_SWAP || gap->leave >= job || gap->back < job) continue;
        if (job < gap->settle && (first == TN_NONE || gap->leave < s->gaps.list[first].leave))
            first = g;
    }
    if (first != TN_NONE) {
        s->clock.settle_by[first] = job;
        tn__gaps_explain(&s->gaps, first, "wait for", "its memory is needed before it is copied");
        return true;
    }
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        const tn__gap *gap = &s->gaps.list[g];
        if (gap->how != TN__GAP_SWAP || gap->trigger > job || gap->back <= job) continue;
        if (gap->leave >= job) continue;
        s->clock.trigger_from[g] = job + 1;
        tn__gaps_explain(&s->gaps, g, "fetch later", "there is no room for it so early");
        return true;
    }
    if (!s->gaps.again_first) return false;
    s->gaps.again_first = false; /* intermediates do not stay live */
    return true;
}

/* --- the policy, guided execution --- */

/* Notes that the gap that ends with this reader is late. */
static void capuchin_note(void *self, uint32_t value, uint32_t job, uint64_t time) {
    capuchin_state *s = self;
    for (uint32_t g = s->gaps.first[value]; g < s->gaps.first[value + 1]; g++)
        if (s->gaps.list[g].back == job && s->gaps.list[g].how == TN__GAP_SWAP) s->late[g] = time;
}

static tn_status capuchin_feedback(capuchin_state *s) {
    const tn__pass_watch watch = {capuchin_note, s};
    bool kept, possible = true;
    for (int round = 0; round < CAPUCHIN_FEEDBACK; round++) {
        bool any = false;
        for (uint32_t g = 0; g < s->gaps.count; g++) s->late[g] = 0;
        if (tn__pass_time(s->run, &s->schedule, &watch) == UINT64_MAX)
            return tn__no_memory(s->run->error, "feedback");
        for (uint32_t g = 0; g < s->gaps.count; g++) {
            if (s->late[g] == 0) continue;
            uint64_t copy = tn__gaps_in(&s->gaps, &s->gaps.list[g]);
            s->clock.lead[g] = tn__add_sat(s->clock.lead[g], copy / 20 + 1);
            if (round == 0) tn__gaps_explain(&s->gaps, g, "fetch earlier", "it came too late");
            any = true;
        }
        if (!any) return TN_OK;
        TN_TRY(capuchin_build(s, &possible));
        if (!possible) return TN_OK;
        TN_TRY(tn__pass_offer(s->run, &s->schedule, &kept));
        if (s->found.peak > s->run->budget) return TN_OK; /* no room for an earlier copy back */
    }
    return TN_OK;
}

static void capuchin_clear(capuchin_state *s, uint32_t allow) {
    s->allow = allow;
    s->gaps.again_first = true;
    for (uint32_t g = 0; g < s->gaps.count; g++) {
        s->gaps.list[g].how = TN__GAP_KEEP;
        s->clock.lead[g] = 0;
        s->clock.settle_by[g] = UINT32_MAX;
        s->clock.trigger_from[g] = 0;
    }
}

static tn_status capuchin_decide(capuchin_state *s) {
    bool possible, kept;
    TN_TRY(capuchin_build(s, &possible));
    while (possible && s->found.peak > s->run->budget) {
        if (!capuchin_choose(s) && !capuchin_relieve(s)) return TN_OK;
        TN_TRY(capuchin_build(s, &possible));
    }
    if (!possible) return TN_OK;
    TN_TRY(tn__pass_offer(s->run, &s->schedule, &kept));
    return capuchin_feedback(s);
}

/* Runs one policy; its explanations are kept if its schedule is kept. */
static tn_status capuchin_policy(capuchin_state *s, uint32_t allow) {
    tn__text *explain = s->run->explain, told;
    uint64_t before = s->run->has_best ? s->run->time : UINT64_MAX;
    tn__text_init(&told, &s->run->context);
    capuchin_clear(s, allow);
    s->run->explain = explain != NULL ? &told : NULL;
    tn_status status = capuchin_decide(s);
    s->run->explain = explain;
    if (s->run->has_best && s->run->time < before) {
        tn__text swap = s->told;
        s->told = told;
        told = swap;
    }
    tn__text_release(&told);
    return status;
}

/* Keeps everything; finds the last job at which this exceeds the budget. */
static tn_status capuchin_measure(capuchin_state *s, bool *fits) {
    bool possible;
    TN_TRY(tn__gaps_schedule(&s->gaps, &s->schedule, &possible));
    TN_TRY(tn__replay_schedule(s->run->work, &s->schedule, &s->found, s->profile, s->run->error));
    for (uint32_t j = 0; j < s->schedule.count; j++) /* acts are jobs */
        if (s->profile[j] > s->run->budget) s->clock.window_last = j;
    return tn__pass_offer(s->run, &s->schedule, fits);
}

static tn_status capuchin_make(capuchin_state *s) {
    tn__arena *arena = s->run->arena;
    TN_TRY(tn__gaps_find(s->run, &s->gaps));
    size_t gaps = (size_t)s->gaps.count + 1;
    s->profile = tn__arena_array(arena, (size_t)s->run->work->job_count + 1, sizeof *s->profile);
    s->late = tn__arena_array(arena, gaps, sizeof *s->late);
    if (s->profile == NULL || s->late == NULL) return tn__no_memory(s->run->error, "capuchin");
    return tn__capuchin_clock_make(&s->clock, &s->gaps);
}

static tn_status capuchin_passive(capuchin_state *s) {
    bool possible, kept = false;
    TN_TRY(tn__capuchin_passive(&s->gaps, &s->schedule, &possible));
    if (possible) TN_TRY(tn__pass_offer(s->run, &s->schedule, &kept));
    if (kept && s->run->explain != NULL)
        tn__text_printf(s->run->explain, "%s: on demand it takes %" PRIu64 "\n", s->run->pass->name,
                        s->run->time);
    return TN_OK;
}

static tn_status capuchin_all(capuchin_state *s) {
    const tn__pass_run *run = s->run;
    bool fits, swaps = (run->allow & TN__ALLOW_SWAP) && run->out_rate > 0 && run->in_rate > 0;
    uint32_t again = run->allow & TN__ALLOW_RECOMPUTE;
    TN_TRY(capuchin_make(s));
    TN_TRY(capuchin_measure(s, &fits));
    if (fits) return TN_OK;
    if (swaps) TN_TRY(capuchin_passive(s));
    if (swaps && again) TN_TRY(capuchin_policy(s, TN__ALLOW_SWAP | again));
    if (swaps) TN_TRY(capuchin_policy(s, TN__ALLOW_SWAP));
    return again ? capuchin_policy(s, again) : TN_OK;
}

static tn_status capuchin_solve(tn__pass_run *run) {
    capuchin_state s = {.run = run};
    tn__schedule_init(&s.schedule, &run->context);
    tn__text_init(&s.told, &run->context);
    tn_status status = capuchin_all(&s);
    if (run->explain != NULL && s.told.data != NULL && !s.told.failed)
        tn__text_put(run->explain, s.told.data);
    tn__text_release(&s.told);
    tn__schedule_release(&s.schedule);
    if (status != TN_OK || run->has_best) return status;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_capuchin = {
    .name = "capuchin",
    .summary = "Capuchin: swaps tensors whose copies computing hides, and recomputes others",
    .source = "Peng et al., Capuchin (2020)",
    .features = TN__PASS_SWAPS | TN__PASS_RECOMPUTES | TN__PASS_BUDGETS,
    .solve = capuchin_solve,
};
