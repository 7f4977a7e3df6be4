/* joint_search.h - the search of `joint`: starts, then one piece after another torn out and mended.
 */
#ifndef TN_BUDGET_JOINT_SEARCH_H
#define TN_BUDGET_JOINT_SEARCH_H

#include "budget/joint_repair.h"
#include "budget/pass.h"

/* Offers the best schedule of runs that it finds to run->best. effort: looks at jobs and values,
 * about; it ends by itself then. Errors: E_STOPPED (a limit came first; what was found so far has
 * been offered), E_NO_MEMORY. */
tn_status tn__joint_search(tn__pass_run *run, uint64_t effort);

#endif
