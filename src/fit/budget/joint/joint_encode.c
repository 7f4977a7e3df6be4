/* joint_encode.c - decides which values are encoded, and combines this with repeats and copies.
 *
 * For each chosen value, the schedule graph gets two more jobs: one that makes the encoded form F
 * of the value, and one that makes the value from F. The readers after the longest idle interval of
 * the value read the result of the second job, a'. The extended schedule graph is searched like any
 * other (joint_search.c, joint_swap.c). So a form may be decoded several times, and the search
 * knows the costs of the codecs when it chooses evictions. In the resulting schedule, the two jobs
 * become the actions ENCODE and DECODE of one value.
 *
 *     original    make a | read a | .......................... | read a
 *     searched    make a | read a | encode a, F | ... | decode F, a' | read a'
 *
 * A decoded value lies in the memory of the original value. If the form is lossy, a schedule in
 * which another job would read the decoded value is refused.
 *
 * Values are chosen by two orders: bytes saved times length of the idle interval, per time of the
 * codec; and cost of recomputing the value instead, per time of the codec. For each order, several
 * numbers of values are tried. Short floats are tried only if no other schedule is found. Cost: the
 * searches of joint_search.c and joint_swap.c for each choice.
 */
#include "fit/budget/joint/joint.h"

#include "fit/budget/algorithms/idle.h"

/* number of different counts of encoded values that are tried in each order */
#define CODE_PARTS 4u

typedef struct code_choice {
    uint32_t value, leave,
        /* the jobs around the value's idle interval: it is encoded after the job `leave` and
         * decoded before the job `back` */
        back;
    tn__code code;
    uint64_t time;  /* time of encoding; decoding takes as long */
    double keys[2]; /* sort keys, one for each order; the largest comes first */
} code_choice;

typedef struct code_state {
    tn__pass_run *run;
    tn__idles gaps;
    tn__codes codes;
    code_choice *choices; /* [count] */
    uint32_t count;
    uint32_t *by_key;
    tn__sort_item *items;
    /* arena of the following fields, which describe the choice of encoded values that is tried
     * now */
    tn__arena *arena;
    const code_choice **chosen; /* [chosen_count] the chosen values */
    uint32_t *of; /* [values] index in `chosen` of the value; TN_NONE: it is not chosen */
    uint32_t chosen_count;
    /* [searched jobs] job of the original schedule graph; for the k-th chosen value, jobs + 2k
     * encodes it, and jobs + 2k + 1 decodes it */
    uint32_t *origin;
    tn__dag searched;
    tn__schedule schedule;
} code_state;

/* --- values that may be encoded --------------------------------------------------------------- */

static void code_keys(const code_state *s, code_choice *it) {
    const tn__dag *dag = s->run->dag;
    const tn__dag_value *value = &dag->values[it->value];
    double saved = (double)(value->bytes - it->code.bytes), time = 2 * (double)it->time + 1;
    double idle = (double)(s->gaps.starts[it->back] - s->gaps.starts[it->leave]) + 1;
    double recompute = (double)dag->cost;
    if (value->maker != TN_NONE && (dag->jobs[value->maker].flags & TN__JOB_REPEATS))
        recompute = (double)dag->jobs[value->maker].recompute_cost;
    it->keys[0] = saved * idle / time;
    it->keys[1] = recompute / time;
}

/* Adds a value with its longest idle interval in which it can be encoded. */
static void code_add(code_state *s, uint32_t value) {
    const tn__dag_value *it = &s->run->dag->values[value];
    uint64_t longest = 0;
    code_choice choice = {.value = value};
    if (it->flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) return;
    for (uint32_t g = s->gaps.first[value]; g < s->gaps.first[value + 1]; g++) {
        const tn__idle *gap = &s->gaps.list[g];
        tn__code code = tn__codes_of(&s->codes, g);
        uint64_t time = s->gaps.starts[gap->back] - s->gaps.starts[gap->leave];
        if (code.codec == TN_CODEC_NONE || time < longest) continue;
        longest = time;
        choice.leave = gap->leave;
        choice.back = gap->back;
        choice.code = code;
    }
    if (choice.code.codec == TN_CODEC_NONE) return;
    choice.time = tn__lane_bytes(it->bytes + choice.code.bytes, s->run->codec_rate);
    code_keys(s, &choice);
    s->choices[s->count++] = choice;
}

static tn_status code_find(code_state *s) {
    size_t values = (size_t)s->run->dag->value_count + 1;
    s->choices = tn__arena_array(s->run->arena, values, sizeof *s->choices);
    s->by_key = tn__arena_array(s->run->arena, values, sizeof *s->by_key);
    s->items = tn__arena_array(s->run->arena, values, sizeof *s->items);
    if (s->choices == NULL || s->by_key == NULL || s->items == NULL)
        return tn__no_memory(s->run->error, "encoded forms");
    TN_TRY(tn__idles_find(s->run, &s->gaps));
    return tn__codes_find(&s->codes, s->run, &s->gaps);
}

static bool code_sort(code_state *s, int order) {
    for (uint32_t i = 0; i < s->count; i++) {
        float key = (float)s->choices[i].keys[order];
        /* sorts by the bits: as integers, those of positive floats have the order of the floats */
        uint32_t bits;
        memcpy(&bits, &key, sizeof bits);
        s->items[i] = (tn__sort_item){~(uint64_t)bits, i};
    }
    if (!tn__sort_items(&s->run->context, s->items, s->count)) return false;
    for (uint32_t i = 0; i < s->count; i++) s->by_key[i] = s->items[i].id;
    return true;
}

/* --- the schedule graph that is searched ------------------------------------------------------ */

typedef struct code_made {
    tn__dag_job *jobs;
    tn__dag_value *values;
    /* [jobs of the original schedule graph] index of the job in the extended graph, to which jobs
     * that encode and decode were added */
    uint32_t *moved;
    uint32_t count;
} code_made;

static uint32_t code_form(const code_state *s, uint32_t k) {
    return s->run->dag->value_count + 2 * k;
}

/* Returns the value that a job reads in place of `value` in the extended graph: the decoded value
 * if `value` is encoded and the job comes after its idle interval, otherwise `value` itself. */
static uint32_t code_read(const code_state *s, uint32_t value, uint32_t job) {
    uint32_t k = value != TN_NONE ? s->of[value] : TN_NONE;
    return k != TN_NONE && job >= s->chosen[k]->back ? code_form(s, k) + 1 : value;
}

static const uint32_t *code_reads(const code_state *s, const uint32_t *inputs, uint32_t count,
                                  uint32_t job) {
    uint32_t *list = tn__arena_array(s->arena, (size_t)count + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < count; i++) list[i] = code_read(s, inputs[i], job);
    return list;
}

static const uint32_t *code_others(const code_state *s, uint32_t first, uint32_t count) {
    uint32_t *list = tn__arena_array(s->arena, (size_t)count + 1, sizeof *list);
    if (list != NULL && count > 0) memcpy(list, s->run->dag->others + first, count * sizeof *list);
    return list;
}

static bool code_copy_job(const code_state *s, code_made *made, uint32_t job) {
    const tn__dag *dag = s->run->dag;
    tn__dag_job *to = &made->jobs[made->count];
    uint32_t count;
    to->job = dag->jobs[job];
    to->job.inplace = code_read(s, to->job.inplace, job);
    to->inputs = code_reads(s, tn__job_inputs(dag, job, false, &count), to->job.input_count, job);
    to->recompute_inputs =
        code_reads(s, tn__job_inputs(dag, job, true, &count), to->job.recompute_input_count, job);
    to->outputs = tn__job_outputs(dag, job, false, &count);
    to->recompute_outputs = tn__job_outputs(dag, job, true, &count);
    to->after = code_others(s, to->job.after_first, to->job.after_count);
    to->limits = code_others(s, to->job.limit_first, to->job.limit_count);
    s->origin[made->count] = job;
    made->moved[job] = made->count++;
    return to->inputs != NULL && to->recompute_inputs != NULL && to->after != NULL &&
           to->limits != NULL;
}

/* Adds the job that encodes the k-th chosen value, or the one that decodes it, which may be
 * repeated. Returns false if memory is exhausted. */
static bool code_add_job(const code_state *s, code_made *made, uint32_t k, bool decodes) {
    const code_choice *it = s->chosen[k];
    uint32_t *operands = tn__arena_array(s->arena, 2, sizeof *operands);
    if (operands == NULL) return false;
    operands[0] = decodes ? code_form(s, k) : it->value;
    operands[1] = code_form(s, k) + decodes;
    made->jobs[made->count] = (tn__dag_job){.job = {.op = TN_NONE,
                                                    .flags = decodes ? TN__JOB_REPEATS : 0,
                                                    .cost = it->time,
                                                    .recompute_cost = it->time,
                                                    .input_count = 1,
                                                    .output_count = 1,
                                                    .inplace = TN_NONE},
                                            .inputs = operands,
                                            .outputs = operands + 1};
    s->origin[made->count++] = s->run->dag->job_count + 2 * k + decodes;
    return true;
}

/* Translates ordering constraints and limits to the indices of jobs in the extended schedule
 * graph. */
static void code_move_others(const code_made *made) {
    for (uint32_t j = 0; j < made->count; j++) {
        const tn__dag_job *it = &made->jobs[j];
        for (uint32_t i = 0; i < it->job.after_count; i++)
            ((uint32_t *)it->after)[i] = made->moved[it->after[i]];
        for (uint32_t i = 0; i < it->job.limit_count; i++)
            ((uint32_t *)it->limits)[i] = made->moved[it->limits[i]];
    }
}

static bool code_make_jobs(const code_state *s, code_made *made) {
    bool room = true;
    for (uint32_t j = 0; j < s->run->dag->job_count && room; j++) {
        for (uint32_t k = 0; k < s->chosen_count && room; k++)
            if (s->chosen[k]->back == j) room = code_add_job(s, made, k, true);
        room = room && code_copy_job(s, made, j);
        for (uint32_t k = 0; k < s->chosen_count && room; k++)
            if (s->chosen[k]->leave == j) room = code_add_job(s, made, k, false);
    }
    if (room) code_move_others(made);
    return room;
}

static void code_make_values(const code_state *s, tn__dag_value *values) {
    const tn__dag *dag = s->run->dag;
    memcpy(values, dag->values, dag->value_count * sizeof *values);
    for (uint32_t k = 0; k < s->chosen_count; k++) {
        tn__dag_value *value = &values[s->chosen[k]->value];
        value->flags &= ~(uint32_t)TN__VALUE_COPIES;
        values[code_form(s, k)] =
            (tn__dag_value){.bytes = s->chosen[k]->code.bytes, .tensor = TN_NONE};
        values[code_form(s, k) + 1] = *value;
    }
}

static tn_status code_make(code_state *s) {
    const tn__dag *dag = s->run->dag;
    size_t jobs = (size_t)dag->job_count + 2 * s->chosen_count + 1;
    uint32_t values = dag->value_count + 2 * s->chosen_count;
    code_made made = {.jobs = tn__arena_array(s->arena, jobs, sizeof *made.jobs),
                      .values = tn__arena_array(s->arena, (size_t)values + 1, sizeof *made.values),
                      .moved = tn__arena_array(s->arena, jobs, sizeof *made.moved)};
    s->origin = tn__arena_array(s->arena, jobs, sizeof *s->origin);
    if (made.jobs == NULL || made.values == NULL || made.moved == NULL || s->origin == NULL ||
        !code_make_jobs(s, &made))
        return tn__no_memory(s->run->error, "encoded forms");
    code_make_values(s, made.values);
    TN_TRY(tn__dag_make(s->arena, made.jobs, made.count, made.values, values, &s->searched,
                        s->run->error));
    s->searched.fixed_bytes = dag->fixed_bytes;
    s->searched.slack = dag->slack;
    s->searched.is_ordered = dag->is_ordered;
    return TN_OK;
}

/* --- translation back to the schedule graph --------------------------------------------------- */

/* Whether a job of a schedule reads the right data: before its idle interval, a value must not be
 * read as the result of a lossy codec. decoded [chosen]: whether the value was last made by
 * decoding; updated for the outputs of the job. */
static bool code_follow(const code_state *s, uint32_t job, bool recompute, bool *decoded) {
    const tn__dag *dag = s->run->dag;
    uint32_t count;
    const uint32_t *list = tn__job_inputs(dag, job, recompute, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = s->of[list[i]];
        if (k == TN_NONE || job >= s->chosen[k]->back || !decoded[k]) continue;
        if (s->chosen[k]->code.codec != TN_CODEC_CSR) return false;
    }
    list = tn__job_outputs(dag, job, recompute, &count);
    for (uint32_t i = 0; i < count; i++)
        if (s->of[list[i]] != TN_NONE) decoded[s->of[list[i]]] = false;
    return true;
}

static tn_status code_action(code_state *s, const tn__action *action, bool *decoded, bool *ran,
                             bool *possible) {
    uint32_t jobs = s->run->dag->job_count;
    tn__action made = *action;
    if (action->kind != TN__RUN) return tn__schedule_add(&s->schedule, made, s->run->error);
    made.what = s->origin[action->what];
    if (made.what < jobs) {
        *possible = code_follow(s, made.what, ran[made.what], decoded);
        ran[made.what] = true;
        return tn__schedule_add(&s->schedule, made, s->run->error);
    }
    uint32_t k = (made.what - jobs) / 2;
    bool decodes = (made.what - jobs) % 2;
    *possible = decodes || !decoded[k];
    decoded[k] = decodes;
    made = (tn__action){.kind = decodes ? TN__DECODE : TN__ENCODE,
                        .codec = (uint8_t)s->chosen[k]->code.codec,
                        .what = s->chosen[k]->value,
                        .bytes = s->chosen[k]->code.bytes};
    return tn__schedule_add(&s->schedule, made, s->run->error);
}

/* Translates a schedule of the extended graph back to the original one, and offers it to the run. A
 * schedule that the judge refuses is dropped, which happens if a repeat lies between the two copies
 * of a swap. */
static tn_status code_offer(code_state *s, const tn__schedule *found) {
    bool *decoded = tn__arena_array(s->arena, (size_t)s->chosen_count + 1, sizeof *decoded);
    bool *ran = tn__arena_array(s->arena, (size_t)s->run->dag->job_count + 1, sizeof *ran);
    bool possible = true, kept;
    tn__replay replay;
    tn_error refused;
    if (decoded == NULL || ran == NULL) return tn__no_memory(s->run->error, "encoded forms");
    s->schedule.count = 0;
    for (uint32_t i = 0; i < found->count && possible; i++)
        TN_TRY(code_action(s, &found->actions[i], decoded, ran, &possible));
    if (!possible) return TN_OK;
    tn_status status = tn__replay_schedule(s->run->dag, &s->schedule, &replay, NULL, &refused);
    if (status == TN_E_INVALID) return TN_OK;
    return status == TN_OK ? tn__pass_offer(s->run, &s->schedule, &kept) : status;
}

/* --- trying --------------------------------------------------------------------------------- */

static tn_status code_search(code_state *s, uint64_t effort) {
    tn__pass_run run = *s->run;
    bool swaps = (run.allow & TN__ALLOW_SWAP) && run.out_rate > 0 && run.in_rate > 0;
    run.dag = &s->searched;
    run.arena = s->arena;
    run.has_best = false;
    run.explain = NULL;
    tn__schedule_init(&run.best, &run.context);
    tn_status status = TN_OK;
    if (run.allow & TN__ALLOW_RECOMPUTE) status = tn__joint_search(&run, effort);
    if (swaps && status == TN_OK) status = tn__joint_swap(&run, effort);
    s->run->work_done = run.work_done;
    s->run->asked = run.asked;
    s->run->ended = run.ended;
    if (run.has_best && (status == TN_OK || status == TN_E_STOPPED)) {
        tn_status offered = code_offer(s, &run.best);
        if (offered != TN_OK) status = offered;
    }
    tn__schedule_release(&run.best);
    return status;
}

static tn_status code_choose(code_state *s, uint32_t count) {
    const tn__dag *dag = s->run->dag;
    s->of = tn__arena_array(s->arena, (size_t)dag->value_count + 1, sizeof *s->of);
    s->chosen = tn__arena_array(s->arena, (size_t)count + 1, sizeof *s->chosen);
    if (s->of == NULL || s->chosen == NULL) return tn__no_memory(s->run->error, "encoded forms");
    for (uint32_t v = 0; v < dag->value_count; v++) s->of[v] = TN_NONE;
    for (uint32_t k = 0; k < count; k++) {
        s->chosen[k] = &s->choices[s->by_key[k]];
        s->of[s->chosen[k]->value] = k;
    }
    s->chosen_count = count;
    return TN_OK;
}

static tn_status code_try(code_state *s, uint32_t count, uint64_t effort) {
    tn__arena arena;
    tn__arena_init(&arena, &s->run->context);
    s->arena = &arena;
    tn_status status = code_choose(s, count);
    if (status == TN_OK) status = code_make(s);
    if (status == TN_OK) status = code_search(s, effort);
    tn__arena_release(&arena);
    return status;
}

static bool code_is_done(const tn__pass_run *run) {
    return run->has_best && (run->feasible_only || run->time <= run->dag->cost);
}

static tn_status code_level(code_state *s, tn_codec lossy, uint64_t effort) {
    s->codes.lossy = lossy;
    s->count = 0;
    for (uint32_t v = 0; v < s->run->dag->value_count; v++) code_add(s, v);
    for (int order = 0; order < 2; order++) {
        if (!code_sort(s, order)) return tn__no_memory(s->run->error, "encoded forms");
        for (uint32_t part = CODE_PARTS; part > 0; part--) {
            uint32_t count = (uint32_t)((uint64_t)s->count * part / CODE_PARTS);
            if (code_is_done(s->run)) return TN_OK;
            /* the choice of all values is tried for one order only, because the order does not
             * matter then */
            if (count == 0 || (order > 0 && part == CODE_PARTS)) continue;
            TN_TRY(code_try(s, count, effort / (2 * CODE_PARTS - 1)));
        }
    }
    return TN_OK;
}

static tn_status code_all(code_state *s, uint64_t effort) {
    TN_TRY(code_find(s));
    TN_TRY(code_level(s, TN_CODEC_NONE, effort));
    for (int i = 0; i < TN__LOSSY_COUNT && !s->run->has_best; i++)
        if (tn__codes_allow(s->run, tn__lossy[i])) TN_TRY(code_level(s, tn__lossy[i], effort));
    return TN_OK;
}

tn_status tn__joint_code(tn__pass_run *run, uint64_t effort) {
    code_state s = {.run = run};
    tn__schedule_init(&s.schedule, &run->context);
    tn_status status = code_all(&s, effort);
    tn__schedule_release(&s.schedule);
    return status;
}
