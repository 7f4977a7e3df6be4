/* segments.c - evicts the internal values of a segment that the user marked, after the segment has
 * run, and repeats the segment from its inputs when they are needed again.
 *
 *     a ── [ b ── c ── d ] ── e ── loss ── e' ── d' ── c' ── b'
 *           marked       └ its result stays     └ reads b and c: they are recomputed, from a
 *
 * The results of a segment are the values that the rest of the forward pass reads. A job outside
 * the segment belongs to the forward pass if none of its inputs was derived from the segment by
 * another job outside; otherwise, if it also reads a value of the segment, it belongs to the
 * backward pass. Values that only jobs of the backward pass read are internal to the segment.
 * Nothing else is to be decided, so the result is the same for every budget. Cost: O(segments *
 * (jobs + operands)). Source: Chen et al. 2016; the segments of PyTorch's torch.utils.checkpoint,
 * which are functions there.
 */
#include "fit/budget/pass.h"

#define SEGMENTS_MOST 256u

typedef struct segments_state {
    tn__pass_run *run;
    bool *comes;     /* [jobs] the job is outside the current segment and depends on it */
    bool *own;       /* [values] the value is internal to its segment */
    bool *recompute; /* [jobs] the job is repeated when its segment is recomputed */
    /* for each segment the job before which it is repeated; TN_NONE: it is not repeated */
    uint32_t trigger[SEGMENTS_MOST];
} segments_state;

/* Whether a job reads a value that depends on the current segment through a job outside it. */
static bool segments_is_late(const segments_state *s, uint32_t job) {
    const tn__dag *dag = s->run->dag;
    uint32_t count;
    const uint32_t *inputs = tn__job_inputs(dag, job, false, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t maker = dag->values[inputs[i]].maker;
        if (maker != TN_NONE && s->comes[maker]) return true;
    }
    return false;
}

/* Marks in `comes` the jobs outside a segment that depend on the segment. */
static void segments_spread(segments_state *s, uint8_t segment) {
    const tn__pass_run *run = s->run;
    for (uint32_t j = 0; j < run->dag->job_count; j++) {
        uint32_t count;
        const uint32_t *inputs = tn__job_inputs(run->dag, j, false, &count);
        s->comes[j] = false;
        for (uint32_t i = 0; i < count && run->segments[j] != segment; i++) {
            uint32_t maker = run->dag->values[inputs[i]].maker;
            s->comes[j] |= maker != TN_NONE && (s->comes[maker] || run->segments[maker] == segment);
        }
    }
}

static bool segments_may_repeat(const segments_state *s, uint32_t job) {
    const tn__dag *dag = s->run->dag;
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(dag, job, true, &count);
    for (uint32_t k = 0; k < count; k++)
        if (dag->values[outputs[k]].flags & TN__VALUE_HELD) return false;
    return (dag->jobs[job].flags & TN__JOB_REPEATS) != 0;
}

/* Whether a value of a segment is internal: outside the segment, only jobs of the backward pass
 * read it. */
static bool segments_is_own(const segments_state *s, uint32_t v, uint8_t segment) {
    const tn__pass_run *run = s->run;
    const tn__dag_value *value = &run->dag->values[v];
    if (value->flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) return false;
    if (!segments_may_repeat(s, value->maker)) return false;
    const tn__lists *readers = &run->dag->readers;
    for (uint32_t i = readers->first[v]; i < readers->first[v + 1]; i++) {
        uint32_t reader = readers->items[i];
        if (run->segments[reader] != segment && !segments_is_late(s, reader)) return false;
    }
    return true;
}

/* Whether a job must be repeated, because one of its internal outputs is read by a job outside the
 * segment or by a repeated job of the segment. */
static bool segments_is_asked(const segments_state *s, uint32_t job, uint8_t segment) {
    const tn__dag *dag = s->run->dag;
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(dag, job, true, &count);
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t *first = &dag->readers.first[outputs[k]];
        for (uint32_t i = first[0]; s->own[outputs[k]] && i < first[1]; i++) {
            uint32_t reader = dag->readers.items[i];
            if (s->run->segments[reader] != segment || s->recompute[reader]) return true;
        }
    }
    return false;
}

static void segments_before(segments_state *s, uint8_t segment, uint32_t job) {
    if (job < s->trigger[segment]) s->trigger[segment] = job;
}

/* Lowers the trigger of a segment (the job before which the segment is repeated) to the first job
 * outside the segment that reads an internal value of `job`, and to the first other job, inside or
 * outside, that overwrites an input of `job`. */
static void segments_when(segments_state *s, uint32_t job, uint8_t segment) {
    const tn__dag *dag = s->run->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(dag, job, true, &count);
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (dag->others[it->limit_first + i] != job)
            segments_before(s, segment, dag->others[it->limit_first + i]);
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t *first = &dag->readers.first[outputs[k]];
        for (uint32_t i = first[0]; s->own[outputs[k]] && i < first[1]; i++) {
            uint32_t reader = dag->readers.items[i];
            if (s->run->segments[reader] != segment) segments_before(s, segment, reader);
        }
    }
}

static void segments_mark(segments_state *s, uint8_t segment) {
    const tn__pass_run *run = s->run;
    uint32_t last = 0;
    segments_spread(s, segment);
    for (uint32_t v = 0; v < run->dag->value_count; v++) {
        uint32_t maker = run->dag->values[v].maker;
        if (maker != TN_NONE && run->segments[maker] == segment)
            s->own[v] = segments_is_own(s, v, segment);
    }
    for (uint32_t j = run->dag->job_count; j-- > 0;) {
        if (run->segments[j] != segment) continue;
        if (j > last) last = j;
        s->recompute[j] = segments_is_asked(s, j, segment);
        if (s->recompute[j]) segments_when(s, j, segment);
    }
    /* a segment cannot be repeated before all of its jobs have run */
    if (s->trigger[segment] > last) return;
    s->trigger[segment] = TN_NONE;
}

/* --- the schedule --- */

static tn_status segments_run(const segments_state *s, tn__schedule *schedule, uint32_t job) {
    return tn__schedule_add(schedule, (tn__action){.kind = TN__RUN, .what = job}, s->run->error);
}

static tn_status segments_list(const segments_state *s, tn__schedule *schedule) {
    const tn__pass_run *run = s->run;
    for (uint32_t j = 0; j < run->dag->job_count; j++) {
        for (uint32_t segment = 1; segment < SEGMENTS_MOST; segment++) {
            if (s->trigger[segment] != j) continue;
            for (uint32_t i = 0; i < j; i++)
                if (run->segments[i] == segment && s->recompute[i])
                    TN_TRY(segments_run(s, schedule, i));
        }
        TN_TRY(segments_run(s, schedule, j));
    }
    return TN_OK;
}

static tn_status segments_decide(segments_state *s) {
    tn__pass_run *run = s->run;
    size_t jobs = run->dag->job_count + (size_t)1, values = run->dag->value_count + (size_t)1;
    s->comes = tn__arena_array(run->arena, jobs, sizeof *s->comes);
    s->recompute = tn__arena_array(run->arena, jobs, sizeof *s->recompute);
    s->own = tn__arena_array(run->arena, values, sizeof *s->own);
    if (s->comes == NULL || s->recompute == NULL || s->own == NULL)
        return tn__no_memory(run->error, "segments");
    uint8_t most = 0;
    for (uint32_t j = 0; j < run->dag->job_count; j++)
        if (run->segments[j] > most) most = run->segments[j];
    for (uint32_t i = 0; i < SEGMENTS_MOST; i++) s->trigger[i] = TN_NONE;
    for (uint32_t segment = 1; segment <= most; segment++) {
        TN_TRY(tn__pass_work(run, run->dag->job_count));
        segments_mark(s, (uint8_t)segment);
    }
    return TN_OK;
}

static tn_status segments_solve(tn__pass_run *run) {
    segments_state state = {.run = run};
    tn__schedule schedule;
    bool kept = false;
    if (run->segments == NULL)
        TN_FAIL(run->error, TN_E_UNSUPPORTED, "no segments are marked: give patterns of names");
    TN_TRY(segments_decide(&state));
    tn__schedule_init(&schedule, &run->context);
    tn_status status = segments_list(&state, &schedule);
    if (status == TN_OK) status = tn__pass_offer(run, &schedule, &kept);
    tn__schedule_release(&schedule);
    if (status != TN_OK || kept) return status;
    return TN_E_STOPPED;
}

const tn_pass tn__pass_segments = {
    .name = "segments",
    .summary = "recomputes the marked segments from their inputs",
    .source = "Chen et al. 2016; torch.utils.checkpoint",
    .features = TN__PASS_RECOMPUTES,
    .solve = segments_solve,
};
