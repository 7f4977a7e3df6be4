/* test_measure.c - costs of operators, found by running them: who is measured, and what has to come
 * of it whatever the machine does; predictions in the events of a run.
 */
#include "../train/steps.h"

#include <tenure/engine.h>
#include <tenure/train.h>

static tn_error failure;

static void fine(tn_status status) {
    if (status != TN_OK)
        fail_msg("%s: %s: %s", tn_status_name(status), failure.where, failure.message);
}

/* A step of training: three equal layers, a large one, normalisations, a view. */
static void draw(net *n) {
    net_open(n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(2, 4, 10, 10));
    for (int i = 0; i < 3; i++)
        x = net_op(n, "Relu", NET_LIST(net_batch_norm(n, net_conv(n, x, 4, 4, 3, 1, true), 4)));
    x = net_conv(n, net_conv(n, x, 4, 64, 3, 1, true), 64, 64, 3, 1, false);
    x = net_op(n, "Flatten", NET_LIST(net_op(n, "GlobalAveragePool", NET_LIST(x))));
    net_output(n, net_dense(n, x, 64, 3));
}

static void open_step(steps *s, net *n, bool fused) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    setting how = {.fused = fused};
    draw(n);
    options.optimizer = TN_OPTIMIZER_MOMENTUM;
    steps_open(s, n, &options, &how);
}

static tn_costs *measure(const steps *s, tn_measure_report *report) {
    tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
    tn_costs *costs;
    options.rounds = 5;
    options.occupancy = tn_setup_occupancy(s->setup);
    fine(tn_costs_measure(tn_setup_kernels(s->setup), &options, &costs, report, &failure));
    return costs;
}

static void every_operator_that_runs_is_measured_once_for_all_alike(void **state) {
    net n;
    steps s;
    tn_measure_report report;
    (void)state;
    open_step(&s, &n, false);
    tn_costs *costs = measure(&s, &report);
    uint32_t runs = 0, convolutions = 0;
    uint64_t small = 0, large = 0;
    for (tn_op_id id = 0; id < tn_graph_op_count(s.graph); id++) {
        const tn_op *op = tn_graph_op(s.graph, id);
        uint64_t cost = tn_costs_of(costs, id);
        runs += cost > 0;
        if (strcmp(op->type, "Flatten") == 0) assert_true(cost == 0);
        if (strcmp(op->type, "BatchNormTrain") == 0) {
            assert_true(cost > 0 && tn_costs_again_of(costs, id) > 0);
        } else if (cost > 0) {
            assert_true(tn_costs_again_of(costs, id) == cost);
        }
        if (strcmp(op->type, "Conv") != 0) continue;
        if (convolutions < 3) { /* alike */
            assert_true(convolutions == 0 || cost == small);
            small = cost;
        }
        if (convolutions++ == 4) large = cost;
    }
    assert_int_equal(convolutions, 5);
    assert_true(large > 20 * small); /* it has 256 times as many products */
    assert_int_equal(report.operators, runs);
    assert_true(report.alike < report.operators && report.unmeasured == 0);
    assert_true(report.seconds > 0 && report.bytes > 0);
    assert_true(tn_costs_bytes_per_s(costs) > 1e8);
    assert_true(tn_costs_total(costs) < 60 * TN_COSTS_PER_S);
    tn_costs_destroy(costs);
    steps_close(&s);
    net_close(&n);
}

static bool no_progress(void *self, const char *stage, uint64_t done, uint64_t total) {
    (void)stage;
    assert_true(done < total);
    return ++*(int *)self < 10;
}

static void measuring_can_be_stopped(void **state) {
    net n;
    steps s;
    int asked = 0;
    tn_costs *costs = NULL;
    tn_context context = TN_CONTEXT_INIT;
    tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
    (void)state;
    open_step(&s, &n, false);
    context.progress = no_progress;
    context.self = &asked;
    options.context = &context;
    assert_int_equal(tn_costs_measure(tn_setup_kernels(s.setup), &options, &costs, NULL, &failure),
                     TN_E_STOPPED);
    assert_true(costs == NULL && asked == 10);
    steps_close(&s);
    net_close(&n);
}

static void every_allocation_may_fail(void **state) {
    net n;
    steps s;
    (void)state;
    open_step(&s, &n, false);
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
        tn_costs *costs = NULL;
        options.context = &context;
        options.rounds = 1;
        tn_status status =
            tn_costs_measure(tn_setup_kernels(s.setup), &options, &costs, NULL, &failure);
        tn_costs_destroy(costs);
        assert_true(memory.held == 0);
        if (status == TN_OK) break;
        assert_true(status == TN_E_NO_MEMORY && costs == NULL && at < 1000);
    }
    steps_close(&s);
    net_close(&n);
}

/* Whether what is predicted is a step that was run, and whether one was. */
static double measure_whole(const steps *s, uint64_t bytes, tn_measure_report *report) {
    tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
    tn_simulation simulation;
    tn_costs *costs;
    options.rounds = 1;
    options.bytes = bytes;
    options.occupancy = tn_setup_occupancy(s->setup);
    options.setup = s->setup;
    fine(tn_costs_measure(tn_setup_kernels(s->setup), &options, &costs, report, &failure));
    fine(tn_setup_predict(s->setup, costs, NULL, &simulation, &failure));
    double predicted = (double)simulation.total_ps / (double)TN_COSTS_PER_S;
    tn_simulation_release(&simulation);
    tn_costs_destroy(costs);
    return predicted;
}

static void operators_add_up_to_a_step(void **state) {
    net n;
    steps s;
    tn_measure_report report;
    (void)state;
    open_step(&s, &n, true);
    uint64_t need = tn_setup_need(s.setup).total;
    double predicted = measure_whole(&s, need, &report);
    assert_true(report.step_seconds > 0 && report.scale > 0);
    assert_true(fabs(predicted - report.step_seconds) < 1e-6 * predicted);
    measure_whole(&s, need - 1, &report); /* there is no room for it */
    assert_true(report.step_seconds == 0 && report.scale == 1);
    steps_close(&s);
    net_close(&n);
}

/* A step that cannot be run is none; what cannot be measured is an error. */
static void every_allocation_of_a_step_may_fail(void **state) {
    net n;
    steps s;
    uint32_t ran = 0, not_run = 0;
    (void)state;
    open_step(&s, &n, false);
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
        tn_measure_report report;
        tn_costs *costs = NULL;
        options.context = &context;
        options.rounds = 1;
        options.seconds = 1e-9;
        options.setup = s.setup;
        tn_status status =
            tn_costs_measure(tn_setup_kernels(s.setup), &options, &costs, &report, &failure);
        tn_costs_destroy(costs);
        assert_true(memory.held == 0);
        if (status == TN_OK) (*(report.step_seconds > 0 ? &ran : &not_run))++;
        if (memory.requests < at) break;
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
    }
    assert_true(ran == 1 && not_run > 0);
    steps_close(&s);
    net_close(&n);
}

/* The events of a prediction are those of a run: the same in the same order, but for the time. */
static void a_prediction_is_told_as_a_run(void **state) {
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        net n;
        steps s;
        tn_trace *ran, *told;
        tn_engine *engine;
        tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
        tn_simulate_options simulate = TN_SIMULATE_OPTIONS_INIT;
        tn_simulation simulation;
        uint64_t ran_count, told_count, statics = 0;
        open_step(&s, &n, fused);
        fine(tn_trace_create(NULL, 100000, &ran, &failure));
        fine(tn_trace_create(NULL, 100000, &told, &failure));
        options.read = steps_read;
        options.self = &n;
        options.trace = ran;
        fine(tn_setup_open(s.setup, NULL, &options, &engine, &failure));
        for (uint32_t i = 0; i < s.input_count; i++) /* labels, too */
            memset(s.inputs[i].data, 0, s.inputs[i].bytes);
        fine(tn_engine_run(engine, s.inputs, s.input_count, s.outputs, s.output_count, &failure));
        tn_costs *costs = measure(&s, NULL);
        simulate.trace = told;
        fine(tn_setup_predict(s.setup, costs, &simulate, &simulation, &failure));
        const tn_event *a = tn_trace_events(ran, &ran_count),
                       *b = tn_trace_events(told, &told_count);
        while (statics < ran_count && a[statics].kind == TN_EVENT_ALLOC &&
               a[statics].body == TN_NONE)
            statics++; /* told when the engine was opened */
        assert_true(statics > 0 && ran_count - statics == told_count);
        double taken = 0;
        for (uint64_t i = 0; i < told_count; i++) {
            const tn_event *x = &a[statics + i], *y = &b[i];
            assert_true(x->kind == y->kind && x->opcode == y->opcode && x->step == y->step);
            assert_true(x->stream == y->stream && x->op == y->op && x->tensor == y->tensor);
            assert_true(x->body == y->body && x->bytes == y->bytes);
            if (x->kind == TN_EVENT_STEP) assert_memory_equal(x->live, y->live, sizeof x->live);
            taken += y->kind == TN_EVENT_STEP ? y->duration_s : 0;
        }
        assert_true(fabs(taken - (double)simulation.total_ps / TN_COSTS_PER_S) < 1e-6 * taken);
        assert_true(simulation.compute_ps == tn_costs_total(costs));
        tn_simulation_release(&simulation);
        tn_costs_destroy(costs);
        tn_engine_destroy(engine);
        tn_trace_destroy(ran);
        tn_trace_destroy(told);
        steps_close(&s);
        net_close(&n);
    }
}

static void a_prediction_refuses_costs_of_another_graph(void **state) {
    net n, m;
    steps s;
    tn_costs *costs;
    tn_simulation simulation;
    (void)state;
    open_step(&s, &n, false);
    draw(&m);
    tn_costs_model model = {sizeof model, NULL, 1e9, 1e9};
    fine(tn_costs_create_model(m.graph, &model, &costs, &failure));
    assert_int_equal(tn_setup_predict(s.setup, costs, NULL, &simulation, &failure), TN_E_INVALID);
    tn_costs_destroy(costs);
    steps_close(&s);
    net_close(&n);
    net_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_that_runs_is_measured_once_for_all_alike),
        cmocka_unit_test(measuring_can_be_stopped),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(operators_add_up_to_a_step),
        cmocka_unit_test(every_allocation_of_a_step_may_fail),
        cmocka_unit_test(a_prediction_is_told_as_a_run),
        cmocka_unit_test(a_prediction_refuses_costs_of_another_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
