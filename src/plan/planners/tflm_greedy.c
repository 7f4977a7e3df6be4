/* tflm_greedy.c - the largest first, of equals the one given last, at the lowest place.
 *
 * Differs from `greedy-by-size` in its ties alone, which is what it takes to get the very offsets
 * that a microcontroller's interpreter will compute for itself. Pinned bodies are its "offline"
 * buffers: in place before the others.
 * Cost:   O(sum of neighbours * log n).
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
    .summary = "largest first, later ones first, lowest place: TFLite Micro's offsets",
    .source = "TensorFlow Lite Micro",
    .features = TN_PLANS_ALL | TN_PLANS_SIMPLY,
    .solve = tflm_greedy_solve,
};
