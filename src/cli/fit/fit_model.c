/* fit_model.c - fits a model into a budget, from its file to the resulting program. It also
 * computes the curve of memory against time, finds the largest batch, and runs the result. The
 * functions tn_fit_graph and tn_fit_graph_curve of the library combine the techniques. */
#include "base/base.h"
#include "cli/command_line/combine.h"
#include "cli/fit/fit.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"

#include <stdlib.h>
#include <string.h>

/* --- loading and compiling the model --- */

static tn_status fit_load(cli_fit *fit, tn_error *error) {
    cli_input *input = &fit->input;
    input->import.batch = (int64_t)fit->batch;
    return tn_graph_load(input->path, &input->import, &input->graph, error);
}

cli_kernel_target cli_fit_target(const cli_fit *fit) {
    /* kernels of this machine are not used with the costs of another device */
    bool here = fit->from.device == NULL;
#ifdef TENURE_NO_EXECUTION
    here = false; /* a build for a web page has no kernels */
#endif
    cli_kernel_target target =
        cli_choices_target(&fit->choices, here ? CLI_RUNNER_ONEDNN : CLI_RUNNER_NONE);
    if (cli_given("kernels")) target.runner = fit->kernels.runner;
    if (fit->kernels.threads > 0) target.threads = fit->kernels.threads;
    return target;
}

/* Sets the options from which the library compiles the model. */
static tn_status fit_compile_options(cli_fit *fit, cli_compile_options *asked, tn_error *error) {
    const cli_kernel_target target = cli_fit_target(fit);
    cli_compile_options_set(&fit->input, &target, fit->train ? &fit->training : NULL,
                            &fit->choices.plan, asked);
    /* a copy of the memory options is kept, because cli_fit_run uses them, too */
    fit->memory = asked->memory;
    asked->setup.memory = &fit->memory;
    asked->setup.recompute = NULL;          /* the search decides which operators are recomputed */
    asked->setup.statics = TN_STATIC_APART; /* the search counts static tensors outside the arena */
    return cli_kernel_target_check(&target, error);
}

static tn_status fit_open_model(cli_fit *fit, tn_error *error) {
    cli_input *input = &fit->input;
    const cli_kernel_target target = cli_fit_target(fit);
    TN_TRY(fit_load(fit, error));
    if (!fit->train) return TN_OK;
    TN_TRY(cli_training_model(&fit->training, &input->graph, error));
    TN_TRY(cli_training_make(&fit->training, input->graph, cli_kernel_target_rewrites(&target),
                             &fit->model, &fit->step, error));
    return TN_OK;
}

/* --- the data of the model's tensors --- */

/* The contents of tensors for runs. Tensors come from the file, missing ones are generated, and the
 * state of an optimizer is 0. fit_data_read is the callback `read` of tn_engine_options. */
typedef struct fit_data {
    /* the trained graph, which has the first tensors of the training step; NULL: no training */
    const tn_graph *trained;
    tn_contents *contents;
} fit_data;

static tn_status fit_data_open(fit_data *data, const cli_fit *fit, tn_error *error) {
    *data = (fit_data){0};
    if (fit->train) data->trained = fit->model != NULL ? fit->model : fit->input.graph;
    return tn_contents_generate(fit->input.path, fit->input.graph, 1, fit->input.import.context,
                                &data->contents, error);
}

static tn_status fit_data_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                               uint64_t size, tn_error *error) {
    const fit_data *data = self;
    const tn_graph *trained = data->trained;
    if (trained != NULL && id < tn_graph_tensor_count(trained))
        return tn_contents_read(data->contents, trained, id, bytes, size, error);
    if (trained == NULL || tn_graph_tensor(graph, id)->value != NULL)
        return tn_contents_read(data->contents, graph, id, bytes, size, error);
    memset(bytes, 0, (size_t)size);
    return TN_OK;
}

/* Returns the graph to fit: the training step, or the model. */
static const tn_graph *fit_graph(const cli_fit *fit) {
    return fit->train ? fit->step.graph : fit->input.graph;
}

tn_status cli_fit_open(cli_fit *fit, tn_error *error) {
    return fit->problem_path != NULL ? cli_fit_open_problem(fit, error)
                                     : fit_open_model(fit, error);
}

/* --- computing the answer, or the curve --- */

/* Fills fit->results with the points of the curve and, if `answered`, the answer for the budget.
 * The curve and the answer keep owning the results. */
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
    if (!cli_costs_given(&fit->from) && cli_fit_target(fit).runner != CLI_RUNNER_NONE)
        fit->measured = answer->costs_seconds;
}

/* Makes point i of the curve the chosen result, if there is no answer for a budget: none was given,
 * or a limit ended the search. */
static void fit_take_point(cli_fit *fit, uint32_t i) {
    const tn_curve_point *point = &fit->curve.points[i];
    fit_take(fit, false);
    fit->chosen = i;
    fit->setup = (tn_setup *)(uintptr_t)point->setup;
    fit->costs = (tn_costs *)(uintptr_t)point->costs;
    fit->options.fixed_bytes = point->fixed_bytes;
}

static void fit_request(cli_fit *fit, cli_fit_sources *sources, tn_fit_request *request) {
    request->storage_bytes_per_s = fit->storage;
    request->timed = cli_costs_given(&fit->from) || fit->save_costs != NULL ||
                     fit->output_count > 0 || fit->runs > 0;
    request->no_hints = fit->max_batch;
    *sources = (cli_fit_sources){.from = &fit->from,
                                 .threads = fit->choices.threads,
                                 .codecs = fit->options.codecs,
                                 .engine = TN_ENGINE_OPTIONS_INIT,
                                 .zeros = &fit->zeros};
    sources->engine.context = fit->input.import.context;
    sources->engine.read = fit_data_read;
    cli_fit_request_set(sources, request);
}

/* Computes the curve, and then the answer if there is a budget. If a limit ended the search for the
 * answer, the best point of the curve within the budget is chosen instead. */
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

/* Allocates the results: up to twice the number of requested points, because some points are met
 * only with tiles, and the answer. */
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
    cli_compile_options asked;
    cli_fit_sources sources;
    fit_data data = {0};
    TN_TRY(fit_room(fit, error));
    search.context = fit->input.import.context;
    search.segments = fit->segments;
    if (fit->problem_path != NULL) return cli_fit_solve_problem(fit, &search, error);
    TN_TRY(fit_compile_options(fit, &asked, error));
    request.setup = &asked.setup;
    request.search = &search;
    fit_request(fit, &sources, &request);
    sources.engine.self = &data;
    bool counts_zeros = (search.allow & TN_FIT_COMPRESS) != 0 && !asked.setup.no_kernels;
    if (counts_zeros) TN_TRY(fit_data_open(&data, fit, error));
    tn_status status = fit_solve_model(fit, &request, error);
    tn_contents_close(data.contents);
    return status;
}

/* Releases the results, but not the options. */
static void fit_release(cli_fit *fit) {
    /* results and costs belong to the answer, which releases them */
    bool borrowed = fit->answer.own != NULL;
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
    fit_release(fit);
    cli_input_release(&fit->input);
}

/* --- the largest batch that fits --- */

/* The largest batch is found by doubling, then bisection. To be quick, the search accepts any
 * program that fits a batch. Such a program can be smaller than the smallest one that `tn_fit`
 * finds, so `tn_fit` may have no answer for the batch that was found. A second search then tries
 * smaller batches and requires a full answer for each. */

#define BATCH_MOST (UINT64_C(1) << 32)
/* bisection stops when the interval is the batch divided by this number */
#define BATCH_GRAIN 256u

typedef struct batch_search {
    const cli_fit *fit; /* options of the command line; its results are not used */
    cli_fit best;   /* the largest batch found so far that fits, with its answer; zero if none */
    bool plainly;   /* true: try only programs without recomputation and other changes */
    bool carefully; /* true: require the answer of a full search, not any program that fits */
} batch_search;

static bool batch_is_none(tn_status status) {
    return status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
}

/* Tries a batch size. Sets *fits to whether a program fits, and then stores the batch and its
 * answer in s->best. */
static tn_status batch_try(batch_search *s, uint64_t batch, bool *fits, tn_error *error) {
    cli_fit trial = *s->fit;
    trial.batch = batch;
    trial.options.any = !s->carefully;
    if (s->plainly) trial.options.pass = "none";
    tn_status status = cli_fit_open(&trial, error);
    if (status == TN_OK) status = cli_fit_solve(&trial, error);
    bool none = batch_is_none(status);
    none |= status == TN_E_STOPPED && cli_interrupted();
    *fits = status == TN_OK;
    if (*fits) {
        fit_release(&s->best);
        s->best = trial;
    } else {
        fit_release(&trial);
    }
    return none ? TN_OK : status;
}

/* Bisects between a batch size that fits, or 0, and one that does not fit. An interruption ends the
 * search. */
static tn_status batch_halve(batch_search *s, uint64_t fits, uint64_t fails, uint64_t *largest,
                             tn_error *error) {
    while (fails - fits > 1 + fits / BATCH_GRAIN && !cli_interrupted()) {
        uint64_t middle = fits + (fails - fits) / 2;
        bool fine;
        TN_TRY(batch_try(s, middle, &fine, error));
        *(fine ? &fits : &fails) = middle;
    }
    *largest = fits;
    return TN_OK;
}

/* Finds the largest batch that fits, by doubling and then bisection. `known` is a batch that fits,
 * or 0. After an interruption the result is the largest batch found so far. */
static tn_status batch_largest(batch_search *s, uint64_t known, uint64_t *largest,
                               tn_error *error) {
    uint64_t fits = known, fails = known > 0 ? 2 * known : 1;
    bool fine = !cli_interrupted();
    while (fine) {
        TN_TRY(batch_try(s, fails, &fine, error));
        if (!fine) break;
        fits = fails;
        fails *= 2;
        if (fails > BATCH_MOST)
            TN_FAIL(error, TN_E_INVALID,
                    "a batch of 2^32 fits, so memory does not depend on the batch; check that the "
                    "first input has a batch dimension");
    }
    return batch_halve(s, fits, fails, largest, error);
}

/* Searches below *largest, a batch for which tn_fit has no answer. The first steps are small,
 * because the result is usually near. */
static tn_status batch_below(batch_search *s, uint64_t known, uint64_t *largest, tn_error *error) {
    uint64_t fails = *largest, step = 1 + fails / BATCH_GRAIN;
    s->carefully = true;
    while (fails - known > step && !cli_interrupted()) {
        bool fine;
        TN_TRY(batch_try(s, fails - step, &fine, error));
        if (fine) return batch_halve(s, fails - step, fails, largest, error);
        fails -= step;
        step *= 2;
    }
    return batch_halve(s, known, fails, largest, error);
}

/* --- the largest batch that fits: the answer --- */

static tn_status batch_take(cli_fit *fit, batch_search *s, tn_error *error) {
    const tn_fit_options options = fit->options;
    if (s->best.result_count == 0)
        TN_FAIL(error, TN_E_STOPPED, "stopped before a batch that fits was found; allow more time");
    *fit = s->best;
    fit->options.any = options.any;
    fit->options.pass = options.pass;
    s->best = (cli_fit){0};
    return TN_OK;
}

static tn_status batch_solve(cli_fit *fit, uint64_t batch, tn_error *error) {
    fit->batch = batch;
    TN_TRY(cli_fit_open(fit, error));
    return cli_fit_solve(fit, error);
}

/* Computes the answer for the largest batch, by the search that a command with that batch would
 * make. After an interruption it takes the largest batch found so far, with its answer. */
static tn_status batch_answer(cli_fit *fit, batch_search *s, uint64_t plain, uint64_t *fitted,
                              tn_error *error) {
    bool searched = false;
    if (!cli_interrupted() && *fitted > 0) {
        tn_status status = batch_solve(fit, *fitted, error);
        if (!batch_is_none(status) || cli_interrupted()) return status;
        fit_release(fit);
        *fit = *s->fit;
        searched = true;
        TN_TRY(batch_below(s, plain, fitted, error));
    }
    if (cli_interrupted()) {
        TN_TRY(batch_take(fit, s, error));
        *fitted = fit->batch;
        cli_note("the search was stopped; larger batches may fit");
        return TN_OK;
    }
    if (*fitted == 0) return TN_OK;
    return searched && *fitted > plain ? batch_take(fit, s, error)
                                       : batch_solve(fit, *fitted, error);
}

tn_status cli_fit_batches(cli_fit *fit, uint64_t *plain, uint64_t *fitted, tn_error *error) {
    const cli_fit asked = *fit;
    batch_search search = {.fit = &asked, .plainly = true};
    tn_status status = batch_largest(&search, 0, plain, error);
    search.plainly = false;
    if (status == TN_OK) status = batch_largest(&search, *plain, fitted, error);
    if (status == TN_OK) status = batch_answer(fit, &search, *plain, fitted, error);
    fit_release(&search.best);
    return status;
}

/* --- runs of the result, compared with the prediction --- */

/* Runs of the resulting program. Inputs, and tensors that are missing in the file, are generated.
 * All runs but the last warm up memory and kernels, and only the last run is reported. Copies to
 * the host are slowed down to the speed of --link. */

typedef struct run_state {
    cli_fit *fit;
    fit_data data;
    tn_setup *setup;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
} run_state;

/* Allocates an array for a tensor. With `numbers` true a float32 array is filled with numbers
 * between -1 and 1. All other arrays, such as indices, labels and the learning rate, are 0. */
static bool run_array(tn_array *array, const tn_tensor *tensor, bool numbers) {
    tn__random random = {1};
    *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *array->shape);
    array->data = calloc(1, (size_t)tensor->bytes + 1);
    float *at = array->data;
    bool fills = at != NULL && numbers && tensor->dtype == TN_FLOAT32;
    for (uint64_t k = 0; fills && k < tensor->bytes / sizeof *at; k++)
        at[k] = (float)(tn__random_next(&random) >> 40) * 0x1p-23f - 1;
    return array->data != NULL;
}

static tn_status run_arrays(run_state *run, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(run->setup);
    const tn_block *block = tn_graph_block(graph, 0);
    bool all = true;
    run->inputs = calloc((size_t)block->input_count + 1, sizeof *run->inputs);
    run->outputs = calloc((size_t)block->output_count + 1, sizeof *run->outputs);
    if (run->inputs == NULL || run->outputs == NULL) return tn__no_memory(error, "a run");
    for (uint32_t i = 0; i < block->input_count && all; i++) {
        tn_tensor_id id = block->inputs[i];
        bool rate = run->fit->train && id == run->fit->step.learning_rate;
        if (!tn_tensor_is_static(tn_graph_tensor(graph, id)))
            all = run_array(&run->inputs[run->input_count++], tn_graph_tensor(graph, id), !rate);
    }
    for (uint32_t i = 0; i < block->output_count && all; i++)
        all = run_array(&run->outputs[run->output_count++],
                        tn_graph_tensor(graph, block->outputs[i]), false);
    return all ? TN_OK : tn__no_memory(error, "a run");
}

static tn_status run_open(run_state *run, tn_error *error) {
    cli_fit *fit = run->fit;
    const tn_program *program = fit->results[fit->chosen].program;
    tn_plan_options plan = fit->choices.plan;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_occupancy_options memory = fit->memory;
    /* workspaces are not given, so the kernels determine them */
    memory.workspaces = memory.workspaces_again = NULL;
    options.given_program = program;
    options.memory = &memory;
    /* the search may end at a plan that is as small as the predicted one */
    plan.enough = fit->results[fit->chosen].layout.peak;
    options.plan = &plan;
    options.context = fit->input.import.context;
    /* speed of copies; without --link it is 0, and copies are not slowed down */
    device.link_bytes_per_s = fit->link;
    engine.read = fit_data_read;
    engine.self = &run->data;
    TN_TRY(tn_trace_create(options.context, 64 * (uint64_t)tn_program_count(program) + 64,
                           &fit->happened, error));
    engine.trace = fit->happened;
    if (fit->results[fit->chosen].host != NULL)
        engine.host_layout = &fit->results[fit->chosen].host_layout;
    engine.swap_device = fit->swap_device;
    engine.swap_bytes_per_s = fit->link;
    engine.error_limit = fit->max_error;
    TN_TRY(fit_data_open(&run->data, fit, error));
    TN_TRY(tn_setup_from(fit->setup, TN_SETUP_ORDER, &options, &run->setup, error));
    TN_TRY(tn_setup_open(run->setup, &device, &engine, &run->engine, error));
    return run_arrays(run, error);
}

static void run_close(run_state *run) {
    for (uint32_t i = 0; i < run->input_count; i++) free(run->inputs[i].data);
    for (uint32_t i = 0; i < run->output_count; i++) free(run->outputs[i].data);
    free(run->inputs);
    free(run->outputs);
    tn_engine_destroy(run->engine);
    tn_setup_destroy(run->setup);
    tn_contents_close(run->data.contents);
}

tn_status cli_fit_run(cli_fit *fit, tn_error *error) {
    run_state run = {.fit = fit};
    tn_status status = run_open(&run, error);
    for (uint64_t i = 0; i < fit->runs && status == TN_OK; i++) {
        tn_trace_clear(fit->happened);
        status = tn_engine_run(run.engine, run.inputs, run.input_count, run.outputs,
                               run.output_count, error);
    }
    if (status == TN_OK) tn_engine_measure(run.engine, &fit->usage);
    if (status == TN_OK) cli_losses_read(&fit->losses, run.engine);
    run_close(&run);
    return status;
}
