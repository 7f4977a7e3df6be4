/* chain.c - recognises chains. The loss may be the last forward job or the first backward one. It
 * is the first backward job if its reader also reads two other values. Cost: O(jobs + operands). */
#include "fit/budget/chain.h"

typedef struct chain_read {
    const tn__work *work;
    uint64_t *bytes, *scratch, *costs;
    tn__stage *stages;
    uint32_t count;
    tn_error *error;
} chain_read;

static tn_status chain_refuse(const chain_read *c, uint32_t job, const char *why) {
    TN_FAIL(c->error, TN_E_UNSUPPORTED, "no chain: job %u %s", job, why);
}

static bool chain_is_given(const tn__work *work, uint32_t value) {
    return work->values[value].maker == TN_NONE;
}

static bool chain_is_same(const tn__work *work, uint32_t a, uint32_t b, uint32_t count) {
    return memcmp(work->operands + a, work->operands + b, count * sizeof *work->operands) == 0;
}

/* Whether a repeat reads and makes the same values as the first run. */
static bool chain_repeats_alike(const tn__work *work, const tn__job *it) {
    return it->again_input_count == it->input_count && it->again_output_count == it->output_count &&
           chain_is_same(work, it->again_input_first, it->input_first, it->input_count) &&
           chain_is_same(work, it->again_output_first, it->output_first, it->output_count);
}

/* A job of a chain has one output, no ordering constraint, and no separate repeat form. */
static tn_status chain_check_job(const chain_read *c, uint32_t job) {
    const tn__work *work = c->work;
    const tn__job *it = &work->jobs[job];
    uint32_t flags =
        it->output_count == 1 ? work->values[work->operands[it->output_first]].flags : 0;
    bool is_last = job + 1 == work->job_count;
    if (it->output_count != 1) return chain_refuse(c, job, "has not one output");
    if (it->limit_count > 0 || it->after_count > 0 || it->inplace != TN_NONE)
        return chain_refuse(c, job, "asks for an order or a place");
    if (!chain_repeats_alike(work, it)) return chain_refuse(c, job, "runs again in another form");
    if (!is_last && (flags & (TN__VALUE_KEPT | TN__VALUE_HELD)))
        return chain_refuse(c, job, "makes what stays");
    return TN_OK;
}

/* The number of leading jobs that read only the previous output (and initial values) and may be
 * repeated. */
static uint32_t chain_forward(const tn__work *work) {
    uint32_t count = 0;
    for (; count < work->job_count; count++) {
        uint32_t inputs, made = 0;
        const uint32_t *input = tn__job_inputs(work, count, false, &inputs);
        bool reads = count == 0;
        for (uint32_t i = 0; i < inputs; i++) {
            if (chain_is_given(work, input[i])) continue;
            made++;
            reads = count > 0 && work->values[input[i]].maker == count - 1;
        }
        if (!reads || made > 1 || !(work->jobs[count].flags & TN__JOB_REPEATS)) break;
    }
    return count;
}

/* The stage of a backward job; `stage` was the stage of the previous one. */
static tn_status chain_find_stage(const chain_read *c, uint32_t job, int64_t *stage, bool *next) {
    const tn__work *work = c->work;
    uint32_t inputs, low = TN_NONE, high = 0;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    bool handed = job == c->count;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t maker = work->values[input[i]].maker;
        if (maker == TN_NONE) continue;
        if (maker >= c->count && maker != job - 1)
            return chain_refuse(c, job, "reads further back");
        handed = handed || maker >= c->count;
        if (maker >= c->count) continue;
        low = maker < low ? maker : low;
        high = maker > high ? maker : high;
    }
    if (!handed) return chain_refuse(c, job, "does not read the one before");
    *next = low != TN_NONE && high == low + 1;
    if (low == TN_NONE) return TN_OK;
    if (high > low + 1 || (int64_t)low > *stage) return chain_refuse(c, job, "reads others");
    *stage = low;
    return TN_OK;
}

static tn_status chain_read_back(chain_read *c) {
    const tn__work *work = c->work;
    int64_t stage = (int64_t)c->count - 1;
    uint64_t handed = 0;
    memset(c->stages, 0, ((size_t)c->count + 1) * sizeof *c->stages);
    for (uint32_t j = c->count; j < work->job_count; j++) {
        int64_t before = stage;
        bool next = false;
        TN_TRY(chain_find_stage(c, j, &stage, &next));
        tn__stage *it = &c->stages[stage + 1];
        for (int64_t q = before - 1; q >= stage; q--)
            c->stages[q + 1] = (tn__stage){.bytes_in = handed, .bytes_out = handed};
        const tn__job *job = &work->jobs[j];
        uint64_t made = work->values[work->operands[job->output_first]].bytes;
        if (it->job_count++ == 0) it->job_first = j;
        it->cost = tn__add_sat(it->cost, job->cost);
        if (handed + made + job->scratch > it->bytes) it->bytes = handed + made + job->scratch;
        it->reads_next = it->reads_next || next;
        it->bytes_out = handed = made;
    }
    for (int64_t q = stage - 1; q >= -1; q--)
        c->stages[q + 1] = (tn__stage){.bytes_in = handed, .bytes_out = handed};
    return TN_OK;
}

static tn_status chain_read_all(chain_read *c, tn__chain *chain) {
    const tn__work *work = c->work;
    for (uint32_t j = 0; j < work->job_count; j++) TN_TRY(chain_check_job(c, j));
    c->count = chain_forward(work);
    if (c->count < 2) return chain_refuse(c, c->count, "reads others");
    if (c->count == work->job_count)
        return chain_refuse(c, c->count - 1, "is the end: nothing goes back");
    tn_error *error = c->error, said = {0};
    c->error = &said;
    tn_status status = chain_read_back(c);
    c->error = error;
    if (status == TN_E_UNSUPPORTED && c->count > 2) { /* the loss is the first backward job */
        c->count--;
        TN_TRY(chain_read_back(c));
    } else if (status != TN_OK) {
        return tn__fail_as(error, status, &said);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        c->bytes[i] = work->values[work->operands[work->jobs[i].output_first]].bytes;
        c->scratch[i] = work->jobs[i].scratch;
        c->costs[i] = work->jobs[i].again_cost;
    }
    *chain = (tn__chain){c->count, c->bytes, c->scratch, c->costs, c->stages, 0};
    for (uint32_t v = 0; v < work->value_count; v++)
        if (chain_is_given(work, v)) chain->base += work->values[v].bytes;
    return TN_OK;
}

tn_status tn__chain_of(const tn__work *work, tn__arena *arena, tn__chain *chain, tn_error *error) {
    size_t room = (size_t)work->job_count + 2;
    chain_read c = {.work = work, .error = error};
    c.bytes = tn__arena_array(arena, room, sizeof *c.bytes);
    c.scratch = tn__arena_array(arena, room, sizeof *c.scratch);
    c.costs = tn__arena_array(arena, room, sizeof *c.costs);
    c.stages = tn__arena_array(arena, room, sizeof *c.stages);
    if (c.bytes == NULL || c.scratch == NULL || c.costs == NULL || c.stages == NULL)
        return tn__no_memory(error, "a chain");
    return chain_read_all(&c, chain);
}

tn_status tn__chain_run(tn__schedule *schedule, uint32_t first, uint32_t count, tn_error *error) {
    for (uint32_t j = first; j < first + count; j++)
        TN_TRY(tn__schedule_add(schedule, (tn__act){.kind = TN__RUN, .what = j}, error));
    return TN_OK;
}
