/* fit_tell.c - prints the answer of `tenure fit` as text or JSON, and writes files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/claims.h"
#include "cli/fit.h"
#include "cli/holders.h"
#include "cli/plan_options.h"
#include "cli/split.h"
#include "cli/whom.h"
#include "report/format.h"

#define TELL_HOLDERS 10u

static double tell_seconds(uint64_t time) { return (double)time / (double)TN_COSTS_PER_S; }

static double tell_ratio(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 1;
}

/* The gap to the lower bound of the time; 0: proved to be the fastest. */
static double tell_gap(const tn_fit_result *it) {
    return it->time_bound > 0 ? tell_ratio(it->time, it->time_bound) - 1 : 0;
}

/* --- text --- */

static void tell_time(const cli_fit *fit, const char *label, uint64_t time) {
    if (fit->problem_path != NULL)
        printf("%-18s %" PRIu64, label, time);
    else
        printf("%-18s %.6g s", label, tell_seconds(time));
}

static void tell_bytes(const char *label, uint64_t bytes) {
    char size[TN_SIZE_TEXT_MAX];
    printf("%-18s %s\n", label, tn_size_format(bytes, size));
}

/* The measured time of a run compared with its prediction. */
static void tell_run(const cli_fit *fit, const tn_fit_result *it) {
    char peak[TN_SIZE_TEXT_MAX];
    double said = tell_seconds(it->time), took = fit->usage.seconds;
    printf("%-18s %.6g s, %.4f of the prediction", "measured run", took,
           said > 0 ? took / said : 0);
    if (it->stall > 0 || fit->usage.out_bytes > 0)
        printf("; %.3g s waiting for copies", fit->usage.stall_seconds);
    printf("\n%-18s %s of the arena\n", "  and reached",
           tn_size_format(fit->usage.measured_peak, peak));
}

static void tell_one(const cli_fit *fit, const tn_fit_result *it, uint64_t budget,
                     const tn_fate_totals *fates) {
    const tn_stream_result *streamed = fit->setup != NULL ? tn_setup_streamed(fit->setup) : NULL;
    char size[TN_SIZE_TEXT_MAX];
    if (budget == UINT64_MAX)
        printf("%-18s no limit\n", "budget");
    else
        tell_bytes("budget", budget);
    tell_bytes("takes", it->bytes);
    if (fit->options.fixed_bytes > 0) tell_bytes("  weights, states", fit->options.fixed_bytes);
    tell_bytes(fit->options.live ? "  with addresses" : "  arena", it->layout.peak);
    tell_bytes("without fitting", it->plain_bytes);
    if (it->time > 0 || fit->problem_path != NULL) {
        tell_time(fit, "time", it->time);
        printf(", %.4f of the unconstrained program's\n", tell_ratio(it->time, it->plain_time));
    } else {
        printf("%-18s not predicted: the unchanged plan fits, so no costs were measured\n", "time");
    }
    if (it->time_bound > 0) {
        tell_time(fit, "lower bound", it->time_bound);
        printf(", gap %.2f %%\n", 100 * tell_gap(it));
    }
    if (it->stall > 0) {
        tell_time(fit, "waiting", it->stall);
        printf(streamed != NULL ? " for files\n" : " for copies\n");
    }
    for (uint32_t fate = 0; fate < TN_FATE_COUNT; fate++)
        if (fates->tensors[fate] > 0)
            printf("%-18s %" PRIu32 " tensors, %s\n", tn_fate_name((tn_fate)fate),
                   fates->tensors[fate], tn_size_format(fates->bytes[fate], size));
    if (streamed != NULL) {
        tell_bytes("streamed", streamed->fetched_bytes);
        tell_bytes("  resident weights", streamed->resident_bytes);
    }
    if (it->to_host_bytes > 0) tell_bytes("to the host", it->to_host_bytes);
    if (it->from_host_bytes > 0) tell_bytes("from the host", it->from_host_bytes);
    if (it->host != NULL) tell_bytes("on the host", it->host_layout.peak);
    printf("%-18s %s, %" PRIu32 " rounds, %.3g s%s\n", "pass", it->pass, it->rounds, it->seconds,
           it->stopped ? ", stopped early" : "");
    if (fit->measured > 0) printf("%-18s %.3g s\n", "measuring", fit->measured);
    if (fit->happened != NULL) tell_run(fit, it);
}

static void tell_curve(const cli_fit *fit) {
    printf("%16s %16s %14s %10s %10s\n", "budget", "takes", "time", "overhead", "bound");
    for (uint32_t i = 0; i < fit->sweep; i++) {
        const tn_fit_result *it = &fit->results[i];
        char budget[TN__WORDS_MAX], bytes[TN__WORDS_MAX];
        printf("%16s %16s ", tn__grouped(fit->budgets[i], budget), tn__grouped(it->bytes, bytes));
        if (fit->problem_path != NULL)
            printf("%14" PRIu64, it->time);
        else
            printf("%12.6g s", tell_seconds(it->time));
        printf(" %10.4f %10.4f\n", tell_ratio(it->time, it->plain_time),
               tell_ratio(it->time_bound, it->plain_time));
    }
}

/* --- JSON --- */

static void tell_json_one(const cli_fit *fit, const tn_fit_result *it, uint64_t budget,
                          const tn_fate_totals *fates, tn__text *text) {
    bool unit = fit->problem_path == NULL;
    tn__text_printf(text,
                    "{\"budget\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"fixed_bytes\":%" PRIu64
                    ",\"arena\":%" PRIu64 ",\"live_bytes\":%" PRIu64 ",\"plain_bytes\":%" PRIu64
                    ",\"bytes_bound\":%" PRIu64,
                    budget, it->bytes, fit->options.fixed_bytes, it->layout.peak, it->live_bytes,
                    it->plain_bytes, it->bytes_bound);
    tn__text_printf(text,
                    ",\"unit\":\"%s\",\"time\":%" PRIu64 ",\"plain_time\":%" PRIu64
                    ",\"time_bound\":%" PRIu64 ",\"overhead\":%.6f,\"gap\":%.6f,\"stall\":%" PRIu64,
                    unit ? "ps" : "cost", it->time, it->plain_time, it->time_bound,
                    tell_ratio(it->time, it->plain_time), tell_gap(it), it->stall);
    tn__text_printf(text,
                    ",\"to_host_bytes\":%" PRIu64 ",\"from_host_bytes\":%" PRIu64
                    ",\"host_bytes\":%" PRIu64 ",\"fates\":{",
                    it->to_host_bytes, it->from_host_bytes,
                    it->host != NULL ? it->host_layout.peak : 0);
    for (uint32_t fate = 0; fate < TN_FATE_COUNT; fate++)
        tn__text_printf(text, "%s\"%s\":{\"tensors\":%" PRIu32 ",\"bytes\":%" PRIu64 "}",
                        fate > 0 ? "," : "", tn_fate_name((tn_fate)fate), fates->tensors[fate],
                        fates->bytes[fate]);
    tn__text_printf(text,
                    "},\"pass\":\"%s\",\"rounds\":%" PRIu32 ",\"work\":%" PRIu64
                    ",\"seconds\":%.6f,\"stopped\":%s}",
                    it->pass, it->rounds, it->work, it->seconds, it->stopped ? "true" : "false");
}

static tn_status tell_json(const cli_fit *fit, tn_error *error) {
    tn__text text;
    tn_status status = TN_OK;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"input\":");
    tn__text_json(&text, fit->problem_path != NULL ? fit->problem_path : fit->input.path);
    if (fit->batch > 0) tn__text_printf(&text, ",\"batch\":%" PRIu64, fit->batch);
    tn__text_put(&text, ",\"answers\":[");
    for (uint32_t i = 0; i < fit->result_count && status == TN_OK; i++) {
        tn_fate_totals fates;
        if (i > 0) tn__text_put(&text, ",");
        status = tn_fit_fates(fit->results[i].occupancy, &fates, error);
        if (status == TN_OK) tell_json_one(fit, &fit->results[i], fit->budgets[i], &fates, &text);
    }
    tn__text_put(&text, "]");
    if (fit->happened != NULL)
        tn__text_printf(&text,
                        ",\"run\":{\"seconds\":%.9f,\"stall_seconds\":%.9f,\"peak\":%" PRIu64
                        ",\"to_host_bytes\":%" PRIu64 ",\"from_host_bytes\":%" PRIu64 "}",
                        fit->usage.seconds, fit->usage.stall_seconds, fit->usage.measured_peak,
                        fit->usage.out_bytes, fit->usage.in_bytes);
    cli_claims_json(&fit->answer, &text);
    tn__text_put(&text, "}\n");
    if (status == TN_OK && text.failed) status = tn__no_memory(error, "the answer");
    if (status == TN_OK) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
    return status;
}

static tn_status tell_brief(const cli_fit *fit) {
    const tn_fit_result *it = &fit->results[fit->chosen];
    char size[TN_SIZE_TEXT_MAX];
    printf("%s: %s, %.4f times the time, gap %.2f %%, pass %s\n",
           fit->problem_path != NULL ? fit->problem_path : fit->input.path,
           tn_size_format(it->bytes, size), tell_ratio(it->time, it->plain_time),
           100 * tell_gap(it), it->pass);
    return TN_OK;
}

tn_status cli_fit_print(const cli_fit *fit, tn_error *error) {
    tn_fate_totals fates;
    cli_progress_end();
    if (fit->json) return tell_json(fit, error);
    if (cli_tone_asked().brief) return tell_brief(fit);
    if (fit->sweep > 0) tell_curve(fit);
    if (fit->sweep > 0 && fit->options.budget == 0) return TN_OK;
    TN_TRY(tn_fit_fates(fit->results[fit->chosen].occupancy, &fates, error));
    const cli_whom whom = cli_fit_whom(fit);
    if (fit->setup != NULL) cli_whom_print(&whom, fit->setup);
    cli_split_print(fit->setup);
    if (fit->batch > 0) printf("%-18s %" PRIu64 "\n", "batch", fit->batch);
    tell_one(fit, &fit->results[fit->chosen], fit->options.budget, &fates);
    return TN_OK;
}

void cli_fit_print_least(const cli_fit *fit) {
    cli_holders holders;
    if (fit->result_count == 0 || fit->results[fit->chosen].occupancy == NULL) return;
    const tn_occupancy *occupancy = fit->results[fit->chosen].occupancy;
    char size[TN_SIZE_TEXT_MAX];
    tn_status status = cli_holders_of_model(&holders, occupancy, TN_NONE, NULL);
    if (status == TN_OK) cli_holders_print(&holders, TELL_HOLDERS, stderr);
    if (fit->options.fixed_bytes > 0)
        fprintf(stderr, "  at every step  weights and states: %s\n",
                tn_size_format(fit->options.fixed_bytes, size));
    cli_holders_release(&holders);
}

/* --- files --- */

/* The curve for the report; NULL: out of memory. */
static tn_report_point *tell_points(const cli_fit *fit) {
    tn_report_point *points = calloc((size_t)fit->sweep + 1, sizeof *points);
    for (uint32_t i = 0; i < fit->sweep && points != NULL; i++) {
        const tn_fit_result *it = &fit->results[i];
        points[i] = (tn_report_point){fit->budgets[i], it->bytes, it->time, it->time_bound};
    }
    return points;
}

/* The options that reproduce the graph of the result; none for a problem. */
static tn_status tell_words(const cli_fit *fit, const tn_fit_result *it, cli_words *words,
                            tn_error *error) {
    cli_input input = fit->input;
    const tn_setup *of = fit->setup; /* the setup of the program: whole operators or tiles */
    *words = (cli_words){0};
    if (fit->problem_path != NULL) return TN_OK;
    for (uint32_t i = 0; i < fit->part_count; i++)
        if (tn_setup_graph(fit->parts[i]) == tn_program_graph(it->program)) of = fit->parts[i];
    input.whom = cli_fit_whom(fit);
    input.training = fit->train ? &fit->training : NULL;
    cli_words_of(&input, of, words);
    return words->failed ? tn__no_memory(error, "the options of the plan") : TN_OK;
}

static tn_status tell_write(const cli_fit *fit, const tn_report_fit *answer, tn_error *error) {
    const tn_fit_result *it = answer->result;
    tn_report report = {.struct_size = sizeof report,
                        .input = fit->problem_path != NULL ? fit->problem_path : fit->input.path,
                        .problem = tn_occupancy_problem(it->occupancy),
                        .occupancy = it->occupancy,
                        .layout = &it->layout,
                        .fit = answer};
    cli_words words;
    tn_status status = tell_words(fit, it, &words, error);
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
    tn_report_point *points = tell_points(fit);
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
        status = tell_write(fit, &answer, error);
    }
    tn_trace_destroy(trace);
    free(points);
    return status;
}
