/* vdnn_dynamic.c - the fastest variant of vDNN within the budget: it offloads nothing, or the
 * inputs of convolutions, or every feature map (algorithms/vdnn.c).
 *
 * In the paper, each variant is tried in a profiling run; here it is timed by the costs of its
 * operators. As a last resort the paper uses slower convolution algorithms with less scratch
 * memory, which a pass cannot choose. Cost: that of three schedules. Source: Rhu et al., "vDNN"
 * (2016).
 */
#include "fit/budget/algorithms/vdnn.h"

/* Offers the schedule that runs the jobs in their order, without copies. */
static tn_status vdnn_dynamic_plain(tn__pass_run *run, bool *kept) {
    tn__schedule schedule;
    tn__schedule_init(&schedule, &run->context);
    tn_status status = tn__schedule_plain(run->dag, &schedule, run->error);
    if (status == TN_OK) status = tn__pass_work(run, run->dag->job_count);
    if (status == TN_OK) status = tn__pass_offer(run, &schedule, kept);
    tn__schedule_release(&schedule);
    return status;
}

static tn_status vdnn_dynamic_solve(tn__pass_run *run) {
    bool plain, conv = false, all;
    TN_TRY(vdnn_dynamic_plain(run, &plain));
    /* the schedule without copies is within the budget, and it is the fastest */
    if (plain) return TN_OK;
    if (run->graph != NULL) TN_TRY(tn__vdnn_offer(run, TN__VDNN_CONV, &conv));
    TN_TRY(tn__vdnn_offer(run, TN__VDNN_ALL, &all));
    if (!conv && !all) return TN_E_STOPPED;
    return TN_OK;
}

const tn_pass tn__pass_vdnn_dynamic = {
    .name = "vdnn-dynamic",
    .summary = "the fastest of none, vdnn-conv and vdnn-all that fits",
    .source = "Rhu et al., vDNN (2016)",
    .features = TN__PASS_SWAPS | TN__PASS_BUDGETS,
    .solve = vdnn_dynamic_solve,
};
