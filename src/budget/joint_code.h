/* joint_code.h - encoded forms, runs again and copies in one schedule. */
#ifndef TN_BUDGET_JOINT_CODE_H
#define TN_BUDGET_JOINT_CODE_H

#include "budget/pass.h"

/* Offers schedules to run->best, which must have a graph. effort: looks, about. Errors: E_STOPPED
 * (a limit came first), E_NO_MEMORY. */
tn_status tn__joint_code(tn__pass_run *run, uint64_t effort);

#endif
