/* capuchin_feedback.c - a schedule is timed, and copies that come too late are told.
 *
 * The clocks are those of tn__pass_time; here it is written down who waited for whom.
 * Cost: O(acts + operands).
 */
#include "budget/capuchin.h"

typedef struct feedback_state {
    const tn__gaps *gaps;
    uint64_t compute, out, in;
    uint64_t *here, *away; /* [values] when the last copy has ended */
    bool *ran;             /* [jobs] */
    uint64_t *late;
} feedback_state;

static uint64_t feedback_later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The gap that ends with this reader is late. */
static void feedback_note(feedback_state *s, uint32_t value, uint32_t job) {
    const tn__gaps *gaps = s->gaps;
    for (uint32_t g = gaps->first[value]; g < gaps->first[value + 1]; g++)
        if (gaps->list[g].back == job && gaps->list[g].how == TN__GAP_SWAP)
            s->late[g] = s->here[value] - s->compute;
}

static void feedback_run(feedback_state *s, uint32_t job) {
    const tn__work *work = s->gaps->run->work;
    bool again = s->ran[job];
    uint32_t inputs;
    const uint32_t *input = tn__job_inputs(work, job, again, &inputs);
    for (uint32_t i = 0; i < inputs; i++) {
        if (s->here[input[i]] <= s->compute) continue;
        if (!again) feedback_note(s, input[i], job);
        s->compute = s->here[input[i]];
    }
    s->compute = tn__add_sat(s->compute, again ? work->jobs[job].again_cost : work->jobs[job].cost);
    s->ran[job] = true;
}

static void feedback_act(feedback_state *s, const tn__act *act) {
    const tn__pass_run *run = s->gaps->run;
    if (act->kind == TN__RUN) {
        feedback_run(s, act->what);
        return;
    }
    uint64_t bytes = run->work->values[act->what].bytes;
    if (act->kind == TN__OUT) {
        uint64_t from = feedback_later(s->out, feedback_later(s->compute, s->here[act->what]));
        s->away[act->what] = s->out = tn__add_sat(from, tn__gaps_copy(bytes, run->out_rate));
    } else if (act->kind == TN__SETTLE) {
        s->compute = feedback_later(s->compute, s->away[act->what]);
    } else if (act->kind == TN__IN) {
        uint64_t from = feedback_later(s->in, s->compute);
        s->here[act->what] = s->in = tn__add_sat(from, tn__gaps_copy(bytes, run->in_rate));
    }
}

tn_status tn__capuchin_late(const tn__gaps *gaps, const tn__schedule *schedule, uint64_t *late) {
    const tn__pass_run *run = gaps->run;
    feedback_state s = {.gaps = gaps, .late = late};
    tn__arena arena;
    tn__arena_init(&arena, &run->context);
    s.here = tn__arena_array(&arena, (size_t)run->work->value_count + 1, sizeof *s.here);
    s.away = tn__arena_array(&arena, (size_t)run->work->value_count + 1, sizeof *s.away);
    s.ran = tn__arena_array(&arena, (size_t)run->work->job_count + 1, sizeof *s.ran);
    bool room = s.here != NULL && s.away != NULL && s.ran != NULL;
    for (uint32_t g = 0; g < gaps->count; g++) late[g] = 0;
    for (uint32_t i = 0; room && i < schedule->count; i++) feedback_act(&s, &schedule->acts[i]);
    tn__arena_release(&arena);
    return room ? TN_OK : tn__no_memory(run->error, "feedback");
}
