/* fit.c - `tenure fit`: finds the fastest program of a model within a budget of bytes. */
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/command_line/combine.h"
#include "cli/fit/fit.h"
#include "cli/model/file_kind.h"
#include "cli/model/input.h"
#include "graph/takes.h"

#include <stdio.h>
#include <string.h>

#define FIT_MOST (UINT64_C(1) << 40) /* largest value of every option that is a count */

enum {
    FIT_BUDGET = 400,
    FIT_TRAIN,
    FIT_BATCH,
    FIT_ALLOW,
    FIT_STORAGE,
    FIT_LOSSY,
    FIT_CODECS,
    FIT_ERROR,
    FIT_PASS,
    FIT_SEGMENT,
    FIT_LINK,
    FIT_SWAP_DEVICE,
    FIT_HOST_BUDGET,
    FIT_COSTS,
    FIT_KERNELS,
    FIT_SAVE_COSTS,
    FIT_PROBLEM,
    FIT_SWEEP,
    FIT_MAX_BATCH,
    FIT_RUN,
    FIT_SEED,
    FIT_TIMEOUT,
    FIT_WORK,
    FIT_EXPLAIN,
    FIT_JSON
};

#define FIT_OPTIONS(X)                                                                             \
    X(FIT_BUDGET, "budget", "SIZE",                                                                \
      "bytes of device memory for weights, gradients, optimizer state, activations and scratch "   \
      "together")                                                                                  \
    X(FIT_TRAIN, "train", NULL, "fit a training step: forward, backward, update")                  \
    X(FIT_BATCH, "batch", "N",                                                                     \
      "batch size, the first dimension of the inputs (default: as in the file)")                   \
    X(FIT_ALLOW, "allow", "TECHNIQUE,...",                                                         \
      "techniques to meet the budget: order, recompute, swap, compress, split (operators in "      \
      "tiles, if that is faster or nothing else fits), stream (weights are read from their file "  \
      "when needed) (default: order,recompute,split, and swap with --link)")                       \
    X(FIT_STORAGE, "storage", "SIZE/s",                                                            \
      "with --allow stream: read speed of the weight files, such as 2GB/s")                        \
    X(FIT_LOSSY, "lossy", NULL, "also allow lossy compression; results change")                    \
    X(FIT_CODECS, "codecs", "NAME,...",                                                            \
      "codecs for compression: bits, csr, and with --lossy float16, float10, float8 (default: "    \
      "all)")                                                                                      \
    X(FIT_PASS, "pass", "NAME",                                                                    \
      "pass that chooses the changes: one of `tenure list passes` (default: joint)")               \
    X(FIT_SEGMENT, "segment", "PATTERN",                                                           \
      "recompute the operators that match this pattern " CLI_PATTERN                               \
      " as one segment; may be repeated (for pass segments)")                                      \
    X(FIT_LINK, "link", "SIZE/s",                                                                  \
      "allow swapping to the host, at this speed in each direction, such as 12GB/s")               \
    X(FIT_SWAP_DEVICE, "swap-device", "NAME", CLI_SWAP_DEVICE_HELP)                                \
    X(FIT_HOST_BUDGET, "host-budget", "SIZE",                                                      \
      "bytes of host memory for swapped tensors (default: no limit)")                              \
    X(FIT_COSTS, "costs", "FILE|model:DEVICE",                                                     \
      "operator times: a file of --save-costs, or a model of one of `tenure list hardware` "       \
      "(default: measured on this machine)")                                                       \
    X(FIT_KERNELS, "kernels", "LIBRARY",                                                           \
      "count scratch memory and packed weights of a kernel library: onednn or plain, as in "       \
      "`tenure run` on this machine, or none (default: onednn; none with --costs model:DEVICE)")   \
    X(FIT_SAVE_COSTS, "save-costs", "FILE",                                                        \
      "write the measured operator times to this file, for --costs")                               \
    X(FIT_PROBLEM, "problem", "FILE",                                                              \
      "fit operators with costs and bytes from a .json file, or a recorded run, instead of a "     \
      "model (docs/fit.md); the budget then limits live bytes")                                    \
    X(FIT_SWEEP, "sweep", "N",                                                                     \
      "print a curve of N budgets between the smallest possible and the unchanged program; -o "    \
      "draws it with the program for --budget, or with the smallest")                              \
    X(FIT_MAX_BATCH, "max-batch", NULL, "find the largest batch that fits in --budget")            \
    X(FIT_ERROR, "max-error", "SHARE",                                                             \
      "with --run and lossy codecs: keep a tensor on the host unencoded if its relative error "    \
      "would be above this, such as 1% (default: no limit)")                                       \
    X(FIT_RUN, "run", "N",                                                                         \
      "run the result N times on generated data and print the time of the last run; -o draws it "  \
      "below the prediction")                                                                      \
    X(FIT_SEED, "seed", "N", "seed of the search (default: 0)")                                    \
    X(FIT_TIMEOUT, "timeout", "TIME",                                                              \
      "stop the search after this time, such as 10s, with the best program so far (default: no "   \
      "limit)")                                                                                    \
    X(FIT_WORK, "work-limit", "N",                                                                 \
      "stop the search after N units of work; the result is the same on every machine (default: "  \
      "no limit)")                                                                                 \
    X('o', "output", "FILE",                                                                       \
      "write the plan of the program; the suffix chooses the format; may be repeated")             \
    X(FIT_EXPLAIN, "explain", NULL, "print for each tensor why it was kept or not")                \
    X(FIT_JSON, "json", NULL, "print one JSON object instead of the table")

static const struct argp_option fit_options[] = {FIT_OPTIONS(CLI_OPTION){0}};

/* --- options --- */

static error_t fit_parse_search(int key, char *value, struct argp_state *state, cli_fit *fit) {
    tn_fit_options *options = &fit->options;
    switch (key) {
    case FIT_ALLOW:
        options->allow = (options->allow & TN_FIT_LOSSY) | cli_allow(state, value);
        return 0;
    case FIT_STORAGE:
        fit->storage = cli_speed(state, "storage", value);
        return 0;
    case FIT_LOSSY:
        options->allow |= TN_FIT_LOSSY;
        return 0;
    case FIT_CODECS:
        options->codecs = cli_codecs(state, value);
        return 0;
    case FIT_PASS:
        options->pass = value;
        return 0;
    case FIT_SEGMENT:
        if (options->segment_count == CLI_FIT_SEGMENTS_MAX)
            cli_misuse(state, "--segment: at most %u patterns are supported", CLI_FIT_SEGMENTS_MAX);
        fit->segments[options->segment_count++] = value;
        return 0;
    case FIT_LINK:
        fit->link = cli_speed(state, "link", value);
        options->to_host_bytes_per_s = options->from_host_bytes_per_s = fit->link;
        return 0;
    case FIT_SWAP_DEVICE:
        fit->swap_device = value;
        return 0;
    case FIT_HOST_BUDGET:
        options->host_budget = cli_size(state, "host-budget", value);
        if (options->host_budget == 0) cli_misuse(state, "--host-budget: the size must be above 0");
        return 0;
    case FIT_SEED:
        options->seed = cli_number(state, "seed", value);
        return 0;
    case FIT_TIMEOUT:
        options->timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case FIT_WORK:
        options->work_limit = cli_number(state, "work-limit", value);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t fit_parse_answer(int key, char *value, struct argp_state *state, cli_fit *fit) {
    switch (key) {
    case FIT_BUDGET:
        fit->options.budget = cli_size(state, "budget", value);
        if (fit->options.budget == 0) cli_misuse(state, "--budget: the size must be above 0");
        return 0;
    case FIT_TRAIN:
        fit->train = true;
        return 0;
    case FIT_BATCH:
        fit->batch = cli_count(state, "batch", value, FIT_MOST);
        return 0;
    case FIT_COSTS:
        cli_costs_parse(state, &fit->from, value);
        return 0;
    case FIT_KERNELS:
        if (!cli_kernel_target_parse(state, value, &fit->kernels))
            cli_misuse(state, "--kernels: '%s' is not one of none, plain, onednn", value);
        return 0;
    case FIT_SAVE_COSTS:
        cli_check_folder(state, "--save-costs", value);
        cli_path_once(state, "--save-costs", &fit->save_costs, value);
        return 0;
    case FIT_PROBLEM:
        fit->problem_path = cli_standard_input(state, value);
        cli_refuse_kind(state, fit->problem_path);
        return 0;
    case FIT_SWEEP:
        fit->sweep = (uint32_t)cli_range(state, "sweep", value, 2, 10000);
        return 0;
    case FIT_MAX_BATCH:
        fit->max_batch = true;
        return 0;
    case FIT_ERROR:
        fit->max_error = cli_max_error(state, value);
        return 0;
    case FIT_RUN:
        fit->runs = cli_count(state, "run", value, 10000);
        return 0;
    case FIT_EXPLAIN:
        fit->explain = true;
        return 0;
    case FIT_JSON:
        fit->json = true;
        return 0;
    case 'o':
        cli_add_output(state, fit->outputs, &fit->output_count, CLI_FIT_OUTPUTS_MAX, value);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void fit_set(struct argp_state *state, cli_fit *fit) {
    tn_fit_options *options = &fit->options;
    if (fit->input.path == NULL && fit->problem_path == NULL)
        cli_misuse(state, "no model given; pass a model file, or add --problem FILE");
    if (options->budget == 0 && fit->sweep == 0)
        cli_misuse(state, "no budget given; add --budget SIZE");
    cli_swap_link(fit->swap_device, &options->to_host_bytes_per_s, &options->from_host_bytes_per_s);
    options->allow =
        cli_allow_complete(options->allow, options->to_host_bytes_per_s, options->pass);
    cli_condition_set(CLI_IF_MODEL_ARGUMENT, fit->input.path != NULL);
    cli_condition_set(CLI_IF_HAS_KERNELS,
                      fit->problem_path == NULL && cli_fit_target(fit).runner != CLI_RUNNER_NONE);
}

static error_t fit_parse(int key, char *value, struct argp_state *state) {
    cli_fit *fit = state->input;
    if (fit_parse_search(key, value, state, fit) == 0) return 0;
    if (fit_parse_answer(key, value, state, fit) == 0) return 0;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &fit->input;
        state->child_inputs[1] = &fit->training;
        state->child_inputs[2] = &fit->choices;
        return 0;
    case ARGP_KEY_ARG:
        cli_input_take(&fit->input, state, "model", value);
        return 0;
    case ARGP_KEY_END:
        fit_set(state, fit);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char fit_doc[] =
    "Finds the fastest program of MODEL within a budget of bytes, and decides which tensors are "
    "kept, recomputed, swapped to the host or compressed.\v"
    "Examples:\n"
    "  tenure fit resnet50.onnx --train --batch 32 --budget 2GiB\n"
    "  tenure fit gpt2.onnx --train --batch 8 --budget 16GiB --costs model:a100-40 --link 12GB/s\n"
    "  tenure fit unet.onnx --train --batch 4 --sweep 20\n"
    "  tenure fit --problem chain.json --budget 34 --pass exact\n\n"
    "Exit status: 0 it fits; 1 proved that nothing fits, or nothing was found, with the smallest "
    "size found and its largest tensors; 2 bad usage or input; 3 stopped before an answer; 4 "
    "internal error.";

/* --- the command `tenure fit` --- */

static void fit_line(void *self, const char *line) {
    (void)self;
    cli_put_text(stdout, line);
    putchar('\n');
}

static tn_status fit_batches(cli_fit *fit, tn_error *error) {
    uint64_t plain, fitted;
    TN_TRY(cli_fit_batches(fit, &plain, &fitted, error));
    if (fitted == 0)
        TN_FAIL(error, TN_E_EXHAUSTED,
                "no program was found for a batch of 1; raise --budget or allow more techniques");
    if (fit->json) return TN_OK;
    printf("%-18s %llu\n", "without fitting", (unsigned long long)plain);
    printf("%-18s %llu", "with fitting", (unsigned long long)fitted);
    if (plain > 0) printf(", %.2f times", (double)fitted / (double)plain);
    printf("\n");
    return TN_OK;
}

/* Prints the curve without an answer for the budget. It is used if the time limit ended the search
 * and no point of the curve meets the budget. */
static tn_status fit_print_curve(cli_fit *fit, tn_error *error) {
    tn_error unwanted;
    fit->options.budget = 0;
    tn_status status = cli_fit_print(fit, &unwanted);
    return status != TN_OK ? status : error->status;
}

static tn_status fit_run_asked(cli_fit *fit, tn_error *error) {
    if (fit->max_batch) {
        TN_TRY(fit_batches(fit, error));
    } else {
        TN_TRY(cli_fit_open(fit, error));
        tn_status status = cli_fit_solve(fit, error);
        if (status == TN_E_STOPPED && fit->result_count > 0 && fit->result_count == fit->sweep)
            return fit_print_curve(fit, error);
        TN_TRY(status);
    }
    if (fit->runs > 0) TN_TRY(cli_fit_run(fit, error));
    TN_TRY(cli_fit_print(fit, error));
    return cli_fit_write(fit, error);
}

static int fit_code(const cli_fit *fit) {
    const tn_fit_result *it = &fit->results[fit->chosen];
    if (!cli_interrupted() || (it->time_bound > 0 && it->time == it->time_bound)) return 0;
    return cli_print_interrupted(it->time, it->time_bound);
}

static const struct argp_child fit_children[] = {{&cli_input_fit_argp, 0, "Reading the model:", 0},
                                                 {&cli_training_fit_argp, 0, "Training:", 0},
                                                 {&cli_choices_argp, 0, "Running it:", 0},
                                                 {0}};
static const struct argp fit_parser = {fit_options,  fit_parse, "MODEL", fit_doc,
                                       fit_children, 0,         0};

/* Returns whether operator times are neither given nor can be measured. Without kernels there is
 * nothing to measure. */
static bool fit_has_no_rates(const cli_fit *fit) {
    return fit->problem_path == NULL && !cli_costs_given(&fit->from) &&
           cli_fit_target(fit).runner == CLI_RUNNER_NONE;
}

/* Whether the answer has times. It has none if the unchanged plan fits. */
static bool fit_is_timed(const cli_fit *fit) {
    for (uint32_t i = 0; i < fit->result_count; i++)
        if (fit->results[i].time > 0) return true;
    return false;
}

static void fit_note_rates(void) {
    char note[200];
    snprintf(note, sizeof note,
             "without kernels nothing is measured: times are those of an assumed device with %.0f "
             "GFLOP/s and %.0f GB/s; for another one add --costs model:DEVICE",
             TN__PLAIN_MACHINE.operations / 1e9, TN__PLAIN_MACHINE.bytes / 1e9);
    cli_note(note);
}

static int fit_run(int count, char **words) {
    tn_context context = cli_context();
    cli_fit fit = {.input = {.import = TN_IMPORT_OPTIONS_INIT},
                   .training = CLI_TRAINING_INIT,
                   .choices = CLI_CHOICES_INIT,
                   .options = TN_FIT_OPTIONS_INIT};
    tn_error error = {0};
    fit.input.import.context = fit.choices.plan.context = &context;
    cli_parse(&cli_command_fit, count, words, &fit);
    cli_context_read(&context);
    if (fit.explain) fit.options.explain = fit_line;
    if (fit.problem_path != NULL) cli_progress_plain_costs();
    cli_interrupt_ends_work();
    tn_status status = fit_run_asked(&fit, &error);
    const bool refused = status == TN_E_INFEASIBLE || status == TN_E_EXHAUSTED;
    if (fit_has_no_rates(&fit) && (refused || (status == TN_OK && fit_is_timed(&fit))))
        fit_note_rates();
    int code =
        status == TN_OK ? fit_code(&fit) : cli_claims_fail(&fit.answer, fit.input.path, &error);
    if (refused) cli_fit_print_least(&fit);
    cli_fit_close(&fit);
    return cli_finish(code);
}

const cli_command cli_command_fit = {
    .name = "fit",
    .summary = "find the fastest program of a model within a budget of bytes",
    .first = "budget train batch optimizer sweep max-batch link costs output json",
    .answers = (const cli_facts *const[]){&cli_fit_facts, NULL},
    .parser = &fit_parser,
    .run = fit_run,
};
