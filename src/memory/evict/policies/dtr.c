/* dtr.c - DTR's heuristic: (own cost + cost of the evicted neighbourhood) / (bytes * staleness).
 *
 * Dropping a value next to dropped ones makes each of them more expensive to recompute. The
 * heuristic avoids that, so chains of dropped values stay short. The neighbourhood is exact here,
 * and computing it takes most of the time; dtr_eq.c is nearly as good and cheaper.
 *
 * Cost: O(n) per search; O(dropped neighbours) for each storage dropped or recomputed.
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021 (h_DTR).
 */
#include <math.h>

#include "memory/evict/neighbourhoods.h"

static double dtr_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    uint64_t cost = tn__neighbourhoods_around(e, storage);
    tn__wide den = tn__stale_bytes(e, record);
    e->counts.access_count++;
    return den > 0 ? tn__ratio(cost, den) : (double)INFINITY;
}

const tn__policy tn__policy_dtr = {
    .name = "dtr",
    .summary = "DTR: cost with all evicted neighbours / (bytes * staleness)",
    .source = "Kirisame et al. 2021, h_DTR",
    .features = TN__POLICY_LINKS | TN__POLICY_PUBLISHED,
    TN__REGIONS_KEPT,
    .score = dtr_score};
