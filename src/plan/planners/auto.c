/* auto.c - a good plan at once, a better one while time lasts, the proof when there is one.
 *
 * What suits depends on the number of bodies and on whether the caller set a limit:
 *
 *   up to AUTO_GREEDY bodies   the quick planners side by side; together they cost less than
 *                              reading a model from a disk
 *   any number                 `scale`, whose plans cost O(n log n); a short one where the quick
 *                              planners were good already, its own measure beyond them
 *   up to AUTO_SEARCH bodies   `exact`, a small fixed amount of work: on real networks the bound is
 *                              nearly always reachable, in as many steps as there are bodies
 *   with a limit               what is left of it goes to `exact` as long as it can take the
 *                              problem, to `scale` beyond
 *
 * Whatever reaches the lower bound, or the capacity that was asked for, ends it.
 * Cost: without a limit some 0.1 s up to AUTO_SEARCH bodies, seconds for 10^6.
 */
#include "plan/frame/planner.h"

#define AUTO_GREEDY 4096u
#define AUTO_SEARCH 1500u
#define AUTO_SEARCH_MAX 8192u   /* that `exact` can take */
#define AUTO_SEARCH_WORK 20000u /* nodes: the same plan whatever the clock says */
#define AUTO_SCALE_WORK 50u     /* placements per body, where others have been */

static bool auto_is_done(const tn_run *run) {
    if (tn__run_best(run) <= tn__run_lower_bound(run)) return true;
    return tn__run_has_capacity(run) && tn__run_best(run) <= tn__run_capacity(run);
}

static tn_status auto_ask(tn_run *run, const char *name, uint64_t work_limit) {
    const tn_planner *planner = tn__planner_find(name);
    if (auto_is_done(run) || planner == NULL) return TN_OK;
    return tn__run_portfolio(run, &planner, 1, work_limit);
}

static tn_status auto_solve(tn_run *run) {
    uint32_t n = tn__run_count(run);
    bool greedy = n <= AUTO_GREEDY, limited = tn__run_is_limited(run);
    if (greedy) TN_TRY(tn__run_quick_portfolio(run));
    bool brief = greedy || (limited && n <= AUTO_SEARCH_MAX);
    TN_TRY(auto_ask(run, "scale", brief ? (uint64_t)AUTO_SCALE_WORK * n : 0));
    if (limited && n <= AUTO_SEARCH_MAX) return auto_ask(run, "exact", 0);
    if (n <= AUTO_SEARCH) return auto_ask(run, "exact", AUTO_SEARCH_WORK);
    return TN_OK;
}

const tn_planner tn__planner_auto = {
    .name = "auto",
    .summary = "what suits the size and the time there is (the default)",
    .source = "portfolio",
    .features = TN_PLANS_ALL,
    .solve = auto_solve,
};
