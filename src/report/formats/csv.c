/* csv.c - writes the problem with the offset of every buffer, for the tools of MiniMalloc.
 *
 * The output is identical to that of tn_problem_save_csv, because both use the writer in plan/io.
 * For a fit, a table of the tensors with their decisions and a table of the numbers of the result
 * follow. For a curve, a table of its points follows. An empty line comes before each of these
 * tables. Readers of problems end at the first empty line.
 */
#include <inttypes.h>

#include "plan/io/io.h"
#include "plan/io/rows.h"
#include "report/format.h"

static void csv_fates(tn__scene *scene, tn__text *text) {
    tn__text_put(text, "\ntensor,decision,bytes,first,last\n");
    for (uint32_t i = 0; i < scene->item_count; i++) {
        const tn__report_item *item = &scene->items[i];
        tn__csv_put(text, item->name);
        tn__text_printf(text, ",%s,%" PRIu64 ",%" PRId64 ",%" PRId64 "\n", tn_fate_name(item->fate),
                        item->bytes, item->first, item->last);
    }
}

static void csv_points(const tn_report_fit *fit, tn__text *text) {
    if (fit->point_count > 0) tn__text_put(text, "\nbudget,bytes,time,time_bound\n");
    for (uint32_t i = 0; i < fit->point_count; i++)
        tn__text_printf(text, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                        fit->points[i].budget, fit->points[i].bytes, fit->points[i].time,
                        fit->points[i].time_bound);
}

static tn_status csv_fit(const tn_report *report, tn__text *text, tn_error *error) {
    tn__scene scene;
    tn__fit_fact facts[TN__FIT_FACTS];
    tn_status status = tn__scene_make(&scene, report, error);
    if (status == TN_OK) csv_fates(&scene, text);
    tn__scene_release(&scene);
    tn__text_put(text, "\nfact,value\n");
    tn__fit_facts(report->fit, facts);
    for (size_t i = 0; i < TN__FIT_FACTS; i++)
        tn__text_printf(text, "%s,%" PRIu64 "\n", facts[i].name, facts[i].value);
    csv_points(report->fit, text);
    return status;
}

static tn_status csv_render(const tn_report *report, tn__text *text, tn_error *error) {
    TN_TRY(tn__csv_render(report->problem, report->layout, text, error));
    return report->fit != NULL ? csv_fit(report, text, error) : TN_OK;
}

const tn_report_format tn__report_format_csv = {
    .name = "csv",
    .suffix = ".csv",
    .summary = "the problem with a column of offsets",
    .render = csv_render,
};
