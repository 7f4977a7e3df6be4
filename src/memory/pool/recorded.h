/* recorded.h - a recorded iteration that is expected to repeat: its requests in order, each with
 * its place in a plan, and the bytes of the plan as slots.
 *
 * Cost: O(1) for a request that is expected, else O(log n), and at most k / 64 + 2 words for a
 * block of k slots; 48 bytes per request, and less than 9 bytes per slot.
 */
#ifndef TN_POOL_RECORDED_H
#define TN_POOL_RECORDED_H

#include "memory/pool/technique.h"
#include "memory/pool/live_ranges.h"

/* --- slots: the bytes of a plan, cut at every start and end of one of its blocks ----------------
 *
 * Every block of the plan consists of consecutive whole slots, which are known in advance. One bit
 * per slot says whether the slot is taken. So the bits of a place alone decide whether it is free,
 * whatever happened before: blocks that are in use for longer than planned, or were not planned,
 * need no special case.
 */

typedef struct tn__slots {
    uint64_t *edges; /* [count + 1], ascending; slot i is [edges[i], edges[i + 1]) */
    uint64_t *taken; /* one bit per slot */
    uint32_t count;
} tn__slots;

/* Makes slots from edges, which may come in any order and repeat; sorts them in place. False if
 * memory is out. */
bool tn__slots_open(const tn_context *context, tn__slots *slots, tn__sort_item *edges,
                    size_t count);
void tn__slots_close(const tn_context *context, tn__slots *slots);
/* Returns the slot that contains an offset, which is not below the first slot; `count`: the offset
 * is at the end of the last slot or above it. */
uint32_t tn__slots_at(const tn__slots *slots, uint64_t offset);
/* Finds the smallest sequence of slots in [from, to) that is free according to `taken` and holds
 * the requested block; *from and *to become the slots of the block. False if there is no such
 * sequence. Cost: O(to - from). */
bool tn__slots_hole(const tn__slots *slots, const uint64_t *taken, uint32_t *from, uint32_t *to,
                    const tn__want *want, uint64_t *offset);

/* Number of 64-bit words for one bit per slot. */
static inline size_t tn__slots_words(const tn__slots *slots) {
    return ((size_t)slots->count + 1) / 64 + 1;
}

/* The bits of word w that belong to the slots [from, to); the word and the range must overlap. */
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

/* Frees the slots that lie completely within [low, high); a slot at the edge may contain bytes of
 * another block too. False: there was a slot at the edge. */
static inline bool tn__slots_give_whole(tn__slots *slots, uint64_t low, uint64_t high) {
    uint32_t from = tn__slots_at(slots, low), to = tn__slots_at(slots, high);
    bool is_exact = slots->edges[from] == low && slots->edges[to] == high;
    if (slots->edges[from] < low) from++;
    if (from < to) tn__slots_give(slots, from, to);
    return is_exact;
}

/* --- the expected requests in order, and the current position -----------------------------------
 *
 * If a request is not the expected one, the recorded iteration is searched. First the request after
 * the expected one is compared, in case one was left out. Then the last three requests, including
 * this one, are searched as a sequence anywhere; the nearest match ahead counts. If there is no
 * match, it is an additional request and the position stays. A wrong guess costs only a place in
 * the plan, because the slots know which bytes are free.
 */

typedef struct tn__expected {
    uint64_t size, offset;
    uint32_t stream;
    /* range of slots that form the request's place in the plan; empty: the request is expected, but
     * has no place */
    uint32_t from, to;
    uint32_t length; /* number of requests during which the block of this request is in use */
} tn__expected;

typedef struct tn__recorded {
    tn__expected *lines; /* [count] */
    /* [count] for each request of the iteration, a hash of it and of the two before it; sorted */
    tn__sort_item *threes;
    uint32_t count, next;
    uint64_t recent[2]; /* keys (hashes) of the last two requests, the latest first */
    uint64_t rounds;    /* number of completed rounds (iterations) */
    tn__slots slots;
    uint64_t *soon; /* memory for the result of tn__recorded_soon: one bit per slot */
    /* base: offset at which the first zone begins; borders: offset at which each zone ends */
    uint64_t base, borders[TN__ZONES_MAX];
    uint32_t streams[TN__ZONES_MAX];
    uint32_t zones;
} tn__recorded;

/* Makes a recorded iteration from live ranges with offsets. `edges` [edge_count] are offsets at
 * which slots of the plan must begin or end. The call appends the begin and end of each live range,
 * so the array must have space for two more per live range. False if memory is out. */
bool tn__recorded_open(const tn_context *context, tn__recorded *recorded,
                       const tn__live_ranges *lives, tn__sort_item *edges, size_t edge_count);
void tn__recorded_close(const tn_context *context, tn__recorded *recorded);
/* Does the work of tn__recorded_match for a request that is not the expected one. */
const tn__expected *tn__recorded_search(tn__recorded *recorded, uint64_t size, uint32_t stream);
/* Returns one bit per slot: set if one of the next `ahead` requests will need the slot, or the slot
 * is taken now. Valid until the next call. Cost: O(ahead + slots). */
const uint64_t *tn__recorded_soon(tn__recorded *recorded, uint32_t ahead);

static inline uint64_t tn__recorded_key(uint64_t size, uint32_t stream) {
    uint64_t z = (size ^ (uint64_t)stream << 32) * 0x9e3779b97f4a7c15u;
    return z ^ z >> 32;
}

/* Returns the line of the recorded iteration that a request matches, and moves the position after
 * it; NULL: the request is unexpected. */
static inline const tn__expected *tn__recorded_match(tn__recorded *recorded, uint64_t size,
                                                     uint32_t stream) {
    const tn__expected *line = &recorded->lines[recorded->next];
    if (line->size == size && line->stream == stream) {
        if (++recorded->next == recorded->count) {
            recorded->next = 0;
            recorded->rounds++;
        }
    } else {
        line = tn__recorded_search(recorded, size, stream);
    }
    recorded->recent[1] = recorded->recent[0];
    recorded->recent[0] = tn__recorded_key(size, stream);
    return line;
}

/* The zone that contains the byte at `offset`; `zones` if no zone does. */
static inline uint32_t tn__recorded_zone(const tn__recorded *recorded, uint64_t offset) {
    uint32_t zone = 0;
    if (offset < recorded->base) return recorded->zones;
    while (zone < recorded->zones && recorded->borders[zone] <= offset) zone++;
    return zone;
}

#endif
