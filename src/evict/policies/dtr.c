/* dtr.c - DTR's heuristic: (own cost + cost of the evicted neighbourhood) / (bytes * staleness).
 *
 * Dropping what stands between dropped ones makes all of them dearer to have again; so chains of
 * dropped values stay short. The neighbourhood is exact here, which is what most of the work is:
 * see dtr_eq.c for the one that is nearly as good for less.
 * Cost: O(n) a search; O(dropped neighbours) for each storage dropped or made.
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021 (h_DTR).
 */
#include <math.h>

#include "evict/regions.h"

static double dtr_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    uint64_t cost = tn__regions_around(e, storage);
    tn__wide den = tn__stale_bytes(e, record);
    e->counts.access_count++;
    return den > 0 ? tn__ratio(cost, den) : (double)INFINITY;
}

const tn__policy tn__policy_dtr = {.name = "dtr",
                                   .summary = "cost with dropped neighbours / (bytes * staleness)",
                                   .source = "Kirisame et al. 2021, h_DTR",
                                   .features = TN__POLICY_LINKS | TN__POLICY_PUBLISHED,
                                   TN__REGIONS_KEPT,
                                   .score = dtr_score};
