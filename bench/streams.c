/* streams.c - how much faster is a network on two streams, and what do the waits of a plan cost?
 *
 *     build/bench/streams [--streams N] [--repeat N] MODEL.onnx...
 *
 * Each row is a network on N streams (2 unless given), with one thread for each kernel. The first
 * row of a network is the plan for streams: no operator waits for memory. The others keep the arena
 * of a plan for one stream, which planners make without regard to waits, or for which the fewest
 * waits are sought; operators on streams then wait where the plan demands.
 *
 *   added       dependencies between operators that the plan adds to those of the graph
 *   waits       how often a stream waits for another one
 *   predicted   time on the streams as a share of that on one stream, from the times of the
 *               operators, which are measured one by one
 *   measured    the same share of the fastest of N runs (20 unless given); runs on one stream and
 *               on several take turns, so that a busy machine hurts both
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/kit/net.h"

#define BENCH_PLAN_S 5

typedef struct bench_case {
    bench_net *serial;
    uint32_t streams, repeat;
    const uint64_t *times;
} bench_case;

static void bench_stop(const char *what, const tn_error *error) {
    fprintf(stderr, "streams: %s: %s: %s\n", what, error->where, error->message);
    exit(1);
}

/* The dependencies that a plan for one stream adds. `planner` NULL: the plan with the fewest waits
 * in the arena of the default plan. */
static tn_status bench_dependencies(const bench_net *net, const char *planner, uint64_t *peak,
                                    tn_dependency **list, uint64_t *count, tn_error *error) {
    const tn_occupancy *occupancy = tn_setup_occupancy(net->setup);
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_layout layout;
    plan.planner = planner;
    plan.timeout_s = BENCH_PLAN_S;
    if (planner == NULL) {
        TN_TRY(tn_setup_add_events(net->setup, error));
        plan.objective = TN_OBJECTIVE_WAITS;
        plan.capacity = tn_setup_layout(net->setup)->peak;
    }
    TN_TRY(tn_plan(tn_occupancy_problem(occupancy), &plan, &layout, error));
    *peak = layout.peak;
    tn_status status = tn_plan_dependencies(occupancy, &layout, list, count, error);
    tn_layout_release(&layout);
    return status;
}

static tn_status bench_measure(const bench_case *of, const tn_program *program, double *share,
                               uint64_t *arena, tn_error *error) {
    bench_net wide = {0};
    bench_plan plan = {.threads = 1};
    double alone = 1e30, beside = 1e30;
    tn_engine_usage usage;
    tn_status status = bench_open_program(of->serial, &plan, program, 0, &wide, error);
    for (uint32_t i = 0; i < of->repeat && status == TN_OK; i++) {
        status = bench_step(of->serial, &alone, error);
        if (status == TN_OK) status = bench_step(&wide, &beside, error);
    }
    for (uint32_t k = 0; k < wide.output_count && status == TN_OK; k++)
        if (memcmp(wide.outputs[k].data, of->serial->outputs[k].data, wide.outputs[k].bytes) != 0)
            status = tn__fail(error, TN_E_INTERNAL, "output %u has other bits on streams", k);
    if (status == TN_OK) {
        tn_engine_measure(wide.engine, &usage);
        *share = beside / alone;
        *arena = usage.arena;
    }
    bench_close(&wide);
    return status;
}

static tn_status bench_row(const bench_case *of, const char *name, const char *plan,
                           const tn_dependency *after, uint64_t after_count, uint64_t peak,
                           tn_error *error) {
    tn_program_streams_options options = TN_PROGRAM_STREAMS_OPTIONS_INIT;
    tn_program_streams_report report;
    tn_program *program;
    double share = 0;
    uint64_t arena = 0;
    options.count = of->streams;
    options.times = of->times;
    options.after = after;
    options.after_count = after_count;
    TN_TRY(tn_program_on_streams(tn_setup_program(of->serial->setup), &options, &program, error));
    tn_status status = tn_program_streams_of(program, of->times, &report, error);
    if (status == TN_OK) status = bench_measure(of, program, &share, &arena, error);
    tn_program_destroy(program);
    if (status != TN_OK) return status;
    printf("| %-18.18s | %-14.14s | %7.2f | %5llu | %5u | %6.1f %% | %6.1f %% |\n", name, plan,
           bench_mib(peak > 0 ? peak : arena), (unsigned long long)after_count, report.waits,
           100.0 * (double)report.total_ps / (double)report.serial_ps, 100 * share);
    fflush(stdout);
    return TN_OK;
}

static tn_status bench_plans(const bench_case *of, const char *name, tn_error *error) {
    static const char *const plans[] = {"greedy-by-size", "time-order", NULL};
    TN_TRY(bench_row(of, name, "for streams", NULL, 0, 0, error));
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        tn_dependency *after = NULL;
        uint64_t count = 0, peak = 0;
        tn_status status = bench_dependencies(of->serial, plans[i], &peak, &after, &count, error);
        if (status == TN_OK)
            status = bench_row(of, name, plans[i] != NULL ? plans[i] : "fewest waits", after, count,
                               peak, error);
        if (after != NULL) tn_dependencies_release(after);
        TN_TRY(status);
    }
    return TN_OK;
}

static tn_status bench_times(const bench_net *net, uint64_t **times, tn_error *error) {
    tn_costs *costs;
    uint32_t count = tn_graph_op_count(net->graph);
    *times = calloc((size_t)count + 1, sizeof **times);
    if (*times == NULL) return tn__no_memory(error, "times");
    TN_TRY(bench_costs(net, &costs, error));
    for (tn_op_id id = 0; id < count; id++) (*times)[id] = tn_costs_of(costs, id);
    tn_costs_destroy(costs);
    return TN_OK;
}

static void bench_model(const char *path, uint32_t streams, uint32_t repeat) {
    bench_net net = {0};
    bench_plan plan = {.threads = 1};
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_error error = {0};
    uint64_t *times = NULL;
    const char *slash = strrchr(path, '/');
    tn_status status = bench_load(&net, path, NULL, true, &error);
    if (status == TN_OK) status = bench_infer(&net, &rewrite, &error);
    if (status == TN_OK) status = bench_open(&net, &plan, &error);
    if (status == TN_OK) status = bench_times(&net, &times, &error);
    const bench_case of = {&net, streams, repeat, times};
    if (status == TN_OK) status = bench_plans(&of, slash != NULL ? slash + 1 : path, &error);
    if (status != TN_OK) bench_stop(path, &error);
    free(times);
    bench_close(&net);
}

int main(int count, char **words) {
    uint32_t streams = 2, repeat = 20;
    int first = 1;
    for (; first + 1 < count && strncmp(words[first], "--", 2) == 0; first += 2) {
        uint32_t *into = strcmp(words[first], "--streams") == 0  ? &streams
                         : strcmp(words[first], "--repeat") == 0 ? &repeat
                                                                 : NULL;
        if (into == NULL) break;
        *into = (uint32_t)strtoul(words[first + 1], NULL, 10);
    }
    if (first >= count || words[first][0] == '-') {
        fprintf(stderr, "usage: streams [--streams N] [--repeat N] MODEL.onnx...\n");
        return 2;
    }
    printf("| network | plan | arena MiB | added | waits | predicted | measured |\n");
    printf("|---|---|---|---|---|---|---|\n");
    for (int i = first; i < count; i++) bench_model(words[i], streams, repeat);
    return 0;
}
