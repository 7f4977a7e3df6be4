/* wait_curve.c - the curve of bytes against waits, time or reuse cost: plans within rising
 * capacities, from the smallest plan to the first one whose objective cannot be improved by more
 * memory.
 *
 * A plan is valid within every larger capacity, so each point is at most the one before it.
 */
#include "cli/wait_curve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/svg/svg.h"

#define WAIT_WIDEN 12u /* plans that look for the last capacity, at most */

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

/* Whether `a` is better: a lower value, then fewer bytes. */
static bool wait_is_better(const tn__wait_point *a, const tn__wait_point *b) {
    return a->value != b->value ? a->value < b->value : a->bytes < b->bytes;
}

/* A plan within the capacity; within short limits there may be none that is better than `known`,
 * which is within it. */
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

/* The last capacity: the first one that is tried whose value is that of unlimited memory. */
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

/* alone: the plan within unlimited memory. */
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
    for (uint32_t i = job->count; i-- > 1;) /* less memory lowers no bound */
        if (job->points[i].bound > job->points[i - 1].bound)
            job->points[i - 1].bound = job->points[i].bound;
    return TN_OK;
}

static tn_status wait_tell(const wait_job *job, tn_error *error) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_wait_curve_facts, job->asked->json);
    cli_tell_word(&answer, "input", cli_shown_path(job->asked->input->path));
    cli_tell_word(&answer, "objective", tn_objective_name(job->options.objective));
    cli_answer_open(&answer, "points");
    for (uint32_t i = 0; i < job->count; i++) {
        const tn__wait_point *point = &job->points[i];
        cli_answer_open(&answer, NULL);
        cli_tell(&answer, "capacity", point->capacity);
        cli_tell(&answer, "bytes", point->bytes);
        cli_tell(&answer, "value", point->value);
        cli_tell(&answer, "bound", point->bound);
        cli_answer_close(&answer);
    }
    cli_answer_close(&answer);
    if (job->count > 0)
        cli_tell_brief(&answer, "%u points, %s from %" PRIu64 " to %" PRIu64, job->count,
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

/* Plans within unlimited memory. The curve replaces the capacity that a problem states for its only
 * bank. */
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
    job.options.capacity = INT64_MAX; /* the plan that shares nothing is within it */
    TN_TRY(wait_first(asked->input, &job.options, error));
    tn__wait_point alone = wait_point(&job, asked->input->layout, INT64_MAX);
    job.options.capacity = 0;
    job.points = calloc(asked->count, sizeof *job.points);
    if (job.points == NULL) return tn__no_memory(error, "the curve");
    tn_status status = wait_points(&job, &alone, error);
    cli_progress_end();
    if (status == TN_OK) status = wait_tell(&job, error);
    if (status == TN_OK) status = wait_draw(&job, error);
    free(job.points);
    return status;
}
