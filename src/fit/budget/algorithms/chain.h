/* chain.h - schedule graphs that are chains: a forward sequence of jobs, then a backward sequence.
 *
 *     f0 -> f1 -> ... -> f(n-1)      forward: each job reads the value of the previous job
 *     e0 -> e1 -> ...                backward: each job reads the value of the previous job, and
 *                                    at most the forward values f(q) and f(q+1); q never rises
 *                                    from one backward job to the next
 *
 * Jobs may also read values that exist from the start, which stay live. The backward jobs with one
 * value of q form a stage. Stage -1 stands for no forward value and has no jobs.
 */
#ifndef TN_ALGORITHMS_CHAIN_H
#define TN_ALGORITHMS_CHAIN_H

#include "fit/budget/pass.h"

typedef struct tn__stage {
    uint32_t job_first, job_count;
    uint64_t cost;
    /* bytes of the value that one stage hands to the next: the value this stage receives, and the
     * one it passes on */
    uint64_t bytes_in, bytes_out;
    /* largest sum, over the jobs of the stage, of three sizes: the value received from the previous
     * stage, the output, and scratch memory */
    uint64_t bytes;
    /* some job of the stage (which reads the forward value f(q)) also reads f(q+1) */
    bool reads_next;
} tn__stage;

typedef struct tn__chain {
    uint32_t count;          /* n */
    const uint64_t *bytes;   /* [n] bytes of each forward value */
    const uint64_t *scratch; /* [n] bytes of scratch memory while the forward value is made */
    const uint64_t *costs;   /* [n] cost of recomputing the forward value */
    /* [n + 1] the stages of backward jobs, with q (the number of the forward value they read) from
     * -1 to n-1 */
    const tn__stage *stages;
    uint64_t base; /* bytes of the values that exist from the start, which are live all the time */
} tn__chain;

/* Reads a schedule graph as a chain. Errors: E_UNSUPPORTED (it is not a chain; the message has the
 * reason), E_NO_MEMORY. Cost: O(jobs + operands). */
tn_status tn__chain_of(const tn__dag *dag, tn__arena *arena, tn__chain *chain, tn_error *error);
static inline const tn__stage *tn__chain_stage(const tn__chain *chain, int64_t q) {
    return &chain->stages[q + 1];
}
/* Adds runs of `count` consecutive jobs, beginning with job `first`. Job i < n makes the forward
 * value f(i); the jobs of a stage are consecutive, too. */
tn_status tn__chain_run(tn__schedule *schedule, uint32_t first, uint32_t count, tn_error *error);

/* Adds the cheapest schedule of a chain to `schedule`, if all runs of its forward jobs together,
 * first runs and repeats, cost less than `ceiling`. Errors: E_INFEASIBLE (proved: there is no such
 * schedule), E_STOPPED (more than `most_work` units of work, or a chain of more than
 * TN__CHAIN_SEARCHED forward values), E_NO_MEMORY. */
enum { TN__CHAIN_SEARCHED = 63 };
tn_status tn__chain_search(tn__pass_run *run, const tn__chain *chain, uint64_t ceiling,
                           uint64_t most_work, tn__schedule *schedule);

/* Optimal checkpointing (Griewank's revolve). The states of a chain of `length` states are visited
 * from the last to the first, while at most `slots` of them are stored, including the first one.
 * Returns the distance from the first stored state to the next one to store. slots >= 2, length >=
 * 2. */
uint64_t tn__revolve_split(uint64_t length, uint64_t slots);
/* Returns the number of forward steps needed to visit a chain of states backwards if every part of
 * it is split as tn__revolve_split says. Returns UINT64_MAX if memory is exhausted. Cost:
 * O(length). */
uint64_t tn__revolve_steps(const tn_context *context, uint64_t length, uint64_t slots);

#endif
