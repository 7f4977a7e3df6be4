/* residents.h - which rows are in the slab, where, and who has locked them.
 *
 * Rows lie in slots. An index of open addressing finds the slot of a row; a batch that is open has
 * a bit in each of its slots. This is all that is needed to tell hits from misses, so a recorded
 * run is replayed by the same code that serves a table.
 */
#ifndef TN_EMBEDDING_RESIDENTS_H
#define TN_EMBEDDING_RESIDENTS_H

#include <tenure/embedding.h>

#include "base/base.h"

#define TN__SLOT_NONE UINT32_MAX
#define TN__ROW_NONE UINT32_MAX          /* no table has such a row */
#define TN__SLOTS_MAX (UINT32_MAX - 512) /* behind them policies have numbers of their own */

enum {                             /* tn__slot.flags */
       TN__SLOT_DIRTY = 1u << 0,   /* differs from the file; what the file has is in the journal */
       TN__SLOT_READING = 1u << 1, /* on its way from the file */
       TN__SLOT_FAILED = 1u << 2,  /* did not arrive */
       TN__SLOT_FRESH = 1u << 3,   /* no batch that used it is over */
};

typedef struct tn__slot {
    uint32_t row;  /* TN__ROW_NONE: vacant */
    uint32_t mark; /* for who goes over the slots of a batch; in the list of vacant ones the next */
    uint8_t held;  /* a bit of each batch that has locked it */
    uint8_t flags;
} tn__slot;

typedef struct tn__entry { /* of the index */
    uint32_t row, slot;
} tn__entry;

typedef struct tn__residents {
    const struct tn__row_policy *policy;
    void *state; /* the policy's */
    tn__slot *slots;
    tn__entry *index;
    uint32_t slot_count, index_count;
    uint32_t used;   /* slots that ever held a row */
    uint32_t vacant; /* list of those that hold none any more */
    uint32_t resident, locked;
    uint32_t sample; /* for policies that draw */
    tn__random random;
} tn__residents;

/* Bytes of the index and the slots' records; and of what the policy keeps. */
uint32_t tn__index_count(uint32_t slots);
uint64_t tn__policy_bytes(const struct tn__row_policy *policy, uint32_t slots);
/* All but memory and counts is set: slots, index, state, their numbers, policy. */
void tn__residents_open(tn__residents *r);

static inline bool tn__may_go(const tn__residents *r, uint32_t slot) {
    return slot < r->used && r->slots[slot].row != TN__ROW_NONE && r->slots[slot].held == 0;
}
uint32_t tn__residents_find(const tn__residents *r, uint32_t row);
/* The row has gone, and no batch holds it. */
void tn__residents_remove(tn__residents *r, uint32_t slot);

/* The rows of a batch, as slots. */
typedef struct tn__hold {
    uint32_t *slot_of;  /* [row_count] */
    uint32_t *distinct; /* [row_count]: slots, in the order of their first rows */
    uint32_t row_count, distinct_count;
    uint32_t lookup_hits, hits; /* of row_count, of distinct_count */
} tn__hold;

/* What the owner of the slots does when one changes hands; NULL: nothing. */
typedef struct tn__movers {
    void *self;
    /* The row of this slot is about to go. */
    tn_status (*going)(void *self, uint32_t slot, tn_error *error);
} tn__movers;

/* Locks rows[hold->row_count] under the number `bit` of a batch. Slots of rows that were not there
 * are marked READING and FRESH. E_EXHAUSTED, without a message: there are too few; then, and when
 * a row cannot go, nothing is locked. */
tn_status tn__residents_hold(tn__residents *r, uint32_t bit, const uint32_t *rows, tn__hold *hold,
                             const tn__movers *movers, tn_error *error);
/* next  [distinct_count] or NULL: for policies that see the future. */
void tn__residents_let(tn__residents *r, uint32_t bit, const tn__hold *hold, const uint64_t *next);

/* What must hold: NULL, or what does not. O(n). */
const char *tn__residents_check(const tn__residents *r);

#endif
