/* pass_time.c - the time of a schedule: compute, with both directions of the host link in parallel.
 *
 * Three lanes (program/clock.h). An OUT begins when the runs before it in the list have ended and
 * its direction is free; an IN likewise. SETTLE makes compute wait for an OUT; a read or a repeat
 * waits for an IN. Nothing else waits. Cost: O(acts + operands).
 */
#include "budget/pass.h"
#include "program/clock.h"

typedef struct time_state {
    const tn__pass_run *run;
    const tn__pass_watch *watch;
    tn__lane compute, out, in;
    uint64_t *here, *away; /* [values] end of the last IN, and of the last OUT */
    bool *ran;             /* [jobs] */
} time_state;

static void time_wait(time_state *s, uint32_t value, uint32_t job) {
    if (s->here[value] <= s->compute.at) return;
    if (s->watch != NULL && !s->ran[job])
        s->watch->waits(s->watch->self, value, job, s->here[value] - s->compute.at);
    s->compute.at = s->here[value];
}

static void time_run(time_state *s, uint32_t job) {
    const tn__work *work = s->run->work;
    bool again = s->ran[job];
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, again, &inputs);
    for (uint32_t i = 0; i < inputs; i++) time_wait(s, input[i], job);
    const uint32_t *output = tn__job_outputs(work, job, again, &outputs);
    for (uint32_t k = 0; k < outputs; k++) { /* a write must not overlap with a copy in progress */
        tn__lane_wait(&s->compute, (tn__lane){.at = s->here[output[k]]});
        s->here[output[k]] = 0;
    }
    tn__lane_put(&s->compute, 0, again ? work->jobs[job].again_cost : work->jobs[job].cost);
    s->ran[job] = true;
}

static void time_act(time_state *s, const tn__act *act) {
    const tn__pass_run *run = s->run;
    uint32_t v = act->what;
    uint64_t bytes = act->kind == TN__RUN ? 0 : run->work->values[v].bytes, from = s->compute.at;
    switch (act->kind) {
    case TN__RUN:
        time_run(s, v);
        break;
    case TN__OUT:
        if (s->here[v] > from) from = s->here[v];
        s->away[v] = tn__lane_put(&s->out, from, tn__lane_bytes(bytes, run->out_rate));
        break;
    case TN__SETTLE:
        tn__lane_wait(&s->compute, (tn__lane){.at = s->away[v]});
        break;
    case TN__IN:
        s->here[v] = tn__lane_put(&s->in, from, tn__lane_bytes(bytes, run->in_rate));
        break;
    default:
        bytes = tn__add_sat(bytes, act->bytes);
        tn__lane_put(&s->compute, s->here[v], tn__lane_bytes(bytes, run->codec_rate));
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
    tn__lane_wait(&s.compute, s.out);
    return room ? s.compute.at : UINT64_MAX;
}
