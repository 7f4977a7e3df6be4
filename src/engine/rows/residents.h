/* residents.h - which rows are resident, in which slots, and which batches have locked them.
 *
 * A hash table with open addressing finds the slot of a row. Each open batch has a bit, which is
 * set in every slot that it has locked. This is sufficient to count hits and misses without the
 * data of rows, so the code that serves a table also replays recorded runs.
 */
#ifndef TN_EMBEDDING_RESIDENTS_H
#define TN_EMBEDDING_RESIDENTS_H

#include <tenure/embedding.h>

#include "base/base.h"

#define TN__SLOT_NONE UINT32_MAX
/* a number that stands for no row; it is larger than the number of any row */
#define TN__ROW_NONE UINT32_MAX
#define TN__SLOTS_MAX (UINT32_MAX - 512) /* policies use larger numbers for their own purposes */

enum { /* flags of a slot (tn__slot.flags) */
       /* the row differs from the file; the journal has the file's version */
       TN__SLOT_DIRTY = 1u << 0,
       TN__SLOT_READING = 1u << 1, /* the slot's row is being read from the file */
       TN__SLOT_FAILED = 1u << 2,  /* the slot's row could not be read */
       /* since the slot's row was read, no batch that used it has ended */
       TN__SLOT_FRESH = 1u << 3,
};

typedef struct tn__slot {
    uint32_t row; /* the row in the slot; TN__ROW_NONE: the slot is free */
    /* in a free slot, the next free slot; else scratch for loops over a batch's slots */
    uint32_t mark;
    uint8_t held; /* one bit for each batch that has locked the slot */
    uint8_t flags;
} tn__slot;

typedef struct tn__entry { /* an entry of the index */
    uint32_t row, slot;
} tn__entry;

typedef struct tn__residents {
    const struct tn__row_policy *policy;
    void *state; /* memory of the policy */
    tn__slot *slots;
    tn__entry *index;
    uint32_t slot_count, index_count;
    /* number of slots that have ever had a row; they are the first slots of the array */
    uint32_t used;
    uint32_t vacant; /* first of the list of slots that have become free again */
    uint32_t resident, locked;
    uint32_t sample; /* number of rows to draw, for policies that draw at random */
    tn__random random;
} tn__residents;

/* Number of entries of the index, and bytes of the policy's state, for this number of slots. */
uint32_t tn__index_count(uint32_t slots);
uint64_t tn__policy_bytes(const struct tn__row_policy *policy, uint32_t slots);
/* Initialises the index and the policy. The caller must have set policy, slots, index, state,
 * slot_count and index_count. */
void tn__residents_open(tn__residents *r);

static inline bool tn__may_go(const tn__residents *r, uint32_t slot) {
    return slot < r->used && r->slots[slot].row != TN__ROW_NONE && r->slots[slot].held == 0;
}

/* The rows of a batch and the slots that it has locked. */
typedef struct tn__hold {
    uint32_t *slot_of; /* [row_count] the slot of each row */
    /* row_count entries; the first distinct_count are used: each locked slot once, in the order in
     * which the batch locked them */
    uint32_t *distinct;
    uint32_t row_count, distinct_count;
    /* `lookup_hits`: lookups whose row was resident; `hits`: distinct rows that were resident */
    uint32_t lookup_hits, hits;
} tn__hold;

/* A callback for the owner of the rows' data. tn__residents_hold accepts NULL instead. */
typedef struct tn__movers {
    void *self;
    /* Called before the row of this slot is evicted. */
    tn_status (*going)(void *self, uint32_t slot, tn_error *error);
} tn__movers;

/* Locks the rows of a batch; `rows` has hold->row_count entries, and `bit` is the number of the
 * batch. Slots of rows that were not resident are marked READING and FRESH. If it fails, nothing is
 * locked. Errors: E_EXHAUSTED (too few slots; without a message), those of movers->going. */
tn_status tn__residents_hold(tn__residents *r, uint32_t bit, const uint32_t *rows, tn__hold *hold,
                             const tn__movers *movers, tn_error *error);
/* Whether a row is resident, or is being read. */
bool tn__residents_has(const tn__residents *r, uint32_t row);
/* Unlocks the rows of a batch. `next`: for a policy that sees the future, the number of the next
 * lookup of each distinct row; else NULL. */
void tn__residents_let(tn__residents *r, uint32_t bit, const tn__hold *hold, const uint64_t *next);

/* Checks all invariants. Returns NULL, or a sentence about one that is violated. Cost: O(slots). */
const char *tn__residents_check(const tn__residents *r);

#endif
