/* exact_model.c - a work as sets of bits, with data about every job's first run that is computed
 * once.
 *
 * The first run of a job is a neck: a value that is made before it and read after it is either
 * live, which needs bytes, or is recomputed later, which costs time. `before` and `behind` contain
 * the jobs whose order is certain: all jobs if the order is fixed, otherwise those that follow from
 * dependencies. Cost: O(jobs^2 * values / 64).
 */
#include "fit/budget/exact.h"

static void model_set(uint64_t *set, const uint32_t *list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) exact_add(set, list[i]);
}

static void model_job(exact_model *model, uint32_t job) {
    const tn__work *work = model->work;
    const tn__job *it = &work->jobs[job];
    exact_job *made = &model->jobs[job];
    uint32_t count;
    const uint32_t *list = tn__job_inputs(work, job, false, &count);
    model_set(made->in, list, count);
    list = tn__job_outputs(work, job, false, &count);
    model_set(made->out, list, count);
    list = tn__job_inputs(work, job, true, &count);
    model_set(made->again_in, list, count);
    list = tn__job_outputs(work, job, true, &count);
    model_set(made->again_out, list, count);
    model_set(made->after, work->others + it->after_first, it->after_count);
    model_set(made->limits, work->others + it->limit_first, it->limit_count);
    exact_remove(made->limits, job);
    made->repeats = (it->flags & TN__JOB_REPEATS) && (model->run_allow & TN__ALLOW_RECOMPUTE) &&
                    !exact_meet(made->again_out, model->held, model->value_words);
}

static void model_merge(uint64_t *to, const uint64_t *from, uint32_t words) {
    for (uint32_t w = 0; w < words; w++) to[w] |= from[w];
}

/* Jobs stand in a valid order, so the set `before` of every earlier job is complete when a job is
 * visited. A job also comes before the jobs that overwrite its inputs (`limits`). */
static void model_order(exact_model *model) {
    const tn__work *work = model->work;
    for (uint32_t j = 0; j < work->job_count; j++) {
        exact_job *it = &model->jobs[j];
        for (uint32_t i = 0; model->keeps_order && i < j; i++) exact_add(it->before, i);
        model_merge(it->before, it->after, model->job_words);
        EXACT_EACH(v, it->in, model->value_words)
        if (work->values[v].maker != TN_NONE) exact_add(it->before, work->values[v].maker);
        uint64_t own[EXACT_WORDS];
        memcpy(own, it->before, sizeof own);
        EXACT_EACH(i, own, model->job_words)
        model_merge(it->before, model->jobs[i].before, model->job_words);
        EXACT_EACH(k, it->limits, model->job_words) if (k > j) exact_add(model->jobs[k].before, j);
    }
    for (uint32_t j = 0; j < work->job_count; j++)
        EXACT_EACH(i, model->jobs[j].before, model->job_words) exact_add(model->jobs[i].behind, j);
}

/* --- necks --- */

/* Whether a first run that certainly comes after `neck` reads the value, or it must be live at the
 * end. */
static bool model_is_wanted_behind(const exact_model *model, uint32_t value, uint32_t neck) {
    const tn__work *work = model->work;
    if (exact_has(model->stay, value)) return true;
    for (uint32_t i = work->reads.first[value]; i < work->reads.first[value + 1]; i++)
        if (exact_has(model->jobs[neck].behind, work->reads.items[i])) return true;
    return false;
}

static bool model_repeats_behind(const exact_model *model, uint32_t job, uint32_t neck) {
    const exact_job *it = &model->jobs[job];
    return it->repeats && !exact_has(it->limits, neck) &&
           !exact_meet(it->limits, model->jobs[neck].before, model->job_words);
}

/* Bytes of the job itself: its inputs and outputs, and the values held by then. */
static uint64_t model_own_bytes(const exact_model *model, uint32_t neck, uint64_t *own) {
    const tn__job *it = &model->work->jobs[neck];
    const exact_job *job = &model->jobs[neck];
    for (uint32_t w = 0; w < model->value_words; w++)
        own[w] = job->in[w] | job->out[w] | (model->held[w] & model->given[w]);
    EXACT_EACH(v, model->held, model->value_words) {
        uint32_t maker = model->work->values[v].maker;
        if (maker != TN_NONE && exact_has(job->before, maker)) exact_add(own, v);
    }
    uint64_t bytes = exact_bytes(model, own) + it->scratch;
    bool takes = it->inplace != TN_NONE && it->output_count > 0 &&
                 !exact_has(model->held, it->inplace) && exact_has(job->in, it->inplace);
    return takes ? bytes - model->work->values[it->inplace].bytes : bytes;
}

static bool model_is_cheaper(const exact_item *a, const exact_item *b) {
    bool never_a = a->cost == EXACT_NEVER, never_b = b->cost == EXACT_NEVER;
    if (never_a || never_b) return !never_a && never_b;
    __extension__ typedef unsigned __int128 wide;
    return (wide)a->cost * b->bytes < (wide)b->cost * a->bytes;
}

static void model_add_item(exact_model *model, exact_neck *neck, exact_item item) {
    exact_item *items = model->items + neck->first;
    uint32_t at = neck->count++;
    for (; at > 0 && model_is_cheaper(&item, &items[at - 1]); at--) items[at] = items[at - 1];
    items[at] = item;
}

static void model_neck(exact_model *model, uint32_t neck) {
    const tn__work *work = model->work;
    uint64_t own[EXACT_WORDS];
    exact_neck *it = &model->necks[neck];
    it->bytes = model_own_bytes(model, neck, own);
    EXACT_EACH(v, model->given, model->value_words)
    if (!exact_has(own, v) && model_is_wanted_behind(model, v, neck))
        it->bytes += work->values[v].bytes;
    for (uint32_t j = 0; j < work->job_count; j++) {
        exact_item item = {.job = j, .cost = work->jobs[j].again_cost};
        if (j == neck || exact_has(model->jobs[neck].behind, j)) continue;
        uint64_t fixed = 0;
        EXACT_EACH(v, model->jobs[j].out, model->value_words) {
            if (exact_has(own, v) || !model_is_wanted_behind(model, v, neck)) continue;
            bool again = exact_has(model->jobs[j].again_out, v);
            *(again ? &item.bytes : &fixed) += work->values[v].bytes;
        }
        if (!model_repeats_behind(model, j, neck)) item.cost = EXACT_NEVER;
        if (fixed > 0)
            model_add_item(model, it, (exact_item){.job = j, .bytes = fixed, .cost = EXACT_NEVER});
        if (item.bytes > 0) model_add_item(model, it, item);
    }
}

static void model_rank(exact_model *model) {
    const tn__value *values = model->work->values;
    for (uint32_t v = 0; v < model->work->value_count; v++) {
        uint32_t at = v;
        for (; at > 0 && values[model->by_size[at - 1]].bytes < values[v].bytes; at--)
            model->by_size[at] = model->by_size[at - 1];
        model->by_size[at] = v;
    }
}

tn_status tn__exact_model(tn__pass_run *run, bool keeps_order, exact_model *model) {
    const tn__work *work = run->work;
    if (work->job_count > EXACT_MOST || work->value_count > EXACT_MOST) return TN_E_STOPPED;
    size_t jobs = (size_t)work->job_count + 1, items = 2 * jobs * jobs;
    *model = (exact_model){.work = work,
                           .keeps_order = keeps_order || work->is_ordered,
                           .run_allow = run->allow,
                           .value_words = work->value_count / 64 + 1,
                           .job_words = work->job_count / 64 + 1};
    if (model->value_words > EXACT_WORDS) model->value_words = EXACT_WORDS;
    if (model->job_words > EXACT_WORDS) model->job_words = EXACT_WORDS;
    model->jobs = tn__arena_array(run->arena, jobs, sizeof *model->jobs);
    model->necks = tn__arena_array(run->arena, jobs, sizeof *model->necks);
    model->items = tn__arena_array(run->arena, items, sizeof *model->items);
    model->by_size = tn__arena_array(run->arena, (size_t)work->value_count + 1, sizeof(uint32_t));
    if (model->by_size == NULL || model->jobs == NULL || model->necks == NULL ||
        model->items == NULL)
        return tn__no_memory(run->error, "the complete search");
    for (uint32_t v = 0; v < work->value_count; v++) {
        uint32_t flags = work->values[v].flags;
        if (flags & TN__VALUE_HELD) exact_add(model->held, v);
        if (flags & (TN__VALUE_HELD | TN__VALUE_KEPT)) exact_add(model->stay, v);
        if (work->values[v].maker == TN_NONE) exact_add(model->given, v);
    }
    for (uint32_t j = 0; j < work->job_count; j++) model_job(model, j);
    model_order(model);
    model_rank(model);
    for (uint32_t j = 0; j < work->job_count; j++) {
        model->necks[j].first = (uint32_t)(2 * jobs * j);
        model_neck(model, j);
    }
    return TN_OK;
}

uint64_t tn__exact_least_bytes(const exact_model *model) {
    uint64_t most = exact_bytes(model, model->stay);
    for (uint32_t j = 0; j < model->work->job_count; j++) {
        const exact_neck *neck = &model->necks[j];
        uint64_t bytes = neck->bytes;
        for (uint32_t i = 0; i < neck->count; i++) {
            const exact_item *item = &model->items[neck->first + i];
            bool is_made = exact_has(model->jobs[j].before, item->job);
            if (item->cost == EXACT_NEVER && is_made) bytes += item->bytes;
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

void tn__exact_useful(const exact_model *model, const uint64_t *ran, uint64_t *useful) {
    memcpy(useful, model->stay, sizeof model->stay);
    for (uint32_t j = model->work->job_count; j-- > 0;) {
        const exact_job *it = &model->jobs[j];
        bool has_run = exact_has(ran, j);
        if (has_run && (!exact_meet(it->again_out, useful, model->value_words) ||
                        !exact_may_repeat(model, ran, j)))
            continue;
        if (!has_run) model_merge(useful, it->in, model->value_words);
        model_merge(useful, it->again_in, model->value_words);
    }
}
