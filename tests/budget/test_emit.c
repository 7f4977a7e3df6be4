/* test_emit.c - programs as works, and schedules as programs: whatever a judge of schedules accepts
 * is a program that its own judge accepts, which needs no more than the first one said.
 */
#include <tenure/train.h>
#include "../random_graph.h"

#include "../train/drawn.h"

#include "fit/budget/schedule/lower.h"
#include "fit/budget/pass.h"

typedef struct lowered {
    tn_context context;
    tn_graph *graph;
    tn_program *program;
    tn__arena arena;
    tn__dag dag;
    tn__dag_map *map;
    tn__schedule schedule;
} lowered;

static void lower_graph(lowered *it, tn_graph *graph) {
    it->context = tn__context(NULL);
    it->graph = graph;
    tn__arena_init(&it->arena, &it->context);
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_program_create(graph, NULL, &it->program, &failure));
    assert_ok(tn__dag_read(it->program, NULL, NULL, &it->arena, &it->dag, &it->map, &failure));
    tn__schedule_init(&it->schedule, &it->context);
}

static void lower_close(lowered *it) {
    tn__schedule_release(&it->schedule);
    tn__arena_release(&it->arena);
    tn_program_destroy(it->program);
    tn_graph_destroy(it->graph);
}

static void add(lowered *it, tn__action_kind kind, uint32_t what, uint64_t bytes) {
    tn__action action = {.kind = (uint8_t)kind, .what = what, .bytes = bytes, .codec = 0};
    if (kind == TN__ENCODE || kind == TN__DECODE) action.codec = TN_CODEC_CSR;
    assert_ok(tn__schedule_add(&it->schedule, action, &failure));
}

static uint64_t live_of(const tn_program *program) {
    tn_occupancy *occupancy;
    assert_ok(tn_occupancy_create(program, NULL, &occupancy, &failure));
    uint64_t peak = tn_occupancy_summary(occupancy).peak_live;
    tn_occupancy_destroy(occupancy);
    return peak;
}

/* --- schedules at random --- */

typedef struct draw {
    lowered *it;
    tn__random random;
    bool *ran;
    uint8_t *where; /* [values] */
    uint8_t *copies;
    uint32_t recompute, outs, ins;
} draw;
enum { NOWHERE, HERE, LEAVING, AWAY };

static void bring(draw *d, uint32_t value) {
    if (d->where[value] != AWAY) return;
    add(d->it, TN__IN, value, 0);
    d->where[value] = HERE;
    d->ins++;
}

static void run(draw *d, uint32_t job) {
    uint32_t count;
    const tn__dag *dag = &d->it->dag;
    const uint32_t *inputs = tn__job_inputs(dag, job, d->ran[job], &count);
    for (uint32_t i = 0; i < count; i++) bring(d, inputs[i]);
    const uint32_t *outputs = tn__job_outputs(dag, job, d->ran[job], &count);
    add(d->it, TN__RUN, job, 0);
    for (uint32_t i = 0; i < count; i++) d->where[outputs[i]] = HERE;
    d->ran[job] = true;
}

static bool may_run_recompute(const draw *d, uint32_t job) {
    const tn__dag *dag = &d->it->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(dag, job, true, &count);
    if (!d->ran[job] || !(it->flags & TN__JOB_REPEATS)) return false;
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (d->ran[dag->others[it->limit_first + i]]) return false;
    for (uint32_t i = 0; i < count; i++)
        if (d->where[outputs[i]] == LEAVING || (dag->values[outputs[i]].flags & TN__VALUE_HELD))
            return false;
    return true;
}

/* Something that a pass may do here. */
static void disturb(draw *d, bool copies) {
    const tn__dag *dag = &d->it->dag;
    uint32_t job = (uint32_t)tn__random_below(&d->random, dag->job_count);
    uint32_t value = (uint32_t)tn__random_below(&d->random, dag->value_count);
    bool copied = (dag->values[value].flags & TN__VALUE_COPIES) &&
                  !(dag->values[value].flags & TN__VALUE_HELD);
    if (tn__random_below(&d->random, 2) == 0 && may_run_recompute(d, job)) {
        run(d, job);
        d->recompute++;
    } else if (copies && copied && d->where[value] == HERE) {
        add(d->it, TN__OUT, value, 0);
        d->where[value] = LEAVING;
        d->outs++;
    } else if (copies && d->where[value] == LEAVING) {
        add(d->it, TN__SETTLE, value, 0);
        d->where[value] = AWAY;
    }
}

static void draw_schedule(draw *d, lowered *it, uint64_t seed, bool copies) {
    const tn__dag *dag = &it->dag;
    *d = (draw){.it = it, .random = {seed}};
    d->ran = tn__arena_array(&it->arena, dag->job_count + 1, 1);
    d->where = tn__arena_array(&it->arena, dag->value_count + 1, 1);
    for (uint32_t v = 0; v < dag->value_count; v++)
        d->where[v] = dag->values[v].maker == TN_NONE ? HERE : NOWHERE;
    for (uint32_t j = 0; j < dag->job_count; j++) {
        for (uint64_t i = tn__random_below(&d->random, 8); i > 0; i--) disturb(d, copies);
        run(d, j);
    }
    for (uint32_t v = 0; v < dag->value_count; v++) {
        if (d->where[v] == LEAVING) {
            add(it, TN__SETTLE, v, 0);
            d->where[v] = AWAY;
        }
        if (dag->values[v].flags & (TN__VALUE_KEPT | TN__VALUE_HELD)) bring(d, v);
    }
}

/* The graph alone. Its lists were malloc's, as it has no context of its own. */
static tn_graph *graph_of(tn_training *training) {
    free(training->parameters);
    free(training->statistics);
    free(training->sharded);
    return training->graph;
}

/* A step of training, with forms of its own for operators that run again. */
static tn_graph *draw_step(uint64_t seed) {
    net n;
    tn_training training;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    options.optimizer = seed % 2 == 0 ? TN_OPTIMIZER_ADAM : TN_OPTIMIZER_SGD;
    draw_net(&n, seed);
    assert_ok(tn_graph_infer(n.graph, &failure));
    assert_ok(tn_train(n.graph, &options, &training, &failure));
    net_close(&n);
    return graph_of(&training);
}

static uint32_t count_of(const tn_program *program, tn_opcode opcode) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_program_count(program); i++)
        count += tn_program_instructions(program)[i].opcode == opcode;
    return count;
}

/* --- tests --- */

static void keeping_all_is_the_program_itself(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        lowered it;
        tn_program *program;
        tn__replay replay;
        lower_graph(&it, random_graph(seed, seed % 2 == 0));
        for (uint32_t j = 0; j < it.dag.job_count; j++) add(&it, TN__RUN, j, 0);
        it.dag.is_ordered = true;
        assert_ok(tn__replay_schedule(&it.dag, &it.schedule, &replay, NULL, &failure));
        assert_ok(tn__schedule_emit(it.map, &it.dag, &it.schedule, &program, &failure));
        if (live_of(program) > live_of(it.program))
            fail_msg("seed %llu: %llu live bytes, %llu in the program itself",
                     (unsigned long long)seed, (unsigned long long)live_of(program),
                     (unsigned long long)live_of(it.program));
        if (live_of(program) > replay.peak || count_of(program, TN_GET) == 0)
            fail_msg("seed %llu: %llu live bytes, %llu said", (unsigned long long)seed,
                     (unsigned long long)live_of(program), (unsigned long long)replay.peak);
        tn_program_destroy(program);
        lower_close(&it);
    }
}

static void what_the_judge_accepts_can_be_run(void **state) {
    (void)state;
    uint32_t recompute = 0, outs = 0, ins = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        lowered it;
        draw d;
        tn_program *program = NULL;
        tn__replay replay;
        bool copies = seed % 3 == 0;
        lower_graph(&it, random_graph(seed, seed % 2 == 0));
        draw_schedule(&d, &it, seed, copies);
        tn_status status = tn__replay_schedule(&it.dag, &it.schedule, &replay, NULL, &failure);
        if (status == TN_OK)
            status = tn__schedule_emit(it.map, &it.dag, &it.schedule, &program, &failure);
        if (status != TN_OK)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, failure.where, failure.message);
        if (!copies && live_of(program) > replay.peak)
            fail_msg("seed %llu: %llu live bytes, %llu said", (unsigned long long)seed,
                     (unsigned long long)live_of(program), (unsigned long long)replay.peak);
        recompute += d.recompute, outs += count_of(program, TN_SWAP_OUT);
        ins += count_of(program, TN_SWAP_IN);
        tn_program_destroy(program);
        lower_close(&it);
    }
    assert_true(recompute > 500 && outs > 100 && ins > 100);
}

static void steps_of_training_as_well(void **state) {
    (void)state;
    uint32_t by_other = 0, ins = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        lowered it;
        draw d;
        tn_program *program;
        tn__replay replay, plain;
        bool copies = seed % 3 == 0;
        lower_graph(&it, draw_step(seed));
        for (uint32_t j = 0; j < it.dag.job_count; j++) add(&it, TN__RUN, j, 0);
        assert_ok(tn__replay_schedule(&it.dag, &it.schedule, &plain, NULL, &failure));
        uint64_t live = live_of(it.program);
        if (live > plain.peak || plain.peak > live + live / 4)
            fail_msg("seed %llu: %llu live bytes, %llu said", (unsigned long long)seed,
                     (unsigned long long)live, (unsigned long long)plain.peak);
        assert_ok(tn__schedule_emit(it.map, &it.dag, &it.schedule, &program, &failure));
        assert_true(live_of(program) <= live);
        tn_program_destroy(program);
        it.schedule.count = 0;
        draw_schedule(&d, &it, seed, copies);
        assert_ok(tn__replay_schedule(&it.dag, &it.schedule, &replay, NULL, &failure));
        assert_ok(tn__schedule_emit(it.map, &it.dag, &it.schedule, &program, &failure));
        if (!copies && live_of(program) > replay.peak)
            fail_msg("seed %llu: %llu live bytes, %llu said", (unsigned long long)seed,
                     (unsigned long long)live_of(program), (unsigned long long)replay.peak);
        for (uint32_t i = 0; i < tn_program_count(program); i++)
            by_other += tn_program_instructions(program)[i].again;
        ins += count_of(program, TN_SWAP_IN);
        tn_program_destroy(program);
        lower_close(&it);
    }
    assert_true(by_other > 20 && ins > 100);
}

/* The gradient of a concatenation is viewed in halves: one is read at once, the other at the very
 * end. Had that view waited for its reader, both would have stayed. */
static void a_half_that_is_read_leaves_the_other(void **state) {
    (void)state;
    lowered it;
    net n;
    tn_program *program;
    tn_training training;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net_open(&n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(1, 4, 16, 16));
    tn_tensor_id skip = net_op(&n, "Sigmoid", NET_LIST(x = net_conv(&n, x, 4, 4, 3, 1, true)));
    tn_tensor_id y = net_op(&n, "Identity", NET_LIST(skip));
    for (int i = 0; i < 3; i++) y = net_conv(&n, y, i == 0 ? 4 : 32, 32, 3, 1, true);
    y = net_conv(&n, y, 32, 4, 3, 1, true);
    net_attr_int(&n, "axis", 1);
    x = net_conv(&n, net_op(&n, "Concat", NET_LIST(skip, y)), 8, 4, 1, 1, true);
    x = net_op(&n, "Flatten", NET_LIST(net_op(&n, "GlobalAveragePool", NET_LIST(x))));
    net_output(&n, net_dense(&n, x, 4, 3));
    assert_ok(tn_graph_infer(n.graph, &failure));
    assert_ok(tn_train(n.graph, &options, &training, &failure));
    lower_graph(&it, graph_of(&training));
    for (uint32_t j = 0; j < it.dag.job_count; j++) add(&it, TN__RUN, j, 0);
    assert_ok(tn__schedule_emit(it.map, &it.dag, &it.schedule, &program, &failure));
    assert_true(live_of(program) <= live_of(it.program));
    tn_program_destroy(program);
    lower_close(&it);
    net_close(&n);
}

/* A value is encoded behind its maker, and decoded before its last reader. */
static void what_is_encoded_comes_back(void **state) {
    (void)state;
    uint32_t decoded = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        lowered it;
        tn_program *program;
        tn__replay replay;
        lower_graph(&it, draw_step(seed % 10));
        const tn__dag *dag = &it.dag;
        uint32_t value = (uint32_t)(seed * 7919 % dag->value_count);
        const tn__dag_value *v = &dag->values[value];
        bool floats = tn_graph_tensor(it.graph, v->tensor)->dtype == TN_FLOAT32;
        bool may = floats && tn__lists_count(&dag->readers, value) > 1 && v->maker != TN_NONE &&
                   v->bytes > 0 && v->flags == TN__VALUE_COPIES;
        uint32_t last = may ? tn__lists_last(&dag->readers, value) : TN_NONE;
        for (uint32_t j = 0; j < dag->job_count; j++) {
            if (j == last) add(&it, TN__DECODE, value, 2 * v->bytes);
            add(&it, TN__RUN, j, 0);
            if (may && j == v->maker) add(&it, TN__ENCODE, value, 2 * v->bytes);
            if (may && j == v->maker) add(&it, TN__ENCODE, value, 2 * v->bytes); /* for nobody */
        }
        assert_ok(tn__replay_schedule(dag, &it.schedule, &replay, NULL, &failure));
        assert_ok(tn__schedule_emit(it.map, dag, &it.schedule, &program, &failure));
        assert_int_equal(count_of(program, TN_ENCODE), may);
        assert_int_equal(count_of(program, TN_DECODE), may);
        decoded += may;
        assert_true(live_of(program) <= replay.peak);
        tn_program_destroy(program);
        lower_close(&it);
    }
    assert_true(decoded > 10);
}

static void every_allocation_may_fail(void **state) {
    tn_graph *graph = draw_step(3);
    tn_program *program;
    (void)state;
    assert_ok(tn_program_create(graph, NULL, &program, &failure));
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t at = 1; status != TN_OK; at += 1 + at / 16) {
        faulty memory = {.fail_at = at};
        tn_context given = faulty_context(&memory), context = tn__context(&given);
        tn__arena arena;
        tn__dag dag;
        tn__dag_map *map;
        tn__schedule schedule;
        tn_program *made = NULL;
        tn__arena_init(&arena, &context);
        tn__schedule_init(&schedule, &context);
        status = tn__dag_read(program, NULL, NULL, &arena, &dag, &map, NULL);
        for (uint32_t j = 0; status == TN_OK && j < dag.job_count; j++)
            status = tn__schedule_add(&schedule, (tn__action){.kind = TN__RUN, .what = j}, NULL);
        if (status == TN_OK) status = tn__schedule_emit(map, &dag, &schedule, &made, NULL);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        tn_program_destroy(made);
        tn__schedule_release(&schedule);
        tn__arena_release(&arena);
        assert_true(memory.held == 0);
    }
    tn_program_destroy(program);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeping_all_is_the_program_itself),
        cmocka_unit_test(what_the_judge_accepts_can_be_run),
        cmocka_unit_test(steps_of_training_as_well),
        cmocka_unit_test(a_half_that_is_read_leaves_the_other),
        cmocka_unit_test(what_is_encoded_comes_back),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
