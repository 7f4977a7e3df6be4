/* tvm_by_conflicts.c - places the buffer with the most conflicts first, each on top of all placed
 * buffers that it conflicts with.
 *
 * Two buffers conflict if their live ranges overlap. Ties go to the larger buffer, then to that
 * with the higher number. Holes stay empty, as in `tvm-by-size`. Long-lived buffers end up at the
 * bottom, which helps if they are large and hurts if they are small.
 *
 * Cost: O(sum of neighbours * log n).
 * Source: TVM, unified static memory planner, greedy_by_conflicts.
 */
#include "plan/frame/peers.h"

static tn_status tvm_by_conflicts_solve(tn_run *run) { return tn__peers_pile(run, false); }

const tn_planner tn__planner_tvm_by_conflicts = {
    .name = "tvm-by-conflicts",
    .summary = "TVM: most overlaps in time first, each above all buffers it overlaps",
    .source = "TVM USMP",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = tvm_by_conflicts_solve,
};
