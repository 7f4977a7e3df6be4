/* summary.c - writes the JSON object that `tenure plan --json` prints: the result in numbers.
 *
 * It contains clock times, unlike a plan in a file, because it is printed and not stored.
 */
#include "report/plan_facts.h"

static tn_status summary_render(const tn_report *report, tn__text *text, tn_error *error) {
    (void)error;
    tn__text_put(text, "{\"format\":\"tenure-plan\",\"version\":1,\"input\":");
    tn__text_json(text, report->input);
    if (report->occupancy != NULL) {
        tn__text_put(text, ",\"kernels\":");
        tn__words_kernels(text, report->kernels);
    }
    for (tn__plan_fact_id id = 0; id < TN__PLAN_FACT_COUNT; id++) {
        tn__plan_fact fact = tn__plan_fact_of(report, id);
        if (fact.absent) continue;
        tn__text_printf(text, ",\"%s\":", fact.key);
        tn__plan_fact_json(text, report, id, &fact);
    }
    tn__text_put(text, "}\n");
    return TN_OK;
}

const tn_report_format tn__report_format_summary = {
    .name = "summary",
    .suffix = "",
    .summary = "the numbers of the plan as one JSON object",
    .render = summary_render,
};
