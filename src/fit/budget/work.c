/* work.c - stores jobs and values in flat arrays, and manages schedules. Cost: O(jobs + operands).
 */
#include "fit/budget/work.h"

static tn_status work_check_list(const uint32_t *list, uint32_t count, uint32_t bound, uint32_t job,
                                 const char *what, tn_error *error) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] >= bound)
            TN_FAIL(error, TN_E_INVALID, "job %u names %s %u of %u", job, what, list[i], bound);
    return TN_OK;
}

static bool work_again_is_own(const tn__work_job *it) {
    return it->again_inputs == NULL && it->again_outputs == NULL;
}

/* Adds the room that the lists of one job need in the arrays. */
static tn_status work_check_job(const tn__work_job *it, uint32_t id, uint32_t jobs, uint32_t values,
                                tn_error *error) {
    const tn__job *job = &it->job;
    TN_TRY(work_check_list(it->inputs, job->input_count, values, id, "value", error));
    TN_TRY(work_check_list(it->outputs, job->output_count, values, id, "value", error));
    TN_TRY(work_check_list(it->after, job->after_count, jobs, id, "job", error));
    TN_TRY(work_check_list(it->limits, job->limit_count, jobs, id, "job", error));
    if (job->inplace != TN_NONE && job->inplace >= values)
        TN_FAIL(error, TN_E_INVALID, "job %u names value %u of %u", id, job->inplace, values);
    if (work_again_is_own(it)) return TN_OK;
    TN_TRY(work_check_list(it->again_inputs, job->again_input_count, values, id, "value", error));
    return work_check_list(it->again_outputs, job->again_output_count, values, id, "value", error);
}

/* --- lists, one after the other --- */

typedef struct work_lists {
    uint32_t *at;
    uint32_t count;
} work_lists;

static uint32_t work_append(work_lists *lists, const uint32_t *from, uint32_t count) {
    uint32_t first = lists->count;
    if (count > 0) memcpy(lists->at + first, from, count * sizeof *from);
    lists->count += count;
    return first;
}

static void work_lay_out(const tn__work_job *it, tn__job *job, work_lists *operands,
                         work_lists *others) {
    *job = it->job;
    job->input_first = work_append(operands, it->inputs, job->input_count);
    job->output_first = work_append(operands, it->outputs, job->output_count);
    job->after_first = work_append(others, it->after, job->after_count);
    job->limit_first = work_append(others, it->limits, job->limit_count);
    if (work_again_is_own(it)) {
        job->again_input_first = job->input_first;
        job->again_input_count = job->input_count;
        job->again_output_first = job->output_first;
        job->again_output_count = job->output_count;
        return;
    }
    job->again_input_first = work_append(operands, it->again_inputs, job->again_input_count);
    job->again_output_first = work_append(operands, it->again_outputs, job->again_output_count);
}

static tn_status work_count(const tn__work_job *jobs, uint32_t job_count, uint32_t value_count,
                            uint64_t *operands, uint64_t *others, tn_error *error) {
    *operands = *others = 0;
    for (uint32_t j = 0; j < job_count; j++) {
        const tn__job *job = &jobs[j].job;
        TN_TRY(work_check_job(&jobs[j], j, job_count, value_count, error));
        *operands += (uint64_t)job->input_count + job->output_count;
        if (!work_again_is_own(&jobs[j]))
            *operands += (uint64_t)job->again_input_count + job->again_output_count;
        *others += (uint64_t)job->after_count + job->limit_count;
    }
    if (*operands < TN_NONE && *others < TN_NONE) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "more than 2^32 operands");
}

/* --- readers and makers --- */

static tn_status work_find_makers(tn__value *values, const tn__work *work, tn_error *error) {
    for (uint32_t v = 0; v < work->value_count; v++) values[v].maker = TN_NONE;
    for (uint32_t j = 0; j < work->job_count; j++) {
        uint32_t count;
        const uint32_t *outputs = tn__job_outputs(work, j, false, &count);
        for (uint32_t i = 0; i < count; i++) {
            if (values[outputs[i]].maker != TN_NONE)
                TN_FAIL(error, TN_E_INVALID, "value %u is made by job %u and by job %u", outputs[i],
                        values[outputs[i]].maker, j);
            values[outputs[i]].maker = j;
        }
    }
    return TN_OK;
}

static void work_list_reads(const tn__work *work, uint32_t job, bool again, tn__lists *lists) {
    uint32_t count;
    const uint32_t *inputs = tn__job_inputs(work, job, again, &count);
    for (uint32_t i = 0; i < count; i++) tn__lists_add(lists, inputs[i], job);
}

static void work_fill_reads(void *self, tn__lists *reads) {
    const tn__work *work = self;
    for (uint32_t j = 0; j < work->job_count; j++) work_list_reads(work, j, false, reads);
}

static void work_fill_readers(void *self, tn__lists *readers) {
    const tn__work *work = self;
    for (uint32_t j = 0; j < work->job_count; j++) {
        work_list_reads(work, j, false, readers);
        work_list_reads(work, j, true, readers);
    }
}

static bool work_names(const uint32_t *list, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

/* A repeat makes only values that the first run made; an in-place output has the size of its
 * input. */
static tn_status work_check_forms(const tn__work *work, tn_error *error) {
    for (uint32_t j = 0; j < work->job_count; j++) {
        const tn__job *job = &work->jobs[j];
        uint32_t inputs, outputs, made;
        const uint32_t *input = tn__job_inputs(work, j, false, &inputs);
        const uint32_t *output = tn__job_outputs(work, j, true, &outputs);
        const uint32_t *again = tn__job_inputs(work, j, true, &made);
        for (uint32_t i = 0; i < made; i++)
            if (work->values[again[i]].maker != TN_NONE && work->values[again[i]].maker > j)
                TN_FAIL(error, TN_E_INVALID, "job %u reads value %u again, which is made later", j,
                        again[i]);
        for (uint32_t i = 0; i < outputs; i++)
            if (work->values[output[i]].maker != j)
                TN_FAIL(error, TN_E_INVALID, "job %u makes value %u only again", j, output[i]);
        if (job->inplace == TN_NONE) continue;
        output = tn__job_outputs(work, j, false, &made);
        if (made == 0 || !work_names(input, inputs, job->inplace) ||
            work->values[output[0]].bytes != work->values[job->inplace].bytes)
            TN_FAIL(error, TN_E_INVALID, "job %u cannot take value %u in place", j, job->inplace);
    }
    return TN_OK;
}

/* Sums of live bytes must fit 63 bits. */
static tn_status work_check_bytes(const tn__work *work, tn_error *error) {
    uint64_t all = 0;
    for (uint32_t v = 0; v < work->value_count; v++)
        all = tn__add_sat(all, tn__mul_sat(work->values[v].bytes, 4));
    for (uint32_t j = 0; j < work->job_count; j++) all = tn__add_sat(all, work->jobs[j].scratch);
    if (all <= (uint64_t)INT64_MAX) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED, "the values together are larger than 2^61 bytes");
}

static tn_status work_check_order(const tn__work *work, tn_error *error) {
    for (uint32_t j = 0; j < work->job_count; j++) {
        uint32_t count;
        const uint32_t *inputs = tn__job_inputs(work, j, false, &count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t maker = work->values[inputs[i]].maker;
            if (maker != TN_NONE && maker >= j)
                TN_FAIL(error, TN_E_INVALID, "job %u reads value %u, which job %u makes later", j,
                        inputs[i], maker);
        }
    }
    return TN_OK;
}

tn_status tn__work_make(tn__arena *arena, const tn__work_job *jobs, uint32_t job_count,
                        const tn__value *values, uint32_t value_count, tn__work *work,
                        tn_error *error) {
    uint64_t operand_count, other_count;
    TN_TRY(work_count(jobs, job_count, value_count, &operand_count, &other_count, error));
    work_lists operands = {tn__arena_array(arena, operand_count + 1, sizeof(uint32_t)), 0};
    work_lists others = {tn__arena_array(arena, other_count + 1, sizeof(uint32_t)), 0};
    tn__job *laid = tn__arena_array(arena, (size_t)job_count + 1, sizeof *laid);
    tn__value *made = tn__arena_array(arena, (size_t)value_count + 1, sizeof *made);
    if (operands.at == NULL || others.at == NULL || laid == NULL || made == NULL)
        return tn__no_memory(error, "a program's jobs");
    if (value_count > 0) memcpy(made, values, value_count * sizeof *made);
    *work = (tn__work){.jobs = laid,
                       .values = made,
                       .operands = operands.at,
                       .others = others.at,
                       .job_count = job_count,
                       .value_count = value_count};
    for (uint32_t j = 0; j < job_count; j++) {
        work_lay_out(&jobs[j], &laid[j], &operands, &others);
        work->cost = tn__add_sat(work->cost, jobs[j].job.cost);
    }
    TN_TRY(work_check_bytes(work, error));
    TN_TRY(work_find_makers(made, work, error));
    TN_TRY(work_check_order(work, error));
    TN_TRY(work_check_forms(work, error));
    if (!tn__lists_make(&work->reads, value_count, arena, work_fill_reads, work) ||
        !tn__lists_make(&work->readers, value_count, arena, work_fill_readers, work))
        return tn__no_memory(error, "a program's values");
    return TN_OK;
}

/* --- schedules --- */

#define WORK_MOST_ACTS 0x7fffffffu

void tn__schedule_init(tn__schedule *schedule, const tn_context *context) {
    *schedule = (tn__schedule){.context = *context};
}

void tn__schedule_release(tn__schedule *schedule) {
    tn__free(&schedule->context, schedule->acts, schedule->room * sizeof *schedule->acts);
    schedule->acts = NULL;
    schedule->room = schedule->count = 0;
}

tn_status tn__schedule_add(tn__schedule *schedule, tn__act act, tn_error *error) {
    if (schedule->count == WORK_MOST_ACTS) TN_FAIL(error, TN_E_EXHAUSTED, "more than 2^31 acts");
    if (!tn__reserve(&schedule->context, &schedule->acts, &schedule->room,
                     (size_t)schedule->count + 1, sizeof act))
        return tn__no_memory(error, "a schedule");
    schedule->acts[schedule->count++] = act;
    return TN_OK;
}

tn_status tn__schedule_plain(const tn__work *work, tn__schedule *schedule, tn_error *error) {
    for (uint32_t j = 0; j < work->job_count; j++)
        TN_TRY(tn__schedule_add(schedule, (tn__act){.kind = TN__RUN, .what = j}, error));
    return TN_OK;
}

tn_status tn__work_plain_peak(const tn__work *work, const tn_context *context, uint64_t *peak,
                              tn_error *error) {
    tn__schedule schedule;
    tn__replay replay = {0};
    tn__schedule_init(&schedule, context);
    tn_status status = tn__schedule_plain(work, &schedule, error);
    if (status == TN_OK) status = tn__replay_schedule(work, &schedule, &replay, NULL, error);
    tn__schedule_release(&schedule);
    *peak = replay.peak;
    return status;
}

tn_status tn__schedule_copy(tn__schedule *to, const tn__schedule *from, tn_error *error) {
    if (!tn__reserve(&to->context, &to->acts, &to->room, (size_t)from->count + 1,
                     sizeof *from->acts))
        return tn__no_memory(error, "a schedule");
    if (from->count > 0) memcpy(to->acts, from->acts, from->count * sizeof *from->acts);
    to->count = from->count;
    return TN_OK;
}
