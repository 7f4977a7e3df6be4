/* pte.c - writes the ExecuTorch program that was read, with the offsets of this plan.
 *
 * The file is written by the code that read the program (report.h, write_plan), so this folder does
 * not depend on a reader of models.
 */
#include "report/format.h"

static tn_status pte_write(const tn_report *report, const char *path, tn_error *error) {
    if (report->occupancy != NULL || report->write_plan == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "the input is not a .pte program of ExecuTorch");
    return report->write_plan(report->write_plan_self, report->layout->offset, path, error);
}

const tn_report_format tn__report_format_pte = {
    .name = "pte",
    .suffix = ".pte",
    .summary = "the .pte program that was read, with the offsets of this plan",
    .write = pte_write,
};
