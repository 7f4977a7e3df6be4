/* bound.c - proofs that something cannot be done with less.
 *
 * Bytes. While a job runs, its operands are there. And while the last of its inputs is made, all
 * the others are there already, so the least over which one is the last counts, too.
 *
 * Time. Look at a job v when it runs for the first time. What has run by then (all before it where
 * the order is fixed, else its ancestors) and is read by what has not (all behind it; its
 * descendants; the end) is there at that moment, or will be made again, by running its maker again,
 * which reads what is there or made again in turn. So
 *
 *     extra time  >=  least cost of jobs that run again, such that what is there fits the budget
 *
 * With a price on bytes in place of the budget this is a least cut (jobs that run again pull in
 * what they read; a value is paid for where it is needed and its maker does not run again), and
 *
 *     extra time  >=  cut(price) - price * bytes that are free beside v
 *
 * for every price (Lagrange). The best price is where two cuts' lines meet, a few cuts away. Values
 * that neither side is bound to are left out, which can only lower the bound.
 * Cost: a few flows for each v that is looked at; those v where keeping all takes most.
 */
#include "budget/bound.h"

#include <inttypes.h>

/* --- bytes ---------------------------------------------------------------------------------- */

static bool bound_in(const uint32_t *list, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

/* Operands and scratch of a first run; an output that may take an input's memory does. */
static uint64_t bound_of_job(const tn__work *work, uint32_t job) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(work, job, false, &outputs);
    uint64_t sum = work->jobs[job].scratch;
    for (uint32_t i = 0; i < inputs; i++) sum += work->values[input[i]].bytes;
    for (uint32_t i = 0; i < outputs; i++)
        if (i > 0 || work->jobs[job].inplace == TN_NONE) sum += work->values[output[i]].bytes;
    return sum;
}

/* The same of any run, without what is in a list. */
static uint64_t bound_beside(const tn__work *work, uint32_t job, bool again, const uint32_t *list,
                             uint32_t count) {
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, again, &inputs);
    const uint32_t *output = tn__job_outputs(work, job, again, &outputs);
    uint64_t sum = work->jobs[job].scratch, list_bytes = 0;
    for (uint32_t i = 0; i < inputs; i++)
        if (!bound_in(list, count, input[i])) sum += work->values[input[i]].bytes;
    for (uint32_t i = 0; i < outputs; i++)
        if (!bound_in(list, count, output[i])) sum += work->values[output[i]].bytes;
    for (uint32_t i = 0; i < count; i++) list_bytes += work->values[list[i]].bytes;
    uint64_t shared = 0;
    if (work->jobs[job].inplace != TN_NONE && outputs > 0) shared = work->values[output[0]].bytes;
    sum += list_bytes;
    return sum > shared ? sum - shared : 0;
}

/* While the last input of a job is made, by whichever run. */
static uint64_t bound_of_inputs(const tn__work *work, uint32_t job) {
    uint32_t inputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    uint64_t least = UINT64_MAX;
    if (inputs > 64) return 0; /* benign */
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t maker = work->values[input[i]].maker;
        if (maker == TN_NONE) continue;
        uint64_t first = bound_beside(work, maker, false, input, inputs);
        uint64_t again = bound_beside(work, maker, true, input, inputs);
        if (first < least) least = first;
        if (again < least) least = again;
    }
    return least == UINT64_MAX ? 0 : least;
}

uint64_t tn__bound_bytes(const tn__work *work, bool alone) {
    uint64_t least = 0, held = 0;
    for (uint32_t v = 0; v < work->value_count; v++)
        if (work->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD))
            held += work->values[v].bytes;
    least = held;
    for (uint32_t j = 0; j < work->job_count; j++) {
        uint64_t own = bound_of_job(work, j), before = alone ? bound_of_inputs(work, j) : 0;
        if (own > least) least = own;
        if (before > least) least = before;
    }
    return least;
}

/* --- one moment ----------------------------------------------------------------------------- */

typedef struct bound_state {
    tn__pass_run *run;
    const tn__work *work;
    tn__flow flow;
    bool *before;         /* [jobs] has run when v has */
    bool *behind;         /* [jobs] has not when v begins */
    bool *needed;         /* [values] by those behind, or at the end */
    uint32_t *arc_of;     /* [values] the arc that pays for it; TN_NONE */
    uint32_t *arc_of_job; /* [jobs] the arc of its cost; TN_NONE */
    uint32_t *stack;      /* [jobs] */
    uint64_t *order;      /* [jobs] tn__bound_profile; 0: looked at */
    bool is_ordered;
    double scale; /* costs are multiplied by it */
    uint64_t most;
    /* of the moment */
    int64_t room; /* bytes that are free for what is not an operand of v */
} bound_state;

enum { BOUND_SOURCE = 0, BOUND_SINK = 1, BOUND_JOBS = 2 };

static bool bound_repeats(const bound_state *s, uint32_t job) {
    const tn__job *it = &s->work->jobs[job];
    if (!(it->flags & TN__JOB_REPEATS)) return false;
    for (uint32_t i = 0; i < it->limit_count; i++) {
        uint32_t limit = s->work->others[it->limit_first + i];
        if (limit != job && s->before[limit]) return false;
    }
    return true;
}

static bool bound_can(const bound_state *s, uint32_t value) {
    uint32_t maker = s->work->values[value].maker, outputs;
    if (maker == TN_NONE || !bound_repeats(s, maker)) return false;
    const uint32_t *output = tn__job_outputs(s->work, maker, true, &outputs);
    for (uint32_t i = 0; i < outputs; i++)
        if (s->work->values[output[i]].flags & TN__VALUE_HELD) return false;
    return bound_in(output, outputs, value);
}

/* Ancestors of a job and itself, where first runs may change places. */
static void bound_find_before(bound_state *s, uint32_t job) {
    uint32_t count = 0;
    memset(s->before, 0, s->work->job_count);
    s->before[job] = true;
    s->stack[count++] = job;
    while (count > 0) {
        uint32_t at = s->stack[--count], inputs;
        const tn__job *it = &s->work->jobs[at];
        const uint32_t *input = tn__job_inputs(s->work, at, false, &inputs);
        for (uint32_t i = 0; i < inputs + it->after_count; i++) {
            uint32_t from = i < inputs ? s->work->values[input[i]].maker
                                       : s->work->others[it->after_first + i - inputs];
            if (from == TN_NONE || s->before[from]) continue;
            s->before[from] = true;
            s->stack[count++] = from;
        }
    }
}

/* Descendants: an input, or what must have run, is behind. Jobs are in an order. */
static void bound_find_behind(bound_state *s, uint32_t job) {
    memset(s->behind, 0, s->work->job_count);
    s->behind[job] = true;
    for (uint32_t j = job + 1; j < s->work->job_count; j++) {
        uint32_t inputs;
        const tn__job *it = &s->work->jobs[j];
        const uint32_t *input = tn__job_inputs(s->work, j, false, &inputs);
        for (uint32_t i = 0; i < inputs + it->after_count && !s->behind[j]; i++) {
            uint32_t from = i < inputs ? s->work->values[input[i]].maker
                                       : s->work->others[it->after_first + i - inputs];
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
    for (uint32_t j = 0; j < s->work->job_count; j++) {
        s->before[j] = j <= job;
        s->behind[j] = j > job;
    }
}

static bool bound_is_before(const bound_state *s, uint32_t value) {
    uint32_t maker = s->work->values[value].maker;
    return maker == TN_NONE || s->before[maker];
}

static void bound_find_needed(bound_state *s) {
    const tn__work *work = s->work;
    for (uint32_t v = 0; v < work->value_count; v++)
        s->needed[v] =
            work->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD) && bound_is_before(s, v);
    for (uint32_t j = 0; j < work->job_count; j++) {
        if (!s->behind[j]) continue;
        uint32_t inputs;
        const uint32_t *input = tn__job_inputs(work, j, false, &inputs);
        for (uint32_t i = 0; i < inputs; i++) s->needed[input[i]] |= bound_is_before(s, input[i]);
    }
}

/* Operands of v are there anyway, and what cannot be made again is, where it is needed. */
static void bound_find_room(bound_state *s, uint32_t job) {
    const tn__work *work = s->work;
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(work, job, false, &outputs);
    memset(s->arc_of, 0xff, work->value_count * sizeof *s->arc_of);
    s->room = (int64_t)s->run->budget - (int64_t)bound_of_job(work, job);
    for (uint32_t i = 0; i < inputs; i++) s->arc_of[input[i]] = 0; /* free */
    for (uint32_t i = 0; i < outputs; i++) s->arc_of[output[i]] = 0;
    for (uint32_t v = 0; v < work->value_count; v++) {
        if (!s->needed[v] || s->arc_of[v] == 0 || bound_can(s, v)) continue;
        s->room -= (int64_t)work->values[v].bytes;
        s->arc_of[v] = 0;
    }
}

static int64_t bound_cost(const bound_state *s, uint32_t job) {
    return (int64_t)((double)s->work->jobs[job].again_cost * s->scale);
}

/* What a needed value takes: to be paid for, or its maker's running again. */
static void bound_arc_of_value(bound_state *s, uint32_t value, uint32_t from) {
    uint32_t maker = s->work->values[value].maker;
    uint32_t to = bound_can(s, value) ? BOUND_JOBS + maker : BOUND_SINK;
    s->arc_of[value] = tn__flow_arc(&s->flow, from, to, 0) + 1;
}

static void bound_make_arcs(bound_state *s) {
    const tn__work *work = s->work;
    uint32_t values = BOUND_JOBS + work->job_count;
    tn__flow_clear(&s->flow);
    for (uint32_t v = 0; v < work->value_count; v++) {
        if (s->arc_of[v] == 0 || !bound_is_before(s, v)) continue;
        bound_arc_of_value(s, v, s->needed[v] ? BOUND_SOURCE : values + v);
    }
    for (uint32_t j = 0; j < work->job_count; j++) {
        s->arc_of_job[j] = TN_NONE;
        if (!s->before[j] || !bound_repeats(s, j)) continue;
        uint32_t inputs;
        const uint32_t *input = tn__job_inputs(work, j, true, &inputs);
        s->arc_of_job[j] = tn__flow_arc(&s->flow, BOUND_JOBS + j, BOUND_SINK, 0);
        for (uint32_t i = 0; i < inputs; i++)
            if (s->arc_of[input[i]] != 0 && !s->needed[input[i]])
                tn__flow_arc(&s->flow, BOUND_JOBS + j, values + input[i], TN__FLOW_MOST);
    }
}

/* --- prices --------------------------------------------------------------------------------- */

typedef struct bound_line { /* of a cut: what runs again, and bytes that are paid for */
    double cost, bytes;
    int64_t value;
} bound_line;

#define BOUND_PAID_MOST 0x1p52

/* A price of 0 stands for one above all costs: running again is free, bytes are paid for. */
static void bound_set_price(bound_state *s, double price) {
    for (uint32_t v = 0; v < s->work->value_count; v++) {
        if (s->arc_of[v] == 0 || s->arc_of[v] == TN_NONE) continue;
        double paid = (double)s->work->values[v].bytes * price * (1 - 1e-12);
        int64_t whole = (int64_t)(paid < BOUND_PAID_MOST ? paid : BOUND_PAID_MOST);
        s->flow.full[s->arc_of[v] - 1] = price > 0 ? whole : (int64_t)s->work->values[v].bytes;
    }
    for (uint32_t j = 0; j < s->work->job_count; j++)
        if (s->arc_of_job[j] != TN_NONE)
            s->flow.full[s->arc_of_job[j]] = price > 0 ? bound_cost(s, j) : 0;
}

/* False: it takes too long. */
static bool bound_cut(bound_state *s, double price, bound_line *line) {
    bound_set_price(s, price);
    *line = (bound_line){0};
    line->value = tn__flow_cut(&s->flow, BOUND_SOURCE, BOUND_SINK, s->most);
    if (line->value < 0) return false;
    for (uint32_t j = 0; j < s->work->job_count; j++)
        if (s->arc_of_job[j] != TN_NONE && s->flow.level[BOUND_JOBS + j] != TN_NONE)
            line->cost += (double)bound_cost(s, j);
    for (uint32_t v = 0; v < s->work->value_count; v++) {
        if (s->arc_of[v] == 0 || s->arc_of[v] == TN_NONE) continue;
        uint32_t arc = s->arc_of[v] - 1;
        uint32_t from = s->flow.to[arc ^ 1], to = s->flow.to[arc];
        if (s->flow.level[from] != TN_NONE && s->flow.level[to] == TN_NONE)
            line->bytes += (double)s->work->values[v].bytes;
    }
    return true;
}

/* What a cut proves, in the unit of costs. */
static void bound_take(bound_state *s, const bound_line *line, double price) {
    double free_bytes = (double)s->room * price * (1 + 1e-12) + 1;
    double extra = ((double)line->value - free_bytes) / s->scale * (1 - 1e-12);
    if (extra <= 0) return;
    uint64_t whole = (uint64_t)extra;
    if ((double)whole < extra - 1e-6) whole++; /* costs are integers */
    tn__pass_raise_bound(s->run, tn__add_sat(s->work->cost, whole));
}

/* The first job's best price. Two lines, one that pays for too many bytes, one for too few. */
static tn_status bound_moment(bound_state *s, uint32_t job) {
    bound_find_sides(s, job);
    bound_find_needed(s);
    bound_find_room(s, job);
    bound_make_arcs(s);
    if (s->room < 0) TN_FAIL(s->run->error, TN_E_INFEASIBLE, "job %u needs more", job);
    bound_line many = {0}, few, now;
    for (uint32_t v = 0; v < s->work->value_count; v++)
        if (s->arc_of[v] != 0 && s->arc_of[v] != TN_NONE && s->needed[v])
            many.bytes += (double)s->work->values[v].bytes;
    if (many.bytes <= (double)s->room) return TN_OK;
    if (!bound_cut(s, 0, &few)) return TN_OK;
    if (few.value > s->room)
        TN_FAIL(s->run->error, TN_E_INFEASIBLE, "what job %u needs beside it takes more", job);
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

/* --- which moments -------------------------------------------------------------------------- */

/* The largest that is left; those near it are not asked again. */
static uint32_t bound_next_moment(bound_state *s) {
    uint32_t best = 0, count = s->work->job_count;
    for (uint32_t j = 1; j < count; j++)
        if (s->order[j] > s->order[best]) best = j;
    if (s->order[best] <= s->run->budget) return TN_NONE;
    uint32_t near = count / 48;
    for (uint32_t j = best > near ? best - near : 0; j <= best + near && j < count; j++)
        s->order[j] = 0;
    return best;
}

static tn_status bound_room(bound_state *s) {
    const tn__work *work = s->work;
    tn__arena *arena = s->run->arena;
    size_t jobs = (size_t)work->job_count + 2, values = (size_t)work->value_count + 1;
    uint64_t arcs = (uint64_t)values + jobs;
    for (uint32_t j = 0; j < work->job_count; j++) arcs += work->jobs[j].again_input_count;
    if (arcs >= TN_NONE / 2 || values + jobs + 2 >= TN_NONE)
        TN_FAIL(s->run->error, TN_E_STOPPED, "too large to be bounded");
    s->before = tn__arena_array(arena, jobs, sizeof *s->before);
    s->behind = tn__arena_array(arena, jobs, sizeof *s->behind);
    s->needed = tn__arena_array(arena, values, sizeof *s->needed);
    s->arc_of = tn__arena_array(arena, values, sizeof *s->arc_of);
    s->stack = tn__arena_array(arena, jobs, sizeof *s->stack);
    s->arc_of_job = tn__arena_array(arena, jobs, sizeof *s->arc_of_job);
    if (!tn__flow_room(&s->flow, (uint32_t)(jobs + values + 2), (uint32_t)arcs, arena) ||
        s->before == NULL || s->behind == NULL || s->needed == NULL || s->arc_of == NULL ||
        s->stack == NULL || s->arc_of_job == NULL)
        return tn__no_memory(s->run->error, "a bound");
    return TN_OK;
}

/* Costs in so many parts that prices are fine, and sums far from overflow. */
static double bound_scale(const tn__work *work) {
    double sum = 1;
    for (uint32_t j = 0; j < work->job_count; j++) sum += (double)work->jobs[j].again_cost;
    double scale = 1;
    while (sum * scale < 0x1p44) scale *= 2;
    while (sum * scale > 0x1p50) scale /= 2;
    return scale;
}

static tn_status bound_moments(bound_state *s, uint64_t effort) {
    const uint32_t most = s->work->job_count < 64 ? 64 : 16;
    s->order =
        tn__bound_profile(s->work, s->is_ordered, effort / 4, s->run->arena, &s->run->context);
    if (s->order == NULL) return tn__no_memory(s->run->error, "a bound");
    for (uint32_t i = 0; i < most && s->flow.effort < effort; i++) {
        uint32_t job = bound_next_moment(s);
        if (job == TN_NONE) return TN_OK;
        uint64_t before = s->flow.effort;
        tn_status status = bound_moment(s, job);
        if (status != TN_OK) return status;
        TN_TRY(tn__pass_work(s->run, (s->flow.effort - before) / 4));
    }
    return TN_OK;
}

tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort) {
    const tn__work *work = run->work;
    bool alone = !(run->allow & (TN__ALLOW_SWAP | TN__ALLOW_COMPRESS));
    uint64_t least = tn__bound_bytes(work, alone);
    if (least > run->least_bytes) run->least_bytes = least;
    tn__pass_raise_bound(run, work->cost);
    if (least > run->budget)
        TN_FAIL(run->error, TN_E_INFEASIBLE, "at least %" PRIu64 " bytes", least);
    if (!alone || work->job_count == 0 || work->cost > (uint64_t)1 << 60) return TN_OK;
    bound_state s = {.run = run, .work = work, .most = effort, .scale = bound_scale(work)};
    s.is_ordered = work->is_ordered || !(run->allow & TN__ALLOW_ORDER);
    TN_TRY(bound_room(&s));
    return bound_moments(&s, effort);
}
