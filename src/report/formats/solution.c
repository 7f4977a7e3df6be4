/* solution.c - writes the offsets of a plan as a solution in the format dsa-problem-v1, with the
 * ids of the problem file that was read. */
#include "plan/io/io.h"
#include "report/format.h"

static tn_status solution_render(const tn_report *report, tn__text *text, tn_error *error) {
    if (report->occupancy != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "the input is a model; the format is for problems");
    tn__dsa_render(report->problem, report->layout, text);
    return TN_OK;
}

const tn_report_format tn__report_format_solution = {
    .name = "solution",
    .suffix = ".solution.json",
    .summary = "the placements alone, as the solution of a dsa-problem-v1",
    .render = solution_render,
};
