/* kit_judge.h - schedules judged, and small works solved, by trying: nothing of src/fit/budget is
 * used but what a work and a schedule are.
 *
 * Judged: a table says which action defines and which reads what; who lives at an action is looked
 * up there, action by action. Solved: every set of values and of jobs that ran is a point, every
 * run and every value given up a step; the cheapest way through all of them.
 */
#ifndef TN_TESTS_BUDGET_KIT_JUDGE_H
#define TN_TESTS_BUDGET_KIT_JUDGE_H

#include "kit.h"

typedef struct judged {
    bool is_valid;
    uint64_t peak, cost, out_bytes, in_bytes, host_peak;
} judged;

/* Rows are actions and, behind them, the end; columns values and, behind them, their encoded forms.
 */
typedef struct judge_table { /* [rows * columns] */
    const tn__dag *dag;
    const tn__schedule *schedule;
    uint32_t columns;
    uint8_t *defines, *reads;
    uint64_t *sizes; /* of what is defined there */
    bool *there, *leaving, *ran, *away;
    uint8_t *codecs;
} judge_table;

static inline size_t judge_cell(const judge_table *t, uint32_t action, uint32_t column) {
    return (size_t)action * t->columns + column;
}

static inline void judge_define(judge_table *t, uint32_t action, uint32_t column, uint64_t bytes) {
    t->defines[judge_cell(t, action, column)] = 1;
    t->sizes[judge_cell(t, action, column)] = bytes;
    t->there[column] = true;
}

static inline bool judge_reads(judge_table *t, uint32_t action, uint32_t column) {
    t->reads[judge_cell(t, action, column)] = 1;
    return t->there[column];
}

static inline bool judge_may_run(const judge_table *t, uint32_t job) {
    const tn__dag *dag = t->dag;
    const tn__job *it = &dag->jobs[job];
    for (uint32_t i = 0; i < it->after_count; i++)
        if (!t->ran[dag->others[it->after_first + i]]) return false;
    for (uint32_t i = 0; i < it->limit_count; i++) {
        uint32_t limit = dag->others[it->limit_first + i];
        if (t->ran[limit] && limit != job) return false;
    }
    if (t->ran[job]) return (it->flags & TN__JOB_REPEATS) != 0;
    for (uint32_t j = 0; dag->is_ordered && j < job; j++)
        if (!t->ran[j]) return false;
    return true;
}

static inline bool judge_run(judge_table *t, uint32_t action, uint32_t job, judged *result) {
    if (job >= t->dag->job_count || !judge_may_run(t, job)) return false;
    bool recompute = t->ran[job];
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(t->dag, job, recompute, &inputs);
    const uint32_t *output = tn__job_outputs(t->dag, job, recompute, &outputs);
    for (uint32_t i = 0; i < inputs; i++)
        if (!judge_reads(t, action, input[i])) return false;
    for (uint32_t i = 0; i < outputs; i++) {
        const tn__dag_value *value = &t->dag->values[output[i]];
        if (t->leaving[output[i]] || (recompute && (value->flags & TN__VALUE_HELD))) return false;
        judge_define(t, action, output[i], value->bytes);
    }
    result->cost += recompute ? t->dag->jobs[job].recompute_cost : t->dag->jobs[job].cost;
    t->ran[job] = true;
    return true;
}

static inline bool judge_copy(judge_table *t, uint32_t action, const tn__action *it,
                              judged *result) {
    uint32_t v = it->what;
    const tn__dag_value *value = &t->dag->values[v];
    if (it->kind == TN__OUT) {
        if (!(value->flags & TN__VALUE_COPIES) || (value->flags & TN__VALUE_HELD)) return false;
        if (t->leaving[v] || !judge_reads(t, action, v)) return false;
        t->leaving[v] = t->away[v] = true;
        result->out_bytes += value->bytes;
        return true;
    }
    if (it->kind == TN__SETTLE) {
        if (!t->leaving[v] || !judge_reads(t, action, v)) return false;
        t->leaving[v] = t->there[v] = false;
        return true;
    }
    if (t->leaving[v] || !t->away[v]) return false;
    judge_define(t, action, v, value->bytes);
    result->in_bytes += value->bytes;
    return true;
}

static inline bool judge_code(judge_table *t, uint32_t action, const tn__action *it) {
    uint32_t v = it->what, form = t->dag->value_count + v;
    if (it->kind == TN__ENCODE) {
        if ((t->dag->values[v].flags & TN__VALUE_HELD) || !judge_reads(t, action, v)) return false;
        judge_define(t, action, form, it->bytes);
        t->codecs[v] = it->codec;
        return true;
    }
    if (it->kind != TN__DECODE || t->leaving[v] || t->codecs[v] != it->codec) return false;
    if (!judge_reads(t, action, form)) return false;
    judge_define(t, action, v, t->dag->values[v].bytes);
    return true;
}

static inline bool judge_all(judge_table *t, judged *result) {
    const tn__dag *dag = t->dag;
    uint32_t count = t->schedule->count;
    for (uint32_t v = 0; v < dag->value_count; v++)
        if (dag->values[v].maker == TN_NONE) judge_define(t, 0, v, dag->values[v].bytes);
    for (uint32_t action = 0; action < count; action++) {
        const tn__action *it = &t->schedule->actions[action];
        bool good = it->kind == TN__RUN            ? judge_run(t, action, it->what, result)
                    : it->what >= dag->value_count ? false
                    : it->kind <= TN__IN           ? judge_copy(t, action, it, result)
                                                   : judge_code(t, action, it);
        if (!good) return false;
    }
    for (uint32_t j = 0; j < dag->job_count; j++)
        if (!t->ran[j]) return false;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        if (t->leaving[v]) return false;
        if (!(dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD))) continue;
        if (!judge_reads(t, count, v)) return false;
    }
    return true;
}

/* Whether what was defined last before `action` is read at it or later. `end`: the last such read.
 */
static inline bool judge_lives(const judge_table *t, uint32_t action, uint32_t column,
                               uint64_t *bytes, uint32_t *end) {
    uint32_t from = action;
    while (from > 0 && !t->defines[judge_cell(t, from - 1, column)]) from--;
    if (from == 0) return false;
    *bytes = t->sizes[judge_cell(t, from - 1, column)];
    bool lives = false;
    for (uint32_t later = action; later <= t->schedule->count; later++) {
        if (t->reads[judge_cell(t, later, column)]) {
            lives = true;
            *end = later;
        }
        if (t->defines[judge_cell(t, later, column)]) break;
    }
    return lives;
}

static inline uint64_t judge_bytes(const judge_table *t, uint32_t action) {
    uint64_t sum = 0, bytes = 0;
    uint32_t end = 0;
    const tn__action *it = &t->schedule->actions[action];
    for (uint32_t c = 0; c < t->columns; c++) {
        if (judge_lives(t, action, c, &bytes, &end)) sum += bytes;
        if (t->defines[judge_cell(t, action, c)]) sum += t->sizes[judge_cell(t, action, c)];
    }
    if (it->kind != TN__RUN) return sum;
    const tn__job *job = &t->dag->jobs[it->what];
    sum += job->scratch;
    if (job->inplace == TN_NONE || job->output_count == 0) return sum;
    bool began =
        action == 0 && t->dag->values[job->inplace].maker == TN_NONE; /* and ends as well */
    bool dies = began ? !judge_lives(t, 1, job->inplace, &bytes, &end)
                      : judge_lives(t, action, job->inplace, &bytes, &end) && end == action;
    uint32_t output = t->dag->operands[job->output_first];
    return dies && t->reads[judge_cell(t, action, job->inplace)]
               ? sum - t->dag->values[output].bytes
               : sum;
}

/* On the host from OUT to the last IN before the next OUT. */
static inline uint64_t judge_host(const judge_table *t, uint32_t action) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < t->dag->value_count; v++) {
        bool went = false, comes = false;
        for (uint32_t i = 0; i < t->schedule->count; i++) {
            const tn__action *it = &t->schedule->actions[i];
            if (it->what != v || (it->kind != TN__OUT && it->kind != TN__IN)) continue;
            if (it->kind == TN__OUT && i > action) break;
            if (it->kind == TN__OUT) comes = i == action;
            went = went || it->kind == TN__OUT;
            comes = comes || (it->kind == TN__IN && i >= action);
        }
        if (went && comes) sum += t->dag->values[v].bytes;
    }
    return sum;
}

static inline judged kit_judge(const tn__dag *dag, const tn__schedule *schedule) {
    judged result = {0};
    judge_table t = {.dag = dag, .schedule = schedule, .columns = 2 * dag->value_count};
    size_t cells = ((size_t)schedule->count + 1) * t.columns + 1, columns = t.columns + 1;
    t.defines = calloc(cells, 1);
    t.reads = calloc(cells, 1);
    t.sizes = calloc(cells, sizeof *t.sizes);
    t.there = calloc(columns, 1);
    t.leaving = calloc(columns, 1);
    t.away = calloc(columns, 1);
    t.codecs = calloc(columns, 1);
    t.ran = calloc((size_t)dag->job_count + 1, 1);
    result.is_valid = judge_all(&t, &result);
    for (uint32_t action = 0; result.is_valid && action < schedule->count; action++) {
        uint64_t device = judge_bytes(&t, action), host = judge_host(&t, action);
        if (device > result.peak) result.peak = device;
        if (host > result.host_peak) result.host_peak = host;
    }
    void *all[] = {t.defines, t.reads, t.sizes, t.there, t.leaving, t.away, t.codecs, t.ran};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return result;
}

/* --- the optimum, by trying --------------------------------------------------------------------
 */

enum { SOLVE_BITS = 22 }; /* jobs and values together */

typedef struct solver {
    const tn__dag *dag;
    uint64_t *best; /* [2^bits] cost, by ran | there << jobs */
    bool *done;
    uint32_t *heap; /* points, many times each; by the cost they had */
    uint64_t *heap_cost;
    size_t heap_count, heap_room;
    uint64_t budget;
    bool free_order;
} solver;

static inline void solver_push(solver *s, uint32_t point, uint64_t cost) {
    if (cost >= s->best[point]) return;
    s->best[point] = cost;
    if (s->heap_count == s->heap_room) {
        s->heap_room = 2 * s->heap_room + 1024;
        s->heap = realloc(s->heap, s->heap_room * sizeof *s->heap);
        s->heap_cost = realloc(s->heap_cost, s->heap_room * sizeof *s->heap_cost);
    }
    size_t at = s->heap_count++;
    for (; at > 0 && s->heap_cost[(at - 1) / 2] > cost; at = (at - 1) / 2) {
        s->heap[at] = s->heap[(at - 1) / 2];
        s->heap_cost[at] = s->heap_cost[(at - 1) / 2];
    }
    s->heap[at] = point;
    s->heap_cost[at] = cost;
}

static inline uint32_t solver_pop(solver *s) {
    uint32_t top = s->heap[0], moved = s->heap[--s->heap_count];
    uint64_t cost = s->heap_cost[s->heap_count];
    size_t at = 0;
    while (2 * at + 1 < s->heap_count) {
        size_t child = 2 * at + 1;
        if (child + 1 < s->heap_count && s->heap_cost[child + 1] < s->heap_cost[child]) child++;
        if (s->heap_cost[child] >= cost) break;
        s->heap[at] = s->heap[child];
        s->heap_cost[at] = s->heap_cost[child];
        at = child;
    }
    s->heap[at] = moved;
    s->heap_cost[at] = cost;
    return top;
}

static inline uint64_t solver_bytes(const solver *s, uint32_t there) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < s->dag->value_count; v++)
        if (there >> v & 1) sum += s->dag->values[v].bytes;
    return sum;
}

static inline uint32_t solver_mask(const uint32_t *list, uint32_t count) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < count; i++) mask |= 1u << list[i];
    return mask;
}

static inline bool solver_may_run(const solver *s, uint32_t ran, uint32_t job) {
    const tn__dag *dag = s->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t after = solver_mask(dag->others + it->after_first, it->after_count);
    uint32_t limits = solver_mask(dag->others + it->limit_first, it->limit_count);
    if ((after & ~ran) || (limits & ran & ~(1u << job))) return false;
    if (ran >> job & 1) return (it->flags & TN__JOB_REPEATS) != 0;
    bool in_order = dag->is_ordered || !s->free_order;
    return !in_order || (ran & ((1u << job) - 1)) == (1u << job) - 1;
}

static inline void solver_run(solver *s, uint32_t ran, uint32_t there, uint32_t job,
                              uint64_t cost) {
    const tn__dag *dag = s->dag;
    const tn__job *it = &dag->jobs[job];
    bool recompute = ran >> job & 1;
    uint32_t in_count, out_count;
    const uint32_t *in = tn__job_inputs(dag, job, recompute, &in_count);
    const uint32_t *out = tn__job_outputs(dag, job, recompute, &out_count);
    uint32_t inputs = solver_mask(in, in_count), outputs = solver_mask(out, out_count);
    if (!solver_may_run(s, ran, job) || (inputs & ~there)) return;
    for (uint32_t i = 0; recompute && i < out_count; i++)
        if (dag->values[out[i]].flags & TN__VALUE_HELD) return;
    uint32_t live = there; /* with what was there from the start, while the first action is done */
    for (uint32_t v = 0; ran == 0 && v < dag->value_count; v++)
        if (dag->values[v].maker == TN_NONE) live |= 1u << v;
    uint64_t bytes = solver_bytes(s, live & ~(outputs & ~inputs)) + it->scratch;
    uint64_t made = solver_bytes(s, outputs);
    uint32_t ran_after = ran | 1u << job, shift = dag->job_count;
    cost += recompute ? it->recompute_cost : it->cost;
    if (bytes + made <= s->budget) solver_push(s, ran_after | (there | outputs) << shift, cost);
    if (it->inplace == TN_NONE || !(inputs >> it->inplace & 1) || out_count == 0) return;
    if (dag->values[it->inplace].flags & (TN__VALUE_HELD)) return;
    bytes += made - dag->values[out[0]].bytes;
    uint32_t after = (there & ~(1u << it->inplace)) | outputs;
    if (bytes <= s->budget && solver_bytes(s, after) <= s->budget)
        solver_push(s, ran_after | after << shift, cost);
}

static inline uint64_t solver_walk(solver *s) {
    const tn__dag *dag = s->dag;
    uint32_t all = (1u << dag->job_count) - 1, held = 0, stay = 0, start = 0;
    for (uint32_t v = 0; v < dag->value_count; v++) {
        if (dag->values[v].flags & TN__VALUE_HELD) held |= 1u << v;
        if (dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) stay |= 1u << v;
        if (dag->values[v].maker == TN_NONE) start |= 1u << v;
    }
    solver_push(s, start << dag->job_count, 0);
    while (s->heap_count > 0) {
        uint32_t point = solver_pop(s), ran = point & all, there = point >> dag->job_count;
        if (s->done[point]) continue;
        s->done[point] = true;
        if (ran == all && (stay & ~there) == 0) return s->best[point];
        for (uint32_t j = 0; j < dag->job_count; j++) solver_run(s, ran, there, j, s->best[point]);
        for (uint32_t v = 0; v < dag->value_count; v++)
            if ((there & ~held) >> v & 1)
                solver_push(s, ran | (there & ~(1u << v)) << dag->job_count, s->best[point]);
    }
    return UINT64_MAX;
}

static inline bool kit_is_tiny(const tn__dag *dag) {
    return dag->job_count + dag->value_count <= SOLVE_BITS;
}

/* The least cost of a schedule of runs alone within `budget`; UINT64_MAX: there is none. */
static inline uint64_t kit_optimum(const tn__dag *dag, uint64_t budget, bool free_order) {
    solver s = {.dag = dag, .budget = budget, .free_order = free_order};
    size_t points = (size_t)1 << (dag->job_count + dag->value_count);
    assert_true(kit_is_tiny(dag));
    s.best = malloc(points * sizeof *s.best);
    s.done = calloc(points, sizeof *s.done);
    for (size_t i = 0; i < points; i++) s.best[i] = UINT64_MAX;
    uint64_t cost = solver_walk(&s);
    free(s.best);
    free(s.done);
    free(s.heap);
    free(s.heap_cost);
    return cost;
}

#endif
