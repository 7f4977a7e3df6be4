/* given_order.c - places buffers in the caller's order, each in the smallest sufficient hole.
 *
 * An arena behaves like this if it serves requests one by one and knows their live ranges; the
 * caller's order is the policy. Use it if that order has a meaning, or to measure the effect of
 * sorting.
 *
 * Cost: O(sum of neighbours * log n).
 * Source: TensorFlow Lite, CPU arena (simple_memory_arena); IREE's layout of slices.
 */
#include "plan/frame/peers.h"

static tn_status given_order_solve(tn_run *run) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    if (keys == NULL) return TN_E_NO_MEMORY;
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__run_greedy(run, order, count, tn__choose_tightest);
}

const tn_planner tn__planner_given_order = {
    .name = "given-order",
    .summary = "TensorFlow Lite's CPU arena: in the order of the input, each in the smallest hole",
    .source = "TensorFlow Lite; IREE",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = given_order_solve,
};
