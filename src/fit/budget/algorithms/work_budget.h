/* work_budget.h - lowers the memory of a schedule by recomputing values, within a work budget: a
 * limit on the work that is added.
 */
#ifndef TN_ALGORITHMS_WORK_BUDGET_H
#define TN_ALGORITHMS_WORK_BUDGET_H

#include "fit/budget/schedule/schedule_graph.h"

/* How much work may be added, and for how few bytes. */
typedef struct tn__work_budget {
    const bool *may; /* [jobs] those that may be repeated; NULL: every repeatable job */
    uint64_t added;  /* added work in total, at most */
    uint64_t target; /* bytes at which the search stops */
    /* A better measure of a schedule's peak than tn__replay_schedule, which counts a view as its
     * whole root. NULL: use tn__replay_schedule. */
    tn_status (*bytes)(void *self, const tn__schedule *schedule, uint64_t *bytes);
    void *self;
} tn__work_budget;

/* Improves the schedule repeatedly, until its peak is at most the target or no step helps. The
 * result is never worse than the input.
 *
 * schedule  contains RUN only; changed
 * replay    out: measurements of the final schedule
 * Errors: E_NO_MEMORY, those of tn__replay_schedule and of goal->bytes.
 */
tn_status tn__work_budget_lower(const tn__dag *dag, const tn__work_budget *goal,
                                tn__schedule *schedule, tn__replay *replay, tn_error *error);

#endif
