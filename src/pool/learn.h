/* learn.h - what was asked for of late, and whether it repeats.
 *
 * Requests are kept in a ring, each with its size, stream, and how many requests came before its
 * block was freed. Whether the last ones came before in the same order is seen by a hash of the
 * last sixteen: where it was met before, the distance is a candidate for the period, and stays one
 * as long as every request equals the one a period ago. When that was so for a whole period there
 * are two iterations side by side that are alike, which is enough to plan the next.
 *
 * A loop within the loop (layers that are all alike) is found as well; the caller looks whether
 * memory is as full after it as before, and if not asks again when it has gone on for longer.
 *
 * Where nothing repeated within 2^18 requests, as many are not looked at, then twice as many, up to
 * eight times; so that a program without iterations pays little for the search.
 *
 * Cost: O(1) for a request; 36 bytes for each of the last 2^18.
 */
#ifndef TN_POOL_LEARN_H
#define TN_POOL_LEARN_H

#include "base/base.h"

typedef struct tn__asked {
    uint64_t size;  /* as the technique rounds it */
    uint64_t birth; /* of its block: tells whether a block is this one's */
    uint64_t freed; /* requests before its block was freed; 0: in use */
    uint32_t stream, alignment;
} tn__asked;

typedef struct tn__learn {
    tn__asked *asked; /* a ring: request n at [n % room]; room a power of two */
    uint32_t *seen;   /* [room], by the hash of a context: the number after its last request */
    size_t room;
    uint64_t first, count; /* the requests that are kept: first <= n < count */
    uint64_t context;      /* hash of the last sixteen */
    uint64_t lag, run;     /* candidate, and how many requests agreed with it; lag 0: none */
    uint64_t enough;       /* the run that is reported next */
    uint64_t skip, skips;  /* requests that are not looked at now; and were, the last time */
} tn__learn;

#define TN__LEARN_NONE UINT32_MAX

void tn__learn_close(const tn_context *context, tn__learn *learn);
void tn__learn_forget(tn__learn *learn); /* begins anew */
/* A block was handed out. Returns its number, for tn__learn_free; NONE: it is not kept. */
uint32_t tn__learn_ask(const tn_context *context, tn__learn *learn, const tn__asked *asked);
void tn__learn_free(tn__learn *learn, uint32_t number, uint64_t birth);
/* Whether the last requests are so many iterations that are like the one before them. */
bool tn__learn_ready(const tn__learn *learn, uint64_t patience);
/* The same, with the requests in an iteration as the answer, or 0: then ready again when it has
 * gone on for twice as long. */
uint64_t tn__learn_period(tn__learn *learn, uint64_t patience);
/* Whether the block of request `number` is kept still, and which request it was. */
bool tn__learn_knows(const tn__learn *learn, uint32_t number, uint64_t birth, uint64_t *which);

static inline const tn__asked *tn__learn_at(const tn__learn *learn, uint64_t n) {
    return &learn->asked[n & (learn->room - 1)];
}

#endif
