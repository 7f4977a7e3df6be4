/* input.c - loads the input of a command: a model, which passes through all stages of compiling, or
 * a problem. */
#include "cli/model/input.h"

#include <tenure/foreign.h>

#include "base/base.h"
#include "cli/command_line/combine.h"
#include "cli/model/compile_options.h"
#include "cli/model/file_kind.h"
#include "cli/model/kernel_target.h"
#include "cli/model/training.h"
#include "plan/io/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* seconds of processor time for each technique that is tried as a hint after a budget was not
 * met */
#define INPUT_HINT_S 2

/* --- loading --- */

void cli_input_take(cli_input *input, struct argp_state *state, const char *what,
                    const char *path) {
    if (input->path != NULL)
        cli_misuse(state, "give only one %s; '%s' is a second one", what, path);
    input->path = cli_standard_input(state, path);
    cli_refuse_kind(state, input->path);
    bool foreign = tn_foreign_recognises(input->path);
    cli_condition_set(CLI_IF_FOREIGN, foreign);
    if (foreign) cli_condition_set(CLI_IF_MODEL, false);
}

/* A file that no importer reads counts as a model, too, if the importer can explain how to export a
 * model from it. */
bool cli_input_is_model(const cli_input *input) {
    const char *path = input->path;
    return tn_import_recognises(path) || tn_weights_how_to_export(path) != NULL ||
           (tn_weights_recognises(path) && !tn__has_suffix(path, ".json"));
}

bool cli_input_takes_batch(const char *path) {
    return tn__has_suffix(path, ".onnx") || tn__has_suffix(path, ".pt2");
}

void cli_stage(cli_input *input, const char *name, double seconds) {
    if (input->stage_count < sizeof input->stages / sizeof *input->stages)
        input->stages[input->stage_count++] = (tn_stage){name, seconds};
}

/* Computes the scratch memory that the kernels for microcontrollers need for the operators of a
 * .tflite model. */
static tn_status input_workspaces(cli_input *input, const tn_micro_options *micro,
                                  tn_error *error) {
    bool theirs = tn__has_suffix(input->path, ".tflite") && input->training == NULL;
    if (!theirs || input->target.runner != CLI_RUNNER_NONE) return TN_OK;
    size_t count = (size_t)tn_graph_op_count(input->graph) + 1;
    if (input->workspaces == NULL) input->workspaces = calloc(count, sizeof *input->workspaces);
    if (input->workspaces == NULL) return tn__no_memory(error, "scratch");
    input->occupancy_options.workspaces = input->workspaces;
    return tn_micro_workspaces(input->path, &input->import, input->graph, micro, input->workspaces,
                               error);
}

/* With --train, replaces the model by a step of its training. */
static tn_status input_step(cli_input *input, tn_error *error) {
    const cli_training *training = input->training;
    double start = cli_clock();
    if (training == NULL) return TN_OK;
    TN_TRY(cli_training_model(training, &input->graph, error));
    TN_TRY(cli_training_make(training, input->graph, cli_kernel_target_rewrites(&input->target),
                             &input->rewritten, &input->step, error));
    cli_stage(input, "train", cli_clock() - start);
    return TN_OK;
}

static tn_status input_import(cli_input *input, tn_error *error) {
    double start = cli_clock();
    TN_TRY(cli_kernel_target_check(&input->target, error));
    tn_status status = tn_graph_load(input->path, &input->import, &input->graph, error);
    if (input->ends_work) cli_interrupt_ends_work();
    cli_stage(input, "import", cli_clock() - start);
    if (status == TN_OK) status = input_step(input, error);
    bool most = input->processor != NULL || input->tflm_kernels.library != TN_MICRO_REFERENCE;
    const tn_micro_options micro =
        cli_tflm_options(input->processor != NULL ? input->processor : cli_processors[0],
                         &input->tflm_kernels, most);
    return status == TN_OK ? input_workspaces(input, &micro, error) : status;
}

const tn_graph *cli_input_graph(const cli_input *input) {
    return input->setup != NULL ? tn_setup_graph(input->setup) : input->graph;
}

void cli_input_take_setup(cli_input *input, tn_setup *made) {
    tn_setup_destroy(input->setup);
    input->setup = made;
    input->occupancy = tn_setup_occupancy(made);
    input->problem = tn_occupancy_problem(input->occupancy);
    input->layout = tn_setup_layout(made);
}

/* The options for compiling the input. Options of a plan file replace those of the command line. */
typedef struct input_asked {
    cli_compile_options all;
    /* the plan without tiles; its capacity is 0 if tiles are used, because the limit is for the
     * plan with tiles */
    tn_plan_options whole;
    tn_setup_split parts;
} input_asked;

static const tn_graph *input_ask(cli_input *input, const tn_plan_options *plan,
                                 input_asked *asked) {
    cli_compile_options_set(input, &input->target, input->training, plan, &asked->all);
    tn_setup_options *setup = &asked->all.setup;
    asked->all.program.sequence = input->sequence;
    asked->all.program.sequence_count = input->sequence_count;
    setup->given_program = input->program;
    /* the program comes from a plan file, so no order of operators is chosen */
    if (input->replays) {
        asked->all.program.order = NULL;
        setup->recompute = NULL;
    }
    /* only kernels with scratch memory that fits into the plan are used */
    if (input->scratch != NULL) {
        asked->all.kernels.scratch = input->scratch;
        setup->fastest = true;
    }
    if (input->split.region_count > 0) { /* a plan file states which operators run in tiles */
        asked->parts = (tn_setup_split){.regions = input->split.regions,
                                        .region_count = input->split.region_count,
                                        .again = input->split.again,
                                        .again_count = input->split.again_count};
        /* concatenations are fused in all plans with operators in tiles */
        asked->all.memory.fuse_concat = true;
        setup->split = &asked->parts;
    }
    if (plan != NULL) {
        asked->whole = *plan;
        setup->plan = &asked->whole;
    }
    if (plan != NULL && input->split.asked) {
        setup->split = cli_split_of(&input->split, 0);
        asked->whole.capacity = 0; /* no limit here: the limit is for the plan with tiles */
    }
    return input->training != NULL ? input->step.graph : input->graph;
}

/* Performs the stages from `stage` on and replaces input->setup. If `plan` is NULL, the stages end
 * with the problem, without a layout. Without kernels, the scratch memory comes from the rules of
 * the operators or from input->workspaces. */
static tn_status input_set_up(cli_input *input, tn_setup_stage stage, const tn_plan_options *plan,
                              tn_error *error) {
    input_asked asked;
    tn_setup *made;
    const tn_graph *graph = input_ask(input, plan, &asked);
    const tn_setup_options *options = &asked.all.setup;
    tn_status status = stage == TN_SETUP_REWRITE
                           ? tn_setup_create(graph, options, &made, error)
                           : tn_setup_from(input->setup, stage, options, &made, error);
    if (status == TN_E_INVALID || status == TN_E_CONFLICT)
        status = tn__where(error, status, "%s", input->path);
    if (status != TN_OK) return status;
    cli_input_take_setup(input, made);
    return TN_OK;
}

static tn_status input_load_model(cli_input *input, tn_error *error) {
    TN_TRY(input_import(input, error));
    TN_TRY(input_set_up(input, TN_SETUP_REWRITE, NULL, error));
    cli_stage(input, "program", tn_setup_seconds(input->setup, TN_SETUP_ORDER));
    cli_stage(input, "occupancy", tn_setup_seconds(input->setup, TN_SETUP_OCCUPY));
    return TN_OK;
}

/* Refuses --alignment for a plan, because a plan states the alignment of every buffer. */
static void input_check_alignment(const cli_input *input) {
    bool differs = false;
    for (tn_body_id id = 0; id < tn_problem_count(input->own); id++) {
        const tn_body *body = tn_problem_body(input->own, id);
        if (body->flags & TN_BODY_DEFAULT_ALIGNED) return;
        differs |= body->alignment != input->alignment;
    }
    if (differs)
        cli_misuse(NULL,
                   "--alignment %" PRIu64 " has no effect: %.100s states the alignment of every "
                   "buffer; remove the option",
                   input->alignment, input->path);
}

tn_status cli_input_read_foreign(cli_input *input, uint64_t **offsets, tn_error *error) {
    tn_foreign_options options = TN_FOREIGN_OPTIONS_INIT;
    options.module = input->module;
    options.context = input->import.context;
    TN_TRY(tn_foreign_load(input->path, &options, &input->foreign, error));
    return tn__where(error, tn_foreign_problem(input->foreign, &input->own, offsets, error), "%s",
                     input->path);
}

/* Reads a problem. If `offsets` is not NULL and the file has offsets, *offsets is set to them. If
 * `offsets` is NULL, offsets in the file become constraints: those buffers are pinned. */
static tn_status input_read_problem(cli_input *input, uint64_t **offsets, tn_error *error) {
    double start = cli_clock();
    tn_context context = tn__context(input->import.context);
    tn_status status = tn_foreign_recognises(input->path)
                           ? cli_input_read_foreign(input, offsets, error)
                           : tn_problem_load(input->path, &context, &input->own, offsets, error);
    if (input->ends_work) cli_interrupt_ends_work();
    if (status == TN_OK && input->alignment != 0) input_check_alignment(input);
    if (status == TN_OK && input->alignment != 0)
        status = tn_problem_set_alignment(input->own, input->alignment, error);
    if (status == TN_OK && input->bank_count > 0)
        status = tn_problem_offer_banks(input->own, input->banks, input->bank_count, error);
    input->problem = input->own;
    cli_stage(input, "import", cli_clock() - start);
    return status;
}

static tn_status input_load_problem(cli_input *input, tn_error *error) {
    cli_condition_set(CLI_IF_MODEL, input->of_plan);
    cli_combine_check(NULL);
    return input_read_problem(input, NULL, error);
}

static tn_status input_load_solution(cli_input *input, tn_error *error) {
    const char *path = input->path;
    input->path = input->problem_path;
    tn_status status = input_read_problem(input, NULL, error);
    input->path = path;
    if (status == TN_OK) status = tn_layout_load(input->problem, path, &input->own_layout, error);
    input->layout = &input->own_layout;
    return status;
}

tn_status cli_input_load_layout(cli_input *input, const tn_plan_options *options, tn_error *error) {
    uint64_t *offsets = NULL;
    if (input->problem_path != NULL) return input_load_solution(input, error);
    TN_TRY(input_read_problem(input, &offsets, error));
    if (offsets != NULL && input->bank_count > 0)
        cli_misuse(NULL,
                   "--bank has no effect: %.100s is a plan, with the banks of its buffers; "
                   "remove the option",
                   input->path);
    tn_status status =
        offsets != NULL ? tn_layout_from_offsets(input->problem, offsets, &input->own_layout, error)
                        : tn_plan(input->problem, options, &input->own_layout, error);
    tn_offsets_release(input->import.context, offsets, tn_problem_count(input->problem));
    input->layout = &input->own_layout;
    return status;
}

tn_status cli_input_load(cli_input *input, tn_error *error) {
    return cli_input_is_model(input) ? input_load_model(input, error)
                                     : input_load_problem(input, error);
}

tn_status cli_input_rebuild(cli_input *input, tn_error *error) {
    return input_set_up(input, TN_SETUP_OCCUPY, NULL, error);
}

tn_status cli_input_replay(cli_input *input, tn_error *error) {
    return input_set_up(input, input->scratch != NULL ? TN_SETUP_KERNELS : TN_SETUP_ORDER, NULL,
                        error);
}

tn_status cli_input_occupy(cli_input *input, const tn_micro_options *micro, tn_error *error) {
    TN_TRY(input_workspaces(input, micro, error));
    return cli_input_rebuild(input, error);
}

/* Plans each candidate order of --order, and keeps the order with the smallest plan. */
static tn_status input_plan_orders(cli_input *input, const tn_plan_options *options,
                                   tn_error *error) {
    TN_TRY(input_import(input, error));
    tn_status status = input_set_up(input, TN_SETUP_REWRITE, options, error);
    /* if nothing fits, the order with the fewest live bytes is kept for the messages */
    tn_error unused;
    if (status == TN_E_INFEASIBLE) (void)!input_set_up(input, TN_SETUP_REWRITE, NULL, &unused);
    if (status == TN_OK) cli_stage(input, "order", tn_setup_seconds(input->setup, TN_SETUP_ORDER));
    return status;
}

tn_status cli_input_plan(cli_input *input, const tn_plan_options *options, tn_error *error) {
    bool model = cli_input_is_model(input);
    bool orders = input->order != NULL && strcmp(input->order, "file") != 0;
    if (model && (orders || input->split.asked)) {
        TN_TRY(input_plan_orders(input, options, error));
    } else {
        TN_TRY(cli_input_load(input, error));
        if (input->wants_csv && input->problem != NULL) TN_TRY(tn__csv_can(input->problem, error));
        if (model)
            TN_TRY(input_set_up(input, input->streams.count > 1 ? TN_SETUP_STREAMS : TN_SETUP_PLAN,
                                options, error));
        if (!model) TN_TRY(tn_plan(input->problem, options, &input->own_layout, error));
        if (!model) input->layout = &input->own_layout;
    }
    cli_stage(input, "plan", input->layout->seconds);
    return TN_OK;
}

tn_status cli_input_fit(cli_input *input, const tn_plan_options *options, uint64_t budget,
                        bool arena, tn_error *error) {
    input_asked asked;
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    tn_fit_options search = TN_FIT_OPTIONS_INIT;
    if (input->graph == NULL) TN_TRY(input_import(input, error));
    const tn_graph *graph = input_ask(input, options, &asked);
    asked.whole.capacity = 0;
    search.context = options->context;
    search.budget = budget;
    search.pass = "none";
    search.allow = input->split.asked ? TN_FIT_SPLIT : 0;
    search.timeout_s = options->timeout_s;
    request.setup = &asked.all.setup;
    request.search = &search;
    request.arena = arena;
    request.hint_seconds = INPUT_HINT_S;
    request.split_share = input->split.has_share ? input->split.options.share : 0;
    tn_status status = tn_fit_graph(graph, &request, &input->answer, error);
    tn_setup *made = input->answer.setup != NULL ? input->answer.setup : input->answer.whole;
    if (made != NULL) cli_input_take_setup(input, made);
    return status;
}

tn_status cli_input_sweep(cli_input *input, const tn_plan_options *plan, uint32_t count,
                          tn_setup **setups, uint32_t *found, tn_error *error) {
    input_asked asked;
    *found = 0;
    TN_TRY(input_import(input, error));
    const tn_graph *graph = input_ask(input, plan, &asked);
    return tn_setup_split_sweep(graph, &asked.all.setup, count, setups, found, error);
}

void cli_input_release_loaded(cli_input *input) {
    bool owned = input->setup == input->answer.setup || input->setup == input->answer.whole;
    if (!owned) tn_setup_destroy(input->setup);
    tn_fit_answer_release(&input->answer);
    if (input->step.graph != NULL) tn_training_release(&input->step);
    tn_graph_destroy(input->rewritten);
    tn_graph_destroy(input->graph);
    tn_layout_release(&input->own_layout);
    tn_problem_destroy(input->own);
    tn_foreign_destroy(input->foreign);
    free(input->workspaces);
    free(input->scratch);
    input->scratch = NULL;
    input->setup = NULL;
    input->graph = input->rewritten = NULL;
    input->step = (tn_training){0};
    input->own = NULL;
    input->foreign = NULL;
    input->workspaces = NULL;
}

void cli_input_release(cli_input *input) {
    cli_input_release_loaded(input);
    for (uint32_t i = 0; i < input->bank_count; i++) free((void *)(uintptr_t)input->banks[i].name);
    for (uint32_t i = 0; i < input->import.dim_count; i++)
        free((void *)(uintptr_t)input->import.dims[i].name);
    for (uint32_t i = 0; i < input->import.input_shape_count; i++) {
        free((void *)(uintptr_t)input->import.input_shapes[i].name);
        free((void *)(uintptr_t)input->import.input_shapes[i].shape);
    }
    for (uint32_t i = 0; i < input->import.value_count; i++) {
        free((void *)(uintptr_t)input->import.values[i].name);
        free((void *)(uintptr_t)input->import.values[i].numbers);
    }
    cli_rules_release(input);
    free(input->split.regions);
    free(input->split.again);
    free((void *)(uintptr_t)input->import.values);
    free((void *)(uintptr_t)input->import.dims);
    free((void *)(uintptr_t)input->import.input_shapes);
    free((void *)(uintptr_t)input->import.parameters);
}

/* --- a plan inside a .tflite model --- */

static tn_status tflite_write_plan(void *self, const uint64_t *offsets, const char *output,
                                   tn_error *error) {
    const cli_input *input = self;
    return tn_tflite_write_plan(input->path, &input->import, input->graph, offsets, output, error);
}

void cli_report_model(tn_report *report, cli_input *input) {
    if (input->occupancy == NULL || !tn__has_suffix(input->path, ".tflite")) return;
    report->write_plan = tflite_write_plan;
    report->write_plan_self = input;
}
