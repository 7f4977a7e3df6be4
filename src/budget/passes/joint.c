/* joint.c - the default: what is kept and what is computed again, decided together.
 *
 * joint_search.c does the work. What it spends is bounded by itself, so that a few thousand
 * operators take well under a second, unless a work limit asks for more (or less).
 */
#include "budget/bound.h"
#include "budget/joint_search.h"

#define JOINT_EFFORT 24000000u /* looks: about a second */

static tn_status joint_solve(tn__pass_run *run) {
    uint64_t effort = run->work_limit > 0 ? run->work_limit : JOINT_EFFORT;
    TN_TRY(tn__bound_raise(run, effort));
    TN_TRY(tn__joint_search(run, effort));
    if (run->has_best) return TN_OK;
    TN_FAIL(run->error, TN_E_STOPPED, "nothing was found within the budget");
}

const tn_pass tn__pass_joint = {
    .name = "joint",
    .summary = "all of them together, by search: what stays and what is computed again",
    .source =
        "ruin and recreate (Schrimpf et al. 2000) on retention intervals (Bartan et al. 2023)",
    .features = TN__PASS_RECOMPUTES | TN__PASS_BUDGETS,
    .solve = joint_solve,
};
