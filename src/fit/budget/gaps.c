/* gaps.c - finds the gaps of values, and builds the schedule that follows from the decisions.
 *
 * The schedule is built in a walk over the jobs. Before each job, the walk settles and fetches the
 * copies that are due there. It then restores the evicted inputs of the job: it decodes them, or
 * recomputes them, sources first. After the job, the values that leave there are evicted. A value
 * after its last access does not count as live. If a repeat needs it, it is recomputed, too; if
 * this is impossible, it stays live until then. Cost: O(jobs + operands + repeated jobs).
 */
#include "fit/budget/gaps.h"

#include <inttypes.h>

enum { /* tn__gaps.state */
       GAPS_HERE = 1u << 0,
       GAPS_PAST = 1u << 1,    /* was live until its last access */
       GAPS_LEAVING = 1u << 2, /* OUT, not settled */
       GAPS_HOST = 1u << 3,    /* the host has a copy */
       GAPS_CODED = 1u << 4,
       GAPS_MADE = 1u << 5 /* made as an intermediate of the current restore */
};

/* --- finding --- */

static tn_status gaps_room(tn__gaps *gaps) {
    const tn__work *work = gaps->run->work;
    tn__arena *arena = gaps->run->arena;
    size_t values = (size_t)work->value_count + 1, jobs = (size_t)work->job_count + 2, accesses = 1;
    for (uint32_t j = 0; j < work->job_count; j++)
        accesses += work->jobs[j].input_count + work->jobs[j].output_count;
    gaps->list = tn__arena_array(arena, accesses, sizeof *gaps->list);
    gaps->chained = tn__arena_array(arena, 3 * accesses, sizeof *gaps->chained);
    gaps->by_job = tn__arena_array(arena, 3 * jobs, sizeof *gaps->by_job);
    gaps->first = tn__arena_array(arena, values, sizeof *gaps->first);
    gaps->starts = tn__arena_array(arena, jobs, sizeof *gaps->starts);
    gaps->state = tn__arena_array(arena, values, sizeof *gaps->state);
    gaps->stack = tn__arena_array(arena, values, sizeof *gaps->stack);
    gaps->made = tn__arena_array(arena, accesses, sizeof *gaps->made);
    if (gaps->list == NULL || gaps->chained == NULL || gaps->by_job == NULL ||
        gaps->first == NULL || gaps->starts == NULL || gaps->state == NULL || gaps->stack == NULL ||
        gaps->made == NULL)
        return tn__no_memory(gaps->run->error, "what is given up");
    return TN_OK;
}

static void gaps_of_value(tn__gaps *gaps, uint32_t v) {
    const tn__work *work = gaps->run->work;
    const tn__value *value = &work->values[v];
    uint32_t from = value->maker;
    gaps->first[v] = gaps->count;
    for (uint32_t i = work->reads.first[v]; i < work->reads.first[v + 1]; i++) {
        uint32_t job = work->reads.items[i];
        bool gap = from != TN_NONE && job > from + 1 && !(value->flags & TN__VALUE_HELD);
        if (gap && value->bytes > 0)
            gaps->list[gaps->count++] = (tn__gap){
                .value = v, .leave = from, .back = job, .settle = from + 1, .trigger = job};
        from = job;
    }
}

tn_status tn__gaps_find(tn__pass_run *run, tn__gaps *gaps) {
    const tn__work *work = run->work;
    *gaps = (tn__gaps){.run = run, .again_first = true};
    TN_TRY(gaps_room(gaps));
    for (uint32_t v = 0; v < work->value_count; v++) gaps_of_value(gaps, v);
    gaps->first[work->value_count] = gaps->count;
    gaps->by_back = tn__arena_array(run->arena, (size_t)gaps->count + 1, sizeof *gaps->by_back);
    if (gaps->by_back == NULL) return tn__no_memory(run->error, "what is given up");
    for (uint32_t g = 0; g < gaps->count; g++)
        gaps->by_back[g] = (tn__sort_item){gaps->list[g].back, g};
    if (!tn__sort_items(&run->context, gaps->by_back, gaps->count))
        return tn__no_memory(run->error, "what is given up");
    for (uint32_t j = 0; j < work->job_count; j++)
        gaps->starts[j + 1] = tn__add_sat(gaps->starts[j], work->jobs[j].cost);
    return tn__pass_work(run, (uint64_t)work->job_count + work->value_count);
}

/* --- the schedule --- */

typedef struct gaps_walk {
    tn__gaps *gaps;
    tn__schedule *schedule;
    uint32_t job; /* the next job */
    uint32_t made_count;
    bool possible;
} gaps_walk;

static tn_status gaps_act(gaps_walk *walk, tn__act_kind kind, uint32_t what, const tn__gap *gap) {
    tn__act act = {.kind = (uint8_t)kind, .what = what};
    if (gap != NULL && gap->how == TN__GAP_CODE) {
        act.codec = (uint8_t)gap->codec;
        act.bytes = gap->bytes;
    }
    return tn__schedule_add(walk->schedule, act, walk->gaps->run->error);
}

static tn_status gaps_settle(gaps_walk *walk, uint32_t value) {
    uint8_t *state = &walk->gaps->state[value];
    if (!(*state & GAPS_LEAVING)) return TN_OK;
    *state = (uint8_t)(*state & ~(GAPS_LEAVING | GAPS_HERE));
    return gaps_act(walk, TN__SETTLE, value, NULL);
}

static tn_status gaps_fetch(gaps_walk *walk, uint32_t value) {
    walk->gaps->state[value] |= GAPS_HERE;
    return gaps_act(walk, TN__IN, value, NULL);
}

static const tn__gap *gaps_code(const tn__gaps *gaps, uint32_t value) {
    for (uint32_t g = gaps->first[value]; g < gaps->first[value + 1]; g++)
        if (gaps->list[g].how == TN__GAP_CODE) return &gaps->list[g];
    return NULL;
}

/* Whether a job may be repeated before `next`. */
static bool gaps_repeats(const tn__gaps *gaps, uint32_t job, uint32_t next) {
    const tn__work *work = gaps->run->work;
    const tn__job *it = &work->jobs[job];
    uint32_t count;
    const uint32_t *output = tn__job_outputs(work, job, true, &count);
    if (!(it->flags & TN__JOB_REPEATS) || job >= next) return false;
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (work->others[it->limit_first + i] < next && work->others[it->limit_first + i] != job)
            return false;
    for (uint32_t k = 0; k < count; k++)
        if (work->values[output[k]].flags & TN__VALUE_HELD) return false;
    return true;
}

/* The job that can recompute a value; TN_NONE: none can. */
static uint32_t gaps_remaker(const tn__gaps *gaps, uint32_t value, uint32_t next) {
    const tn__work *work = gaps->run->work;
    uint32_t job = work->values[value].maker, count;
    if (gaps->stays != NULL && gaps->stays[value]) return TN_NONE;
    if (job == TN_NONE || !gaps_repeats(gaps, job, next)) return TN_NONE;
    const uint32_t *output = tn__job_outputs(work, job, true, &count);
    for (uint32_t k = 0; k < count; k++)
        if (output[k] == value) return job;
    return TN_NONE;
}

static tn_status gaps_run_again(gaps_walk *walk, uint32_t job) {
    tn__gaps *gaps = walk->gaps;
    uint32_t count;
    const uint32_t *output = tn__job_outputs(gaps->run->work, job, true, &count);
    for (uint32_t k = 0; k < count; k++) TN_TRY(gaps_settle(walk, output[k]));
    for (uint32_t k = 0; k < count; k++) {
        if (!(gaps->state[output[k]] & (GAPS_HERE | GAPS_MADE))) {
            gaps->made[walk->made_count++] = output[k];
            gaps->state[output[k]] |= GAPS_MADE;
        }
        gaps->state[output[k]] |= GAPS_HERE;
    }
    TN_TRY(tn__pass_work(gaps->run, 1 + count));
    return gaps_act(walk, TN__RUN, job, NULL);
}

/* One step of restoring the value on top of the stack. */
static tn_status gaps_bring_step(gaps_walk *walk, uint32_t *depth) {
    tn__gaps *gaps = walk->gaps;
    const tn__work *work = gaps->run->work;
    uint32_t value = gaps->stack[*depth - 1], inputs;
    uint8_t *state = &gaps->state[value];
    if (*state & GAPS_HERE) {
        --*depth;
        return TN_OK;
    }
    if (*state & GAPS_HOST) return gaps_fetch(walk, value);
    if (*state & GAPS_CODED) {
        *state |= GAPS_HERE;
        return gaps_act(walk, TN__DECODE, value, gaps_code(gaps, value));
    }
    uint32_t job = gaps_remaker(gaps, value, walk->job);
    if (job == TN_NONE) { /* it stays live from its last access until here */
        walk->possible = (*state & GAPS_PAST) != 0;
        *state |= GAPS_HERE;
        return TN_OK;
    }
    const uint32_t *input = tn__job_inputs(work, job, true, &inputs);
    for (uint32_t i = 0; i < inputs; i++)
        if (!(gaps->state[input[i]] & GAPS_HERE)) {
            gaps->stack[(*depth)++] = input[i];
            return TN_OK;
        }
    return gaps_run_again(walk, job);
}

/* Evicts intermediates after use; if `again_first` is set, those that are read later stay. */
static void gaps_leave_made(gaps_walk *walk, uint32_t value) {
    tn__gaps *gaps = walk->gaps;
    for (uint32_t i = 0; i < walk->made_count; i++) {
        uint32_t made = gaps->made[i];
        uint8_t *state = &gaps->state[made];
        *state = (uint8_t)(*state & ~GAPS_MADE);
        uint32_t last = tn__work_last(gaps->run->work, made);
        bool past = last < walk->job || last == TN_NONE;
        bool drops = !gaps->again_first || (gaps->drops != NULL && gaps->drops[made]);
        bool stays = made == value || (!drops && !past);
        if (!stays) *state = (uint8_t)(*state & ~GAPS_HERE);
    }
    walk->made_count = 0;
}

static tn_status gaps_bring(gaps_walk *walk, uint32_t value) {
    uint32_t depth = 1;
    walk->gaps->stack[0] = value;
    while (depth > 0 && walk->possible) TN_TRY(gaps_bring_step(walk, &depth));
    gaps_leave_made(walk, value);
    return TN_OK;
}

static tn_status gaps_leave(gaps_walk *walk, const tn__gap *gap) {
    uint8_t *state = &walk->gaps->state[gap->value];
    switch (gap->how) {
    case TN__GAP_SWAP:
        if (*state & GAPS_LEAVING) return TN_OK;
        if (*state & GAPS_HOST) { /* its copy still exists */
            *state = (uint8_t)(*state & ~GAPS_HERE);
            return TN_OK;
        }
        *state |= GAPS_LEAVING | GAPS_HOST;
        return gaps_act(walk, TN__OUT, gap->value, NULL);
    case TN__GAP_CODE:
        if (!(*state & GAPS_CODED)) TN_TRY(gaps_act(walk, TN__ENCODE, gap->value, gap));
        *state = (uint8_t)((*state | GAPS_CODED) & ~GAPS_HERE);
        return TN_OK;
    case TN__GAP_AGAIN:
        *state = (uint8_t)(*state & ~GAPS_HERE);
        return TN_OK;
    default:
        return TN_OK;
    }
}

/* Three lists of gaps: by `leave`, by `settle`, and by `trigger`. */
enum { GAPS_AT_LEAVE, GAPS_AT_SETTLE, GAPS_AT_TRIGGER };

static uint32_t *gaps_head(const tn__gaps *gaps, int list, uint32_t job) {
    return &gaps->by_job[(size_t)list * ((size_t)gaps->run->work->job_count + 2) + job];
}

static void gaps_index(tn__gaps *gaps) {
    uint32_t jobs = gaps->run->work->job_count;
    for (size_t i = 0; i < 3 * ((size_t)jobs + 2); i++) gaps->by_job[i] = TN_NONE;
    for (uint32_t i = gaps->count; i-- > 0;) { /* the first needed value is fetched first */
        uint32_t g = gaps->by_back[i].id;
        const tn__gap *gap = &gaps->list[g];
        const uint32_t at[] = {gap->leave, gap->settle, gap->trigger};
        if (gap->how == TN__GAP_KEEP) continue;
        for (int list = 0; list < 3; list++) {
            uint32_t *head = gaps_head(gaps, list, at[list]);
            gaps->chained[3 * (size_t)g + (size_t)list] = *head;
            *head = g;
        }
    }
}

static uint32_t gaps_next(const tn__gaps *gaps, int list, uint32_t gap) {
    return gaps->chained[3 * (size_t)gap + (size_t)list];
}

static tn_status gaps_before(gaps_walk *walk) {
    tn__gaps *gaps = walk->gaps;
    uint32_t job = walk->job, g;
    for (g = *gaps_head(gaps, GAPS_AT_SETTLE, job); g != TN_NONE;
         g = gaps_next(gaps, GAPS_AT_SETTLE, g))
        TN_TRY(gaps_settle(walk, gaps->list[g].value));
    for (g = *gaps_head(gaps, GAPS_AT_TRIGGER, job); g != TN_NONE;
         g = gaps_next(gaps, GAPS_AT_TRIGGER, g))
        if ((gaps->state[gaps->list[g].value] & (GAPS_HOST | GAPS_HERE)) == GAPS_HOST)
            TN_TRY(gaps_fetch(walk, gaps->list[g].value));
    return TN_OK;
}

static tn_status gaps_leaving(gaps_walk *walk, bool early) {
    tn__gaps *gaps = walk->gaps;
    for (uint32_t g = *gaps_head(gaps, GAPS_AT_LEAVE, walk->job); g != TN_NONE;
         g = gaps_next(gaps, GAPS_AT_LEAVE, g)) {
        bool made = gaps->run->work->values[gaps->list[g].value].maker == walk->job;
        if ((gaps->list[g].early && !made) == early) TN_TRY(gaps_leave(walk, &gaps->list[g]));
    }
    return TN_OK;
}

static void gaps_past(tn__gaps *gaps, uint32_t job, const uint32_t *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t flags = gaps->run->work->values[value[i]].flags;
        if (tn__work_last(gaps->run->work, value[i]) > job ||
            (flags & (TN__VALUE_KEPT | TN__VALUE_HELD)))
            continue;
        gaps->state[value[i]] = (uint8_t)((gaps->state[value[i]] | GAPS_PAST) & ~GAPS_HERE);
    }
}

static tn_status gaps_job(gaps_walk *walk) {
    tn__gaps *gaps = walk->gaps;
    uint32_t job = walk->job, inputs, outputs;
    const uint32_t *input = tn__job_inputs(gaps->run->work, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(gaps->run->work, job, false, &outputs);
    TN_TRY(gaps_before(walk));
    for (uint32_t i = 0; i < inputs && walk->possible; i++)
        if (!(gaps->state[input[i]] & GAPS_HERE)) TN_TRY(gaps_bring(walk, input[i]));
    TN_TRY(gaps_leaving(walk, true));
    TN_TRY(gaps_act(walk, TN__RUN, job, NULL));
    for (uint32_t k = 0; k < outputs; k++) gaps->state[output[k]] |= GAPS_HERE;
    gaps_past(gaps, job, input, inputs);
    gaps_past(gaps, job, output, outputs);
    TN_TRY(gaps_leaving(walk, false));
    return tn__pass_work(gaps->run, 1 + inputs + outputs);
}

tn_status tn__gaps_schedule(tn__gaps *gaps, tn__schedule *schedule, bool *possible) {
    const tn__work *work = gaps->run->work;
    gaps_walk walk = {.gaps = gaps, .schedule = schedule, .possible = true};
    schedule->count = 0;
    gaps_index(gaps);
    for (uint32_t v = 0; v < work->value_count; v++)
        gaps->state[v] = work->values[v].maker == TN_NONE ? GAPS_HERE : 0;
    for (; walk.job < work->job_count && walk.possible; walk.job++) TN_TRY(gaps_job(&walk));
    for (uint32_t v = 0; v < work->value_count && walk.possible; v++)
        TN_TRY(gaps_settle(&walk, v)); /* no copy remains unsettled: every gap ends with a reader */
    *possible = walk.possible;
    return TN_OK;
}

tn_status tn__gaps_turn(const tn__gaps *gaps, uint32_t *turn) {
    const tn__work *work = gaps->run->work;
    size_t jobs = (size_t)work->job_count + 1;
    int64_t *idle = tn__arena_array(gaps->run->arena, jobs, sizeof *idle), at = 0, most = 0;
    if (idle == NULL) return tn__no_memory(gaps->run->error, "the turn");
    *turn = 0;
    for (uint32_t g = 0; g < gaps->count; g++) {
        const tn__gap *gap = &gaps->list[g];
        idle[gap->leave] += (int64_t)work->values[gap->value].bytes;
        idle[gap->back] -= (int64_t)work->values[gap->value].bytes;
    }
    for (uint32_t j = 0; j < work->job_count; j++) {
        at += idle[j];
        if (at > most) most = at, *turn = j;
    }
    return TN_OK;
}

/* --- the cost of recomputing --- */

/* The decision for the value in the gap that contains a job; KEEP: no gap contains it. */
static tn__gap_how gaps_how(const tn__gaps *gaps, uint32_t value, uint32_t job) {
    for (uint32_t g = gaps->first[value]; g < gaps->first[value + 1]; g++)
        if (gaps->list[g].leave < job && job <= gaps->list[g].back) return gaps->list[g].how;
    return TN__GAP_KEEP;
}

/* Whether a value can be read before a job without recomputing it: it is live, or copied or decoded
 * by then. */
static bool gaps_is_there(const tn__gaps *gaps, uint32_t value, uint32_t job) {
    const tn__value *it = &gaps->run->work->values[value];
    if (it->maker != TN_NONE && it->maker >= job) return false;
    if (it->flags & TN__VALUE_HELD) return true;
    if (gaps_how(gaps, value, job) == TN__GAP_AGAIN) return false;
    if (it->flags & TN__VALUE_KEPT) return true;
    uint32_t last = tn__work_last(gaps->run->work, value);
    return last != TN_NONE && last >= job;
}

uint64_t tn__gaps_again_cost(tn__gaps *gaps, uint32_t index) {
    const tn__work *work = gaps->run->work;
    uint32_t job = gaps->list[index].back, depth = 1, at = 0, inputs;
    uint64_t cost = 0;
    gaps->stack[0] = gaps->list[index].value;
    gaps->state[gaps->stack[0]] |= GAPS_MADE;
    for (; at < depth && cost != UINT64_MAX; at++) { /* the order does not matter for the sum */
        uint32_t value = gaps->stack[at], maker = gaps_remaker(gaps, value, job);
        if (maker == TN_NONE) { /* a value after its last access can stay */
            if (at == 0 || gaps_how(gaps, value, job) == TN__GAP_AGAIN) cost = UINT64_MAX;
            continue;
        }
        cost = tn__add_sat(cost, work->jobs[maker].again_cost);
        const uint32_t *input = tn__job_inputs(work, maker, true, &inputs);
        for (uint32_t i = 0; i < inputs; i++) {
            if ((gaps->state[input[i]] & GAPS_MADE) || gaps_is_there(gaps, input[i], job)) continue;
            gaps->state[input[i]] |= GAPS_MADE;
            gaps->stack[depth++] = input[i];
        }
    }
    for (uint32_t i = 0; i < depth; i++)
        gaps->state[gaps->stack[i]] = (uint8_t)(gaps->state[gaps->stack[i]] & ~GAPS_MADE);
    return cost;
}

/* --- explanations --- */

void tn__gaps_explain(const tn__gaps *gaps, uint32_t index, const char *what, const char *why) {
    const tn__pass_run *run = gaps->run;
    const tn__gap *gap = &gaps->list[index];
    const tn__value *value = &run->work->values[gap->value];
    if (run->explain == NULL) return;
    tn__text_printf(run->explain, "%s: %s ", run->pass->name, what);
    if (run->graph != NULL && value->tensor != TN_NONE)
        tn__text_printf(run->explain, "'%s'", tn_graph_tensor(run->graph, value->tensor)->name);
    else
        tn__text_printf(run->explain, "value %" PRIu32, gap->value);
    tn__text_printf(run->explain, ", %" PRIu64 " bytes, from job %" PRIu32 " to %" PRIu32 ": %s\n",
                    value->bytes, gap->leave, gap->back, why);
}
