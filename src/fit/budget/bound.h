/* bound.h - lower bounds that hold for every schedule: on memory, and on time within a budget. */
#ifndef TN_BUDGET_BOUND_H
#define TN_BUDGET_BOUND_H

#include "fit/budget/pass.h"

/* Raises run->bound and run->least_bytes as far as about `effort` looks can prove. Errors:
 * E_INFEASIBLE (no schedule that the run allows is within its budget), E_NO_MEMORY, E_STOPPED.
 */
tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort);

enum { TN__BOUND_MOMENTS = 64 };

/* For a few jobs at which memory is short, considered one at a time: the values that are best kept
 * during the job's first run, if jobs run in the order of the list. */
typedef struct tn__bound_advice {
    uint32_t count;
    uint32_t jobs[TN__BOUND_MOMENTS]; /* [count] ascending */
    int8_t *rows[TN__BOUND_MOMENTS];  /* [values] 1: live at that job; -1: recomputed after it;
                                       * 0: neither, or unknown */
} tn__bound_advice;
/* Errors: E_NO_MEMORY, E_STOPPED. Cost: as tn__bound_raise. */
tn_status tn__bound_advise(tn__pass_run *run, uint64_t effort, tn__bound_advice *advice);

#endif
