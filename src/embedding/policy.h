/* policy.h - what a policy is, and the words it is written in.
 *
 * A policy is one file in policies/ that fills in one tn__row_policy, plus one line in
 * policies.def. It is told which slots may go (`enter`) and which may not (`leave`: a batch locks
 * the row), and names one that goes. Locks, the index, reading and writing are the frame's. Its
 * state is part of the slab and is counted: a policy keeps nothing of rows that are not resident.
 */
#ifndef TN_EMBEDDING_POLICY_H
#define TN_EMBEDDING_POLICY_H

#include "embedding/residents.h"

typedef struct tn__row_policy {
    const char *name;    /* what people type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or peer the idea comes from */
    bool sees_future;    /* for recorded runs alone: a bound */
    /* Of r->state, zeroed, for so many slots; aligned to 16. */
    uint64_t (*bytes)(uint32_t slots);
    void (*open)(tn__residents *r); /* NULL: zeros will do */
    /* The batch that used the row is over. fresh: the row came with it. next: with sees_future, the
     * number of the lookup that will use it next. */
    void (*enter)(tn__residents *r, uint32_t slot, bool fresh, uint64_t next);
    void (*leave)(tn__residents *r, uint32_t slot); /* NULL: asks tn__may_go instead */
    /* One that has entered and not left; there is one. The frame has it leave. */
    uint32_t (*choose)(tn__residents *r);
} tn__row_policy;

#define TN__ROW_NEVER UINT64_MAX /* `next` of what is not used again */

const tn__row_policy *tn__row_policy_find(const char *name, tn_error *error); /* NULL: none */

#endif
