/* joint_search.h - the search of `joint`: starting schedules, then large-neighbourhood search that
 * removes and repairs one section after another.
 */
#ifndef TN_BUDGET_JOINT_SEARCH_H
#define TN_BUDGET_JOINT_SEARCH_H

#include "fit/budget/joint_repair.h"
#include "fit/budget/pass.h"

/* Offers the best schedule of runs that it finds to run->best. effort: approximate number of looks
 * at jobs and values, after which the search ends. Errors: E_STOPPED (a limit stopped the search;
 * the schedules found so far have been offered), E_NO_MEMORY. */
tn_status tn__joint_search(tn__pass_run *run, uint64_t effort);

#endif
