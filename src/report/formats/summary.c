/* summary.c - writes the one JSON object of `tenure plan --json`: the result in numbers.
 *
 * This is the only format that contains clock times, because it is printed and not stored.
 */
#include "report/format.h"

/* {"activation":123,...} of the kinds that occur. */
static void summary_kinds(tn__text *text, const uint64_t *bytes) {
    const char *comma = "";
    tn__text_put(text, "{");
    for (uint32_t kind = 0; kind < TN_KIND_COUNT && bytes; kind++) {
        if (bytes[kind] == 0) continue;
        tn__text_put(text, comma);
        tn__text_json(text, tn__kind_text(kind));
        tn__text_put(text, ":");
        tn__words_integer(text, bytes[kind]);
        comma = ",";
    }
    tn__text_put(text, "}");
}

static void summary_integer(tn__text *text, const char *key, uint64_t value) {
    tn__text_printf(text, ",\"%s\":", key);
    tn__words_integer(text, value);
}

static void summary_seconds(tn__text *text, const tn_report *report) {
    tn__text_put(text, ",\"seconds\":{");
    for (uint32_t i = 0; i < report->stage_count; i++) {
        if (i > 0) tn__text_put(text, ",");
        tn__text_json(text, report->stages[i].name);
        tn__text_put(text, ":");
        double microseconds = report->stages[i].seconds * 1e6 + 0.5; /* finer would be noise */
        tn__words_number(text, (double)(int64_t)microseconds / 1e6);
    }
    tn__text_put(text, "}");
}

static void summary_bank(tn__text *text, const tn_report *report, tn_bank_id id) {
    const tn_bank *bank = tn_problem_bank(report->problem, id);
    tn__text_put(text, id > 0 ? ",{\"name\":" : "{\"name\":");
    tn__text_json(text, bank->name);
    summary_integer(text, "peak", report->layout->bank_peak[id]);
    summary_integer(text, "lower_bound", report->layout->bank_lower_bound[id]);
    if (bank->capacity > 0)
        summary_integer(text, "capacity", bank->capacity);
    else
        tn__text_put(text, ",\"capacity\":null");
    if (report->layout->bank_count > 1)
        summary_integer(text, "traffic", report->layout->bank_traffic[id]);
    if (bank->bytes_per_s > 0) {
        tn__text_put(text, ",\"bytes_per_s\":");
        tn__words_number(text, bank->bytes_per_s);
    }
    tn__text_put(text, "}");
}

static tn_status summary_render(const tn_report *report, tn__text *text, tn_error *error) {
    (void)error;
    const tn_layout *layout = report->layout;
    tn_memory_summary memory = {0};
    if (report->occupancy) memory = tn_occupancy_summary(report->occupancy);
    tn__text_put(text, "{\"format\":\"tenure-plan\",\"version\":1,\"input\":");
    tn__text_json(text, report->input);
    if (report->occupancy != NULL) {
        tn__text_put(text, ",\"kernels\":");
        tn__words_kernels(text, report->kernels);
    }
    tn__text_put(text, ",\"planner\":");
    tn__text_json(text, layout->planner ? layout->planner : "");
    tn__text_printf(text, ",\"status\":\"%s\"", tn_verdict_name(layout->verdict));
    if (report->occupancy) {
        tn_program_order order = tn_program_order_of(tn_occupancy_program(report->occupancy));
        tn__text_put(text, ",\"order\":");
        tn__text_json(text, order.name);
        tn__text_printf(text, ",\"order_proved\":%s", order.proved ? "true" : "false");
    }
    summary_integer(text, "peak", layout->peak);
    summary_integer(text, "lower_bound", layout->lower_bound);
    tn__text_put(text, ",\"gap\":");
    tn__words_number(text, tn__words_gap(layout->peak, layout->lower_bound));
    uint32_t costs;
    tn_problem_reuse_costs(report->problem, &costs);
    if (costs > 0) {
        summary_integer(text, "reuse_cost", layout->reuse_cost);
        summary_integer(text, "reuse_cost_bound", layout->reuse_cost_bound);
    }
    summary_integer(text, "naive",
                    report->occupancy ? memory.naive : tn_problem_naive(report->problem));
    if (report->occupancy) summary_integer(text, "static", report->static_bytes);
    uint64_t pool = tn__caching_pool(report);
    if (pool > 0) summary_integer(text, "caching_pool", pool);
    if (report->device_bytes > 0) {
        summary_integer(text, "device", report->device_bytes);
        bool fits = tn__add_sat(layout->peak, report->static_bytes) <= report->device_bytes;
        tn__text_printf(text, ",\"fits\":%s", fits ? "true" : "false");
    }
    tn__text_put(text, ",\"banks\":[");
    for (tn_bank_id id = 0; id < layout->bank_count; id++) summary_bank(text, report, id);
    tn__text_put(text, "],\"by_kind\":");
    summary_kinds(text, report->occupancy ? memory.total : NULL);
    tn__text_put(text, ",\"at_peak\":");
    summary_kinds(text, report->occupancy ? memory.at_peak : NULL);
    summary_integer(text, "buffers", layout->body_count);
    if (report->occupancy)
        summary_integer(text, "tensors", tn_occupancy_life_count(report->occupancy));
    else
        tn__text_put(text, ",\"tensors\":null");
    summary_integer(text, "bounded", memory.bounded);
    uint64_t added;
    tn_error why;
    if (report->occupancy &&
        tn_plan_dependencies(report->occupancy, layout, NULL, &added, &why) == TN_OK)
        summary_integer(text, "dependencies_added", added);
    else
        tn__text_put(text, ",\"dependencies_added\":null");
    summary_seconds(text, report);
    summary_integer(text, "seed", layout->seed);
    summary_integer(text, "work", layout->work);
    tn__text_put(text, "}\n");
    return TN_OK;
}

const tn_report_format tn__report_format_summary = {
    .name = "summary",
    .suffix = "",
    .summary = "the numbers of the plan as one JSON object",
    .render = summary_render,
};
