/* greedy_by_size.c - places the largest buffer first, each as low as possible.
 *
 * Large buffers seldom fit into holes, so they choose first; small ones then lie in the holes
 * between them. It is good if few tensors dominate (inference, training), and weak if sizes are
 * similar and live ranges interleave.
 *
 * Cost: O(sum of neighbours * log n).
 * Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020
 * (arXiv:2001.03288), greedy by size for offsets; first fit as in TFLite Micro.
 */
#include "plan/frame/planner.h"

static tn_status greedy_by_size_solve(tn_run *run) {
    const uint32_t *order;
    uint32_t count;
    TN_TRY(tn__run_order(run, tn__larger_first, &order, &count));
    return tn__run_greedy(run, order, count, tn__choose_lowest);
}

const tn_planner tn__planner_greedy_by_size = {
    .name = "greedy-by-size",
    .summary = "largest first, each at the lowest offset that fits",
    .source = "Pisarchyk and Lee 2020; TFLite Micro",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_QUICKLY,
    .solve = greedy_by_size_solve,
};
