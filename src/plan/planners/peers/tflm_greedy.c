/* tflm_greedy.c - places the largest buffer first, the last given of equal ones, as low as
 * possible.
 *
 * It differs from `greedy-by-size` only in its ties, which give exactly the offsets that the
 * interpreter on a microcontroller computes. Pinned buffers correspond to its "offline" buffers,
 * which are placed before the others.
 *
 * Cost: O(sum of neighbours * log n).
 * Source: TensorFlow Lite Micro, GreedyMemoryPlanner.
 */
#include "plan/frame/peers.h"

static tn_status tflm_greedy_solve(tn_run *run) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    if (keys == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        keys[i].key[0] = tn__run_bodies(run)[keys[i].id].size;
        keys[i].key[1] = keys[i].id;
    }
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__run_greedy(run, order, count, tn__choose_lowest);
}

const tn_planner tn__planner_tflm_greedy = {
    .name = "tflm-greedy",
    .summary = "TensorFlow Lite Micro's planner: largest first, each at the lowest offset",
    .source = "TensorFlow Lite Micro",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = tflm_greedy_solve,
};
