/* random.c - evicts a random value: the baseline that every other policy must beat.
 *
 * Cost: O(1) expected per search.
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021 (h_rand).
 */
#include "memory/evict/policy.h"

static uint32_t random_choose(tn__evict *e, uint64_t bytes) {
    (void)bytes;
    e->counts.access_count++;
    e->counts.evaluation_count++;
    /* the list has at most 16 more empty entries than filled ones (records.c), so the loop ends
     * soon */
    for (;;) {
        uint32_t storage = e->candidates[tn__random_below(&e->random, e->candidate_end)];
        if (storage != TN__NONE) return storage;
    }
}

const tn__policy tn__policy_random = {.name = "random",
                                      .summary = "a random tensor",
                                      .source = "Kirisame et al. 2021, h_rand",
                                      .features = TN__POLICY_PUBLISHED,
                                      .choose = random_choose};
