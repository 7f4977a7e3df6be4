/* slots.h - the bytes that a plan deals out, cut wherever one of its blocks begins or ends.
 *
 * Every block of the plan is a run of whole slots, known ahead, and a bit says of each slot whether
 * somebody has it. So whether a place is free is asked of its own bits, whatever came before:
 * blocks that live longer than planned, or came unplanned, need no thought.
 *
 * Cost: a run of k slots is k / 64 words and one; 9 bytes a slot.
 */
#ifndef TN_POOL_SLOTS_H
#define TN_POOL_SLOTS_H

#include "pool/technique.h"

typedef struct tn__slots {
    uint64_t *edges; /* [count + 1], ascending; slot i is [edges[i], edges[i + 1]) */
    uint64_t *taken; /* bits */
    uint32_t count;
} tn__slots;

/* From the edges in any order, any number of times; they are left sorted. False: no memory. */
bool tn__slots_open(const tn_context *context, tn__slots *slots, tn__sort_item *edges,
                    size_t count);
void tn__slots_close(const tn_context *context, tn__slots *slots);
/* The slot that the offset is in; `count` at the end. */
uint32_t tn__slots_at(const tn__slots *slots, uint64_t offset);
/* The smallest run of slots in [from, to) whose bits are not set in `taken`, and that holds what is
 * wanted: cut down to the slots that it meets then. Cost: O(to - from). */
bool tn__slots_hole(const tn__slots *slots, const uint64_t *taken, uint32_t *from, uint32_t *to,
                    const tn__want *want, uint64_t *offset);

/* Of the bits. */
static inline size_t tn__slots_words(const tn__slots *slots) {
    return ((size_t)slots->count + 1) / 64 + 1;
}

/* The bits of word w that are in [from, to), which meets it. */
static inline uint64_t tn__slots_mask(uint32_t w, uint32_t from, uint32_t to) {
    uint64_t mask = ~0ull;
    if (w == from / 64) mask &= ~0ull << from % 64;
    if (w == (to - 1) / 64) mask &= ~0ull >> (63 - (to - 1) % 64);
    return mask;
}

static inline bool tn__slots_idle(const tn__slots *slots, uint32_t from, uint32_t to) {
    for (uint32_t w = from / 64; w <= (to - 1) / 64; w++)
        if ((slots->taken[w] & tn__slots_mask(w, from, to)) != 0) return false;
    return true;
}

static inline void tn__slots_take(tn__slots *slots, uint32_t from, uint32_t to) {
    for (uint32_t w = from / 64; w <= (to - 1) / 64; w++)
        slots->taken[w] |= tn__slots_mask(w, from, to);
}

static inline void tn__slots_give(tn__slots *slots, uint32_t from, uint32_t to) {
    for (uint32_t w = from / 64; w <= (to - 1) / 64; w++)
        slots->taken[w] &= ~tn__slots_mask(w, from, to);
}

/* Gives the slots that are whole in [low, high): what it has of others may have another holder,
 * too. False: there was such a one. */
static inline bool tn__slots_give_whole(tn__slots *slots, uint64_t low, uint64_t high) {
    uint32_t from = tn__slots_at(slots, low), to = tn__slots_at(slots, high);
    bool is_exact = slots->edges[from] == low && slots->edges[to] == high;
    if (slots->edges[from] < low) from++;
    if (from < to) tn__slots_give(slots, from, to);
    return is_exact;
}

#endif
