/* auto.c - the quick planners side by side, the best of them; then a short complete search.
 *
 * No greedy planner is best everywhere, and all of them together cost less than reading a model
 * from a disk. The first that reaches the lower bound ends it: nothing can be better. Where all
 * stay above it and the problem is not large, `exact` gets a small, fixed amount of work: on real
 * networks the bound is nearly always reachable, and found in as many steps as there are buffers.
 * For a proof, or a hard problem, ask for `exact` itself.
 * Cost: the sum of its members, divided by the threads; the search at most some 0.1 s.
 */
#include "plan/planner.h"

#define AUTO_EXACT_BODIES 1500u
#define AUTO_EXACT_WORK 20000u

static tn_status auto_solve(tn_run *run) {
    const tn_planner *exact = tn__planner_find("exact");
    TN_TRY(tn__run_quick_portfolio(run));
    bool fits = tn__run_has_capacity(run) && tn__run_best(run) <= tn__run_capacity(run);
    bool done = fits || tn__run_best(run) <= tn__run_lower_bound(run);
    if (done || exact == NULL || tn__run_count(run) > AUTO_EXACT_BODIES) return TN_OK;
    return tn__run_portfolio(run, &exact, 1, AUTO_EXACT_WORK);
}

const tn_planner tn__planner_auto = {
    .name = "auto",
    .summary = "the best of all quick planners, then a short exact search (the default)",
    .source = "portfolio",
    .features = TN_PLANS_ALL,
    .solve = auto_solve,
};
