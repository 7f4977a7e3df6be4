/* make_pages.c - writes the plans that page.test.mjs opens, as .html and as .json beside:
 *
 *     make_pages FOLDER MODEL
 *
 * small: a problem whose rectangles the test knows; large: 20,000 buffers; huge: times and sizes
 * beyond what a double holds; empty: nothing; model: the given model.
 */
#include <stdio.h>

#include <tenure/import.h>

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

int main(int count, char **arguments) {
    if (count != 3) return fprintf(stderr, "usage: make_pages FOLDER MODEL\n"), 2;
    const char *folder = arguments[1];
    return make_small(folder) || make_huge(folder) || make_large(folder) ||
           make(folder, "empty", NULL, NULL, 0) || make_model(folder, arguments[2]);
}
