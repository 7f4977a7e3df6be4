/* schedule_graph.c - stores the jobs and values of a schedule graph in flat arrays, and manages
 * schedules (lists of actions). Cost: O(jobs + operands). */
#include "fit/budget/schedule/schedule_graph.h"

static tn_status dag_check_list(const uint32_t *list, uint32_t count, uint32_t bound, uint32_t job,
                                const char *what, tn_error *error) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] >= bound)
            TN_FAIL(error, TN_E_INVALID, "job %u names %s %u of %u", job, what, list[i], bound);
    return TN_OK;
}

static bool dag_recompute_is_own(const tn__dag_job *it) {
    return it->recompute_inputs == NULL && it->recompute_outputs == NULL;
}

/* Checks that the lists of one job name only existing values and jobs. */
static tn_status dag_check_job(const tn__dag_job *it, uint32_t id, uint32_t jobs, uint32_t values,
                               tn_error *error) {
    const tn__job *job = &it->job;
    TN_TRY(dag_check_list(it->inputs, job->input_count, values, id, "value", error));
    TN_TRY(dag_check_list(it->outputs, job->output_count, values, id, "value", error));
    TN_TRY(dag_check_list(it->after, job->after_count, jobs, id, "job", error));
    TN_TRY(dag_check_list(it->limits, job->limit_count, jobs, id, "job", error));
    if (job->inplace != TN_NONE && job->inplace >= values)
        TN_FAIL(error, TN_E_INVALID, "job %u names value %u of %u", id, job->inplace, values);
    if (dag_recompute_is_own(it)) return TN_OK;
    TN_TRY(dag_check_list(it->recompute_inputs, job->recompute_input_count, values, id, "value",
                          error));
    return dag_check_list(it->recompute_outputs, job->recompute_output_count, values, id, "value",
                          error);
}

/* --- lists stored one after the other --- */

typedef struct dag_lists {
    uint32_t *at;
    uint32_t count;
} dag_lists;

static uint32_t dag_append(dag_lists *lists, const uint32_t *from, uint32_t count) {
    uint32_t first = lists->count;
    if (count > 0) memcpy(lists->at + first, from, count * sizeof *from);
    lists->count += count;
    return first;
}

static void dag_lay_out(const tn__dag_job *it, tn__job *job, dag_lists *operands,
                        dag_lists *others) {
    *job = it->job;
    job->input_first = dag_append(operands, it->inputs, job->input_count);
    job->output_first = dag_append(operands, it->outputs, job->output_count);
    job->after_first = dag_append(others, it->after, job->after_count);
    job->limit_first = dag_append(others, it->limits, job->limit_count);
    if (dag_recompute_is_own(it)) {
        job->recompute_input_first = job->input_first;
        job->recompute_input_count = job->input_count;
        job->recompute_output_first = job->output_first;
        job->recompute_output_count = job->output_count;
        return;
    }
    job->recompute_input_first =
        dag_append(operands, it->recompute_inputs, job->recompute_input_count);
    job->recompute_output_first =
        dag_append(operands, it->recompute_outputs, job->recompute_output_count);
}

static tn_status dag_count(const tn__dag_job *jobs, uint32_t job_count, uint32_t value_count,
                           uint64_t *operands, uint64_t *others, tn_error *error) {
    *operands = *others = 0;
    for (uint32_t j = 0; j < job_count; j++) {
        const tn__job *job = &jobs[j].job;
        TN_TRY(dag_check_job(&jobs[j], j, job_count, value_count, error));
        *operands += (uint64_t)job->input_count + job->output_count;
        if (!dag_recompute_is_own(&jobs[j]))
            *operands += (uint64_t)job->recompute_input_count + job->recompute_output_count;
        *others += (uint64_t)job->after_count + job->limit_count;
    }
    if (*operands < TN_NONE && *others < TN_NONE) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "more than 2^32 operands");
}

/* --- readers and makers --- */

static tn_status dag_find_makers(tn__dag_value *values, const tn__dag *dag, tn_error *error) {
    for (uint32_t v = 0; v < dag->value_count; v++) values[v].maker = TN_NONE;
    for (uint32_t j = 0; j < dag->job_count; j++) {
        uint32_t count;
        const uint32_t *outputs = tn__job_outputs(dag, j, false, &count);
        for (uint32_t i = 0; i < count; i++) {
            if (values[outputs[i]].maker != TN_NONE)
                TN_FAIL(error, TN_E_INVALID, "value %u is made by job %u and by job %u", outputs[i],
                        values[outputs[i]].maker, j);
            values[outputs[i]].maker = j;
        }
    }
    return TN_OK;
}

static void dag_list_reads(const tn__dag *dag, uint32_t job, bool recompute, tn__lists *lists) {
    uint32_t count;
    const uint32_t *inputs = tn__job_inputs(dag, job, recompute, &count);
    for (uint32_t i = 0; i < count; i++) tn__lists_add(lists, inputs[i], job);
}

static void dag_fill_reads(void *self, tn__lists *reads) {
    const tn__dag *dag = self;
    for (uint32_t j = 0; j < dag->job_count; j++) dag_list_reads(dag, j, false, reads);
}

static void dag_fill_readers(void *self, tn__lists *readers) {
    const tn__dag *dag = self;
    for (uint32_t j = 0; j < dag->job_count; j++) {
        dag_list_reads(dag, j, false, readers);
        dag_list_reads(dag, j, true, readers);
    }
}

static bool dag_names(const uint32_t *list, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

/* Checks that a repeat makes only values that the first run makes and reads none that is made
 * later, and that an output written over an input has the size of the input. */
static tn_status dag_check_forms(const tn__dag *dag, tn_error *error) {
    for (uint32_t j = 0; j < dag->job_count; j++) {
        const tn__job *job = &dag->jobs[j];
        uint32_t inputs, outputs, made;
        const uint32_t *input = tn__job_inputs(dag, j, false, &inputs);
        const uint32_t *output = tn__job_outputs(dag, j, true, &outputs);
        const uint32_t *recompute = tn__job_inputs(dag, j, true, &made);
        for (uint32_t i = 0; i < made; i++)
            if (dag->values[recompute[i]].maker != TN_NONE && dag->values[recompute[i]].maker > j)
                TN_FAIL(error, TN_E_INVALID, "job %u reads value %u again, which is made later", j,
                        recompute[i]);
        for (uint32_t i = 0; i < outputs; i++)
            if (dag->values[output[i]].maker != j)
                TN_FAIL(error, TN_E_INVALID, "job %u makes value %u only again", j, output[i]);
        if (job->inplace == TN_NONE) continue;
        output = tn__job_outputs(dag, j, false, &made);
        if (made == 0 || !dag_names(input, inputs, job->inplace) ||
            dag->values[output[0]].bytes != dag->values[job->inplace].bytes)
            TN_FAIL(error, TN_E_INVALID, "job %u cannot take value %u in place", j, job->inplace);
    }
    return TN_OK;
}

/* Checks that no sum of live bytes exceeds 63 bits. */
static tn_status dag_check_bytes(const tn__dag *dag, tn_error *error) {
    uint64_t all = 0;
    for (uint32_t v = 0; v < dag->value_count; v++)
        all = tn__add_sat(all, tn__mul_sat(dag->values[v].bytes, 4));
    for (uint32_t j = 0; j < dag->job_count; j++) all = tn__add_sat(all, dag->jobs[j].scratch);
    if (all <= (uint64_t)INT64_MAX) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED, "the values together are larger than 2^61 bytes");
}

static tn_status dag_check_order(const tn__dag *dag, tn_error *error) {
    for (uint32_t j = 0; j < dag->job_count; j++) {
        uint32_t count;
        const uint32_t *inputs = tn__job_inputs(dag, j, false, &count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t maker = dag->values[inputs[i]].maker;
            if (maker != TN_NONE && maker >= j)
                TN_FAIL(error, TN_E_INVALID, "job %u reads value %u, which job %u makes later", j,
                        inputs[i], maker);
        }
    }
    return TN_OK;
}

tn_status tn__dag_make(tn__arena *arena, const tn__dag_job *jobs, uint32_t job_count,
                       const tn__dag_value *values, uint32_t value_count, tn__dag *dag,
                       tn_error *error) {
    uint64_t operand_count, other_count;
    TN_TRY(dag_count(jobs, job_count, value_count, &operand_count, &other_count, error));
    dag_lists operands = {tn__arena_array(arena, operand_count + 1, sizeof(uint32_t)), 0};
    dag_lists others = {tn__arena_array(arena, other_count + 1, sizeof(uint32_t)), 0};
    tn__job *laid = tn__arena_array(arena, (size_t)job_count + 1, sizeof *laid);
    tn__dag_value *made = tn__arena_array(arena, (size_t)value_count + 1, sizeof *made);
    if (operands.at == NULL || others.at == NULL || laid == NULL || made == NULL)
        return tn__no_memory(error, "a program's jobs");
    if (value_count > 0) memcpy(made, values, value_count * sizeof *made);
    *dag = (tn__dag){.jobs = laid,
                     .values = made,
                     .operands = operands.at,
                     .others = others.at,
                     .job_count = job_count,
                     .value_count = value_count};
    for (uint32_t j = 0; j < job_count; j++) {
        dag_lay_out(&jobs[j], &laid[j], &operands, &others);
        dag->cost = tn__add_sat(dag->cost, jobs[j].job.cost);
    }
    TN_TRY(dag_check_bytes(dag, error));
    TN_TRY(dag_find_makers(made, dag, error));
    TN_TRY(dag_check_order(dag, error));
    TN_TRY(dag_check_forms(dag, error));
    if (!tn__lists_make(&dag->reads, value_count, arena, dag_fill_reads, dag) ||
        !tn__lists_make(&dag->readers, value_count, arena, dag_fill_readers, dag))
        return tn__no_memory(error, "a program's values");
    return TN_OK;
}

/* --- schedules --- */

#define WORK_MOST_ACTS 0x7fffffffu

void tn__schedule_init(tn__schedule *schedule, const tn_context *context) {
    *schedule = (tn__schedule){.context = *context};
}

void tn__schedule_release(tn__schedule *schedule) {
    tn__free(&schedule->context, schedule->actions, schedule->room * sizeof *schedule->actions);
    schedule->actions = NULL;
    schedule->room = schedule->count = 0;
}

tn_status tn__schedule_add(tn__schedule *schedule, tn__action action, tn_error *error) {
    if (schedule->count == WORK_MOST_ACTS) TN_FAIL(error, TN_E_EXHAUSTED, "more than 2^31 acts");
    if (!tn__reserve(&schedule->context, &schedule->actions, &schedule->room,
                     (size_t)schedule->count + 1, sizeof action))
        return tn__no_memory(error, "a schedule");
    schedule->actions[schedule->count++] = action;
    return TN_OK;
}

tn_status tn__schedule_plain(const tn__dag *dag, tn__schedule *schedule, tn_error *error) {
    for (uint32_t j = 0; j < dag->job_count; j++)
        TN_TRY(tn__schedule_add(schedule, (tn__action){.kind = TN__RUN, .what = j}, error));
    return TN_OK;
}

tn_status tn__dag_plain_peak(const tn__dag *dag, const tn_context *context, uint64_t *peak,
                             tn_error *error) {
    tn__schedule schedule;
    tn__replay replay = {0};
    tn__schedule_init(&schedule, context);
    tn_status status = tn__schedule_plain(dag, &schedule, error);
    if (status == TN_OK) status = tn__replay_schedule(dag, &schedule, &replay, NULL, error);
    tn__schedule_release(&schedule);
    *peak = replay.peak;
    return status;
}

tn_status tn__schedule_copy(tn__schedule *to, const tn__schedule *from, tn_error *error) {
    if (!tn__reserve(&to->context, &to->actions, &to->room, (size_t)from->count + 1,
                     sizeof *from->actions))
        return tn__no_memory(error, "a schedule");
    if (from->count > 0) memcpy(to->actions, from->actions, from->count * sizeof *from->actions);
    to->count = from->count;
    return TN_OK;
}
