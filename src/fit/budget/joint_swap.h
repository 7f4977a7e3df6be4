/* joint_swap.h - the part of `joint` that combines copies to the host and repeats in one
 * schedule. */
#ifndef TN_BUDGET_JOINT_SWAP_H
#define TN_BUDGET_JOINT_SWAP_H

#include "fit/budget/pass.h"

/* Offers schedules of runs and copies to run->best, which must have a host link. effort:
 * approximate number of looks. Errors: E_STOPPED (a limit stopped the search), E_NO_MEMORY. */
tn_status tn__joint_swap(tn__pass_run *run, uint64_t effort);

#endif
