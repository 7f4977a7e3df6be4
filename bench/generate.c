/* generate.c - writes a generated problem of 10^2 to 10^7 buffers as a CSV.
 *
 *     build/bench/generate KIND COUNT [--seed N] [--alignment MAX] [--windows PERCENT]
 *                          [--steps N] > FILE.csv
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/kit/generate.h"

static int generate_usage(void) {
    fprintf(stderr, "usage: generate KIND COUNT [--seed N] [--alignment MAX] "
                    "[--windows PERCENT] [--steps N] > FILE.csv\nkinds:\n");
    for (uint32_t i = 0; i < generate_kind_count; i++)
        fprintf(stderr, "  %-10s %s\n", generate_kinds[i].name, generate_kinds[i].summary);
    return 2;
}

int main(int count, char **arguments) {
    if (count < 3 || count % 2 == 0) return generate_usage();
    const generate_kind *kind = generate_find(arguments[1]);
    generate_wish wish = {.count = (uint32_t)strtoul(arguments[2], NULL, 10)};
    for (int i = 3; i < count; i += 2) {
        uint64_t value = strtoull(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--seed") == 0)
            wish.seed = value;
        else if (strcmp(arguments[i], "--alignment") == 0)
            wish.alignment_max = value;
        else if (strcmp(arguments[i], "--steps") == 0)
            wish.steps = (uint32_t)value;
        else if (strcmp(arguments[i], "--windows") == 0)
            wish.windows = (uint32_t)value;
        else
            return generate_usage();
    }
    if (kind == NULL || wish.count == 0) return generate_usage();
    tn_problem *problem = NULL;
    tn_error error;
    uint64_t optimum = 0;
    if (kind->make(&wish, &problem, &optimum, &error) != TN_OK ||
        tn_problem_save_csv(problem, NULL, "-", &error) != TN_OK) {
        fprintf(stderr, "generate: %s\n", error.message);
        tn_problem_destroy(problem);
        return 1;
    }
    fprintf(stderr, "%s: %u buffers, seed %" PRIu64, kind->name, tn_problem_count(problem),
            wish.seed);
    if (optimum != 0) fprintf(stderr, ", optimum %" PRIu64 " bytes", optimum);
    fprintf(stderr, "\n");
    tn_problem_destroy(problem);
    return 0;
}
