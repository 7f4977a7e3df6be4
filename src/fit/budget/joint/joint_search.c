/* joint_search.c - searches for schedules with repeats: several starts, then improvement steps.
 *
 * A start evicts values, from the first run to the last, until the schedule is within the budget;
 * it uses one of a few sets of weights. Then unnecessary repeats are removed. Each improvement step
 * changes the best start: it removes a repeat and some near it, so that the schedule exceeds the
 * budget, repairs the schedule with other weights, and removes repeats that became unnecessary. A
 * result that is not worse is kept; in the beginning, a slightly worse result is kept, too
 * (threshold accepting). Source: ruin and recreate (Schrimpf et al. 2000), threshold accepting
 * (Dueck, Scheuer 1990), on the retention intervals of Bartan et al. 2023 (MOCCASIN).
 */
#include "fit/budget/joint/joint.h"

/* Schedules that are improved: the best start without advice, the best start with advice, and one
 * derived from the answer for another budget. */
enum { SEARCH_PLAIN, SEARCH_ADVISED, SEARCH_WARM, SEARCH_STARTS };

typedef struct ruin_state {
    tn__pass_run *run;
    tn__editable edit;
    tn__repair repair;
    tn__schedule best, starts[SEARCH_STARTS];
    uint64_t best_cost, start_costs[SEARCH_STARTS], spent;
    uint32_t *order; /* [jobs] order of first runs in the schedule for another budget, run->warm */
    /* has: a schedule within the budget was found; orders: the order of first runs may be
     * changed */
    bool has, orders;
    tn__random random;
    tn__bound_advice advice;
} ruin_state;

static const tn__repair_weights ruin_weights[] = {
    {.reach = 0.25, .bulk = 1.0, .whole = true, .lengthen = 8},
    {.reach = 0.5, .bulk = 1.0, .whole = true, .lengthen = 8},
    {.reach = 0.5, .bulk = 0.7f, .whole = true},
    {.reach = 0.5, .bulk = 1.0, .lengthen = 8},
    {.reach = 1.0, .bulk = 1.0, .lengthen = 8},
    {.reach = 1.0, .bulk = 1.0, .whole = true, .lengthen = 8},
    {.reach = 0.5, .bulk = 1.0, .whole = true, .hopes = true},
};

/* the search ends if the cost is above the bound by less than 1 / 4096 of the bound */
#define RUIN_NEAR 4096u
#define RUIN_ANY 3u /* 1/3 of the effort may be spent on finding any schedule within the budget */
/* 1/3 of the effort is for improving the answer for another budget, if there is one */
#define RUIN_ON 3u
/* one in 10 steps that remove repeats removes a row of consecutive ones instead of single ones */
#define RUIN_ROWS 10u
/* 1/3 of the effort goes to improving the best start of the other kind (with or without advice) */
#define RUIN_OTHER 3u
#define RUIN_SHIFTS 4u /* one in 4 steps moves a run instead of removing repeats */
#define RUIN_REACH 16u /* a run is moved by up to 16 places */

static double ruin_unit(ruin_state *s) {
    return (double)(tn__random_next(&s->random) >> 11) * 0x1p-53;
}

static uint32_t ruin_below(ruin_state *s, uint32_t bound) {
    return (uint32_t)tn__random_below(&s->random, bound);
}

/* Reports the effort since the last report to the run. Fails if a limit is reached. */
static tn_status ruin_spend(ruin_state *s) {
    uint64_t effort = s->repair.effort;
    s->repair.effort = 0;
    s->spent += effort;
    if (s->edit.failed) return tn__no_memory(s->run->error, "a schedule");
    return tn__pass_work(s->run, effort);
}

static tn_status ruin_keep(ruin_state *s) {
    if (s->edit.failed) return tn__no_memory(s->run->error, "a schedule");
    if (tn__editable_peak(&s->edit) > (int64_t)s->run->budget) return TN_OK;
    if (s->has && s->edit.cost >= s->best_cost) return TN_OK;
    s->has = true;
    s->best_cost = s->edit.cost;
    return tn__editable_write(&s->edit, &s->best, s->run->error);
}

/* --- starts --------------------------------------------------------------------------------- */

/* Returns the cost at which a start is abandoned, because it is too far above the cost of the best
 * schedule so far. */
static uint64_t ruin_start_limit(const ruin_state *s) {
    uint64_t cost = s->run->dag->cost, best = s->has ? s->best_cost : UINT64_MAX;
    if (s->run->incumbent > cost && s->run->incumbent < best) best = s->run->incumbent;
    if (best == UINT64_MAX) return tn__mul_sat(tn__add_sat(cost, 1), 30);
    return tn__add_sat(best, (best - cost) / 4);
}

static tn_status ruin_keep_start(ruin_state *s, uint32_t kind) {
    TN_TRY(ruin_keep(s));
    if (s->edit.cost >= s->start_costs[kind] ||
        tn__editable_peak(&s->edit) > (int64_t)s->run->budget)
        return TN_OK;
    s->start_costs[kind] = s->edit.cost;
    return tn__editable_write(&s->edit, &s->starts[kind], s->run->error);
}

/* Makes one start: evicts values with the given weights until the schedule is within the budget,
 * and keeps the result if it is the best one of this `kind`. `spare` / 64 of the budget stay free
 * until the repair is done. */
static tn_status ruin_start(ruin_state *s, const tn__repair_weights *weights, uint32_t spare,
                            uint32_t kind) {
    uint32_t mark = tn__editable_mark(&s->edit);
    s->repair.weights = *weights;
    s->repair.cost_limit = ruin_start_limit(s);
    s->repair.budget = s->run->budget - s->run->budget / 64 * spare;
    bool fits = tn__repair_run(&s->repair);
    s->repair.budget = s->run->budget;
    if (fits && !tn__repair_trim(&s->repair)) s->edit.failed = true;
    if (fits) TN_TRY(ruin_keep_start(s, kind));
    tn__editable_undo(&s->edit, mark);
    return ruin_spend(s);
}

/* Makes all starts with the different sets of weights. Some leave a part of the budget free at
 * first, because chains of repeats need additional bytes while they run. */
static tn_status ruin_starts(ruin_state *s, uint64_t effort) {
    static const uint32_t spares[] = {0, 3};
    size_t kinds = sizeof ruin_weights / sizeof *ruin_weights;
    for (size_t k = 0; k < 2 * sizeof spares / sizeof *spares; k++)
        for (size_t i = 0; i < kinds; i++) {
            tn__repair_weights weights = ruin_weights[i];
            weights.advised = k % 2 ? 4.0f : 0.0f;
            uint64_t most = s->run->feasible_only ? effort / RUIN_ANY : 2 * effort;
            if (s->spent > (k > 1 ? effort / 6 : most)) return TN_OK;
            TN_TRY(ruin_start(s, &weights, spares[k / 2], k % 2));
            if (s->has && (s->run->feasible_only || s->best_cost == s->run->dag->cost))
                return TN_OK;
        }
    return TN_OK;
}

/* --- removal -------------------------------------------------------------------------------- */

static uint32_t ruin_any(ruin_state *s) {
    const tn__editable *edit = &s->edit;
    uint32_t base = TN__EDITABLE_FIRST + s->run->dag->job_count;
    for (uint32_t tries = 0; tries < 64 && edit->node_count > base; tries++) {
        uint32_t id = base + ruin_below(s, edit->node_count - base);
        if (edit->nodes[id].linked && edit->nodes[id].recompute) return id;
    }
    return TN_NONE;
}

/* Returns the repeat that is `steps` repeats after a node, or before it if `back`; TN_NONE if there
 * are fewer. */
static uint32_t ruin_near(const ruin_state *s, uint32_t at, uint32_t steps, bool back) {
    const tn__editable_node *nodes = s->edit.nodes;
    for (uint32_t walked = 0; at > TN__EDITABLE_TAIL && walked < 4096; walked++) {
        if (nodes[at].recompute && steps-- == 0) return at;
        at = back ? nodes[at].prev : nodes[at].next;
    }
    return TN_NONE;
}

static void ruin_ban(ruin_state *s, uint32_t id) {
    const tn__editable_node *node = &s->edit.nodes[id];
    for (uint32_t i = node->input_count; i < node->touch_count; i++)
        s->repair.banned[s->edit.touches[node->touch_first + i].value] = s->repair.ban;
}

/* Removes a repeat from the schedule, and up to three more repeats near it. */
static void ruin_tear_some(ruin_state *s, uint32_t seed) {
    uint32_t more = ruin_below(s, 4);
    uint32_t ends[2] = {s->edit.nodes[seed].next, s->edit.nodes[seed].prev};
    if (ruin_below(s, 5) > 0) ruin_ban(s, seed);
    tn__repair_drop(&s->repair, seed);
    for (uint32_t i = 0; i < more; i++) {
        uint32_t back = ruin_below(s, 2);
        if (!s->edit.nodes[ends[back]].linked) continue;
        uint32_t id = ruin_near(s, ends[back], ruin_below(s, 8), back);
        if (id == TN_NONE) continue;
        ends[back] = back ? s->edit.nodes[id].prev : s->edit.nodes[id].next;
        tn__repair_drop(&s->repair, id);
    }
}

/* Removes several consecutive repeats from the schedule. */
static void ruin_tear_row(ruin_state *s, uint32_t seed) {
    uint32_t recompute = s->edit.linked_count - s->run->dag->job_count, at = seed;
    uint32_t count = 2 + ruin_below(s, recompute < 48 ? recompute / 2 + 1 : 24);
    for (; count > 0 && at > TN__EDITABLE_TAIL; count--) {
        uint32_t next = ruin_near(s, s->edit.nodes[at].next, 0, false);
        if (ruin_below(s, 8) == 0) ruin_ban(s, at);
        if (tn__repair_may_take(&s->repair, at)) tn__editable_take(&s->edit, at);
        if (next == TN_NONE) break;
        at = next;
    }
}

static bool ruin_has(const uint32_t *list, uint32_t count, uint32_t job) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == job) return true;
    return false;
}

/* Whether the run `early` must precede the run `late` because of an ordering constraint or a limit,
 * rather than because of a value. If first runs may not be reordered, every first run must precede
 * the first runs after it. */
static bool ruin_precedes(const ruin_state *s, uint32_t early, uint32_t late) {
    const tn__dag *dag = s->run->dag;
    const tn__editable_node *a = &s->edit.nodes[early], *b = &s->edit.nodes[late];
    const tn__job *first = &dag->jobs[a->job], *then = &dag->jobs[b->job];
    if (b->recompute) return false;
    if (!a->recompute &&
        (!s->orders || ruin_has(dag->others + then->after_first, then->after_count, a->job)))
        return true;
    return a->job != b->job &&
           ruin_has(dag->others + first->limit_first, first->limit_count, b->job);
}

/* Whether a run must not change places with its neighbour `of`, the previous run if `back`, else
 * the next one. They must not if one makes a value that the other reads or makes; but a repeat may
 * move before a run that reads an older version of its output. */
static bool ruin_bars(ruin_state *s, uint32_t id, uint32_t of, bool back) {
    const tn__editable_node *it = &s->edit.nodes[id], *other = &s->edit.nodes[of];
    s->repair.effort += it->touch_count;
    for (uint32_t i = 0; i < it->touch_count; i++)
        for (uint32_t k = 0; k < other->touch_count; k++) {
            const tn__editable_touch *a = &s->edit.touches[it->touch_first + i];
            const tn__editable_touch *b = &s->edit.touches[other->touch_first + k];
            if (a->value == b->value && (a->makes || (!back && b->makes))) return true;
        }
    return back ? ruin_precedes(s, id, of) : ruin_precedes(s, of, id);
}

/* Moves a run by a random number of places, backward or forward. */
static void ruin_shift(ruin_state *s, uint32_t id) {
    const tn__editable_node *nodes = s->edit.nodes;
    uint32_t at = id, steps = 1 + ruin_below(s, RUIN_REACH);
    bool back = ruin_below(s, 2);
    if (nodes[id].prev == TN__EDITABLE_HEAD) return;
    for (; steps > 0; steps--) {
        uint32_t next = back ? nodes[at].prev : nodes[at].next;
        bool end = next <= TN__EDITABLE_TAIL || nodes[next].prev == TN__EDITABLE_HEAD;
        if (end || ruin_bars(s, next, id, back)) break;
        at = next;
    }
    if (at != id) tn__editable_move(&s->edit, id, back ? at : nodes[at].next);
}

/* Moves a repeat to another place in the schedule, or a run near it. */
static void ruin_shift_near(ruin_state *s, uint32_t seed) {
    uint32_t steps = ruin_below(s, RUIN_REACH), id = seed;
    bool back = ruin_below(s, 2);
    for (; steps > 0; steps--) {
        uint32_t next = back ? s->edit.nodes[id].prev : s->edit.nodes[id].next;
        if (next <= TN__EDITABLE_TAIL) break;
        id = next;
    }
    ruin_shift(s, ruin_below(s, 2) ? seed : id);
}

static void ruin_tear(ruin_state *s) {
    uint32_t seed = ruin_any(s);
    if (seed == TN_NONE) return;
    s->repair.ban++;
    if (ruin_below(s, RUIN_SHIFTS) == 0)
        ruin_shift_near(s, seed);
    else if (ruin_below(s, RUIN_ROWS) == 0)
        ruin_tear_row(s, seed);
    else
        ruin_tear_some(s, seed);
}

/* --- the search ------------------------------------------------------------------------------- */

static void ruin_set_weights(ruin_state *s) {
    static const float reaches[] = {0, 0.25f, 0.5f, 1}, advised[6] = {0, 0, 0, 0, 2, 4};
    s->repair.weights = (tn__repair_weights){
        .reach = reaches[ruin_below(s, 4)],
        .bulk = ruin_below(s, 2) ? 1 : 0.7f,
        .whole = ruin_below(s, 2),
        .hopes = ruin_below(s, 4) == 0,
        .lengthen = ruin_below(s, 2) ? 8 : 0,
        .noise = ruin_below(s, 3) ? 1 : 0,
        .advised = advised[ruin_below(s, 6)],
    };
}

/* Removes repeats that became unnecessary: checks all repeats inserted since `mark`, and some
 * others, chosen at random. */
static void ruin_spare(ruin_state *s, uint32_t mark) {
    uint32_t end = tn__editable_mark(&s->edit);
    for (uint32_t i = mark; i < end; i++) {
        tn__editable_change change = s->edit.changes[i];
        if (change.deed != TN__EDITABLE_TAKEN && s->edit.nodes[change.node].linked)
            tn__repair_spare(&s->repair, change.node);
    }
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t id = ruin_any(s);
        if (id != TN_NONE) tn__repair_spare(&s->repair, id);
    }
}

/* Makes one improvement step. *now is the cost of the current schedule; a result that is worse by
 * at most `slack` is also accepted. */
static tn_status ruin_step(ruin_state *s, uint64_t *now, uint64_t slack) {
    uint32_t mark = tn__editable_mark(&s->edit);
    uint64_t over = *now - s->run->dag->cost;
    ruin_set_weights(s);
    s->repair.cost_limit = tn__add_sat(*now, slack + over / 8);
    ruin_tear(s);
    bool fits = tn__repair_run(&s->repair);
    if (fits) ruin_spare(s, mark);
    if (s->edit.failed || !fits || s->edit.cost > tn__add_sat(*now, slack)) {
        tn__editable_undo(&s->edit, mark);
        return ruin_spend(s);
    }
    *now = s->edit.cost;
    TN_TRY(ruin_keep(s));
    tn__editable_forget(&s->edit);
    return ruin_spend(s);
}

/* Begins with a schedule without repeats, with the jobs in the order that this kind of start uses:
 * the program's, or that of the answer for another budget. */
static tn_status ruin_begin_order(ruin_state *s, uint32_t kind) {
    const uint32_t *order = kind == SEARCH_WARM ? s->order : NULL;
    tn__editable_release(&s->edit);
    return tn__editable_init(&s->edit, s->run->dag, &s->run->context, order, s->run->error);
}

static tn_status ruin_begin(ruin_state *s, uint32_t kind, const tn__schedule *schedule) {
    TN_TRY(ruin_begin_order(s, kind));
    TN_TRY(tn__editable_read(&s->edit, schedule));
    tn__editable_forget(&s->edit);
    return TN_OK;
}

/* Whether the best cost is the lower bound, or so close to it that the search can end. */
static bool ruin_is_done(const ruin_state *s) {
    uint64_t cost = s->run->dag->cost, bound = s->run->bound > cost ? s->run->bound : cost;
    return s->best_cost <= bound || (s->best_cost - bound) < bound / RUIN_NEAR;
}

static tn_status ruin_improve(ruin_state *s, uint32_t kind, uint64_t effort) {
    TN_TRY(ruin_begin(s, kind, &s->starts[kind]));
    uint64_t now = s->edit.cost, begin = s->spent;
    double over = (double)(now - s->run->dag->cost);
    while (s->spent < effort && !ruin_is_done(s)) {
        double left = (double)(effort - s->spent) / (double)(effort - begin);
        uint64_t slack = (uint64_t)(over * 0.01 * left * left * ruin_unit(s));
        s->repair.effort += 64;
        TN_TRY(ruin_step(s, &now, slack));
    }
    return TN_OK;
}

/* Makes the starts and improves the best one. A part of the effort goes to the best start of the
 * other kind (with or without advice), because the better start does not always lead to the better
 * result. */
static tn_status ruin_afresh(ruin_state *s, uint64_t effort) {
    TN_TRY(tn__bound_advise(s->run, effort / 4, &s->advice));
    TN_TRY(ruin_starts(s, effort));
    if (!s->has || s->run->feasible_only || s->best_cost == s->run->dag->cost) return TN_OK;
    uint32_t kind = s->start_costs[SEARCH_ADVISED] < s->start_costs[SEARCH_PLAIN];
    uint64_t left = effort > s->spent ? effort - s->spent : 0, half = left / RUIN_OTHER;
    bool both = s->start_costs[1 - kind] < UINT64_MAX;
    TN_TRY(ruin_improve(s, kind, both ? effort - half : effort));
    return both ? ruin_improve(s, 1 - kind, effort) : TN_OK;
}

/* --- starting from an answer for another budget ----------------------------------------------- */

/* Reads the order of first runs from the answer for another budget. Returns false if it has actions
 * other than runs. */
static bool ruin_orders(ruin_state *s, const tn__schedule *warm) {
    uint32_t jobs = s->run->dag->job_count, count = 0;
    s->order = tn__arena_array(s->run->arena, (size_t)jobs + 1, sizeof *s->order);
    bool *seen = tn__arena_array(s->run->arena, (size_t)jobs + 1, sizeof *seen);
    if (s->order == NULL || seen == NULL) return false;
    for (uint32_t i = 0; i < warm->count; i++) {
        uint32_t job = warm->actions[i].what;
        if (warm->actions[i].kind != TN__RUN) return false;
        if (!seen[job]) s->order[count++] = job;
        seen[job] = true;
    }
    return count == jobs;
}

/* Repairs the answer for another budget as if it were a start, and improves it. The budgets of one
 * search are near each other, so little of the answer has to change. */
static tn_status ruin_on(ruin_state *s, uint64_t effort) {
    TN_TRY(ruin_begin(s, SEARCH_WARM, s->run->warm));
    for (size_t i = 0; i < sizeof ruin_weights / sizeof *ruin_weights; i++) {
        TN_TRY(ruin_start(s, &ruin_weights[i], 0, SEARCH_WARM));
        if (s->spent > effort / 4) break;
    }
    if (!s->has || s->best_cost == s->run->dag->cost) return TN_OK;
    return ruin_improve(s, SEARCH_WARM, effort);
}

static tn_status ruin_run(ruin_state *s, uint64_t effort) {
    const tn__schedule *warm = s->run->feasible_only ? NULL : s->run->warm;
    if (warm != NULL && ruin_orders(s, warm)) {
        TN_TRY(ruin_on(s, effort / RUIN_ON));
        if (s->has) return TN_OK;
        TN_TRY(ruin_begin_order(s, SEARCH_PLAIN));
    }
    return ruin_afresh(s, effort);
}

static tn_status ruin_offer(ruin_state *s) {
    bool kept;
    if (!s->has) return TN_OK;
    return tn__pass_offer(s->run, &s->best, &kept);
}

tn_status tn__joint_search(tn__pass_run *run, uint64_t effort) {
    bool orders = !run->dag->is_ordered && (run->allow & TN__ALLOW_ORDER);
    ruin_state s = {.run = run,
                    .start_costs = {UINT64_MAX, UINT64_MAX, UINT64_MAX},
                    .random = {run->seed},
                    .orders = orders};
    tn__schedule_init(&s.best, &run->context);
    for (uint32_t i = 0; i < SEARCH_STARTS; i++) tn__schedule_init(&s.starts[i], &run->context);
    TN_TRY(tn__editable_init(&s.edit, run->dag, &run->context, NULL, run->error));
    tn_status status = TN_OK;
    if (!tn__repair_room(&s.repair, &s.edit, run->budget, run->arena))
        status = tn__no_memory(run->error, "a search");
    s.repair.advice = &s.advice;
    if (status == TN_OK) status = ruin_run(&s, effort);
    if (status == TN_OK || status == TN_E_STOPPED) {
        tn_status offered = ruin_offer(&s);
        if (offered != TN_OK) status = offered;
    }
    tn__editable_release(&s.edit);
    tn__schedule_release(&s.best);
    for (uint32_t i = 0; i < SEARCH_STARTS; i++) tn__schedule_release(&s.starts[i]);
    return status;
}
