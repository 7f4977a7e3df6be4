/* split_curve.c - the curve of memory against work for operators in tiles: as a table, as JSON, and
 * drawn after the plan of one of its points.
 */
#include "cli/split_curve.h"

#include "cli/plan_options.h"
#include "cli/split.h"
#include "cli/whom.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/format.h"

typedef struct curve_job {
    const cli_split_curve *asked;
    tn_setup **setups; /* [count], the last one without tiles */
    uint32_t count, chosen;
    uint64_t flops; /* of the model */
} curve_job;

static double curve_work(const tn_setup *setup) {
    const tn_split_report *report = tn_setup_splits(setup);
    return report != NULL ? report->work : 0;
}

/* --- text --- */

static void curve_line(const curve_job *job, const tn_setup *setup) {
    const tn_split_report *report = tn_setup_splits(setup);
    tn_setup_needs whole = tn_setup_need(job->setups[job->count - 1]), needs = tn_setup_need(setup);
    char arena[TN__WORDS_MAX], total[TN__WORDS_MAX];
    double lower = needs.arena > 0 ? (double)whole.arena / (double)needs.arena : 1;
    printf("%16s %16s %8.2f ", tn__grouped(needs.arena, arena), tn__grouped(needs.total, total),
           lower);
    if (report == NULL) {
        printf("%10s %11s %8s %8s %6s\n", "", "", "", "whole", "");
        return;
    }
    printf("%8.1f %% %11.1f %6.1f %% %8u %6u\n", 100 * cli_split_extra(report),
           (double)cli_split_moved(report) / 1048576, 100 * report->work, report->count,
           report->again_count);
}

static void curve_print(const curve_job *job) {
    printf("%16s %16s %8s %10s %11s %8s %8s %6s\n", "arena", "with weights", "lower by",
           "operations", "MiB moved", "work", "regions", "again");
    for (uint32_t i = 0; i < job->count; i++) curve_line(job, job->setups[i]);
}

static tn_status curve_json(const curve_job *job, tn_error *error) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"format\":\"tenure-split-curve\",\"version\":1,\"input\":");
    tn__text_json(&text, job->asked->input->path);
    tn__text_printf(&text, ",\"operations\":%" PRIu64 ",\"points\":[", job->flops);
    for (uint32_t i = 0; i < job->count; i++) {
        tn_setup_needs needs = tn_setup_need(job->setups[i]);
        tn__text_printf(&text, "%s{\"arena\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"work\":%.6f",
                        i > 0 ? ",\n" : "\n", needs.arena, needs.total, curve_work(job->setups[i]));
        cli_split_json(job->setups[i], &text);
        tn__text_put(&text, "}");
    }
    tn__text_put(&text, "]}\n");
    tn_status status = text.failed ? tn__no_memory(error, "the curve") : TN_OK;
    if (status == TN_OK) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
    return status;
}

/* --- picture --- */

/* The work of a point, relative to the model's. */
static uint64_t curve_operations(const curve_job *job, const tn_setup *setup) {
    return (uint64_t)((1 + curve_work(setup)) * (double)job->flops);
}

static tn_status curve_write(const curve_job *job, const tn_report_point *points, tn_error *error) {
    const cli_input *input = job->asked->input;
    tn_setup_needs whole = tn_setup_need(job->setups[job->count - 1]);
    tn_setup_needs needs = tn_setup_need(input->setup);
    tn_fit_result result = {.pass = "split",
                            .bytes = needs.total,
                            .plain_bytes = whole.total,
                            .time = points[job->chosen].time,
                            .plain_time = job->flops};
    tn_report_fit curve = {.result = &result,
                           .budget = job->asked->options->capacity,
                           .fixed_bytes = needs.total - needs.arena,
                           .abstract = true,
                           .work = true,
                           .points = points,
                           .point_count = job->count};
    tn_report_kernels kernels;
    tn_report report = {.struct_size = sizeof report,
                        .input = input->path,
                        .problem = input->problem,
                        .occupancy = input->occupancy,
                        .layout = input->layout,
                        .static_bytes = needs.total - needs.arena,
                        .fit = &curve};
    report.kernels = cli_whom_told(&input->whom, input->setup, &kernels);
    cli_words words;
    cli_words_of(input, input->setup, &words);
    cli_report_words(&report, "plan", &words);
    tn_status status = words.failed ? tn__no_memory(error, "the options of the plan") : TN_OK;
    for (uint32_t i = 0; i < job->asked->output_count && status == TN_OK; i++) {
        status = tn_report_write(&report, job->asked->outputs[i], error);
        if (status == TN_OK && !job->asked->json) printf("wrote %s\n", job->asked->outputs[i]);
    }
    cli_words_release(&words);
    return status;
}

/* The plan to draw: the largest within the capacity, which has the least work; without a capacity
 * the smallest. */
static tn_status curve_choose(curve_job *job, tn_error *error) {
    uint64_t capacity = job->asked->options->capacity;
    job->chosen = 0;
    for (uint32_t i = 0; i < job->count && capacity > 0; i++)
        if (tn_setup_need(job->setups[i]).total <= capacity) job->chosen = i;
    uint64_t least = tn_setup_need(job->setups[0]).total;
    if (capacity == 0 || least <= capacity) return TN_OK;
    TN_FAIL(error, TN_E_EXHAUSTED,
            "no tiling was found that fits in %" PRIu64 " bytes; the smallest found needs %" PRIu64,
            capacity, least);
}

static tn_status curve_draw(curve_job *job, tn_error *error) {
    if (job->asked->output_count == 0) return TN_OK;
    tn_report_point *points = calloc(job->count, sizeof *points);
    if (points == NULL) return tn__no_memory(error, "the curve");
    for (uint32_t i = 0; i < job->count; i++) {
        uint64_t bytes = tn_setup_need(job->setups[i]).total;
        points[i] = (tn_report_point){bytes, bytes, curve_operations(job, job->setups[i]), 0};
    }
    cli_input_take_setup(job->asked->input, job->setups[job->chosen]);
    tn_status status = curve_write(job, points, error);
    job->setups[job->chosen] = NULL; /* the input's */
    free(points);
    return status;
}

tn_status cli_split_curve_run(const cli_split_curve *asked, tn_error *error) {
    curve_job job = {.asked = asked};
    job.setups = calloc(asked->count, sizeof *job.setups);
    if (job.setups == NULL) return tn__no_memory(error, "the curve");
    tn_status status =
        cli_input_sweep(asked->input, asked->options, asked->count, job.setups, &job.count, error);
    if (status == TN_OK) {
        cli_progress_end();
        job.flops = tn_graph_work(tn_setup_graph(job.setups[job.count - 1])).flops;
        if (asked->json)
            status = curve_json(&job, error);
        else
            curve_print(&job);
    }
    if (status == TN_OK) status = curve_choose(&job, error);
    if (status == TN_OK) status = curve_draw(&job, error);
    for (uint32_t i = 0; i < job.count; i++) tn_setup_destroy(job.setups[i]);
    free(job.setups);
    return status;
}
