/* trial.c - makes one estimate of a model, and finds the largest batch that fits.
 *
 * Each trial performs all stages: load, training step, kernels, order, plan or pool. A change that
 * is proposed to the user is therefore always given with its computed bytes.
 */
#include "base/base.h"
#include "cli/estimate/estimate.h"
#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/plan_file.h"
#include "graph/infer/infer.h"

#include <stdio.h>
#include <string.h>

#define ESTIMATE_BATCH_MOST (UINT64_C(1) << 40)
/* Time limit in seconds of the search for one change. It is longer than most searches, so that the
 * result seldom depends on the speed of the machine. */
#define ESTIMATE_FIT_S 60.0

typedef struct estimate_made { /* the objects of one trial, which are released after it */
    cli_input input;
    tn_training training;
    tn_pytorch pytorch;
    tn_graph *rewritten;
    const tn_graph *graph; /* the graph that is compiled */
    tn_fit_answer answer;  /* the answer for the budget request->fit; zero without a budget */
    /* the compiled model, owned by `answer` if there is a budget; NULL: `input` has it */
    tn_setup *setup;
} estimate_made;

static void estimate_release(estimate_made *made) {
    if (made->answer.own == NULL) tn_setup_destroy(made->setup);
    tn_fit_answer_release(&made->answer);
    tn_graph_destroy(made->rewritten);
    if (made->training.graph != NULL) tn_training_release(&made->training);
    tn_pytorch_release(&made->pytorch);
    cli_input_release_loaded(&made->input);
}

/* --- making one estimate --- */

static tn_status estimate_load(const cli_estimate_request *request, estimate_made *made,
                               tn_error *error) {
    cli_input *input = &made->input;
    *input = request->input;
    input->graph = NULL;
    input->setup = NULL;
    input->workspaces = NULL;
    input->training = NULL; /* the training is owned by the request, not by this trial */
    input->rewritten = NULL;
    input->step = (tn_training){0};
    input->stage_count = 0;
    if (request->batch > 0 && !cli_input_takes_batch(input->path))
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "--batch and --max-batch need an .onnx or .pt2 model; use --input-shape for other "
                "formats");
    input->import.batch = (int64_t)request->batch;
    return TN_OK;
}

/* Makes the graph that PyTorch runs: merges operators back into the PyTorch modules from which the
 * exporter made them. */
static tn_status estimate_pytorch(const cli_estimate_request *request, estimate_made *made,
                                  tn_error *error) {
    static const uint32_t states[] = {0, 1, 2, 2, 0}, scratch[] = {0, 0, 2, 2, 0};
    tn_pytorch_options options = TN_PYTORCH_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    char without[600] = "";
    for (uint32_t i = 0; i < tn_rewrite_count(); i++) {
        const char *name = tn_rewrite_name(i);
        size_t used = strlen(without);
        if (strcmp(name, "layer") == 0 || strcmp(name, "gelu") == 0) continue;
        snprintf(without + used, sizeof without - used, "%s%s", used > 0 ? "," : "", name);
    }
    rewrite.without = without;
    rewrite.no_formats = true;
    options.state_count = states[request->training.options.optimizer];
    options.scratch_count = scratch[request->training.options.optimizer];
    TN_TRY(tn_graph_rewrite(made->graph, &rewrite, &made->rewritten, error));
    TN_TRY(tn_pytorch_make(made->rewritten, &options, &made->pytorch, error));
    made->graph = made->pytorch.graph;
    return TN_OK;
}

static cli_kernel_target estimate_target(const cli_estimate_request *request) {
    cli_kernel_target target = cli_choices_target(&request->choices, request->runner);
    target.staged = request->train && request->ranks.grid.pipeline > 1;
    return target;
}

/* Returns the rates for the costs of operators: those of the requested device, else typical default
 * rates. */
static tn_costs_model estimate_rates(const cli_estimate_request *request) {
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    const tn_hardware *device = request->device;
    bool known = device != NULL && device->fp32 > 0 && device->bytes_per_s > 0;
    if (known) model.flops_per_s = device->fp32, model.bytes_per_s = device->bytes_per_s;
    return model;
}

/* The callback `costs` of tn_fit_request: computes the costs by the rates of a device. */
static tn_status estimate_costs(void *self, const tn_setup *setup, tn_costs **costs,
                                tn_error *error) {
    const cli_estimate_request *request = self;
    const tn_costs_model model = estimate_rates(request);
    return tn_costs_create_model(tn_setup_graph(setup), &model, costs, error);
}

/* Searches a program within the budget request->fit. The costs of operators are computed, not
 * measured. For several ranks no callback is given, and the library chooses the costs. */
static tn_status estimate_fit(const cli_estimate_request *request, const tn_setup_options *options,
                              estimate_made *made, tn_error *error) {
    tn_fit_request fitting = TN_FIT_REQUEST_INIT;
    tn_fit_options search = TN_FIT_OPTIONS_INIT;
    search.context = options->context;
    search.budget = request->fit;
    search.allow = request->allow;
    search.to_host_bytes_per_s = search.from_host_bytes_per_s = request->link;
    search.timeout_s = request->tries ? ESTIMATE_FIT_S : 0;
    search.work_limit = request->limits != NULL ? request->choices.plan.work_limit : 0;
    fitting.setup = options;
    fitting.search = &search;
    fitting.costs = options->divide == NULL ? estimate_costs : NULL;
    fitting.no_hints = request->tries;
    fitting.self = (void *)(uintptr_t)request;
    tn_status status = tn_fit_graph(made->graph, &fitting, &made->answer, error);
    made->setup = made->answer.setup;
    return status;
}

static tn_status estimate_set_up(const cli_estimate_request *request, estimate_made *made,
                                 tn_error *error) {
    cli_compile_options asked;
    const cli_kernel_target target = estimate_target(request);
    cli_ranks ranks = request->ranks;
    ranks.step = &made->training;
    ranks.rules = &made->input.rules;
    const tn_divide divide = {cli_ranks_divide, &ranks, .arranges = ranks.grid.pipeline > 1};
    TN_TRY(cli_kernel_target_check(&target, error));
    cli_compile_options_set(&made->input, &target, request->train ? &request->training : NULL,
                            &request->choices.plan, &asked);
    if (request->train && tn_grid_ranks(&ranks.grid) > 1) asked.setup.divide = &divide;
    if (request->pytorch) {
        asked.memory.workspaces = made->pytorch.workspaces;
        asked.memory.inplace = TN_INPLACE_NONE;
        asked.setup.recompute = NULL;
    }
    if (request->fit > 0) return estimate_fit(request, &asked.setup, made, error);
    return tn_setup_create(made->graph, &asked.setup, &made->setup, error);
}

static tn_status estimate_program(const cli_estimate_request *request, estimate_made *made,
                                  tn_error *error) {
    cli_input *input = &made->input;
    if (tn__has_suffix(input->path, ".tflite") && !request->train &&
        request->runner == CLI_RUNNER_NONE)
        return cli_input_plan(input, &request->choices.plan, error);
    const cli_kernel_target target = estimate_target(request);
    TN_TRY(tn_graph_load(input->path, &input->import, &input->graph, error));
    made->graph = input->graph;
    if (request->pytorch) {
        TN_TRY(estimate_pytorch(request, made, error));
    } else if (request->train) {
        cli_training training = request->training;
        TN_TRY(cli_ranks_step(&request->ranks, &training.options, error));
        TN_TRY(cli_training_model(&training, &input->graph, error));
        TN_TRY(cli_training_make(&training, input->graph, cli_kernel_target_rewrites(&target),
                                 &made->rewritten, &made->training, error));
        made->graph = made->training.graph;
    }
    return estimate_set_up(request, made, error);
}

/* Adds the group of a parameter, such as "layer1." for "layer1.0.conv.weight", if it is not listed
 * yet. layer_count may become CLI_LAYERS_MAX + 1, which means that not all groups are listed. */
static void estimate_layer(cli_estimate_result *found, const char *name) {
    const char *dot = strchr(name, '.');
    size_t size = dot != NULL ? (size_t)(dot - name) + 1 : 0;
    if (size == 0 || size >= sizeof found->layers[0] || found->layer_count > CLI_LAYERS_MAX) return;
    if (strcspn(name, "*?'") < size) return;
    uint32_t count = found->layer_count;
    for (uint32_t i = 0; i < count && i < CLI_LAYERS_MAX; i++)
        if (strncmp(found->layers[i], name, size) == 0 && found->layers[i][size] == '\0') return;
    if (count < CLI_LAYERS_MAX) snprintf(found->layers[count], (size_t)size + 1, "%s", name);
    found->layer_count++;
}

/* Returns the batch size of the graph's first input, or 0 if it has no batch dimension. */
static uint64_t estimate_batch(const tn_graph *graph) {
    tn_tensor_id input;
    bool single;
    tn_error unused;
    if (tn__graph_batch_input(graph, &input, &single, &unused) != TN_OK || input == TN_NONE ||
        single || tn_graph_tensor(graph, input)->shape[0] <= 0)
        return 0;
    return (uint64_t)tn_graph_tensor(graph, input)->shape[0];
}

/* Returns the stored and the expanded bytes of quantised weights, or zeros if memory ran out. */
static tn__dequant_sums estimate_packed(const tn_graph *graph) {
    const tn_context context = tn__context(NULL);
    uint32_t count = tn_graph_tensor_count(graph);
    uint8_t *how = tn__alloc_array(&context, (size_t)count + 1, 1);
    tn__dequant_sums sums = {0};
    if (how == NULL) return sums; /* benign: the answer then lacks these bytes */
    tn__graph_dequant(graph, how);
    sums = tn__graph_dequant_sums(graph, how);
    tn__free(&context, how, (size_t)count + 1);
    return sums;
}

/* Counts the convolutions and looks for normalisation operators. An exporter that exports for
 * inference folds normalisation into convolutions, and then the training step lacks it. */
static void estimate_count(const tn_graph *model, cli_estimate_result *found) {
    found->convolutions = 0;
    found->normalises = false;
    for (tn_op_id id = 0; id < tn_graph_op_count(model); id++) {
        const char *type = tn_graph_op(model, id)->type;
        found->convolutions += strcmp(type, "Conv") == 0;
        found->normalises |= strstr(type, "Normalization") != NULL;
    }
}

static void estimate_print(const estimate_made *made, const tn_occupancy *occupancy,
                           cli_estimate_result *found) {
    const tn_program *program = tn_occupancy_program(occupancy);
    const tn_graph *graph = tn_program_graph(program);
    found->steps = tn_program_count(program);
    found->batch = estimate_batch(made->input.graph);
    found->joins = false;
    for (tn_op_id op = 0; op < tn_graph_op_count(graph) && !found->joins; op++)
        found->joins = tn_op_joins(graph, op);
    const tn__dequant_sums left = estimate_packed(graph);
    found->packed = estimate_packed(made->input.graph);
    found->expands = left.fused + left.apart;
    estimate_count(made->input.graph, found);
    found->parameters = found->layer_count = 0;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(made->input.graph); t++) {
        const tn_tensor *tensor = tn_graph_tensor(made->input.graph, t);
        uint32_t bits = tn_dtype_bits(tensor->dtype);
        if (tensor->kind != TN_KIND_PARAMETER || bits == 0 || tensor->bytes == TN_SIZE_UNKNOWN)
            continue;
        found->parameters += tensor->bytes * 8 / bits;
        estimate_layer(found, tensor->name);
    }
    if (found->layer_count > 0 && found->layer_count <= CLI_LAYERS_MAX)
        /* the last layer is never frozen, because then nothing would be trained */
        found->layer_count--;
    if (found->layer_count > CLI_LAYERS_MAX) found->layer_count = CLI_LAYERS_MAX;
    uint32_t step = found->estimate.peak_step;
    if (found->estimate.peak_op != TN_NONE) {
        const tn_op *op = tn_graph_op(graph, found->estimate.peak_op);
        snprintf(found->peak_op, sizeof found->peak_op, "%.60s '%.80s'", op->type, op->name);
    } else {
        snprintf(found->peak_op, sizeof found->peak_op, "%s",
                 step < found->steps ? tn_opcode_name(tn_program_instructions(program)[step].opcode)
                                     : "");
    }
}

/* Writes the estimated plan to the output files, as `tenure plan` does. */
static tn_status estimate_write(const cli_estimate_request *request, const estimate_made *made,
                                const tn_occupancy *occupancy, const tn_estimate *estimate,
                                tn_error *error) {
    const cli_kernel_target target = estimate_target(request);
    tn_report_kernels kernels;
    tn_report report = {.struct_size = sizeof report,
                        .input = made->input.path,
                        .problem = tn_occupancy_problem(occupancy),
                        .layout = made->input.layout,
                        .occupancy = occupancy,
                        .kernels = cli_kernel_target_report(&target, made->setup, &kernels),
                        .static_bytes = estimate->fixed,
                        .device_bytes = request->limit,
                        .device = request->device != NULL ? request->device->title : NULL};
    if (made->setup != NULL) report.layout = tn_setup_layout(made->setup);
    cli_words words;
    cli_input input = made->input;
    input.target = target;
    input.training = request->train ? &request->training : NULL;
    cli_words_of(&input, made->setup, &words);
    /* options of the command cannot reproduce a training step of PyTorch or of one rank */
    if (!request->pytorch && tn_grid_ranks(&request->ranks.grid) <= 1)
        cli_report_words(&report, "estimate", &words);
    tn_status status = words.failed ? tn__no_memory(error, "the options of the plan") : TN_OK;
    for (uint32_t i = 0; i < request->output_count && status == TN_OK; i++)
        status = tn_report_write(&report, request->outputs[i], error);
    cli_words_release(&words);
    return status;
}

static tn_status estimate_once(const cli_estimate_request *request, cli_estimate_result *found,
                               tn_error *error) {
    estimate_made made = {0};
    tn_status status = estimate_load(request, &made, error);
    if (status == TN_OK) status = estimate_program(request, &made, error);
    const tn_occupancy *occupancy =
        made.setup != NULL ? tn_setup_occupancy(made.setup) : made.input.occupancy;
    if (status == TN_OK) {
        tn_estimate_options options = request->options;
        options.layout = made.input.layout;
        options.plan = &request->choices.plan;
        if (made.setup != NULL) {
            options.layout = tn_setup_layout(made.setup);
            options.statics = tn_setup_statics(made.setup, &options.static_count);
        }
        status = tn_estimate_make(occupancy, &options, &found->estimate, error);
    }
    if (status == TN_OK)
        status = estimate_write(request, &made, occupancy, &found->estimate, error);
    if (status == TN_OK) {
        const cli_kernel_target target = estimate_target(request);
        estimate_print(&made, occupancy, found);
        found->for_kernels = cli_kernel_target_report(&target, made.setup, &found->kernels) != NULL;
        const tn_scratch_report *pieces = made.setup != NULL ? tn_setup_scratch(made.setup) : NULL;
        found->pieces = pieces != NULL ? *pieces : (tn_scratch_report){0};
        const tn_fit_result *fitted = &made.answer.result;
        found->fitted =
            made.setup != NULL && made.setup != made.answer.whole && fitted->plain_time > 0;
        if (found->fitted) {
            found->more_time = (double)fitted->time / (double)fitted->plain_time - 1;
            found->host = fitted->host != NULL ? fitted->host_layout.peak : 0;
        }
    }
    const tn_layout *layout = made.setup != NULL ? tn_setup_layout(made.setup) : made.input.layout;
    uint64_t planned = layout != NULL ? layout->work : 0;
    /* the work of a trial that failed is counted, too */
    found->work = tn__add_sat(planned, made.answer.result.work);
    estimate_release(&made);
    return status;
}

/* Plans each pipeline stage for its first rank, and reports the stage that needs most memory. */
static tn_status estimate_stages(const cli_estimate_request *request, cli_estimate_result *found,
                                 tn_error *error) {
    const tn_grid *grid = &request->ranks.grid;
    cli_stage_memory stages[TN_STAGE_PARTS_MAX];
    cli_estimate_request trial = *request;
    for (tn_place at = {0}; at.pipeline < grid->pipeline; at.pipeline++) {
        cli_estimate_result one;
        trial.ranks.rank = tn_grid_rank(grid, at);
        TN_TRY(estimate_once(&trial, &one, error));
        stages[at.pipeline] = (cli_stage_memory){one.estimate.arena, one.estimate.fixed};
        if (at.pipeline == 0 || one.estimate.total > found->estimate.total) *found = one;
        trial.output_count = 0; /* only the plan of the first stage is written to files */
    }
    memcpy(found->stages, stages, grid->pipeline * sizeof *stages);
    found->fits = request->limit == 0 || found->estimate.total <= request->limit;
    return TN_OK;
}

/* Estimates the memory without the evaluation phase. A pool gets the limit as its capacity, because
 * a pool with a limit may reserve less than one without. */
tn_status cli_estimate_within(const cli_estimate_request *request, cli_estimate_result *found,
                              tn_error *error) {
    cli_estimate_request trial = *request;
    if (request->train && request->ranks.grid.pipeline > 1)
        return estimate_stages(request, found, error);
    if (request->options.pool != NULL && request->limit > 0) {
        bool room = request->limit > request->options.runtime;
        trial.options.pool_capacity = room ? request->limit - request->options.runtime : 1;
        tn_status status = estimate_once(&trial, found, error);
        found->fits = status == TN_OK;
        if (status != TN_E_EXHAUSTED) return status;
        trial.options.pool_capacity = 0;
        return estimate_once(&trial, found, error);
    }
    TN_TRY(estimate_once(&trial, found, error));
    found->fits = request->limit == 0 || found->estimate.total <= request->limit;
    return TN_OK;
}

/* Adds the memory of the evaluation phase: that of the forward pass in an arena of its own, in
 * addition to the training state. */
static tn_status estimate_evaluation(const cli_estimate_request *request,
                                     cli_estimate_result *found, tn_error *error) {
    cli_estimate_request model = *request;
    cli_estimate_result alone;
    if (!request->train || request->options.pool != NULL || request->pytorch) return TN_OK;
    const cli_ranks *ranks = &request->ranks;
    bool divided = ranks->grid.tensor > 1 || ranks->grid.pipeline > 1;
    if (divided || ranks->shard != TN_SHARD_NONE)
        /* the memory for a checkpoint is unknown, because ranks gather more than one tensor for
         * it */
        found->estimate.phase[TN_PHASE_CHECKPOINT] = TN_SIZE_UNKNOWN;
    if (divided || ranks->shard == TN_SHARD_PARAMETERS)
        /* evaluation is not estimated: one rank holds the whole model in addition to its shard */
        return TN_OK;
    model.train = false;
    /* the rules are about tensors of the training step, not of the model */
    model.input.rules = (tn_rules){0};
    TN_TRY(estimate_once(&model, &alone, error));
    found->estimate.phase[TN_PHASE_EVALUATION] = tn__add_sat(
        tn__add_sat(found->estimate.fixed, request->options.runtime), alone.estimate.arena);
    return TN_OK;
}

tn_status cli_estimate(const cli_estimate_request *request, cli_estimate_result *found,
                       tn_error *error) {
    /* the request for the evaluation phase, which writes no files */
    cli_estimate_request trial = *request;
    trial.output_count = 0;
    TN_TRY(cli_estimate_within(request, found, error));
    return estimate_evaluation(&trial, found, error);
}

/* --- the largest batch --- */

static tn_status estimate_fits(const cli_estimate_request *request, uint64_t batch, bool *fits,
                               tn_error *error) {
    cli_estimate_request trial = *request;
    cli_estimate_result found;
    trial.output_count = 0;
    trial.batch = batch;
    TN_TRY(cli_estimate_within(&trial, &found, error));
    *fits = found.fits;
    return TN_OK;
}

tn_status cli_estimate_max_batch(const cli_estimate_request *request, uint64_t *batch,
                                 tn_error *error) {
    uint64_t fits = 0, fails = 1;
    bool fine = true;
    while (fine) { /* the batch is doubled until it does not fit */
        TN_TRY(estimate_fits(request, fails, &fine, error));
        if (!fine) break;
        fits = fails;
        fails *= 2;
        if (fails > ESTIMATE_BATCH_MOST)
            TN_FAIL(error, TN_E_INVALID,
                    "a batch of 2^40 fits, so memory does not depend on the batch; check that the "
                    "first input has a batch dimension");
    }
    while (fails - fits > 1) {
        uint64_t middle = fits + (fails - fits) / 2;
        TN_TRY(estimate_fits(request, middle, &fine, error));
        if (fine)
            fits = middle;
        else
            fails = middle;
    }
    *batch = fits;
    return TN_OK;
}
