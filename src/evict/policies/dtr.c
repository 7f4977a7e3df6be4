/* dtr.c - DTR's heuristic: (own cost + cost of the evicted neighbourhood) / (bytes * staleness).
 *
 * Dropping what stands between dropped ones makes all of them dearer to have again; so chains of
 * dropped values stay short. The neighbourhood is exact here, which is what most of the work is:
 * see dtr_eq.c for the one that is nearly as good for less. Cost: O(n) a search; O(dropped
 * neighbours) for each storage dropped or made. Source: Kirisame et al.: Dynamic tensor
 * rematerialization, ICLR 2021 (h_DTR).
 */
#include <math.h>

#include "evict/regions.h"

static double dtr_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    uint64_t cost = tn__add_sat(tn__regions_cost(e, storage, TN__REGION_CHILDREN),
                                tn__regions_cost(e, storage, TN__REGION_PARENTS));
    tn__wide den = tn__stale_bytes(e, record);
    e->counts.access_count++;
    return den > 0 ? tn__ratio(tn__add_sat(cost, record->cost), den) : (double)INFINITY;
}

const tn__policy tn__policy_dtr = {.name = "dtr",
                                   .summary = "cost with dropped neighbours / (bytes * staleness)",
                                   .source = "Kirisame et al. 2021, h_DTR",
                                   .features = TN__POLICY_LINKS | TN__POLICY_PUBLISHED,
                                   .state_size = sizeof(tn__regions),
                                   .added = tn__regions_added,
                                   .evicted = tn__regions_evicted,
                                   .made = tn__regions_made,
                                   .forgotten = tn__regions_forgotten,
                                   .vanished = tn__regions_vanished,
                                   .close = tn__regions_close,
                                   .score = dtr_score};
