/* auto.c - the quick planners side by side; the best of them.
 *
 * No greedy planner is best everywhere, and all of them together cost less than reading a model
 * from a disk. The first that reaches the lower bound ends it: nothing can be better.
 * Cost: the sum of its members, divided by the threads.
 */
#include "plan/planner.h"

static tn_status auto_solve(tn_run *run) {
    uint32_t count = 0, all = tn_planner_count();
    const tn_planner **members = tn__run_scratch(run, all, sizeof *members);
    if (members == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < all; i++)
        if (tn__planner_at(i)->features & TN_PLANS_QUICKLY) members[count++] = tn__planner_at(i);
    return tn__run_portfolio(run, members, count);
}

const tn_planner tn__planner_auto = {
    .name = "auto",
    .summary = "the best of all quick planners (the default)",
    .source = "portfolio",
    .features = TN_PLANS_ALL,
    .solve = auto_solve,
};
