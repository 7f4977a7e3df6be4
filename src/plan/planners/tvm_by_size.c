/* tvm_by_size.c - the largest first, each on top of all that it meets: holes stay empty.
 *
 * Ties: more conflicts, then the later body (its peer sorts names downwards). It is here as a
 * measure: what it loses against `greedy-by-size` is what filling holes is worth.
 * Cost:   O(sum of neighbours * log n).
 * Source: TVM, unified static memory planner, greedy_by_size.
 */
#include "plan/peers.h"

static uint64_t tvm_by_size_top(const tn_hole *holes, uint32_t count) {
    return holes[count - 1].first;
}

static tn_status tvm_by_size_solve(tn_run *run) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    uint64_t *degree = tn__run_scratch(run, tn__run_count(run), sizeof *degree);
    if (keys == NULL || degree == NULL || !tn__peers_degrees(run, degree)) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = keys[i].id;
        keys[i] = (tn__peers_key){{tn__run_bodies(run)[id].size, degree[id], id}, id};
    }
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__run_greedy(run, order, count, tvm_by_size_top);
}

const tn_planner tn__planner_tvm_by_size = {
    .name = "tvm-by-size",
    .summary = "largest first, above all that it meets; fills no holes",
    .source = "TVM USMP",
    .features = TN_PLANS_ALL,
    .solve = tvm_by_size_solve,
};
