/* sampled.c - evicts the least recently used of K resident rows that are drawn at random.
 *
 * It needs no list: a use is one store, and a choice examines K slots. With K = 16 the evicted row
 * is usually among the least recently used sixteenth of all rows. If most slots are locked, most
 * draws fail; after a limited number of draws, the next slot that may be evicted is chosen.
 * Cost: O(1) a use, O(K) a choice; 4 bytes a slot. The choices are determined by a seed.
 * Source: Psounis, Prabhakar: A randomized Web-cache replacement scheme, 2001; Redis uses it.
 */
#include "engine/rows/policy.h"

/* the policy draws at most this many times for each of the K rows that it needs */
#define SAMPLED_DRAWS 8u

typedef struct sampled_state {
    uint32_t now, spare;
    uint32_t used[]; /* for each slot: the time of its last use, modulo 2^32 */
} sampled_state;

static uint64_t sampled_bytes(uint32_t slots) {
    return sizeof(sampled_state) + (uint64_t)slots * sizeof(uint32_t);
}

static void sampled_enter(tn__residents *r, uint32_t slot, bool fresh, uint64_t next) {
    sampled_state *state = r->state;
    (void)fresh;
    (void)next;
    state->used[slot] = state->now++;
}

static uint32_t sampled_choose(tn__residents *r) {
    const sampled_state *state = r->state;
    uint32_t best = TN__SLOT_NONE, seen = 0;
    for (uint32_t draw = 0; draw < SAMPLED_DRAWS * r->sample && seen < r->sample; draw++) {
        uint32_t slot = (uint32_t)tn__random_below(&r->random, r->used);
        if (!tn__may_go(r, slot)) continue;
        seen++;
        if (best == TN__SLOT_NONE ||
            state->now - state->used[slot] > state->now - state->used[best])
            best = slot;
    }
    if (best != TN__SLOT_NONE) return best;
    best = (uint32_t)tn__random_below(&r->random, r->used);
    while (!tn__may_go(r, best)) best = best + 1 < r->used ? best + 1 : 0;
    return best;
}

const tn__row_policy tn__row_policy_sampled = {.name = "sampled",
                                               .summary =
                                                   "the least recently used of a random sample",
                                               .source = "Psounis, Prabhakar 2001",
                                               .bytes = sampled_bytes,
                                               .enter = sampled_enter,
                                               .choose = sampled_choose};
