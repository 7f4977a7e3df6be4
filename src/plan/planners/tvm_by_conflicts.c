/* tvm_by_conflicts.c - who meets most others first, each on top of all that it meets.
 *
 * Ties: the larger, then the later body. Holes stay empty, as in `tvm-by-size`; long-lived bodies
 * end up at the bottom, which helps where they are large and hurts where they are small.
 * Cost:   O(sum of neighbours * log n).
 * Source: TVM, unified static memory planner, greedy_by_conflicts.
 */
#include "plan/peers.h"

static uint64_t tvm_by_conflicts_top(const tn_hole *holes, uint32_t count) {
    return holes[count - 1].first;
}

static tn_status tvm_by_conflicts_solve(tn_run *run) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    uint64_t *degree = tn__run_scratch(run, tn__run_count(run), sizeof *degree);
    if (keys == NULL || degree == NULL || !tn__peers_degrees(run, degree)) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = keys[i].id;
        keys[i] = (tn__peers_key){{degree[id], tn__run_bodies(run)[id].size, id}, id};
    }
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__run_greedy(run, order, count, tvm_by_conflicts_top);
}

const tn_planner tn__planner_tvm_by_conflicts = {
    .name = "tvm-by-conflicts",
    .summary = "who meets most others first, above all that it meets",
    .source = "TVM USMP",
    .features = TN_PLANS_ALL,
    .solve = tvm_by_conflicts_solve,
};
