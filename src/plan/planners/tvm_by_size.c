/* tvm_by_size.c - places the largest body first, each on top of all conflicting ones: holes stay
 * empty.
 *
 * Ties go to more conflicts, then to the later body (TVM sorts names downwards). It is here for
 * comparison: its loss against `greedy-by-size` is the gain of filling holes.
 * Cost:   O(sum of neighbours * log n).
 * Source: TVM, unified static memory planner, greedy_by_size.
 */
#include "plan/frame/peers.h"

static tn_status tvm_by_size_solve(tn_run *run) { return tn__peers_pile(run, true); }

const tn_planner tn__planner_tvm_by_size = {
    .name = "tvm-by-size",
    .summary = "TVM: largest first, each above all buffers it overlaps in time",
    .source = "TVM USMP",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = tvm_by_size_solve,
};
