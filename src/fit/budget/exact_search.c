/* exact_search.c - A* over states (the live values and the jobs that have run).
 *
 * In a state, any job with live inputs may run: a first run (only the next one if the order is
 * fixed), or a repeat that makes a useful value which is not live. If the job does not fit, values
 * are evicted one by one, largest first. Each eviction is a state of its own (half a step), so that
 * the lower bound can prune before all subsets are built. Evictions end as soon as the job fits.
 * The last evicted value is the smallest one, so none of the evicted values could have stayed. For
 * an in-place output, the search tries both: the input ends with the job, or stays.
 *
 * The bound never overestimates, so the first complete state taken from the queue is the cheapest;
 * if the queue becomes empty, no schedule exists. A value that is kept only for repeats is often
 * not worth its bytes, but this is known only below a cost ceiling. The search therefore starts
 * with a low ceiling and raises it as long as no schedule is below it. Cost: exponential in the
 * number of values that are live at once.
 */
#include "fit/budget/exact.h"

typedef struct exact_step { /* a job that is about to run */
    exact_search *search;
    uint32_t state, job;
    bool again;
    uint32_t taken; /* in-place: the value that gives its memory to the output; TN_NONE */
    uint32_t next;  /* values of this rank and above may be evicted */
    uint64_t cost;  /* including this job */
    const uint64_t *ran;
    uint64_t there[EXACT_WORDS];
    uint64_t ran_after[EXACT_WORDS], useful[EXACT_WORDS]; /* after the job */
} exact_step;

static uint32_t exact_progress(const exact_model *model, const uint64_t *ran) {
    uint32_t count = 0;
    for (uint32_t w = 0; w < model->job_words; w++) count += (uint32_t)__builtin_popcountll(ran[w]);
    return 2 * count;
}

/* The bound is computed for `ran` and `there`; for half a step, for the state after the job. */
static tn_status exact_reach(const exact_step *step, const uint64_t *key, const uint64_t *ran,
                             const uint64_t *there, uint32_t by) {
    exact_search *s = step->search;
    const exact_model *model = s->model;
    exact_states *states = &s->states;
    bool is_new = false;
    uint32_t id = tn__exact_state(states, key, &is_new);
    if (id == TN_NONE) return TN_E_STOPPED;
    if (is_new)
        states->bounds[id] = tn__exact_bound(model, ran, there, s->budget);
    else if (states->costs[id] <= step->cost)
        return TN_OK;
    states->costs[id] = step->cost;
    states->parents[id] = step->state;
    states->by[id] = by;
    uint64_t total = tn__add_sat(step->cost, states->bounds[id]);
    if (states->bounds[id] >= EXACT_NEVER) return TN_OK;
    if (total >= s->ceiling && total < s->above) s->above = total;
    if (total >= s->ceiling) return TN_OK;
    bool is_half = key[states->stride - 1] != 0;
    exact_queued queued = {total, exact_progress(model, key) + is_half, id, step->cost};
    if (!tn__exact_push(states, queued)) return TN_E_STOPPED;
    return TN_OK;
}

/* The values that are live after the job if no more values are evicted. */
static void exact_behind(const exact_step *step, const uint64_t *out, uint64_t *behind) {
    const exact_model *model = step->search->model;
    for (uint32_t w = 0; w < model->value_words; w++) behind[w] = step->there[w] | out[w];
    if (step->taken != TN_NONE) exact_remove(behind, step->taken);
    for (uint32_t w = 0; w < model->value_words; w++) behind[w] &= step->useful[w] | model->held[w];
    exact_search *s = step->search;
    uint64_t wanted[EXACT_WORDS];
    tn__exact_wanted(model, step->ran_after, behind, step->cost, s->ceiling, wanted, &s->above);
    for (uint32_t w = 0; w < model->value_words; w++) behind[w] &= wanted[w] | model->held[w];
}

/* Adds the state after the job; or half a step, in which more values are evicted. */
static tn_status exact_go(const exact_step *step, const uint64_t *out, bool is_half) {
    const exact_model *model = step->search->model;
    uint64_t key[EXACT_STRIDE], behind[EXACT_WORDS];
    exact_behind(step, out, behind);
    const uint64_t *ran = is_half ? step->ran : step->ran_after;
    const uint64_t *there = is_half ? step->there : behind;
    memcpy(key, ran, model->job_words * sizeof *key);
    memcpy(key + model->job_words, there, model->value_words * sizeof *key);
    uint64_t half =
        (uint64_t)(step->job + 1) << 32 | (uint64_t)step->next << 1 | (step->taken != TN_NONE);
    key[model->job_words + model->value_words] = is_half ? half : 0;
    return exact_reach(step, key, step->ran_after, behind, is_half ? TN_NONE : step->job);
}

/* Bytes that are live while the job runs. */
static uint64_t exact_live(const exact_step *step, const uint64_t *in, const uint64_t *out) {
    const exact_model *model = step->search->model;
    const tn__job *it = &model->work->jobs[step->job];
    uint64_t beside[EXACT_WORDS];
    bool first = exact_progress(model, step->ran) == 0; /* initial values are live during the
                                                          * first act */
    for (uint32_t w = 0; w < model->value_words; w++) {
        uint64_t there = first ? model->given[w] | step->there[w] : step->there[w];
        beside[w] = there & ~(out[w] & ~in[w]); /* a value that is read and made again exists
                                                 * twice */
    }
    uint64_t bytes = exact_bytes(model, beside) + exact_bytes(model, out) + it->scratch;
    return step->taken == TN_NONE ? bytes : bytes - model->work->values[step->taken].bytes;
}

/* Runs the job if it fits. Otherwise tries to evict each value that may be evicted, in a state
 * where the values before it in rank stay. */
static tn_status exact_run(exact_step *step) {
    const exact_model *model = step->search->model;
    const exact_job *job = &model->jobs[step->job];
    const uint64_t *in = step->again ? job->again_in : job->in;
    const uint64_t *out = step->again ? job->again_out : job->out;
    uint64_t bytes = exact_live(step, in, out), budget = step->search->budget;
    if (bytes <= budget) return exact_go(step, out, false);
    if (exact_progress(model, step->ran) == 0) return TN_OK;
    uint64_t excess = bytes - budget, rest = 0;
    uint32_t count = model->work->value_count, first = step->next;
    for (uint32_t rank = count; rank-- > first;) {
        uint32_t v = model->by_size[rank];
        if (!exact_has(step->there, v) || exact_has(in, v) || exact_has(out, v) ||
            exact_has(model->held, v))
            continue;
        uint64_t gone = model->work->values[v].bytes;
        rest += gone; /* of this value and all smaller ones */
        if (rest < excess) continue;
        exact_remove(step->there, v);
        step->next = rank + 1;
        tn_status status = exact_go(step, out, gone < excess);
        exact_add(step->there, v);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* For an in-place output, tries a state in which the input's memory is taken, and one in which it
 * stays if it may be read again. */
static tn_status exact_begin(exact_step *step) {
    const exact_model *model = step->search->model;
    const tn__job *it = &model->work->jobs[step->job];
    const exact_job *job = &model->jobs[step->job];
    const uint64_t *in = step->again ? job->again_in : job->in;
    const uint64_t *out = step->again ? job->again_out : job->out;
    uint32_t count = step->again ? it->again_output_count : it->output_count;
    bool takes = it->inplace != TN_NONE && count > 0 && exact_has(in, it->inplace) &&
                 !exact_has(model->held, it->inplace) && !exact_has(out, it->inplace);
    step->next = 0;
    step->taken = takes ? it->inplace : TN_NONE;
    if (takes) TN_TRY(exact_run(step));
    if (takes && !exact_has(step->useful, it->inplace)) return TN_OK;
    step->next = 0;
    step->taken = TN_NONE;
    return exact_run(step);
}

/* Whether the job may run now: a first run, or a repeat that makes a useful value which is not
 * live. */
static bool exact_may_run(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                          const uint64_t *useful, uint32_t job, bool *again) {
    const exact_job *it = &model->jobs[job];
    *again = exact_has(ran, job);
    if (!*again)
        return exact_inside(it->before, ran, model->job_words) &&
               exact_inside(it->in, there, model->value_words) &&
               !exact_meet(it->limits, ran, model->job_words);
    if (!exact_may_repeat(model, ran, job)) return false;
    uint64_t gains = 0;
    for (uint32_t w = 0; w < model->value_words; w++)
        gains |= it->again_out[w] & useful[w] & ~there[w];
    return gains != 0 && exact_inside(it->again_in, there, model->value_words);
}

static void exact_step_to(exact_step *step, const uint64_t *useful, uint32_t job, bool again) {
    const exact_model *model = step->search->model;
    step->job = job;
    step->again = again;
    memcpy(step->ran_after, step->ran, model->job_words * sizeof *step->ran);
    memcpy(step->useful, useful, sizeof step->useful);
    if (again) return;
    exact_add(step->ran_after, job);
    tn__exact_useful(model, step->ran_after, step->useful);
}

static tn_status exact_expand(exact_search *s, uint32_t state) {
    const exact_model *model = s->model;
    uint64_t key[EXACT_STRIDE], useful[EXACT_WORDS], cost = s->states.costs[state];
    memcpy(key, s->states.keys + (size_t)state * s->states.stride, s->states.stride * sizeof *key);
    exact_step step = {.search = s, .state = state, .ran = key};
    memcpy(step.there, key + model->job_words, model->value_words * sizeof *key);
    uint64_t half = key[s->states.stride - 1];
    if (half != 0) {
        tn__exact_useful(model, key, useful);
        uint32_t job = (uint32_t)(half >> 32) - 1;
        exact_step_to(&step, useful, job, exact_has(key, job));
        step.cost = cost;
        step.next = (uint32_t)half >> 1;
        step.taken = half & 1 ? model->work->jobs[job].inplace : TN_NONE;
        return exact_run(&step);
    }
    tn__exact_wanted(model, key, step.there, cost, s->ceiling, useful, &s->above);
    for (uint32_t j = 0; j < model->work->job_count; j++) {
        bool again;
        if (!exact_may_run(model, step.ran, step.there, useful, j, &again)) continue;
        exact_step_to(&step, useful, j, again);
        step.cost = cost;
        if (again) step.cost = tn__add_sat(cost, model->work->jobs[j].again_cost);
        TN_TRY(exact_begin(&step));
    }
    return TN_OK;
}

/* Writes the jobs on the path to a state, from the start. */
static tn_status exact_tell(exact_search *s, uint32_t state, tn__schedule *schedule) {
    uint32_t first = schedule->count;
    for (; s->states.parents[state] != TN_NONE; state = s->states.parents[state]) {
        tn__act act = {.kind = TN__RUN, .what = s->states.by[state]};
        if (act.what == TN_NONE) continue;
        TN_TRY(tn__schedule_add(schedule, act, s->run->error));
    }
    for (uint32_t a = first, b = schedule->count; a + 1 < b; a++) {
        tn__act moved = schedule->acts[a];
        schedule->acts[a] = schedule->acts[--b];
        schedule->acts[b] = moved;
    }
    return TN_OK;
}

static tn_status exact_walk(exact_search *s, tn__schedule *schedule) {
    const exact_model *model = s->model;
    uint32_t jobs = model->work->job_count;
    while (s->states.queued > 0) {
        exact_queued top = tn__exact_pop(&s->states);
        if (top.from_start != s->states.costs[top.state]) continue;
        if (top.cost > s->floor) s->floor = top.cost;
        const uint64_t *there =
            s->states.keys + (size_t)top.state * s->states.stride + model->job_words;
        if (top.progress == 2 * jobs && exact_inside(model->stay, there, model->value_words))
            return exact_tell(s, top.state, schedule);
        TN_TRY(tn__pass_work(s->run, jobs));
        TN_TRY(exact_expand(s, top.state));
    }
    return TN_E_INFEASIBLE;
}

/* Searches for the cheapest schedule below the ceiling. */
static tn_status exact_below(exact_search *s, const uint64_t *start, tn__schedule *schedule) {
    const exact_model *model = s->model;
    uint32_t stride = model->job_words + model->value_words + 1;
    exact_step step = {.search = s, .state = TN_NONE};
    s->above = UINT64_MAX;
    tn__exact_states_init(&s->states, &s->run->context, stride);
    tn_status status = exact_reach(&step, start, start, start + model->job_words, TN_NONE);
    if (status == TN_OK) status = exact_walk(s, schedule);
    tn__exact_states_release(&s->states);
    return status;
}

tn_status tn__exact_search(exact_search *s, tn__schedule *schedule) {
    const exact_model *model = s->model;
    uint64_t start[EXACT_STRIDE] = {0}, useful[EXACT_WORDS], none[EXACT_WORDS] = {0}, again = 0;
    tn__exact_useful(model, none, useful);
    for (uint32_t w = 0; w < model->value_words; w++)
        start[model->job_words + w] = model->given[w] & (useful[w] | model->held[w]);
    for (uint32_t j = 0; j < model->work->job_count; j++)
        again = tn__add_sat(again, model->work->jobs[j].again_cost);
    uint64_t ceiling = s->ceiling;
    uint64_t least = tn__exact_bound(model, start, start + model->job_words, s->budget);
    tn_status status;
    s->ceiling = tn__add_sat(least, 1);
    for (;;) {
        if (s->ceiling > ceiling || s->ceiling - least > again) s->ceiling = ceiling;
        status = exact_below(s, start, schedule);
        if (status != TN_E_INFEASIBLE || s->ceiling == ceiling || s->above == UINT64_MAX) break;
        s->floor = s->above; /* no schedule is below it */
        s->ceiling = tn__add_sat(s->above, s->above - least + 1);
    }
    s->ceiling = ceiling;
    if (status == TN_E_INFEASIBLE && ceiling == EXACT_NEVER && s->above != UINT64_MAX)
        return TN_E_STOPPED;
    return status;
}
