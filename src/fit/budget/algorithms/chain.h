/* chain.h - schedule graphs that are chains: a forward sequence of jobs, then a backward sequence.
 *
 *     f0 -> f1 -> ... -> f(n-1)            each reads the previous one (and initial values)
 *     e0 -> e1 -> ...                      each reads the previous one, and f(q), f(q+1) at
 *                                          most, where q never rises
 *
 * The backward jobs of one q form a stage. Stage -1 reads f0 at most. Initial values stay live.
 */
#ifndef TN_ALGORITHMS_CHAIN_H
#define TN_ALGORITHMS_CHAIN_H

#include "fit/budget/pass.h"

typedef struct tn__stage {
    uint32_t job_first, job_count;
    uint64_t cost;
    uint64_t bytes_in, bytes_out; /* of the value handed from stage to stage: before this stage,
                                   * after it */
    uint64_t bytes;               /* highest sum of handed-on bytes and scratch over the jobs of
                                   * the stage */
    bool reads_next;              /* reads f(q+1) */
} tn__stage;

typedef struct tn__chain {
    uint32_t count;          /* n */
    const uint64_t *bytes;   /* [n] size of each f */
    const uint64_t *scratch; /* [n] scratch while f is made */
    const uint64_t *costs;   /* [n] cost of recomputing f */
    const tn__stage *stages; /* [n + 1] stages q = -1 .. n-1 */
    uint64_t base;           /* bytes of the values that stay live */
} tn__chain;

/* Errors: E_UNSUPPORTED (the schedule graph is not a chain, with the reason), E_NO_MEMORY. Cost:
 * O(jobs + operands). */
tn_status tn__chain_of(const tn__dag *dag, tn__arena *arena, tn__chain *chain, tn_error *error);
static inline const tn__stage *tn__chain_stage(const tn__chain *chain, int64_t q) {
    return &chain->stages[q + 1];
}
/* Adds the jobs that make f(first) .. f(last - 1), or those of a stage. */
tn_status tn__chain_run(tn__schedule *schedule, uint32_t first, uint32_t count, tn_error *error);

/* Adds the cheapest schedule to `schedule`, if making the values f costs less than `ceiling` in
 * total (first runs and repeats). Errors: E_INFEASIBLE (proved: no such schedule exists), E_STOPPED
 * (after `most_work` units, or because the chain is longer than TN__CHAIN_SEARCHED), E_NO_MEMORY.
 */
enum { TN__CHAIN_SEARCHED = 63 };
tn_status tn__chain_search(tn__pass_run *run, const tn__chain *chain, uint64_t ceiling,
                           uint64_t most_work, tn__schedule *schedule);

/* Checkpointing (revolve): `length` states are visited backwards with `slots` of them stored, the
 * first one included. Returns the distance from the first stored state to the next one. slots >= 2,
 * length >= 2. */
uint64_t tn__revolve_split(uint64_t length, uint64_t slots);
/* The number of forward steps that these splits cause, added up split by split. Cost: O(length).
 * UINT64_MAX: out of memory. */
uint64_t tn__revolve_steps(const tn_context *context, uint64_t length, uint64_t slots);

#endif
