/* share.c - recomputes as little as possible within the budget, by repeated sweeps over the action
 * with the most bytes. The order of jobs does not change. The pass is fast and proves nothing.
 * Cost: that of algorithms/work_budget.c. */
#include "fit/budget/pass.h"

#include "fit/budget/algorithms/work_budget.h"

static tn_status share_solve(tn__pass_run *run) {
    const tn__work_budget goal = {.added = INT64_MAX, .target = run->budget};
    tn__schedule schedule;
    tn__replay replay;
    bool kept = false;
    tn_status status = TN_OK;
    uint64_t actions = 0;
    tn__schedule_init(&schedule, &run->context);
    for (uint32_t j = 0; j < run->dag->job_count && status == TN_OK; j++) {
        status = tn__schedule_add(&schedule, (tn__action){.kind = TN__RUN, .what = j}, run->error);
        actions += run->dag->jobs[j].input_count + 1;
    }
    if (status == TN_OK) status = tn__pass_work(run, actions);
    if (status == TN_OK)
        status = tn__work_budget_lower(run->dag, &goal, &schedule, &replay, run->error);
    if (status == TN_OK) status = tn__pass_offer(run, &schedule, &kept);
    tn__schedule_release(&schedule);
    if (status != TN_OK || kept) return status;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_share = {
    .name = "share",
    .summary = "recomputes the tensors that cost least per byte saved at the peak",
    .source = "Chen et al. 2016, section 4; Kirisame et al. 2021, with all uses known",
    .features = TN__PASS_RECOMPUTES | TN__PASS_BUDGETS,
    .solve = share_solve,
};
