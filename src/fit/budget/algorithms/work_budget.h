/* work_budget.h - lowers the memory of a schedule by recomputing values, within a work budget: a
 * limit on the work that is added.
 */
#ifndef TN_ALGORITHMS_WORK_BUDGET_H
#define TN_ALGORITHMS_WORK_BUDGET_H

#include "fit/budget/schedule/schedule_graph.h"

/* Limits of a search for values to recompute: the work that may be added, and the bytes at which
 * the search may stop. */
typedef struct tn__work_budget {
    /* [jobs] whether the job may be repeated; NULL: every job that can be repeated may be */
    const bool *may;
    uint64_t added;  /* limit for the total added work */
    uint64_t target; /* the search stops when the peak is at most this many bytes */
    /* Measures the peak of a schedule more exactly than tn__replay_schedule, which counts a view as
     * its whole root tensor. NULL: use tn__replay_schedule. */
    tn_status (*bytes)(void *self, const tn__schedule *schedule, uint64_t *bytes);
    void *self;
} tn__work_budget;

/* Improves a schedule repeatedly, until its peak is at most the target or no step helps. The result
 * is never worse than the input.
 *
 * schedule  in and out; contains only actions of kind TN__RUN
 * replay    out: measurements of the final schedule
 * Errors: E_NO_MEMORY, those of tn__replay_schedule and of goal->bytes.
 */
tn_status tn__work_budget_lower(const tn__dag *dag, const tn__work_budget *goal,
                                tn__schedule *schedule, tn__replay *replay, tn_error *error);

#endif
