/* exact_search.c - an A* search for the cheapest schedule with repeats. A state is the set of live
 * values and the set of jobs that have run.
 *
 * In a state, a job with live inputs may run: either its first run (if the order is fixed, only
 * that of the next job), or a repeat that makes a useful value which is not live. If the job does
 * not fit into the budget, values are evicted one by one, largest first, until it fits. After each
 * eviction there is an intermediate state ("half a step"), so that the lower bound can prune before
 * all subsets of values are built. Since the last evicted value is the smallest, none of the
 * evicted values could have stayed. For an output that may overwrite an input, the search tries
 * both: to overwrite the input, and to keep it.
 *
 * The lower bound never overestimates, so the first complete state that is taken from the queue is
 * the cheapest; if the queue becomes empty, no schedule exists. A value that is kept only for
 * repeats is often not worth its bytes, but this can only be decided below a ceiling on the cost.
 * The search therefore starts with a low ceiling, and raises it as long as no schedule costs less.
 * Cost: exponential in the number of values that are live at one time.
 */
#include "fit/budget/algorithms/exact_search.h"

static inline bool exact_has(const uint64_t *set, uint32_t i) {
    return set[i / 64] >> (i % 64) & 1;
}
static inline void exact_add(uint64_t *set, uint32_t i) { set[i / 64] |= (uint64_t)1 << (i % 64); }
static inline void exact_remove(uint64_t *set, uint32_t i) {
    set[i / 64] &= ~((uint64_t)1 << (i % 64));
}
static inline bool exact_inside(const uint64_t *a, const uint64_t *b, uint32_t words) {
    for (uint32_t w = 0; w < words; w++)
        if (a[w] & ~b[w]) return false;
    return true;
}
static inline bool exact_meet(const uint64_t *a, const uint64_t *b, uint32_t words) {
    for (uint32_t w = 0; w < words; w++)
        if (a[w] & b[w]) return true;
    return false;
}

/* a loop over the elements i of a set of bits */
#define EXACT_EACH(i, set, words)                                                                  \
    for (uint32_t i##_w = 0, i; i##_w < (words); i##_w++)                                          \
        for (uint64_t i##_left = (set)[i##_w];                                                     \
             i##_left != 0 && (i = i##_w * 64 + (uint32_t)__builtin_ctzll(i##_left), true);        \
             i##_left &= i##_left - 1)

/* largest number of 64-bit words in the key of a state */
enum { EXACT_STRIDE = 2 * EXACT_WORDS + 1 };

static inline uint64_t exact_bytes(const exact_model *model, const uint64_t *values) {
    uint64_t sum = 0;
    EXACT_EACH(v, values, model->value_words) sum += model->dag->values[v].bytes;
    return sum;
}

static inline bool exact_may_repeat(const exact_model *model, const uint64_t *ran, uint32_t job) {
    const exact_job *it = &model->jobs[job];
    return it->repeats && !exact_meet(it->limits, ran, model->job_words);
}

/* --- schedule graph as sets of bits ----------------------------------------------------------- */

/* A schedule graph as sets of bits, with data about every job's first run that is computed once.
 *
 * The first run of a job is a bottleneck for memory, called a neck: a value that is made before it
 * and read after it is either live during it, which needs bytes, or is recomputed later, which
 * costs time. The sets `before` and `behind` of a job have the jobs with a first run that certainly
 * comes earlier or later: all other jobs if the order is fixed, otherwise those that follow from
 * dependencies. Cost: O(jobs^2 * values / 64).
 */

static void model_set(uint64_t *set, const uint32_t *list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) exact_add(set, list[i]);
}

static void model_job(exact_model *model, uint32_t job) {
    const tn__dag *dag = model->dag;
    const tn__job *it = &dag->jobs[job];
    exact_job *made = &model->jobs[job];
    uint32_t count;
    const uint32_t *list = tn__job_inputs(dag, job, false, &count);
    model_set(made->in, list, count);
    list = tn__job_outputs(dag, job, false, &count);
    model_set(made->out, list, count);
    list = tn__job_inputs(dag, job, true, &count);
    model_set(made->recompute_in, list, count);
    list = tn__job_outputs(dag, job, true, &count);
    model_set(made->recompute_out, list, count);
    model_set(made->after, dag->others + it->after_first, it->after_count);
    model_set(made->limits, dag->others + it->limit_first, it->limit_count);
    exact_remove(made->limits, job);
    made->repeats = (it->flags & TN__JOB_REPEATS) && (model->run_allow & TN__ALLOW_RECOMPUTE) &&
                    !exact_meet(made->recompute_out, model->held, model->value_words);
}

static void model_merge(uint64_t *to, const uint64_t *from, uint32_t words) {
    for (uint32_t w = 0; w < words; w++) to[w] |= from[w];
}

/* Computes for each job the sets `before` and `behind` of jobs whose first run certainly comes
 * earlier or later. Jobs are listed in a valid order, so the set `before` of every earlier job is
 * complete when a job is visited. A job also comes before the jobs that overwrite its inputs
 * (`limits`). */
static void model_order(exact_model *model) {
    const tn__dag *dag = model->dag;
    for (uint32_t j = 0; j < dag->job_count; j++) {
        exact_job *it = &model->jobs[j];
        for (uint32_t i = 0; model->keeps_order && i < j; i++) exact_add(it->before, i);
        model_merge(it->before, it->after, model->job_words);
        EXACT_EACH(v, it->in, model->value_words)
        if (dag->values[v].maker != TN_NONE) exact_add(it->before, dag->values[v].maker);
        uint64_t own[EXACT_WORDS];
        memcpy(own, it->before, sizeof own);
        EXACT_EACH(i, own, model->job_words)
        model_merge(it->before, model->jobs[i].before, model->job_words);
        EXACT_EACH(k, it->limits, model->job_words) if (k > j) exact_add(model->jobs[k].before, j);
    }
    for (uint32_t j = 0; j < dag->job_count; j++)
        EXACT_EACH(i, model->jobs[j].before, model->job_words) exact_add(model->jobs[i].behind, j);
}

/* --- necks --- */

/* Whether the value is live at the end, or is read by a first run that certainly comes after the
 * first run of job `neck`. */
static bool model_is_wanted_behind(const exact_model *model, uint32_t value, uint32_t neck) {
    const tn__dag *dag = model->dag;
    if (exact_has(model->stay, value)) return true;
    for (uint32_t i = dag->reads.first[value]; i < dag->reads.first[value + 1]; i++)
        if (exact_has(model->jobs[neck].behind, dag->reads.items[i])) return true;
    return false;
}

static bool model_repeats_behind(const exact_model *model, uint32_t job, uint32_t neck) {
    const exact_job *it = &model->jobs[job];
    return it->repeats && !exact_has(it->limits, neck) &&
           !exact_meet(it->limits, model->jobs[neck].before, model->job_words);
}

/* Returns the bytes that are live during the first run of the job `neck` in any case: its inputs,
 * outputs and scratch memory, and the held values that exist by then. An input that is overwritten
 * in place counts once. `own` becomes the set of these values. */
static uint64_t model_own_bytes(const exact_model *model, uint32_t neck, uint64_t *own) {
    const tn__job *it = &model->dag->jobs[neck];
    const exact_job *job = &model->jobs[neck];
    for (uint32_t w = 0; w < model->value_words; w++)
        own[w] = job->in[w] | job->out[w] | (model->held[w] & model->given[w]);
    EXACT_EACH(v, model->held, model->value_words) {
        uint32_t maker = model->dag->values[v].maker;
        if (maker != TN_NONE && exact_has(job->before, maker)) exact_add(own, v);
    }
    uint64_t bytes = exact_bytes(model, own) + it->scratch;
    bool takes = it->inplace != TN_NONE && it->output_count > 0 &&
                 !exact_has(model->held, it->inplace) && exact_has(job->in, it->inplace);
    return takes ? bytes - model->dag->values[it->inplace].bytes : bytes;
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
    const tn__dag *dag = model->dag;
    uint64_t own[EXACT_WORDS];
    exact_neck *it = &model->necks[neck];
    it->bytes = model_own_bytes(model, neck, own);
    EXACT_EACH(v, model->given, model->value_words)
    if (!exact_has(own, v) && model_is_wanted_behind(model, v, neck))
        it->bytes += dag->values[v].bytes;
    for (uint32_t j = 0; j < dag->job_count; j++) {
        exact_item item = {.job = j, .cost = dag->jobs[j].recompute_cost};
        if (j == neck || exact_has(model->jobs[neck].behind, j)) continue;
        uint64_t fixed = 0;
        EXACT_EACH(v, model->jobs[j].out, model->value_words) {
            if (exact_has(own, v) || !model_is_wanted_behind(model, v, neck)) continue;
            bool recompute = exact_has(model->jobs[j].recompute_out, v);
            *(recompute ? &item.bytes : &fixed) += dag->values[v].bytes;
        }
        if (!model_repeats_behind(model, j, neck)) item.cost = EXACT_NEVER;
        if (fixed > 0)
            model_add_item(model, it, (exact_item){.job = j, .bytes = fixed, .cost = EXACT_NEVER});
        if (item.bytes > 0) model_add_item(model, it, item);
    }
}

static void model_rank(exact_model *model) {
    const tn__dag_value *values = model->dag->values;
    for (uint32_t v = 0; v < model->dag->value_count; v++) {
        uint32_t at = v;
        for (; at > 0 && values[model->by_size[at - 1]].bytes < values[v].bytes; at--)
            model->by_size[at] = model->by_size[at - 1];
        model->by_size[at] = v;
    }
}

tn_status tn__exact_model(tn__pass_run *run, bool keeps_order, exact_model *model) {
    const tn__dag *dag = run->dag;
    if (dag->job_count > EXACT_MOST || dag->value_count > EXACT_MOST) return TN_E_STOPPED;
    size_t jobs = (size_t)dag->job_count + 1, items = 2 * jobs * jobs;
    *model = (exact_model){.dag = dag,
                           .keeps_order = keeps_order || dag->is_ordered,
                           .run_allow = run->allow,
                           .value_words = dag->value_count / 64 + 1,
                           .job_words = dag->job_count / 64 + 1};
    if (model->value_words > EXACT_WORDS) model->value_words = EXACT_WORDS;
    if (model->job_words > EXACT_WORDS) model->job_words = EXACT_WORDS;
    model->jobs = tn__arena_array(run->arena, jobs, sizeof *model->jobs);
    model->necks = tn__arena_array(run->arena, jobs, sizeof *model->necks);
    model->items = tn__arena_array(run->arena, items, sizeof *model->items);
    model->by_size = tn__arena_array(run->arena, (size_t)dag->value_count + 1, sizeof(uint32_t));
    if (model->by_size == NULL || model->jobs == NULL || model->necks == NULL ||
        model->items == NULL)
        return tn__no_memory(run->error, "the complete search");
    for (uint32_t v = 0; v < dag->value_count; v++) {
        uint32_t flags = dag->values[v].flags;
        if (flags & TN__VALUE_HELD) exact_add(model->held, v);
        if (flags & (TN__VALUE_HELD | TN__VALUE_KEPT)) exact_add(model->stay, v);
        if (dag->values[v].maker == TN_NONE) exact_add(model->given, v);
    }
    for (uint32_t j = 0; j < dag->job_count; j++) model_job(model, j);
    model_order(model);
    model_rank(model);
    for (uint32_t j = 0; j < dag->job_count; j++) {
        model->necks[j].first = (uint32_t)(2 * jobs * j);
        model_neck(model, j);
    }
    return TN_OK;
}

uint64_t tn__exact_least_bytes(const exact_model *model) {
    uint64_t most = exact_bytes(model, model->stay);
    for (uint32_t j = 0; j < model->dag->job_count; j++) {
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

/* Finds the useful values of a state: those that a future run may read, or that must be live at the
 * end. */
static void exact_useful(const exact_model *model, const uint64_t *ran, uint64_t *useful) {
    memcpy(useful, model->stay, sizeof model->stay);
    for (uint32_t j = model->dag->job_count; j-- > 0;) {
        const exact_job *it = &model->jobs[j];
        bool has_run = exact_has(ran, j);
        if (has_run && (!exact_meet(it->recompute_out, useful, model->value_words) ||
                        !exact_may_repeat(model, ran, j)))
            continue;
        if (!has_run) model_merge(useful, it->in, model->value_words);
        model_merge(useful, it->recompute_in, model->value_words);
    }
}

/* --- lower bound on the remaining cost -------------------------------------------------------- */

/* A lower bound on the cost of all repeats from a state to the end, as the sum of two parts.
 *
 * 1. A value that is needed and not live must be recomputed, together with all missing values that
 *    this needs. The jobs that make them run at least once more.
 * 2. During the first run of a job, the values that were made before and are read later may not all
 *    fit. Those with the least cost per byte are evicted, and recomputed later at the cost of the
 *    jobs that make them; of the last one, only the necessary fraction counts (relaxed knapsack).
 *    Jobs counted in part 1 are not counted here, and their values need no bytes. The largest
 *    result over all jobs is taken.
 *
 * The parts count different jobs, so their sum is a lower bound. All outputs of a job are evicted
 * together for the cost of one repeat, which never overestimates the cost. Cost: at most O(jobs^2)
 * for each state.
 */

/* Finds the needed values of a state: those that jobs without a first run so far read, and those
 * that must be live at the end. */
static void bound_needed(const exact_model *model, const uint64_t *ran, uint64_t *needed) {
    memcpy(needed, model->stay, sizeof model->stay);
    for (uint32_t j = 0; j < model->dag->job_count; j++)
        for (uint32_t w = 0; !exact_has(ran, j) && w < model->value_words; w++)
            needed[w] |= model->jobs[j].in[w];
}

/* Finds the jobs that must be repeated to make the needed values that are not live, as the set
 * `recompute`. Returns the cost of these repeats, or EXACT_NEVER if a value cannot be made. */
static uint64_t bound_missing(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                              uint64_t *recompute) {
    const tn__dag *dag = model->dag;
    uint64_t needed[EXACT_WORDS], cost = 0;
    bound_needed(model, ran, needed);
    for (uint32_t w = 0; w < model->job_words; w++) recompute[w] = 0;
    /* jobs are visited in descending order: makers come before readers, so all jobs that need a
     * job's outputs have been visited before the job */
    for (uint32_t j = dag->job_count; j-- > 0;) {
        const exact_job *it = &model->jobs[j];
        uint64_t missing = 0, unmade = 0;
        if (!exact_has(ran, j)) continue;
        for (uint32_t w = 0; w < model->value_words; w++) {
            missing |= it->out[w] & needed[w] & ~there[w];
            unmade |= it->out[w] & needed[w] & ~there[w] & ~it->recompute_out[w];
        }
        if (missing == 0) continue;
        if (unmade != 0 || !exact_may_repeat(model, ran, j)) return EXACT_NEVER;
        exact_add(recompute, j);
        cost += dag->jobs[j].recompute_cost;
        for (uint32_t w = 0; w < model->value_words; w++) {
            /* the repeat reads a missing value that only this job itself makes, so the value cannot
             * be made again */
            if (it->recompute_in[w] & it->out[w] & ~there[w]) return EXACT_NEVER;
            needed[w] |= it->recompute_in[w];
        }
    }
    for (uint32_t w = 0; w < model->value_words; w++)
        if (needed[w] & model->given[w] & ~there[w]) return EXACT_NEVER;
    return cost;
}

/* Returns the least cost of evicting groups of values with at least `excess` bytes during the first
 * run of a job. The job's groups are sorted by cost per byte, and a fraction of the last group
 * counts as a fraction of its cost. */
static uint64_t bound_evict(const exact_model *model, const exact_neck *neck, const uint64_t *gone,
                            const uint64_t *here, uint64_t excess) {
    uint64_t cost = 0;
    for (uint32_t i = 0; i < neck->count; i++) {
        const exact_item *item = &model->items[neck->first + i];
        if (exact_has(gone, item->job) || !exact_has(here, item->job)) continue;
        if (item->cost == EXACT_NEVER) break;
        if (item->bytes >= excess) {
            __extension__ typedef unsigned __int128 wide;
            wide part = ((wide)item->cost * excess + item->bytes - 1) / item->bytes;
            return cost + (uint64_t)part;
        }
        cost += item->cost;
        excess -= item->bytes;
    }
    return EXACT_NEVER;
}

static uint64_t bound_neck(const exact_model *model, uint32_t job, const uint64_t *ran,
                           const uint64_t *recompute, uint64_t budget) {
    const exact_neck *neck = &model->necks[job];
    uint64_t here[EXACT_WORDS], bytes = neck->bytes;
    for (uint32_t w = 0; w < model->job_words; w++) here[w] = ran[w] | model->jobs[job].before[w];
    for (uint32_t i = 0; i < neck->count; i++) {
        const exact_item *item = &model->items[neck->first + i];
        if (!exact_has(recompute, item->job) && exact_has(here, item->job)) bytes += item->bytes;
    }
    return bytes <= budget ? 0 : bound_evict(model, neck, recompute, here, bytes - budget);
}

/* Returns a lower bound on the cost of all repeats on a path from this state to the end. A result
 * of EXACT_NEVER or more means that the end cannot be reached. */
static uint64_t exact_bound(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                            uint64_t budget) {
    uint64_t recompute[EXACT_WORDS], most = 0;
    uint64_t missing = bound_missing(model, ran, there, recompute);
    if (missing >= EXACT_NEVER) return EXACT_NEVER;
    for (uint32_t j = 0; j < model->dag->job_count; j++) {
        uint64_t neck = exact_has(ran, j) ? 0 : bound_neck(model, j, ran, recompute, budget);
        if (neck >= EXACT_NEVER) return EXACT_NEVER;
        if (neck > most) most = neck;
    }
    return missing + most;
}

/* Finds the values of a state that are useful on paths that end below the ceiling; all other live
 * values need not stay. A value that no first run needs is useful only for a chain of repeats that
 * ends at a needed value. It is added if its cheapest chain, in addition to the repeats that are
 * necessary anyway, stays below the ceiling. *above is lowered to the least cost of a chain that
 * was left out. */
static void exact_wanted(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                         uint64_t cost, uint64_t ceiling, uint64_t *wanted, uint64_t *above) {
    const tn__dag *dag = model->dag;
    uint64_t recompute[EXACT_WORDS], chains[EXACT_MOST];
    uint64_t missing = bound_missing(model, ran, there, recompute);
    bound_needed(model, ran, wanted);
    for (uint32_t v = 0; v < dag->value_count; v++)
        chains[v] = exact_has(wanted, v) ? 0 : EXACT_NEVER;
    if (missing >= EXACT_NEVER) return;
    for (uint32_t j = dag->job_count; j-- > 0;) {
        uint64_t chain = EXACT_NEVER;
        if (!exact_may_repeat(model, ran, j)) continue;
        EXACT_EACH(v, model->jobs[j].recompute_out, model->value_words)
        if (chains[v] < chain) chain = chains[v];
        if (!exact_has(recompute, j)) chain = tn__add_sat(chain, dag->jobs[j].recompute_cost);
        EXACT_EACH(v, model->jobs[j].recompute_in, model->value_words)
        if (chain < chains[v]) chains[v] = chain;
    }
    for (uint32_t v = 0; v < dag->value_count; v++) {
        uint64_t total = tn__add_sat(cost + missing, chains[v]);
        if (chains[v] >= EXACT_NEVER) continue;
        if (total < ceiling)
            exact_add(wanted, v);
        else if (total < *above)
            *above = total;
    }
}

/* --- search ----------------------------------------------------------------------------------- */

typedef struct exact_step { /* a job that is about to run in a state */
    exact_search *search;
    uint32_t state, job;
    bool recompute;
    uint32_t taken; /* the input that the output overwrites; TN_NONE: no input */
    /* while values are evicted one by one, largest first: only values from this place on in the
     * descending order of size may be evicted next */
    uint32_t next;
    /* cost of all repeats on the path to this state, including a repeat of this job */
    uint64_t cost;
    const uint64_t *ran;
    uint64_t there[EXACT_WORDS];
    /* the sets of jobs that have run and of useful values after this job has run */
    uint64_t ran_after[EXACT_WORDS], useful[EXACT_WORDS];
} exact_step;

static uint32_t exact_progress(const exact_model *model, const uint64_t *ran) {
    uint32_t count = 0;
    for (uint32_t w = 0; w < model->job_words; w++) count += (uint32_t)__builtin_popcountll(ran[w]);
    return 2 * count;
}

/* Adds a state to the queue, or lowers its cost, unless no path through it ends below the ceiling
 * on the cost. The lower bound is computed for the sets `ran` and `there`, which describe the state
 * after the job, even if the added state is half a step (values were evicted, but the job has not
 * run). */
static tn_status exact_reach(const exact_step *step, const uint64_t *key, const uint64_t *ran,
                             const uint64_t *there, uint32_t by) {
    exact_search *s = step->search;
    const exact_model *model = s->model;
    tn__states *states = &s->states;
    bool is_new = false;
    uint32_t id = tn__states_find(states, key, &is_new);
    if (id == TN_NONE) return TN_E_STOPPED;
    if (is_new)
        states->bounds[id] = exact_bound(model, ran, there, s->budget);
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
    tn__state_queued queued = {total, exact_progress(model, key) + is_half, id, step->cost};
    if (!tn__states_push(states, queued)) return TN_E_STOPPED;
    return TN_OK;
}

/* Computes the set of values that are live after the job if no more values are evicted. */
static void exact_behind(const exact_step *step, const uint64_t *out, uint64_t *behind) {
    const exact_model *model = step->search->model;
    for (uint32_t w = 0; w < model->value_words; w++) behind[w] = step->there[w] | out[w];
    if (step->taken != TN_NONE) exact_remove(behind, step->taken);
    for (uint32_t w = 0; w < model->value_words; w++) behind[w] &= step->useful[w] | model->held[w];
    exact_search *s = step->search;
    uint64_t wanted[EXACT_WORDS];
    exact_wanted(model, step->ran_after, behind, step->cost, s->ceiling, wanted, &s->above);
    for (uint32_t w = 0; w < model->value_words; w++) behind[w] &= wanted[w] | model->held[w];
}

/* Adds the state after the job. With `is_half`, adds an intermediate state ("half a step") instead:
 * values were evicted, more will be, and the job has not run. */
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

/* Returns the bytes that are live while the job of this step runs. */
static uint64_t exact_live(const exact_step *step, const uint64_t *in, const uint64_t *out) {
    const exact_model *model = step->search->model;
    const tn__job *it = &model->dag->jobs[step->job];
    uint64_t beside[EXACT_WORDS];
    /* during the first action, the values that exist from the start are live, too */
    bool first = exact_progress(model, step->ran) == 0;
    for (uint32_t w = 0; w < model->value_words; w++) {
        uint64_t there = first ? model->given[w] | step->there[w] : step->there[w];
        /* while a job runs that makes a value again and also reads it, the value occupies its bytes
         * twice */
        beside[w] = there & ~(out[w] & ~in[w]);
    }
    uint64_t bytes = exact_bytes(model, beside) + exact_bytes(model, out) + it->scratch;
    return step->taken == TN_NONE ? bytes : bytes - model->dag->values[step->taken].bytes;
}

/* Runs the job of a step if it fits into the budget. Otherwise adds an intermediate state for each
 * value that can be evicted next; in it, the larger values stay live. */
static tn_status exact_run(exact_step *step) {
    const exact_model *model = step->search->model;
    const exact_job *job = &model->jobs[step->job];
    const uint64_t *in = step->recompute ? job->recompute_in : job->in;
    const uint64_t *out = step->recompute ? job->recompute_out : job->out;
    uint64_t bytes = exact_live(step, in, out), budget = step->search->budget;
    if (bytes <= budget) return exact_go(step, out, false);
    if (exact_progress(model, step->ran) == 0) return TN_OK;
    uint64_t excess = bytes - budget, rest = 0;
    uint32_t count = model->dag->value_count, first = step->next;
    for (uint32_t rank = count; rank-- > first;) {
        uint32_t v = model->by_size[rank];
        if (!exact_has(step->there, v) || exact_has(in, v) || exact_has(out, v) ||
            exact_has(model->held, v))
            continue;
        uint64_t gone = model->dag->values[v].bytes;
        /* bytes that can still be freed: this value and all smaller ones that may be evicted */
        rest += gone;
        if (rest < excess) continue;
        exact_remove(step->there, v);
        step->next = rank + 1;
        tn_status status = exact_go(step, out, gone < excess);
        exact_add(step->there, v);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* Begins a step, the run of one job. If the job's output may overwrite an input, the input is
 * overwritten; if a later run may read the input, the search also tries to keep it. */
static tn_status exact_begin(exact_step *step) {
    const exact_model *model = step->search->model;
    const tn__job *it = &model->dag->jobs[step->job];
    const exact_job *job = &model->jobs[step->job];
    const uint64_t *in = step->recompute ? job->recompute_in : job->in;
    const uint64_t *out = step->recompute ? job->recompute_out : job->out;
    uint32_t count = step->recompute ? it->recompute_output_count : it->output_count;
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

/* Whether a job may run in a state: as its first run, or as a repeat that makes a useful value
 * which is not live now. */
static bool exact_may_run(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                          const uint64_t *useful, uint32_t job, bool *recompute) {
    const exact_job *it = &model->jobs[job];
    *recompute = exact_has(ran, job);
    if (!*recompute)
        return exact_inside(it->before, ran, model->job_words) &&
               exact_inside(it->in, there, model->value_words) &&
               !exact_meet(it->limits, ran, model->job_words);
    if (!exact_may_repeat(model, ran, job)) return false;
    uint64_t gains = 0;
    for (uint32_t w = 0; w < model->value_words; w++)
        gains |= it->recompute_out[w] & useful[w] & ~there[w];
    return gains != 0 && exact_inside(it->recompute_in, there, model->value_words);
}

static void exact_step_to(exact_step *step, const uint64_t *useful, uint32_t job, bool recompute) {
    const exact_model *model = step->search->model;
    step->job = job;
    step->recompute = recompute;
    memcpy(step->ran_after, step->ran, model->job_words * sizeof *step->ran);
    memcpy(step->useful, useful, sizeof step->useful);
    if (recompute) return;
    exact_add(step->ran_after, job);
    exact_useful(model, step->ran_after, step->useful);
}

static tn_status exact_expand(exact_search *s, uint32_t state) {
    const exact_model *model = s->model;
    uint64_t key[EXACT_STRIDE], useful[EXACT_WORDS], cost = s->states.costs[state];
    memcpy(key, s->states.keys + (size_t)state * s->states.stride, s->states.stride * sizeof *key);
    exact_step step = {.search = s, .state = state, .ran = key};
    memcpy(step.there, key + model->job_words, model->value_words * sizeof *key);
    uint64_t half = key[s->states.stride - 1];
    if (half != 0) {
        exact_useful(model, key, useful);
        uint32_t job = (uint32_t)(half >> 32) - 1;
        exact_step_to(&step, useful, job, exact_has(key, job));
        step.cost = cost;
        step.next = (uint32_t)half >> 1;
        step.taken = half & 1 ? model->dag->jobs[job].inplace : TN_NONE;
        return exact_run(&step);
    }
    exact_wanted(model, key, step.there, cost, s->ceiling, useful, &s->above);
    for (uint32_t j = 0; j < model->dag->job_count; j++) {
        bool recompute;
        if (!exact_may_run(model, step.ran, step.there, useful, j, &recompute)) continue;
        exact_step_to(&step, useful, j, recompute);
        step.cost = cost;
        if (recompute) step.cost = tn__add_sat(cost, model->dag->jobs[j].recompute_cost);
        TN_TRY(exact_begin(&step));
    }
    return TN_OK;
}

/* Writes the jobs on the path from the start to a state. */
static tn_status exact_rebuild(exact_search *s, uint32_t state, tn__schedule *schedule) {
    uint32_t first = schedule->count;
    for (; s->states.parents[state] != TN_NONE; state = s->states.parents[state]) {
        tn__action action = {.kind = TN__RUN, .what = s->states.by[state]};
        if (action.what == TN_NONE) continue;
        TN_TRY(tn__schedule_add(schedule, action, s->run->error));
    }
    for (uint32_t a = first, b = schedule->count; a + 1 < b; a++) {
        tn__action moved = schedule->actions[a];
        schedule->actions[a] = schedule->actions[--b];
        schedule->actions[b] = moved;
    }
    return TN_OK;
}

static tn_status exact_walk(exact_search *s, tn__schedule *schedule) {
    const exact_model *model = s->model;
    uint32_t jobs = model->dag->job_count;
    while (s->states.queued > 0) {
        tn__state_queued top = tn__states_pop(&s->states);
        if (top.from_start != s->states.costs[top.state]) continue;
        if (top.cost > s->floor) s->floor = top.cost;
        const uint64_t *there =
            s->states.keys + (size_t)top.state * s->states.stride + model->job_words;
        if (top.progress == 2 * jobs && exact_inside(model->stay, there, model->value_words))
            return exact_rebuild(s, top.state, schedule);
        TN_TRY(tn__pass_work(s->run, jobs));
        TN_TRY(exact_expand(s, top.state));
    }
    return TN_E_INFEASIBLE;
}

/* Searches for the cheapest schedule with a cost of repeats below the ceiling. */
static tn_status exact_below(exact_search *s, const uint64_t *start, tn__schedule *schedule) {
    const exact_model *model = s->model;
    uint32_t stride = model->job_words + model->value_words + 1;
    exact_step step = {.search = s, .state = TN_NONE};
    s->above = UINT64_MAX;
    tn__states_init(&s->states, &s->run->context, stride);
    tn_status status = exact_reach(&step, start, start, start + model->job_words, TN_NONE);
    if (status == TN_OK) status = exact_walk(s, schedule);
    tn__states_release(&s->states);
    return status;
}

tn_status tn__exact_search(exact_search *s, tn__schedule *schedule) {
    const exact_model *model = s->model;
    uint64_t start[EXACT_STRIDE] = {0}, useful[EXACT_WORDS], none[EXACT_WORDS] = {0}, recompute = 0;
    exact_useful(model, none, useful);
    for (uint32_t w = 0; w < model->value_words; w++)
        start[model->job_words + w] = model->given[w] & (useful[w] | model->held[w]);
    for (uint32_t j = 0; j < model->dag->job_count; j++)
        recompute = tn__add_sat(recompute, model->dag->jobs[j].recompute_cost);
    uint64_t ceiling = s->ceiling;
    uint64_t least = exact_bound(model, start, start + model->job_words, s->budget);
    tn_status status;
    s->ceiling = tn__add_sat(least, 1);
    for (;;) {
        if (s->ceiling > ceiling || s->ceiling - least > recompute) s->ceiling = ceiling;
        status = exact_below(s, start, schedule);
        if (status != TN_E_INFEASIBLE || s->ceiling == ceiling || s->above == UINT64_MAX) break;
        /* proved: no schedule costs less than s->above, the least cost of the paths that were left
         * out because they reach the ceiling */
        s->floor = s->above;
        s->ceiling = tn__add_sat(s->above, s->above - least + 1);
    }
    s->ceiling = ceiling;
    if (status == TN_E_INFEASIBLE && ceiling == EXACT_NEVER && s->above != UINT64_MAX)
        return TN_E_STOPPED;
    return status;
}
