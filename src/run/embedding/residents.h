/* residents.h - which rows are in the slab, in which slots, and which batches have locked them.
 *
 * Rows lie in slots. An index of open addressing finds the slot of a row; each open batch has a bit
 * in the slots it has locked. This suffices to count hits and misses, so a recorded run is replayed
 * by the same code that serves a table.
 */
#ifndef TN_EMBEDDING_RESIDENTS_H
#define TN_EMBEDDING_RESIDENTS_H

#include <tenure/embedding.h>

#include "base/base.h"

#define TN__SLOT_NONE UINT32_MAX
#define TN__ROW_NONE UINT32_MAX          /* no table has such a row */
#define TN__SLOTS_MAX (UINT32_MAX - 512) /* policies use larger numbers themselves */

enum {                             /* tn__slot.flags */
       TN__SLOT_DIRTY = 1u << 0,   /* differs from the file; the journal has the file's version */
       TN__SLOT_READING = 1u << 1, /* being read from the file */
       TN__SLOT_FAILED = 1u << 2,  /* could not be read */
       TN__SLOT_FRESH = 1u << 3,   /* no batch that used it has ended */
};

typedef struct tn__slot {
    uint32_t row;  /* TN__ROW_NONE: vacant */
    uint32_t mark; /* scratch while slots of a batch are visited; if vacant, the next vacant slot */
    uint8_t held;  /* one bit for each batch that has locked it */
    uint8_t flags;
} tn__slot;

typedef struct tn__entry { /* an entry of the index */
    uint32_t row, slot;
} tn__entry;

typedef struct tn__residents {
    const struct tn__row_policy *policy;
    void *state; /* for the policy */
    tn__slot *slots;
    tn__entry *index;
    uint32_t slot_count, index_count;
    uint32_t used;   /* slots that ever held a row */
    uint32_t vacant; /* list of slots that hold no row any more */
    uint32_t resident, locked;
    uint32_t sample; /* for policies that draw at random */
    tn__random random;
} tn__residents;

/* Bytes of the index and the slots' records; bytes of the policy's state. */
uint32_t tn__index_count(uint32_t slots);
uint64_t tn__policy_bytes(const struct tn__row_policy *policy, uint32_t slots);
/* Memory and counts must be set: slots, index, state, their numbers, policy. */
void tn__residents_open(tn__residents *r);

static inline bool tn__may_go(const tn__residents *r, uint32_t slot) {
    return slot < r->used && r->slots[slot].row != TN__ROW_NONE && r->slots[slot].held == 0;
}

/* The rows of a batch, as slots. */
typedef struct tn__hold {
    uint32_t *slot_of;  /* [row_count] */
    uint32_t *distinct; /* [row_count]: distinct slots, in the order of their first rows */
    uint32_t row_count, distinct_count;
    uint32_t lookup_hits, hits; /* of row_count, of distinct_count */
} tn__hold;

/* Callbacks for the owner of the slots when a slot changes hands; NULL: none. */
typedef struct tn__movers {
    void *self;
    /* The row of this slot is about to be evicted. */
    tn_status (*going)(void *self, uint32_t slot, tn_error *error);
} tn__movers;

/* Locks rows[hold->row_count] under the number `bit` of a batch. Slots of rows that were not
 * resident are marked READING and FRESH. E_EXHAUSTED, without a message: too few slots. Then, and
 * if a row cannot be evicted, nothing is locked. */
tn_status tn__residents_hold(tn__residents *r, uint32_t bit, const uint32_t *rows, tn__hold *hold,
                             const tn__movers *movers, tn_error *error);
/* next  [distinct_count] or NULL: for policies that see the future. */
void tn__residents_let(tn__residents *r, uint32_t bit, const tn__hold *hold, const uint64_t *next);

/* Checks the invariants: NULL, or a sentence about one that is broken. O(n). */
const char *tn__residents_check(const tn__residents *r);

#endif
