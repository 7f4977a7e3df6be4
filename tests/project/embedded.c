/* embedded.c - problems through tenure_plan.c, as one who dropped it into a project would have it:
 * embedded CAPACITY PLANNER|all FILE.csv... Each is planned and judged by trying all pairs, with no
 * code of the library; then the library's verifier must accept it, and refuse it damaged. */
#include "tenure_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int overlaps(const tn_problem *problem, const tn_layout *layout) {
    int found = 0;
    for (tn_body_id i = 0; i < layout->body_count; i++) {
        tn_body a = *tn_problem_body(problem, i);
        for (tn_body_id j = 0; j < i; j++) {
            tn_body b = *tn_problem_body(problem, j);
            found += a.first < b.last && b.first < a.last &&
                     layout->offset[i] < layout->offset[j] + b.size &&
                     layout->offset[j] < layout->offset[i] + a.size;
        }
        found += layout->offset[i] + a.size > layout->peak;
    }
    return found;
}

static int solve(const char *path, const tn_plan_options *options) {
    tn_error error;
    tn_problem *problem;
    tn_layout layout;
    if (tn_problem_load(path, NULL, &problem, NULL, &error) != TN_OK) {
        printf("%s: %s\n", path, error.message);
        return 1;
    }
    tn_status status = tn_plan(problem, options, &layout, &error);
    if (status != TN_OK) printf("%s: %s: %s\n", path, tn_status_name(status), error.message);
    int failed = status != TN_OK;
    if (status == TN_OK) {
        int bad = overlaps(problem, &layout);
        failed = bad != 0 || (options->capacity > 0 && layout.peak > options->capacity) ||
                 tn_layout_verify(problem, &layout, NULL, &error) != TN_OK;
        const char *name = strrchr(path, '/');
        printf("%-18s %-24s %4u buffers %8llu bytes, %-8s %7.3f s%s\n",
               name != NULL ? name + 1 : path, layout.planner, layout.body_count,
               (unsigned long long)layout.peak, tn_verdict_name(layout.verdict), layout.seconds,
               failed ? "  NOT VALID" : "");
        layout.offset[0] += layout.peak; /* a judge that cannot refuse is none */
        failed |=
            layout.body_count > 0 && tn_layout_verify(problem, &layout, NULL, &error) == TN_OK;
        tn_layout_release(&layout);
    }
    tn_problem_destroy(problem);
    return failed;
}

int main(int count, char **arguments) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    if (count < 4) return 2;
    options.capacity = strtoull(arguments[1], NULL, 10);
    int failed = 0;
    for (uint32_t planner = 0; planner < tn_planner_count(); planner++) {
        options.planner = tn_planner_name(planner);
        if (strcmp(arguments[2], "all") != 0 && strcmp(arguments[2], options.planner) != 0)
            continue;
        for (int i = 3; i < count; i++) failed += solve(arguments[i], &options);
    }
    return failed > 0;
}
