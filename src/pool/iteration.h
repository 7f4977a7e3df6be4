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

enum { TN__ITERATION_SPARE = 128 }; /* one part in so many may be reserved beyond the most in use */

/* The most that may be reserved where memory can be given back: what has ever been in use at once,
 * or is with `more`, and a little. */
static inline uint64_t tn__iteration_bound(const tn_pool *pool, uint64_t more) {
    uint64_t most = tn__add_sat(pool->usage.allocated, more);
    if (most < pool->usage.allocated_peak) most = pool->usage.allocated_peak;
    return tn__add_sat(most, most / TN__ITERATION_SPARE);
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
