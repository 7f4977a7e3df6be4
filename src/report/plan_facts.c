/* plan_facts.c - computes the facts of a plan and of a fit, and writes them as JSON. */
#include "report/plan_facts.h"
#include "report/format.h"

/* --- the bytes that a caching pool would reserve ---------------------------------------------- */

/* The memory that the run would take without a plan, if a caching pool like PyTorch's served every
 * block when it is requested. */

/* limit of steps times buffers, with which the cost of simulating the pool grows */
#define POOL_MOST UINT64_C(40000000)

/* Returns the bytes that the pool "caching" would reserve for the report's program and its weights.
 * The blocks are requested in program order, in two runs (tn_estimate_make). Returns 0 if this
 * cannot be computed (for a problem, a fit, loops, or static memory in the arena) or would take too
 * long. */
static uint64_t facts_caching_pool(const tn_report *report) {
    tn_estimate_options options = TN_ESTIMATE_OPTIONS_INIT;
    tn_estimate estimate;
    tn_error unused; /* an error is ignored: the line with this number is then left out */
    if (report->occupancy == NULL || report->fit != NULL) return 0;
    uint64_t steps = tn__step_count(report);
    if (steps * tn_problem_count(report->problem) > POOL_MOST) return 0;
    options.context = report->context;
    options.pool = "caching";
    tn_status status = tn_estimate_make(report->occupancy, &options, &estimate, &unused);
    return status == TN_OK ? estimate.arena : 0;
}

/* --- facts of a plan -------------------------------------------------------------------------- */

static const tn__plan_fact plan_facts[] = {
#define TN_X(unit_, name, key_, label_, brief_, help)                                              \
    {.key = key_, .label = label_, .brief = brief_, .unit = TN__PLAN_UNIT_##unit_},
    TN__PLAN_FACTS(TN_X)
#undef TN_X
};

/* Computes a fact that has its value from a model. */
static void plan_of_model(const tn_report *report, tn__plan_fact_id id, tn__plan_fact *fact) {
    const tn_occupancy *occupancy = report->occupancy;
    tn_program_order order;
    tn_error why;
    switch (id) {
    case TN__PLAN_ORDER:
    case TN__PLAN_ORDER_PROVED:
        order = tn_program_order_of(tn_occupancy_program(occupancy));
        fact->word = order.name;
        fact->whole = order.proved;
        return;
    case TN__PLAN_NAIVE:
        fact->whole = tn_occupancy_summary(occupancy).naive;
        return;
    case TN__PLAN_STATIC:
        fact->whole = report->static_bytes;
        return;
    case TN__PLAN_TENSORS:
        fact->whole = tn_occupancy_life_count(occupancy);
        return;
    case TN__PLAN_BOUNDED:
        fact->whole = tn_occupancy_summary(occupancy).bounded;
        return;
    case TN__PLAN_DEPENDENCIES:
        fact->null = tn_plan_dependencies(occupancy, report->layout, NULL, &fact->whole, &why) != 0;
        return;
    default:
        return;
    }
}

/* Whether a fact is about the streams of a program. */
static bool plan_is_of_streams(tn__plan_fact_id id) {
    return id >= TN__PLAN_STREAMS && id <= TN__PLAN_SERIAL_TIME;
}

static void plan_of_streams(const tn_report *report, tn__plan_fact_id id, tn__plan_fact *fact) {
    const tn_program *program = tn_occupancy_program(report->occupancy);
    tn_program_streams_report of;
    tn_error unused;
    fact->absent = tn_program_streams_of(program, NULL, &of, &unused) != TN_OK ||
                   (of.streams < 2 && report->streams == 0);
    fact->whole = id == TN__PLAN_STREAMS        ? of.streams
                  : id == TN__PLAN_STREAM_WAITS ? of.waits
                  : id == TN__PLAN_STREAM_TIME  ? of.total_ps
                                                : of.serial_ps;
}

static void plan_of_problem(const tn_report *report, tn__plan_fact_id id, tn__plan_fact *fact) {
    if (id == TN__PLAN_ORDER || id == TN__PLAN_ORDER_PROVED || id == TN__PLAN_STATIC ||
        plan_is_of_streams(id))
        fact->absent = true;
    fact->null = id == TN__PLAN_TENSORS || id == TN__PLAN_DEPENDENCIES;
    if (id == TN__PLAN_NAIVE) fact->whole = tn_problem_naive(report->problem);
}

static void plan_of_layout(const tn_report *report, tn__plan_fact_id id, tn__plan_fact *fact) {
    const tn_layout *layout = report->layout;
    uint32_t costs;
    switch (id) {
    case TN__PLAN_WAITS:
    case TN__PLAN_WAITS_BOUND:
    case TN__PLAN_TIME:
    case TN__PLAN_TIME_BOUND:
    case TN__PLAN_WORKERS:
        tn_problem_events(report->problem, &costs);
        fact->absent = costs == 0;
        fact->whole = id == TN__PLAN_WAITS         ? layout->waits
                      : id == TN__PLAN_WAITS_BOUND ? layout->waits_bound
                      : id == TN__PLAN_TIME        ? layout->time
                      : id == TN__PLAN_TIME_BOUND  ? layout->time_bound
                                                   : layout->workers;
        return;
    case TN__PLAN_REUSE_COST:
    case TN__PLAN_REUSE_BOUND:
        tn_problem_reuse_costs(report->problem, &costs);
        fact->absent = costs == 0;
        fact->whole = id == TN__PLAN_REUSE_COST ? layout->reuse_cost : layout->reuse_cost_bound;
        return;
    case TN__PLAN_PLANNER:
        fact->word = layout->planner != NULL ? layout->planner : "";
        return;
    case TN__PLAN_OBJECTIVE:
        fact->word = tn_objective_name(layout->objective);
        return;
    case TN__PLAN_STATUS:
        fact->word = tn_verdict_name(layout->verdict);
        return;
    case TN__PLAN_PEAK:
        fact->whole = layout->peak;
        return;
    case TN__PLAN_LOWER_BOUND:
        fact->whole = layout->lower_bound;
        return;
    case TN__PLAN_GAP:
        fact->real = tn__words_gap(layout->peak, layout->lower_bound);
        return;
    case TN__PLAN_CACHING_POOL:
        fact->whole = facts_caching_pool(report);
        fact->absent = fact->whole == 0;
        return;
    case TN__PLAN_DEVICE:
    case TN__PLAN_FITS:
        fact->absent = report->device_bytes == 0;
        fact->whole = report->device_bytes;
        if (id == TN__PLAN_FITS)
            fact->whole = tn__add_sat(layout->peak, report->static_bytes) <= report->device_bytes;
        return;
    case TN__PLAN_BUFFERS:
        fact->whole = layout->body_count;
        return;
    case TN__PLAN_SEED:
        fact->whole = layout->seed;
        return;
    case TN__PLAN_WORK:
        fact->whole = layout->work;
        return;
    default:
        return;
    }
}

tn__plan_fact tn__plan_fact_of(const tn_report *report, tn__plan_fact_id id) {
    tn__plan_fact fact = plan_facts[id];
    plan_of_layout(report, id, &fact);
    if (report->occupancy != NULL && plan_is_of_streams(id))
        plan_of_streams(report, id, &fact);
    else if (report->occupancy != NULL)
        plan_of_model(report, id, &fact);
    else
        plan_of_problem(report, id, &fact);
    return fact;
}

/* --- JSON --- */

static void plan_put_whole(tn__text *text, const char *key, uint64_t value) {
    tn__text_printf(text, ",\"%s\":", key);
    tn__words_integer(text, value);
}

static void plan_put_bank(tn__text *text, const tn_report *report, tn_bank_id id) {
    const tn_bank *bank = tn_problem_bank(report->problem, id);
    tn__text_put(text, id > 0 ? ",{\"name\":" : "{\"name\":");
    tn__text_json(text, bank->name);
    plan_put_whole(text, "peak", report->layout->bank_peak[id]);
    plan_put_whole(text, "lower_bound", report->layout->bank_lower_bound[id]);
    if (bank->capacity > 0)
        plan_put_whole(text, "capacity", bank->capacity);
    else
        tn__text_put(text, ",\"capacity\":null");
    if (report->layout->bank_count > 1)
        plan_put_whole(text, "traffic", report->layout->bank_traffic[id]);
    if (bank->bytes_per_s > 0) {
        tn__text_put(text, ",\"bytes_per_s\":");
        tn__words_number(text, bank->bytes_per_s);
    }
    tn__text_put(text, "}");
}

static void plan_put_banks(tn__text *text, const tn_report *report) {
    tn__text_put(text, "[");
    for (tn_bank_id id = 0; id < report->layout->bank_count; id++) plan_put_bank(text, report, id);
    tn__text_put(text, "]");
}

/* Adds the bytes of the kinds that occur: {"activation":123,...}. */
static void plan_put_kinds(tn__text *text, const tn_report *report, bool at_peak) {
    tn_memory_summary memory = {0};
    const char *comma = "";
    if (report->occupancy != NULL) memory = tn_occupancy_summary(report->occupancy);
    const uint64_t *bytes = at_peak ? memory.at_peak : memory.total;
    tn__text_put(text, "{");
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++) {
        if (bytes[kind] == 0) continue;
        tn__text_put(text, comma);
        tn__text_json(text, tn__kind_text(kind));
        tn__text_put(text, ":");
        tn__words_integer(text, bytes[kind]);
        comma = ",";
    }
    tn__text_put(text, "}");
}

static void plan_put_stages(tn__text *text, const tn_report *report) {
    tn__text_put(text, "{");
    for (uint32_t i = 0; i < report->stage_count; i++) {
        if (i > 0) tn__text_put(text, ",");
        tn__text_json(text, report->stages[i].name);
        tn__text_put(text, ":");
        /* seconds are rounded to microseconds, because clocks are not more precise */
        double microseconds = report->stages[i].seconds * 1e6 + 0.5;
        tn__words_number(text, (double)(int64_t)microseconds / 1e6);
    }
    tn__text_put(text, "}");
}

void tn__plan_fact_json(tn__text *text, const tn_report *report, tn__plan_fact_id id,
                        const tn__plan_fact *fact) {
    if (fact->null) {
        tn__text_put(text, "null");
        return;
    }
    switch (fact->unit) {
    case TN__PLAN_UNIT_BYTES:
    case TN__PLAN_UNIT_COUNT:
        tn__words_integer(text, fact->whole);
        return;
    case TN__PLAN_UNIT_SHARE:
        tn__words_number(text, fact->real);
        return;
    case TN__PLAN_UNIT_WORD:
        tn__text_json(text, fact->word);
        return;
    case TN__PLAN_UNIT_YES:
        tn__text_put(text, fact->whole ? "true" : "false");
        return;
    case TN__PLAN_UNIT_BANKS:
        plan_put_banks(text, report);
        return;
    case TN__PLAN_UNIT_KINDS:
        plan_put_kinds(text, report, id == TN__PLAN_AT_PEAK);
        return;
    case TN__PLAN_UNIT_STAGES:
        plan_put_stages(text, report);
        return;
    }
}

/* --- the result of a fit ---------------------------------------------------------------------- */

/* The result of a fit, as named numbers and as an object of the JSON plan. The names are those of
 * `tenure fit --json`. */

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
