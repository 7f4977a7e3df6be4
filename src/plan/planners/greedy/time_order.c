/* time_order.c - places buffers in the order of their definition with best fit, as a run-time pool
 * does.
 *
 * A pool serves requests as they come, without knowing the future. Its peak is the memory that
 * users need without a planner; as a plan it is optimal if live ranges nest like a stack.
 *
 * Cost: O(n log n); with any constraint except alignment, or if sizes are not multiples of
 * alignments, O(sum of neighbours * log n).
 * Source: the best-fit allocators of TensorFlow (BFC) and ggml, simulated on known live ranges.
 */
#include "plan/frame/planner.h"

static int time_order_compare(const tn_run_body *a, const tn_run_body *b) {
    return (a->first > b->first) - (a->first < b->first);
}

static tn_status time_order_solve(tn_run *run) {
    const uint32_t *order;
    uint32_t count;
    if (tn__run_replays(run)) return tn__run_replay(run, false);
    TN_TRY(tn__run_order(run, time_order_compare, &order, &count));
    return tn__run_greedy(run, order, count, tn__choose_tightest);
}

const tn_planner tn__planner_time_order = {
    .name = "time-order",
    .summary = "in order of allocation, each in the smallest hole: a run-time pool",
    .source = "best-fit pools (TensorFlow BFC, ggml)",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_QUICKLY,
    .solve = time_order_solve,
};
