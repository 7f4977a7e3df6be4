/* fit_facts.c - the result of a fit as named numbers, and as an object in the plan as JSON.
 *
 * Names are those of `tenure fit --json`.
 */
#include "report/format.h"

void tn__fit_facts(const tn_report_fit *fit, tn__fit_fact facts[TN__FIT_FACTS]) {
    const tn_fit_result *it = fit->result;
    const tn__fit_fact all[TN__FIT_FACTS] = {
        {"budget", fit->budget},
        {"bytes", it->bytes},
        {"fixed_bytes", fit->fixed_bytes},
        {"plain_bytes", it->plain_bytes},
        {"bytes_bound", it->bytes_bound},
        {"time", it->time},
        {"plain_time", it->plain_time},
        {"time_bound", it->time_bound},
        {"stall", it->stall},
        {"to_host_bytes", it->to_host_bytes},
        {"from_host_bytes", it->from_host_bytes},
        {"host_bytes", it->host != NULL ? it->host_layout.peak : 0}};
    memcpy(facts, all, sizeof all);
}

static void fit_fates(tn__text *text, const tn_fate_totals *totals) {
    tn__text_put(text, ",\"decisions\":{");
    for (uint32_t fate = 0; fate < TN_FATE_COUNT; fate++) {
        tn__text_printf(text, "%s\"%s\":{\"tensors\":%u,\"bytes\":", fate ? "," : "",
                        tn_fate_name((tn_fate)fate), totals->tensors[fate]);
        tn__words_integer(text, totals->bytes[fate]);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "}");
}

static void fit_points(tn__text *text, const tn_report_fit *fit) {
    tn__text_put(text, ",\"points\":[");
    for (uint32_t i = 0; i < fit->point_count; i++) {
        const tn_report_point *point = &fit->points[i];
        const tn__fit_fact facts[] = {{"budget", point->budget},
                                      {"bytes", point->bytes},
                                      {"time", point->time},
                                      {"time_bound", point->time_bound}};
        for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
            tn__text_printf(text, "%s\"%s\":", k > 0 ? "," : i > 0 ? ",\n{" : "\n{", facts[k].name);
            tn__words_integer(text, facts[k].value);
        }
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
}

void tn__fit_json(tn__text *text, const tn__scene *scene) {
    const tn_report_fit *fit = scene->report->fit;
    tn__fit_fact facts[TN__FIT_FACTS];
    if (fit == NULL) return;
    tn__fit_facts(fit, facts);
    tn__text_printf(text, ",\n\"fit\":{\"pass\":\"%s\",\"unit\":\"%s\",\"stopped\":%s",
                    fit->result->pass ? fit->result->pass : "",
                    fit->work       ? "operations"
                    : fit->abstract ? "cost"
                                    : "ps",
                    fit->result->stopped ? "true" : "false");
    for (size_t i = 0; i < TN__FIT_FACTS; i++) {
        tn__text_printf(text, ",\"%s\":", facts[i].name);
        tn__words_integer(text, facts[i].value);
    }
    fit_fates(text, &scene->fates);
    fit_points(text, fit);
    tn__text_put(text, "}");
}
