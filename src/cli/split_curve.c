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

/* The bytes that a plan's limit is for: of the arena, or with weights. */
static uint64_t curve_size(const curve_job *job, const tn_setup *setup) {
    tn_setup_needs needs = tn_setup_need(setup);
    return job->asked->budget > 0 ? needs.total : needs.arena;
}

static uint64_t curve_limit(const curve_job *job) {
    return job->asked->budget > 0 ? job->asked->budget : job->asked->options->capacity;
}

/* --- the answer --- */

static const cli_facts curve_point_facts = {
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "arena", "arena", "bytes of the arena"),
        CLI_FACT(BYTES, "bytes", "with weights", "bytes with the weights"),
        CLI_COLUMN(REAL, "lower by"), CLI_COLUMN(REAL, "operations"), CLI_COLUMN(REAL, "MiB moved"),
        CLI_FACT(SHARE, "work", "work", "additional work, as a fraction of the work without tiles"),
        CLI_COLUMN(COUNT, "regions"), CLI_COLUMN(COUNT, "recomputed"),
        CLI_FACTS_ALSO(&cli_split_facts), CLI_FACTS_END}};
const cli_facts cli_split_curve_facts = {
    .name = "split-curve",
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model"),
        CLI_FACT(COUNT, "operations", NULL, "operations of the model without tiles"),
        CLI_FACT_OF(LIST, "points", "the curve, in rising order of bytes; the last has no tiles",
                    &curve_point_facts),
        CLI_FACTS_END}};

static void curve_tell_point(const curve_job *job, const tn_setup *setup, cli_answer *answer) {
    const tn_split_report *report = tn_setup_splits(setup);
    tn_setup_needs whole = tn_setup_need(job->setups[job->count - 1]), needs = tn_setup_need(setup);
    cli_answer_open(answer, NULL);
    cli_tell(answer, "arena", needs.arena);
    cli_tell(answer, "bytes", needs.total);
    cli_tell_cell(answer, "lower by", "%.2f",
                  needs.arena > 0 ? (double)whole.arena / (double)needs.arena : 1);
    if (report != NULL) {
        cli_tell_cell(answer, "operations", "%.1f %%", 100 * cli_split_extra(report));
        cli_tell_cell(answer, "MiB moved", "%.1f", (double)cli_split_moved(report) / 1048576);
    }
    cli_tell_real(answer, "work", curve_work(setup));
    cli_tell_cell(answer, "regions", report != NULL ? "%u" : "whole",
                  report != NULL ? report->count : 0);
    if (report != NULL) cli_tell_cell(answer, "recomputed", "%u", report->again_count);
    cli_split_tell(answer, setup);
    cli_answer_close(answer);
}

static tn_status curve_tell(const curve_job *job, tn_error *error) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_split_curve_facts, job->asked->json);
    cli_tell_word(&answer, "input", cli_shown_path(job->asked->input->path));
    cli_tell(&answer, "operations", job->flops);
    cli_answer_open(&answer, "points");
    for (uint32_t i = 0; i < job->count; i++) curve_tell_point(job, job->setups[i], &answer);
    cli_answer_close(&answer);
    cli_tell_brief(&answer, "%u points, from %" PRIu64 " to %" PRIu64 " bytes of arena", job->count,
                   tn_setup_need(job->setups[0]).arena,
                   tn_setup_need(job->setups[job->count - 1]).arena);
    return cli_answer_end(&answer, error);
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
                           .budget = curve_limit(job),
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

/* The plan to draw: the largest within the limit, which has the least work; without a limit the
 * smallest. */
static tn_status curve_choose(curve_job *job, tn_error *error) {
    uint64_t capacity = curve_limit(job);
    job->chosen = 0;
    for (uint32_t i = 0; i < job->count && capacity > 0; i++)
        if (curve_size(job, job->setups[i]) <= capacity) job->chosen = i;
    uint64_t least = curve_size(job, job->setups[0]);
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
        status = curve_tell(&job, error);
    }
    if (status == TN_OK) status = curve_choose(&job, error);
    if (status == TN_OK) status = curve_draw(&job, error);
    for (uint32_t i = 0; i < job.count; i++) tn_setup_destroy(job.setups[i]);
    free(job.setups);
    return status;
}
