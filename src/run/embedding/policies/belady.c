/* belady.c - evicts the row that is used again latest: the optimum, which no policy can reach
 * without knowing the future.
 *
 * It is the upper bound on hits of every other policy in a recorded run. Like them it must take
 * each row in. With batches, the locked rows are those needed now, and the exchange argument of the
 * proof still holds. A heap with the latest next use on top; slots know their positions in it.
 * Cost: O(log slots) a use; 16 bytes a slot.
 * Source: Belady: A study of replacement algorithms for a virtual-storage computer, 1966; Mattson,
 * Gecsei, Slutz, Traiger: Evaluation techniques for storage hierarchies, 1970 (proof).
 */
#include "run/embedding/policy.h"

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

static void belady_set(belady_state *state, uint64_t place, uint32_t slot) {
    state->heap[place] = slot;
    state->place[slot] = (uint32_t)place;
}

static void belady_up(belady_state *state, uint64_t place, uint32_t slot) {
    for (; place > 0; place = (place - 1) / 2) {
        uint32_t above = state->heap[(place - 1) / 2];
        if (state->next[above] >= state->next[slot]) break;
        belady_set(state, place, above);
    }
    belady_set(state, place, slot);
}

static void belady_down(belady_state *state, uint64_t place, uint32_t slot) {
    for (;;) {
        uint64_t below = 2 * place + 1;
        if (below >= state->count) break;
        if (below + 1 < state->count &&
            state->next[state->heap[below + 1]] > state->next[state->heap[below]])
            below++;
        if (state->next[state->heap[below]] <= state->next[slot]) break;
        belady_set(state, place, state->heap[below]);
        place = below;
    }
    belady_set(state, place, slot);
}

static void belady_enter(tn__residents *r, uint32_t slot, bool fresh, uint64_t next) {
    belady_state *state = r->state;
    (void)fresh;
    state->next[slot] = next;
    belady_up(state, state->count++, slot);
}

static void belady_leave(tn__residents *r, uint32_t slot) {
    belady_state *state = r->state;
    uint64_t place = state->place[slot];
    uint32_t last = state->heap[--state->count];
    if (last == slot) return;
    if (place > 0 && state->next[state->heap[(place - 1) / 2]] < state->next[last])
        belady_up(state, place, last);
    else
        belady_down(state, place, last);
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
