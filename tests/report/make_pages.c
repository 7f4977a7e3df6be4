/* make_pages.c - writes the plans that page.test.mjs opens, as .html and as .json beside:
 *
 *     make_pages FOLDER MODEL TRAINED
 *
 * small: a problem whose rectangles the test knows; large: 20,000 buffers; huge: times and sizes
 * beyond what a double holds; empty: nothing; model: the given model; step: of training it; both:
 * that beside the model as it runs; fit: it once more, computing again, and swap: with the host,
 * each with a curve; swap's run is a simulation at half the rate. ranks: two that train it, over a
 * link that was predicted to be twice as fast.
 */
#include <stdio.h>

#include <tenure/dist.h>
#include <tenure/engine.h>
#include <tenure/graph.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>
#include <tenure/search.h>
#include <tenure/train.h>

#include "report/format.h"

typedef struct placed {
    tn_body body;
    uint64_t offset;
} placed;

static int make_fail(const tn_error *error) {
    fprintf(stderr, "make_pages: %s\n", error->message);
    return 1;
}

static int make_files(const char *folder, const tn_report *report) {
    static const char *const suffixes[] = {"html", "json", "svg"};
    for (int s = 0; s < 3; s++) {
        char path[512];
        tn_error error;
        snprintf(path, sizeof path, "%s/%s.%s", folder, report->input, suffixes[s]);
        if (tn_report_write(report, path, &error)) return make_fail(&error);
    }
    return 0;
}

/* At the given offsets, or planned by `planner`. */
static int make(const char *folder, const char *name, const char *planner, const placed *bodies,
                uint32_t count) {
    tn_error error;
    tn_problem *problem;
    tn_layout layout;
    uint64_t *offsets = calloc((size_t)count + 1, sizeof *offsets);
    if (offsets == NULL || tn_problem_create(NULL, &problem, &error)) return make_fail(&error);
    for (uint32_t i = 0; i < count; i++) {
        offsets[i] = bodies[i].offset;
        if (tn_problem_add(problem, &bodies[i].body, NULL, &error)) return make_fail(&error);
    }
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.planner = planner;
    if (planner ? tn_plan(problem, &options, &layout, &error)
                : tn_layout_from_offsets(problem, offsets, &layout, &error))
        return make_fail(&error);
    tn_report report = {
        .struct_size = sizeof report, .input = name, .problem = problem, .layout = &layout};
    if (make_files(folder, &report)) return 1;
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    free(offsets);
    return 0;
}

static int make_small(const char *folder) {
    static const tn_piece pieces[] = {{.first = 0, .last = 3, .hi = 256},
                                      {.first = 6, .last = 10, .lo = 256, .hi = 768}};
    const placed bodies[] = {
        {{.size = 1024, .first = 0, .last = 4, .name = "alpha"}, 0},
        {{.size = 2048, .first = 4, .last = 10, .name = "beta"}, 0},
        {{.size = 512, .first = 0, .last = 10, .name = "</script><b>gamma"}, 2048},
        {{.size = 768, .pieces = pieces, .piece_count = 2, .name = "two pieces"}, 2560},
        {{.size = 0, .first = 2, .last = 3, .name = "nothing"}, 0},
    };
    return make(folder, "small", NULL, bodies, sizeof bodies / sizeof *bodies);
}

/* As from a snapshot: two requests failed. */
static int make_oom(const char *folder) {
    static const tn_body bodies[] = {{.size = 3000, .first = 1, .last = 9, .name = "weights"},
                                     {.size = 1000, .first = 3, .last = 9, .name = "<i>kept"}};
    static const uint64_t offsets[] = {0, 3000};
    static const tn_report_mark marks[] = {{TN_KIND_PARAMETER, "a.py:1 f"}, {TN_KIND_COUNT, NULL}};
    static const tn_report_oom ooms[] = {{5, 2048, 4000, 5120, 1024}, {8, 4096, 4000, 5120, 1024}};
    tn_error error;
    tn_problem *problem;
    tn_layout layout;
    if (tn_problem_create(NULL, &problem, &error) ||
        tn_problem_add(problem, &bodies[0], NULL, &error) ||
        tn_problem_add(problem, &bodies[1], NULL, &error) ||
        tn_layout_from_offsets(problem, offsets, &layout, &error))
        return make_fail(&error);
    tn_report report = {.struct_size = sizeof report,
                        .input = "oom",
                        .problem = problem,
                        .layout = &layout,
                        .marks = marks,
                        .ooms = ooms,
                        .oom_count = 2,
                        .reserved_peak = 5120};
    int result = make_files(folder, &report);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    return result;
}

static int make_huge(const char *folder) {
    const placed bodies[] = {
        {{.size = ((uint64_t)1 << 61) + 1, .first = INT64_MIN, .last = -7, .name = "before"}, 0},
        {{.size = ((uint64_t)1 << 60) + 3, .first = -1, .last = INT64_MAX, .name = "after"}, 0},
    };
    return make(folder, "huge", NULL, bodies, 2);
}

/* As a training step asks for: most die soon, some are kept from the way there for the way back. */
static int make_large(const char *folder) {
    enum { COUNT = 20000 };
    placed *bodies = calloc(COUNT, sizeof *bodies);
    char(*names)[24] = calloc(COUNT, sizeof *names);
    tn__random random = {42};
    if (bodies == NULL || names == NULL) return 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        bool kept = i < COUNT / 2 && tn__random_below(&random, 12) == 0;
        uint64_t size = (1 + tn__random_below(&random, 4)) << (8 + tn__random_below(&random, 12));
        snprintf(names[i], sizeof names[i], "tensor_%u", i);
        bodies[i].body = (tn_body){.size = size,
                                   .first = i,
                                   .last = i + 2 + (int64_t)tn__random_below(&random, 9),
                                   .alignment = 64,
                                   .name = names[i]};
        if (kept) bodies[i].body.last = COUNT - (int64_t)i;
    }
    int result = make(folder, "large", "greedy-by-size", bodies, COUNT);
    free(bodies);
    free(names);
    return result;
}

static int make_model(const char *folder, const char *path) {
    tn_error error;
    tn_graph *graph;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    if (tn_graph_load(path, NULL, &graph, &error) || tn_graph_infer(graph, &error) ||
        tn_program_create(graph, NULL, &program, &error) ||
        tn_occupancy_create(program, NULL, &occupancy, &error) ||
        tn_plan(tn_occupancy_problem(occupancy), NULL, &layout, &error))
        return make_fail(&error);
    tn_report report = {.struct_size = sizeof report,
                        .input = "model",
                        .problem = tn_occupancy_problem(occupancy),
                        .layout = &layout,
                        .occupancy = occupancy};
    int result = make_files(folder, &report);
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
    return result;
}

/* A step of training beside the plan of the model as it runs. */
static int make_both(const char *folder, const tn_graph *graph, tn_report *after) {
    tn_error error;
    tn_setup *setup;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    options.no_kernels = true;
    if (tn_setup_create(graph, &options, &setup, &error)) return make_fail(&error);
    tn_report before = {.struct_size = sizeof before,
                        .input = "before",
                        .problem = tn_occupancy_problem(tn_setup_occupancy(setup)),
                        .layout = tn_setup_layout(setup),
                        .occupancy = tn_setup_occupancy(setup)};
    after->input = "both";
    after->before = &before;
    int result = make_files(folder, after);
    tn_setup_destroy(setup);
    return result;
}

/* A step of training, beside more than it needs, for a device. */
static int make_step(const char *folder, const char *path) {
    tn_error error;
    tn_graph *graph;
    tn_training step;
    tn_setup *setup;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    train.optimizer = TN_OPTIMIZER_MOMENTUM;
    options.no_kernels = true;
    if (tn_graph_load(path, NULL, &graph, &error) || tn_graph_infer(graph, &error) ||
        tn_train(graph, &train, &step, &error) ||
        tn_setup_create(step.graph, &options, &setup, &error))
        return make_fail(&error);
    tn_setup_needs needs = tn_setup_need(setup);
    tn_report report = {.struct_size = sizeof report,
                        .input = "step",
                        .problem = tn_occupancy_problem(tn_setup_occupancy(setup)),
                        .layout = tn_setup_layout(setup),
                        .occupancy = tn_setup_occupancy(setup),
                        .static_bytes = needs.statics,
                        .device_bytes = 2 * needs.total,
                        .device = "a made-up device"};
    int result = make_files(folder, &report) || make_both(folder, graph, &report);
    tn_setup_destroy(setup);
    tn_training_release(&step);
    tn_graph_destroy(graph);
    return result;
}

/* --- fits --- */

enum { POINTS = 5 };

typedef struct fitting {
    const char *name;
    tn_program *program;
    tn_costs *costs;
    tn_fit_options options;
    bool abstract;
} fitting;

/* The same events as a run over a slower link tells. */
static tn_status make_slower(const fitting *it, const tn_fit_result *result, tn_trace *trace,
                             tn_error *error) {
    tn_fit_options slower = it->options;
    slower.to_host_bytes_per_s /= 2, slower.from_host_bytes_per_s /= 2;
    return tn_fit_trace(result, it->costs, &slower, trace, error);
}

static int make_fit(const char *folder, fitting *it) {
    tn_error error;
    tn_fit_result results[POINTS], answer;
    uint64_t budgets[POINTS];
    tn_report_point points[POINTS];
    tn_trace *predicted, *measured;
    if (tn_fit_sweep(it->program, it->costs, &it->options, POINTS, budgets, results, &error))
        return make_fail(&error);
    it->options.budget = budgets[1];
    if (tn_fit(it->program, it->costs, &it->options, &answer, &error)) return make_fail(&error);
    for (int i = 0; i < POINTS; i++)
        points[i] =
            (tn_report_point){budgets[i], results[i].bytes, results[i].time, results[i].time_bound};
    uint64_t events = (uint64_t)tn_program_count(answer.program) + 1;
    if (tn_trace_create(NULL, events, &predicted, &error) ||
        tn_trace_create(NULL, events, &measured, &error) ||
        tn_fit_trace(&answer, it->costs, &it->options, predicted, &error) ||
        make_slower(it, &answer, measured, &error))
        return make_fail(&error);
    tn_report_fit fit = {.result = &answer,
                         .budget = it->options.budget,
                         .abstract = it->abstract,
                         .points = points,
                         .point_count = POINTS,
                         .predicted = predicted,
                         .measured = it->abstract ? NULL : measured};
    tn_report report = {.struct_size = sizeof report,
                        .input = it->name,
                        .problem = tn_occupancy_problem(answer.occupancy),
                        .layout = &answer.layout,
                        .occupancy = answer.occupancy,
                        .fit = &fit};
    int result = make_files(folder, &report);
    tn_trace_destroy(predicted);
    tn_trace_destroy(measured);
    tn_fit_release(&answer);
    for (int i = 0; i < POINTS; i++) tn_fit_release(&results[i]);
    return result;
}

/* A chain of LAYERS nodes and a gradient for each, which reads its node. */
static int make_chain(const char *folder) {
    enum { LAYERS = 16, NODES = 2 * LAYERS + 1 };
    fitting it = {.name = "fit", .options = TN_FIT_OPTIONS_INIT, .abstract = true};
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_graph *graph;
    tn_error error;
    tn__text text;
    tn__text_init(&text, NULL);
    for (int row = 0; row < 2; row++) {
        tn__text_put(&text, row == 0 ? "{\"cpu\":[" : "],\"ram\":[");
        for (int i = 0; i < NODES; i++)
            tn__text_printf(&text, "%s%d", i ? "," : "", row == 0 ? 10 : 1024);
    }
    tn__text_put(&text, "],\"edges\":[");
    for (int i = 1; i < NODES; i++) tn__text_printf(&text, "%s[%d,%d]", i > 1 ? "," : "", i - 1, i);
    for (int i = 0; i < LAYERS; i++) tn__text_printf(&text, ",[%d,%d]", i, 2 * LAYERS - i);
    tn__text_put(&text, "]}");
    memory.alignment = 1;
    memory.inplace = TN_INPLACE_NONE;
    it.options.memory = &memory;
    it.options.live = true;
    it.options.pass = "joint";
    if (tn_fit_problem_load_memory("chain", text.data, text.size, NULL, &graph, &it.costs,
                                   &error) ||
        tn_program_create(graph, NULL, &it.program, &error))
        return make_fail(&error);
    int result = make_fit(folder, &it);
    tn_costs_destroy(it.costs);
    tn_program_destroy(it.program);
    tn_graph_destroy(graph);
    tn__text_release(&text);
    return result;
}

static int make_swap(const char *folder, const char *path) {
    fitting it = {.name = "swap", .options = TN_FIT_OPTIONS_INIT};
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_training step;
    tn_graph *graph;
    tn_error error;
    model.flops_per_s = 1e13, model.bytes_per_s = 1e12;
    it.options.pass = "vdnn-all";
    it.options.allow = TN_FIT_SWAP;
    it.options.to_host_bytes_per_s = it.options.from_host_bytes_per_s = 12e9;
    if (tn_graph_load(path, NULL, &graph, &error) || tn_graph_infer(graph, &error) ||
        tn_train(graph, &train, &step, &error) ||
        tn_program_create(step.graph, NULL, &it.program, &error) ||
        tn_costs_create_model(step.graph, &model, &it.costs, &error))
        return make_fail(&error);
    int result = make_fit(folder, &it);
    tn_costs_destroy(it.costs);
    tn_program_destroy(it.program);
    tn_training_release(&step);
    tn_graph_destroy(graph);
    return result;
}

/* --- ranks --- */

static tn_status make_line(tn_timeline *line, const tn_program *program, const tn_costs *costs,
                           tn_error *error) {
    tn_occupancy *occupancy;
    tn_trace *trace;
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    tn_simulation simulation;
    options.costs = tn_costs_list(costs);
    options.latency_s = 1e-6;
    TN_TRY(tn_occupancy_create(program, NULL, &occupancy, error));
    TN_TRY(tn_trace_create(NULL, 8 * (uint64_t)tn_program_count(program), &trace, error));
    options.occupancy = occupancy;
    options.trace = trace;
    for (uint32_t run = 0; run < 2 * TN_TIMELINE_KINDS; run++) {
        uint32_t rank = run / TN_TIMELINE_KINDS, kind = run % TN_TIMELINE_KINDS;
        options.run = run;
        options.start_s = 1 + 1e-5 * rank * kind; /* the second begins later */
        options.peer_bytes_per_s = kind == TN_TIMELINE_PREDICTED ? 10e9 : 5e9;
        tn_trace_clear(trace);
        TN_TRY(tn_simulate(program, &options, &simulation, error));
        tn_simulation_release(&simulation);
        TN_TRY(tn_timeline_rank(line, rank, rank == 0 ? "data 0" : "data 1",
                                tn_occupancy_summary(occupancy).peak_live, error));
        TN_TRY(
            tn_timeline_add(line, rank, (tn_timeline_kind)kind, occupancy, trace, run, 0, error));
    }
    tn_trace_destroy(trace);
    tn_occupancy_destroy(occupancy);
    return TN_OK;
}

static int make_ranks(const char *folder, const char *path) {
    static const char *const suffixes[] = {"html", "json", "svg"};
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_timeline *line;
    tn_training step;
    tn_program *program, *averaged;
    tn_costs *costs;
    tn_graph *graph;
    tn_error error;
    model.flops_per_s = 1e13, model.bytes_per_s = 1e12;
    train.bucket_bytes = 1 << 16;
    if (tn_graph_load(path, NULL, &graph, &error) || tn_graph_infer(graph, &error) ||
        tn_train(graph, &train, &step, &error) ||
        tn_program_create(step.graph, NULL, &program, &error) ||
        tn_program_average(program, 0, &averaged, &error) ||
        tn_costs_create_model(step.graph, &model, &costs, &error) ||
        tn_timeline_create(NULL, "ranks", 2, &line, &error) ||
        make_line(line, averaged, costs, &error))
        return make_fail(&error);
    for (int s = 0; s < 3; s++) {
        char name[512];
        snprintf(name, sizeof name, "%s/ranks.%s", folder, suffixes[s]);
        if (tn_timeline_write(line, name, &error)) return make_fail(&error);
    }
    tn_timeline_destroy(line);
    tn_costs_destroy(costs);
    tn_program_destroy(averaged);
    tn_program_destroy(program);
    tn_training_release(&step);
    tn_graph_destroy(graph);
    return 0;
}

int main(int count, char **arguments) {
    if (count != 4) return fprintf(stderr, "usage: make_pages FOLDER MODEL TRAINED\n"), 2;
    const char *folder = arguments[1];
    return make_small(folder) || make_oom(folder) || make_huge(folder) || make_large(folder) ||
           make(folder, "empty", NULL, NULL, 0) || make_model(folder, arguments[2]) ||
           make_step(folder, arguments[3]) || make_chain(folder) ||
           make_swap(folder, arguments[3]) || make_ranks(folder, arguments[3]);
}
