/* policy.h - what a policy is, and the words it is written in.
 *
 * A policy is one file in policies/ that fills in one tn__policy, plus one line in policies.def. It
 * gives a candidate a score, and the frame (space.c) drops the one with the least; or it names the
 * candidates to be dropped itself. What is a candidate, locks, making again, room, addresses and
 * counters are the frame's.
 *
 * Candidates are looked at in the order in which they became candidates; of equal scores the last
 * one goes, and a score of 0 ends the search: so DTR's simulator does it.
 */
#ifndef TN_EVICT_POLICY_H
#define TN_EVICT_POLICY_H

#include "evict/core.h"

enum {                                 /* tn__policy.features */
       TN__POLICY_LINKS = 1u << 0,     /* reads parents and children of storages */
       TN__POLICY_SWAPS = 1u << 1,     /* may have storages copied to the host */
       TN__POLICY_WINDOW = 1u << 2,    /* with addresses: a run of neighbours goes at once */
       TN__POLICY_PUBLISHED = 1u << 3, /* by bytes alone it is simulated as its authors did */
       TN__POLICY_MOVES =
           1u << 4 /* with addresses: stretches, of which some go and some are moved */
};

typedef struct tn__policy {
    const char *name;    /* what people type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or peer the idea comes from */
    uint32_t features;   /* TN__POLICY_* */
    size_t state_size;   /* of evict->state, zeroed */
    /* NULL: nothing to do. False: out of host memory. */
    bool (*added)(tn__evict *e, uint32_t op);        /* records of an operator, before it runs */
    bool (*evicted)(tn__evict *e, uint32_t storage); /* just now */
    bool (*made)(tn__evict *e, const uint32_t *storages, uint32_t count); /* just now */
    void (*released)(tn__evict *e, uint32_t storage); /* dropped, and nobody outside refers to it */
    void (*forgotten)(tn__evict *e, uint32_t op);     /* its links are about to go */
    void (*vanished)(tn__evict *e, uint32_t storage); /* its record is about to be used anew */
    void (*close)(tn__evict *e);
    /* The least is dropped. May be asked of any candidate. */
    double (*score)(tn__evict *e, uint32_t storage);
    /* Of making it again, with what else must be or will have to be; NULL: its own cost. */
    uint64_t (*cost)(tn__evict *e, uint32_t storage);
    /* Of policies that move: the score is cost_within / weight, and infinite where that is x / 0.
     * Once the cost is seen to be more than the limit, any number above the limit may be told. */
    double (*weight)(tn__evict *e, uint32_t storage);
    double (*cost_within)(tn__evict *e, uint32_t storage, double limit);
    /* Instead of scores: a candidate, or NONE for none. `bytes` are wanted. */
    uint32_t (*choose)(tn__evict *e, uint64_t bytes);
    /* Dropped or copied to the host? Asked when both can be done. */
    bool (*swaps)(tn__evict *e, uint32_t storage);
} tn__policy;

/* num / den as Python divides integers: the nearest double, ties to even. den > 0. */
__extension__ typedef unsigned __int128 tn__wide;
double tn__ratio(uint64_t num, tn__wide den);
/* The denominator of DTR's scores: bytes times staleness. */
static inline tn__wide tn__stale_bytes(const tn__evict *e, const tn__evict_storage *storage) {
    return (tn__wide)storage->size * (e->clock - storage->last_access);
}

const tn__policy *tn__policy_find(const char *name); /* NULL: none; a name of NULL: the default */

#endif
