/* csv.c - the problem with the offset of every buffer, as MiniMalloc's tools read it.
 *
 * The same bytes as tn_problem_save_csv: one writer, in plan/io.
 */
#include "plan/io/io.h"
#include "report/format.h"

static tn_status csv_render(const tn_report *report, tn__text *text, tn_error *error) {
    return tn__csv_render(report->problem, report->layout, text, error);
}

const tn_report_format tn__report_format_csv = {
    .name = "csv",
    .suffix = ".csv",
    .summary = "the problem with a column of offsets",
    .render = csv_render,
};
