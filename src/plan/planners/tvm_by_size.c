/* tvm_by_size.c - the largest first, each on top of all that it meets: holes stay empty.
 *
 * Ties: more conflicts, then the later body (its peer sorts names downwards). It is here as a
 * measure: what it loses against `greedy-by-size` is what filling holes is worth.
 * Cost:   O(sum of neighbours * log n).
 * Source: TVM, unified static memory planner, greedy_by_size.
 */
#include "plan/frame/peers.h"

static tn_status tvm_by_size_solve(tn_run *run) { return tn__peers_pile(run, true); }

const tn_planner tn__planner_tvm_by_size = {
    .name = "tvm-by-size",
    .summary = "largest first, above all that it meets; fills no holes",
    .source = "TVM USMP",
    .features = TN_PLANS_ALL | TN_PLANS_SIMPLY,
    .solve = tvm_by_size_solve,
};
