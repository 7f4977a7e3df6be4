/* joint_code.h - the part of `joint` that combines encoded forms, repeats and copies in one
 * schedule. */
#ifndef TN_BUDGET_JOINT_CODE_H
#define TN_BUDGET_JOINT_CODE_H

#include "fit/budget/pass.h"

/* Offers schedules to run->best, which must have a graph. effort: approximate number of looks.
 * Errors: E_STOPPED (a limit stopped the search), E_NO_MEMORY. */
tn_status tn__joint_code(tn__pass_run *run, uint64_t effort);

#endif
