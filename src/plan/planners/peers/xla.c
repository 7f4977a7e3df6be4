/* xla.c - tries three orders with each buffer in the smallest sufficient hole, and keeps the best.
 *
 * The orders are: by size, then by length of the live range ("spatial"); by length, then by size
 * ("temporal"); by size times length. Placing long-lived buffers first leaves the time between them
 * free of obstacles; placing large ones first leaves few holes. No order is the best for every
 * problem, so all are tried.
 *
 * Cost: O(sum of neighbours * log n), three times.
 * Source: XLA, heap simulator: GlobalDecreasingSizeBestFit with ChooseBestHeapAlgorithm.
 */
#include "plan/frame/peers.h"

static tn_status xla_try(tn_run *run, int which) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    if (keys == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = tn__run_bodies(run)[keys[i].id].size, span = tn__run_span(run, keys[i].id);
        keys[i].key[0] = which == 0 ? size : which == 1 ? span : tn__mul_sat(size, span);
        keys[i].key[1] = which == 0 ? span : size;
    }
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__peers_try_lower(run, order, count, tn__choose_tightest);
}

static tn_status xla_solve(tn_run *run) {
    for (int which = 0; which < 3; which++) {
        TN_TRY(xla_try(run, which));
        if (tn__run_best(run) <= tn__run_lower_bound(run)) break;
    }
    return TN_OK;
}

const tn_planner tn__planner_xla = {
    .name = "xla",
    .summary = "XLA: best fit by size, by length of the live range and by their product; the best",
    .source = "XLA heap simulator",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = xla_solve,
};
