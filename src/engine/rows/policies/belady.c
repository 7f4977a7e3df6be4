/* belady.c - evicts the row that has the latest next use. This is the optimum, which needs to know
 * future uses.
 *
 * Its hits are an upper bound for every policy on a recorded run. Like all policies, it must load
 * each requested row into the cache. A batch locks several rows at once; the exchange argument of
 * the optimality proof still holds, because the locked rows are those that are needed now. The rows
 * are in a heap with the latest next use at the top; each slot knows its position in the heap.
 * Cost: O(log slots) a use; 16 bytes a slot.
 * Source: Belady: A study of replacement algorithms for a virtual-storage computer, 1966; Mattson,
 * Gecsei, Slutz, Traiger: Evaluation techniques for storage hierarchies, 1970 (proof).
 */
#include "base/heap.h"
#include "engine/rows/policy.h"

typedef struct belady_state {
    uint64_t count;
    uint64_t *next;         /* [slots] */
    uint32_t *heap, *place; /* [slots] */
} belady_state;

static uint64_t belady_bytes(uint32_t slots) {
    return sizeof(belady_state) + (uint64_t)slots * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

static void belady_open(tn__residents *r) {
    belady_state *state = r->state;
    state->next = (uint64_t *)(state + 1);
    state->heap = (uint32_t *)(state->next + r->slot_count);
    state->place = state->heap + r->slot_count;
}

static bool belady_later(const belady_state *state, const uint32_t *a, const uint32_t *b) {
    return state->next[*a] > state->next[*b];
}

static void belady_placed(belady_state *state, const uint32_t *slot, size_t place) {
    state->place[*slot] = (uint32_t)place;
}
TN__HEAP_OF(belady_heap, belady_state, uint32_t, belady_later, belady_placed)

static void belady_enter(tn__residents *r, uint32_t slot, bool fresh, uint64_t next) {
    belady_state *state = r->state;
    (void)fresh;
    state->next[slot] = next;
    belady_heap_push(state, state->heap, state->count++, slot);
}

static void belady_leave(tn__residents *r, uint32_t slot) {
    belady_state *state = r->state;
    belady_heap_remove(state, state->heap, state->count--, state->place[slot]);
}

static uint32_t belady_choose(tn__residents *r) {
    const belady_state *state = r->state;
    return state->heap[0];
}

const tn__row_policy tn__row_policy_belady = {
    .name = "belady",
    .summary = "the row with the latest next use: an upper bound, for recorded runs only",
    .source = "Belady 1966",
    .sees_future = true,
    .bytes = belady_bytes,
    .open = belady_open,
    .enter = belady_enter,
    .leave = belady_leave,
    .choose = belady_choose};
