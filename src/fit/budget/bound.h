/* bound.h - lower bounds that hold for every schedule: on memory, and on time within a budget. */
#ifndef TN_BUDGET_BOUND_H
#define TN_BUDGET_BOUND_H

#include "fit/budget/pass.h"

/* Raises run->bound (time) and run->least_bytes (memory) to the lower bounds that can be proved in
 * about `effort` looks at jobs and values. Errors: E_INFEASIBLE (no schedule that the run allows is
 * within its budget), E_NO_MEMORY, E_STOPPED. */
tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort);

enum { TN__BOUND_MOMENTS = 64 };

/* Advice for a search: for a few jobs during which memory is short, the values that are best kept
 * live during the job's first run, and those that are best recomputed. Each job is considered
 * alone, with the jobs in the order of the list. */
typedef struct tn__bound_advice {
    uint32_t count;
    uint32_t jobs[TN__BOUND_MOMENTS]; /* [count] the jobs, in ascending order */
    /* [values] 1: keep the value live during that job; -1: recompute it later; 0: not needed, or
     * unknown */
    int8_t *rows[TN__BOUND_MOMENTS];
} tn__bound_advice;
/* Computes the advice for a search. Errors: E_NO_MEMORY, E_STOPPED. Cost: as tn__bound_raise. */
tn_status tn__bound_advise(tn__pass_run *run, uint64_t effort, tn__bound_advice *advice);

#endif
