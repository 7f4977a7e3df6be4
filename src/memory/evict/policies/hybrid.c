/* hybrid.c - drops a value or copies it to the host, whichever costs less with the given link to
 * the host.
 *
 *   score = min(cost of recomputing it with its dropped ancestors, cost of both copies) /
 *           (bytes * staleness)
 *
 * A value that cannot be recomputed can be copied to the host as well. Without a link the policy
 * only drops values.
 *
 * Cost: as dtr.c.
 * Source: Peng et al.: Capuchin, ASPLOS 2020; Kirisame et al. 2021.
 */
#include <math.h>

#include "memory/evict/neighbourhoods.h"

static uint64_t hybrid_make_cost(tn__evict *e, uint32_t storage) {
    return tn__add_sat(e->storages[storage].cost,
                       tn__neighbourhoods_cost(e, storage, TN__NEIGHBOURHOOD_PARENTS));
}

/* The cost of copying a storage to the host and back. */
static uint64_t hybrid_copy_cost(const tn__evict *e, uint32_t storage) {
    tn__wide cost = (tn__wide)e->storages[storage].size * 2 * e->options.cost_per_s /
                    e->options.link_bytes_per_s;
    return cost > UINT64_MAX ? UINT64_MAX : (uint64_t)cost;
}

static bool hybrid_swaps(tn__evict *e, uint32_t storage) {
    return hybrid_copy_cost(e, storage) < hybrid_make_cost(e, storage);
}

static double hybrid_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    tn__wide den = tn__stale_bytes(e, record);
    uint64_t cost = hybrid_make_cost(e, storage);
    e->counts.access_count++;
    if (den == 0) return (double)INFINITY;
    if (tn__space_swaps(e, storage)) {
        uint64_t copies = hybrid_copy_cost(e, storage);
        if (copies < cost || record->stuck > 0) cost = copies;
    }
    return tn__ratio(cost, den);
}

const tn__policy tn__policy_hybrid = {
    .name = "hybrid",
    .summary = "recomputes, or swaps if there is a link to the host, whichever costs less",
    .source = "Peng et al. 2020 (Capuchin)",
    .features = TN__POLICY_LINKS | TN__POLICY_SWAPS,
    TN__REGIONS_KEPT,
    .score = hybrid_score,
    .swaps = hybrid_swaps};
