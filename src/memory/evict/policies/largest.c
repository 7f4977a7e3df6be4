/* largest.c - evicts the largest value, so that few evictions free the requested bytes; it ignores
 * the cost of recomputing the value.
 *
 * Cost: O(n) per search over n candidates.
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021 (h_size).
 */
#include <math.h>

#include "memory/evict/policy.h"

static double largest_score(tn__evict *e, uint32_t storage) {
    uint64_t size = e->storages[storage].size;
    e->counts.access_count++;
    return size > 0 ? tn__ratio(1, size) : (double)INFINITY;
}

const tn__policy tn__policy_largest = {.name = "largest",
                                       .summary = "the largest",
                                       .source = "Kirisame et al. 2021, h_size",
                                       .features = TN__POLICY_PUBLISHED,
                                       .score = largest_score};
