/* naive.c - gives every buffer its own memory, end to end: the size without any sharing.
 *
 * This is the baseline of every report. The largest alignments come first: each buffer's end,
 * rounded up to its alignment, is then aligned for all later buffers, so the peak never exceeds
 * tn_problem_naive. Pinned buffers stay at their offsets, the others begin above them.
 *
 * Cost: O(n log n).
 */
#include "plan/frame/planner_run.h"

static int naive_compare(const tn_run_body *a, const tn_run_body *b) {
    return (a->alignment < b->alignment) - (a->alignment > b->alignment);
}

static tn_status naive_solve(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const uint32_t *order;
    uint32_t count;
    uint64_t top = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        if (!tn__run_placed(run, i) || bodies[i].size == 0) continue;
        uint64_t end = tn__run_offset(run, i) + bodies[i].size;
        if (end > top) top = end;
    }
    TN_TRY(tn__run_order(run, naive_compare, &order, &count));
    for (uint32_t i = 0; i < count; i++) {
        TN_TRY(tn__run_work(run, 1));
        const tn_run_body *body = &bodies[order[i]];
        uint64_t offset = tn__prepared_above_reserved(run->prepared, body, top);
        tn__run_place(run, order[i], offset);
        top = tn__add_sat(offset, body->size);
    }
    return TN_OK;
}

const tn_planner tn__planner_naive = {
    .name = "naive",
    .summary = "no reuse: each buffer has its own memory",
    .source = "the baseline",
    .features = TN_PLANS_ALL | TN_PLANS_APART,
    .solve = naive_solve,
};
