/* chain_search.c - the cheapest schedule of a short chain, with any evictions and repeats.
 *
 * A state is the number of backward jobs that have run, and the set of live forward values. From a
 * state, the next backward job runs, or the forward value after a live one is made. If one of these
 * does not fit, a value is evicted, which costs nothing. A* (Hart, Nilsson, Raphael 1968) uses this
 * lower bound:
 *
 *     the values that are read up to some job and are not live, each made once
 *   + the values that are read after that job and do not fit next to it, each made once
 *
 * for the job with the highest sum. The second term is a fractional knapsack, computed once in
 * advance. Cost: up to 2^values * jobs states, each O(jobs); far fewer with a good ceiling.
 */
#include "fit/budget/chain.h"
#include "fit/budget/exact.h"

enum { SEARCH_STRIDE = 2 }; /* words of a key: values, steps done */

typedef struct chain_chain {
    tn__pass_run *run;
    const tn__chain *chain;
    uint32_t steps;          /* number of backward jobs */
    uint64_t bytes;          /* bytes that may be live at once, without the values that stay */
    uint64_t *needs, *reach; /* [steps + 1] forward values it reads; those up to the last one
                              * that is still read */
    uint64_t *own,
        *handed;    /* [steps + 1] bytes of it, including the value handed to it; bytes of the
                     * handed value */
    uint64_t *rest; /* [steps] cost of the later-read values that do not fit next to it */
    uint64_t ceiling, most_work, spent;
    exact_states states;
} chain_chain;

/* --- data computed in advance --------------------------------------------------------------- */

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

/* Whether one value costs more per byte than another. */
static bool chain_is_dearer(const chain_chain *s, uint32_t a, uint32_t b) {
    double left = (double)s->chain->costs[a] * (double)s->chain->bytes[b];
    return left > (double)s->chain->costs[b] * (double)s->chain->bytes[a];
}

/* The minimum cost of leaving out values so that the others fit; a value may be left out in
 * part. */
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
    const tn__work *work = s->run->work;
    uint32_t job = s->chain->count + step, inputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    const tn__job *it = &work->jobs[job];
    s->own[step] = it->scratch + work->values[work->operands[it->output_first]].bytes;
    for (uint32_t i = 0; i < inputs; i++) {
        const tn__value *value = &work->values[input[i]];
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
    s->needs[0] |= (uint64_t)1 << (s->chain->count - 1); /* all forward jobs run before the
                                                          * others */
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
    uint32_t state = tn__exact_state(&s->states, key, &is_new);
    if (state == TN_NONE) return tn__no_memory(s->run->error, "states of a chain");
    if (!is_new && s->states.costs[state] <= cost) return TN_OK;
    s->states.costs[state] = cost;
    s->states.parents[state] = from;
    s->states.by[state] = by;
    if (!tn__exact_push(&s->states, (exact_queued){cost + least, step, state, cost}))
        return tn__no_memory(s->run->error, "states of a chain");
    return TN_OK;
}

/* Adds the successors of a state. A value is evicted only if something does not fit. A value is
 * made before the next job only if it must be, or if less is handed on now than after that job. */
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

/* Writes the jobs on the path to a state, from the start. */
static tn_status chain_tell(chain_chain *s, uint32_t state, tn__schedule *schedule) {
    uint32_t first = schedule->count;
    for (; s->states.parents[state] != TN_NONE; state = s->states.parents[state])
        if (s->states.by[state] != TN_NONE)
            TN_TRY(tn__chain_run(schedule, s->states.by[state], 1, s->run->error));
    for (uint32_t a = first, b = schedule->count; a + 1 < b; a++) {
        tn__act moved = schedule->acts[a];
        schedule->acts[a] = schedule->acts[--b];
        schedule->acts[b] = moved;
    }
    return TN_OK;
}

static tn_status chain_walk(chain_chain *s, tn__schedule *schedule) {
    TN_TRY(chain_reach_state(s, TN_NONE, TN_NONE, 0, 0, 0));
    while (s->states.queued > 0) {
        exact_queued top = tn__exact_pop(&s->states);
        if (top.from_start != s->states.costs[top.state]) continue;
        if (top.progress == s->steps) return chain_tell(s, top.state, schedule);
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
    s.steps = run->work->job_count - chain->count;
    s.bytes = run->budget - chain->base;
    s.ceiling = ceiling;
    TN_TRY(chain_prepare(&s));
    tn__exact_states_init(&s.states, &run->context, SEARCH_STRIDE);
    tn_status status = chain_walk(&s, schedule);
    tn__exact_states_release(&s.states);
    return status;
}
