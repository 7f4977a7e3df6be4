/* planners.c - which planner is best on which problem, and what does it cost?
 *
 *     build/bench/planners [OPTION...] [FILE.csv...]
 *
 * --set NAME           problems (every planner x every file, also generated ones), scale (10^4 to
 *                      10^6 buffers), packings (tilings and pinwheels by `exact`), or all;
 *                      floor (the default beside simple planners, every family, 10^3 to 10^6);
 *                      limits (10^5 to 10^7 buffers: time taken, memory)
 * --timeout SECONDS    for each planner on each problem (2)
 * --planner NAME       only this one; may be repeated
 * --external N=COMMAND times a program beside: {input} {output} {capacity} are filled in
 * --capacity BYTES     for {capacity}; without it the lower bound of the file
 * --markdown           tables in Markdown: `make bench-results` writes bench/results.md
 *
 * Without files: ../shared/data/problems where it is there. Every measurement is a process of its
 * own, from reading the file to the verified plan. Ratios are to greedy-by-size in the same run.
 */
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/kit/generate.h"
#include "bench/kit/measure.h"

#define BENCH_MAX 128u
#define BENCH_BASELINE "greedy-by-size"

typedef struct bench_contender {
    const char *name, *command; /* command NULL: a planner */
} bench_contender;

typedef struct bench_problem {
    char path[512], name[64];
} bench_problem;

typedef struct bench_setup {
    bench_contender contenders[BENCH_MAX];
    bench_problem problems[BENCH_MAX];
    uint32_t contender_count, problem_count;
    double timeout_s;
    uint64_t capacity;
    const char *set;
    bool markdown;
    char folder[64]; /* of generated files */
} bench_setup;

/* --- problems --- */

static void bench_add_file(bench_setup *bench, const char *path) {
    if (bench->problem_count == BENCH_MAX) return;
    bench_problem *problem = &bench->problems[bench->problem_count++];
    const char *slash = strrchr(path, '/');
    snprintf(problem->path, sizeof problem->path, "%s", path);
    snprintf(problem->name, sizeof problem->name, "%.*s",
             (int)strcspn(slash != NULL ? slash + 1 : path, "."), slash != NULL ? slash + 1 : path);
}

/* Writes a generated problem into the bench's folder; false: it could not. */
static bool bench_generate(bench_setup *bench, const char *kind, uint32_t count, uint32_t steps,
                           uint64_t seed, char path[512]) {
    tn_problem *problem = NULL;
    tn_error error;
    uint64_t optimum;
    generate_wish wish = {.count = count, .seed = seed, .steps = steps};
    snprintf(path, 512, "%s/%s_%u_%" PRIu64 ".csv", bench->folder, kind, count, seed);
    bool done = generate_find(kind)->make(&wish, &problem, &optimum, &error) == TN_OK &&
                tn_problem_save_csv(problem, NULL, path, &error) == TN_OK;
    if (!done) fprintf(stderr, "%s: %s\n", path, error.message);
    tn_problem_destroy(problem);
    return done;
}

static void bench_default_problems(bench_setup *bench) {
    glob_t found;
    char path[512];
    if (glob("../shared/data/problems/*.csv", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) bench_add_file(bench, found.gl_pathv[i]);
        globfree(&found);
    }
    for (uint32_t i = 0; i < generate_kind_count; i++)
        if (bench_generate(bench, generate_kinds[i].name, 1000, 0, 1, path))
            bench_add_file(bench, path);
}

/* --- every planner x every problem --- */

static measure_result *bench_cell(measure_result *results, uint32_t problem, uint32_t contender) {
    return &results[(size_t)problem * BENCH_MAX + contender];
}

static double bench_ratio(const measure_result *result) {
    uint64_t bound = result->lower_bound > 0 ? result->lower_bound : 1;
    return (double)result->peak / (double)bound;
}

static void bench_line(const bench_setup *bench, const char *name, uint64_t bound,
                       const measure_result *result, const measure_result *baseline) {
    double slower = baseline->user_s > 0 ? result->user_s / baseline->user_s : 0;
    const char *edge = bench->markdown ? "| " : "  ";
    const char *bar = bench->markdown ? "|" : " ";
    if (!result->solved) {
        printf("%s%-23s %s %.60s %s%s%s%s\n", edge, name, bar, result->message, bar, bar, bar,
               bench->markdown ? "|" : "");
        return;
    }
    double ratio = (double)result->peak / (double)(bound > 0 ? bound : 1);
    printf("%s%-23s %s %8.5f %s %15" PRIu64 "%s %s %9.3f %s %8.1f %s\n", edge, name, bar, ratio,
           bar, result->peak, result->optimal ? " =" : "  ", bar, result->user_s, bar, slower,
           bench->markdown ? "|" : "");
}

static void bench_one_problem(const bench_setup *bench, uint32_t which, measure_result *results) {
    const bench_problem *problem = &bench->problems[which];
    const measure_result *baseline = bench_cell(results, which, 0);
    uint64_t bound = 0; /* the best that anybody proved */
    for (uint32_t i = 0; i < bench->contender_count; i++) {
        measure_job job = {.path = problem->path,
                           .planner = bench->contenders[i].name,
                           .command = bench->contenders[i].command,
                           .capacity = bench->capacity,
                           .timeout_s = bench->timeout_s};
        measure_result *result = bench_cell(results, which, i);
        measure_run(&job, result);
        if (result->lower_bound > bound) bound = result->lower_bound;
        if (strcmp(bench->contenders[i].name, BENCH_BASELINE) == 0) baseline = result;
    }
    printf("\n%s%s: %u buffers, bound %" PRIu64 " bytes\n\n", bench->markdown ? "#### " : "",
           problem->name, baseline->bodies, bound);
    if (bench->markdown)
        printf("| planner | height / bound | bytes (= proved) | user s | x %s |\n"
               "|---|---|---|---|---|\n",
               BENCH_BASELINE);
    for (uint32_t i = 0; i < bench->contender_count; i++)
        bench_line(bench, bench->contenders[i].name, bound, bench_cell(results, which, i),
                   baseline);
    fflush(stdout);
}

/* One line a contender over all problems that it solved. */
static void bench_summary(const bench_setup *bench, measure_result *results) {
    printf("\n%sAll %u problems\n\n", bench->markdown ? "### " : "", bench->problem_count);
    if (bench->markdown)
        printf("| planner | solved | at the bound | mean height / bound | user s, all |\n"
               "|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < bench->contender_count; i++) {
        uint32_t solved = 0, optimal = 0;
        double logs = 0, user_s = 0;
        for (uint32_t k = 0; k < bench->problem_count; k++) {
            const measure_result *result = bench_cell(results, k, i);
            user_s += result->user_s;
            if (!result->solved) continue;
            solved++;
            optimal += result->optimal;
            logs += log(bench_ratio(result));
        }
        const char *bar = bench->markdown ? "|" : " ";
        printf("%s %-23s %s %3u %s %3u %s %8.4f %s %9.3f %s\n", bar, bench->contenders[i].name, bar,
               solved, bar, optimal, bar, solved > 0 ? exp(logs / solved) : 0, bar, user_s, bar);
    }
}

static void bench_problems(bench_setup *bench) {
    measure_result *results =
        calloc((size_t)BENCH_MAX * BENCH_MAX, sizeof *results); /* [problem][contender] */
    if (results == NULL) return;
    if (bench->problem_count == 0) bench_default_problems(bench);
    printf("\n%sEvery planner, every problem (at most %g s each)\n", bench->markdown ? "## " : "",
           bench->timeout_s);
    for (uint32_t i = 0; i < bench->problem_count; i++) bench_one_problem(bench, i, results);
    bench_summary(bench, results);
    free(results);
}

/* --- growth --- */

static void bench_scale(bench_setup *bench) {
    static const uint32_t counts[] = {10000, 100000, 1000000};
    static const struct {
        const char *name, *kind;
        uint32_t steps; /* a buffer; few: many cuts share a step */
    } rows[] = {{"training", "training", 0},        {"random", "random", 0},
                {"first-fit", "first-fit", 0},      {"tiling, 2^20 steps", "tiling", 1 << 20},
                {"tiling, 64 steps", "tiling", 64}, {"pinwheel, 64 steps", "pinwheel", 64}};
    const char *bar = bench->markdown ? "|" : " ";
    printf("\n%s10^4 to 10^6 buffers, planner scale, no limits\n\n", bench->markdown ? "## " : "");
    if (bench->markdown)
        printf(
            "| problem | buffers | height / bound | user s | one plan: height / bound | user s | "
            "us a buffer | MiB |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            char path[512];
            measure_result result, one;
            measure_job job = {.path = path, .planner = "scale"};
            if (!bench_generate(bench, rows[k].kind, counts[i], rows[k].steps, 1, path)) continue;
            measure_run(&job, &result);
            job.work_limit = result.bodies;
            measure_run(&job, &one);
            unlink(path);
            printf("%s %-18s %s %8u %s %8.5f %s %8.2f %s %8.5f %s %8.3f %s %8.2f %s %8.0f %s\n",
                   bar, rows[k].name, bar, result.bodies, bar, bench_ratio(&result), bar,
                   result.user_s, bar, bench_ratio(&one), bar, one.user_s, bar,
                   1e6 * one.user_s / (result.bodies + 1), bar, result.memory_mib, bar);
            fflush(stdout);
        }
    }
}

/* --- perfect packings --- */

static void bench_packings(bench_setup *bench) {
    static const uint32_t counts[] = {50, 100, 200, 300, 400, 500};
    static const char *const kinds[] = {"tiling", "pinwheel"};
    const char *bar = bench->markdown ? "|" : " ";
    printf("\n%sTilings and pinwheels, planner exact, 10 s each, five seeds\n\n",
           bench->markdown ? "## " : "");
    if (bench->markdown)
        printf("| problem | buffers | solved of 5 | worst height / optimum | user s, each |\n"
               "|---|---|---|---|---|\n");
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            uint32_t solved = 0;
            double worst = 0;
            char seconds[96] = "";
            for (uint64_t seed = 1; seed <= 5; seed++) {
                char path[512];
                measure_result result;
                measure_job job = {.path = path, .planner = "exact", .timeout_s = 10};
                if (!bench_generate(bench, kinds[k], counts[i], 0, seed, path)) continue;
                measure_run(&job, &result);
                unlink(path);
                solved += result.optimal;
                worst = bench_ratio(&result) > worst ? bench_ratio(&result) : worst;
                size_t used = strlen(seconds);
                snprintf(seconds + used, sizeof seconds - used, " %.2f", result.user_s);
            }
            printf("%s %-9s %s %4u %s %u %s %7.4f %s%s %s\n", bar, kinds[k], bar, counts[i], bar,
                   solved, bar, worst, bar, seconds, bar);
            fflush(stdout);
        }
    }
}

/* --- the default beside the quick planners, and the simple ones after other tools --- */

/* Bytes of the best of them and who it is; *user_s: the seconds of all together. */
static uint64_t bench_quick(const char *path, double timeout_s, const char **who, double *user_s) {
    static const char *const quick[] = {
        "greedy-by-size", "best-fit",    "greedy-by-breadth",  "time-order", "two-ended",
        "tflite-by-size", "given-order", "tflm-greedy",        "xla",        "somas",
        "ggml",           "colouring",   "megengine-push-down"};
    uint64_t best = UINT64_MAX;
    *user_s = 0;
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++) {
        measure_result result;
        measure_job job = {.path = path, .planner = quick[i], .timeout_s = timeout_s};
        measure_run(&job, &result);
        *user_s += result.user_s;
        if (!result.solved || result.peak >= best) continue;
        best = result.peak;
        *who = quick[i];
    }
    return best;
}

static void bench_floor(bench_setup *bench) {
    static const uint32_t counts[] = {1000, 10000, 100000, 1000000};
    const char *bar = bench->markdown ? "|" : " ";
    printf(
        "\n%sThe default beside the best of the quick and simple planners, at most %g s each\n\n",
        bench->markdown ? "## " : "", bench->timeout_s);
    if (bench->markdown)
        printf("| problem | buffers | best of them | height / bound | user s of all | auto: "
               "height / bound | user s | |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (uint32_t k = 0; k < generate_kind_count; k++) {
            char path[512];
            const char *who = "none";
            double quick_s;
            measure_result result;
            measure_job job = {.path = path, .planner = "auto", .timeout_s = bench->timeout_s};
            if (!bench_generate(bench, generate_kinds[k].name, counts[i], 0, 1, path)) continue;
            uint64_t best = bench_quick(path, bench->timeout_s, &who, &quick_s);
            measure_run(&job, &result);
            unlink(path);
            double bound = (double)(result.lower_bound > 0 ? result.lower_bound : 1);
            printf("%s %-9s %s %8u %s %-17s %s %9.5f %s %7.2f %s %9.5f %s %7.2f %s %s %s\n", bar,
                   generate_kinds[k].name, bar, result.bodies, bar, who, bar, (double)best / bound,
                   bar, quick_s, bar, bench_ratio(&result), bar, result.user_s, bar,
                   result.peak > best ? "ABOVE" : "", bench->markdown ? "|" : "");
            fflush(stdout);
        }
    }
}

/* --- the clock --- */

static void bench_limits(bench_setup *bench) {
    static const struct {
        uint32_t count;
        double timeout_s;
    } rows[] = {{100000, 1}, {1000000, 2}, {2000000, 5}, {10000000, 5}};
    static const char *const planners[] = {"auto", "exact", "scale", "greedy-by-size"};
    const char *bar = bench->markdown ? "|" : " ";
    printf("\n%sLimits: short lives, a layout each time\n\n", bench->markdown ? "## " : "");
    if (bench->markdown)
        printf("| planner | buffers | limit s | planning took s | height / bound | user s | MiB |\n"
               "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[512];
        if (!bench_generate(bench, "short", rows[i].count, 0, 1, path)) continue;
        for (size_t k = 0; k < sizeof planners / sizeof *planners; k++) {
            measure_result result;
            measure_job job = {
                .path = path, .planner = planners[k], .timeout_s = rows[i].timeout_s};
            measure_run(&job, &result);
            printf("%s %-14s %s %9u %s %4.1f %s %6.2f %s %8.5f %s %6.2f %s %6.0f %s %s\n", bar,
                   planners[k], bar, rows[i].count, bar, rows[i].timeout_s, bar, result.plan_s, bar,
                   bench_ratio(&result), bar, result.user_s, bar, result.memory_mib, bar,
                   result.solved ? "" : result.message);
            fflush(stdout);
        }
        unlink(path);
    }
}

/* --- options --- */

static void bench_add_contender(bench_setup *bench, const char *name, const char *command) {
    if (bench->contender_count < BENCH_MAX)
        bench->contenders[bench->contender_count++] = (bench_contender){name, command};
}

static bool bench_option(bench_setup *bench, const char *name, char *value) {
    if (strcmp(name, "--set") == 0) {
        bench->set = value;
    } else if (strcmp(name, "--timeout") == 0) {
        bench->timeout_s = atof(value);
    } else if (strcmp(name, "--capacity") == 0) {
        bench->capacity = strtoull(value, NULL, 10);
    } else if (strcmp(name, "--planner") == 0) {
        bench_add_contender(bench, value, NULL);
    } else if (strcmp(name, "--external") == 0 && strchr(value, '=') != NULL) {
        char *equals = strchr(value, '=');
        *equals = '\0';
        bench_add_contender(bench, value, equals + 1);
    } else {
        return false;
    }
    return true;
}

static bool bench_read(bench_setup *bench, int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--markdown") == 0) {
            bench->markdown = true;
        } else if (strncmp(arguments[i], "--", 2) != 0) {
            bench_add_file(bench, arguments[i]);
        } else if (i + 1 >= count || !bench_option(bench, arguments[i], arguments[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    bool named = false;
    for (uint32_t i = 0; i < bench->contender_count; i++)
        named = named || bench->contenders[i].command == NULL;
    for (uint32_t i = 0; i < tn_planner_count() && !named; i++)
        bench_add_contender(bench, tn_planner_name(i), NULL);
    return true;
}

int main(int count, char **arguments) {
    static bench_setup bench = {
        .timeout_s = 2, .set = "problems", .folder = "/tmp/tenure_bench_XXXXXX"};
    if (!bench_read(&bench, count, arguments)) {
        fprintf(stderr,
                "usage: planners [--set problems|scale|packings|all|floor|limits] [--timeout S] "
                "[--planner NAME] [--external NAME=COMMAND] [--capacity BYTES] "
                "[--markdown] [FILE.csv...]\n");
        return 2;
    }
    if (mkdtemp(bench.folder) == NULL) {
        fprintf(stderr, "%s: cannot be made\n", bench.folder);
        return 1;
    }
    bool all = strcmp(bench.set, "all") == 0;
    if (bench.markdown)
        printf("# Planners, measured\n\nWritten by `make bench-results`; user seconds of the whole "
               "process, reading included.\n");
    if (all || strcmp(bench.set, "problems") == 0) bench_problems(&bench);
    if (all || strcmp(bench.set, "scale") == 0) bench_scale(&bench);
    if (all || strcmp(bench.set, "packings") == 0) bench_packings(&bench);
    if (strcmp(bench.set, "floor") == 0) bench_floor(&bench);
    if (strcmp(bench.set, "limits") == 0) bench_limits(&bench);
    char pattern[96];
    glob_t left;
    snprintf(pattern, sizeof pattern, "%s/*", bench.folder);
    if (glob(pattern, 0, NULL, &left) == 0) {
        for (size_t i = 0; i < left.gl_pathc; i++) unlink(left.gl_pathv[i]);
        globfree(&left);
    }
    rmdir(bench.folder);
    return 0;
}
