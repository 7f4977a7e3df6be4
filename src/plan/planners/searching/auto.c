/* auto.c - makes a good plan at once, and then searches for a better plan or a proof while time is
 * left.
 *
 * `fast` makes the first plan. If its peak is much above the lower bound, `exact` and `guillotine`
 * search for a better one in parallel, in rounds of growing work, because it is unpredictable which
 * of them finds one first. Without a limit the search ends after some seconds, or when the possible
 * gain is small; with a limit it continues until the limit. Problems with more than AUTO_SEARCH
 * buffers are left to `scale`, if there is a limit.
 *
 * With separations, exclusions or reserved ranges, the greedy planners run and then a search that
 * models them. In a run that minimises reuse cost, `reuse-cost` is the planner.
 *
 * A plan that reaches the lower bound, or fits the requested capacity, ends the search.
 *
 * Cost: that of `fast`; without a limit a few seconds more if the plan is far from the bound.
 */
#include "plan/frame/planner.h"

#define AUTO_SEARCH 8192u /* limit of buffers for the search by `exact` and `guillotine` */
/* without a limit, the search runs only if at least 1/2^10 of the bytes could be gained */
#define AUTO_WORTH 10
#define AUTO_WORK 100000u /* units of work in the first round */
/* limit of buffers, in problems with separations, up to which the simple planners run, which make
 * few greedy passes */
#define AUTO_APART_SIMPLE 16384u
/* limit of buffers, in problems with separations, up to which planners with hundreds of greedy
 * passes run */
#define AUTO_APART_CLIMB 1024u
/* factor by which the work of a round of the search exceeds that of the previous round */
#define AUTO_MORE 4u
#define AUTO_WORK_MAX 1600000u /* limit of the work of a round if the caller set no limit */
/* limit of a round's work per buffer, so that small problems end soon: applications plan thousands
 * of them */
#define AUTO_WORK_EACH 8000u
/* A round's work is limited to this number divided by the square of the number of buffers, which
 * takes some seconds. */
#define AUTO_WORK_ALL 300000000000u

static const char *const auto_searchers[] = {"guillotine", "exact"};
#define AUTO_SEARCHERS ((uint32_t)(sizeof auto_searchers / sizeof *auto_searchers))

static bool auto_goes_on(tn_run *run, uint64_t work) {
    if (tn__run_is_done(run) || tn__run_work_left(run) == 0 || !tn__run_goes_on(run)) return false;
    if (tn__run_is_limited(run)) return true;
    uint64_t left = tn__run_best(run) - tn__run_lower_bound(run), n = tn__run_count(run);
    bool worth = tn__run_has_capacity(run) || left >= tn__run_best(run) >> AUTO_WORTH;
    return worth && work <= AUTO_WORK_MAX && work <= AUTO_WORK_EACH * n &&
           work * n * n <= AUTO_WORK_ALL;
}

/* Runs rounds of `exact` and `guillotine` until a limit is reached, or until both end before their
 * work is used up. */
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

/* Plans a problem with separations or reserved ranges, with the planners that model them. */
static tn_status auto_apart(tn_run *run) {
    TN_TRY(tn__run_quick_portfolio(run));
    if (tn__run_count(run) <= AUTO_APART_SIMPLE) TN_TRY(tn__run_simple_planners(run));
    if (tn__run_count(run) <= AUTO_APART_CLIMB) TN_TRY(tn__run_ask(run, "tvm-hill-climb", 0));
    return tn__run_has_capacity(run) ? tn__run_ask(run, "reuse-cost", 0) : TN_OK;
}

static tn_status auto_solve(tn_run *run) {
    if (tn__run_by_cost(run)) return tn__run_as(run, "reuse-cost");
    if (tn__run_needs(run) & TN_PLANS_APART) return auto_apart(run);
    TN_TRY(tn__run_fast(run));
    if (tn__run_count(run) <= AUTO_SEARCH) return auto_search(run);
    return tn__run_is_limited(run) ? tn__run_ask(run, "scale", 0) : TN_OK;
}

const tn_planner tn__planner_auto = {
    .name = "auto",
    .summary = "chooses planners by the number of buffers and the time limit (the default)",
    .source = "portfolio",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_BY_COST,
    .solve = auto_solve,
};
