/* pass_time.c - reads a schedule into the clock (program/clock.h): compute, with both directions of
 * the host link in parallel.
 *
 * An OUT begins when the runs before it in the list have ended and its direction is free; an IN
 * likewise. SETTLE makes compute wait for an OUT; a read or a repeat waits for an IN. Nothing else
 * waits.
 *
 * A search compares thousands of schedules. Writing each as a program for tn_simulate (emit.c)
 * would cost more than the search, so a schedule is timed as it is, and only the chosen one is
 * written and simulated. Cost: O(acts + operands).
 */
#include "fit/budget/pass.h"
#include "program/clock.h"

typedef struct time_state {
    const tn__pass_run *run;
    const tn__pass_watch *watch;
    tn__clock clock;
    uint64_t *here, *away; /* [values] end of the last IN, and of the last OUT */
    bool *ran;             /* [jobs] */
} time_state;

static tn__lane *time_compute(time_state *s) { return &s->clock.lanes[TN__LANE_COMPUTE]; }

/* Runs a task on this lane that is ready when the walk comes to it, but not before `from`. */
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
    const tn__work *work = s->run->work;
    bool again = s->ran[job];
    uint32_t inputs, outputs;
    uint64_t from = 0;
    const uint32_t *input = tn__job_inputs(work, job, again, &inputs);
    for (uint32_t i = 0; i < inputs; i++) time_wait(s, input[i], job);
    const uint32_t *output = tn__job_outputs(work, job, again, &outputs);
    for (uint32_t k = 0; k < outputs; k++) { /* a write must not overlap with a copy in progress */
        if (s->here[output[k]] > from) from = s->here[output[k]];
        s->here[output[k]] = 0;
    }
    time_put(s, TN__LANE_COMPUTE, from, again ? work->jobs[job].again_cost : work->jobs[job].cost);
    s->ran[job] = true;
}

static void time_act(time_state *s, const tn__act *act) {
    const tn__pass_run *run = s->run;
    uint32_t v = act->what;
    uint64_t bytes = act->kind == TN__RUN ? 0 : run->work->values[v].bytes;
    switch (act->kind) {
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
        bytes = tn__add_sat(bytes, act->bytes);
        time_put(s, TN__LANE_COMPUTE, s->here[v], tn__lane_bytes(bytes, run->codec_rate));
    }
}

uint64_t tn__pass_time(const tn__pass_run *run, const tn__schedule *schedule,
                       const tn__pass_watch *watch) {
    time_state s = {.run = run, .watch = watch};
    tn__arena arena;
    tn__arena_init(&arena, &run->context);
    s.here = tn__arena_array(&arena, (size_t)run->work->value_count + 1, sizeof *s.here);
    s.away = tn__arena_array(&arena, (size_t)run->work->value_count + 1, sizeof *s.away);
    s.ran = tn__arena_array(&arena, (size_t)run->work->job_count + 1, sizeof *s.ran);
    bool room = s.here != NULL && s.away != NULL && s.ran != NULL;
    for (uint32_t i = 0; room && i < schedule->count; i++) time_act(&s, &schedule->acts[i]);
    tn__arena_release(&arena);
    tn__lane_wait(time_compute(&s), s.clock.lanes[TN__LANE_TO_HOST]);
    return room ? time_compute(&s)->at : UINT64_MAX;
}
