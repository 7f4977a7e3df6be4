/* simulate.h - the results of `tenure simulate`, for printing and drawing. */
#ifndef TN_CLI_SIMULATE_H
#define TN_CLI_SIMULATE_H

#include "base/base.h"
#include "cli/facts.h"

enum { SIMULATE_POLICIES_MAX = 32, SIMULATE_BUDGETS_MAX = 128 };

typedef struct simulate_run {
    uint64_t budget;
    tn_evict_outcome outcome;
} simulate_run;

typedef struct simulate_found {
    const char *path;
    const char *policies[SIMULATE_POLICIES_MAX];
    uint32_t policy_count;
    uint64_t budgets[SIMULATE_BUDGETS_MAX]; /* rising */
    uint32_t budget_count;
    bool addresses;
    uint64_t plain_peak;
    tn_evict_least least;
    const tn_evict_log_facts *facts;
    simulate_run *runs; /* [policy_count][budget_count] */
} simulate_found;

static inline const simulate_run *simulate_at(const simulate_found *found, uint32_t policy,
                                              uint32_t budget) {
    return &found->runs[(size_t)policy * found->budget_count + budget];
}
const char *simulate_end_name(tn_evict_end end); /* "done", "full", "over" */

extern const cli_facts simulate_facts;
tn_status simulate_print(const simulate_found *found, bool json, tn_error *error);
/* .html, .svg or .csv, by the suffix of the path. */
tn_status simulate_write(const simulate_found *found, const char *path, tn_error *error);

#endif
