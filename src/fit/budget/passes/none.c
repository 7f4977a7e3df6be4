/* none.c - the pass that keeps all values; other passes are compared with it. Cost: O(jobs +
 * operands). */
#include "fit/budget/pass.h"

static tn_status none_solve(tn__pass_run *run) {
    tn__schedule schedule;
    bool kept = false;
    tn__schedule_init(&schedule, &run->context);
    tn_status status = tn__schedule_plain(run->dag, &schedule, run->error);
    if (status == TN_OK) status = tn__pass_work(run, run->dag->job_count);
    if (status == TN_OK) status = tn__pass_offer(run, &schedule, &kept);
    tn__schedule_release(&schedule);
    if (status != TN_OK || kept) return status;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_none = {
    .name = "none",
    .summary = "no changes: each tensor stays until its last use",
    .source = "what every runtime does by default",
    .features = 0,
    .solve = none_solve,
};
