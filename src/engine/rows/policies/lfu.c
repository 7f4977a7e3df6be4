/* lfu.c - evicts the row that the fewest batches have used; if several rows are equal, the least
 * recently used one.
 *
 * Each slot has a count of uses, at most 255, and there is a list of slots for each count. All
 * counts are halved after LFU_ROUND uses per slot, so that formerly popular rows are evicted
 * eventually. To halve, each two lists are joined, and the count that a slot stores is corrected
 * when the slot is next used. Counts of evicted rows are not kept: a row that comes back begins
 * with one. This policy suits rows that are drawn at random by popularity, as in recommendation
 * models.
 * Cost: O(1) a use; 10 bytes a slot.
 * Source: Einziger, Friedman, Manes: TinyLFU, 2017 (aging by halving); Shah, Mitra, Matani: An O(1)
 * algorithm for implementing the LFU cache eviction scheme, 2010 (lists by count).
 */
#include "engine/rows/policy.h"

#define LFU_COUNTS 256u
#define LFU_ROUND 10u

typedef struct lfu_link {
    uint32_t older, newer;
} lfu_link;

typedef struct lfu_state {
    uint64_t uses;     /* number of uses since counts were last halved */
    uint64_t taken[4]; /* bit c: whether the list of slots with count c has any slot */
    /* links of the slots, then one link for each count: first and last link of the ring of slots
     * with that count */
    lfu_link *links;
    uint8_t *counts, *epochs; /* [slots] */
    uint8_t epoch;            /* number of times that counts were halved, modulo 256 */
} lfu_state;

static uint64_t lfu_bytes(uint32_t slots) {
    return sizeof(lfu_state) + ((uint64_t)slots + LFU_COUNTS) * sizeof(lfu_link) +
           2 * (uint64_t)slots;
}

static void lfu_open(tn__residents *r) {
    lfu_state *state = r->state;
    uint32_t slots = r->slot_count;
    state->links = (lfu_link *)(state + 1);
    state->counts = (uint8_t *)(state->links + slots + LFU_COUNTS);
    state->epochs = state->counts + slots;
    for (uint32_t end = slots; end < slots + LFU_COUNTS; end++)
        state->links[end] = (lfu_link){end, end};
}

static void lfu_append(lfu_state *state, uint32_t slots, uint32_t slot) {
    uint32_t count = state->counts[slot], end = slots + count, newest = state->links[end].older;
    state->links[slot] = (lfu_link){.older = newest, .newer = end};
    state->links[newest].newer = slot;
    state->links[end].older = slot;
    state->taken[count / 64] |= UINT64_C(1) << count % 64;
}

/* Appends one list to another. A list is given by its end: `from` is appended to `to`. */
static void lfu_join(lfu_link *links, uint32_t from, uint32_t to) {
    if (links[from].newer == from) return;
    uint32_t first = links[from].newer, last = links[from].older, before = links[to].older;
    links[before].newer = first;
    links[first].older = before;
    links[last].newer = to;
    links[to].older = last;
    links[from] = (lfu_link){from, from};
}

static void lfu_halve(lfu_state *state, uint32_t slots) {
    state->uses = 0;
    state->epoch++;
    memset(state->taken, 0, sizeof state->taken);
    for (uint32_t count = 0; count < LFU_COUNTS; count++) {
        if (count > 0) lfu_join(state->links, slots + count, slots + count / 2);
        if (state->links[slots + count / 2].newer != slots + count / 2)
            state->taken[count / 2 / 64] |= UINT64_C(1) << count / 2 % 64;
    }
}

/* Returns the count of a slot, corrected for the halvings since it was last used. `missed` is
 * modulo 256, so after exactly 256 halvings without a use the slot gets its old count back. */
static uint32_t lfu_count(const lfu_state *state, uint32_t slot) {
    uint8_t missed = (uint8_t)(state->epoch - state->epochs[slot]);
    return missed < 8 ? (uint32_t)state->counts[slot] >> missed : 0;
}

static void lfu_enter(tn__residents *r, uint32_t slot, bool fresh, uint64_t next) {
    lfu_state *state = r->state;
    uint32_t count = fresh ? 0 : lfu_count(state, slot);
    (void)next;
    state->counts[slot] = (uint8_t)(count < LFU_COUNTS - 1 ? count + 1 : count);
    state->epochs[slot] = state->epoch;
    lfu_append(state, r->slot_count, slot);
    if (++state->uses >= (uint64_t)LFU_ROUND * r->slot_count) lfu_halve(state, r->slot_count);
}

static void lfu_leave(tn__residents *r, uint32_t slot) {
    lfu_state *state = r->state;
    lfu_link *links = state->links, it = links[slot];
    links[it.older].newer = it.newer;
    links[it.newer].older = it.older;
    if (it.older != it.newer || it.older < r->slot_count) return;
    uint32_t count = it.older - r->slot_count; /* the list of slots with this count is empty now */
    state->taken[count / 64] &= ~(UINT64_C(1) << count % 64);
}

static uint32_t lfu_choose(tn__residents *r) {
    const lfu_state *state = r->state;
    uint32_t word = 0;
    while (state->taken[word] == 0) word++;
    uint32_t count = 64 * word + (uint32_t)__builtin_ctzll(state->taken[word]);
    return state->links[r->slot_count + count].newer;
}

const tn__row_policy tn__row_policy_lfu = {
    .name = "lfu",
    .summary = "the least frequently used; counts are halved periodically",
    .source = "Einziger, Friedman, Manes 2017; Shah, Mitra, Matani 2010",
    .bytes = lfu_bytes,
    .open = lfu_open,
    .enter = lfu_enter,
    .leave = lfu_leave,
    .choose = lfu_choose};
