/* iteration.h - the state of the pool that learns iterations, shared by pools/iteration.c and
 * iteration_plan.c. */
#ifndef TN_POOL_ITERATION_H
#define TN_POOL_ITERATION_H

#include "memory/pool/lanes.h"
#include "memory/pool/recorded.h"

typedef struct tn__iteration {
    tn__lanes lanes;
    tn__learn learn;
    /* A plan will be made before request number `calm`, if iterations of `period` requests keep
     * repeating. `run` is the number of the request after which requests began to equal those a
     * period before. period 0: not known yet. */
    uint64_t period, calm, run;
    /* the iteration that the plan expects; recorded.count is 0 if no plan is in force */
    tn__recorded recorded;
    uint64_t inner; /* number of blocks in use that lie in bytes of the plan in force */
    /* bytes reserved for unexpected requests since the plan came into force or memory was last
     * reclaimed */
    uint64_t beyond;
    /* number of the current round (iteration), and of unexpected requests in it */
    uint64_t round, surprises;
    /* held: requests of this round whose planned place was still in use; jammed: number of
     * consecutive rounds with such requests */
    uint64_t held, jammed;
    /* number of equal periods in a row that are required before a plan is made */
    uint64_t patience;
    bool is_planning;
    bool has_strangers; /* some free bytes of a stream lie in the plan's zone of another stream */
    tn_pool_lesson lesson;
} tn__iteration;

static inline bool tn__iteration_has_plan(const tn__iteration *state) {
    return state->recorded.count > 0;
}

/* Denominators of the slack: the pool may reserve 1/256 more than the bytes of blocks, or 1/128
 * more than the requested bytes. The second includes the rounding of requests to blocks; if
 * rounding is large, the first still leaves slack for plans. */
enum { TN__ITERATION_BESIDE_BLOCKS = 256, TN__ITERATION_BESIDE_ASKED = 128 };

static inline uint64_t tn__iteration_most(uint64_t now, uint64_t more, uint64_t peak,
                                          uint64_t part) {
    uint64_t most = tn__add_sat(now, more);
    if (most < peak) most = peak;
    return tn__add_sat(most, most / part);
}

/* The largest allowed reservation if memory can be released: the most bytes that were ever in use
 * at once, or are now in use together with `more` (may be NULL), plus the slack. */
static inline uint64_t tn__iteration_bound(const tn_pool *pool, const tn__want *more) {
    const tn_pool_usage *usage = &pool->usage;
    uint64_t blocks = tn__iteration_most(usage->allocated, more == NULL ? 0 : more->size,
                                         usage->allocated_peak, TN__ITERATION_BESIDE_BLOCKS);
    uint64_t asked = tn__iteration_most(usage->requested, more == NULL ? 0 : more->requested,
                                        usage->requested_peak, TN__ITERATION_BESIDE_ASKED);
    return blocks > asked ? blocks : asked;
}

/* Whether tn__iteration_rest has something to do. */
bool tn__iteration_is_due(const tn__iteration *state);
/* Makes a plan if it is time for one, and puts it in force. Call it without holding the lock. */
void tn__iteration_rest(tn_pool *pool);
/* Ends the plan: turns its blocks and free bytes into ordinary chunks. False if memory is out; then
 * the plan stays. */
bool tn__iteration_forget(tn_pool *pool);
/* Releases all free bytes, and then lends those within the plan's zones to the plan again. Records
 * for the zones' chunks must be reserved. */
void tn__iteration_reclaim(tn_pool *pool);

#endif
