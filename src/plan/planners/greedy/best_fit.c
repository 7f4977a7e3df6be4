/* best_fit.c - places the largest buffer first, each in the smallest sufficient hole.
 *
 * It works like greedy-by-size, but keeps wide holes for buffers that need them. Neither planner is
 * better in general: on training graphs they differ by a percent in either direction.
 *
 * Cost: O(sum of neighbours * log n).
 * Source: Pisarchyk and Lee 2020 (arXiv:2001.03288), offset calculation; TFLite's GPU delegate.
 */
#include "plan/frame/planner.h"

static tn_status best_fit_solve(tn_run *run) {
    const uint32_t *order;
    uint32_t count;
    TN_TRY(tn__run_order(run, tn__larger_first, &order, &count));
    return tn__run_greedy(run, order, count, tn__choose_tightest);
}

const tn_planner tn__planner_best_fit = {
    .name = "best-fit",
    .summary = "largest first, each in the smallest hole that fits",
    .source = "Pisarchyk and Lee 2020",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_QUICKLY,
    .solve = best_fit_solve,
};
