/* msps.c - evicts the value with the least (own cost + cost of dropped ancestors) / bytes, the cost
 * per byte of recomputing it now.
 *
 * It ignores staleness and the values made from it. This is the rule of memory savings per second
 * of SuperNeurons and Capuchin, as DTR's authors describe it.
 *
 * Cost: as dtr.c.
 * Source: Peng et al.: Capuchin, ASPLOS 2020; Kirisame et al. 2021 (h_MSPS).
 */
#include <math.h>

#include "memory/evict/neighbourhoods.h"

static double msps_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    uint64_t cost =
        tn__add_sat(record->cost, tn__neighbourhoods_cost(e, storage, TN__NEIGHBOURHOOD_PARENTS));
    e->counts.access_count++;
    return record->size > 0 ? tn__ratio(cost, record->size) : (double)INFINITY;
}

const tn__policy tn__policy_msps = {.name = "msps",
                                    .summary = "MSPS: cost with evicted ancestors / bytes",
                                    .source = "Peng et al. 2020 (Capuchin); SuperNeurons",
                                    .features = TN__POLICY_LINKS | TN__POLICY_PUBLISHED,
                                    TN__REGIONS_KEPT,
                                    .score = msps_score};
