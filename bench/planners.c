/* planners.c - which planner is best on which problem, and what does it cost?
 *
 *     build/bench/planners [--timeout SECONDS] FILE.csv...
 *
 * Prints, for every planner of the registry and every problem, height / lower bound, seconds, and
 * the seconds as a ratio to greedy-by-size in the same run. Nothing is asserted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/plan.h>

static void bench_file(const char *path, double timeout_s) {
    tn_problem *problem;
    tn_error error;
    double baseline_s = 0;
    if (tn_problem_load(path, NULL, &problem, NULL, &error) != TN_OK) {
        fprintf(stderr, "%s: %s\n", error.where, error.message);
        return;
    }
    const char *slash = strrchr(path, '/');
    printf("%s: %u buffers\n", slash != NULL ? slash + 1 : path, tn_problem_count(problem));
    for (int pass = 0; pass < 2; pass++) { /* the baseline first, then all */
        for (uint32_t i = 0; i < tn_planner_count(); i++) {
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout layout;
            options.planner = tn_planner_name(i);
            options.timeout_s = timeout_s;
            if (pass == 0 && strcmp(options.planner, "greedy-by-size") != 0) continue;
            if (tn_plan(problem, &options, &layout, &error) != TN_OK) {
                printf("  %-18s %s\n", options.planner, error.message);
                continue;
            }
            if (pass == 0) {
                baseline_s = layout.seconds;
            } else {
                double bound = layout.lower_bound != 0 ? (double)layout.lower_bound : 1;
                printf("  %-18s %8.4f x bound  %14llu  %-8s %9.4f s  %8.2f x\n", options.planner,
                       (double)layout.peak / bound, (unsigned long long)layout.peak,
                       tn_verdict_name(layout.verdict), layout.seconds,
                       layout.seconds / baseline_s);
            }
            tn_layout_release(&layout);
        }
    }
    tn_problem_destroy(problem);
}

int main(int count, char **arguments) {
    double timeout_s = 0;
    int first = 1;
    if (count > 2 && strcmp(arguments[1], "--timeout") == 0) {
        timeout_s = atof(arguments[2]);
        first = 3;
    }
    for (int i = first; i < count; i++) bench_file(arguments[i], timeout_s);
    return 0;
}
