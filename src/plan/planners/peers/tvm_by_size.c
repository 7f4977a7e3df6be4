/* tvm_by_size.c - places the largest buffer first, each on top of all placed buffers that it
 * conflicts with, so holes stay empty.
 *
 * Two buffers conflict if their live ranges overlap. Ties go to the buffer with more conflicts,
 * then to that with the higher number (TVM sorts names in descending order). The planner exists for
 * comparison: `greedy-by-size` differs from it in that it fills holes.
 *
 * Cost: O(sum of neighbours * log n).
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
