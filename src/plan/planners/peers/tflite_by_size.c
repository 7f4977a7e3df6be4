/* tflite_by_size.c - places the largest buffer first, the earliest of equal ones, each in the
 * smallest sufficient hole.
 *
 * It differs from `best-fit` only in its ties: use it to get exactly the offsets of TensorFlow
 * Lite, which visits buffers in order of their first step.
 *
 * Cost: O(sum of neighbours * log n).
 * Source: Pisarchyk and Lee 2020 (arXiv:2001.03288); TensorFlow Lite, GPU delegate, GREEDY_BY_SIZE
 * for offsets.
 */
#include "plan/frame/peers.h"

static tn_status tflite_by_size_solve(tn_run *run) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    if (keys == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const tn_run_body *body = &tn__run_bodies(run)[keys[i].id];
        keys[i].key[0] = body->size;
        keys[i].key[1] = ~(uint64_t)body->first;
    }
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__run_greedy(run, order, count, tn__choose_tightest);
}

const tn_planner tn__planner_tflite_by_size = {
    .name = "tflite-by-size",
    .summary = "TensorFlow Lite's offset planner: largest first, each in the smallest hole",
    .source = "Pisarchyk and Lee 2020; TensorFlow Lite",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = tflite_by_size_solve,
};
