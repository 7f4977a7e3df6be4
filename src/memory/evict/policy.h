/* policy.h - the interface of an eviction policy, and the functions for writing one.
 *
 * A policy is one file in policies/ that fills in one tn__policy, plus one line in policies.def.
 * Either it gives each candidate a score, and space.c evicts the candidate with the least score; or
 * it chooses the candidate itself. The core decides which storages are candidates; it does the
 * locking, recomputing, address assignment and counting.
 *
 * Candidates are examined in the order in which they became candidates. Of equal scores the last
 * one is evicted, and a score of 0 ends the search: DTR's simulator does the same.
 */
#ifndef TN_EVICT_POLICY_H
#define TN_EVICT_POLICY_H

#include "memory/evict/core.h"

enum { /* flags of a policy (tn__policy.features) */
       /* the policy reads the parents and children of storages, so these links must be recorded */
       TN__POLICY_LINKS = 1u << 0,
       TN__POLICY_SWAPS = 1u << 1, /* the policy may have storages copied to the host */
       /* with addresses, the policy evicts a sequence of neighbouring blocks at once */
       TN__POLICY_WINDOW = 1u << 2,
       /* if the log of another tool is simulated and bytes are only counted, without addresses, the
        * policy behaves as in its authors' simulator */
       TN__POLICY_PUBLISHED = 1u << 3,
       /* with addresses, the policy evicts some blocks of a region and moves the others */
       TN__POLICY_MOVES = 1u << 4
};

typedef struct tn__policy {
    const char *name;    /* the name that users type, matching [a-z0-9-]+ */
    const char *summary; /* description of the policy in one line for --help, without a full stop */
    const char *source;  /* paper, book or project from which the idea comes */
    uint32_t features;   /* features of the policy: bits TN__POLICY_* */
    size_t state_size;   /* size of evict->state, which is zeroed */
    /* The following functions tell the policy about events. A function that the policy does not
     * need is NULL. Those that return bool return false if host memory is out. */
    /* the records of an operator were added, before it runs */
    bool (*added)(tn__evict *e, uint32_t op);
    /* the storage was just dropped or copied to the host */
    bool (*evicted)(tn__evict *e, uint32_t storage);
    /* these storages just became resident */
    bool (*made)(tn__evict *e, const uint32_t *storages, uint32_t count);
    /* the last outside reference to a dropped storage was released */
    void (*released)(tn__evict *e, uint32_t storage);
    /* the links of the operator are about to be removed */
    void (*forgotten)(tn__evict *e, uint32_t op);
    /* the record of the storage is about to be reused */
    void (*vanished)(tn__evict *e, uint32_t storage);
    void (*close)(tn__evict *e);
    /* Returns the score; the candidate with the least is evicted. It may be called for any
     * candidate. */
    double (*score)(tn__evict *e, uint32_t storage);
    /* Returns the cost of recomputing the storage, with all other storages that must or will have
     * to be recomputed; NULL: its own cost. */
    uint64_t (*cost)(tn__evict *e, uint32_t storage);
    /* For policies with TN__POLICY_MOVES: the score is cost_within / weight, and infinite for x /
     * 0. If the cost exceeds the limit, cost_within may return any number above the limit. */
    double (*weight)(tn__evict *e, uint32_t storage);
    double (*cost_within)(tn__evict *e, uint32_t storage, double limit);
    /* Used instead of scores: returns a candidate, or NONE. `bytes` is the number of bytes
     * requested. */
    uint32_t (*choose)(tn__evict *e, uint64_t bytes);
    /* Returns whether to copy a storage to the host rather than drop it. Called when both are
     * possible. */
    bool (*swaps)(tn__evict *e, uint32_t storage);
} tn__policy;

/* tn__ratio returns num / den as Python divides integers: the nearest double, with ties to the even
 * one. den must be positive. */
__extension__ typedef unsigned __int128 tn__wide;
double tn__ratio(uint64_t num, tn__wide den);
/* The denominator of DTR's scores: bytes times staleness, the time since the last access. */
static inline tn__wide tn__stale_bytes(const tn__evict *e, const tn__evict_storage *storage) {
    return (tn__wide)storage->size * (e->clock - storage->last_access);
}

/* finds a policy by name; NULL if the name is unknown; name NULL: the default policy */
const tn__policy *tn__policy_find(const char *name);

#endif
