/* joint_swap.h - copies to the host and runs again in one schedule. */
#ifndef TN_BUDGET_JOINT_SWAP_H
#define TN_BUDGET_JOINT_SWAP_H

#include "budget/pass.h"

/* Offers schedules of runs and copies to run->best, which must have a link. effort: looks, about.
 * Errors: E_STOPPED (a limit came first), E_NO_MEMORY. */
tn_status tn__joint_swap(tn__pass_run *run, uint64_t effort);

#endif
