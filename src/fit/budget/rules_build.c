/* rules_build.c - writes a work that obeys the rules, and translates its schedules.
 *
 * The jobs keep their order. Before a job come the additional jobs that are due there; a repeat is
 * written after the repeats and copies of its released sources. Each value has a current version,
 * and a job reads the version that is current at its place.
 *
 * An early reader of a tensor that a rule releases is not repeated by passes, because a repeat in
 * the backward pass would need the released version. Cost: O((jobs + operands) log jobs).
 */
#include "fit/budget/rules_build.h"

enum { BUILD_OUT, BUILD_SETTLE, BUILD_IN, BUILD_AGAIN, BUILD_KINDS }; /* the order at one place */

typedef struct build_state {
    tn__rules_state *rules;
    const tn__work *work;
    tn__arena *arena;
    tn__work_job *jobs; /* [job_count] */
    tn__ruled_job *of;
    tn__value *values;
    uint32_t *value_of;
    uint32_t job_count, value_count;
    uint32_t now;                      /* the next job of the original work */
    uint32_t *first;                   /* [jobs] the job of the ruled work with its first run */
    uint32_t *current;                 /* [values] current version */
    bool *is_out, *is_settled, *is_in; /* [values] these jobs are written */
    bool *is_again;                    /* [jobs] its repeat is written */
    uint32_t *stack;
    tn__ruled *ruled;
} build_state;

static tn_status build_no_memory(const build_state *s) {
    return tn__no_memory(s->rules->error, "the jobs of rules");
}

/* --- lists --- */

static uint32_t *build_list(build_state *s, const uint32_t *from, uint32_t count, bool versions) {
    uint32_t *list = tn__arena_array(s->arena, (size_t)count + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < count; i++)
        list[i] = versions ? s->current[from[i]] : from[i];
    return list;
}

static uint32_t *build_one(build_state *s, uint32_t value) {
    uint32_t *list = tn__arena_array(s->arena, 1, sizeof *list);
    if (list != NULL) list[0] = value;
    return list;
}

static bool build_names(const uint32_t *list, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

/* --- jobs --- */

static void build_put(build_state *s, tn__work_job job, uint8_t kind, uint32_t what) {
    s->of[s->job_count] = (tn__ruled_job){kind, what};
    s->jobs[s->job_count++] = job;
}

/* Begins another version of a value. If it is an output of the program, so is the new version. */
static uint32_t build_version(build_state *s, uint32_t value) {
    const uint32_t old = s->current[value], made = s->value_count++;
    s->values[made] = s->values[old];
    s->value_of[made] = value;
    s->values[old].flags &= ~(uint32_t)TN__VALUE_KEPT;
    s->current[value] = made;
    return made;
}

/* OUT and SETTLE read the value. */
static tn_status build_reads(build_state *s, uint32_t value, uint8_t kind) {
    tn__work_job job = {.job = {.op = TN_NONE, .inplace = TN_NONE, .input_count = 1}};
    job.inputs = build_one(s, s->current[value]);
    if (job.inputs == NULL) return build_no_memory(s);
    build_put(s, job, kind, value);
    return TN_OK;
}

static tn_status build_settle(build_state *s, uint32_t value) {
    if (s->is_settled[value]) return TN_OK;
    s->is_settled[value] = true;
    return build_reads(s, value, TN__SETTLE);
}

static tn_status build_in(build_state *s, uint32_t value) {
    if (s->is_in[value]) return TN_OK;
    s->is_in[value] = true;
    TN_TRY(build_settle(s, value));
    tn__work_job job = {.job = {.op = TN_NONE, .inplace = TN_NONE, .output_count = 1}};
    job.outputs = build_one(s, build_version(s, value));
    if (job.outputs == NULL) return build_no_memory(s);
    build_put(s, job, TN__IN, value);
    s->ruled->copied++;
    return TN_OK;
}

/* Whether a repeat of this job by a pass would read a version that a rule releases. */
static bool build_reads_released(const build_state *s, uint32_t id) {
    uint32_t count;
    const uint32_t *inputs = tn__job_inputs(s->work, id, true, &count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t maker = s->work->values[inputs[i]].maker;
        const uint8_t how = maker != TN_NONE ? s->rules->how[maker] : TN__RULED_NOT;
        if (how == TN__RULED_AGAIN && !s->is_again[maker]) return true;
        if (how == TN__RULED_SWAP && s->rules->swaps[inputs[i]].in > 0 && !s->is_in[inputs[i]])
            return true;
    }
    return false;
}

/* A repeat: its first run has the form of a repeat. */
static tn_status build_repeat(build_state *s, uint32_t id) {
    const tn__job *it = &s->work->jobs[id];
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(s->work, id, true, &inputs);
    const uint32_t *output = tn__job_outputs(s->work, id, true, &outputs);
    tn__work_job job = {.job = *it};
    job.job.cost = it->again_cost;
    job.job.input_count = inputs;
    job.job.output_count = outputs;
    job.job.after_count = 0; /* the order is fixed */
    if (build_reads_released(s, id)) job.job.flags &= ~(uint32_t)TN__JOB_REPEATS;
    job.inputs = build_list(s, input, inputs, true);
    if (job.inputs == NULL) return build_no_memory(s);
    uint32_t inplace = it->inplace != TN_NONE ? s->current[it->inplace] : TN_NONE;
    bool fits = inplace != TN_NONE && outputs > 0 && build_names(job.inputs, inputs, inplace) &&
                s->work->values[output[0]].bytes == s->values[inplace].bytes;
    job.job.inplace = fits ? inplace : TN_NONE;
    for (uint32_t k = 0; k < outputs; k++) build_version(s, output[k]);
    job.outputs = build_list(s, output, outputs, true);
    if (job.outputs == NULL) return build_no_memory(s);
    build_put(s, job, TN__RUN, id);
    s->is_again[id] = true;
    s->ruled->again++;
    return TN_OK;
}

/* Whether a source was released by a rule and is not back. */
static bool build_is_gone(const build_state *s, uint32_t value) {
    const uint32_t maker = s->work->values[value].maker;
    if (maker == TN_NONE) return false;
    if (s->rules->how[maker] == TN__RULED_SWAP) return s->is_out[value] && !s->is_in[value];
    if (s->rules->how[maker] != TN__RULED_AGAIN || s->is_again[maker]) return false;
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(s->work, maker, true, &count);
    if (!build_names(outputs, count, value)) return false;
    /* released: every reader that is still to come is a late one */
    const uint32_t after = s->now > 0 ? tn__lists_after(&s->work->reads, value, s->now - 1)
                                      : s->work->reads.first[value];
    return after == s->work->reads.first[value + 1] ||
           s->work->reads.items[after] >= s->rules->at[maker];
}

/* Writes a repeat after those of its released sources, without recursion. */
static tn_status build_again(build_state *s, uint32_t id) {
    uint32_t depth = 0;
    s->stack[depth++] = id;
    while (depth > 0) {
        const uint32_t job = s->stack[depth - 1], before = depth;
        uint32_t count;
        const uint32_t *inputs = tn__job_inputs(s->work, job, true, &count);
        for (uint32_t i = 0; i < count && !s->is_again[job]; i++) {
            if (!build_is_gone(s, inputs[i])) continue;
            const uint32_t maker = s->work->values[inputs[i]].maker;
            if (s->rules->how[maker] == TN__RULED_SWAP) {
                TN_TRY(build_in(s, inputs[i]));
            } else {
                s->stack[depth++] = maker; /* at most once for each job of a chain of sources */
                break;
            }
        }
        if (depth > before) continue;
        if (!s->is_again[job]) TN_TRY(build_repeat(s, job));
        depth--;
    }
    return TN_OK;
}

static tn_status build_first(build_state *s, uint32_t id) {
    const tn__job *it = &s->work->jobs[id];
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(s->work, id, false, &inputs);
    const uint32_t *output = tn__job_outputs(s->work, id, false, &outputs);
    tn__work_job job = {.job = *it};
    job.inputs = build_list(s, input, inputs, true);
    job.outputs = build_list(s, output, outputs, true);
    if (job.inputs == NULL || job.outputs == NULL) return build_no_memory(s);
    if (it->inplace != TN_NONE) job.job.inplace = s->current[it->inplace];
    if (s->rules->how[id] != TN__RULED_NOT || build_reads_released(s, id))
        job.job.flags &= ~(uint32_t)TN__JOB_REPEATS;
    if (job.job.flags & TN__JOB_REPEATS) {
        input = tn__job_inputs(s->work, id, true, &inputs);
        output = tn__job_outputs(s->work, id, true, &outputs);
        job.again_inputs = build_list(s, input, inputs, true);
        job.again_outputs = build_list(s, output, outputs, true);
        if (job.again_inputs == NULL || job.again_outputs == NULL) return build_no_memory(s);
    }
    s->first[id] = s->job_count;
    build_put(s, job, TN__RUN, id);
    return TN_OK;
}

/* --- the order --- */

static tn_status build_item(build_state *s, uint32_t kind, uint32_t what) {
    switch (kind) {
    case BUILD_OUT:
        s->is_out[what] = true;
        return build_reads(s, what, TN__OUT);
    case BUILD_SETTLE:
        return build_settle(s, what);
    case BUILD_IN:
        return build_in(s, what);
    default:
        return s->is_again[what] ? TN_OK : build_again(s, what);
    }
}

static uint64_t build_key(uint32_t place, uint32_t kind) {
    return (uint64_t)place * BUILD_KINDS + kind;
}

static tn_status build_items(build_state *s, tn__sort_item **list, uint32_t *count) {
    const tn__rules_state *rules = s->rules;
    const size_t most = (size_t)s->work->job_count + 3 * (size_t)s->work->value_count + 1;
    tn__sort_item *items = tn__arena_array(s->arena, most, sizeof *items);
    uint32_t n = 0;
    if (items == NULL) return build_no_memory(s);
    for (uint32_t v = 0; v < s->work->value_count; v++) {
        const tn__ruled_swap *swap = &rules->swaps[v];
        if (swap->in == 0) continue;
        items[n++] = (tn__sort_item){build_key(swap->leave + 1, BUILD_OUT), v};
        items[n++] = (tn__sort_item){build_key(swap->settle, BUILD_SETTLE), v};
        items[n++] = (tn__sort_item){build_key(swap->in, BUILD_IN), v};
    }
    for (uint32_t j = 0; j < s->work->job_count; j++)
        if (rules->how[j] == TN__RULED_AGAIN)
            items[n++] = (tn__sort_item){build_key(rules->at[j], BUILD_AGAIN), j};
    if (!tn__sort_items(rules->context, items, n)) return build_no_memory(s);
    *list = items;
    *count = n;
    return TN_OK;
}

static tn_status build_walk(build_state *s) {
    tn__sort_item *items = NULL;
    uint32_t count = 0, at = 0;
    TN_TRY(build_items(s, &items, &count));
    for (s->now = 0; s->now < s->work->job_count; s->now++) {
        for (; at < count && items[at].key < build_key(s->now + 1, 0); at++)
            TN_TRY(build_item(s, (uint32_t)(items[at].key % BUILD_KINDS), items[at].id));
        TN_TRY(build_first(s, s->now));
    }
    return TN_OK;
}

/* Orders and limits name jobs of the original work; a limit is the first run of a job. */
static tn_status build_others(build_state *s) {
    for (uint32_t j = 0; j < s->job_count; j++) {
        tn__work_job *job = &s->jobs[j];
        if (s->of[j].kind != TN__RUN) continue;
        const tn__job *it = &s->work->jobs[s->of[j].what];
        uint32_t *after = build_list(s, s->work->others + it->after_first, it->after_count, false);
        uint32_t *limits = build_list(s, s->work->others + it->limit_first, it->limit_count, false);
        if (after == NULL || limits == NULL) return build_no_memory(s);
        for (uint32_t i = 0; i < it->after_count; i++) after[i] = s->first[after[i]];
        for (uint32_t i = 0; i < it->limit_count; i++) limits[i] = s->first[limits[i]];
        job->after = after;
        job->limits = limits;
    }
    return TN_OK;
}

/* --- values --- */

static void build_flags(build_state *s) {
    const tn__rules_state *rules = s->rules;
    for (uint32_t v = 0; v < s->work->value_count; v++) {
        const uint32_t maker = s->work->values[v].maker;
        s->values[v] = s->work->values[v];
        s->value_of[v] = s->current[v] = v;
        if (maker == TN_NONE || rules->how[maker] == TN__RULED_NOT) continue;
        s->values[v].flags &= ~(uint32_t)TN__VALUE_COPIES;
        s->values[v].flags |= TN__VALUE_RULED;
    }
}

static tn_status build_room(build_state *s) {
    const size_t jobs = (size_t)s->work->job_count + 1, values = (size_t)s->work->value_count + 1;
    const size_t all = 2 * jobs + 3 * values;
    size_t versions = 2 * values;
    for (uint32_t j = 0; j < s->work->job_count; j++)
        versions += s->work->jobs[j].again_output_count;
    s->jobs = tn__arena_array(s->arena, all, sizeof *s->jobs);
    s->of = tn__arena_array(s->arena, all, sizeof *s->of);
    s->values = tn__arena_array(s->arena, versions, sizeof *s->values);
    s->value_of = tn__arena_array(s->arena, versions, sizeof *s->value_of);
    s->first = tn__arena_array(s->arena, jobs, sizeof *s->first);
    s->stack = tn__arena_array(s->arena, jobs, sizeof *s->stack);
    s->is_again = tn__arena_array(s->arena, jobs, sizeof *s->is_again);
    s->current = tn__arena_array(s->arena, values, sizeof *s->current);
    s->is_out = tn__arena_array(s->arena, values, sizeof *s->is_out);
    s->is_settled = tn__arena_array(s->arena, values, sizeof *s->is_settled);
    s->is_in = tn__arena_array(s->arena, values, sizeof *s->is_in);
    if (!s->jobs || !s->of || !s->values || !s->value_of || !s->first || !s->stack ||
        !s->is_again || !s->current || !s->is_out || !s->is_settled || !s->is_in)
        return build_no_memory(s);
    s->value_count = s->work->value_count;
    return TN_OK;
}

tn_status tn__rules_build(tn__rules_state *rules, tn__ruled *ruled) {
    build_state s = {.rules = rules, .work = rules->work, .arena = rules->arena, .ruled = ruled};
    *ruled = (tn__ruled){0};
    TN_TRY(build_room(&s));
    build_flags(&s);
    TN_TRY(build_walk(&s));
    TN_TRY(build_others(&s));
    TN_TRY(tn__work_make(s.arena, s.jobs, s.job_count, s.values, s.value_count, &ruled->work,
                         rules->error));
    ruled->work.fixed_bytes = s.work->fixed_bytes;
    ruled->work.is_ordered = s.work->is_ordered || ruled->again > 0 || ruled->copied > 0;
    ruled->jobs = s.of;
    ruled->values = s.value_of;
    return TN_OK;
}

/* --- schedules --- */

tn_status tn__rules_schedule(const tn__ruled *ruled, const tn__schedule *from, tn__schedule *to,
                             tn_error *error) {
    to->count = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        tn__act act = from->acts[i];
        if (act.kind == TN__RUN) {
            act = (tn__act){.kind = ruled->jobs[act.what].kind, .what = ruled->jobs[act.what].what};
        } else {
            act.what = ruled->values[act.what];
        }
        TN_TRY(tn__schedule_add(to, act, error));
    }
    return TN_OK;
}
