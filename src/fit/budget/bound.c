/* bound.c - lower bounds on the time of every schedule within a budget.
 *
 * Consider the first run of a job v. Some values are made by jobs that have run by then (all jobs
 * before it if the order is fixed, otherwise its ancestors) and are read by jobs that have not (all
 * jobs after it; its descendants; the end). Each of these values is either live at that moment, or
 * recomputed later by a repeat of its maker. The inputs of that repeat are live or recomputed in
 * turn. Therefore
 *
 *     extra time  >=  least cost of repeats, such that the live values fit the budget
 *
 * With a price on bytes instead of the budget, the minimum is a minimum cut: a repeat pulls in its
 * inputs, and a needed value is paid for if its maker is not repeated. Therefore
 *
 *     extra time  >=  cut(price) - price * bytes that are free next to v
 *
 * for every price (Lagrangian relaxation). The best price is at the intersection of two cuts' lines
 * and is found after a few cuts. Values that are certain on neither side are left out, which can
 * only lower the bound. Cost: a few flows for each examined v; the jobs that need the most bytes
 * without repeats are examined.
 */
#include "fit/budget/bound.h"

#include <inttypes.h>

/* --- one job v ------------------------------------------------------------------------------ */

typedef struct bound_state {
    tn__pass_run *run;
    const tn__work *work;
    tn__bound_flow flow;
    bool *before;         /* [jobs] has certainly run after v has run */
    bool *behind;         /* [jobs] has certainly not run when v begins */
    bool *needed;         /* [values] read by jobs in `behind`, or live at the end */
    uint32_t *arc_of;     /* [values] 1 + the arc that pays for it; 0: free; TN_NONE */
    uint32_t *arc_of_job; /* [jobs] the arc of its cost; TN_NONE */
    uint32_t *stack;      /* [jobs] */
    uint64_t *order;      /* [jobs] tn__bound_profile; 0: already examined */
    bool is_ordered;
    double scale; /* factor for costs in the flow */
    uint64_t most;
    /* data of the current job v */
    int8_t *row;      /* [values] decision of the cut with the best bound; NULL: not requested */
    double row_extra; /* the bound that this cut proves */
    int64_t room;     /* free bytes for values that are not operands of v */
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
    return tn__bound_in(output, outputs, value);
}

/* The job itself and its ancestors, if first runs may be reordered. */
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

/* The descendants: jobs with an input or an ordering constraint from `behind`. Jobs stand in a
 * valid order. */
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

/* Operands of v are live in any case, and so are needed values that cannot be recomputed. */
static void bound_find_room(bound_state *s, uint32_t job) {
    const tn__work *work = s->work;
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(work, job, false, &inputs);
    const uint32_t *output = tn__job_outputs(work, job, false, &outputs);
    memset(s->arc_of, 0xff, work->value_count * sizeof *s->arc_of);
    s->room = (int64_t)s->run->budget - (int64_t)tn__bound_of_job(work, job);
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

/* The arc of a needed value: pay for it, or repeat its maker. */
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

typedef struct bound_line { /* a cut: the cost of repeats, and the bytes paid for */
    double cost, bytes;
    int64_t value;
} bound_line;

#define BOUND_PAID_MOST 0x1p52

/* A price of 0 stands for a price above all costs: repeats are free, and only bytes are paid
 * for. */
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

/* False: the flow exceeded its effort. */
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

/* On the source's side, a value is free or recomputed; a value with a cut arc is paid for. */
static void bound_write_row(const bound_state *s) {
    memset(s->row, 0, s->work->value_count * sizeof *s->row);
    for (uint32_t v = 0; v < s->work->value_count; v++) {
        if (s->arc_of[v] == 0 || s->arc_of[v] == TN_NONE) continue;
        uint32_t arc = s->arc_of[v] - 1;
        uint32_t from = s->flow.to[arc ^ 1], to = s->flow.to[arc];
        if (s->flow.level[from] != TN_NONE) s->row[v] = s->flow.level[to] == TN_NONE ? 1 : -1;
    }
}

/* Raises the bound to the value that a cut proves, in the unit of costs. */
static void bound_take(bound_state *s, const bound_line *line, double price) {
    double free_bytes = (double)s->room * price * (1 + 1e-12) + 1;
    double extra = ((double)line->value - free_bytes) / s->scale * (1 - 1e-12);
    if (extra <= 0) return;
    if (s->row != NULL && extra > s->row_extra) {
        s->row_extra = extra;
        bound_write_row(s);
    }
    uint64_t whole = (uint64_t)extra;
    if ((double)whole < extra - 1e-6) whole++; /* costs are integers */
    tn__pass_raise_bound(s->run, tn__add_sat(s->work->cost, whole));
}

/* Finds the best price for the first job, between a line that pays for too many bytes and one that
 * pays for too few. */
static tn_status bound_moment(bound_state *s, uint32_t job) {
    bound_find_sides(s, job);
    bound_find_needed(s);
    bound_find_room(s, job);
    bound_make_arcs(s);
    if (s->room < 0) return TN_E_INFEASIBLE;
    bound_line many = {0}, few, now;
    for (uint32_t v = 0; v < s->work->value_count; v++)
        if (s->arc_of[v] != 0 && s->arc_of[v] != TN_NONE && s->needed[v])
            many.bytes += (double)s->work->values[v].bytes;
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

/* --- choice of jobs ------------------------------------------------------------------------- */

/* The remaining job with the most bytes; jobs near it are not examined again. */
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
    if (arcs >= TN_NONE / 2 || values + jobs + 2 >= TN_NONE) return TN_E_STOPPED;
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

/* Scales costs so that prices are fine enough and sums stay far from overflow. */
static double bound_scale(const tn__work *work) {
    double sum = 1;
    for (uint32_t j = 0; j < work->job_count; j++) sum += (double)work->jobs[j].again_cost;
    double scale = 1;
    while (sum * scale < 0x1p44) scale *= 2;
    while (sum * scale > 0x1p50) scale /= 2;
    return scale;
}

static tn_status bound_add_row(bound_state *s, tn__bound_advice *advice, uint32_t job) {
    uint32_t at = advice->count++;
    s->row = tn__arena_array(s->run->arena, (size_t)s->work->value_count + 1, sizeof *s->row);
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
    const uint32_t most = s->work->job_count < TN__BOUND_MOMENTS ? TN__BOUND_MOMENTS : 16;
    s->order =
        tn__bound_profile(s->work, s->is_ordered, effort / 4, s->run->arena, &s->run->context);
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
    const tn__work *work = run->work;
    if (work->job_count == 0 || work->cost > (uint64_t)1 << 60) return TN_OK;
    bound_state s = {.run = run, .work = work, .most = effort, .scale = bound_scale(work)};
    s.is_ordered = is_ordered;
    TN_TRY(bound_room(&s));
    return bound_moments(&s, effort, advice);
}

tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort) {
    const tn__work *work = run->work;
    bool alone = !(run->allow & (TN__ALLOW_SWAP | TN__ALLOW_COMPRESS));
    uint64_t least = tn__bound_bytes(work, alone);
    if (least > run->least_bytes) run->least_bytes = least;
    tn__pass_raise_bound(run, work->cost);
    if (least > run->budget) return TN_E_INFEASIBLE;
    if (!alone) return TN_OK;
    return bound_look(run, effort, work->is_ordered || !(run->allow & TN__ALLOW_ORDER), NULL);
}

tn_status tn__bound_advise(tn__pass_run *run, uint64_t effort, tn__bound_advice *advice) {
    uint64_t bound = run->bound;
    *advice = (tn__bound_advice){0};
    tn_status status = bound_look(run, effort, true, advice);
    run->bound = bound;
    return status == TN_E_INFEASIBLE ? TN_OK : status;
}
