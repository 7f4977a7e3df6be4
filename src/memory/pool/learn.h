/* learn.h - records recent requests and determines whether they repeat.
 *
 * Requests are kept in a ring, each with its size, its stream, and the number of requests that had
 * been made when its block was freed. A hash of the last sixteen requests finds an earlier
 * occurrence of the same sequence. The distance to it is a candidate for the period, and remains
 * one as long as every request equals the one a period before. After a whole period of equal
 * requests, there are two equal iterations in a row, which is enough to plan the next one.
 *
 * A loop within the loop (layers that are all equal) is found as well. The caller then compares the
 * memory in use after it with that before it, and if they differ, asks again after more
 * repetitions.
 *
 * If nothing repeated within 2^18 requests, the next 2^18 requests are skipped, then twice as many,
 * up to eight times. So a program without iterations spends little time on the search.
 *
 * Cost: O(1) per request; 36 bytes for each of the last 2^18.
 */
#ifndef TN_POOL_LEARN_H
#define TN_POOL_LEARN_H

#include "base/base.h"

typedef struct tn__asked {
    uint64_t size;  /* size as rounded by the technique */
    uint64_t birth; /* number of the allocation of its block, which identifies the block */
    /* number of all requests that had been made when the block of this request was freed; 0: the
     * block is in use */
    uint64_t freed;
    uint32_t stream, alignment;
} tn__asked;

typedef struct tn__learn {
    tn__asked *asked; /* a ring: request n is at index n % room; room is a power of two */
    /* [room], indexed by the hash of a context: the number of requests when it last occurred */
    uint32_t *seen;
    size_t room;
    uint64_t first, count; /* the requests that are kept are those with first <= n < count */
    uint64_t context;      /* hash of the last sixteen requests */
    /* lag: candidate for the period, 0: no candidate; run: number of requests in a row that agreed
     * with it */
    uint64_t lag, run;
    uint64_t enough; /* value of `run` at which a period is reported next */
    /* skip: number of requests still to skip; skips: length of the last skip */
    uint64_t skip, skips;
} tn__learn;

#define TN__LEARN_NONE UINT32_MAX

void tn__learn_close(const tn_context *context, tn__learn *learn);
/* forgets all recorded requests and the candidate for the period */
void tn__learn_forget(tn__learn *learn);
/* Records a block that was allocated. Returns the number of its request, for tn__learn_free; NONE:
 * it is not recorded. */
uint32_t tn__learn_ask(const tn_context *context, tn__learn *learn, const tn__asked *asked);
void tn__learn_free(tn__learn *learn, uint32_t number, uint64_t birth);
/* Whether each of the last `patience` iterations equals the one before it. */
bool tn__learn_ready(const tn__learn *learn, uint64_t patience);
/* Returns the number of requests in an iteration if tn__learn_ready, else 0. After that,
 * tn__learn_ready is true again only when twice as many requests have agreed. */
uint64_t tn__learn_period(tn__learn *learn, uint64_t patience);
/* Whether the block of request `number` is still recorded. *which: the full number of the
 * request. */
bool tn__learn_knows(const tn__learn *learn, uint32_t number, uint64_t birth, uint64_t *which);

static inline const tn__asked *tn__learn_at(const tn__learn *learn, uint64_t n) {
    return &learn->asked[n & (learn->room - 1)];
}

#endif
