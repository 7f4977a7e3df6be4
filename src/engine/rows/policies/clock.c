/* clock.c - the clock algorithm. A hand moves around the slots and evicts the first row that was
 * not used since the hand last passed it; a row that was used stays for another round.
 *
 * It evicts nearly the same rows as lru, with one bit per row (stored in a byte). A use is a single
 * store, and moves no list entry.
 * Cost: O(1) a use. For each evicted row the hand passes every slot at most twice; amortised over
 * the uses this is O(1).
 * Source: Corbato: A paging experiment with the Multics system, 1968.
 */
#include "engine/rows/policy.h"

typedef struct clock_state {
    uint32_t hand, spare;
    uint8_t used[]; /* [slots] */
} clock_state;

static uint64_t clock_bytes(uint32_t slots) { return sizeof(clock_state) + (uint64_t)slots; }

static void clock_enter(tn__residents *r, uint32_t slot, bool fresh, uint64_t next) {
    clock_state *state = r->state;
    (void)next;
    state->used[slot] = !fresh;
}

static uint32_t clock_choose(tn__residents *r) {
    clock_state *state = r->state;
    for (;;) {
        uint32_t slot = state->hand;
        state->hand = slot + 1 < r->slot_count ? slot + 1 : 0;
        if (!tn__may_go(r, slot)) continue;
        if (state->used[slot] == 0) return slot;
        state->used[slot] = 0;
    }
}

const tn__row_policy tn__row_policy_clock = {
    .name = "clock",
    .summary = "second chance: the next row that was not used since the last visit",
    .source = "Corbato 1968",
    .bytes = clock_bytes,
    .enter = clock_enter,
    .choose = clock_choose};
