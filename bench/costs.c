/* costs.c - how well do measured costs tell what a step takes?
 *
 *     build/bench/costs [--threads N,N] [--steps N] [--turns N] [--rounds N] [--seconds S]
 *                       [--batch N] [--optimizer NAME] [--infer] [--rows N] MODEL...
 *
 * MODEL is a file in ONNX; its contents may be missing, they change no time. A row is one model and
 * one number of threads: the sum of the costs of all operators, which tn_simulate makes a step of,
 * beside the fastest and the median of the steps that were run, and what measuring took. Steps are
 * run and costs measured by turns, so that a busy machine hurts both; the least of each is told.
 * --rows prints the operators whose costs differ most from what they took in their fastest run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/kit/net.h"

typedef struct costs_bench {
    uint32_t threads[8], thread_count, steps, turns, rounds, rows;
    int64_t batch;
    double seconds;
    tn_optimizer optimizer;
    bool infer;
} costs_bench;

typedef struct costs_op {
    tn_op_id op;
    double predicted, taken;
} costs_op;

static int costs_compare_doubles(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int costs_compare_ops(const void *a, const void *b) {
    const costs_op *x = a, *y = b;
    double p = x->predicted - x->taken, q = y->predicted - y->taken;
    p = p < 0 ? -p : p, q = q < 0 ? -q : q;
    return (p < q) - (p > q);
}

/* What each operator took in its fastest run, of all that the trace has. */
static void costs_print_ops(const costs_bench *bench, const bench_net *net, const tn_costs *costs) {
    uint32_t count = tn_graph_op_count(net->graph);
    costs_op *ops = calloc(count + 1, sizeof *ops);
    uint64_t event_count;
    const tn_event *events = tn_trace_events(net->trace, &event_count);
    for (uint32_t i = 0; i < count && ops != NULL; i++) ops[i].op = i, ops[i].taken = 1e30;
    for (uint64_t i = 0; i < event_count && ops != NULL; i++)
        if (events[i].kind == TN_EVENT_STEP && events[i].op != TN_NONE && events[i].run > 0 &&
            events[i].duration_s < ops[events[i].op].taken)
            ops[events[i].op].taken = events[i].duration_s;
    double taken = 0, predicted = 0, run[64] = {0}, steps = 1e30;
    for (uint64_t i = 0; i < event_count; i++)
        if (events[i].kind == TN_EVENT_STEP && events[i].run < 64)
            run[events[i].run] += events[i].duration_s;
    for (uint32_t i = 1; i < 64; i++)
        if (run[i] > 0 && run[i] < steps) steps = run[i];
    for (uint32_t i = 0; i < count && ops != NULL; i++) {
        ops[i].predicted = (double)tn_costs_of(costs, i) / TN_COSTS_PER_S;
        if (ops[i].taken > 1e29) ops[i].taken = 0;
        taken += ops[i].taken, predicted += ops[i].predicted;
    }
    printf("    each operator's fastest: %.1f ms together, costs %.1f ms; the fastest step without "
           "the walk %.1f ms\n",
           taken * 1e3, predicted * 1e3, steps * 1e3);
    if (ops != NULL) qsort(ops, count, sizeof *ops, costs_compare_ops);
    for (uint32_t i = 0; i < count && i < bench->rows && ops != NULL; i++) {
        const tn_op *op = tn_graph_op(net->graph, ops[i].op);
        printf("    %9.3f ms, took %9.3f  %-24s %-20s %s\n", ops[i].predicted * 1e3,
               ops[i].taken * 1e3, op->type,
               tn_kernels_name(tn_setup_kernels(net->setup), ops[i].op), op->name);
    }
    free(ops);
}

static tn_status costs_open(const costs_bench *bench, const char *path, uint32_t threads,
                            bench_net *net, tn_error *error) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    bench_plan plan = {.threads = threads, .order = "auto", .rate = 1e-6f, .traced = true};
    train.optimizer = bench->optimizer;
    train.fuse_update = true;
    import.batch = bench->batch;
    TN_TRY(bench_load(net, path, &import, true, error));
    if (bench->infer)
        TN_TRY(bench_infer(net, &rewrite, error));
    else
        TN_TRY(bench_train(net, &train, &rewrite, error));
    return bench_open(net, &plan, error);
}

/* Costs, and what the program takes by them. */
static tn_status costs_predict(const costs_bench *bench, const bench_net *net, tn_costs **costs,
                               tn_measure_report *report, double *ms, tn_error *error) {
    tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
    tn_simulate_options simulate = TN_SIMULATE_OPTIONS_INIT;
    tn_simulation simulation;
    tn_costs *made;
    options.seconds = bench->seconds;
    options.rounds = bench->rounds;
    options.occupancy = tn_setup_occupancy(net->setup);
    TN_TRY(tn_costs_measure(tn_setup_kernels(net->setup), &options, &made, report, error));
    simulate.costs = tn_costs_list(made);
    simulate.again = tn_costs_again_list(made);
    tn_status status = tn_simulate(tn_setup_program(net->setup), &simulate, &simulation, error);
    double taken = status == TN_OK ? (double)simulation.total_ps / 1e9 : 0;
    if (status == TN_OK) tn_simulation_release(&simulation);
    if (status != TN_OK || (*costs != NULL && taken >= *ms)) {
        tn_costs_destroy(made);
        return status;
    }
    tn_costs_destroy(*costs);
    *costs = made;
    *ms = taken;
    return TN_OK;
}

static tn_status costs_model(const costs_bench *bench, const char *path, uint32_t threads,
                             bench_net *net, tn_error *error) {
    tn_measure_report report;
    tn_costs *costs = NULL;
    double steps[256], predicted = 0;
    uint32_t count = 0;
    TN_TRY(costs_open(bench, path, threads, net, error));
    tn_status status = TN_OK;
    for (uint32_t turn = 0; turn < bench->turns && status == TN_OK; turn++) {
        for (uint32_t i = 0; i < bench->steps && status == TN_OK; i++) {
            double ms = 1e30;
            status = bench_step(net, &ms, error);
            if (i > 0 && count < 256) steps[count++] = ms;
        }
        if (status == TN_OK) status = costs_predict(bench, net, &costs, &report, &predicted, error);
    }
    if (status == TN_OK) {
        const char *slash = strrchr(path, '/');
        qsort(steps, count, sizeof *steps, costs_compare_doubles);
        printf("| %-20s | %u | %9.1f | %9.1f | %9.1f | %+6.1f %% | %4u | %4u | %2u | %5.1f |\n",
               slash != NULL ? slash + 1 : path, threads, predicted, steps[0], steps[count / 2],
               100 * (predicted / steps[0] - 1), report.operators, report.alike, report.unmeasured,
               report.seconds);
        if (bench->rows > 0) costs_print_ops(bench, net, costs);
    }
    tn_costs_destroy(costs);
    fflush(stdout);
    return status;
}

int main(int argc, char **argv) {
    costs_bench bench = {.threads = {2},
                         .thread_count = 1,
                         .steps = 4,
                         .turns = 3,
                         .optimizer = TN_OPTIMIZER_MOMENTUM};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--threads") == 0)
            bench.thread_count = bench_numbers(argv[++i], bench.threads, 8);
        else if (more && strcmp(argv[i], "--steps") == 0)
            bench.steps = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--turns") == 0)
            bench.turns = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--rounds") == 0)
            bench.rounds = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--rows") == 0)
            bench.rows = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--batch") == 0)
            bench.batch = strtol(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--seconds") == 0)
            bench.seconds = strtod(argv[++i], NULL);
        else if (more && strcmp(argv[i], "--optimizer") == 0)
            bench.optimizer = strcmp(argv[++i], "adam") == 0 ? TN_OPTIMIZER_ADAM : TN_OPTIMIZER_SGD;
        else if (strcmp(argv[i], "--infer") == 0)
            bench.infer = true;
        else
            i = argc;
    }
    if (i >= argc || bench.steps < 2 || bench.turns < 1) {
        fprintf(stderr, "costs: see the head of bench/costs.c for its arguments\n");
        return 2;
    }
    printf(
        "| model | threads | costs ms | fastest | median | costs | operators | measured | not | s "
        "|\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (; i < argc; i++)
        for (uint32_t k = 0; k < bench.thread_count; k++) {
            bench_net net = {0};
            tn_error error = {0};
            tn_status status = costs_model(&bench, argv[i], bench.threads[k], &net, &error);
            if (status != TN_OK) printf("| %s | %s: %s |\n", argv[i], error.where, error.message);
            bench_close(&net);
        }
    return 0;
}
