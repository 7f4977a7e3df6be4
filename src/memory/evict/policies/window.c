/* window.c - evicts a sequence of neighbouring blocks of the arena at once: the cheapest that is
 * long enough.
 *
 * Every evicted byte becomes part of one contiguous range, so no bytes are lost to holes. The cost
 * of a sequence is the sum of cost / staleness of its values (tn__window_find finds it). Without
 * addresses the policy equals dtr-local.
 *
 * Cost: O(blocks) per search.
 * Source: Zhang et al.: Coop: memory is not a commodity, NeurIPS 2023.
 */
#include <math.h>

#include "memory/evict/policy.h"

static double window_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    tn__wide den = tn__stale_bytes(e, record);
    e->counts.access_count++;
    return den > 0 ? tn__ratio(record->cost, den) : (double)INFINITY;
}

const tn__policy tn__policy_window = {
    .name = "window",
    .summary = "the cheapest contiguous region of enough bytes; for an arena with addresses",
    .source = "Zhang et al. 2023 (Coop)",
    .features = TN__POLICY_WINDOW,
    .score = window_score};
