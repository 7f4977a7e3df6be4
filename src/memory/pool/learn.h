/* learn.h - records recent requests and finds out whether they repeat.
 *
 * Requests are kept in a ring, each with its size, its stream, and the number of requests until its
 * block was freed. A hash of the last sixteen requests finds an earlier occurrence of the same
 * sequence. The distance to it is a candidate for the period, and stays one as long as every
 * request equals the one a period ago. After a whole period of equal requests, there are two equal
 * iterations in a row, which is enough to plan the next.
 *
 * A loop within the loop (layers that are all alike) is found as well. The caller then compares the
 * memory in use after it with that before it, and if they differ, asks again after more
 * repetitions.
 *
 * If nothing repeated within 2^18 requests, the same number is skipped, then twice as many, up to
 * eight times. So a program without iterations pays little for the search.
 *
 * Cost: O(1) per request; 36 bytes for each of the last 2^18.
 */
#ifndef TN_POOL_LEARN_H
#define TN_POOL_LEARN_H

#include "base/base.h"

typedef struct tn__asked {
    uint64_t size;  /* as rounded by the technique */
    uint64_t birth; /* birth of its block, which identifies the block */
    uint64_t freed; /* number of requests until its block was freed; 0: in use */
    uint32_t stream, alignment;
} tn__asked;

typedef struct tn__learn {
    tn__asked *asked; /* a ring: request n at [n % room]; room a power of two */
    /* [room], by the hash of a context: the number after the context's last request */
    uint32_t *seen;
    size_t room;
    uint64_t first, count; /* the requests that are kept: first <= n < count */
    uint64_t context;      /* hash of the last sixteen */
    /* candidate, and the number of requests that agreed with it; lag 0: no candidate */
    uint64_t lag, run;
    uint64_t enough;      /* the run at which a period is reported next */
    uint64_t skip, skips; /* requests to skip now; length of the last skip */
} tn__learn;

#define TN__LEARN_NONE UINT32_MAX

void tn__learn_close(const tn_context *context, tn__learn *learn);
void tn__learn_forget(tn__learn *learn); /* begins from scratch */
/* Records a block that was handed out. Returns its number, for tn__learn_free; NONE: not
 * recorded. */
uint32_t tn__learn_ask(const tn_context *context, tn__learn *learn, const tn__asked *asked);
void tn__learn_free(tn__learn *learn, uint32_t number, uint64_t birth);
/* Whether the last `patience` iterations each equal the one before. */
bool tn__learn_ready(const tn__learn *learn, uint64_t patience);
/* The same, but returns the number of requests in an iteration, or 0. After that, it is ready again
 * when the run is twice as long. */
uint64_t tn__learn_period(tn__learn *learn, uint64_t patience);
/* Whether the block of request `number` is still recorded, and the request that it belongs to. */
bool tn__learn_knows(const tn__learn *learn, uint32_t number, uint64_t birth, uint64_t *which);

static inline const tn__asked *tn__learn_at(const tn__learn *learn, uint64_t n) {
    return &learn->asked[n & (learn->room - 1)];
}

#endif
