/* bound.c - lower bounds on the memory of every schedule, and on the time of every schedule within
 * a budget.
 *
 * A schedule runs each job at least once; a repeat of a job recomputes its outputs. Consider the
 * moment of the first run of a job v. Some values were made by jobs that have run by then: all jobs
 * before v if the order is fixed, otherwise the ancestors of v. Some of these values are read by
 * jobs that have not run yet: all jobs after v, or the descendants of v; outputs are read by the
 * end. Each of these needed values is either live while v runs, or recomputed later by a repeat of
 * its maker. The inputs of that repeat are live or recomputed in turn. Therefore
 *
 *     extra time  >=  least cost of repeats such that the live values are within the budget
 *
 * Now let bytes have a price instead of a budget. The least sum of the cost of repeats and the
 * price of live bytes, cut(price), is a minimum cut of a flow network: a repeat needs its inputs,
 * and a needed value is paid for if its maker is not repeated. Therefore, for every price,
 *
 *     extra time  >=  cut(price) - price * bytes that are free while v runs
 *
 * (Lagrangian relaxation). Each cut is a line, a function of the price; the best price is at the
 * intersection of two such lines, and a few cuts find it. A value that is neither certain to be
 * made before v nor certain to be read after v is left out, which can only lower the bound. Cost: a
 * few flows for each examined v. Only the jobs that need the most bytes without repeats are
 * examined.
 */
#include "fit/budget/bound.h"

#include <inttypes.h>

#define TN__FLOW_MOST ((int64_t)1 << 60) /* capacity of an arc that is never cut */

typedef struct tn__bound_flow {
    /* [nodes] first arc that leaves the node; `next` links the node's other arcs */
    uint32_t *first;
    uint32_t *to, *next;          /* [arcs]; arcs i and i ^ 1 are the two directions of one arc */
    int64_t *left, *full;         /* [arcs] */
    uint32_t *level, *at, *queue; /* [nodes] */
    uint32_t node_count, arc_count, arc_room;
    uint64_t effort; /* number of arcs visited so far */
} tn__bound_flow;

/* --- maximum flow ----------------------------------------------------------------------------- */

/* Maximum flow by level graphs (Dinitz 1970): augmenting paths to the sink follow arcs that lead
 * one level on, until no path is left; then the levels are computed again. Cost: O(nodes^2 * arcs)
 * at worst; the caller limits the number of arcs visited. */

static bool flow_room(tn__bound_flow *flow, uint32_t nodes, uint32_t arcs, tn__arena *arena) {
    *flow = (tn__bound_flow){.node_count = nodes, .arc_room = 2 * arcs};
    size_t room = 2 * (size_t)arcs + 2, count = (size_t)nodes + 1;
    flow->first = tn__arena_array(arena, count, sizeof *flow->first);
    flow->level = tn__arena_array(arena, count, sizeof *flow->level);
    flow->at = tn__arena_array(arena, count, sizeof *flow->at);
    flow->queue = tn__arena_array(arena, count, sizeof *flow->queue);
    flow->to = tn__arena_array(arena, room, sizeof *flow->to);
    flow->next = tn__arena_array(arena, room, sizeof *flow->next);
    flow->left = tn__arena_array(arena, room, sizeof *flow->left);
    flow->full = tn__arena_array(arena, room, sizeof *flow->full);
    return flow->first != NULL && flow->level != NULL && flow->at != NULL && flow->queue != NULL &&
           flow->to != NULL && flow->next != NULL && flow->left != NULL && flow->full != NULL;
}

static void flow_clear(tn__bound_flow *flow) {
    flow->arc_count = 0;
    memset(flow->first, 0xff, flow->node_count * sizeof *flow->first);
}

static void flow_half(tn__bound_flow *flow, uint32_t from, uint32_t to, int64_t capacity) {
    uint32_t arc = flow->arc_count++;
    flow->to[arc] = to;
    flow->full[arc] = capacity;
    flow->next[arc] = flow->first[from];
    flow->first[from] = arc;
}

/* Adds an arc and the arc of the opposite direction. Returns the arc's index, with which its
 * capacity in `full` can be changed. */
static uint32_t flow_arc(tn__bound_flow *flow, uint32_t from, uint32_t to, int64_t capacity) {
    tn_assert(flow->arc_count + 2 <= flow->arc_room);
    flow_half(flow, from, to, capacity);
    flow_half(flow, to, from, 0);
    return flow->arc_count - 2;
}

/* Computes the distance of each node from the source. Returns false if the sink cannot be
 * reached. */
static bool flow_levels(tn__bound_flow *flow, uint32_t source, uint32_t sink) {
    uint32_t count = 1;
    memset(flow->level, 0xff, flow->node_count * sizeof *flow->level);
    flow->level[source] = 0;
    flow->queue[0] = source;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = flow->queue[i];
        for (uint32_t arc = flow->first[node]; arc != TN_NONE; arc = flow->next[arc]) {
            uint32_t to = flow->to[arc];
            flow->effort++;
            if (flow->left[arc] == 0 || flow->level[to] != TN_NONE) continue;
            flow->level[to] = flow->level[node] + 1;
            flow->queue[count++] = to;
        }
    }
    return flow->level[sink] != TN_NONE;
}

/* Pushes as much flow as possible along a path from source to sink, given by the first `length`
 * arcs of `queue`. */
static int64_t flow_push(tn__bound_flow *flow, uint32_t length) {
    int64_t most = INT64_MAX;
    for (uint32_t i = 0; i < length; i++)
        if (flow->left[flow->queue[i]] < most) most = flow->left[flow->queue[i]];
    for (uint32_t i = 0; i < length; i++) {
        flow->left[flow->queue[i]] -= most;
        flow->left[flow->queue[i] ^ 1] += most;
    }
    flow->effort += length;
    return most;
}

static uint32_t flow_next_arc(tn__bound_flow *flow, uint32_t node) {
    for (; flow->at[node] != TN_NONE; flow->at[node] = flow->next[flow->at[node]]) {
        uint32_t arc = flow->at[node];
        flow->effort++;
        if (flow->left[arc] > 0 && flow->level[flow->to[arc]] == flow->level[node] + 1) return arc;
    }
    return TN_NONE;
}

/* Augments the flow along all paths of one level graph. After a push, the search continues at the
 * first arc of the path that has no capacity left. */
static int64_t flow_phase(tn__bound_flow *flow, uint32_t source, uint32_t sink, uint64_t most) {
    int64_t sum = 0;
    uint32_t length = 0, node = source;
    memcpy(flow->at, flow->first, flow->node_count * sizeof *flow->at);
    while (flow->effort <= most) {
        uint32_t arc = node == sink ? TN_NONE : flow_next_arc(flow, node);
        if (arc != TN_NONE) {
            flow->queue[length++] = arc;
            node = flow->to[arc];
        } else if (node == sink) {
            sum += flow_push(flow, length);
            for (uint32_t i = 0; i < length; i++)
                if (flow->left[flow->queue[i]] == 0) length = i;
            node = flow->to[flow->queue[length] ^ 1];
        } else if (length == 0) {
            return sum;
        } else {
            node = flow->to[flow->queue[--length] ^ 1];
            flow->at[node] = flow->next[flow->at[node]];
        }
    }
    return sum;
}

/* Returns the capacity of a minimum cut, or -1 if the total effort of this flow exceeded
 * `most_effort`. Afterwards `level` is not TN_NONE for exactly the nodes on the source's side. */
static int64_t flow_cut(tn__bound_flow *flow, uint32_t source, uint32_t sink,
                        uint64_t most_effort) {
    int64_t sum = 0;
    memcpy(flow->left, flow->full, flow->arc_count * sizeof *flow->left);
    while (flow->effort <= most_effort && flow_levels(flow, source, sink))
        sum += flow_phase(flow, source, sink, most_effort);
    return flow->effort <= most_effort ? sum : -1;
}

/* --- memory of every schedule ----------------------------------------------------------------- */

/* A lower bound on the memory of every schedule is the largest of three. While a job runs, all its
 * operands are live. While the last of a job's inputs is made, all its other inputs are live
 * already; the least number of bytes over the inputs that may be the last is a bound. At the end,
 * held values and outputs are live together. Cost: O(operands of makers of inputs). */

static bool bound_in(const uint32_t *list, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

/* Bytes of operands and scratch memory of a job's first run. If the first output may take the
 * memory of an input, it is assumed to take it. */
static uint64_t bound_of_job(const tn__dag *dag, uint32_t job) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(dag, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(dag, job, false, &outputs);
    uint64_t sum = dag->jobs[job].scratch;
    for (uint32_t i = 0; i < inputs; i++) sum += dag->values[input[i]].bytes;
    for (uint32_t i = 0; i < outputs; i++)
        if (i > 0 || dag->jobs[job].inplace == TN_NONE) sum += dag->values[output[i]].bytes;
    return sum;
}

/* The padding by which a layout may be smaller than live bytes. */
static uint64_t bound_less(uint64_t bytes, uint32_t pad) { return bytes < pad ? bytes : pad; }

static uint32_t bound_most_pad(const tn__dag *dag, const uint32_t *list, uint32_t count,
                               uint32_t pad) {
    for (uint32_t i = 0; i < count; i++)
        if (dag->values[list[i]].pad > pad) pad = dag->values[list[i]].pad;
    return pad;
}

/* The largest padding of an operand or of scratch memory of a job's first run (or of a repeat). Any
 * of them may be the topmost buffer of a layout. */
static uint32_t bound_pad_of_job(const tn__dag *dag, uint32_t job, bool recompute) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(dag, job, recompute, &inputs);
    const uint32_t *output = tn__job_outputs(dag, job, recompute, &outputs);
    uint32_t pad = bound_most_pad(dag, input, inputs, dag->jobs[job].pad);
    return bound_most_pad(dag, output, outputs, pad);
}

/* Returns the bytes of operands and scratch memory of a job's first run (or of a repeat, with
 * `recompute`), if all values of a list are live, too. A value that is both an operand and in the
 * list counts once. */
static uint64_t bound_beside(const tn__dag *dag, uint32_t job, bool recompute, const uint32_t *list,
                             uint32_t count) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(dag, job, recompute, &inputs);
    const uint32_t *output = tn__job_outputs(dag, job, recompute, &outputs);
    uint64_t sum = dag->jobs[job].scratch, list_bytes = 0;
    for (uint32_t i = 0; i < inputs; i++)
        if (!bound_in(list, count, input[i])) sum += dag->values[input[i]].bytes;
    for (uint32_t i = 0; i < outputs; i++)
        if (!bound_in(list, count, output[i])) sum += dag->values[output[i]].bytes;
    for (uint32_t i = 0; i < count; i++) list_bytes += dag->values[list[i]].bytes;
    uint64_t shared = 0;
    if (dag->jobs[job].inplace != TN_NONE && outputs > 0) shared = dag->values[output[0]].bytes;
    sum += list_bytes;
    return sum > shared ? sum - shared : 0;
}

/* A lower bound on the live bytes, or with `layouts` on the bytes of a layout, while the last input
 * of a job is made, by a first run or a repeat. */
static uint64_t bound_of_inputs(const tn__dag *dag, uint32_t job, bool layouts) {
    uint32_t inputs;
    const uint32_t *input = tn__job_inputs(dag, job, false, &inputs);
    uint64_t least = UINT64_MAX;
    /* returns 0, which is no bound, for jobs with many inputs, to limit the cost */
    if (inputs > 64) return 0;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t maker = dag->values[input[i]].maker;
        if (maker == TN_NONE) continue;
        for (int recompute = 0; recompute < 2; recompute++) {
            uint64_t bytes = bound_beside(dag, maker, recompute != 0, input, inputs);
            uint32_t pad = bound_pad_of_job(dag, maker, recompute != 0);
            if (layouts) bytes -= bound_less(bytes, bound_most_pad(dag, input, inputs, pad));
            if (bytes < least) least = bytes;
        }
    }
    return least == UINT64_MAX ? 0 : least;
}

/* A lower bound on the peak of live bytes of every schedule, in any order and with any repeats, or
 * on the bytes of its layout (`layouts`). If `alone`, schedules with copies or codecs are excluded,
 * so that a value that cannot be recomputed counts until its last read. Cost: O(operands of makers
 * of inputs). */
static uint64_t bound_bytes(const tn__dag *dag, bool alone, bool layouts) {
    uint64_t least = 0, held = 0;
    uint32_t pad = 0;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        if (!(dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD))) continue;
        held += dag->values[v].bytes;
        pad = bound_most_pad(dag, &v, 1, pad);
    }
    least = held - (layouts ? bound_less(held, pad) : 0);
    for (uint32_t j = 0; j < dag->job_count; j++) {
        uint64_t own = bound_of_job(dag, j), before = alone ? bound_of_inputs(dag, j, layouts) : 0;
        if (layouts) own -= bound_less(own, bound_pad_of_job(dag, j, false));
        if (own > least) least = own;
        if (before > least) least = before;
    }
    return least;
}

/* --- jobs that are worth examining ------------------------------------------------------------ */

/* Selects the jobs that are worth examining: those during which the most bytes must be live or
 * recomputed later.
 *
 * If the order is fixed, the bytes of a job are those of the values that are made before it or by
 * it and read after it. If first runs may be reordered, a value is certain to be live across a job
 * only if the job or one of its ancestors makes it, and a descendant or the end reads it. Such
 * values are found for 64 jobs at a time, with a bit for each of the 64 jobs, beginning with the
 * jobs that need the most bytes in the fixed order. Cost: O(jobs + operands), and as much again for
 * every 64 jobs.
 */

typedef struct profile {
    const tn__dag *dag;
    uint64_t *bytes; /* [jobs] */
    /* [jobs] a bit for each of the 64 examined jobs: this job is an ancestor (above) or a
     * descendant (below) of the examined job */
    uint64_t *above, *below;
    /* [jobs] jobs in descending order of the bytes that they need in the fixed order */
    tn__sort_item *items;
} profile;

static void profile_list(profile *p) {
    const tn__dag *dag = p->dag;
    memset(p->bytes, 0, ((size_t)dag->job_count + 1) * sizeof *p->bytes);
    for (uint32_t v = 0; v < dag->value_count; v++) {
        const tn__dag_value *it = &dag->values[v];
        uint32_t first = it->maker == TN_NONE ? 0 : it->maker, last = first;
        if (tn__lists_count(&dag->reads, v) > 0) last = tn__lists_last(&dag->reads, v);
        if (it->flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) last = dag->job_count - 1;
        p->bytes[first] += it->bytes;
        p->bytes[last + 1] -= it->bytes;
    }
    for (uint32_t j = 1; j < dag->job_count; j++) p->bytes[j] += p->bytes[j - 1];
}

/* --- first runs in any order --- */

/* Returns the i-th job that must run before a job: makers of its inputs, then its ordering
 * constraints. TN_NONE: the i-th input exists from the start. */
static uint32_t profile_from(const tn__dag *dag, uint32_t job, uint32_t i) {
    const tn__job *it = &dag->jobs[job];
    if (i >= it->input_count) return dag->others[it->after_first + i - it->input_count];
    return dag->values[dag->operands[it->input_first + i]].maker;
}

static void profile_spread(profile *p) {
    const tn__dag *dag = p->dag;
    for (uint32_t j = dag->job_count; j-- > 0;)
        for (uint32_t i = 0; i < dag->jobs[j].input_count + dag->jobs[j].after_count; i++) {
            uint32_t from = profile_from(dag, j, i);
            if (from != TN_NONE) p->above[from] |= p->above[j];
        }
    for (uint32_t j = 0; j < dag->job_count; j++)
        for (uint32_t i = 0; i < dag->jobs[j].input_count + dag->jobs[j].after_count; i++) {
            uint32_t from = profile_from(dag, j, i);
            if (from != TN_NONE) p->below[j] |= p->below[from];
        }
}

/* Returns a bit for each of the 64 examined jobs across which a value is certain to be live, or of
 * which it is an operand. `all` has the bits of all of them. */
static uint64_t profile_crosses(const profile *p, uint32_t v, uint64_t all) {
    const tn__lists *reads = &p->dag->reads;
    const tn__dag_value *value = &p->dag->values[v];
    if (value->flags & (TN__VALUE_KEPT | TN__VALUE_HELD))
        return value->maker == TN_NONE ? all : p->above[value->maker];
    uint64_t read = 0;
    for (uint32_t i = reads->first[v]; i < reads->first[v + 1]; i++)
        read |= p->below[reads->items[i]];
    return value->maker == TN_NONE ? read : read & p->above[value->maker];
}

static void profile_cross(profile *p, const tn__sort_item *items, uint32_t count) {
    const tn__dag *dag = p->dag;
    uint64_t all = count == 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
    memset(p->above, 0, dag->job_count * sizeof *p->above);
    memset(p->below, 0, dag->job_count * sizeof *p->below);
    for (uint32_t i = 0; i < count; i++) {
        p->above[items[i].id] = p->below[items[i].id] = (uint64_t)1 << i;
        p->bytes[items[i].id] = 0;
    }
    profile_spread(p);
    for (uint32_t v = 0; v < dag->value_count; v++)
        for (uint64_t left = profile_crosses(p, v, all); left; left &= left - 1)
            p->bytes[items[__builtin_ctzll(left)].id] += dag->values[v].bytes;
}

static uint64_t profile_operands(const tn__dag *dag) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < dag->job_count; j++)
        sum += dag->jobs[j].input_count + dag->jobs[j].after_count;
    return sum;
}

/* Computes the bytes of as many jobs as `effort` allows; the bytes of the other jobs become 0.
 * Returns false if memory is exhausted. */
static bool profile_any_order(profile *p, uint64_t effort, const tn_context *context) {
    uint32_t jobs = p->dag->job_count, done = 0;
    uint64_t each = profile_operands(p->dag) + p->dag->value_count;
    for (uint32_t j = 0; j < jobs; j++) p->items[j] = (tn__sort_item){~p->bytes[j], j};
    if (!tn__sort_items(context, p->items, jobs)) return false;
    for (uint64_t spent = 0; done < jobs && spent <= effort; spent += each) {
        uint32_t count = jobs - done < 64 ? jobs - done : 64;
        profile_cross(p, p->items + done, count);
        done += count;
    }
    for (; done < jobs; done++) p->bytes[p->items[done].id] = 0;
    return true;
}

/* Returns the bytes that the first run of each job needs if no job is repeated, in any order of
 * first runs, or in the order of the list if `is_ordered`. `effort` limits the number of looks at
 * jobs and values; jobs that were not reached have 0. Returns NULL if memory is exhausted. */
static uint64_t *bound_profile(const tn__dag *dag, bool is_ordered, uint64_t effort,
                               tn__arena *arena, const tn_context *context) {
    profile p = {.dag = dag};
    size_t jobs = (size_t)dag->job_count + 1;
    p.bytes = tn__arena_array(arena, jobs, sizeof *p.bytes);
    if (p.bytes == NULL) return NULL;
    profile_list(&p);
    if (is_ordered) return p.bytes;
    p.above = tn__arena_array(arena, jobs, sizeof *p.above);
    p.below = tn__arena_array(arena, jobs, sizeof *p.below);
    p.items = tn__arena_array(arena, jobs, sizeof *p.items);
    if (p.above == NULL || p.below == NULL || p.items == NULL) return NULL;
    return profile_any_order(&p, effort, context) ? p.bytes : NULL;
}

/* --- time of every schedule ------------------------------------------------------------------- */

/* --- one job v --- */

typedef struct bound_state {
    tn__pass_run *run;
    const tn__dag *dag;
    tn__bound_flow flow;
    bool *before; /* [jobs] the job has certainly run when the examined job v has run */
    bool *behind; /* [jobs] the job has certainly not run when the examined job v begins */
    /* [values] a value that a job in `behind` reads, or that must be live at the end */
    bool *needed;
    /* [values] 1 + the arc that pays for keeping the value live; 0: the value is live in any case
     * and has no price; TN_NONE: the value has no part in the cut */
    uint32_t *arc_of;
    /* [jobs] the arc with the cost of a repeat of the job; TN_NONE: the job has no arc */
    uint32_t *arc_of_job;
    uint32_t *stack; /* [jobs] */
    /* [jobs] bytes that the job's first run needs (bound_profile); 0: the job was already
     * examined */
    uint64_t *order;
    bool is_ordered;
    double scale; /* factor from the unit of costs to the integer capacities of the flow network */
    uint64_t most;
    /* the following fields are data of v, the job that is examined */
    /* [values] decisions of the cut with the best bound: 1, the value stays live; -1, it is
     * recomputed; 0, neither. NULL: the caller does not need them */
    int8_t *row;
    /* the lower bound on additional time that the cut with the decisions `row` proves */
    double row_extra;
    int64_t room; /* bytes within the budget that remain for values that are not operands of v */
} bound_state;

enum { BOUND_SOURCE = 0, BOUND_SINK = 1, BOUND_JOBS = 2 };

static bool bound_repeats(const bound_state *s, uint32_t job) {
    const tn__job *it = &s->dag->jobs[job];
    if (!(it->flags & TN__JOB_REPEATS)) return false;
    for (uint32_t i = 0; i < it->limit_count; i++) {
        uint32_t limit = s->dag->others[it->limit_first + i];
        if (limit != job && s->before[limit]) return false;
    }
    return true;
}

static bool bound_can(const bound_state *s, uint32_t value) {
    uint32_t maker = s->dag->values[value].maker, outputs;
    if (maker == TN_NONE || !bound_repeats(s, maker)) return false;
    const uint32_t *output = tn__job_outputs(s->dag, maker, true, &outputs);
    for (uint32_t i = 0; i < outputs; i++)
        if (s->dag->values[output[i]].flags & TN__VALUE_HELD) return false;
    return bound_in(output, outputs, value);
}

/* Marks in `before` the job itself and its ancestors; used if first runs may be reordered. */
static void bound_find_before(bound_state *s, uint32_t job) {
    uint32_t count = 0;
    memset(s->before, 0, s->dag->job_count);
    s->before[job] = true;
    s->stack[count++] = job;
    while (count > 0) {
        uint32_t at = s->stack[--count], inputs;
        const tn__job *it = &s->dag->jobs[at];
        const uint32_t *input = tn__job_inputs(s->dag, at, false, &inputs);
        for (uint32_t i = 0; i < inputs + it->after_count; i++) {
            uint32_t from = i < inputs ? s->dag->values[input[i]].maker
                                       : s->dag->others[it->after_first + i - inputs];
            if (from == TN_NONE || s->before[from]) continue;
            s->before[from] = true;
            s->stack[count++] = from;
        }
    }
}

/* Marks in `behind` the descendants of a job: the jobs that read a value made by a marked job, or
 * must run after a marked job. One pass suffices, because the list of jobs is in a valid order. */
static void bound_find_behind(bound_state *s, uint32_t job) {
    memset(s->behind, 0, s->dag->job_count);
    s->behind[job] = true;
    for (uint32_t j = job + 1; j < s->dag->job_count; j++) {
        uint32_t inputs;
        const tn__job *it = &s->dag->jobs[j];
        const uint32_t *input = tn__job_inputs(s->dag, j, false, &inputs);
        for (uint32_t i = 0; i < inputs + it->after_count && !s->behind[j]; i++) {
            uint32_t from = i < inputs ? s->dag->values[input[i]].maker
                                       : s->dag->others[it->after_first + i - inputs];
            s->behind[j] = from != TN_NONE && s->behind[from];
        }
    }
    s->behind[job] = false;
}

static void bound_find_sides(bound_state *s, uint32_t job) {
    if (!s->is_ordered) {
        bound_find_before(s, job);
        bound_find_behind(s, job);
        return;
    }
    for (uint32_t j = 0; j < s->dag->job_count; j++) {
        s->before[j] = j <= job;
        s->behind[j] = j > job;
    }
}

static bool bound_is_before(const bound_state *s, uint32_t value) {
    uint32_t maker = s->dag->values[value].maker;
    return maker == TN_NONE || s->before[maker];
}

static void bound_find_needed(bound_state *s) {
    const tn__dag *dag = s->dag;
    for (uint32_t v = 0; v < dag->value_count; v++)
        s->needed[v] =
            dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD) && bound_is_before(s, v);
    for (uint32_t j = 0; j < dag->job_count; j++) {
        if (!s->behind[j]) continue;
        uint32_t inputs;
        const uint32_t *input = tn__job_inputs(dag, j, false, &inputs);
        for (uint32_t i = 0; i < inputs; i++) s->needed[input[i]] |= bound_is_before(s, input[i]);
    }
}

/* Finds the bytes that remain for the cut at job v: operands of v, and needed values that cannot be
 * recomputed, are live in any case, so they are subtracted from the budget and have no arc. */
static void bound_find_room(bound_state *s, uint32_t job) {
    const tn__dag *dag = s->dag;
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(dag, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(dag, job, false, &outputs);
    memset(s->arc_of, 0xff, dag->value_count * sizeof *s->arc_of);
    s->room = (int64_t)s->run->budget - (int64_t)bound_of_job(dag, job);
    for (uint32_t i = 0; i < inputs; i++) s->arc_of[input[i]] = 0; /* free */
    for (uint32_t i = 0; i < outputs; i++) s->arc_of[output[i]] = 0;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        if (!s->needed[v] || s->arc_of[v] == 0 || bound_can(s, v)) continue;
        s->room -= (int64_t)dag->values[v].bytes;
        s->arc_of[v] = 0;
    }
}

static int64_t bound_cost(const bound_state *s, uint32_t job) {
    return (int64_t)((double)s->dag->jobs[job].recompute_cost * s->scale);
}

/* Adds the arc of a needed value: a cut either pays for its bytes, or repeats its maker. */
static void bound_arc_of_value(bound_state *s, uint32_t value, uint32_t from) {
    uint32_t maker = s->dag->values[value].maker;
    uint32_t to = bound_can(s, value) ? BOUND_JOBS + maker : BOUND_SINK;
    s->arc_of[value] = flow_arc(&s->flow, from, to, 0) + 1;
}

static void bound_make_arcs(bound_state *s) {
    const tn__dag *dag = s->dag;
    uint32_t values = BOUND_JOBS + dag->job_count;
    flow_clear(&s->flow);
    for (uint32_t v = 0; v < dag->value_count; v++) {
        if (s->arc_of[v] == 0 || !bound_is_before(s, v)) continue;
        bound_arc_of_value(s, v, s->needed[v] ? BOUND_SOURCE : values + v);
    }
    for (uint32_t j = 0; j < dag->job_count; j++) {
        s->arc_of_job[j] = TN_NONE;
        if (!s->before[j] || !bound_repeats(s, j)) continue;
        uint32_t inputs;
        const uint32_t *input = tn__job_inputs(dag, j, true, &inputs);
        s->arc_of_job[j] = flow_arc(&s->flow, BOUND_JOBS + j, BOUND_SINK, 0);
        for (uint32_t i = 0; i < inputs; i++)
            if (s->arc_of[input[i]] != 0 && !s->needed[input[i]])
                flow_arc(&s->flow, BOUND_JOBS + j, values + input[i], TN__FLOW_MOST);
    }
}

/* --- prices --- */

/* the bound of a cut as a function of the price per byte, a line: the cost of its repeats, plus the
 * price times the bytes that it keeps live */
typedef struct bound_line {
    double cost, bytes;
    int64_t value;
} bound_line;

#define BOUND_PAID_MOST 0x1p52

/* Sets the capacities of all arcs for a price per byte. Price 0 means a price above all costs:
 * repeats are then free, and a cut counts only bytes. */
static void bound_set_price(bound_state *s, double price) {
    for (uint32_t v = 0; v < s->dag->value_count; v++) {
        if (s->arc_of[v] == 0 || s->arc_of[v] == TN_NONE) continue;
        double paid = (double)s->dag->values[v].bytes * price * (1 - 1e-12);
        int64_t whole = (int64_t)(paid < BOUND_PAID_MOST ? paid : BOUND_PAID_MOST);
        s->flow.full[s->arc_of[v] - 1] = price > 0 ? whole : (int64_t)s->dag->values[v].bytes;
    }
    for (uint32_t j = 0; j < s->dag->job_count; j++)
        if (s->arc_of_job[j] != TN_NONE)
            s->flow.full[s->arc_of_job[j]] = price > 0 ? bound_cost(s, j) : 0;
}

/* Finds the minimum cut for a price, and the cost and the bytes of its line. Returns false if the
 * flow exceeded its effort. */
static bool bound_cut(bound_state *s, double price, bound_line *line) {
    bound_set_price(s, price);
    *line = (bound_line){0};
    line->value = flow_cut(&s->flow, BOUND_SOURCE, BOUND_SINK, s->most);
    if (line->value < 0) return false;
    for (uint32_t j = 0; j < s->dag->job_count; j++)
        if (s->arc_of_job[j] != TN_NONE && s->flow.level[BOUND_JOBS + j] != TN_NONE)
            line->cost += (double)bound_cost(s, j);
    for (uint32_t v = 0; v < s->dag->value_count; v++) {
        if (s->arc_of[v] == 0 || s->arc_of[v] == TN_NONE) continue;
        uint32_t arc = s->arc_of[v] - 1;
        uint32_t from = s->flow.to[arc ^ 1], to = s->flow.to[arc];
        if (s->flow.level[from] != TN_NONE && s->flow.level[to] == TN_NONE)
            line->bytes += (double)s->dag->values[v].bytes;
    }
    return true;
}

/* Writes the decisions of the last cut into `row`. A value on the source's side of the cut is
 * recomputed, or stays live if its own arc is cut. */
static void bound_write_row(const bound_state *s) {
    memset(s->row, 0, s->dag->value_count * sizeof *s->row);
    for (uint32_t v = 0; v < s->dag->value_count; v++) {
        if (s->arc_of[v] == 0 || s->arc_of[v] == TN_NONE) continue;
        uint32_t arc = s->arc_of[v] - 1;
        uint32_t from = s->flow.to[arc ^ 1], to = s->flow.to[arc];
        if (s->flow.level[from] != TN_NONE) s->row[v] = s->flow.level[to] == TN_NONE ? 1 : -1;
    }
}

/* Raises the lower bound on time to the value that a cut proves for a price per byte, if that is
 * higher. Writes the decisions of the best cut so far into `row`, if the caller wants them. */
static void bound_take(bound_state *s, const bound_line *line, double price) {
    double free_bytes = (double)s->room * price * (1 + 1e-12) + 1;
    double extra = ((double)line->value - free_bytes) / s->scale * (1 - 1e-12);
    if (extra <= 0) return;
    if (s->row != NULL && extra > s->row_extra) {
        s->row_extra = extra;
        bound_write_row(s);
    }
    extra -= (double)s->dag->slack * price / s->scale; /* a bound on layouts, not on live bytes */
    if (extra <= 0) return;
    uint64_t whole = (uint64_t)extra;
    if ((double)whole < extra - 1e-6) whole++; /* round up, because costs are integers */
    tn__pass_raise_bound(s->run, tn__add_sat(s->dag->cost, whole));
}

/* Raises the lower bound by considering the first run of one job: finds the best price per byte,
 * between a price with a cut that keeps too many bytes live and one with a cut that keeps too few.
 * Returns E_INFEASIBLE if no choice of live values is within the budget during that run. */
static tn_status bound_moment(bound_state *s, uint32_t job) {
    bound_find_sides(s, job);
    bound_find_needed(s);
    bound_find_room(s, job);
    bound_make_arcs(s);
    if (s->room < 0) return TN_E_INFEASIBLE;
    bound_line many = {0}, few, now;
    for (uint32_t v = 0; v < s->dag->value_count; v++)
        if (s->arc_of[v] != 0 && s->arc_of[v] != TN_NONE && s->needed[v])
            many.bytes += (double)s->dag->values[v].bytes;
    if (many.bytes <= (double)s->room) return TN_OK;
    if (!bound_cut(s, 0, &few)) return TN_OK;
    if (few.value > s->room) return TN_E_INFEASIBLE;
    for (uint32_t i = 0; i < 24 && many.bytes > few.bytes; i++) {
        double price = (few.cost - many.cost) / (many.bytes - few.bytes);
        if (price <= 0 || !bound_cut(s, price, &now)) return TN_OK;
        bound_take(s, &now, price);
        double old = many.cost + price * many.bytes;
        if (now.cost + price * now.bytes >= old * (1 - 1e-9)) return TN_OK;
        if (now.bytes > (double)s->room)
            many = now;
        else
            few = now;
    }
    return TN_OK;
}

/* --- choice of jobs --- */

/* Returns the job that needs the most bytes of those not yet examined, and marks it and its
 * neighbours in the list as examined. TN_NONE: no further job needs more than the budget. */
static uint32_t bound_next_moment(bound_state *s) {
    uint32_t best = 0, count = s->dag->job_count;
    for (uint32_t j = 1; j < count; j++)
        if (s->order[j] > s->order[best]) best = j;
    if (s->order[best] <= s->run->budget) return TN_NONE;
    uint32_t near = count / 48;
    for (uint32_t j = best > near ? best - near : 0; j <= best + near && j < count; j++)
        s->order[j] = 0;
    return best;
}

static tn_status bound_room(bound_state *s) {
    const tn__dag *dag = s->dag;
    tn__arena *arena = s->run->arena;
    size_t jobs = (size_t)dag->job_count + 2, values = (size_t)dag->value_count + 1;
    uint64_t arcs = (uint64_t)values + jobs;
    for (uint32_t j = 0; j < dag->job_count; j++) arcs += dag->jobs[j].recompute_input_count;
    if (arcs >= TN_NONE / 2 || values + jobs + 2 >= TN_NONE) return TN_E_STOPPED;
    s->before = tn__arena_array(arena, jobs, sizeof *s->before);
    s->behind = tn__arena_array(arena, jobs, sizeof *s->behind);
    s->needed = tn__arena_array(arena, values, sizeof *s->needed);
    s->arc_of = tn__arena_array(arena, values, sizeof *s->arc_of);
    s->stack = tn__arena_array(arena, jobs, sizeof *s->stack);
    s->arc_of_job = tn__arena_array(arena, jobs, sizeof *s->arc_of_job);
    if (!flow_room(&s->flow, (uint32_t)(jobs + values + 2), (uint32_t)arcs, arena) ||
        s->before == NULL || s->behind == NULL || s->needed == NULL || s->arc_of == NULL ||
        s->stack == NULL || s->arc_of_job == NULL)
        return tn__no_memory(s->run->error, "a bound");
    return TN_OK;
}

/* Returns a factor for costs, so large that rounding prices to integers does not matter, and so
 * small that sums do not overflow. */
static double bound_scale(const tn__dag *dag) {
    double sum = 1;
    for (uint32_t j = 0; j < dag->job_count; j++) sum += (double)dag->jobs[j].recompute_cost;
    double scale = 1;
    while (sum * scale < 0x1p44) scale *= 2;
    while (sum * scale > 0x1p50) scale /= 2;
    return scale;
}

static tn_status bound_add_row(bound_state *s, tn__bound_advice *advice, uint32_t job) {
    uint32_t at = advice->count++;
    s->row = tn__arena_array(s->run->arena, (size_t)s->dag->value_count + 1, sizeof *s->row);
    s->row_extra = 0;
    if (s->row == NULL) return tn__no_memory(s->run->error, "advice");
    for (; at > 0 && advice->jobs[at - 1] > job; at--) {
        advice->jobs[at] = advice->jobs[at - 1];
        advice->rows[at] = advice->rows[at - 1];
    }
    advice->jobs[at] = job;
    advice->rows[at] = s->row;
    return TN_OK;
}

static tn_status bound_moments(bound_state *s, uint64_t effort, tn__bound_advice *advice) {
    const uint32_t most = s->dag->job_count < TN__BOUND_MOMENTS ? TN__BOUND_MOMENTS : 16;
    s->order = bound_profile(s->dag, s->is_ordered, effort / 4, s->run->arena, &s->run->context);
    if (s->order == NULL) return tn__no_memory(s->run->error, "a bound");
    for (uint32_t i = 0; i < most && s->flow.effort < effort; i++) {
        uint32_t job = bound_next_moment(s);
        if (job == TN_NONE) return TN_OK;
        uint64_t before = s->flow.effort;
        if (advice != NULL) TN_TRY(bound_add_row(s, advice, job));
        TN_TRY(bound_moment(s, job));
        TN_TRY(tn__pass_work(s->run, (s->flow.effort - before) / 4));
    }
    return TN_OK;
}

static tn_status bound_look(tn__pass_run *run, uint64_t effort, bool is_ordered,
                            tn__bound_advice *advice) {
    const tn__dag *dag = run->dag;
    if (dag->job_count == 0 || dag->cost > (uint64_t)1 << 60) return TN_OK;
    bound_state s = {.run = run, .dag = dag, .most = effort, .scale = bound_scale(dag)};
    s.is_ordered = is_ordered;
    TN_TRY(bound_room(&s));
    return bound_moments(&s, effort, advice);
}

tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort) {
    const tn__dag *dag = run->dag;
    bool alone = !(run->allow & (TN__ALLOW_SWAP | TN__ALLOW_COMPRESS));
    uint64_t least = bound_bytes(dag, alone, true);
    if (least > run->least_bytes) run->least_bytes = least;
    tn__pass_raise_bound(run, dag->cost);
    if (bound_bytes(dag, alone, false) > run->budget) return TN_E_INFEASIBLE;
    if (!alone) return TN_OK;
    return bound_look(run, effort, dag->is_ordered || !(run->allow & TN__ALLOW_ORDER), NULL);
}

tn_status tn__bound_advise(tn__pass_run *run, uint64_t effort, tn__bound_advice *advice) {
    uint64_t bound = run->bound;
    *advice = (tn__bound_advice){0};
    tn_status status = bound_look(run, effort, true, advice);
    run->bound = bound;
    return status == TN_E_INFEASIBLE ? TN_OK : status;
}
