/* lru.c - evicts the row that was not used for the longest time.
 *
 * The slots form a list from the most to the least recently used. This policy suits lookups in
 * which recently used rows are used again soon. If rows are drawn at random by popularity, it keeps
 * many rows that were used only once; lfu keeps more of the popular ones.
 * Cost: O(1) a use, which accesses two cache lines in addition to the slot's; 8 bytes a slot.
 * Source: Belady: A study of replacement algorithms for a virtual-storage computer, 1966.
 */
#include "engine/rows/policy.h"

/* A link of the ring of slots. There is one for each slot, and a last one that closes the ring: it
 * is before the oldest and after the newest slot. */
typedef struct lru_link {
    uint32_t older, newer;
} lru_link;

static uint64_t lru_bytes(uint32_t slots) { return ((uint64_t)slots + 1) * sizeof(lru_link); }

static void lru_open(tn__residents *r) {
    lru_link *links = r->state;
    links[r->slot_count] = (lru_link){r->slot_count, r->slot_count};
}

static void lru_enter(tn__residents *r, uint32_t slot, bool fresh, uint64_t next) {
    lru_link *links = r->state;
    uint32_t end = r->slot_count, newest = links[end].older;
    (void)fresh;
    (void)next;
    links[slot] = (lru_link){.older = newest, .newer = end};
    links[newest].newer = slot;
    links[end].older = slot;
}

static void lru_leave(tn__residents *r, uint32_t slot) {
    lru_link *links = r->state, it = links[slot];
    links[it.older].newer = it.newer;
    links[it.newer].older = it.older;
}

static uint32_t lru_choose(tn__residents *r) {
    const lru_link *links = r->state;
    return links[r->slot_count].newer;
}

const tn__row_policy tn__row_policy_lru = {.name = "lru",
                                           .summary = "the least recently used",
                                           .source = "Belady 1966",
                                           .bytes = lru_bytes,
                                           .open = lru_open,
                                           .enter = lru_enter,
                                           .leave = lru_leave,
                                           .choose = lru_choose};
