/* dtr_local.c - DTR's heuristic without neighbours: own cost / (bytes * staleness).
 *
 * It is cheap, but ignores chains of values that were dropped already. So it may turn a network
 * into one long dropped chain, which is then recomputed for every value.
 *
 * Cost: O(n) per search over n candidates.
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021 (h_local).
 */
#include "memory/evict/policy.h"

#include <math.h>

static double dtr_local_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    tn__wide den = tn__stale_bytes(e, record);
    e->counts.access_count++;
    return den > 0 ? tn__ratio(record->cost, den) : (double)INFINITY;
}

const tn__policy tn__policy_dtr_local = {.name = "dtr-local",
                                         .summary =
                                             "DTR: the tensor's own cost / (bytes * staleness)",
                                         .source = "Kirisame et al. 2021, h_local",
                                         .features = TN__POLICY_PUBLISHED,
                                         .score = dtr_local_score};
