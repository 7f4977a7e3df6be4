/* slots.h - the bytes of a plan, cut at every start and end of one of its blocks.
 *
 * Every block of the plan is a run of whole slots, known ahead, and one bit per slot says whether
 * it is taken. So the bits of a place alone decide whether it is free, whatever happened before:
 * blocks that live longer than planned, or were not planned, need no special case.
 *
 * Cost: k / 64 + 1 words for a run of k slots; 9 bytes per slot.
 */
#ifndef TN_POOL_SLOTS_H
#define TN_POOL_SLOTS_H

#include "memory/pool/technique.h"

typedef struct tn__slots {
    uint64_t *edges; /* [count + 1], ascending; slot i is [edges[i], edges[i + 1]) */
    uint64_t *taken; /* one bit per slot */
    uint32_t count;
} tn__slots;

/* Makes slots from edges in any order, with repetitions; the edges are sorted in place. False: no
 * memory. */
bool tn__slots_open(const tn_context *context, tn__slots *slots, tn__sort_item *edges,
                    size_t count);
void tn__slots_close(const tn_context *context, tn__slots *slots);
/* The slot of the offset; `count` at the end. */
uint32_t tn__slots_at(const tn__slots *slots, uint64_t offset);
/* Finds the smallest run of slots in [from, to) whose bits are not set in `taken` and that holds
 * the wanted block; *from and *to become the slots of the block. Cost: O(to - from). */
bool tn__slots_hole(const tn__slots *slots, const uint64_t *taken, uint32_t *from, uint32_t *to,
                    const tn__want *want, uint64_t *offset);

/* Number of words of bits. */
static inline size_t tn__slots_words(const tn__slots *slots) {
    return ((size_t)slots->count + 1) / 64 + 1;
}

/* The bits of word w that belong to [from, to); word and range overlap. */
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

/* Frees the slots that lie wholly in [low, high); a slot at its edge may have another holder too.
 * False: there was such a slot. */
static inline bool tn__slots_give_whole(tn__slots *slots, uint64_t low, uint64_t high) {
    uint32_t from = tn__slots_at(slots, low), to = tn__slots_at(slots, high);
    bool is_exact = slots->edges[from] == low && slots->edges[to] == high;
    if (slots->edges[from] < low) from++;
    if (from < to) tn__slots_give(slots, from, to);
    return is_exact;
}

#endif
