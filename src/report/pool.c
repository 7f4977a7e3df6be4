/* pool.c - what the same run would have taken without a plan: a caching pool, as PyTorch has one,
 * serves every block as it is asked for. */
#include "report/format.h"

#define POOL_MOST UINT64_C(40000000) /* steps times blocks: what asking costs grows as that */

uint64_t tn__caching_pool(const tn_report *report) {
    tn_estimate_options options = TN_ESTIMATE_OPTIONS_INIT;
    tn_estimate estimate;
    tn_error unused; /* a program that no pool can be asked about has no such line */
    if (report->occupancy == NULL || report->fit != NULL) return 0;
    uint64_t steps = tn__step_count(report);
    if (steps * tn_problem_count(report->problem) > POOL_MOST) return 0;
    options.context = report->context;
    options.pool = "caching";
    tn_status status = tn_estimate_make(report->occupancy, &options, &estimate, &unused);
    return status == TN_OK ? estimate.arena : 0;
}
