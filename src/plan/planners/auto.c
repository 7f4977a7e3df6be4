/* auto.c - a good plan at once, a better one while time lasts, the proof when there is one.
 *
 * `draft` makes the plan. Where that is much above the bound, `exact` and `uncut` look for a better
 * one, side by side, in rounds of growing work: which of them finds one, and after how much, cannot
 * be told beforehand. Without a limit that ends after some seconds, or when what is left to win is
 * small; with one it goes on. More bodies than `exact` takes are left to `scale`, within a limit.
 *
 * Whatever reaches the lower bound, or the capacity that was asked for, ends it.
 * Cost: that of `draft`; without a limit some seconds more where the bound is far.
 */
#include "plan/frame/planner.h"

#define AUTO_SEARCH 8192u      /* bodies that `exact` takes */
#define AUTO_WORTH 10          /* bytes to be won, of 2 to the power of it: searched for unasked */
#define AUTO_WORK 100000u      /* units of the first round, ... */
#define AUTO_MORE 4u           /* ... so many times that in the next ... */
#define AUTO_WORK_MAX 1600000u /* ... and in the last, where no limit says how long to go on; */
#define AUTO_WORK_EACH 8000u   /* a body at most, as small problems come by the thousand; */
#define AUTO_WORK_ALL 300000000000u /* units times bodies times bodies at most: some seconds */

static const char *const auto_searchers[] = {"uncut", "exact"};
#define AUTO_SEARCHERS ((uint32_t)(sizeof auto_searchers / sizeof *auto_searchers))

static bool auto_goes_on(tn_run *run, uint64_t work) {
    if (tn__run_is_done(run) || tn__run_work_left(run) == 0 || !tn__run_goes_on(run)) return false;
    if (tn__run_is_limited(run)) return true;
    uint64_t left = tn__run_best(run) - tn__run_lower_bound(run), n = tn__run_count(run);
    bool worth = tn__run_has_capacity(run) || left >= tn__run_best(run) >> AUTO_WORTH;
    return worth && work <= AUTO_WORK_MAX && work <= AUTO_WORK_EACH * n &&
           work * n * n <= AUTO_WORK_ALL;
}

/* Rounds until the searchers end by themselves, before their work is used up. */
static tn_status auto_search(tn_run *run) {
    const tn_planner *searchers[AUTO_SEARCHERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < AUTO_SEARCHERS; i++) {
        searchers[count] = tn__planner_find(auto_searchers[i]);
        count += searchers[count] != NULL;
    }
    for (uint64_t work = AUTO_WORK; auto_goes_on(run, work); work = tn__mul_sat(work, AUTO_MORE)) {
        uint64_t before = tn__run_work_done(run);
        TN_TRY(tn__run_portfolio(run, searchers, count, work));
        if (tn__run_work_done(run) - before < work / 8) return TN_OK;
    }
    return TN_OK;
}

static tn_status auto_solve(tn_run *run) {
    TN_TRY(tn__run_draft(run));
    if (tn__run_count(run) <= AUTO_SEARCH) return auto_search(run);
    return tn__run_is_limited(run) ? tn__run_ask(run, "scale", 0) : TN_OK;
}

const tn_planner tn__planner_auto = {
    .name = "auto",
    .summary = "what suits the size and the time there is (the default)",
    .source = "portfolio",
    .features = TN_PLANS_ALL,
    .solve = auto_solve,
};
