/* policy.h - the interface of a cache policy.
 *
 * A policy is one file in policies/ that fills in one tn__row_policy, plus one line in
 * policies.def. The frame reports which slots may be evicted (`enter`) and which may not (`leave`:
 * a batch locks the row), and the policy names one to evict. The frame does the locking, indexing,
 * reading and writing. The policy's state is part of the slab and is counted, so a policy stores
 * nothing about rows that are not resident.
 */
#ifndef TN_EMBEDDING_POLICY_H
#define TN_EMBEDDING_POLICY_H

#include "run/embedding/residents.h"

typedef struct tn__row_policy {
    const char *name;    /* the name users type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or project that the idea comes from */
    bool sees_future;    /* only for recorded runs: an upper bound */
    /* Size of r->state, zeroed, for that number of slots; aligned to 16. */
    uint64_t (*bytes)(uint32_t slots);
    void (*open)(tn__residents *r); /* NULL: zeros suffice */
    /* The batch that used the row has ended. fresh: the row was read for it. next: with
     * sees_future, the number of the lookup that uses it next. */
    void (*enter)(tn__residents *r, uint32_t slot, bool fresh, uint64_t next);
    void (*leave)(tn__residents *r, uint32_t slot); /* NULL: it calls tn__may_go instead */
    /* A slot that has entered and not left; at least one exists. The frame then calls `leave`. */
    uint32_t (*choose)(tn__residents *r);
} tn__row_policy;

#define TN__ROW_NEVER UINT64_MAX /* `next` of a row that is not used again */

const tn__row_policy *tn__row_policy_find(const char *name, tn_error *error); /* NULL: none */

#endif
