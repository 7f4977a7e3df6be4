/* pool.c - the memory that the same run would take without a plan: a caching pool like PyTorch's
 * serves every block when it is requested. */
#include "report/format.h"

#define POOL_MOST UINT64_C(40000000) /* steps times blocks: the cost grows with this product */

uint64_t tn__caching_pool(const tn_report *report) {
    tn_estimate_options options = TN_ESTIMATE_OPTIONS_INIT;
    tn_estimate estimate;
    tn_error unused; /* if the pool cannot run the program, the line is omitted */
    if (report->occupancy == NULL || report->fit != NULL) return 0;
    uint64_t steps = tn__step_count(report);
    if (steps * tn_problem_count(report->problem) > POOL_MOST) return 0;
    options.context = report->context;
    options.pool = "caching";
    tn_status status = tn_estimate_make(report->occupancy, &options, &estimate, &unused);
    return status == TN_OK ? estimate.arena : 0;
}
