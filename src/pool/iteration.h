/* iteration.h - what pools/iteration.c and iteration_plan.c share: the state of a pool that learns.
 */
#ifndef TN_POOL_ITERATION_H
#define TN_POOL_ITERATION_H

#include "pool/lanes.h"
#include "pool/script.h"

typedef struct tn__iteration {
    tn__lanes lanes;
    tn__learn learn;
    /* a plan is to be made before request number `calm`, if iterations of `period` requests go on
     * as they did when `run` requests had been alike; period 0: not yet known */
    uint64_t period, calm, run;
    tn__script script;         /* count 0: there is no plan */
    uint64_t inner;            /* blocks in use within the plan */
    uint64_t beyond;           /* bytes reserved for surprises since the plan is in force */
    uint64_t round, surprises; /* of this round */
    uint64_t held, jammed;     /* surprises whose place was held, this round; rounds with such */
    uint64_t patience;         /* periods to see before a plan is made */
    bool is_planning;
    bool has_strangers; /* free bytes across the border of two zones */
    tn_pool_lesson lesson;
} tn__iteration;

static inline bool tn__iteration_has_plan(const tn__iteration *state) {
    return state->script.count > 0;
}

/* What may be reserved beyond what blocks take, and beyond what was asked for: one part in so many.
 * The second has the first's roundings in it; where they are large, the first keeps room for plans.
 */
enum { TN__ITERATION_BESIDE_BLOCKS = 256, TN__ITERATION_BESIDE_ASKED = 128 };

static inline uint64_t tn__iteration_most(uint64_t now, uint64_t more, uint64_t peak,
                                          uint64_t part) {
    uint64_t most = tn__add_sat(now, more);
    if (most < peak) most = peak;
    return tn__add_sat(most, most / part);
}

/* The most that may be reserved where memory can be given back: what has ever been in use at once,
 * or is with `more` (NULL: nothing), and a little. */
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
/* Makes a plan when it is time, and puts it in force. Called without the lock. */
void tn__iteration_rest(tn_pool *pool);
/* What the plan held becomes chunks like all others. False: no memory, and the plan stays. */
bool tn__iteration_forget(tn_pool *pool);
/* What lies free, of whatever stream, goes outside; and what of that the plan has a use for, into
 * the plan. Needs room for the zones' chunks. */
void tn__iteration_reclaim(tn_pool *pool);

#endif
