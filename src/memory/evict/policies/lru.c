/* lru.c - evicts the least recently used value.
 *
 * This is right when recently used values are used again soon. A training step asks for its oldest
 * values last, which suits this policy. It ignores cost and size.
 *
 * Cost: O(n) per search over n candidates.
 * Source: Belady: A study of replacement algorithms for a virtual-storage computer, 1966.
 */
#include "memory/evict/policy.h"

static double lru_score(tn__evict *e, uint32_t storage) {
    e->counts.access_count++;
    return (double)e->storages[storage].last_access;
}

const tn__policy tn__policy_lru = {.name = "lru",
                                   .summary = "the least recently used",
                                   .source = "Belady 1966",
                                   .features = TN__POLICY_PUBLISHED,
                                   .score = lru_score};
