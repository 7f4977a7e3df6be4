/* fit.c - `tenure fit`: a budget of bytes, and the fastest program whose every byte fits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "cli/claims.h"
#include "cli/fit.h"

#define FIT_MOST (UINT64_C(1) << 40) /* of any count */

enum {
    FIT_BUDGET = 400,
    FIT_TRAIN,
    FIT_BATCH,
    FIT_ALLOW,
    FIT_STORAGE,
    FIT_LOSSY,
    FIT_CODECS,
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
      "bytes on the device for everything: weights, gradients, "                                   \
      "optimizer state, activations, scratch")                                                     \
    X(FIT_TRAIN, "train", NULL, "a training step: forward, backward, update")                      \
    X(FIT_BATCH, "batch", "N", "first extent of the inputs (as the file says)")                    \
    X(FIT_ALLOW, "allow", "WHAT,...",                                                              \
      "what may be done: order, recompute, swap, compress; split: operators in parts, where "      \
      "that is faster, or nothing else will do; stream: weights come from their file when they "   \
      "are needed "                                                                                \
      "(order,recompute,split; with --link swap)")                                                 \
    X(FIT_STORAGE, "storage", "SIZE/s", "with --allow stream: speed of the files of weights")      \
    X(FIT_LOSSY, "lossy", NULL, "compress with loss, too: results change")                         \
    X(FIT_CODECS, "codecs", "NAME,...",                                                            \
      "compress by these alone: bits, csr, with --lossy float16, float10, float8 (all of them)")   \
    X(FIT_PASS, "pass", "NAME", "who decides: one of `tenure list passes` (joint)")                \
    X(FIT_SEGMENT, "segment", "PATTERN",                                                           \
      "operators of these names are computed again as one; may be repeated (pass segments)")       \
    X(FIT_LINK, "link", "SIZE/s", "speed of copies to the host and back, each way: 12GB/s")        \
    X(FIT_SWAP_DEVICE, "swap-device", "NAME", CLI_SWAP_DEVICE_HELP)                                \
    X(FIT_HOST_BUDGET, "host-budget", "SIZE", "bytes on the host for what is copied there")        \
    X(FIT_COSTS, "costs", "FILE|model:DEVICE",                                                     \
      "seconds of operators: of a file, or by the two rates of one of `tenure list hardware` "     \
      "(measured here)")                                                                           \
    X(FIT_KERNELS, "kernels", "LIBRARY",                                                           \
      "whose scratch and packed weights count: onednn or plain, what `tenure run` takes here; "    \
      "none, the graph alone (onednn; with --costs model:... none)")                               \
    X(FIT_SAVE_COSTS, "save-costs", "FILE", "keep what was measured, for --costs")                 \
    X(FIT_PROBLEM, "problem", "FILE",                                                              \
      "no model: operators with cost and bytes as .json, or a recorded run (docs/fit.md); what "   \
      "lives counts")                                                                              \
    X(FIT_SWEEP, "sweep", "N",                                                                     \
      "N budgets from the least to what it takes plainly: the curve; -o draws it with the "        \
      "program "                                                                                   \
      "for --budget, or the one that needs least")                                                 \
    X(FIT_MAX_BATCH, "max-batch", NULL, "the largest batch that fits --budget")                    \
    X(FIT_RUN, "run", "N",                                                                         \
      "run what was found N times on contents that are made up: what the last took is told, and "  \
      "drawn by -o below what was predicted")                                                      \
    X(FIT_SEED, "seed", "N", "of the search (0)")                                                  \
    X(FIT_TIMEOUT, "timeout", "TIME", "the best that is found in so long, 10s (none)")             \
    X(FIT_WORK, "work-limit", "N", "the same, by work: the same answer on every machine (none)")   \
    X('o', "output", "FILE", "write the program's plan; the suffix says how; may be repeated")     \
    X(FIT_EXPLAIN, "explain", NULL, "tell why each tensor was kept or not")                        \
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
            cli_misuse(state, "--segment: more than %u", CLI_FIT_SEGMENTS_MAX);
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
        if (options->host_budget == 0) cli_misuse(state, "--host-budget: 0 bytes hold nothing");
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
        if (fit->options.budget == 0) cli_misuse(state, "--budget: 0 bytes hold nothing");
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
        if (!cli_whom_parse(state, value, &fit->kernels))
            cli_misuse(state, "--kernels: '%s' is none of none, plain, onednn", value);
        fit->has_kernels = true;
        return 0;
    case FIT_SAVE_COSTS:
        cli_check_folder(state, "--save-costs", value);
        cli_path_once(state, "--save-costs", &fit->save_costs, value);
        return 0;
    case FIT_PROBLEM:
        fit->problem_path = cli_standard_input(state, value);
        return 0;
    case FIT_SWEEP:
        fit->sweep = (uint32_t)cli_range(state, "sweep", value, 2, 10000);
        return 0;
    case FIT_MAX_BATCH:
        fit->max_batch = true;
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

static void fit_check_problem(struct argp_state *state, const cli_fit *fit) {
    bool model = fit->input.path != NULL || fit->train || fit->batch > 0 || fit->max_batch;
    bool costs = cli_costs_given(&fit->from) || fit->save_costs != NULL;
    if (model) cli_misuse(state, "--problem stands for a model: leave MODEL, --train, --batch out");
    if (costs) cli_misuse(state, "--problem has costs of its own");
}

/* It is a prediction of one program: `tenure run` runs it. */
static void fit_check_stream(struct argp_state *state, const cli_fit *fit) {
    bool streams = (fit->options.allow & TN_FIT_STREAM) != 0;
    if (!streams && fit->storage > 0) cli_misuse(state, "--storage is for --allow stream");
    if (!streams) return;
    if (!(fit->storage > 0))
        cli_misuse(state, "--allow stream: how fast are files of weights? --storage 2GB/s");
    if (fit->sweep > 0 || fit->max_batch || fit->runs > 0 || fit->train ||
        fit->problem_path != NULL || fit->output_count > 0)
        cli_misuse(state, "--allow stream tells what one budget takes: leave --sweep, --max-batch, "
                          "--run, --train, --problem and -o out; `tenure run` runs it");
}

static void fit_check(struct argp_state *state, cli_fit *fit) {
    const char *training = cli_training_given(&fit->training, (const char *const[]){NULL});
    if (fit->input.path == NULL && fit->problem_path == NULL)
        cli_misuse(state, "which model, or --problem?");
    if (fit->problem_path != NULL) fit_check_problem(state, fit);
    if (training != NULL && !fit->train) cli_misuse(state, "--%s is for --train", training);
    if (fit->options.budget == 0 && fit->sweep == 0)
        cli_misuse(state, "how many bytes? give --budget SIZE");
    if (fit->sweep > 0 && fit->max_batch)
        cli_misuse(state, "--sweep prints a curve: leave --max-batch out");
    cli_swap_link(state, fit->swap_device, fit->options.allow, &fit->options.to_host_bytes_per_s,
                  &fit->options.from_host_bytes_per_s);
    fit->options.allow = cli_allow_check(state, fit->options.allow,
                                         fit->options.to_host_bytes_per_s, fit->options.pass);
    cli_host_budget_check(state, fit->options.host_budget, fit->options.allow);
    fit_check_stream(state, fit);
    if (fit->options.codecs != 0 && !(fit->options.allow & TN_FIT_COMPRESS))
        cli_misuse(state, "--codecs is for --allow compress");
    if (cli_codecs_lose(fit->options.codecs) && !(fit->options.allow & TN_FIT_LOSSY))
        cli_misuse(state, "--codecs: float16, float10 and float8 change results: add --lossy");
    const bool nobody = cli_fit_whom(fit).runner == CLI_RUNNER_NONE;
    if (fit->has_kernels && fit->problem_path != NULL)
        cli_misuse(state, "--kernels is for models: a problem has none");
    if (nobody && fit->problem_path == NULL && !cli_costs_given(&fit->from))
        cli_misuse(state, "--kernels none: nothing is measured then; give --costs model:DEVICE");
    if (fit->runs > 0 && (nobody || fit->problem_path != NULL))
        cli_misuse(state, "--run is for what runs here: measured costs, those of a file, or "
                          "--kernels onednn");
    if (fit->runs > 0 && fit->options.budget == 0) cli_misuse(state, "--run: which? --budget");
    if (fit->from.device != NULL && fit->save_costs != NULL)
        cli_misuse(state, "--costs model:... measures nothing: leave --save-costs out");
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
        fit_check(state, fit);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char fit_doc[] =
    "Finds the fastest program of MODEL whose every byte fits in a budget: what is kept, computed "
    "again, copied to the host, compressed.\v"
    "Examples:\n"
    "  tenure fit resnet50.onnx --train --batch 32 --budget 2GiB\n"
    "  tenure fit gpt2.onnx --train --batch 8 --budget 16GiB --costs model:a100-40 --link 12GB/s\n"
    "  tenure fit unet.onnx --train --batch 4 --sweep 20\n"
    "  tenure fit --problem chain.json --budget 34 --pass exact\n\n"
    "Exit status: 0 it fits; 1 proved that nothing fits, or nothing found: with the least that was "
    "found and who binds it; 2 bad usage or input; 3 stopped before an answer; 4 internal error.";

/* --- the command --- */

static void fit_line(void *self, const char *line) {
    (void)self;
    cli_put_text(stdout, line);
    putchar('\n');
}

static tn_status fit_batches(cli_fit *fit, tn_error *error) {
    uint64_t plain, fitted;
    TN_TRY(cli_fit_batches(fit, &plain, &fitted, error));
    if (fitted == 0) TN_FAIL(error, TN_E_EXHAUSTED, "not even a batch of 1 was made to fit");
    if (fit->json) return TN_OK;
    printf("%-18s %llu\n", "largest as it is", (unsigned long long)plain);
    printf("%-18s %llu", "largest by fitting", (unsigned long long)fitted);
    if (plain > 0) printf(", %.2f times", (double)fitted / (double)plain);
    printf("\n");
    return TN_OK;
}

/* There is a curve, but no point of it keeps to the budget, and time was up before one was found.
 */
static tn_status fit_curve(cli_fit *fit, tn_error *error) {
    tn_error unwanted;
    fit->options.budget = 0;
    tn_status status = cli_fit_print(fit, &unwanted);
    return status != TN_OK ? status : error->status;
}

static tn_status fit_answer(cli_fit *fit, tn_error *error) {
    if (fit->max_batch) {
        TN_TRY(fit_batches(fit, error));
    } else {
        TN_TRY(cli_fit_open(fit, error));
        tn_status status = cli_fit_solve(fit, error);
        if (status == TN_E_STOPPED && fit->result_count > 0 && fit->result_count == fit->sweep)
            return fit_curve(fit, error);
        TN_TRY(status);
    }
    if (fit->runs > 0) TN_TRY(cli_fit_run(fit, error));
    TN_TRY(cli_fit_print(fit, error));
    return cli_fit_write(fit, error);
}

static int fit_code(const cli_fit *fit) {
    const tn_fit_result *it = &fit->results[fit->chosen];
    if (!cli_interrupted() || (it->time_bound > 0 && it->time == it->time_bound)) return 0;
    return cli_tell_interrupted(it->time, it->time_bound);
}

static const struct argp_child fit_children[] = {{&cli_input_run_argp, 0, "Reading the model:", 0},
                                                 {&cli_training_argp, 0, "Training:", 0},
                                                 {&cli_choices_argp, 0, "Running it:", 0},
                                                 {0}};
static const struct argp fit_parser = {fit_options,  fit_parse, "MODEL", fit_doc,
                                       fit_children, 0,         0};

static int fit_run(int count, char **words) {
    tn_context context = cli_context();
    cli_fit fit = {.input = {.import = TN_IMPORT_OPTIONS_INIT},
                   .training = CLI_TRAINING_INIT,
                   .choices = CLI_CHOICES_INIT,
                   .options = TN_FIT_OPTIONS_INIT};
    tn_error error = {0};
    fit.input.import.context = fit.choices.plan.context = &context;
    cli_parse(&cli_command_fit, count, words, &fit);
    context.follow_links = cli_follows_links();
    if (fit.explain) fit.options.explain = fit_line;
    if (fit.problem_path != NULL) cli_progress_plain_costs();
    cli_interrupt_ends_work();
    tn_status status = fit_answer(&fit, &error);
    int code =
        status == TN_OK ? fit_code(&fit) : cli_claims_fail(&fit.answer, fit.input.path, &error);
    if (status == TN_E_INFEASIBLE || status == TN_E_EXHAUSTED) cli_fit_print_least(&fit);
    cli_fit_close(&fit);
    return cli_finish(code);
}

const cli_command cli_command_fit = {
    .name = "fit",
    .summary = "the fastest program of a model that keeps to a budget of bytes",
    .first = "budget train batch optimizer sweep max-batch link costs output json",
    .parser = &fit_parser,
    .run = fit_run,
};
