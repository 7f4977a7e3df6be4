/* table.c - writes the text that `tenure plan` prints: the result, the bytes by kind, and the
 * holders at the peak.
 *
 * The report states the width of the table, and long names are cut in the middle. The most
 * important number comes first. Names are not trusted, so tn__words_cell removes their control
 * characters.
 */
#include <inttypes.h>
#include <stdio.h>

#include "report/plan_facts.h"

/* largest number of items of a plan for which the holders at the peak are listed; for more, listing
 * them would take as long as planning */
#define TABLE_ITEMS_MAX 4000000u
#define TABLE_HOLDERS 10 /* rows for holders at the peak; all other holders are summed in one row */
#define TABLE_COLUMNS 80 /* width of the table if the report gives none */
#define TABLE_NAME_FEWEST 12u /* least width of a name, for narrow terminals */
#define TABLE_NAME_MOST 60u
#define TABLE_BESIDE_TENSOR 62u /* columns of a row in addition to the tensor's name */
#define TABLE_BESIDE_BUFFER 60u

/* Adds a name without padding, cut to at most `width` columns. */
static void table_word(tn__text *text, const char *word, size_t width) {
    tn__words_cell(text, word, width, false);
    while (!text->failed && text->size > 0 && text->data[text->size - 1] == ' ')
        text->data[--text->size] = '\0';
}

static uint32_t table_columns(const tn_report *report) {
    return report->columns > 0 ? report->columns : TABLE_COLUMNS;
}

/* Returns the number of columns for a name, if everything else in its row has `beside` columns. */
static uint32_t table_name_width(const tn_report *report, uint32_t beside) {
    uint32_t columns = table_columns(report);
    if (columns < beside + TABLE_NAME_FEWEST) return TABLE_NAME_FEWEST;
    return columns - beside < TABLE_NAME_MOST ? columns - beside : TABLE_NAME_MOST;
}

/* Adds a line such as "  arena               9.2 MiB     9,633,792 bytes". */
static void table_size(tn__text *text, const char *label, uint64_t bytes) {
    char iec[TN__WORDS_MAX], exact[TN__WORDS_MAX];
    tn__text_printf(text, "  %-15s %11s  %20s bytes", label, tn__words_iec(bytes, iec),
                    tn__grouped(bytes, exact));
}

/* Adds the line of a fact that is a number of bytes, and returns that number. */
static uint64_t table_fact(tn__text *text, const tn_report *report, tn__plan_fact_id id) {
    tn__plan_fact fact = tn__plan_fact_of(report, id);
    if (!fact.absent) table_size(text, fact.label, fact.whole);
    return fact.absent ? 0 : fact.whole;
}

/* Adds a fraction in percent. A positive fraction below 0.1 % is "< 0.1 %", so "0.0 %" always means
 * exactly zero. */
static void table_percent(tn__text *text, double share) {
    double percent = share * 100;
    if (percent > 0 && percent < 0.1)
        tn__text_put(text, "< 0.1 %");
    else
        tn__text_printf(text, "%.1f %%", percent);
}

static bool table_has_choice(const tn_problem *problem) {
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++)
        if (tn_problem_body(problem, id)->flags & TN_BODY_ANY_BANK)
            return tn_problem_bank_count(problem) > 1;
    return false;
}

/* Returns the verdict of a plan in which buffers can be in several banks. Such a plan is judged by
 * its time. */
static const char *table_choice(const tn_layout *layout) {
    return layout->verdict == TN_VERDICT_OPTIMAL ? "optimal: no choice of banks takes less time"
                                                 : "valid; a faster choice of banks may exist";
}

/* Returns the verdict of the plan. For a model the claim holds for these buffers, which depend on
 * the order of the operators and on the in-place choices. */
static const char *table_verdict(const tn_report *report) {
    const tn_layout *layout = report->layout;
    bool model = report->occupancy != NULL;
    if (layout->objective == TN_OBJECTIVE_PAIRS)
        return layout->verdict != TN_VERDICT_OPTIMAL
                   ? "valid; a plan with a lower reuse cost may exist"
               : model ? "optimal for this order and these in-place choices: no plan within the "
                         "capacity has a lower reuse cost"
                       : "optimal: no plan within the capacity has a lower reuse cost";
    if (layout->objective == TN_OBJECTIVE_WAITS)
        return layout->verdict != TN_VERDICT_OPTIMAL ? "valid; a plan with fewer waits may exist"
               : model ? "optimal for this order and these in-place choices: no plan within the "
                         "capacity adds fewer waits"
                       : "optimal: no plan of these buffers within the capacity adds fewer waits";
    if (layout->objective == TN_OBJECTIVE_TIME)
        return layout->verdict != TN_VERDICT_OPTIMAL
                   ? "valid; a plan that takes less time may exist"
               : model ? "optimal for this order and these in-place choices: no plan within the "
                         "capacity takes less time"
                       : "optimal: no plan of these buffers within the capacity takes less time";
    if (layout->timed_out) return "the best plan before the time limit; a smaller one may exist";
    switch (layout->verdict) {
    case TN_VERDICT_OPTIMAL:
        return model ? "optimal for this order and these in-place choices"
                     : "optimal: no plan of these buffers needs less";
    case TN_VERDICT_FEASIBLE:
        return "valid; a smaller plan may exist";
    case TN_VERDICT_INFEASIBLE:
        return "infeasible: no plan of these buffers fits";
    case TN_VERDICT_STOPPED:
        return "stopped before there was an answer";
    }
    return "";
}

/* Adds the first line: whether the plan is for the graph in the file or for kernels of this
 * machine. */
static void table_whom(tn__text *text, const tn_report *report) {
    if (report->occupancy == NULL) return;
    tn__text_put(text, "  for ");
    tn__words_whom(text, report->kernels);
    tn__text_put(text, "\n");
}

/* Adds the order of the operators. For the order of the file nothing is printed, unless that order
 * was proved to be the best. */
static void table_order(tn__text *text, const tn_report *report) {
    tn_program_order order = {.name = "file"};
    if (report->occupancy != NULL)
        order = tn_program_order_of(tn_occupancy_program(report->occupancy));
    if (order.proved)
        tn__text_printf(text, "  order %s; no order has a lower peak of live bytes\n", order.name);
    else if (strcmp(order.name, "file") != 0 && order.name[0] != '\0')
        tn__text_printf(text, "  order %s\n", order.name);
}

/* Adds the reuse cost of the pairs of buffers that share bytes, if the problem has reuse costs. */
static void table_reuse_cost(tn__text *text, const tn_report *report) {
    const tn_layout *layout = report->layout;
    uint32_t count;
    tn_problem_reuse_costs(report->problem, &count);
    if (count == 0) return;
    tn__text_put(text, "  reuse cost    ");
    tn__words_integer(text, layout->reuse_cost);
    if (layout->objective == TN_OBJECTIVE_PAIRS) {
        tn__text_put(text, "    lower bound ");
        tn__words_integer(text, layout->reuse_cost_bound);
    }
    tn__text_put(text, "\n");
}

/* Adds the waits that the plan adds to the order of the events, and the time with these waits. */
static void table_waits(tn__text *text, const tn_report *report) {
    const tn_layout *layout = report->layout;
    uint32_t count;
    tn_problem_events(report->problem, &count);
    if (count == 0) return;
    tn__text_put(text, "  waits         ");
    tn__words_integer(text, layout->waits);
    if (layout->objective == TN_OBJECTIVE_WAITS) {
        tn__text_put(text, "    lower bound ");
        tn__words_integer(text, layout->waits_bound);
    }
    tn__text_put(text, "\n  time          ");
    tn__words_integer(text, layout->time);
    if (layout->objective == TN_OBJECTIVE_TIME) {
        tn__text_put(text, "    lower bound ");
        tn__words_integer(text, layout->time_bound);
    }
    if (report->occupancy != NULL) tn__text_put(text, "    picoseconds");
    if (layout->workers > 0)
        tn__text_printf(text, "    workers %u\n", layout->workers);
    else
        tn__text_put(text, "    any number of workers\n");
}

/* Adds the streams that run operators, the waits between them, and the time that they save. */
static void table_streams(tn__text *text, const tn_report *report) {
    tn__plan_fact streams = tn__plan_fact_of(report, TN__PLAN_STREAMS);
    if (streams.absent) return;
    uint64_t waits = tn__plan_fact_of(report, TN__PLAN_STREAM_WAITS).whole,
             time = tn__plan_fact_of(report, TN__PLAN_STREAM_TIME).whole,
             serial = tn__plan_fact_of(report, TN__PLAN_SERIAL_TIME).whole;
    if (streams.whole < 2) {
        tn__text_printf(text, "  streams         %11" PRIu64 "  of %" PRIu64 " has operators\n",
                        streams.whole, report->streams);
        return;
    }
    tn__text_printf(text,
                    "  streams         %11" PRIu64 "  that wait %" PRIu64
                    " times for each other; time estimated to %.1f %% of one stream's\n",
                    streams.whole, waits, serial > 0 ? 100.0 * (double)time / (double)serial : 100);
}

static void table_answer(tn__text *text, const tn__scene *scene) {
    const tn_layout *layout = scene->report->layout;
    tn__words_cell(text, scene->report->input, table_columns(scene->report), false);
    while (text->size > 0 && text->data[text->size - 1] == ' ') text->data[--text->size] = '\0';
    tn__text_put(text, "\n");
    table_whom(text, scene->report);
    tn__text_printf(text, "  planner %s; %s\n", layout->planner ? layout->planner : "none",
                    table_has_choice(scene->report->problem) ? table_choice(layout)
                                                             : table_verdict(scene->report));
    table_order(text, scene->report);
    tn__text_put(text, "\n");
    uint64_t naive = table_fact(text, scene->report, TN__PLAN_NAIVE);
    tn__text_put(text, "\n");
    table_fact(text, scene->report, TN__PLAN_PEAK);
    if (naive > 0) {
        tn__text_put(text, "    saved ");
        table_percent(text, 1 - (double)layout->peak / (double)naive);
    }
    tn__text_put(text, "\n");
    table_fact(text, scene->report, TN__PLAN_LOWER_BOUND);
    if (layout->peak == layout->lower_bound || layout->lower_bound > 0) {
        tn__text_put(text, "    gap ");
        table_percent(text, tn__words_gap(layout->peak, layout->lower_bound));
    }
    tn__text_put(text, "\n");
    table_reuse_cost(text, scene->report);
    table_waits(text, scene->report);
}

/* Adds the bytes of the arena together with static memory outside it, and the device that must have
 * room for both. */
static void table_all(tn__text *text, const tn_report *report) {
    uint64_t all = tn__add_sat(report->layout->peak, report->static_bytes);
    char iec[TN__WORDS_MAX];
    if (report->static_bytes > 0) {
        table_size(text, "with weights", all);
        tn__text_printf(text, "    outside it %s\n", tn__words_iec(report->static_bytes, iec));
    }
    if (table_fact(text, report, TN__PLAN_CACHING_POOL) > 0)
        tn__text_put(text, "    for the same run\n");
    if (table_fact(text, report, TN__PLAN_DEVICE) == 0) return;
    tn__text_put(text, "    used ");
    table_percent(text, (double)all / (double)report->device_bytes);
    if (all > report->device_bytes) tn__text_put(text, ": does not fit");
    if (report->device != NULL) {
        tn__text_put(text, "\n  ");
        tn__words_cell(text, "", 15, false);
        tn__text_printf(text, " %s", report->device);
    }
    tn__text_put(text, "\n");
}

enum { TABLE_BANK = 15 };

/* Adds the time that all traffic takes at the speeds of its banks, and the time if all buffers were
 * in the slowest bank. Nothing is printed if the speed of a bank with traffic is unknown. */
static void table_traffic(tn__text *text, const tn_report *report) {
    const tn_layout *layout = report->layout;
    const tn_bank *slowest = NULL;
    double seconds = 0, bytes = 0;
    for (tn_bank_id id = 0; id < layout->bank_count; id++) {
        const tn_bank *bank = tn_problem_bank(report->problem, id);
        if (bank->bytes_per_s <= 0 && layout->bank_traffic[id] > 0) return;
        if (bank->bytes_per_s <= 0) continue;
        bytes += (double)layout->bank_traffic[id];
        seconds += (double)layout->bank_traffic[id] / bank->bytes_per_s;
        if (slowest == NULL || bank->bytes_per_s < slowest->bytes_per_s) slowest = bank;
    }
    if (slowest == NULL) return;
    tn__text_printf(text, "  %-*s %.3g ms for all traffic; %.3g ms if it was all in ", TABLE_BANK,
                    "", seconds * 1e3, bytes / slowest->bytes_per_s * 1e3);
    tn__words_cell(text, slowest->name, strnlen(slowest->name, TABLE_BANK), false);
    tn__text_put(text, "\n");
}

/* Adds one line per bank if there are several. With a single bank, adds its capacity if it has
 * one. */
static void table_banks(tn__text *text, const tn_report *report) {
    uint32_t count = tn_problem_bank_count(report->problem);
    for (tn_bank_id id = 0; id < count; id++) {
        const tn_bank *bank = tn_problem_bank(report->problem, id);
        if (count == 1 && bank->capacity == 0) return;
        if (count == 1) {
            table_size(text, "capacity", bank->capacity);
            tn__text_put(text, "    used ");
            table_percent(text, (double)report->layout->bank_peak[0] / (double)bank->capacity);
            tn__text_put(text, "\n");
            return;
        }
        char iec[TN__WORDS_MAX], bound[TN__WORDS_MAX], most[TN__WORDS_MAX], traffic[TN__WORDS_MAX];
        tn__text_put(text, id ? "  " : "\n  ");
        tn__words_cell(text, bank->name, TABLE_BANK, false);
        tn__text_printf(text, " %11s  lower bound %11s  capacity %11s  traffic %11s",
                        tn__words_iec(report->layout->bank_peak[id], iec),
                        tn__words_iec(report->layout->bank_lower_bound[id], bound),
                        bank->capacity ? tn__words_iec(bank->capacity, most) : "none",
                        tn__words_iec(report->layout->bank_traffic[id], traffic));
        if (bank->bytes_per_s > 0)
            tn__text_printf(text, " in %.3g ms",
                            (double)report->layout->bank_traffic[id] / bank->bytes_per_s * 1e3);
        tn__text_put(text, "\n");
    }
    table_traffic(text, report);
}

/* Adds the number of pairs of operators that are independent in the graph but cannot run at the
 * same time with this plan. */
static void table_dependencies(tn__text *text, const tn_report *report) {
    tn__plan_fact fact = tn__plan_fact_of(report, TN__PLAN_DEPENDENCIES);
    char exact[TN__WORDS_MAX];
    /* the number is unknown for a problem, and for a graph with too many pairs to count */
    if (fact.null) return;
    tn__text_printf(text, "  %-15s %11s  %s of operators added that could run at once\n",
                    fact.label, tn__grouped(fact.whole, exact), fact.whole == 1 ? "pair" : "pairs");
}

/* Adds one row: the bytes of all tensors of one kind, and of those at the peak. `outside` means
 * that they are not in the arena. */
static void table_row(tn__text *text, const char *what, int width, uint64_t total, uint64_t peak,
                      bool outside) {
    char iec[TN__WORDS_MAX], exact[TN__WORDS_MAX];
    if (total == 0 && peak == 0) return;
    tn__text_printf(text, "  %-*s %11s  %17s", width, what, tn__words_iec(total, iec),
                    tn__grouped(total, exact));
    if (outside)
        tn__text_printf(text, "  %30s\n", "outside the arena");
    else
        tn__text_printf(text, "  %11s  %17s\n", tn__words_iec(peak, iec), tn__grouped(peak, exact));
}

/* Adds the table for a training step, with a row for each role of memory. */
static void table_roles(tn__text *text, const tn__scene *scene) {
    bool inside[TN__ROLE_COUNT] = {false};
    for (uint32_t i = 0; i < scene->item_count; i++) inside[scene->items[i].role] = true;
    tn__text_printf(text, "\n  %-17s %30s  %30s\n", "for", "all tensors", "at the peak");
    for (uint32_t role = 0; role < TN__ROLE_COUNT; role++) {
        const char *words = tn__role_words((tn__role)role);
        if (role == TN__ROLE_SAVED) words = "kept for backward";
        if (role == TN__ROLE_PASSING) words = "passing";
        table_row(text, words, 17, scene->role_total[role], scene->role_at_peak[role],
                  !inside[role]);
    }
}

static void table_kinds(tn__text *text, const tn__scene *scene) {
    if (scene->report->occupancy == NULL) return;
    if (scene->phases != NULL) table_roles(text, scene);
    if (scene->phases == NULL) {
        tn__text_printf(text, "\n  %-15s %30s  %30s\n", "kind", "all tensors", "at the peak");
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
            table_row(text, tn__kind_text(kind), 15, scene->summary.total[kind],
                      scene->summary.at_peak[kind], !scene->occurs[kind]);
    }
    if (scene->summary.bounded > 0)
        tn__text_printf(text, "  %u tensor%s; the upper bound%s counted.\n", scene->summary.bounded,
                        scene->summary.bounded == 1 ? " has a data-dependent size"
                                                    : "s have data-dependent sizes",
                        scene->summary.bounded == 1 ? " is" : "s are");
}

/* --- holders at the peak --- */

#define TABLE_PLAIN_MAX 64 /* longer types of operators are printed unchanged */

/* Returns the type of an operator without ".default", the overload that most operators of PyTorch
 * have. */
static const char *table_plain(const char *type, char plain[TABLE_PLAIN_MAX]) {
    static const char overload[] = ".default";
    size_t length = strlen(type), tail = sizeof overload - 1;
    if (length <= tail || length >= TABLE_PLAIN_MAX || strcmp(type + length - tail, overload) != 0)
        return type;
    memcpy(plain, type, length - tail);
    plain[length - tail] = '\0';
    return plain;
}

static void table_model_row(tn__text *text, const tn__scene *scene, const tn__report_item *item) {
    tn__text shape;
    tn__text_init(&shape, scene->report->context);
    tn__words_shape(&shape, item->tensor);
    if (shape.failed) text->failed = true;
    tn__words_cell(text, item->name, table_name_width(scene->report, TABLE_BESIDE_TENSOR), false);
    tn__text_put(text, "  ");
    char plain[TABLE_PLAIN_MAX];
    tn__words_cell(text, table_plain(tn__step_of(scene->report, item->step).type, plain), 12,
                   false);
    tn__text_put(text, "  ");
    tn__words_cell(text, shape.size ? shape.data : "", 16, false);
    tn__text_put(text, "  ");
    if (item->tensor) table_word(text, tn_dtype_name(item->tensor->dtype), 10);
    tn__text_release(&shape);
}

static void table_problem_row(tn__text *text, const tn__scene *scene, const tn__report_item *item) {
    char offset[TN__WORDS_MAX];
    tn__words_cell(text, item->name, table_name_width(scene->report, TABLE_BESIDE_BUFFER), false);
    tn__text_printf(text, "  %15s  %lld to %lld",
                    tn__grouped(scene->report->layout->offset[item->body], offset),
                    (long long)item->first, (long long)item->last);
    if (tn_problem_bank_count(scene->report->problem) == 1) return;
    const tn_bank *bank =
        tn_problem_bank(scene->report->problem, scene->report->layout->bank[item->body]);
    tn__text_put(text, " in ");
    table_word(text, bank->name, 12);
}

static void table_peak_title(tn__text *text, const tn__scene *scene, int64_t at) {
    if (scene->report->occupancy == NULL) {
        tn__text_printf(text, "\n  at the peak, time %lld\n", (long long)at);
        tn__text_printf(text, "  %15s  %-*s  %15s  %s\n", "bytes",
                        (int)table_name_width(scene->report, TABLE_BESIDE_BUFFER), "buffer",
                        "address", "live");
        return;
    }
    tn__step step = tn__step_of(scene->report, (uint32_t)at);
    tn__text_printf(text, "\n  at the peak, step %lld of %lld%s%s: ", (long long)at,
                    (long long)scene->last, scene->phases != NULL ? ", " : "",
                    scene->phases != NULL ? tn__phase_words(scene->phases[at]) : "");
    char plain[TABLE_PLAIN_MAX];
    table_word(text, table_plain(step.type, plain), 24);
    if (*step.name) {
        tn__text_put(text, " ");
        table_word(text, step.name, 36);
    }
    tn__text_printf(text, "\n  %15s  %-*s  %-12s  %-16s  %s\n", "bytes",
                    (int)table_name_width(scene->report, TABLE_BESIDE_TENSOR), "tensor", "operator",
                    "shape", "type");
}

static tn_status table_holders(tn__text *text, tn__scene *scene, tn_error *error) {
    tn__curve curve;
    if (scene->item_count > TABLE_ITEMS_MAX) {
        tn__text_printf(text, "\n  more than %u buffers: those at the peak are not listed here\n",
                        TABLE_ITEMS_MAX);
        return TN_OK;
    }
    tn_status status =
        tn__curve_make(&curve, scene->report->problem, scene->report->context, error);
    const tn__holder *holders = NULL;
    uint32_t count = 0;
    if (status == TN_OK && curve.count > 0) {
        int64_t at = tn__peak_at(scene, &curve);
        table_peak_title(text, scene, at);
        status = tn__holders_at(scene, at, &holders, &count, error);
    }
    uint64_t rest = 0;
    char exact[TN__WORDS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        if (i >= TABLE_HOLDERS) {
            rest = tn__add_sat(rest, holders[i].bytes);
            continue;
        }
        const tn__report_item *item = &scene->items[holders[i].item];
        tn__text_printf(text, "  %15s  ", tn__grouped(holders[i].bytes, exact));
        if (scene->report->occupancy)
            table_model_row(text, scene, item);
        else
            table_problem_row(text, scene, item);
        tn__text_put(text, "\n");
    }
    if (count > TABLE_HOLDERS)
        tn__text_printf(text, "  %15s  in %u more\n", tn__grouped(rest, exact),
                        count - TABLE_HOLDERS);
    tn__curve_release(&curve);
    return status;
}

static void table_stages(tn__text *text, const tn_report *report) {
    if (report->stage_count == 0) return;
    double total = 0;
    for (uint32_t i = 0; i < report->stage_count; i++) total += report->stages[i].seconds;
    tn__text_printf(text, "\n  %.1f ms", total * 1e3);
    for (uint32_t i = 0; i < report->stage_count; i++)
        tn__text_printf(text, "%s %s %.1f", i ? "," : ":", report->stages[i].name,
                        report->stages[i].seconds * 1e3);
    tn__text_put(text, "\n");
}

static tn_status table_render(const tn_report *report, tn__text *text, tn_error *error) {
    tn__scene scene;
    tn_status status = tn__scene_make(&scene, report, error);
    if (status == TN_OK) {
        table_answer(text, &scene);
        table_all(text, report);
        table_banks(text, report);
        table_dependencies(text, report);
        table_streams(text, report);
        table_kinds(text, &scene);
        status = table_holders(text, &scene, error);
    }
    if (status == TN_OK) table_stages(text, report);
    tn__scene_release(&scene);
    return status;
}

const tn_report_format tn__report_format_table = {
    .name = "table",
    .suffix = "",
    .summary = "the plan as a table",
    .render = table_render,
};
