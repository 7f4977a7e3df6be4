/* policy.h - the interface of a cache policy, which chooses the row that is evicted from a table of
 * embeddings.
 *
 * A policy is one file in policies/ that fills in one tn__row_policy, and one line in policies.def.
 * The caller (residents.c) reports which slots may be evicted (`enter`) and which may not (`leave`,
 * because a batch locks the row). The policy chooses one that may be evicted. residents.c and
 * move.c do the locking, indexing, reading and writing. The state of a policy is part of the slab
 * and counts as cache memory, so a policy stores nothing about rows that are not resident.
 */
#ifndef TN_EMBEDDING_POLICY_H
#define TN_EMBEDDING_POLICY_H

#include "engine/rows/residents.h"

typedef struct tn__row_policy {
    const char *name;    /* name of the policy, as users type it: [a-z0-9-]+ */
    const char *summary; /* description of the policy in one line for --help, without a full stop */
    const char *source;  /* paper, book or project from which the idea comes */
    /* whether the policy needs future uses; such a policy works only for recorded runs */
    bool sees_future;
    /* Returns the size of r->state for this number of slots. The state is zeroed and aligned to
     * 16. */
    uint64_t (*bytes)(uint32_t slots);
    /* initialises r->state; NULL: it is enough that all bytes of the state are zero */
    void (*open)(tn__residents *r);
    /* Called when the last batch that locks a slot ends, so that it may be evicted. `fresh`: the
     * row was read for this batch. `next`: for a policy with sees_future, the number of the lookup
     * that uses the row next. */
    void (*enter)(tn__residents *r, uint32_t slot, bool fresh, uint64_t next);
    /* Called when a slot is locked or evicted. NULL: `choose` checks slots with tn__may_go
     * instead. */
    void (*leave)(tn__residents *r, uint32_t slot);
    /* Returns the slot to evict, one that has entered and not left; at least one exists. The caller
     * then calls `leave`. */
    uint32_t (*choose)(tn__residents *r);
} tn__row_policy;

#define TN__ROW_NEVER UINT64_MAX /* value of `next` for a row that is not used again */

/* Returns the policy with this name, or NULL (and an error) if no policy has this name. */
const tn__row_policy *tn__row_policy_find(const char *name, tn_error *error);

#endif
