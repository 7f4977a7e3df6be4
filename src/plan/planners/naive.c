/* naive.c - every body in memory of its own, end to end: what memory costs without any reuse.
 *
 * The baseline of every report. Pinned bodies stay where they are, the others begin above them.
 * Cost: O(n).
 */
#include "plan/planner.h"

static tn_status naive_solve(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint64_t top = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        if (!tn__run_placed(run, i)) continue;
        uint64_t end = tn__run_offset(run, i) + bodies[i].size;
        if (end > top) top = end;
    }
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        if (tn__run_placed(run, i)) continue;
        uint64_t offset = (top + bodies[i].alignment - 1) & ~(bodies[i].alignment - 1);
        tn__run_place(run, i, offset);
        top = offset + bodies[i].size;
    }
    return TN_OK;
}

const tn_planner tn__planner_naive = {
    .name = "naive",
    .summary = "no reuse: every buffer in memory of its own",
    .source = "the baseline",
    .features = TN_PLANS_ALL,
    .solve = naive_solve,
};
