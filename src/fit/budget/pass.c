/* pass.c - functions that passes call: judging and keeping schedules, and limits. */
#include "fit/budget/pass.h"

#define PASS_ASK_EVERY 65536u /* units of work */
#define PASS_EFFORT 12000000u /* looks: a little more than a third of a second */
#define PASS_EFFORT_JOB 4000u /* additional looks for each job */

#define TN_PASS(name) extern const tn_pass tn__pass_##name;
#include "fit/budget/passes.def"
#undef TN_PASS

static const tn_pass *const pass_table[] = {
#define TN_PASS(name) &tn__pass_##name,
#include "fit/budget/passes.def"
#undef TN_PASS
};

uint32_t tn__pass_count(void) { return (uint32_t)(sizeof pass_table / sizeof *pass_table); }
const tn_pass *tn__pass_at(uint32_t index) { return pass_table[index]; }

const tn_pass *tn__pass_named(const char *name) {
    if (strcmp(name, "keep") == 0) name = "none"; /* its name in version 0.1 */
    for (uint32_t i = 0; i < tn__pass_count(); i++)
        if (strcmp(pass_table[i]->name, name) == 0) return pass_table[i];
    return NULL;
}

tn_status tn__pass_solve(tn__pass_run *run, const tn_pass *pass) {
    const tn_pass *outer = run->pass;
    run->pass = pass;
    tn_status status = pass->solve(run);
    run->pass = outer;
    return status;
}

/* Reading the clock costs more than most looks at a job, so it is read only every PASS_ASK_EVERY
 * units. */
static bool pass_asks(tn__pass_run *run) {
    if (run->work_done - run->asked < PASS_ASK_EVERY && run->asked > 0) return false;
    run->asked = run->work_done;
    return true;
}

static tn_status pass_end(tn__pass_run *run, tn__ended ended) {
    run->ended = ended;
    return TN_E_STOPPED;
}

tn_status tn__pass_work(tn__pass_run *run, uint64_t units) {
    run->work_done = tn__add_sat(run->work_done, units);
    if (run->work_limit > 0 && run->work_done > run->work_limit) return TN_E_STOPPED;
    if (run->ended == TN__ENDED_CALLER) return TN_E_STOPPED;
    if (!pass_asks(run)) return TN_OK;
    if (run->deadline > 0 && tn__clock_s() > run->deadline) return pass_end(run, TN__ENDED_TIME);
    const tn_context *context = &run->context;
    if (context->found != NULL)
        context->found(context->self, "fit", run->has_best ? run->time : UINT64_MAX, run->bound);
    if (context->progress != NULL &&
        !context->progress(context->self, "fit", run->work_done, run->work_limit))
        return pass_end(run, TN__ENDED_CALLER);
    return TN_OK;
}

uint64_t tn__pass_effort(const tn__work *work) {
    return PASS_EFFORT + (uint64_t)PASS_EFFORT_JOB * work->job_count;
}

void tn__pass_raise_bound(tn__pass_run *run, uint64_t time) {
    if (time > run->bound) run->bound = time;
}

tn_status tn__pass_offer(tn__pass_run *run, const tn__schedule *schedule, bool *kept) {
    tn__replay found;
    *kept = false;
    if (run->only_proof) return TN_OK;
    TN_TRY(tn__replay_schedule(run->work, schedule, &found, NULL, run->error));
    if (found.peak > run->budget || found.host_peak > run->host_budget) return TN_OK;
    uint64_t time = tn__pass_time(run, schedule, NULL);
    if (run->has_best && (time > run->time || (time == run->time && found.peak >= run->found.peak)))
        return TN_OK;
    TN_TRY(tn__schedule_copy(&run->best, schedule, run->error));
    run->found = found;
    run->time = time;
    run->has_best = *kept = true;
    return TN_OK;
}
