/* report_pools.c - the bytes that other pools, and a plan of all live ranges, would have reserved
 * for the requests of a snapshot. */
#include "cli/report.h"

static tn_status pools_plan(const cli_report *report, const cli_report_device *device,
                            cli_report_pool *result) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_problem *problem = NULL;
    tn_layout layout = {0};
    options.context = &report->context;
    options.timeout_s = report->timeout_s;
    TN_TRY(tn_snapshot_problem(device->lives, 512, &report->context, &problem, report->error));
    tn_status status = tn_plan(problem, &options, &layout, &result->failure);
    if (status == TN_OK) {
        result->done = true;
        result->reserved = layout.peak;
        result->planner = layout.planner;
        result->verdict = tn_verdict_name(layout.verdict);
    }
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    return TN_OK;
}

static tn_status pools_serve(const cli_report *report, const cli_report_device *device,
                             cli_report_pool *result) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool = NULL;
    tn_pool_usage usage;
    options.context = &report->context;
    options.pool = result->name;
    options.alignment = 512;
    TN_TRY(tn_pool_create(&options, &pool, report->error));
    result->done = tn_snapshot_serve(device->lives, pool, &result->failure) == TN_OK;
    tn_pool_measure(pool, &usage);
    result->reserved = usage.reserved_peak;
    tn_pool_destroy(pool);
    return TN_OK;
}

tn_status cli_report_serve(const cli_report *report, cli_report_device *device) {
    static const char *const names[CLI_REPORT_POOLS] = {"caching", "bfc", "best-fit", "planned"};
    for (uint32_t i = 0; i < CLI_REPORT_POOLS; i++) {
        cli_report_pool *result = &device->pools[device->pool_count++];
        *result = (cli_report_pool){.name = names[i]};
        TN_TRY(i == CLI_REPORT_POOLS - 1 ? pools_plan(report, device, result)
                                         : pools_serve(report, device, result));
    }
    return TN_OK;
}
