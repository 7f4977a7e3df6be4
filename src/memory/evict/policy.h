/* policy.h - the interface of an eviction policy, and the functions for writing one.
 *
 * A policy is one file in policies/ that fills in one tn__policy, plus one line in policies.def.
 * Either it gives each candidate a score, and the frame (space.c) drops the candidate with the
 * least score; or it names the candidates to drop itself. The frame decides which storages are
 * candidates; it does the locking, recomputing, address assignment and counting.
 *
 * Candidates are examined in the order in which they became candidates. Of equal scores the last
 * one is evicted, and a score of 0 ends the search: DTR's simulator does the same.
 */
#ifndef TN_EVICT_POLICY_H
#define TN_EVICT_POLICY_H

#include "memory/evict/core.h"

enum {                                 /* tn__policy.features */
       TN__POLICY_LINKS = 1u << 0,     /* reads parents and children of storages */
       TN__POLICY_SWAPS = 1u << 1,     /* may have storages copied to the host */
       TN__POLICY_WINDOW = 1u << 2,    /* with addresses: evicts a run of neighbours at once */
       TN__POLICY_PUBLISHED = 1u << 3, /* counting bytes only, it is simulated as its authors did */
       TN__POLICY_MOVES = 1u << 4 /* with addresses: evicts some blocks of a region, moves others */
};

typedef struct tn__policy {
    const char *name;    /* the name users type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or project that the idea comes from */
    uint32_t features;   /* TN__POLICY_* */
    size_t state_size;   /* of evict->state, zeroed */
    /* NULL: nothing to do. False: out of host memory. */
    bool (*added)(tn__evict *e, uint32_t op);        /* records of an operator, before it runs */
    bool (*evicted)(tn__evict *e, uint32_t storage); /* just now */
    bool (*made)(tn__evict *e, const uint32_t *storages, uint32_t count); /* just now */
    void (*released)(tn__evict *e, uint32_t storage); /* dropped, without outside references */
    void (*forgotten)(tn__evict *e, uint32_t op);     /* its links are about to be removed */
    void (*vanished)(tn__evict *e, uint32_t storage); /* its record is about to be reused */
    void (*close)(tn__evict *e);
    /* The least is dropped. May be asked of any candidate. */
    double (*score)(tn__evict *e, uint32_t storage);
    /* Cost of recomputing it, with all else that must or will have to be recomputed; NULL: its own
     * cost. */
    uint64_t (*cost)(tn__evict *e, uint32_t storage);
    /* For policies that move: the score is cost_within / weight, and infinite for x / 0. If the
     * cost exceeds the limit, cost_within may return any number above the limit. */
    double (*weight)(tn__evict *e, uint32_t storage);
    double (*cost_within)(tn__evict *e, uint32_t storage, double limit);
    /* Used instead of scores: returns a candidate, or NONE. `bytes` are wanted. */
    uint32_t (*choose)(tn__evict *e, uint64_t bytes);
    /* True: copy to the host; false: drop. Called when both are possible. */
    bool (*swaps)(tn__evict *e, uint32_t storage);
} tn__policy;

/* num / den as Python divides integers: the nearest double, ties to even. den > 0. */
__extension__ typedef unsigned __int128 tn__wide;
double tn__ratio(uint64_t num, tn__wide den);
/* The denominator of DTR's scores: bytes times staleness. */
static inline tn__wide tn__stale_bytes(const tn__evict *e, const tn__evict_storage *storage) {
    return (tn__wide)storage->size * (e->clock - storage->last_access);
}

const tn__policy *tn__policy_find(const char *name); /* NULL if unknown; name NULL: the default */

#endif
