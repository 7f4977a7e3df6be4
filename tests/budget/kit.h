/* kit.h - what tests of passes share: works by hand and at random, of all shapes and with all that
 * a job may ask for. kit_judge.h judges and solves them without a line of src/fit/budget.
 */
#ifndef TN_TESTS_BUDGET_KIT_H
#define TN_TESTS_BUDGET_KIT_H

#include "support.h"

#include <inttypes.h>

#include "fit/budget/pass.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* --- works by hand --- */

enum { KIT_JOBS = 160, KIT_VALUES = 400, KIT_LISTS = 8192 };

typedef struct kit {
    tn_context context;
    tn__arena arena;
    tn__dag dag; /* after kit_end */
    tn__dag_job jobs[KIT_JOBS];
    tn__dag_value values[KIT_VALUES];
    uint32_t lists[KIT_LISTS];
    uint32_t job_count, value_count, list_count;
} kit;

static inline kit *kit_begin(void) {
    kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->context = tn__context(NULL);
    tn__arena_init(&k->arena, &k->context);
    return k;
}

static inline void kit_free(kit *k) {
    tn__arena_release(&k->arena);
    free(k);
}

static inline uint32_t kit_value(kit *k, uint64_t bytes, uint32_t flags) {
    assert_true(k->value_count < KIT_VALUES);
    k->values[k->value_count] = (tn__dag_value){.bytes = bytes, .tensor = TN_NONE, .flags = flags};
    return k->value_count++;
}

static inline uint32_t *kit_list(kit *k, const uint32_t *from, uint32_t count) {
    uint32_t *list = k->lists + k->list_count;
    assert_true(k->list_count + count < KIT_LISTS);
    for (uint32_t i = 0; i < count; i++) list[i] = from[i];
    k->list_count += count;
    return list;
}

/* A job that may run again at the same cost. */
static inline uint32_t kit_job(kit *k, uint64_t cost, const uint32_t *inputs, uint32_t input_count,
                               const uint32_t *outputs, uint32_t output_count) {
    assert_true(k->job_count < KIT_JOBS);
    tn__dag_job *it = &k->jobs[k->job_count];
    it->job = (tn__job){.op = TN_NONE,
                        .flags = TN__JOB_REPEATS,
                        .cost = cost,
                        .recompute_cost = cost,
                        .input_count = input_count,
                        .output_count = output_count,
                        .inplace = TN_NONE};
    it->inputs = kit_list(k, inputs, input_count);
    it->outputs = kit_list(k, outputs, output_count);
    return k->job_count++;
}

static inline void kit_end(kit *k) {
    assert_ok(tn__dag_make(&k->arena, k->jobs, k->job_count, k->values, k->value_count, &k->dag,
                           &failure));
}

/* A computation graph as Checkmate has them: node i makes value i, edges are pairs in order of
 * their heads; what the last makes is kept. */
static inline kit *kit_nodes(const uint64_t *costs, const uint64_t *bytes, uint32_t count,
                             uint32_t (*edges)[2], uint32_t edge_count) {
    kit *k = kit_begin();
    for (uint32_t i = 0; i < count; i++)
        kit_value(k, bytes[i], TN__VALUE_COPIES | (i + 1 == count ? TN__VALUE_KEPT : 0));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t inputs[KIT_JOBS], found = 0;
        for (uint32_t e = 0; e < edge_count; e++)
            if (edges[e][1] == i) inputs[found++] = edges[e][0];
        kit_job(k, costs[i], inputs, found, &i, 1);
    }
    return k;
}

/* --- shapes --- */

enum kit_shape { KIT_CHAIN, KIT_RESIDUAL, KIT_U, KIT_DENSE, KIT_BRANCHES, KIT_SHAPES };
static const char *const kit_shape_names[] = {"chain", "residual", "U", "dense", "branches"};

typedef struct kit_graph {
    uint32_t edges[1024][2], edge_count, count;
    uint64_t costs[KIT_JOBS], bytes[KIT_JOBS];
} kit_graph;

static inline bool kit_has_edge(const kit_graph *g, uint32_t from, uint32_t to) {
    for (uint32_t e = 0; e < g->edge_count; e++)
        if (g->edges[e][0] == from && g->edges[e][1] == to) return true;
    return false;
}

static inline void kit_edge(kit_graph *g, uint32_t from, uint32_t to) {
    if (from >= to || kit_has_edge(g, from, to)) return;
    assert_true(g->edge_count < 1024);
    g->edges[g->edge_count][0] = from;
    g->edges[g->edge_count++][1] = to;
}

/* Edges among the first `n` nodes: each has one from before it. */
static inline void kit_shape_edges(kit_graph *g, enum kit_shape shape, uint32_t n, tn__random *r) {
    for (uint32_t i = 1; i < n; i++) {
        bool away = shape == KIT_BRANCHES && tn__random_below(r, 2) == 0;
        kit_edge(g, away ? (uint32_t)tn__random_below(r, i) : i - 1, i);
        if (shape == KIT_RESIDUAL && i >= 3 && i % 3 == 0) kit_edge(g, i - 3, i);
        if (shape == KIT_U && i > n / 2) kit_edge(g, n - 1 - i, i);
        if (shape == KIT_BRANCHES && tn__random_below(r, 3) == 0)
            kit_edge(g, (uint32_t)tn__random_below(r, i), i);
        for (uint32_t j = i >= 4 ? i - 4 : 0; shape == KIT_DENSE && j + 1 < i; j++)
            if (tn__random_below(r, 3) > 0) kit_edge(g, j, i);
    }
}

/* Forward nodes 0 .. n-1, loss n, backward of i at 2n-i: it reads what i read and made, and the
 * gradients of i's readers. */
static inline void kit_backward(kit_graph *g, uint32_t n) {
    uint32_t forward = g->edge_count;
    kit_edge(g, n - 1, n);
    for (uint32_t i = n; i-- > 0;) {
        kit_edge(g, i, 2 * n - i);
        if (i + 1 == n) kit_edge(g, n, n + 1);
        for (uint32_t e = 0; e < forward; e++) {
            if (g->edges[e][1] == i) kit_edge(g, g->edges[e][0], 2 * n - i);
            if (g->edges[e][0] == i) kit_edge(g, 2 * n - g->edges[e][1], 2 * n - i);
        }
    }
}

static inline void kit_random_sizes(kit_graph *g, uint32_t n, bool trains, tn__random *r) {
    bool unit = tn__random_below(r, 4) == 0;
    for (uint32_t i = 0; i < n; i++) {
        g->costs[i] = unit ? 1 : tn__random_below(r, 20);
        g->bytes[i] = unit ? 1 : 1 + tn__random_below(r, 10);
    }
    g->count = n;
    if (!trains) return;
    g->count = 2 * n + 1;
    g->costs[n] = g->bytes[n] = 1;
    for (uint32_t i = 0; i < n; i++) {
        g->costs[2 * n - i] = unit ? 1 : 2 * g->costs[i];
        g->bytes[2 * n - i] = g->bytes[i];
    }
}

/* A graph of at most `most` nodes; training-shaped every second time. */
static inline kit *kit_random_nodes(uint64_t seed, uint32_t most) {
    tn__random r = {seed * 77 + 5};
    kit_graph *g = calloc(1, sizeof *g);
    assert_non_null(g);
    enum kit_shape shape = (enum kit_shape)(seed % KIT_SHAPES);
    bool trains = tn__random_below(&r, 2) == 0 && most >= 7;
    uint32_t room = trains ? (most - 1) / 2 : most;
    uint32_t n = room - (uint32_t)tn__random_below(&r, 1 + room / 2);
    kit_shape_edges(g, shape, n, &r);
    if (trains) kit_backward(g, n);
    kit_random_sizes(g, n, trains, &r);
    kit *k = kit_nodes(g->costs, g->bytes, g->count, g->edges, g->edge_count);
    free(g);
    return k;
}

/* n forward, a loss, n backward: edges i -> i+1, i -> 2n-i, as gen_linear_graph makes them. */
static inline kit *kit_unit_chain(uint32_t n) {
    kit_graph *g = calloc(1, sizeof *g);
    assert_non_null(g);
    for (uint32_t i = 0; i < 2 * n + 1; i++) {
        g->costs[i] = g->bytes[i] = 1;
        if (i < 2 * n) kit_edge(g, i, i + 1);
        if (i < n) kit_edge(g, i, 2 * n - i);
    }
    kit *k = kit_nodes(g->costs, g->bytes, 2 * n + 1, g->edges, g->edge_count);
    free(g);
    return k;
}

/* --- all that a job may ask for --- */

static inline void kit_add_input(kit *k, uint32_t job, uint32_t value) {
    tn__dag_job *it = &k->jobs[job];
    uint32_t list[64], count = it->job.input_count;
    for (uint32_t i = 0; i < count; i++) {
        if (it->inputs[i] == value) return;
        list[i] = it->inputs[i];
    }
    list[count] = value;
    it->inputs = kit_list(k, list, count + 1);
    it->job.input_count = count + 1;
}

/* Statistics: a second output, of which the job is made again from fewer inputs. */
static inline void kit_spice_forms(kit *k, uint32_t job, tn__random *r) {
    tn__dag_job *it = &k->jobs[job];
    uint32_t second = kit_value(k, 1 + tn__random_below(r, 4), TN__VALUE_COPIES);
    uint32_t outputs[2] = {it->outputs[0], second};
    it->outputs = kit_list(k, outputs, 2);
    it->job.output_count = 2;
    if (job + 2 < k->job_count)
        kit_add_input(k, job + 1 + (uint32_t)tn__random_below(r, k->job_count - job - 1), second);
    if (tn__random_below(r, 2) == 0) return;
    uint32_t inputs[64], count = it->job.input_count > 1 ? it->job.input_count - 1 : 1;
    for (uint32_t i = 0; i < count && i < it->job.input_count; i++) inputs[i] = it->inputs[i];
    if (it->job.input_count == 0) count = 0;
    inputs[count++] = second;
    it->recompute_inputs = kit_list(k, inputs, count);
    it->recompute_outputs = it->outputs;
    it->job.recompute_input_count = count;
    it->job.recompute_output_count = 1;
    it->job.recompute_cost = it->job.cost / 2;
}

static inline void kit_spice_job(kit *k, uint32_t job, uint32_t nodes, tn__random *r) {
    tn__dag_job *it = &k->jobs[job];
    uint32_t *other = kit_list(k, &job, 1);
    if (tn__random_below(r, 3) == 0) it->job.scratch = tn__random_below(r, 6);
    if (tn__random_below(r, 8) == 0) it->job.flags = 0;
    if (tn__random_below(r, 8) == 0 && job + 1 < k->job_count) {
        *other = job + 1 + (uint32_t)tn__random_below(r, k->job_count - job - 1);
        it->limits = other;
        it->job.limit_count = 1;
    } else if (tn__random_below(r, 8) == 0 && job > 0) {
        *other = (uint32_t)tn__random_below(r, job);
        it->after = other;
        it->job.after_count = 1;
    }
    if (tn__random_below(r, 4) == 0 && it->job.input_count > 0 && it->inputs[0] < nodes) {
        it->job.inplace = it->inputs[0];
        k->values[it->outputs[0]].bytes = k->values[it->inputs[0]].bytes;
    }
}

/* Nodes with everything else thrown in; `nodes` values are outputs, others were there before. */
static inline kit *kit_random_spiced(uint64_t seed, uint32_t most) {
    kit *k = kit_random_nodes(seed, most);
    tn__random r = {seed * 131 + 9};
    uint32_t nodes = k->job_count;
    uint32_t given = kit_value(k, 1 + tn__random_below(&r, 5), TN__VALUE_COPIES);
    uint32_t weight = kit_value(k, 2, TN__VALUE_HELD);
    for (uint32_t j = 0; j < nodes; j++) {
        if (tn__random_below(&r, 4) == 0)
            kit_add_input(k, j, tn__random_below(&r, 2) == 0 ? given : weight);
        kit_spice_job(k, j, nodes, &r);
        if (tn__random_below(&r, 5) == 0) kit_spice_forms(k, j, &r);
        if (tn__random_below(&r, 12) == 0) k->values[j].flags = TN__VALUE_HELD;
        if (tn__random_below(&r, 12) == 0) k->values[j].flags |= TN__VALUE_KEPT;
    }
    return k;
}

/* What kit_random_* began is laid out; every third keeps the order of first runs. */
static inline void kit_finish(kit *k, uint64_t seed) {
    kit_end(k);
    k->dag.is_ordered = seed % 3 == 0;
}

/* --- runs of passes --- */

/* As the frame begins one; `arena` is scratch of the run. */
static inline void kit_run_begin(tn__pass_run *run, tn__arena *arena, kit *k, const tn_pass *pass,
                                 uint64_t budget, uint32_t allow) {
    const uint32_t models[][2] = {{TN__PASS_ORDERS, TN__ALLOW_ORDER},
                                  {TN__PASS_RECOMPUTES, TN__ALLOW_RECOMPUTE},
                                  {TN__PASS_SWAPS, TN__ALLOW_SWAP},
                                  {TN__PASS_COMPRESSES, TN__ALLOW_COMPRESS | TN__ALLOW_LOSSY}};
    uint32_t modelled = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (pass->features & models[i][0]) modelled |= models[i][1];
    tn__arena_init(arena, &k->context);
    *run = (tn__pass_run){.pass = pass,
                          .dag = &k->dag,
                          .arena = arena,
                          .context = k->context,
                          .error = &failure,
                          .budget = budget,
                          .host_budget = UINT64_MAX,
                          .allow = allow & modelled,
                          .seed = 1};
    if (allow & TN__ALLOW_SWAP) run->out_rate = run->in_rate = 0.5;
    if (allow & TN__ALLOW_COMPRESS) run->codec_rate = 2;
    tn__schedule_init(&run->best, &k->context);
}

static inline void kit_run_end(tn__pass_run *run) {
    tn__schedule_release(&run->best);
    tn__arena_release(run->arena);
}

#endif
