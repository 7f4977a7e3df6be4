/* idle.c - finds the idle intervals of values and the encoded forms that are possible there, and
 * builds the schedule that follows from the decisions about them.
 *
 * The schedule is built in a walk over the jobs. Before each job, the walk settles the copies to
 * the host and starts the copies back that are due there. It then restores the evicted inputs of
 * the job: it decodes them, or recomputes them after their own evicted sources. After the job,
 * values are evicted if their idle interval begins there. A value is no longer live after its last
 * access. If a later repeat needs it, it is recomputed, too; if that is impossible, it stays live
 * until the repeat. Cost: O(jobs + operands + repeated jobs).
 */
#include "fit/budget/algorithms/idle.h"

#include <inttypes.h>

#include "fit/budget/pass.h"

enum { /* flags of a value: tn__idles.state */
       IDLE_HERE = 1u << 0,
       /* the value's last access is over, so it is not needed unless a repeat reads it */
       IDLE_PAST = 1u << 1,
       /* a copy of the value to the host has started (OUT), but no job has waited for its end yet
        * (SETTLE) */
       IDLE_LEAVING = 1u << 2,
       IDLE_HOST = 1u << 3, /* the host has a copy of the value */
       IDLE_CODED = 1u << 4,
       /* the value was recomputed only as a source of another value, the one being restored */
       IDLE_MADE = 1u << 5
};

/* --- finding --- */

static tn_status idle_room(tn__idles *gaps) {
    const tn__dag *dag = gaps->run->dag;
    tn__arena *arena = gaps->run->arena;
    size_t values = (size_t)dag->value_count + 1, jobs = (size_t)dag->job_count + 2, accesses = 1;
    for (uint32_t j = 0; j < dag->job_count; j++)
        accesses += dag->jobs[j].input_count + dag->jobs[j].output_count;
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

static void idle_of_value(tn__idles *gaps, uint32_t v) {
    const tn__dag *dag = gaps->run->dag;
    const tn__dag_value *value = &dag->values[v];
    uint32_t from = value->maker;
    gaps->first[v] = gaps->count;
    for (uint32_t i = dag->reads.first[v]; i < dag->reads.first[v + 1]; i++) {
        uint32_t job = dag->reads.items[i];
        bool gap = from != TN_NONE && job > from + 1 && !(value->flags & TN__VALUE_HELD);
        if (gap && value->bytes > 0)
            gaps->list[gaps->count++] = (tn__idle){
                .value = v, .leave = from, .back = job, .settle = from + 1, .trigger = job};
        from = job;
    }
}

tn_status tn__idles_find(tn__pass_run *run, tn__idles *gaps) {
    const tn__dag *dag = run->dag;
    *gaps = (tn__idles){.run = run, .recompute_first = true};
    TN_TRY(idle_room(gaps));
    for (uint32_t v = 0; v < dag->value_count; v++) idle_of_value(gaps, v);
    gaps->first[dag->value_count] = gaps->count;
    gaps->by_back = tn__arena_array(run->arena, (size_t)gaps->count + 1, sizeof *gaps->by_back);
    if (gaps->by_back == NULL) return tn__no_memory(run->error, "what is given up");
    for (uint32_t g = 0; g < gaps->count; g++)
        gaps->by_back[g] = (tn__sort_item){gaps->list[g].back, g};
    if (!tn__sort_items(&run->context, gaps->by_back, gaps->count))
        return tn__no_memory(run->error, "what is given up");
    for (uint32_t j = 0; j < dag->job_count; j++)
        gaps->starts[j + 1] = tn__add_sat(gaps->starts[j], dag->jobs[j].cost);
    return tn__pass_work(run, (uint64_t)dag->job_count + dag->value_count);
}

/* --- the schedule --- */

typedef struct idle_walk {
    tn__idles *gaps;
    tn__schedule *schedule;
    uint32_t job; /* the job whose first run is written to the schedule next */
    uint32_t made_count;
    bool possible;
} idle_walk;

static tn_status idle_action(idle_walk *walk, tn__action_kind kind, uint32_t what,
                             const tn__idle *gap) {
    tn__action action = {.kind = (uint8_t)kind, .what = what};
    if (gap != NULL && gap->how == TN__IDLE_CODE) {
        action.codec = (uint8_t)gap->codec;
        action.bytes = gap->bytes;
    }
    return tn__schedule_add(walk->schedule, action, walk->gaps->run->error);
}

static tn_status idle_settle(idle_walk *walk, uint32_t value) {
    uint8_t *state = &walk->gaps->state[value];
    if (!(*state & IDLE_LEAVING)) return TN_OK;
    *state = (uint8_t)(*state & ~(IDLE_LEAVING | IDLE_HERE));
    return idle_action(walk, TN__SETTLE, value, NULL);
}

static tn_status idle_fetch(idle_walk *walk, uint32_t value) {
    walk->gaps->state[value] |= IDLE_HERE;
    return idle_action(walk, TN__IN, value, NULL);
}

static const tn__idle *idle_code(const tn__idles *gaps, uint32_t value) {
    for (uint32_t g = gaps->first[value]; g < gaps->first[value + 1]; g++)
        if (gaps->list[g].how == TN__IDLE_CODE) return &gaps->list[g];
    return NULL;
}

/* Whether a job may be repeated directly before the first run of job `next`. */
static bool idle_repeats(const tn__idles *gaps, uint32_t job, uint32_t next) {
    const tn__dag *dag = gaps->run->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t count;
    const uint32_t *output = tn__job_outputs(dag, job, true, &count);
    if (!(it->flags & TN__JOB_REPEATS) || job >= next) return false;
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (dag->others[it->limit_first + i] < next && dag->others[it->limit_first + i] != job)
            return false;
    for (uint32_t k = 0; k < count; k++)
        if (dag->values[output[k]].flags & TN__VALUE_HELD) return false;
    return true;
}

/* Returns the job that can recompute a value directly before the first run of job `next`; TN_NONE
 * if no job can. */
static uint32_t idle_remaker(const tn__idles *gaps, uint32_t value, uint32_t next) {
    const tn__dag *dag = gaps->run->dag;
    uint32_t job = dag->values[value].maker, count;
    if (gaps->stays != NULL && gaps->stays[value]) return TN_NONE;
    if (job == TN_NONE || !idle_repeats(gaps, job, next)) return TN_NONE;
    const uint32_t *output = tn__job_outputs(dag, job, true, &count);
    for (uint32_t k = 0; k < count; k++)
        if (output[k] == value) return job;
    return TN_NONE;
}

static tn_status idle_run_recompute(idle_walk *walk, uint32_t job) {
    tn__idles *gaps = walk->gaps;
    uint32_t count;
    const uint32_t *output = tn__job_outputs(gaps->run->dag, job, true, &count);
    for (uint32_t k = 0; k < count; k++) TN_TRY(idle_settle(walk, output[k]));
    for (uint32_t k = 0; k < count; k++) {
        if (!(gaps->state[output[k]] & (IDLE_HERE | IDLE_MADE))) {
            gaps->made[walk->made_count++] = output[k];
            gaps->state[output[k]] |= IDLE_MADE;
        }
        gaps->state[output[k]] |= IDLE_HERE;
    }
    TN_TRY(tn__pass_work(gaps->run, 1 + count));
    return idle_action(walk, TN__RUN, job, NULL);
}

/* Performs one step of restoring the value on top of the stack: copies it back, decodes it,
 * recomputes it, or puts a missing source of it on the stack. */
static tn_status idle_bring_step(idle_walk *walk, uint32_t *depth) {
    tn__idles *gaps = walk->gaps;
    const tn__dag *dag = gaps->run->dag;
    uint32_t value = gaps->stack[*depth - 1], inputs;
    uint8_t *state = &gaps->state[value];
    if (*state & IDLE_HERE) {
        --*depth;
        return TN_OK;
    }
    if (*state & IDLE_HOST) return idle_fetch(walk, value);
    if (*state & IDLE_CODED) {
        *state |= IDLE_HERE;
        return idle_action(walk, TN__DECODE, value, idle_code(gaps, value));
    }
    uint32_t job = idle_remaker(gaps, value, walk->job);
    /* no job can recompute the value, so it is kept live from its last access to this place */
    if (job == TN_NONE) {
        walk->possible = (*state & IDLE_PAST) != 0;
        *state |= IDLE_HERE;
        return TN_OK;
    }
    const uint32_t *input = tn__job_inputs(dag, job, true, &inputs);
    for (uint32_t i = 0; i < inputs; i++)
        if (!(gaps->state[input[i]] & IDLE_HERE)) {
            gaps->stack[(*depth)++] = input[i];
            return TN_OK;
        }
    return idle_run_recompute(walk, job);
}

/* Evicts the values that were recomputed only as sources of the restored value `value`. With the
 * option `recompute_first`, sources that a later job reads stay live, except those in `drops`. */
static void idle_leave_made(idle_walk *walk, uint32_t value) {
    tn__idles *gaps = walk->gaps;
    for (uint32_t i = 0; i < walk->made_count; i++) {
        uint32_t made = gaps->made[i];
        uint8_t *state = &gaps->state[made];
        *state = (uint8_t)(*state & ~IDLE_MADE);
        uint32_t last = tn__dag_last(gaps->run->dag, made);
        bool past = last < walk->job || last == TN_NONE;
        bool drops = !gaps->recompute_first || (gaps->drops != NULL && gaps->drops[made]);
        bool stays = made == value || (!drops && !past);
        if (!stays) *state = (uint8_t)(*state & ~IDLE_HERE);
    }
    walk->made_count = 0;
}

static tn_status idle_bring(idle_walk *walk, uint32_t value) {
    uint32_t depth = 1;
    walk->gaps->stack[0] = value;
    while (depth > 0 && walk->possible) TN_TRY(idle_bring_step(walk, &depth));
    idle_leave_made(walk, value);
    return TN_OK;
}

static tn_status idle_leave(idle_walk *walk, const tn__idle *gap) {
    uint8_t *state = &walk->gaps->state[gap->value];
    switch (gap->how) {
    case TN__IDLE_SWAP:
        if (*state & IDLE_LEAVING) return TN_OK;
        /* the host still has the copy that was made for an earlier idle interval of the value */
        if (*state & IDLE_HOST) {
            *state = (uint8_t)(*state & ~IDLE_HERE);
            return TN_OK;
        }
        *state |= IDLE_LEAVING | IDLE_HOST;
        return idle_action(walk, TN__OUT, gap->value, NULL);
    case TN__IDLE_CODE:
        if (!(*state & IDLE_CODED)) TN_TRY(idle_action(walk, TN__ENCODE, gap->value, gap));
        *state = (uint8_t)((*state | IDLE_CODED) & ~IDLE_HERE);
        return TN_OK;
    case TN__IDLE_RECOMPUTE:
        *state = (uint8_t)(*state & ~IDLE_HERE);
        return TN_OK;
    default:
        return TN_OK;
    }
}

/* The three lists of idle intervals that each job has: those that begin after the job (leave),
 * those with a copy to the host that it waits for (settle), and those with a copy back that may
 * start at it (trigger). */
enum { IDLE_AT_LEAVE, IDLE_AT_SETTLE, IDLE_AT_TRIGGER };

static uint32_t *idle_head(const tn__idles *gaps, int list, uint32_t job) {
    return &gaps->by_job[(size_t)list * ((size_t)gaps->run->dag->job_count + 2) + job];
}

static void idle_index(tn__idles *gaps) {
    uint32_t jobs = gaps->run->dag->job_count;
    for (size_t i = 0; i < 3 * ((size_t)jobs + 2); i++) gaps->by_job[i] = TN_NONE;
    /* goes through the idle intervals from the last to the first, so that each list begins with the
     * value that is needed first */
    for (uint32_t i = gaps->count; i-- > 0;) {
        uint32_t g = gaps->by_back[i].id;
        const tn__idle *gap = &gaps->list[g];
        const uint32_t at[] = {gap->leave, gap->settle, gap->trigger};
        if (gap->how == TN__IDLE_KEEP) continue;
        for (int list = 0; list < 3; list++) {
            uint32_t *head = idle_head(gaps, list, at[list]);
            gaps->chained[3 * (size_t)g + (size_t)list] = *head;
            *head = g;
        }
    }
}

static uint32_t idle_next(const tn__idles *gaps, int list, uint32_t gap) {
    return gaps->chained[3 * (size_t)gap + (size_t)list];
}

static tn_status idle_before(idle_walk *walk) {
    tn__idles *gaps = walk->gaps;
    uint32_t job = walk->job, g;
    for (g = *idle_head(gaps, IDLE_AT_SETTLE, job); g != TN_NONE;
         g = idle_next(gaps, IDLE_AT_SETTLE, g))
        TN_TRY(idle_settle(walk, gaps->list[g].value));
    for (g = *idle_head(gaps, IDLE_AT_TRIGGER, job); g != TN_NONE;
         g = idle_next(gaps, IDLE_AT_TRIGGER, g))
        if ((gaps->state[gaps->list[g].value] & (IDLE_HOST | IDLE_HERE)) == IDLE_HOST)
            TN_TRY(idle_fetch(walk, gaps->list[g].value));
    return TN_OK;
}

static tn_status idle_leaving(idle_walk *walk, bool early) {
    tn__idles *gaps = walk->gaps;
    for (uint32_t g = *idle_head(gaps, IDLE_AT_LEAVE, walk->job); g != TN_NONE;
         g = idle_next(gaps, IDLE_AT_LEAVE, g)) {
        bool made = gaps->run->dag->values[gaps->list[g].value].maker == walk->job;
        if ((gaps->list[g].early && !made) == early) TN_TRY(idle_leave(walk, &gaps->list[g]));
    }
    return TN_OK;
}

static void idle_past(tn__idles *gaps, uint32_t job, const uint32_t *value, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t flags = gaps->run->dag->values[value[i]].flags;
        if (tn__dag_last(gaps->run->dag, value[i]) > job ||
            (flags & (TN__VALUE_KEPT | TN__VALUE_HELD)))
            continue;
        gaps->state[value[i]] = (uint8_t)((gaps->state[value[i]] | IDLE_PAST) & ~IDLE_HERE);
    }
}

static tn_status idle_job(idle_walk *walk) {
    tn__idles *gaps = walk->gaps;
    uint32_t job = walk->job, inputs, outputs;
    const uint32_t *input = tn__job_inputs(gaps->run->dag, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(gaps->run->dag, job, false, &outputs);
    TN_TRY(idle_before(walk));
    for (uint32_t i = 0; i < inputs && walk->possible; i++)
        if (!(gaps->state[input[i]] & IDLE_HERE)) TN_TRY(idle_bring(walk, input[i]));
    TN_TRY(idle_leaving(walk, true));
    TN_TRY(idle_action(walk, TN__RUN, job, NULL));
    for (uint32_t k = 0; k < outputs; k++) gaps->state[output[k]] |= IDLE_HERE;
    idle_past(gaps, job, input, inputs);
    idle_past(gaps, job, output, outputs);
    TN_TRY(idle_leaving(walk, false));
    return tn__pass_work(gaps->run, 1 + inputs + outputs);
}

tn_status tn__idles_schedule(tn__idles *gaps, tn__schedule *schedule, bool *possible) {
    const tn__dag *dag = gaps->run->dag;
    idle_walk walk = {.gaps = gaps, .schedule = schedule, .possible = true};
    schedule->count = 0;
    idle_index(gaps);
    for (uint32_t v = 0; v < dag->value_count; v++)
        gaps->state[v] = dag->values[v].maker == TN_NONE ? IDLE_HERE : 0;
    for (; walk.job < dag->job_count && walk.possible; walk.job++) TN_TRY(idle_job(&walk));
    for (uint32_t v = 0; v < dag->value_count && walk.possible; v++)
        TN_TRY(idle_settle(
            /* every idle interval ends with a reader, which waits for the copies, so no copy is
             * open at the end */
            &walk, v));
    *possible = walk.possible;
    return TN_OK;
}

tn_status tn__idles_turn(const tn__idles *gaps, uint32_t *turn) {
    const tn__dag *dag = gaps->run->dag;
    size_t jobs = (size_t)dag->job_count + 1;
    int64_t *idle = tn__arena_array(gaps->run->arena, jobs, sizeof *idle), at = 0, most = 0;
    if (idle == NULL) return tn__no_memory(gaps->run->error, "the turn");
    *turn = 0;
    for (uint32_t g = 0; g < gaps->count; g++) {
        const tn__idle *gap = &gaps->list[g];
        idle[gap->leave] += (int64_t)dag->values[gap->value].bytes;
        idle[gap->back] -= (int64_t)dag->values[gap->value].bytes;
    }
    for (uint32_t j = 0; j < dag->job_count; j++) {
        at += idle[j];
        if (at > most) most = at, *turn = j;
    }
    return TN_OK;
}

/* --- the cost of recomputing --- */

/* Returns the decision for the idle interval of a value that contains a job; KEEP if no idle
 * interval contains the job. */
static tn__idle_how idle_how(const tn__idles *gaps, uint32_t value, uint32_t job) {
    for (uint32_t g = gaps->first[value]; g < gaps->first[value + 1]; g++)
        if (gaps->list[g].leave < job && job <= gaps->list[g].back) return gaps->list[g].how;
    return TN__IDLE_KEEP;
}

/* Whether a job can read a value without recomputation, because the value is live, copied back or
 * decoded by then. */
static bool idle_is_there(const tn__idles *gaps, uint32_t value, uint32_t job) {
    const tn__dag_value *it = &gaps->run->dag->values[value];
    if (it->maker != TN_NONE && it->maker >= job) return false;
    if (it->flags & TN__VALUE_HELD) return true;
    if (idle_how(gaps, value, job) == TN__IDLE_RECOMPUTE) return false;
    if (it->flags & TN__VALUE_KEPT) return true;
    uint32_t last = tn__dag_last(gaps->run->dag, value);
    return last != TN_NONE && last >= job;
}

uint64_t tn__idles_recompute_cost(tn__idles *gaps, uint32_t index) {
    const tn__dag *dag = gaps->run->dag;
    uint32_t job = gaps->list[index].back, depth = 1, at = 0, inputs;
    uint64_t cost = 0;
    gaps->stack[0] = gaps->list[index].value;
    gaps->state[gaps->stack[0]] |= IDLE_MADE;
    /* the list of values to recompute grows in the loop; the order of its values does not change
     * their sum */
    for (; at < depth && cost != UINT64_MAX; at++) {
        uint32_t value = gaps->stack[at], maker = idle_remaker(gaps, value, job);
        /* a value that cannot be recomputed may be kept live after its last access, so as a source
         * it costs nothing */
        if (maker == TN_NONE) {
            if (at == 0 || idle_how(gaps, value, job) == TN__IDLE_RECOMPUTE) cost = UINT64_MAX;
            continue;
        }
        cost = tn__add_sat(cost, dag->jobs[maker].recompute_cost);
        const uint32_t *input = tn__job_inputs(dag, maker, true, &inputs);
        for (uint32_t i = 0; i < inputs; i++) {
            if ((gaps->state[input[i]] & IDLE_MADE) || idle_is_there(gaps, input[i], job)) continue;
            gaps->state[input[i]] |= IDLE_MADE;
            gaps->stack[depth++] = input[i];
        }
    }
    for (uint32_t i = 0; i < depth; i++)
        gaps->state[gaps->stack[i]] = (uint8_t)(gaps->state[gaps->stack[i]] & ~IDLE_MADE);
    return cost;
}

/* --- explanations --- */

void tn__idles_explain(const tn__idles *gaps, uint32_t index, const char *what, const char *why) {
    const tn__pass_run *run = gaps->run;
    const tn__idle *gap = &gaps->list[index];
    const tn__dag_value *value = &run->dag->values[gap->value];
    if (run->explain == NULL) return;
    tn__text_printf(run->explain, "%s: %s ", run->pass->name, what);
    if (run->graph != NULL && value->tensor != TN_NONE)
        tn__text_printf(run->explain, "'%s'", tn_graph_tensor(run->graph, value->tensor)->name);
    else
        tn__text_printf(run->explain, "value %" PRIu32, gap->value);
    tn__text_printf(run->explain, ", %" PRIu64 " bytes, from job %" PRIu32 " to %" PRIu32 ": %s\n",
                    value->bytes, gap->leave, gap->back, why);
}

/* --- encoded forms ---------------------------------------------------------------------------- */

/* Decides which encoded forms a value may have.
 *
 * One bit per element, the sign, suffices if all readers after an idle interval only need to know
 * which elements are positive; the registry of operators knows these readers (tn_op_rule.signs).
 * Sparse rows are used if enough elements are 0, according to measured shares of nonzero elements;
 * 5 % more elements than measured are planned. Short floats are used for all other values, and
 * where they are smaller than sparse rows. Cost: O(values + readers).
 */

/* factor from the measured number of nonzero elements to the number for which memory is planned */
#define CODES_MORE 1.05

const tn_codec tn__lossy[TN__LOSSY_COUNT] = {TN_CODEC_FLOAT16, TN_CODEC_FLOAT10, TN_CODEC_FLOAT8};

bool tn__codes_allow(const tn__pass_run *run, tn_codec codec) {
    bool loses = codec == TN_CODEC_FLOAT16 || codec == TN_CODEC_FLOAT10 || codec == TN_CODEC_FLOAT8;
    if (loses && !(run->allow & TN__ALLOW_LOSSY)) return false;
    return (run->codecs >> codec & 1) != 0;
}

/* Follows views to the tensor that owns the memory of a tensor. */
static tn_tensor_id codes_root(const tn_graph *graph, tn_tensor_id id) {
    for (;;) {
        tn_op_id producer = tn_graph_tensor(graph, id)->producer;
        if (producer == TN_NONE) return id;
        const tn_op *op = tn_graph_op(graph, producer);
        uint32_t output = 0;
        while (output < op->output_count && op->outputs[output] != id) output++;
        tn_view view = tn_op_view(graph, producer, output);
        if (view.source == TN_NONE) return id;
        id = view.source;
    }
}

/* Whether all inputs of an operator that read a value only need to know which of its elements are
 * positive. */
static bool codes_asks_signs(const tn__codes *s, tn_op_id id, tn_tensor_id tensor) {
    const tn_graph *graph = s->run->graph;
    uint64_t signs = tn__kind_signs(graph, id);
    if (signs == 0) return false;
    const tn_op *op = tn_graph_op(graph, id);
    bool reads = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE || codes_root(graph, op->inputs[i]) != tensor) continue;
        if (i >= 64 || !(signs >> i & 1)) return false;
        reads = true;
    }
    return reads;
}

/* Returns the first idle interval of a value after which all readers only need to know which
 * elements are positive; TN_NONE if the last reader needs more. */
static uint32_t codes_signs_from(const tn__codes *s, uint32_t v) {
    const tn__dag *dag = s->run->dag;
    const tn__dag_value *value = &dag->values[v];
    /* the first reader from which on all readers only need to know which elements are positive */
    uint32_t least = TN_NONE;
    for (uint32_t i = dag->readers.first[v + 1]; i-- > dag->readers.first[v];) {
        uint32_t job = dag->readers.items[i];
        if (dag->jobs[job].op == TN_NONE) break;
        if (!codes_asks_signs(s, dag->jobs[job].op, value->tensor)) break;
        least = job;
    }
    for (uint32_t g = s->gaps->first[v]; g < s->gaps->first[v + 1] && least != TN_NONE; g++)
        if (s->gaps->list[g].back >= least) return g;
    return TN_NONE;
}

/* Returns the number of 4-byte elements of a value; 0 if the value may not be encoded. */
static uint64_t codes_elements(const tn__codes *s, uint32_t v) {
    const tn__dag_value *value = &s->run->dag->values[v];
    if (value->tensor == TN_NONE || (value->flags & (TN__VALUE_HELD | TN__VALUE_RULED))) return 0;
    const tn_tensor *tensor = tn_graph_tensor(s->run->graph, value->tensor);
    return tensor->dtype == TN_FLOAT32 && tensor->bytes <= value->bytes ? tensor->bytes / 4 : 0;
}

static void codes_lossless(tn__codes *s, uint32_t v) {
    const tn__dag_value *value = &s->run->dag->values[v];
    uint64_t count = codes_elements(s, v);
    float zeros = s->run->zeros != NULL ? s->run->zeros[v] : -1;
    s->bits_from[v] = TN_NONE;
    if (count == 0 || s->gaps->first[v] == s->gaps->first[v + 1]) return;
    if (!(value->flags & TN__VALUE_KEPT) && tn__codes_allow(s->run, TN_CODEC_BITS))
        s->bits_from[v] = codes_signs_from(s, v);
    if (!(zeros >= 0 && zeros <= 1) || !tn__codes_allow(s->run, TN_CODEC_CSR)) return;
    double filled = (double)count * (1 - (double)zeros) * CODES_MORE + 1;
    uint64_t most = filled < (double)count ? (uint64_t)filled : count;
    uint64_t bytes = tn_codec_bytes(TN_CODEC_CSR, count, most);
    if (bytes < value->bytes) s->rows[v] = bytes;
}

/* Returns the encoded form that a value may have during an idle interval. Outputs of the graph get
 * lossless forms only. */
tn__code tn__codes_of(const tn__codes *s, uint32_t index) {
    uint32_t v = s->gaps->list[index].value;
    uint64_t count = codes_elements(s, v);
    bool kept = (s->run->dag->values[v].flags & TN__VALUE_KEPT) != 0;
    tn__code form = {kept ? TN_CODEC_NONE : s->lossy, tn_codec_bytes(s->lossy, count, 0)};
    if (s->bits_from[v] != TN_NONE && index >= s->bits_from[v])
        form = (tn__code){TN_CODEC_BITS, tn_codec_bytes(TN_CODEC_BITS, count, 0)};
    else if (s->rows[v] > 0 && (form.codec == TN_CODEC_NONE || s->rows[v] <= form.bytes))
        form = (tn__code){TN_CODEC_CSR, s->rows[v]};
    if (count == 0 || form.bytes >= s->run->dag->values[v].bytes) form.codec = TN_CODEC_NONE;
    return form;
}

tn_status tn__codes_find(tn__codes *codes, const tn__pass_run *run, const tn__idles *gaps) {
    size_t values = (size_t)run->dag->value_count + 1;
    *codes = (tn__codes){.run = run, .gaps = gaps, .lossy = TN_CODEC_NONE};
    codes->bits_from = tn__arena_array(run->arena, values, sizeof *codes->bits_from);
    codes->rows = tn__arena_array(run->arena, values, sizeof *codes->rows);
    if (codes->bits_from == NULL || codes->rows == NULL)
        return tn__no_memory(run->error, "encoded forms");
    for (uint32_t v = 0; v < run->dag->value_count; v++) codes_lossless(codes, v);
    return TN_OK;
}
