/* joint.c - the default pass: decides together which values are kept, recomputed, copied and
 * encoded.
 *
 * A small schedule graph is first given to the pass `exact` for a short time, and a chain to the
 * passes for chains. Then follow lower bounds (bound.c), and searches for schedules with repeats
 * only (joint_search.c), with copies and repeats (joint_swap.c), and with encoded values in
 * addition (joint_encode.c). The fastest schedule is kept. The caller (compete.c) asks for each of
 * these combinations separately, and asks other passes as well; combinations that were searched
 * already are not searched again. Unless the caller sets a work limit, the effort is limited so
 * that a few thousand operators take about a second.
 */
#include "fit/budget/joint/joint.h"

#include "fit/budget/bound.h"

/* number of jobs of the largest schedule graph that is given to the pass `exact` */
#define JOINT_EXACT_JOBS 40u
#define JOINT_EXACT_WORK 1500000u /* limit for the work of the pass `exact`, in units */
/* limit for the runs of each job in a schedule of the pass `revolve`, because planning the layout
 * of a longer schedule takes too long */
#define JOINT_REVOLVE_RUNS 64u

/* Decides whether the status of another pass also ends this pass. A limit that stopped the other
 * pass, or its refusal, does not, and leaves no message. */
static tn_status joint_pass_over(const tn__pass_run *run, tn_status status, const tn_error *said) {
    bool limit = run->work_limit > 0 && run->work_done > run->work_limit;
    if (status == TN_E_NO_MEMORY || status == TN_E_INVALID)
        return tn__fail_as(run->error, status, said);
    return run->ended == TN__ENDED_CALLER || limit ? status : TN_OK;
}

/* Runs another pass with at most `work` units of the work limit. *said receives the status that it
 * returned. */
static tn_status joint_ask(tn__pass_run *run, const char *name, uint64_t work, tn_status *said) {
    const tn_pass *pass = tn__pass_named(name);
    *said = TN_E_UNSUPPORTED;
    if (pass == NULL || ((pass->features & TN__PASS_GRAPH) && run->graph == NULL)) return TN_OK;
    uint64_t limit = run->work_limit, part = tn__add_sat(run->work_done, work);
    if (limit == 0 || part < limit) run->work_limit = part;
    tn_error *error = run->error, own = {0};
    run->error = &own;
    *said = tn__pass_solve(run, pass);
    run->error = error;
    run->work_limit = limit;
    return joint_pass_over(run, *said, &own);
}

/* Runs the passes for chains. They refuse other schedule graphs at once. */
static tn_status joint_chains(tn__pass_run *run, uint64_t effort) {
    tn_status said;
    TN_TRY(joint_ask(run, "revolve", (uint64_t)JOINT_REVOLVE_RUNS * run->dag->job_count, &said));
    if (run->feasible_only && run->has_best) return TN_OK;
    return joint_ask(run, "rotor", effort / 2, &said);
}

static tn_status joint_runs(tn__pass_run *run, uint64_t effort) {
    TN_TRY(joint_chains(run, effort));
    return run->feasible_only && run->has_best ? TN_OK : tn__joint_search(run, effort);
}

static tn_status joint_copies_and_codecs(tn__pass_run *run, uint64_t effort) {
    bool swaps = (run->allow & TN__ALLOW_SWAP) && run->out_rate > 0 && run->in_rate > 0;
    bool codes = (run->allow & TN__ALLOW_COMPRESS) && run->graph != NULL;
    if (swaps && !(codes && run->fewer_known)) TN_TRY(tn__joint_swap(run, effort));
    if (!codes || (run->feasible_only && run->has_best)) return TN_OK;
    return tn__joint_code(run, effort);
}

static tn_status joint_search_all(tn__pass_run *run, uint64_t effort) {
    bool alone = !(run->allow & (TN__ALLOW_SWAP | TN__ALLOW_COMPRESS));
    bool runs = (run->allow & TN__ALLOW_RECOMPUTE) && (alone || !run->fewer_known);
    tn_status said = TN_E_STOPPED;
    if (run->dag->job_count <= JOINT_EXACT_JOBS && runs)
        TN_TRY(joint_ask(run, "exact", JOINT_EXACT_WORK, &said));
    if (alone && (said == TN_OK || said == TN_E_INFEASIBLE)) return said;
    if (!run->no_bound) TN_TRY(tn__bound_raise(run, effort));
    if (run->only_proof) return TN_OK;
    if (runs) TN_TRY(joint_runs(run, effort));
    return alone || (run->feasible_only && run->has_best) ? TN_OK
                                                          : joint_copies_and_codecs(run, effort);
}

static tn_status joint_solve(tn__pass_run *run) {
    uint64_t effort = tn__pass_effort(run->dag);
    if (run->work_limit > 0)
        effort = run->allow & (TN__ALLOW_SWAP | TN__ALLOW_COMPRESS) ? run->work_limit / 4
                                                                    : run->work_limit;
    if (run->budget > (uint64_t)INT64_MAX) run->budget = (uint64_t)INT64_MAX;
    TN_TRY(joint_search_all(run, effort));
    if (run->has_best) return TN_OK;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_joint = {
    .name = "joint",
    .summary = "searches over recomputing, swapping and compressing together (the default)",
    .source =
        "ruin and recreate (Schrimpf et al. 2000) on retention intervals (Bartan et al. 2023)",
    .features = TN__PASS_RECOMPUTES | TN__PASS_SWAPS | TN__PASS_COMPRESSES | TN__PASS_ORDERS |
                TN__PASS_BUDGETS,
    .solve = joint_solve,
};
