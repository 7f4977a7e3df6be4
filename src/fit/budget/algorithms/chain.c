/* chain.c - recognises schedule graphs that are chains (chain.h), and finds the cheapest schedule
 * of short ones. The job that computes the loss may belong to the forward sequence or to the
 * backward one; it is counted as backward only if the graph is no chain otherwise. Cost of the
 * recognition: O(jobs + operands). */
#include "fit/budget/algorithms/chain.h"

#include "fit/budget/algorithms/states.h"

/* --- recognition ------------------------------------------------------------------------------ */

typedef struct chain_read {
    const tn__dag *dag;
    uint64_t *bytes, *scratch, *costs;
    tn__stage *stages;
    uint32_t count;
    tn_error *error;
} chain_read;

static tn_status chain_refuse(const chain_read *c, uint32_t job, const char *why) {
    TN_FAIL(c->error, TN_E_UNSUPPORTED, "no chain: job %u %s", job, why);
}

static bool chain_is_given(const tn__dag *dag, uint32_t value) {
    return dag->values[value].maker == TN_NONE;
}

static bool chain_is_same(const tn__dag *dag, uint32_t a, uint32_t b, uint32_t count) {
    return memcmp(dag->operands + a, dag->operands + b, count * sizeof *dag->operands) == 0;
}

/* Whether a repeat of a job reads and makes exactly the values that the job's first run reads and
 * makes. */
static bool chain_repeats_alike(const tn__dag *dag, const tn__job *it) {
    return it->recompute_input_count == it->input_count &&
           it->recompute_output_count == it->output_count &&
           chain_is_same(dag, it->recompute_input_first, it->input_first, it->input_count) &&
           chain_is_same(dag, it->recompute_output_first, it->output_first, it->output_count);
}

/* Checks what every job of a chain must satisfy: one output, no ordering constraint, no output
 * written over an input, and a repeat that reads and makes the values of the first run. */
static tn_status chain_check_job(const chain_read *c, uint32_t job) {
    const tn__dag *dag = c->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t flags = it->output_count == 1 ? dag->values[dag->operands[it->output_first]].flags : 0;
    bool is_last = job + 1 == dag->job_count;
    if (it->output_count != 1) return chain_refuse(c, job, "has not one output");
    if (it->limit_count > 0 || it->after_count > 0 || it->inplace != TN_NONE)
        return chain_refuse(c, job, "asks for an order or a place");
    if (!chain_repeats_alike(dag, it)) return chain_refuse(c, job, "runs again in another form");
    if (!is_last && (flags & (TN__VALUE_KEPT | TN__VALUE_HELD)))
        return chain_refuse(c, job, "makes what stays");
    return TN_OK;
}

/* Returns the number of jobs at the front of the list that form the forward sequence: each may be
 * repeated, and reads only the output of the job before it and values that exist from the start. */
static uint32_t chain_forward(const tn__dag *dag) {
    uint32_t count = 0;
    for (; count < dag->job_count; count++) {
        uint32_t inputs, made = 0;
        const uint32_t *input = tn__job_inputs(dag, count, false, &inputs);
        bool reads = count == 0;
        for (uint32_t i = 0; i < inputs; i++) {
            if (chain_is_given(dag, input[i])) continue;
            made++;
            reads = count > 0 && dag->values[input[i]].maker == count - 1;
        }
        if (!reads || made > 1 || !(dag->jobs[count].flags & TN__JOB_REPEATS)) break;
    }
    return count;
}

/* Finds the stage (the number q of the forward value that is read) of a backward job. *stage is the
 * stage of the backward job before it, and becomes that of this job. *next: the job also reads the
 * forward value of the next higher stage. */
static tn_status chain_find_stage(const chain_read *c, uint32_t job, int64_t *stage, bool *next) {
    const tn__dag *dag = c->dag;
    uint32_t inputs, low = TN_NONE, high = 0;
    const uint32_t *input = tn__job_inputs(dag, job, false, &inputs);
    bool handed = job == c->count;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t maker = dag->values[input[i]].maker;
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
    const tn__dag *dag = c->dag;
    int64_t stage = (int64_t)c->count - 1;
    uint64_t handed = 0;
    memset(c->stages, 0, ((size_t)c->count + 1) * sizeof *c->stages);
    for (uint32_t j = c->count; j < dag->job_count; j++) {
        int64_t before = stage;
        bool next = false;
        TN_TRY(chain_find_stage(c, j, &stage, &next));
        tn__stage *it = &c->stages[stage + 1];
        for (int64_t q = before - 1; q >= stage; q--)
            c->stages[q + 1] = (tn__stage){.bytes_in = handed, .bytes_out = handed};
        const tn__job *job = &dag->jobs[j];
        uint64_t made = dag->values[dag->operands[job->output_first]].bytes;
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
    const tn__dag *dag = c->dag;
    for (uint32_t j = 0; j < dag->job_count; j++) TN_TRY(chain_check_job(c, j));
    c->count = chain_forward(dag);
    if (c->count < 2) return chain_refuse(c, c->count, "reads others");
    if (c->count == dag->job_count)
        return chain_refuse(c, c->count - 1, "is the end: nothing goes back");
    tn_error *error = c->error, said = {0};
    c->error = &said;
    tn_status status = chain_read_back(c);
    c->error = error;
    /* tries once more with the last forward job, which computes the loss, counted as the first
     * backward job */
    if (status == TN_E_UNSUPPORTED && c->count > 2) {
        c->count--;
        TN_TRY(chain_read_back(c));
    } else if (status != TN_OK) {
        return tn__fail_as(error, status, &said);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        c->bytes[i] = dag->values[dag->operands[dag->jobs[i].output_first]].bytes;
        c->scratch[i] = dag->jobs[i].scratch;
        c->costs[i] = dag->jobs[i].recompute_cost;
    }
    *chain = (tn__chain){c->count, c->bytes, c->scratch, c->costs, c->stages, 0};
    for (uint32_t v = 0; v < dag->value_count; v++)
        if (chain_is_given(dag, v)) chain->base += dag->values[v].bytes;
    return TN_OK;
}

tn_status tn__chain_of(const tn__dag *dag, tn__arena *arena, tn__chain *chain, tn_error *error) {
    size_t room = (size_t)dag->job_count + 2;
    chain_read c = {.dag = dag, .error = error};
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
        TN_TRY(tn__schedule_add(schedule, (tn__action){.kind = TN__RUN, .what = j}, error));
    return TN_OK;
}

/* --- cheapest schedule of a short chain ------------------------------------------------------- */

/* Finds the cheapest schedule of a short chain, with any evictions and repeats.
 *
 * A state is the number of backward jobs that have run, and the set of live forward values. In a
 * state there are three kinds of steps: the next backward job runs; or the forward value after a
 * live one is made; or, if one of these does not fit into the budget, a value is evicted at no
 * cost. The search is A* (Hart, Nilsson, Raphael 1968). Its lower bound on the remaining cost is
 * the highest sum, over the remaining backward jobs, of two costs:
 *
 *     the values that jobs up to this one read and that are not live, each made once
 *   + the values that later jobs read and that do not fit while this one runs, each made once
 *
 * The second term is a fractional knapsack, computed once in advance. Cost: up to 2^values * jobs
 * states, each O(jobs); far fewer if the ceiling on the cost is close to the optimum.
 */

/* number of 64-bit words of a state's key: the set of live forward values, and the number of
 * backward jobs that have run */
enum { SEARCH_STRIDE = 2 };

typedef struct chain_chain {
    tn__pass_run *run;
    const tn__chain *chain;
    uint32_t steps; /* number of backward jobs */
    /* limit for the bytes that are live at one time, without the values that exist from the
     * start */
    uint64_t bytes;
    /* [steps + 1] sets of forward values for each backward job. needs: the job reads them; reach:
     * up to the last one that this or a later job reads */
    uint64_t *needs, *reach;
    uint64_t *own,
        /* [steps + 1] for each backward job: own, bytes of its scratch, its output and the value
         * handed to it by the previous backward job; handed, bytes of that value alone */
        *handed;
    /* [steps] least cost of recomputing the values that later backward jobs read and that do not
     * fit while this job runs */
    uint64_t *rest;
    uint64_t ceiling, most_work, spent;
    tn__states states;
} chain_chain;

/* --- data computed in advance ----------------------------------------------------------------- */

static uint64_t chain_bytes(const chain_chain *s, uint64_t values) {
    uint64_t sum = 0;
    for (; values != 0; values &= values - 1) sum += s->chain->bytes[__builtin_ctzll(values)];
    return sum;
}

static uint64_t chain_cost(const chain_chain *s, uint64_t values) {
    uint64_t sum = 0;
    for (; values != 0; values &= values - 1) sum += s->chain->costs[__builtin_ctzll(values)];
    return sum;
}

/* Whether value a costs more per byte than value b. */
static bool chain_is_dearer(const chain_chain *s, uint32_t a, uint32_t b) {
    double left = (double)s->chain->costs[a] * (double)s->chain->bytes[b];
    return left > (double)s->chain->costs[b] * (double)s->chain->bytes[a];
}

/* Returns the least cost of evicting some values so that the others fit into `bytes`. A fraction of
 * a value may be evicted at that fraction of its cost, so the result is a lower bound. */
static uint64_t chain_left_out(const chain_chain *s, uint64_t values, uint64_t bytes) {
    double cost = (double)chain_cost(s, values), room = (double)bytes;
    while (values != 0) {
        uint32_t best = (uint32_t)__builtin_ctzll(values);
        for (uint64_t left = values & (values - 1); left != 0; left &= left - 1)
            if (chain_is_dearer(s, (uint32_t)__builtin_ctzll(left), best))
                best = (uint32_t)__builtin_ctzll(left);
        values &= ~((uint64_t)1 << best);
        double size = (double)s->chain->bytes[best], part = size > room ? room / size : 1;
        cost -= part * (double)s->chain->costs[best];
        room -= part * size;
        if (part < 1) break;
    }
    cost = cost * (1 - 1e-9) - 1e-6;
    return cost > 0 ? (uint64_t)cost + 1 : 0;
}

static void chain_read_step(chain_chain *s, uint32_t step) {
    const tn__dag *dag = s->run->dag;
    uint32_t job = s->chain->count + step, inputs;
    const uint32_t *input = tn__job_inputs(dag, job, false, &inputs);
    const tn__job *it = &dag->jobs[job];
    s->own[step] = it->scratch + dag->values[dag->operands[it->output_first]].bytes;
    for (uint32_t i = 0; i < inputs; i++) {
        const tn__dag_value *value = &dag->values[input[i]];
        if (value->maker == TN_NONE) continue;
        if (value->maker < s->chain->count)
            s->needs[step] |= (uint64_t)1 << value->maker;
        else
            s->handed[step] = value->bytes;
    }
    s->own[step] += s->handed[step];
}

static tn_status chain_prepare(chain_chain *s) {
    tn__arena *arena = s->run->arena;
    size_t room = (size_t)s->steps + 1;
    s->needs = tn__arena_array(arena, room, sizeof *s->needs);
    s->reach = tn__arena_array(arena, room, sizeof *s->reach);
    s->own = tn__arena_array(arena, room, sizeof *s->own);
    s->handed = tn__arena_array(arena, room, sizeof *s->handed);
    s->rest = tn__arena_array(arena, room, sizeof *s->rest);
    if (s->needs == NULL || s->reach == NULL || s->own == NULL || s->handed == NULL ||
        s->rest == NULL)
        return tn__no_memory(s->run->error, "a chain");
    for (uint32_t i = 0; i < s->steps; i++) chain_read_step(s, i);
    /* all forward jobs run before the first backward job, so the last forward value is live then */
    s->needs[0] |= (uint64_t)1 << (s->chain->count - 1);
    uint64_t later = 0;
    for (uint32_t i = s->steps; i-- > 0;) {
        uint64_t beside = s->own[i] + chain_bytes(s, s->needs[i] & ~later);
        uint64_t room_left = s->bytes > beside ? s->bytes - beside : 0;
        uint64_t free = chain_bytes(s, s->needs[i] & later);
        s->rest[i] =
            chain_left_out(s, later & ~s->needs[i], room_left > free ? room_left - free : 0);
        later |= s->needs[i];
        s->reach[i] = later == 0 ? 0 : UINT64_MAX >> __builtin_clzll(later);
    }
    return TN_OK;
}

/* --- the walk ------------------------------------------------------------------------------- */

static uint64_t chain_least(const chain_chain *s, uint32_t step, uint64_t there) {
    uint64_t most = 0, missing = 0, cost = 0;
    for (uint32_t i = step; i < s->steps; i++) {
        uint64_t more = s->needs[i] & ~there & ~missing;
        missing |= more;
        cost += chain_cost(s, more);
        if (cost + s->rest[i] > most) most = cost + s->rest[i];
    }
    return most;
}

static tn_status chain_reach_state(chain_chain *s, uint32_t from, uint32_t by, uint32_t step,
                                   uint64_t there, uint64_t cost) {
    uint64_t key[SEARCH_STRIDE] = {there & s->reach[step], step};
    uint64_t least = chain_least(s, step, key[0]);
    bool is_new;
    if (cost + least >= s->ceiling) return TN_OK;
    uint32_t state = tn__states_find(&s->states, key, &is_new);
    if (state == TN_NONE) return tn__no_memory(s->run->error, "states of a chain");
    if (!is_new && s->states.costs[state] <= cost) return TN_OK;
    s->states.costs[state] = cost;
    s->states.parents[state] = from;
    s->states.by[state] = by;
    if (!tn__states_push(&s->states, (tn__state_queued){cost + least, step, state, cost}))
        return tn__no_memory(s->run->error, "states of a chain");
    return TN_OK;
}

/* Adds the states that can follow a state. A value is evicted only if the next step does not fit
 * otherwise. If the next backward job can run, further forward values are made before it only if
 * that job makes the handed value larger. */
static tn_status chain_expand(chain_chain *s, uint32_t state) {
    uint64_t there = s->states.keys[(size_t)state * SEARCH_STRIDE], cost = s->states.costs[state];
    uint32_t step = (uint32_t)s->states.keys[(size_t)state * SEARCH_STRIDE + 1];
    uint64_t bytes = chain_bytes(s, there);
    bool blocked = false;
    if ((s->needs[step] & ~there) == 0) {
        blocked = bytes + s->own[step] > s->bytes;
        if (!blocked)
            TN_TRY(chain_reach_state(s, state, s->chain->count + step, step + 1, there, cost));
        if (!blocked && s->handed[step + 1] <= s->handed[step]) return TN_OK;
    }
    uint64_t next = (there << 1 | 1) & s->reach[step] & ~there;
    for (; next != 0; next &= next - 1) {
        uint32_t value = (uint32_t)__builtin_ctzll(next);
        uint64_t takes = s->chain->bytes[value] + s->chain->scratch[value] + s->handed[step];
        bool fits = bytes + takes <= s->bytes;
        blocked = blocked || !fits;
        if (fits)
            TN_TRY(chain_reach_state(s, state, value, step, there | (uint64_t)1 << value,
                                     cost + s->chain->costs[value]));
    }
    for (uint64_t left = there; blocked && left != 0; left &= left - 1)
        TN_TRY(chain_reach_state(s, state, TN_NONE, step, there & ~(left & -left), cost));
    return TN_OK;
}

/* Writes the jobs on the cheapest path from the start to a state into the schedule. */
static tn_status chain_rebuild(chain_chain *s, uint32_t state, tn__schedule *schedule) {
    uint32_t first = schedule->count;
    for (; s->states.parents[state] != TN_NONE; state = s->states.parents[state])
        if (s->states.by[state] != TN_NONE)
            TN_TRY(tn__chain_run(schedule, s->states.by[state], 1, s->run->error));
    for (uint32_t a = first, b = schedule->count; a + 1 < b; a++) {
        tn__action moved = schedule->actions[a];
        schedule->actions[a] = schedule->actions[--b];
        schedule->actions[b] = moved;
    }
    return TN_OK;
}

static tn_status chain_walk(chain_chain *s, tn__schedule *schedule) {
    TN_TRY(chain_reach_state(s, TN_NONE, TN_NONE, 0, 0, 0));
    while (s->states.queued > 0) {
        tn__state_queued top = tn__states_pop(&s->states);
        if (top.from_start != s->states.costs[top.state]) continue;
        if (top.progress == s->steps) return chain_rebuild(s, top.state, schedule);
        uint64_t work = 4 * (uint64_t)s->steps;
        s->spent += work;
        if (s->spent > s->most_work) return TN_E_STOPPED;
        TN_TRY(tn__pass_work(s->run, work));
        TN_TRY(chain_expand(s, top.state));
    }
    return TN_E_INFEASIBLE;
}

tn_status tn__chain_search(tn__pass_run *run, const tn__chain *chain, uint64_t ceiling,
                           uint64_t most_work, tn__schedule *schedule) {
    chain_chain s = {.run = run, .chain = chain, .most_work = most_work};
    if (chain->count > TN__CHAIN_SEARCHED) return TN_E_STOPPED;
    s.steps = run->dag->job_count - chain->count;
    s.bytes = run->budget - chain->base;
    s.ceiling = ceiling;
    TN_TRY(chain_prepare(&s));
    tn__states_init(&s.states, &run->context, SEARCH_STRIDE);
    tn_status status = chain_walk(&s, schedule);
    tn__states_release(&s.states);
    return status;
}
