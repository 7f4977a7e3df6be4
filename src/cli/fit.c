/* fit.c - from a model or problem to the program that fits. tn_fit_graph answers one budget and
 * combines techniques; tn_fit computes curves and handles problems without a graph. */
#include "cli/fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/combine.h"
#include "cli/whom.h"

/* --- a problem --- */

/* Bytes of static tensors, which are not planned. */
static uint64_t fit_held_bytes(const tn_graph *graph) {
    uint64_t bytes = 0;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (tn_tensor_is_static(tensor)) bytes = tn__add_sat(bytes, tensor->bytes);
    }
    return bytes;
}

static tn_status fit_open_problem(cli_fit *fit, tn_error *error) {
    TN_TRY(tn_fit_problem_load(fit->problem_path, fit->input.import.context, &fit->nodes,
                               &fit->costs, error));
    TN_TRY(tn_program_create(fit->nodes, NULL, &fit->own, error));
    fit->program = fit->own;
    fit->memory = (tn_occupancy_options)TN_OCCUPANCY_OPTIONS_INIT;
    fit->memory.alignment = 1;
    fit->options.live = true;
    fit->options.fixed_bytes = fit_held_bytes(fit->nodes);
    return TN_OK;
}

/* --- a model --- */

static tn_status fit_load(cli_fit *fit, tn_error *error) {
    cli_input *input = &fit->input;
    input->import.batch = (int64_t)fit->batch;
    return tn_graph_load(input->path, &input->import, &input->graph, error);
}

cli_whom cli_fit_whom(const cli_fit *fit) {
    bool here = fit->from.device == NULL; /* with the costs of another device, no kernels */
    cli_whom whom = cli_choices_whom(&fit->choices, here ? CLI_RUNNER_ONEDNN : CLI_RUNNER_NONE);
    if (cli_given("kernels")) whom.runner = fit->kernels.runner;
    if (fit->kernels.threads > 0) whom.threads = fit->kernels.threads;
    return whom;
}

tn_status cli_fit_ask(cli_fit *fit, cli_asked *asked, tn_error *error) {
    const cli_whom whom = cli_fit_whom(fit);
    cli_ask(&fit->input, &whom, fit->train ? &fit->training : NULL, &fit->choices.plan, asked);
    fit->memory = asked->memory; /* also that of later searches */
    asked->setup.memory = &fit->memory;
    asked->setup.recompute = NULL;          /* the search decides about recomputation, */
    asked->setup.statics = TN_STATIC_APART; /* and counts static memory on its own */
    return cli_whom_check(&whom, error);
}

void cli_fit_take(cli_fit *fit, tn_setup *setup) {
    const tn_kernels *made = tn_setup_kernels(setup);
    fit->setup = setup;
    if (tn_setup_splits(setup) != NULL)
        fit->memory.fuse_concat = true; /* tiles are planned with
                                                                         * fused concatenations */
    fit->program = tn_setup_program(setup);
    if (made != NULL) {
        fit->memory.workspaces = tn_kernels_workspaces(made);
        fit->memory.workspaces_again = tn_kernels_workspaces_again(made);
    }
    fit->options.fixed_bytes = tn_setup_need(setup).statics;
}

static tn_status fit_set_up(cli_fit *fit, const tn_graph *graph, tn_error *error) {
    cli_asked asked;
    tn_setup *made;
    TN_TRY(cli_fit_ask(fit, &asked, error));
    TN_TRY(tn_setup_create(graph, &asked.setup, &made, error));
    cli_fit_take(fit, made);
    return TN_OK;
}

static tn_status fit_open_model(cli_fit *fit, tn_error *error) {
    cli_input *input = &fit->input;
    const cli_whom whom = cli_fit_whom(fit);
    TN_TRY(fit_load(fit, error));
    if (!fit->train) return TN_OK;
    TN_TRY(cli_training_model(&fit->training, &input->graph, error));
    TN_TRY(cli_training_make(&fit->training, input->graph, cli_whom_rewrites(&whom), &fit->model,
                             &fit->step, error));
    return TN_OK;
}

/* --- costs --- */

tn_status cli_fit_find_costs(cli_fit *fit, tn_error *error) {
    const tn_graph *graph = tn_program_graph(fit->program);
    const tn_context *context = fit->input.import.context;
    if (cli_costs_given(&fit->from))
        return cli_costs_make(&fit->from, graph, fit->choices.threads, context, &fit->costs, error);
    tn_measure_options measure = TN_MEASURE_OPTIONS_INIT;
    measure.context = context;
    measure.occupancy = tn_setup_occupancy(fit->setup);
    measure.setup = fit->setup;
    double start = cli_clock();
    tn_status status =
        tn_costs_measure(tn_setup_kernels(fit->setup), &measure, &fit->costs, NULL, error);
    fit->measured = cli_clock() - start;
    return status;
}

/* --- zeros --- */

typedef struct fit_contents {
    const cli_fit *fit;
    tn_contents *contents;
} fit_contents;

/* Reads data from the file and generates missing data; the state of an optimizer is 0. */
static tn_status fit_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                          uint64_t size, tn_error *error) {
    const fit_contents *it = self;
    const tn_graph *model = it->fit->model;
    if (model != NULL && id < tn_graph_tensor_count(model))
        return tn_contents_read(it->contents, model, id, bytes, size, error);
    if (model == NULL || tn_graph_tensor(graph, id)->value != NULL)
        return tn_contents_read(it->contents, graph, id, bytes, size, error);
    memset(bytes, 0, (size_t)size);
    return TN_OK;
}

/* Measures the fraction of zeros for the csr codec, with generated inputs. */
static tn_status fit_find_zeros(cli_fit *fit, const tn_setup *setup, tn_error *error) {
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    fit_contents contents = {.fit = fit};
    bool named = fit->options.codecs == 0 || (fit->options.codecs >> TN_CODEC_CSR & 1);
    if (!(fit->options.allow & TN_FIT_COMPRESS) || !named || tn_setup_kernels(setup) == NULL)
        return TN_OK;
    TN_TRY(tn_contents_generate(fit->input.path, fit->input.graph, 1, fit->input.import.context,
                                &contents.contents, error));
    engine.context = fit->input.import.context;
    engine.read = fit_read;
    engine.self = &contents;
    tn_status status = cli_zeros(setup, &engine, NULL, &fit->zeros, error);
    tn_contents_close(contents.contents);
    return status;
}

/* The training step, or the model. */
static const tn_graph *fit_graph(const cli_fit *fit) {
    return fit->train ? fit->step.graph : fit->input.graph;
}

/* A curve uses one setup, whose costs are measured once. */
static tn_status fit_open_curve(cli_fit *fit, tn_error *error) {
    TN_TRY(fit_set_up(fit, fit_graph(fit), error));
    TN_TRY(cli_fit_find_costs(fit, error));
    TN_TRY(fit_find_zeros(fit, fit->setup, error));
    if (fit->save_costs == NULL) return TN_OK;
    return tn_costs_write(fit->costs, fit->save_costs, error);
}

tn_status cli_fit_open(cli_fit *fit, tn_error *error) {
    TN_TRY(fit->problem_path != NULL ? fit_open_problem(fit, error) : fit_open_model(fit, error));
    return fit->problem_path == NULL && fit->sweep > 0 ? fit_open_curve(fit, error) : TN_OK;
}

/* --- the answer --- */

/* The fastest point of the curve within the budget, or result_count. */
static uint32_t fit_point(const cli_fit *fit, uint64_t budget) {
    uint32_t best = fit->result_count;
    for (uint32_t i = 0; i < fit->sweep; i++)
        if (fit->results[i].bytes <= budget &&
            (best == fit->result_count || fit->results[i].time < fit->results[best].time))
            best = i;
    return best;
}

/* Computes the curve, if requested, then the answer for the budget, if there is one. After an
 * interruption in between, the answer comes from the curve. */
static tn_status fit_search(cli_fit *fit, const tn_fit_options *options, tn_error *error) {
    if (fit->sweep > 0)
        TN_TRY(tn_fit_sweep(fit->program, fit->costs, options, fit->sweep, fit->budgets,
                            fit->results, error));
    if (fit->sweep > 0 && options->budget == 0) return TN_OK;
    fit->chosen = fit->sweep;
    fit->budgets[fit->chosen] = options->budget;
    tn_status status = tn_fit(fit->program, fit->costs, options, &fit->results[fit->chosen], error);
    if (status != TN_E_STOPPED || fit->sweep == 0) return status;
    tn_fit_release(&fit->results[fit->chosen]);
    fit->result_count = fit->sweep;
    uint32_t point = fit_point(fit, options->budget);
    fit->chosen = point < fit->sweep ? point : 0;
    return point < fit->sweep ? TN_OK : status;
}

/* The callback `costs` of tn_fit_request. */
static tn_status fit_costs(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error) {
    const cli_fit *fit = self;
    if (fit->from.path != NULL && tn_setup_splits(setup) != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "%s: these costs are for operators without tiles; measure them again, or remove "
                "split from --allow",
                fit->from.path);
    return cli_costs_make(&fit->from, tn_setup_graph(setup), fit->choices.threads,
                          fit->input.import.context, costs, error);
}

static tn_status fit_zeros(void *self, const tn_setup *setup, const float **zeros,
                           tn_error *error) {
    cli_fit *fit = self;
    TN_TRY(fit_find_zeros(fit, setup, error));
    *zeros = fit->zeros;
    return TN_OK;
}

/* The result of an answer is printed like any other; the answer keeps owning it. */
static void fit_take_answer(cli_fit *fit) {
    const tn_fit_answer *answer = &fit->answer;
    if (answer->result.program == NULL) return;
    fit->results[0] = answer->result;
    fit->setup = answer->setup != NULL ? answer->setup : answer->least;
    fit->costs = (tn_costs *)(uintptr_t)answer->costs;
    fit->options.fixed_bytes = answer->fixed_bytes;
    if (!cli_costs_given(&fit->from)) fit->measured = answer->costs_seconds;
}

static tn_status fit_one(cli_fit *fit, const tn_fit_options *search, tn_error *error) {
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    cli_asked asked;
    TN_TRY(cli_fit_ask(fit, &asked, error));
    request.setup = &asked.setup;
    request.search = search;
    request.storage_bytes_per_s = fit->storage;
    request.timed = cli_costs_given(&fit->from) || fit->save_costs != NULL ||
                    fit->output_count > 0 || fit->runs > 0;
    request.no_hints = fit->max_batch;
    request.costs = cli_costs_given(&fit->from) ? fit_costs : NULL;
    request.zeros = fit_zeros;
    request.self = fit;
    tn_status status = tn_fit_graph(fit_graph(fit), &request, &fit->answer, error);
    fit_take_answer(fit);
    if (status != TN_OK || fit->save_costs == NULL) return status;
    return tn_costs_write(fit->answer.whole_costs, fit->save_costs, error);
}

tn_status cli_fit_solve(cli_fit *fit, tn_error *error) {
    tn_fit_options options = fit->options;
    uint32_t count = fit->sweep + (fit->sweep == 0 || options.budget > 0);
    options.context = fit->input.import.context;
    options.segments = fit->segments;
    fit->results = calloc(count, sizeof *fit->results);
    fit->budgets = calloc(count, sizeof *fit->budgets);
    if (fit->results == NULL || fit->budgets == NULL) return tn__no_memory(error, "the answer");
    fit->result_count = count;
    fit->budgets[0] = options.budget;
    if (fit->problem_path == NULL && fit->sweep == 0) return fit_one(fit, &options, error);
    bool parts = (options.allow & TN_FIT_SPLIT) != 0 && fit->problem_path == NULL && !fit->train;
    options.memory = &fit->memory;
    options.plan = &fit->choices.plan;
    options.zeros = fit->zeros;
    if (options.timeout_s > 0) fit->deadline = cli_clock() + options.timeout_s;
    tn_status status = fit_search(fit, &options, error);
    return parts ? cli_fit_curve(fit, &options, status, error) : status;
}

void cli_fit_release(cli_fit *fit) {
    if (fit->answer.own != NULL) { /* owned by the answer */
        fit->setup = NULL;
        fit->costs = NULL;
        fit->result_count = 0;
    }
    for (uint32_t i = 0; i < fit->result_count; i++) tn_fit_release(&fit->results[i]);
    free(fit->results);
    free(fit->budgets);
    free(fit->zeros);
    tn_trace_destroy(fit->happened);
    tn_costs_destroy(fit->costs);
    tn_program_destroy(fit->own);
    tn_graph_destroy(fit->nodes);
    tn_setup_destroy(fit->setup);
    tn_fit_answer_release(&fit->answer);
    for (uint32_t i = 0; i < fit->part_count; i++) tn_setup_destroy(fit->parts[i]);
    free(fit->parts);
    tn_training_release(&fit->step);
    tn_graph_destroy(fit->model);
    cli_input_release_loaded(&fit->input);
}

void cli_fit_close(cli_fit *fit) {
    cli_fit_release(fit);
    cli_input_release(&fit->input);
}
