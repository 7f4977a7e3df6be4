/* fit.c - from a model to the program that fits, and the curve: tn_fit_graph and tn_fit_graph_curve
 * combine the techniques. */
#include "cli/fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/combine.h"
#include "cli/whom.h"

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

/* --- data --- */

tn_status cli_fit_data_open(cli_fit_data *data, const cli_fit *fit, tn_error *error) {
    *data = (cli_fit_data){0};
    if (fit->train) data->trained = fit->model != NULL ? fit->model : fit->input.graph;
    return tn_contents_generate(fit->input.path, fit->input.graph, 1, fit->input.import.context,
                                &data->contents, error);
}

tn_status cli_fit_data_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                            uint64_t size, tn_error *error) {
    const cli_fit_data *data = self;
    const tn_graph *trained = data->trained;
    if (trained != NULL && id < tn_graph_tensor_count(trained))
        return tn_contents_read(data->contents, trained, id, bytes, size, error);
    if (trained == NULL || tn_graph_tensor(graph, id)->value != NULL)
        return tn_contents_read(data->contents, graph, id, bytes, size, error);
    memset(bytes, 0, (size_t)size);
    return TN_OK;
}

/* The training step, or the model. */
static const tn_graph *fit_graph(const cli_fit *fit) {
    return fit->train ? fit->step.graph : fit->input.graph;
}

tn_status cli_fit_open(cli_fit *fit, tn_error *error) {
    return fit->problem_path != NULL ? cli_fit_open_problem(fit, error)
                                     : fit_open_model(fit, error);
}

/* --- the answer --- */

/* Points of the curve, then the answer, if there is a budget. They are printed like any results;
 * the curve and the answer keep owning them. */
static void fit_take(cli_fit *fit, bool answered) {
    const tn_fit_answer *answer = &fit->answer;
    fit->sweep = fit->curve.count;
    for (uint32_t i = 0; i < fit->curve.count; i++) {
        fit->results[i] = fit->curve.points[i].result;
        fit->budgets[i] = fit->curve.points[i].budget;
    }
    fit->result_count = fit->sweep + answered;
    fit->chosen = answered ? fit->sweep : 0;
    if (answered) fit->budgets[fit->sweep] = fit->options.budget;
    if (answered) fit->results[fit->sweep] = answer->result;
    fit->setup = answer->setup != NULL ? answer->setup : answer->least;
    fit->costs = (tn_costs *)(uintptr_t)answer->costs;
    fit->options.fixed_bytes = answer->fixed_bytes;
    if (!cli_costs_given(&fit->from)) fit->measured = answer->costs_seconds;
}

/* Chooses a point of the curve instead of an answer. */
static void fit_take_point(cli_fit *fit, uint32_t i) {
    const tn_curve_point *point = &fit->curve.points[i];
    fit_take(fit, false);
    fit->chosen = i;
    fit->setup = (tn_setup *)(uintptr_t)point->setup;
    fit->costs = (tn_costs *)(uintptr_t)point->costs;
    fit->options.fixed_bytes = point->fixed_bytes;
}

static void fit_request(cli_fit *fit, cli_sources *sources, tn_fit_request *request) {
    request->storage_bytes_per_s = fit->storage;
    request->timed = cli_costs_given(&fit->from) || fit->save_costs != NULL ||
                     fit->output_count > 0 || fit->runs > 0;
    request->no_hints = fit->max_batch;
    *sources = (cli_sources){.from = &fit->from,
                             .threads = fit->choices.threads,
                             .codecs = fit->options.codecs,
                             .engine = TN_ENGINE_OPTIONS_INIT,
                             .zeros = &fit->zeros};
    sources->engine.context = fit->input.import.context;
    sources->engine.read = cli_fit_data_read;
    cli_ask_fit(sources, request);
}

/* If a limit ended the search for the answer, the curve has the best program so far. */
static tn_status fit_solve_curve(cli_fit *fit, const tn_fit_request *request, tn_error *error) {
    tn_status status =
        tn_fit_graph_curve(fit_graph(fit), request, fit->sweep, &fit->answer, &fit->curve, error);
    bool answered = fit->options.budget > 0 && status != TN_E_STOPPED;
    uint64_t budget = fit->options.budget;
    uint32_t best = 0;
    if (fit->curve.count == 0) return status;
    if (budget == 0) budget = fit->curve.points[0].budget;
    while (best < fit->curve.count && fit->curve.points[best].result.bytes <= budget) best++;
    if (answered || best == 0)
        fit_take(fit, answered);
    else
        fit_take_point(fit, best - 1);
    return best > 0 && status == TN_E_STOPPED ? TN_OK : status;
}

static tn_status fit_solve_budget(cli_fit *fit, const tn_fit_request *request, tn_error *error) {
    tn_status status = tn_fit_graph(fit_graph(fit), request, &fit->answer, error);
    if (fit->answer.result.program != NULL) fit_take(fit, true);
    return status;
}

/* Room for the points of a curve, those that only tiles meet, and the answer. */
static tn_status fit_room(cli_fit *fit, tn_error *error) {
    uint32_t count = 2 * fit->sweep + 1;
    fit->results = calloc(count, sizeof *fit->results);
    fit->budgets = calloc(count, sizeof *fit->budgets);
    if (fit->results == NULL || fit->budgets == NULL) return tn__no_memory(error, "the answer");
    fit->result_count = 1;
    fit->budgets[0] = fit->options.budget;
    return TN_OK;
}

static tn_status fit_solve_model(cli_fit *fit, const tn_fit_request *request, tn_error *error) {
    tn_status status = fit->sweep > 0 ? fit_solve_curve(fit, request, error)
                                      : fit_solve_budget(fit, request, error);
    if (status != TN_OK || fit->save_costs == NULL) return status;
    return tn_costs_write(fit->answer.whole_costs, fit->save_costs, error);
}

tn_status cli_fit_solve(cli_fit *fit, tn_error *error) {
    tn_fit_options search = fit->options;
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    cli_asked asked;
    cli_sources sources;
    cli_fit_data data = {0};
    TN_TRY(fit_room(fit, error));
    search.context = fit->input.import.context;
    search.segments = fit->segments;
    if (fit->problem_path != NULL) return cli_fit_solve_problem(fit, &search, error);
    TN_TRY(cli_fit_ask(fit, &asked, error));
    request.setup = &asked.setup;
    request.search = &search;
    fit_request(fit, &sources, &request);
    sources.engine.self = &data;
    bool counts_zeros = (search.allow & TN_FIT_COMPRESS) != 0 && !asked.setup.no_kernels;
    if (counts_zeros) TN_TRY(cli_fit_data_open(&data, fit, error));
    tn_status status = fit_solve_model(fit, &request, error);
    tn_contents_close(data.contents);
    return status;
}

void cli_fit_release(cli_fit *fit) {
    bool borrowed = fit->answer.own != NULL; /* results of the curve and the answer */
    for (uint32_t i = 0; i < fit->result_count && !borrowed; i++) tn_fit_release(&fit->results[i]);
    if (!borrowed) tn_costs_destroy(fit->costs);
    free(fit->results);
    free(fit->budgets);
    free(fit->zeros);
    cli_losses_release(&fit->losses);
    tn_trace_destroy(fit->happened);
    tn_program_destroy(fit->own);
    tn_graph_destroy(fit->nodes);
    tn_fit_curve_release(&fit->curve);
    tn_fit_answer_release(&fit->answer);
    tn_training_release(&fit->step);
    tn_graph_destroy(fit->model);
    cli_input_release_loaded(&fit->input);
}

void cli_fit_close(cli_fit *fit) {
    cli_fit_release(fit);
    cli_input_release(&fit->input);
}
