/* pass_time.c - what a schedule takes: compute, and both directions of the link beside it.
 *
 * Three clocks. OUT begins when what runs before it in the list has ended and its direction is
 * free; IN likewise; SETTLE lets compute wait for an OUT, a read or a run again for an IN. Nothing
 * else waits.
 * Cost: O(acts + operands).
 */
#include "budget/pass.h"

typedef struct time_state {
    const tn__pass_run *run;
    uint64_t compute, out, in; /* when each is done with what it was given */
    uint64_t *here, *away;     /* [values] when the last IN, the last OUT of it has ended */
    bool *ran;                 /* [jobs] */
} time_state;

static uint64_t time_of_bytes(uint64_t bytes, double rate) {
    double units = rate > 0 ? (double)bytes / rate : 0;
    return units < 9e18 ? (uint64_t)units : UINT64_MAX / 2;
}

static uint64_t time_later(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void time_run(time_state *s, uint32_t job) {
    const tn__work *work = s->run->work;
    bool again = s->ran[job];
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, again, &inputs);
    for (uint32_t i = 0; i < inputs; i++) s->compute = time_later(s->compute, s->here[input[i]]);
    const uint32_t *output = tn__job_outputs(work, job, again, &outputs);
    for (uint32_t k = 0; k < outputs; k++) { /* nobody writes where a copy is on its way */
        s->compute = time_later(s->compute, s->here[output[k]]);
        s->here[output[k]] = 0;
    }
    s->compute = tn__add_sat(s->compute, again ? work->jobs[job].again_cost : work->jobs[job].cost);
    s->ran[job] = true;
}

static void time_code(time_state *s, const tn__act *act) {
    uint64_t bytes = tn__add_sat(s->run->work->values[act->what].bytes, act->bytes);
    s->compute = time_later(s->compute, s->here[act->what]);
    s->compute = tn__add_sat(s->compute, time_of_bytes(bytes, s->run->codec_rate));
}

static uint64_t time_copy(uint64_t link, uint64_t from, uint64_t bytes, double rate) {
    return tn__add_sat(time_later(link, from), time_of_bytes(bytes, rate));
}

static void time_act(time_state *s, const tn__act *act) {
    const tn__pass_run *run = s->run;
    uint32_t v = act->what;
    switch (act->kind) {
    case TN__RUN:
        time_run(s, v);
        break;
    case TN__OUT:
        s->out = time_copy(s->out, time_later(s->compute, s->here[v]), run->work->values[v].bytes,
                           run->out_rate);
        s->away[v] = s->out;
        break;
    case TN__SETTLE:
        s->compute = time_later(s->compute, s->away[v]);
        break;
    case TN__IN:
        s->in = time_copy(s->in, s->compute, run->work->values[v].bytes, run->in_rate);
        s->here[v] = s->in;
        break;
    default:
        time_code(s, act);
    }
}

uint64_t tn__pass_time(const tn__pass_run *run, const tn__schedule *schedule) {
    time_state s = {.run = run};
    tn__arena arena;
    tn__arena_init(&arena, &run->context);
    s.here = tn__arena_array(&arena, (size_t)run->work->value_count + 1, sizeof *s.here);
    s.away = tn__arena_array(&arena, (size_t)run->work->value_count + 1, sizeof *s.away);
    s.ran = tn__arena_array(&arena, (size_t)run->work->job_count + 1, sizeof *s.ran);
    bool room = s.here != NULL && s.away != NULL && s.ran != NULL;
    for (uint32_t i = 0; room && i < schedule->count; i++) time_act(&s, &schedule->acts[i]);
    tn__arena_release(&arena);
    return room ? time_later(s.compute, s.out) : UINT64_MAX;
}
