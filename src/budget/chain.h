/* chain.h - works that are chains: forward one after the other, then back.
 *
 *     f0 -> f1 -> ... -> f(n-1)            each reads the one before (and what was there)
 *     e0 -> e1 -> ...                      each reads the one before, and f(q), f(q+1) at most,
 *                                          where q never rises
 *
 * Jobs of one q are a stage. Stage -1 reads f0 at most. What was there from the start stays.
 */
#ifndef TN_BUDGET_CHAIN_H
#define TN_BUDGET_CHAIN_H

#include "budget/pass.h"

typedef struct tn__stage {
    uint32_t job_first, job_count;
    uint64_t cost;
    uint64_t bytes_in, bytes_out; /* of what is handed on: before it, behind it */
    uint64_t bytes;               /* of what is handed on and scratch, at its worst job */
    bool reads_next;              /* f(q+1) */
} tn__stage;

typedef struct tn__chain {
    uint32_t count;          /* n */
    const uint64_t *bytes;   /* [n] of f */
    const uint64_t *scratch; /* [n] while f is made */
    const uint64_t *costs;   /* [n] of making f again */
    const tn__stage *stages; /* [n + 1]: q = -1 .. n-1 */
    uint64_t base;           /* what stays */
} tn__chain;

/* Errors: E_UNSUPPORTED (it is none, and why), E_NO_MEMORY. Cost: O(jobs + operands). */
tn_status tn__chain_of(const tn__work *work, tn__arena *arena, tn__chain *chain, tn_error *error);
static inline const tn__stage *tn__chain_stage(const tn__chain *chain, int64_t q) {
    return &chain->stages[q + 1];
}
/* Adds the jobs that make f(first) .. f(last - 1), or those of a stage. */
tn_status tn__chain_run(tn__schedule *schedule, uint32_t first, uint32_t count, tn_error *error);

/* The cheapest schedule of all, added to `schedule`, where what is made costs less than `ceiling`
 * (each f once, and again). Errors: E_INFEASIBLE (proved: there is none), E_STOPPED (after so much
 * work, or the chain is longer than TN__CHAIN_SEARCHED), E_NO_MEMORY. */
enum { TN__CHAIN_SEARCHED = 63 };
tn_status tn__chain_search(tn__pass_run *run, const tn__chain *chain, uint64_t ceiling,
                           uint64_t most_work, tn__schedule *schedule);

/* Where `length` states are split that are to be gone through backwards with `slots` of them kept
 * (the first among them): the next is kept so many further on. slots >= 2, length >= 2. */
uint64_t tn__revolve_split(uint64_t length, uint64_t slots);
/* Steps forward that this takes, counted split by split. Cost: O(length). UINT64_MAX: no memory. */
uint64_t tn__revolve_steps(const tn_context *context, uint64_t length, uint64_t slots);

#endif
