/* fit_answer.c - prints the answer of `tenure fit` as a table or JSON, and writes its files. */
#include "base/base.h"
#include "cli/answer/holders.h"
#include "cli/answer/model_facts.h"
#include "cli/fit/fit.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/plan_file.h"
#include "report/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double answer_seconds(uint64_t time) { return (double)time / (double)TN_COSTS_PER_S; }

static double answer_ratio(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 1;
}

/* Returns whether the time of the answer is unknown, because the answer uses tiles and the given
 * costs are those of the graph without tiles. */
static bool answer_is_untimed(const cli_fit *fit) {
    return fit->answer.result.time == 0 && (fit->answer.techniques & TN_FIT_SPLIT) != 0;
}

/* Returns the gap between the time of a result and its lower bound, as a fraction. 0 means that the
 * result is proved to be the fastest; NAN means that there is no bound. */
static double answer_gap(const tn_fit_result *it) {
    return it->time_bound > 0 ? answer_ratio(it->time, it->time_bound) - 1 : NAN;
}

/* --- the facts of the answer --- */

static const cli_facts fit_fate_facts = {
    .width = 18,
    .rows = (const cli_fact[]){CLI_FACT(COUNT, "tensors", NULL, "number of tensors"),
                               CLI_FACT(BYTES, "bytes", NULL, "their bytes"), CLI_FACTS_END}};
static const cli_facts fit_fates_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "kept", "tensors that stay", &fit_fate_facts),
        CLI_FACT_OF(OBJECT, "recomputed", "tensors that are computed again", &fit_fate_facts),
        CLI_FACT_OF(OBJECT, "swapped", "tensors that are copied out and back", &fit_fate_facts),
        CLI_FACT_OF(OBJECT, "encoded", "tensors that are kept compressed", &fit_fate_facts),
        CLI_FACTS_END}};
static const cli_facts fit_streamed_facts = {
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "fetched_bytes", "streamed", "bytes of weights read during a run"),
        CLI_FACT(BYTES, "resident_bytes", "  resident weights", "bytes of weights that stay"),
        CLI_FACTS_END}};
static const cli_facts fit_answer_facts = {
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "budget", "budget", "the budget"),
        CLI_FACT_BRIEF(BYTES, "bytes", "takes", "@",
                       "bytes of the fitted program, with `fixed_bytes`"),
        CLI_FACT(BYTES, "fixed_bytes", "  weights, states", "bytes outside the arena"),
        CLI_FACT(BYTES, "arena", "  arena", "bytes of the arena: the peak of the layout"),
        CLI_FACT(BYTES, "live_bytes", NULL, "live bytes of the arena at the peak step"),
        CLI_FACT(BYTES, "plain_bytes", "without fitting", "bytes before fitting"),
        CLI_FACT(BYTES, "bytes_bound", NULL, "no allowed program takes less; 0: no bound"),
        CLI_FACT(WORD, "unit", NULL, "of times: ps (picoseconds), or cost"),
        CLI_FACT(COUNT, "time", "time", "time of the fitted program; 0: not predicted"),
        CLI_FACT(COUNT, "plain_time", NULL, "time before fitting"),
        CLI_FACT(COUNT, "time_bound", "lower bound",
                 "no allowed program within the budget takes less time; 0: no bound"),
        CLI_FACT(REAL, "overhead", NULL, "`time` / `plain_time`; null: the time is unknown"),
        CLI_FACT(SHARE, "gap", NULL, "`time` / `time_bound` - 1; null: no bound is known"),
        CLI_FACT(COUNT, "stall", "waiting", "part of `time` spent waiting for copies or files"),
        CLI_FACT_OF(OBJECT, "decisions", "the decision for each tensor, in sums", &fit_fates_facts),
        CLI_FACT_OF(OBJECT, "streamed", "with streaming of weights", &fit_streamed_facts),
        CLI_FACTS_ALSO(&cli_experts_planned_facts),
        CLI_FACT(BYTES, "to_host_bytes", "to the host", "bytes copied out"),
        CLI_FACT(BYTES, "from_host_bytes", "from the host", "bytes copied back"),
        CLI_FACT(BYTES, "host_bytes", "on the host", "peak of host memory"),
        CLI_FACT_BRIEF(WORD, "pass", "pass", ", pass @", "the pass that found the program"),
        CLI_FACT(COUNT, "rounds", NULL, "questions to the passes, each for a number of live bytes"),
        CLI_FACT(COUNT, "work", NULL,
                 "effort of the search in units of work, the same on every machine"),
        CLI_FACT(SECONDS, "seconds", NULL, "wall time of the search"),
        CLI_FACT(YES, "stopped", NULL, "whether a limit ended the search early"),
        CLI_FACTS_END}};
static const cli_facts fit_run_facts = {
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(SECONDS, "seconds", "measured run", "wall time of the last run"),
        CLI_FACT(SECONDS, "stall_seconds", NULL, "time spent waiting for copies"),
        CLI_FACT(BYTES, "peak", "  and reached", "measured bytes of the arena"),
        CLI_FACT(BYTES, "to_host_bytes", NULL, "bytes copied out"),
        CLI_FACT(BYTES, "from_host_bytes", NULL, "bytes copied back"), CLI_FACTS_END}};
const cli_facts cli_fit_facts = {
    .name = "fit",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model or problem"),
        CLI_FACT(COUNT, "batch", "batch", "the batch, if one was given or found"),
        CLI_FACTS_ALSO(&cli_kernel_target_facts), CLI_FACTS_ALSO(&cli_split_facts),
        CLI_FACT_OF(LIST, "answers",
                    "one for each budget: those of --sweep in rising order, then that of --budget",
                    &fit_answer_facts),
        CLI_FACT(SECONDS, "measuring", "measuring", "time spent measuring costs"),
        CLI_FACT_OF(OBJECT, "run", "with --run: the last run", &fit_run_facts),
        CLI_FACTS_ALSO(&cli_losses_facts), CLI_FACTS_ALSO(&cli_claims_facts), CLI_FACTS_END}};

static void answer_time(cli_answer *answer, const cli_fit *fit, const char *key, uint64_t time) {
    cli_add(answer, key, time);
    if (fit->problem_path == NULL) cli_add_as(answer, "%.6g s", answer_seconds(time));
}

static void answer_run(cli_answer *answer, const cli_fit *fit, const tn_fit_result *it) {
    double said = answer_seconds(it->time), took = fit->usage.seconds;
    cli_answer_open(answer, "run");
    cli_add_real(answer, "seconds", took);
    cli_add_as(answer, "%.6g s, %.4f of the prediction", took, said > 0 ? took / said : 0);
    if (it->stall > 0 || fit->usage.out_bytes > 0)
        cli_add_more(answer, "; %.3g s waiting for copies", fit->usage.stall_seconds);
    cli_add_real(answer, "stall_seconds", fit->usage.stall_seconds);
    cli_add(answer, "peak", fit->usage.measured_peak);
    cli_add_more(answer, " of the arena");
    cli_add(answer, "to_host_bytes", fit->usage.out_bytes);
    cli_add(answer, "from_host_bytes", fit->usage.in_bytes);
    cli_answer_close(answer);
}

static void answer_fates(cli_answer *answer, const tn_fate_totals *fates) {
    char size[TN_SIZE_TEXT_MAX];
    cli_answer_open(answer, "decisions");
    for (uint32_t fate = 0; fate < TN_FATE_COUNT; fate++) {
        cli_answer_open(answer, tn_fate_name((tn_fate)fate));
        cli_add(answer, "tensors", fates->tensors[fate]);
        if (fates->tensors[fate] > 0)
            cli_add_line(answer, tn_fate_name((tn_fate)fate), "%" PRIu32 " tensors, %s",
                         fates->tensors[fate], tn_size_format(fates->bytes[fate], size));
        cli_add(answer, "bytes", fates->bytes[fate]);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

/* Returns the bytes outside the arena. They may differ between points of the curve, because a
 * program with tiles may need other weights in memory. */
static uint64_t answer_fixed(const cli_fit *fit, const tn_fit_result *it) {
    size_t i = (size_t)(it - fit->results);
    return i < fit->curve.count ? fit->curve.points[i].fixed_bytes : fit->options.fixed_bytes;
}

static void answer_bytes(cli_answer *answer, const cli_fit *fit, const tn_fit_result *it,
                         uint64_t budget) {
    cli_add(answer, "budget", budget);
    if (budget == UINT64_MAX) cli_add_as(answer, "no limit");
    cli_add(answer, "bytes", it->bytes);
    cli_add_if(answer, "fixed_bytes", answer_fixed(fit, it));
    cli_add(answer, "arena", it->layout.peak);
    if (fit->options.live) cli_add_more(answer, " with addresses");
    cli_add(answer, "live_bytes", it->live_bytes);
    cli_add(answer, "plain_bytes", it->plain_bytes);
    cli_add(answer, "bytes_bound", it->bytes_bound);
}

static void answer_times(cli_answer *answer, const cli_fit *fit, const tn_fit_result *it,
                         const tn_stream_result *streamed) {
    cli_add_word(answer, "unit", fit->problem_path == NULL ? "ps" : "cost");
    answer_time(answer, fit, "time", it->time);
    if (it->time > 0 || fit->problem_path != NULL)
        cli_add_more(answer, ", %.4f of the unconstrained program's",
                     answer_ratio(it->time, it->plain_time));
    else if (answer_is_untimed(fit))
        cli_add_as(answer,
                   "not predicted: the costs that were given are of the graph without tiles");
    else if (fit->setup != NULL && tn_setup_experts(fit->setup) != NULL)
        cli_add_as(answer, "not predicted: it depends on the experts that the router chooses");
    else
        cli_add_as(answer, "not predicted: the unchanged plan fits, so no costs were measured");
    cli_add(answer, "plain_time", it->plain_time);
    if (it->time_bound > 0) {
        answer_time(answer, fit, "time_bound", it->time_bound);
        cli_add_more(answer, ", gap %.2f %%", 100 * answer_gap(it));
    } else {
        cli_add_if(answer, "time_bound", 0);
    }
    cli_add_real(answer, "overhead",
                 answer_is_untimed(fit) ? NAN : answer_ratio(it->time, it->plain_time));
    if (!answer_is_untimed(fit))
        cli_add_brief(answer, ", %.4f times the time", answer_ratio(it->time, it->plain_time));
    cli_add_real(answer, "gap", answer_gap(it));
    if (it->time_bound > 0) cli_add_brief(answer, ", gap %.2f %%", 100 * answer_gap(it));
    if (it->stall > 0) {
        answer_time(answer, fit, "stall", it->stall);
        cli_add_more(answer, streamed != NULL ? " for files" : " for copies");
    } else {
        cli_add_if(answer, "stall", 0);
    }
}

static void answer_one(cli_answer *answer, const cli_fit *fit, const tn_fit_result *it,
                       uint64_t budget, const tn_fate_totals *fates) {
    const tn_stream_result *streamed = fit->setup != NULL ? tn_setup_streamed(fit->setup) : NULL;
    cli_answer_open(answer, NULL);
    answer_bytes(answer, fit, it, budget);
    answer_times(answer, fit, it, streamed);
    answer_fates(answer, fates);
    if (streamed != NULL) {
        cli_answer_open(answer, "streamed");
        cli_add(answer, "fetched_bytes", streamed->fetched_bytes);
        cli_add(answer, "resident_bytes", streamed->resident_bytes);
        cli_answer_close(answer);
    }
    cli_experts_add(answer, fit->setup, NULL);
    cli_add_if(answer, "to_host_bytes", it->to_host_bytes);
    cli_add_if(answer, "from_host_bytes", it->from_host_bytes);
    cli_add_if(answer, "host_bytes", it->host != NULL ? it->host_layout.peak : 0);
    cli_add_word(answer, "pass", it->pass);
    cli_add_more(answer, ", %" PRIu32 " rounds, %.3g s%s", it->rounds, it->seconds,
                 it->stopped ? ", stopped early" : "");
    cli_add(answer, "rounds", it->rounds);
    cli_add(answer, "work", it->work);
    cli_add_real(answer, "seconds", it->seconds);
    cli_add(answer, "stopped", it->stopped);
    cli_answer_close(answer);
}

static void answer_curve(cli_answer *answer, const cli_fit *fit) {
    tn__text *table = cli_answer_table(answer);
    if (table == NULL || fit->sweep == 0) return;
    tn__text_printf(table, "%16s %16s %14s %10s %10s\n", "budget", "takes", "time", "overhead",
                    "bound");
    for (uint32_t i = 0; i < fit->sweep; i++) {
        const tn_fit_result *it = &fit->results[i];
        char budget[TN__WORDS_MAX], bytes[TN__WORDS_MAX];
        tn__text_printf(table, "%16s %16s ", tn__grouped(fit->budgets[i], budget),
                        tn__grouped(it->bytes, bytes));
        if (fit->problem_path != NULL)
            tn__text_printf(table, "%14" PRIu64, it->time);
        else
            tn__text_printf(table, "%12.6g s", answer_seconds(it->time));
        tn__text_printf(table, " %10.4f", answer_ratio(it->time, it->plain_time));
        if (it->time_bound > 0)
            tn__text_printf(table, " %10.4f\n", answer_ratio(it->time_bound, it->plain_time));
        else
            tn__text_printf(table, " %10s\n", "none");
    }
}

/* Returns whether result i is printed. The JSON has all results. The table and the brief line have
 * the chosen result if there is a budget; with only a curve, the table shows the curve. */
static bool answer_shows(const cli_fit *fit, uint32_t i) {
    if (fit->json) return true;
    if (i != fit->chosen) return false;
    return cli_tone_asked().brief || fit->sweep == 0 || fit->options.budget > 0;
}

static tn_status answer_answers(cli_answer *answer, const cli_fit *fit, tn_error *error) {
    cli_answer_open(answer, "answers");
    for (uint32_t i = 0; i < fit->result_count; i++) {
        tn_fate_totals fates;
        if (!answer_shows(fit, i)) continue;
        TN_TRY(tn_fit_fates(fit->results[i].occupancy, &fates, error));
        answer_one(answer, fit, &fit->results[i], fit->json ? fit->budgets[i] : fit->options.budget,
                   &fates);
    }
    cli_answer_close(answer);
    return TN_OK;
}

tn_status cli_fit_print(const cli_fit *fit, tn_error *error) {
    const char *path = fit->problem_path != NULL ? fit->problem_path : fit->input.path;
    bool one = answer_shows(fit, fit->chosen);
    cli_answer answer;
    cli_progress_end();
    cli_answer_begin(&answer, &cli_fit_facts, fit->json);
    cli_add_word(&answer, "input", cli_shown_path(path));
    cli_add_brief(&answer, "%s: ", cli_shown_path(path));
    answer_curve(&answer, fit);
    if (one && fit->setup != NULL) {
        const cli_kernel_target target = cli_fit_target(fit);
        cli_kernel_target_add(&answer, &target, fit->setup);
    }
    if (one) cli_split_add(&answer, fit->setup);
    if (fit->batch > 0 && one) cli_add(&answer, "batch", fit->batch);
    tn_status status = answer_answers(&answer, fit, error);
    if (one && fit->measured > 0) cli_add_real(&answer, "measuring", fit->measured);
    if (fit->happened != NULL && one) answer_run(&answer, fit, &fit->results[fit->chosen]);
    if (one) cli_losses_add(&answer, &fit->losses);
    cli_claims_add(&answer, &fit->answer);
    if (status == TN_OK) return cli_answer_end(&answer, error);
    cli_answer_release(&answer);
    return status;
}

void cli_fit_print_least(const cli_fit *fit) {
    if (fit->answer.own != NULL) {
        cli_claims_holders(&fit->answer);
    } else if (fit->result_count > 0 && fit->results[fit->chosen].occupancy != NULL) {
        cli_holders_print_least(fit->results[fit->chosen].occupancy, fit->options.fixed_bytes,
                                "the smallest program found");
    }
}

/* --- files --- */

/* Returns the points of the curve for a report, or NULL if memory ran out. The caller frees
 * them. */
static tn_report_point *answer_points(const cli_fit *fit) {
    tn_report_point *points = calloc((size_t)fit->sweep + 1, sizeof *points);
    for (uint32_t i = 0; i < fit->sweep && points != NULL; i++) {
        const tn_fit_result *it = &fit->results[i];
        points[i] = (tn_report_point){fit->budgets[i], it->bytes, it->time, it->time_bound};
    }
    return points;
}

/* Collects the options that reproduce the graph of the result. For a problem there are none. */
static tn_status answer_words(const cli_fit *fit, cli_words *words, tn_error *error) {
    cli_input input = fit->input;
    *words = (cli_words){0};
    if (fit->problem_path != NULL) return TN_OK;
    input.target = cli_fit_target(fit);
    input.training = fit->train ? &fit->training : NULL;
    cli_words_of(&input, fit->setup, words);
    return words->failed ? tn__no_memory(error, "the options of the plan") : TN_OK;
}

static tn_status answer_write(const cli_fit *fit, const tn_report_fit *answer, tn_error *error) {
    const tn_fit_result *it = answer->result;
    tn_report report = {.struct_size = sizeof report,
                        .input = fit->problem_path != NULL ? fit->problem_path : fit->input.path,
                        .problem = tn_occupancy_problem(it->occupancy),
                        .occupancy = it->occupancy,
                        .layout = &it->layout,
                        .fit = answer};
    cli_words words;
    tn_status status = answer_words(fit, &words, error);
    if (fit->problem_path == NULL) cli_report_words(&report, "fit", &words);
    for (uint32_t i = 0; i < fit->output_count && status == TN_OK; i++) {
        status = tn_report_write(&report, fit->outputs[i], error);
        if (status == TN_OK && !fit->json) printf("wrote %s\n", fit->outputs[i]);
    }
    cli_words_release(&words);
    return status;
}

tn_status cli_fit_write(const cli_fit *fit, tn_error *error) {
    if (fit->output_count == 0) return TN_OK;
    const tn_fit_result *it = &fit->results[fit->chosen];
    tn_trace *trace = NULL;
    tn_report_point *points = answer_points(fit);
    tn_status status = points != NULL ? TN_OK : tn__no_memory(error, "the curve");
    if (status == TN_OK)
        status = tn_trace_create(fit->input.import.context,
                                 (uint64_t)tn_program_count(it->program) + 1, &trace, error);
    if (status == TN_OK) status = tn_fit_trace(it, fit->costs, &fit->options, trace, error);
    if (status == TN_OK) {
        tn_report_fit answer = {.result = it,
                                .budget = fit->options.budget,
                                .fixed_bytes = fit->options.fixed_bytes,
                                .abstract = fit->problem_path != NULL,
                                .points = points,
                                .point_count = fit->sweep,
                                .predicted = trace,
                                .measured = fit->happened};
        status = answer_write(fit, &answer, error);
    }
    tn_trace_destroy(trace);
    free(points);
    return status;
}
