/* pass.c - functions that passes call: the time of a schedule, the schedules that are kept, limits,
 * and the properties of operators.
 */
#include "fit/budget/pass.h"

#include "graph/op.h"
#include "program/clock.h"

#define PASS_ASK_EVERY 65536u /* the clock is read once in this many units of work */
/* default effort in units of work: a little more than a third of a second */
#define PASS_EFFORT 12000000u
#define PASS_EFFORT_JOB 4000u /* units of work that each job adds to the default effort */

#define TN_PASS(name) extern const tn_pass tn__pass_##name;
#include "fit/budget/passes.def"
#undef TN_PASS

static const tn_pass *const pass_table[] = {
#define TN_PASS(name) &tn__pass_##name,
#include "fit/budget/passes.def"
#undef TN_PASS
};

/* --- time of a schedule ----------------------------------------------------------------------- */

/* Computes the time of a schedule with the clock (program/clock.h): compute, and in parallel to it
 * both directions of the host link.
 *
 * A copy to the host (OUT) begins when the runs before it in the list have ended and its direction
 * of the link is free; a copy back (IN) likewise. SETTLE makes compute wait for an OUT; a read or a
 * repeat of a value waits for the value's IN. Nothing else waits.
 *
 * A search compares thousands of schedules. To write each as a program for tn_simulate
 * (schedule_emit.c) would cost more than the search. So a schedule is timed as it is, and only the
 * chosen schedule is written as a program and simulated. Cost: O(actions + operands).
 */

typedef struct time_state {
    const tn__pass_run *run;
    const tn__pass_watch *watch;
    tn__clock clock;
    /* [values] end of the value's last copy to the device (here), and of its last copy to the host
     * (away) */
    uint64_t *here, *away;
    bool *ran; /* [jobs] */
} time_state;

static tn__lane *time_compute(time_state *s) { return &s->clock.lanes[TN__LANE_COMPUTE]; }

/* Runs a task on the resource `lane` of the clock (compute, a direction of the host link, or
 * codecs). The task begins when the resource is free, compute has reached the current action, and
 * the time is at least `from`. Returns the time at which the task ends. */
static uint64_t time_put(time_state *s, uint32_t lane, uint64_t from, uint64_t takes) {
    tn__lane ready = *time_compute(s);
    tn__lane_wait(&ready, (tn__lane){.at = from});
    return tn__clock_put(&s->clock, lane, TN_NONE, ready, takes, TN_NONE).at;
}

static void time_wait(time_state *s, uint32_t value, uint32_t job) {
    const uint64_t here = s->here[value], now = time_compute(s)->at;
    if (here <= now) return;
    if (s->watch != NULL && !s->ran[job]) s->watch->waits(s->watch->self, value, job, here - now);
    tn__lane_wait(time_compute(s), (tn__lane){.at = here});
}

static void time_run(time_state *s, uint32_t job) {
    const tn__dag *dag = s->run->dag;
    bool recompute = s->ran[job];
    uint32_t inputs, outputs;
    uint64_t from = 0;
    const uint32_t *input = tn__job_inputs(dag, job, recompute, &inputs);
    for (uint32_t i = 0; i < inputs; i++) time_wait(s, input[i], job);
    const uint32_t *output = tn__job_outputs(dag, job, recompute, &outputs);
    /* a job that writes a value must wait until a copy of the value that is in progress has
     * ended */
    for (uint32_t k = 0; k < outputs; k++) {
        if (s->here[output[k]] > from) from = s->here[output[k]];
        s->here[output[k]] = 0;
    }
    time_put(s, TN__LANE_COMPUTE, from,
             recompute ? dag->jobs[job].recompute_cost : dag->jobs[job].cost);
    s->ran[job] = true;
}

static void time_action(time_state *s, const tn__action *action) {
    const tn__pass_run *run = s->run;
    uint32_t v = action->what;
    uint64_t bytes = action->kind == TN__RUN ? 0 : run->dag->values[v].bytes;
    switch (action->kind) {
    case TN__RUN:
        time_run(s, v);
        break;
    case TN__OUT:
        s->away[v] =
            time_put(s, TN__LANE_TO_HOST, s->here[v], tn__lane_bytes(bytes, run->out_rate));
        break;
    case TN__SETTLE:
        tn__lane_wait(time_compute(s), (tn__lane){.at = s->away[v]});
        break;
    case TN__IN:
        s->here[v] = time_put(s, TN__LANE_FROM_HOST, 0, tn__lane_bytes(bytes, run->in_rate));
        break;
    default:
        bytes = tn__add_sat(bytes, action->bytes);
        time_put(s, TN__LANE_COMPUTE, s->here[v], tn__lane_bytes(bytes, run->codec_rate));
    }
}

uint64_t tn__pass_time(const tn__pass_run *run, const tn__schedule *schedule,
                       const tn__pass_watch *watch) {
    time_state s = {.run = run, .watch = watch};
    tn__arena arena;
    tn__arena_init(&arena, &run->context);
    s.here = tn__arena_array(&arena, (size_t)run->dag->value_count + 1, sizeof *s.here);
    s.away = tn__arena_array(&arena, (size_t)run->dag->value_count + 1, sizeof *s.away);
    s.ran = tn__arena_array(&arena, (size_t)run->dag->job_count + 1, sizeof *s.ran);
    bool room = s.here != NULL && s.away != NULL && s.ran != NULL;
    for (uint32_t i = 0; room && i < schedule->count; i++) time_action(&s, &schedule->actions[i]);
    tn__arena_release(&arena);
    tn__lane_wait(time_compute(&s), s.clock.lanes[TN__LANE_TO_HOST]);
    return room ? time_compute(&s)->at : UINT64_MAX;
}

/* --- registry, judging and limits ------------------------------------------------------------- */

uint32_t tn__pass_count(void) { return (uint32_t)(sizeof pass_table / sizeof *pass_table); }
const tn_pass *tn__pass_at(uint32_t index) { return pass_table[index]; }

const tn_pass *tn__pass_named(const char *name) {
    if (strcmp(name, "keep") == 0) name = "none"; /* the name of the pass `none` in version 0.1 */
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

/* Whether to read the clock and ask the caller now. Both cost more than most units of work, so this
 * is done only once in PASS_ASK_EVERY units. */
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

uint64_t tn__pass_effort(const tn__dag *dag) {
    return PASS_EFFORT + (uint64_t)PASS_EFFORT_JOB * dag->job_count;
}

void tn__pass_raise_bound(tn__pass_run *run, uint64_t time) {
    if (time > run->bound) run->bound = time;
}

tn_status tn__pass_offer(tn__pass_run *run, const tn__schedule *schedule, bool *kept) {
    tn__replay found;
    *kept = false;
    if (run->only_proof) return TN_OK;
    TN_TRY(tn__replay_schedule(run->dag, schedule, &found, NULL, run->error));
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

/* --- questions about operators ---------------------------------------------------------------- */

static const tn_op_rule *pass_rule(const tn_graph *graph, tn_op_id op) {
    return graph != NULL && op != TN_NONE ? tn__rule_of(graph, op) : NULL;
}

static bool pass_has(const tn_graph *graph, tn_op_id op, uint32_t flag) {
    const tn_op_rule *rule = pass_rule(graph, op);
    return rule != NULL && (rule->flags & flag) != 0;
}

bool tn__kind_is_conv(const tn_graph *graph, tn_op_id op) {
    return pass_has(graph, op, TN_RULE_CONV | TN_RULE_CONV_LIKE);
}

bool tn__kind_is_matmul(const tn_graph *graph, tn_op_id op) {
    return pass_has(graph, op, TN_RULE_MATMUL | TN_RULE_MATMUL_LIKE);
}

uint64_t tn__kind_signs(const tn_graph *graph, tn_op_id op) {
    const tn_op_rule *rule = pass_rule(graph, op);
    return rule != NULL ? rule->signs : 0;
}
