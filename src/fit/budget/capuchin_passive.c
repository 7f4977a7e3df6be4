/* capuchin_passive.c - swapping on demand, the least recently accessed values first.
 *
 * The only knowledge about the future is whether a value is accessed again. This is the mode of a
 * first run, and the last resort when a policy finds no schedule. It is slow, because compute waits
 * for each copy. Cost: O(jobs values). Source: Peng et al., "Capuchin" (2020), passive mode.
 */
#include "fit/budget/capuchin.h"

typedef struct passive_state {
    const tn__pass_run *run;
    const tn__gaps *gaps;
    tn__schedule *schedule;
    bool *here, *host; /* [values] */
    uint32_t *touched; /* [values] 1 + the last job that accessed it; 0: none */
    uint64_t used;
    bool possible;
} passive_state;

static tn_status passive_act(passive_state *s, tn__act_kind kind, uint32_t what) {
    return tn__schedule_add(s->schedule, (tn__act){.kind = (uint8_t)kind, .what = what},
                            s->run->error);
}

static bool passive_may_go(const passive_state *s, uint32_t value, uint32_t job) {
    const tn__value *it = &s->run->work->values[value];
    uint32_t last = tn__work_last(s->run->work, value);
    bool copies = (it->flags & (TN__VALUE_COPIES | TN__VALUE_HELD)) == TN__VALUE_COPIES;
    return copies && s->here[value] && it->bytes > 0 && s->touched[value] != job + 1 &&
           last != TN_NONE && last > job;
}

/* Makes room for `bytes` bytes. A value with a copy on the host is not copied again. */
static tn_status passive_room(passive_state *s, uint64_t bytes, uint32_t job) {
    const tn__work *work = s->run->work;
    while (tn__add_sat(s->used, bytes) > s->run->budget) {
        uint32_t oldest = TN_NONE;
        for (uint32_t v = 0; v < work->value_count; v++)
            if (passive_may_go(s, v, job) &&
                (oldest == TN_NONE || s->touched[v] < s->touched[oldest]))
                oldest = v;
        if (oldest == TN_NONE) {
            s->possible = false;
            return TN_OK;
        }
        if (!s->host[oldest]) {
            TN_TRY(passive_act(s, TN__OUT, oldest));
            TN_TRY(passive_act(s, TN__SETTLE, oldest));
        }
        s->host[oldest] = true;
        s->here[oldest] = false;
        s->used -= work->values[oldest].bytes;
    }
    return TN_OK;
}

/* Evicts the values that are not accessed from here on. */
static void passive_end(passive_state *s, uint32_t job, const uint32_t *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const tn__value *it = &s->run->work->values[value[i]];
        uint32_t last = tn__work_last(s->run->work, value[i]);
        bool stays = (it->flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) != 0;
        bool later = last != TN_NONE && last > job;
        if (stays || later || !s->here[value[i]]) continue;
        s->here[value[i]] = false;
        s->used -= it->bytes;
    }
}

static tn_status passive_job(passive_state *s, uint32_t job) {
    const tn__work *work = s->run->work;
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(work, job, false, &outputs);
    uint64_t need = work->jobs[job].scratch;
    for (uint32_t i = 0; i < inputs; i++) s->touched[input[i]] = job + 1;
    for (uint32_t k = 0; k < outputs; k++) s->touched[output[k]] = job + 1;
    for (uint32_t k = 0; k < outputs; k++) need = tn__add_sat(need, work->values[output[k]].bytes);
    for (uint32_t i = 0; i < inputs; i++)
        if (!s->here[input[i]]) need = tn__add_sat(need, work->values[input[i]].bytes);
    TN_TRY(passive_room(s, need, job));
    for (uint32_t i = 0; i < inputs && s->possible; i++) {
        if (s->here[input[i]]) continue;
        TN_TRY(passive_act(s, TN__IN, input[i]));
        s->here[input[i]] = true;
        s->used += work->values[input[i]].bytes;
    }
    for (uint32_t k = 0; k < outputs; k++) {
        s->here[output[k]] = true;
        s->used += work->values[output[k]].bytes;
    }
    TN_TRY(passive_act(s, TN__RUN, job));
    passive_end(s, job, input, inputs);
    passive_end(s, job, output, outputs);
    return TN_OK;
}

/* Values that exist from the start are live until their last read. */
static void passive_begin(passive_state *s) {
    const tn__work *work = s->run->work;
    for (uint32_t v = 0; v < work->value_count; v++) {
        bool read = tn__work_last(work, v) != TN_NONE ||
                    (work->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) != 0;
        s->here[v] = work->values[v].maker == TN_NONE && read;
        if (s->here[v]) s->used = tn__add_sat(s->used, work->values[v].bytes);
    }
}

tn_status tn__capuchin_passive(tn__gaps *gaps, tn__schedule *schedule, bool *possible) {
    const tn__pass_run *run = gaps->run;
    size_t values = (size_t)run->work->value_count + 1;
    passive_state s = {.run = run, .gaps = gaps, .schedule = schedule, .possible = true};
    s.here = tn__arena_array(run->arena, values, sizeof *s.here);
    s.host = tn__arena_array(run->arena, values, sizeof *s.host);
    s.touched = tn__arena_array(run->arena, values, sizeof *s.touched);
    if (s.here == NULL || s.host == NULL || s.touched == NULL)
        return tn__no_memory(run->error, "what is swapped");
    schedule->count = 0;
    passive_begin(&s);
    for (uint32_t j = 0; j < run->work->job_count && s.possible; j++) {
        TN_TRY(passive_job(&s, j));
        TN_TRY(tn__pass_work(gaps->run, 4));
    }
    *possible = s.possible;
    return TN_OK;
}
