/* curves.c - computes the curves of `tenure plan --sweep`: memory against the work of tiles, and
 * bytes against waits, time or reuse cost. Each curve is printed as a table or JSON. A drawing of a
 * curve also has the plan of one of its points. */
#include "cli/answer/model_facts.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/plan_file.h"
#include "cli/plan/plan.h"
#include "report/svg/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- memory against the work of tiles --- */

typedef struct split_curve_job {
    const cli_split_curve *asked;
    tn_setup **setups; /* [count] compiled models with rising bytes; the last one has no tiles */
    uint32_t count, chosen;
    uint64_t flops; /* operations of the model without tiles */
} split_curve_job;

static double curve_work(const tn_setup *setup) {
    const tn_split_report *report = tn_setup_splits(setup);
    return report != NULL ? report->work : 0;
}

/* Returns the bytes of a plan that the limit applies to: with a budget, those of arena and weights;
 * with a capacity, those of the arena alone. */
static uint64_t curve_size(const split_curve_job *job, const tn_setup *setup) {
    tn_setup_needs needs = tn_setup_need(setup);
    return job->asked->budget > 0 ? needs.total : needs.arena;
}

static uint64_t curve_limit(const split_curve_job *job) {
    return job->asked->budget > 0 ? job->asked->budget : job->asked->options->capacity;
}

/* --- memory against the work of tiles: the answer --- */

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

static void curve_add_point(const split_curve_job *job, const tn_setup *setup, cli_answer *answer) {
    const tn_split_report *report = tn_setup_splits(setup);
    tn_setup_needs whole = tn_setup_need(job->setups[job->count - 1]), needs = tn_setup_need(setup);
    cli_answer_open(answer, NULL);
    cli_add(answer, "arena", needs.arena);
    cli_add(answer, "bytes", needs.total);
    cli_add_cell(answer, "lower by", "%.2f",
                 needs.arena > 0 ? (double)whole.arena / (double)needs.arena : 1);
    if (report != NULL) {
        cli_add_cell(answer, "operations", "%.1f %%", 100 * cli_split_extra(report));
        cli_add_cell(answer, "MiB moved", "%.1f", (double)cli_split_moved(report) / 1048576);
    }
    cli_add_real(answer, "work", curve_work(setup));
    cli_add_cell(answer, "regions", report != NULL ? "%u" : "whole",
                 report != NULL ? report->count : 0);
    if (report != NULL) cli_add_cell(answer, "recomputed", "%u", report->again_count);
    cli_split_add(answer, setup);
    cli_answer_close(answer);
}

static tn_status curve_print(const split_curve_job *job, tn_error *error) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_split_curve_facts, job->asked->json);
    cli_add_word(&answer, "input", cli_shown_path(job->asked->input->path));
    cli_add(&answer, "operations", job->flops);
    cli_answer_open(&answer, "points");
    for (uint32_t i = 0; i < job->count; i++) curve_add_point(job, job->setups[i], &answer);
    cli_answer_close(&answer);
    cli_add_brief(&answer, "%u points, from %" PRIu64 " to %" PRIu64 " bytes of arena", job->count,
                  tn_setup_need(job->setups[0]).arena,
                  tn_setup_need(job->setups[job->count - 1]).arena);
    return cli_answer_end(&answer, error);
}

/* --- memory against the work of tiles: the picture --- */

/* Returns the number of operations of a point, including those that tiles repeat. */
static uint64_t curve_operations(const split_curve_job *job, const tn_setup *setup) {
    return (uint64_t)((1 + curve_work(setup)) * (double)job->flops);
}

static tn_status curve_write(const split_curve_job *job, const tn_report_point *points,
                             tn_error *error) {
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
    report.kernels = cli_kernel_target_report(&input->target, input->setup, &kernels);
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

/* Chooses the plan to draw. With a limit it is the largest plan within the limit, because larger
 * plans have less extra work. Without a limit it is the smallest plan. */
static tn_status curve_choose(split_curve_job *job, tn_error *error) {
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

static tn_status curve_draw(split_curve_job *job, tn_error *error) {
    if (job->asked->output_count == 0) return TN_OK;
    tn_report_point *points = calloc(job->count, sizeof *points);
    if (points == NULL) return tn__no_memory(error, "the curve");
    for (uint32_t i = 0; i < job->count; i++) {
        uint64_t bytes = tn_setup_need(job->setups[i]).total;
        points[i] = (tn_report_point){bytes, bytes, curve_operations(job, job->setups[i]), 0};
    }
    cli_input_take_setup(job->asked->input, job->setups[job->chosen]);
    tn_status status = curve_write(job, points, error);
    job->setups[job->chosen] = NULL; /* the input owns this compiled model from now on */
    free(points);
    return status;
}

tn_status cli_split_curve_run(const cli_split_curve *asked, tn_error *error) {
    split_curve_job job = {.asked = asked};
    job.setups = calloc(asked->count, sizeof *job.setups);
    if (job.setups == NULL) return tn__no_memory(error, "the curve");
    tn_status status =
        cli_input_sweep(asked->input, asked->options, asked->count, job.setups, &job.count, error);
    if (status == TN_OK) {
        cli_progress_end();
        job.flops = tn_graph_work(tn_setup_graph(job.setups[job.count - 1])).flops;
        status = curve_print(&job, error);
    }
    if (status == TN_OK) status = curve_choose(&job, error);
    if (status == TN_OK) status = curve_draw(&job, error);
    for (uint32_t i = 0; i < job.count; i++) tn_setup_destroy(job.setups[i]);
    free(job.setups);
    return status;
}

/* --- bytes against waits, time or reuse cost --- */

/* The curve has a plan for each of several rising capacities. The first is the size of the smallest
 * plan. The last is the smallest capacity found at which more memory does not improve the
 * objective, or that of --capacity if it is smaller. A plan is valid within every larger capacity,
 * so the objective never rises along the curve. */

#define WAIT_WIDEN 12u /* largest number of plans made to find the last capacity */

typedef struct wait_job {
    const cli_wait_curve *asked;
    tn_plan_options options;
    tn__wait_point *points; /* [count] */
    uint32_t count;
} wait_job;

static const cli_facts wait_point_facts = {
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "capacity", "capacity", "bytes that the plan may take"),
        CLI_FACT(BYTES, "bytes", "arena", "bytes of the arena"),
        CLI_FACT(COUNT, "value", "objective", "reuse cost, waits or time of the plan"),
        CLI_FACT(COUNT, "bound", "lower bound",
                 "no plan of these buffers within the capacity has a lower value; 0: unknown"),
        CLI_FACTS_END}};
const cli_facts cli_wait_curve_facts = {
    .name = "wait-curve",
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model or problem"),
        CLI_FACT(WORD, "objective", NULL, "the objective of the plans: pairs, waits or time"),
        CLI_FACT_OF(LIST, "points", "the curve, in rising order of the capacity",
                    &wait_point_facts),
        CLI_FACTS_END}};

static tn__wait_point wait_point(const wait_job *job, const tn_layout *layout, uint64_t capacity) {
    tn__wait_point point = {.capacity = capacity, .bytes = layout->peak};
    switch (job->options.objective) {
    case TN_OBJECTIVE_WAITS:
        point.value = layout->waits;
        point.bound = layout->waits_bound;
        break;
    case TN_OBJECTIVE_TIME:
        point.value = layout->time;
        point.bound = layout->time_bound;
        break;
    default:
        point.value = layout->reuse_cost;
        point.bound = layout->reuse_cost_bound;
    }
    return point;
}

/* Returns whether point `a` is better than `b`: it has a lower value, or an equal value and fewer
 * bytes. */
static bool wait_is_better(const tn__wait_point *a, const tn__wait_point *b) {
    return a->value != b->value ? a->value < b->value : a->bytes < b->bytes;
}

/* Makes a plan within the capacity and stores its point. `known` is an earlier plan within the
 * capacity. It is kept if the new plan is not better, or if a limit ended the search without a
 * plan. */
static tn_status wait_plan(const wait_job *job, uint64_t capacity, const tn__wait_point *known,
                           tn__wait_point *point, tn_error *error) {
    tn_plan_options options = job->options;
    tn_layout layout;
    options.capacity = capacity;
    *point = *known;
    point->capacity = capacity;
    point->bound = 0;
    tn_status status = tn_plan(job->asked->input->problem, &options, &layout, error);
    if (status == TN_E_STOPPED || status == TN_E_INFEASIBLE) return TN_OK;
    TN_TRY(status);
    tn__wait_point made = wait_point(job, &layout, capacity);
    point->bound = made.bound;
    if (wait_is_better(&made, point)) *point = made;
    tn_layout_release(&layout);
    return TN_OK;
}

/* Finds the last capacity of the curve. It doubles the memory beyond the smallest plan until the
 * objective is as good as with unlimited memory. */
static tn_status wait_last(const wait_job *job, const tn__wait_point *least,
                           const tn__wait_point *alone, uint64_t *last, tn_error *error) {
    uint64_t more = least->bytes / 16 > 0 ? least->bytes / 16 : 1;
    *last = alone->bytes > least->bytes ? alone->bytes : least->bytes;
    for (uint32_t i = 0; i < WAIT_WIDEN && tn__add_sat(least->bytes, more) < *last; i++) {
        tn__wait_point point;
        if (cli_interrupted()) return TN_OK;
        TN_TRY(wait_plan(job, least->bytes + more, least, &point, error));
        if (point.value <= alone->value) *last = point.bytes;
        more *= 2;
    }
    return TN_OK;
}

/* Computes the points of the curve. `alone` is the point of the plan within unlimited memory. */
static tn_status wait_points(wait_job *job, const tn__wait_point *alone, tn_error *error) {
    tn_plan_options bytes = job->options;
    uint32_t count = job->asked->count;
    uint64_t last, most = job->asked->options->capacity;
    tn_layout layout;
    bytes.objective = TN_OBJECTIVE_BYTES;
    TN_TRY(tn_plan(job->asked->input->problem, &bytes, &layout, error));
    tn__wait_point least = wait_point(job, &layout, layout.peak);
    tn_layout_release(&layout);
    TN_TRY(wait_last(job, &least, alone, &last, error));
    if (most > 0 && most < last) last = most > least.bytes ? most : least.bytes;
    for (uint32_t i = 0; i < count && !cli_interrupted(); i++) {
        uint64_t step = (last - least.bytes) / (count - 1);
        uint64_t capacity = i + 1 == count ? last : least.bytes + step * i;
        tn__wait_point *point = &job->points[job->count], *before = point - 1;
        if (job->count > 0 && capacity == before->capacity) continue;
        TN_TRY(wait_plan(job, capacity, job->count > 0 ? before : &least, point, error));
        if (alone->bytes <= capacity && wait_is_better(alone, point))
            point->value = alone->value, point->bytes = alone->bytes;
        job->count++;
    }
    /* a lower bound for a capacity is also valid for every smaller capacity */
    for (uint32_t i = job->count; i-- > 1;)
        if (job->points[i].bound > job->points[i - 1].bound)
            job->points[i - 1].bound = job->points[i].bound;
    return TN_OK;
}

static tn_status wait_print(const wait_job *job, tn_error *error) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_wait_curve_facts, job->asked->json);
    cli_add_word(&answer, "input", cli_shown_path(job->asked->input->path));
    cli_add_word(&answer, "objective", tn_objective_name(job->options.objective));
    cli_answer_open(&answer, "points");
    for (uint32_t i = 0; i < job->count; i++) {
        const tn__wait_point *point = &job->points[i];
        cli_answer_open(&answer, NULL);
        cli_add(&answer, "capacity", point->capacity);
        cli_add(&answer, "bytes", point->bytes);
        cli_add(&answer, "value", point->value);
        cli_add(&answer, "bound", point->bound);
        cli_answer_close(&answer);
    }
    cli_answer_close(&answer);
    if (job->count > 0)
        cli_add_brief(&answer, "%u points, %s from %" PRIu64 " to %" PRIu64, job->count,
                      tn_objective_name(job->options.objective), job->points[0].value,
                      job->points[job->count - 1].value);
    return cli_answer_end(&answer, error);
}

static tn_status wait_draw(const wait_job *job, tn_error *error) {
    static const char *const words[] = {
        [TN_OBJECTIVE_BYTES] = "",
        [TN_OBJECTIVE_PAIRS] = "reuse cost of the pairs that share bytes",
        [TN_OBJECTIVE_WAITS] = "waits that the plan adds to the order of the operators",
        [TN_OBJECTIVE_TIME] = "time of the program with the waits of the plan"};
    const tn__wait_curve curve = {.input = cli_shown_path(job->asked->input->path),
                                  .what = words[job->options.objective],
                                  .points = job->points,
                                  .count = job->count};
    for (uint32_t i = 0; i < job->asked->output_count && job->count > 0; i++) {
        TN_TRY(tn__wait_curve_write(&curve, job->asked->outputs[i], error));
        if (!job->asked->json && !cli_tone_asked().brief)
            printf("wrote %s\n", job->asked->outputs[i]);
    }
    return TN_OK;
}

/* Makes the plan within unlimited memory. If a problem states a capacity for its only bank, that
 * capacity is removed, because the curve chooses the capacities. */
static tn_status wait_first(cli_input *input, const tn_plan_options *options, tn_error *error) {
    if (cli_input_is_model(input)) return cli_input_plan(input, options, error);
    TN_TRY(cli_input_load(input, error));
    if (tn_problem_bank_count(input->own) == 1) {
        tn_bank bank = *tn_problem_bank(input->own, 0);
        bank.capacity = 0;
        TN_TRY(tn_problem_set_bank(input->own, 0, &bank, error));
    }
    TN_TRY(tn_plan(input->problem, options, &input->own_layout, error));
    input->layout = &input->own_layout;
    return TN_OK;
}

tn_status cli_wait_curve_run(const cli_wait_curve *asked, tn_error *error) {
    wait_job job = {.asked = asked, .options = *asked->options};
    uint32_t plans = asked->count + WAIT_WIDEN + 2;
    job.options.timeout_s /= plans;
    if (job.options.work_limit > 0)
        job.options.work_limit =
            job.options.work_limit > plans ? job.options.work_limit / plans : 1;
    /* large enough for every plan, even for one in which no bytes are shared */
    job.options.capacity = INT64_MAX;
    TN_TRY(wait_first(asked->input, &job.options, error));
    tn__wait_point alone = wait_point(&job, asked->input->layout, INT64_MAX);
    job.options.capacity = 0;
    job.points = calloc(asked->count, sizeof *job.points);
    if (job.points == NULL) return tn__no_memory(error, "the curve");
    tn_status status = wait_points(&job, &alone, error);
    cli_progress_end();
    if (status == TN_OK) status = wait_print(&job, error);
    if (status == TN_OK) status = wait_draw(&job, error);
    free(job.points);
    return status;
}
