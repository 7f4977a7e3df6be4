/* plan.c - `tenure plan`: plans the memory of a model or problem, verifies the plan, and draws
 * it. */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/answer/holders.h"
#include "cli/answer/model_facts.h"
#include "cli/command_line/combine.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/plan_file.h"
#include "cli/model/training.h"
#include "cli/plan/plan.h"
#include "cli/traces/foreign.h"
#include "report/format.h"
#include "report/plan_facts.h"
#include <tenure/report.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- printing the answer --- */

/* The facts are those of the library (report/plan_facts.h), and the table is rendered by the
 * library's format "table". The command adds the largest holders and the operators in tiles. */

#define PLAN_KIND(name, text) CLI_FACT(BYTES, text, NULL, "bytes of kind " text),
static const cli_facts plan_kinds_facts = {
    .rows = (const cli_fact[]){TN_KIND_TABLE(PLAN_KIND) CLI_FACTS_END}};
static const cli_facts plan_bank_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", NULL, "name of the bank"), CLI_FACT(BYTES, "peak", NULL, "its peak"),
        CLI_FACT(BYTES, "lower_bound", NULL, "no layout of its buffers takes less"),
        CLI_FACT(BYTES, "capacity", NULL, "its capacity, or null"),
        CLI_FACT(BYTES, "traffic", NULL, "with several banks: bytes read and written in it"),
        CLI_FACT(REAL, "bytes_per_s", NULL, "its speed, if given"), CLI_FACTS_END}};
static const cli_facts plan_seconds_facts = {
    .rows = (const cli_fact[]){CLI_FACT(SECONDS, "import", NULL, "reading the input"),
                               CLI_FACT(SECONDS, "train", NULL, "making the training step"),
                               CLI_FACT(SECONDS, "order", NULL, "ordering the operators"),
                               CLI_FACT(SECONDS, "program", NULL, "making the program"),
                               CLI_FACT(SECONDS, "occupancy", NULL, "assigning buffers"),
                               CLI_FACT(SECONDS, "plan", NULL, "planning the buffers"),
                               CLI_FACT(SECONDS, "write", NULL, "writing files"), CLI_FACTS_END}};
#define PLAN_ROW(unit, name, key, label, brief, help)                                              \
    {key, NULL, PLAN_UNIT_##unit, brief, help, PLAN_MEMBERS_##unit},
#define PLAN_UNIT_BYTES CLI_UNIT_BYTES
#define PLAN_UNIT_COUNT CLI_UNIT_COUNT
#define PLAN_UNIT_SHARE CLI_UNIT_SHARE
#define PLAN_UNIT_WORD CLI_UNIT_WORD
#define PLAN_UNIT_YES CLI_UNIT_YES
#define PLAN_UNIT_BANKS CLI_UNIT_LIST
#define PLAN_UNIT_KINDS CLI_UNIT_OBJECT
#define PLAN_UNIT_STAGES CLI_UNIT_OBJECT
#define PLAN_MEMBERS_BYTES NULL
#define PLAN_MEMBERS_COUNT NULL
#define PLAN_MEMBERS_SHARE NULL
#define PLAN_MEMBERS_WORD NULL
#define PLAN_MEMBERS_YES NULL
#define PLAN_MEMBERS_BANKS &plan_bank_facts
#define PLAN_MEMBERS_KINDS &plan_kinds_facts
#define PLAN_MEMBERS_STAGES &plan_seconds_facts
static const cli_facts plan_facts = {
    .name = "plan",
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model or problem"),
        CLI_FACTS_ALSO(&cli_kernels_facts),
        TN__PLAN_FACTS(PLAN_ROW) CLI_FACTS_ALSO(&cli_holders_facts),
        CLI_FACTS_ALSO(&cli_split_facts), CLI_FACTS_END}};

static void plan_add_fact(cli_answer *answer, const tn_report *report, tn__plan_fact_id id) {
    tn__plan_fact fact = tn__plan_fact_of(report, id);
    tn__text json;
    if (fact.absent) return;
    tn__text_init(&json, NULL);
    tn__plan_fact_json(&json, report, id, &fact);
    if (answer->style == CLI_STYLE_JSON)
        cli_add_json(answer, fact.key, json.failed ? "null" : json.data);
    else if (fact.unit == TN__PLAN_UNIT_SHARE)
        cli_add_real(answer, fact.key, fact.real);
    else
        cli_add(answer, fact.key, fact.whole);
    if (json.failed) answer->out.failed = true;
    tn__text_release(&json);
}

/* Adds the facts of the plan. The JSON has all of them. For the other styles only the facts of the
 * brief line are computed, because some facts take time to compute. */
static void plan_add(cli_answer *answer, const tn_report *report) {
    static const bool brief[] = {
#define TN_X(unit, name, key, label, words, help) (words) != NULL,
        TN__PLAN_FACTS(TN_X)
#undef TN_X
    };
    bool optimal = report->layout->verdict == TN_VERDICT_OPTIMAL;
    cli_add_word(answer, "input", cli_shown_path(report->input));
    if (report->occupancy != NULL) cli_kernels_add(answer, report->kernels);
    for (tn__plan_fact_id id = 0; id < TN__PLAN_FACT_COUNT; id++) {
        if (answer->style == CLI_STYLE_JSON || brief[id]) plan_add_fact(answer, report, id);
        if (id == TN__PLAN_PEAK)
            cli_add_brief(answer, ", %s by %s", optimal ? tn__words_verdict(report) : "valid",
                          report->layout->planner);
    }
}

static tn_status plan_put_table(tn__text *table, const tn_report *report, tn_error *error) {
    char *text;
    size_t size;
    TN_TRY(tn_report_render(report, "table", &text, &size, error));
    tn__text_add(table, text, size);
    tn_report_release(text);
    return TN_OK;
}

/* Prints the answer for the plan of a report, with the `shown` largest holders; 0 prints none.
 * `setup` is NULL for a problem. */
static tn_status plan_answer(const tn_report *report, const tn_setup *setup,
                             const cli_holders *holders, uint32_t shown, bool json,
                             tn_error *error) {
    char pieces[CLI_PIECES_MAX];
    tn_status status = TN_OK;
    cli_answer answer;
    cli_progress_end();
    cli_answer_begin(&answer, &plan_facts, json);
    tn__text *table = cli_answer_table(&answer);
    if (table != NULL)
        status = plan_put_table(table, report, error);
    else
        plan_add(&answer, report);
    if (table != NULL && shown > 0) tn__text_put(table, "\n");
    if (shown > 0) cli_holders_add(&answer, holders, shown);
    if (table != NULL && cli_pieces_words(setup, pieces)[0] != '\0')
        tn__text_printf(table, "  %s\n", pieces);
    cli_split_add(&answer, setup);
    if (status == TN_OK) return cli_answer_end(&answer, error);
    cli_answer_release(&answer);
    return status;
}

/* --- the options of `tenure plan` --- */

#define PLAN_OUTPUTS_MAX 16u /* largest number of output files; there are fewer file formats */
#define PLAN_HOLDERS_FEW 5u  /* number of holders that are printed if nothing fits */
#define PLAN_HOLDERS_MANY 20u

enum {
    PLAN_PLANNER = 400,
    PLAN_TRAIN,
    PLAN_BATCH,
    PLAN_DEVICE,
    PLAN_FORM,
    PLAN_EXPLAIN,
    PLAN_CAPACITY,
    PLAN_BUDGET,
    PLAN_THREADS,
    PLAN_SEED,
    PLAN_TIMEOUT,
    PLAN_WORK,
    PLAN_OBJECTIVE,
    PLAN_WORKERS,
    PLAN_HOLDERS,
    PLAN_SWEEP,
    PLAN_JSON
};

#define PLAN_OPTIONS(X)                                                                            \
    X(PLAN_PLANNER, "planner", "NAME", "planner: one of `tenure list planners` (default: auto)")   \
    X(PLAN_FORM, "form", "offsets|objects",                                                        \
      "form of the plan: offsets in an arena, or objects that buffers share as a whole, with the " \
      "planners of `tenure list objects` (default: offsets)")                                      \
    X(PLAN_CAPACITY, "capacity", "SIZE",                                                           \
      "find a plan whose arena is within this many bytes; exit status 1 if no plan fits "          \
      "(default: the smallest plan)")                                                              \
    X(PLAN_OBJECTIVE, "objective", "bytes|pairs|waits|time",                                       \
      "minimise the peak in bytes; or, within --capacity, the reuse cost (the sum of the costs "   \
      "of all pairs of buffers that share bytes; in a model, a pair costs 1 if an operator must "  \
      "wait before it may overwrite the bytes), the number of waits that the plan adds to the "    \
      "order of the operators, or the time of the program with these waits (default: bytes)")      \
    X(PLAN_WORKERS, "workers", "N",                                                                \
      "operators that run at once, for the time of a plan (default: no limit)")                    \
    X(PLAN_BUDGET, "budget", "SIZE", "the same for the arena and the weights together")            \
    X(PLAN_THREADS, "threads", "N",                                                                \
      "number of threads; they never change the answer (default: 1)")                              \
    X(PLAN_SEED, "seed", "N", "seed of randomised planners (default: 0)")                          \
    X(PLAN_TIMEOUT, "timeout", "TIME",                                                             \
      "stop after this time, such as 10s, 500ms or 2m, with the best plan so far (default: no "    \
      "limit)")                                                                                    \
    X(PLAN_WORK, "work-limit", "N",                                                                \
      "stop after N units of work; the result is the same on every machine (default: no limit)")   \
    X(PLAN_TRAIN, "train", NULL, "plan a training step: forward, backward, update")                \
    X(PLAN_BATCH, "batch", "N",                                                                    \
      "batch size of an .onnx or .pt2 model, the first dimension of its inputs (default: as in "   \
      "the file)")                                                                                 \
    X(PLAN_DEVICE, "device", "NAME|SIZE",                                                          \
      "check that arena and weights fit in this device: one of `tenure list hardware`, or bytes; " \
      "exit status 1 if they do not fit")                                                          \
    X(PLAN_SWEEP, "sweep", "N",                                                                    \
      "with --split: print the curve of memory against work, at most N plans from the smallest "   \
      "to the one without tiles; -o draws it with the plan of least work for --capacity, or with " \
      "the smallest. With --objective: print the curve of memory against reuse cost, waits or "    \
      "time, N plans up to --capacity; -o draws it as .svg or .html")                              \
    X('o', "output", "FILE", "write the plan as SUFFIXES; may be repeated")                        \
    X(PLAN_JSON, "json", NULL, "print one JSON object instead of the table")

typedef struct plan_arguments {
    cli_input input;
    tn_plan_options options;
    uint64_t budget; /* bytes for arena and weights together; 0: no budget */
    const char *outputs[PLAN_OUTPUTS_MAX];
    uint32_t output_count;
    bool json, objects, explain, tags;
    uint32_t holders; /* number of largest holders to print; 0: none */
    uint32_t sweep;   /* number of points of the curve; 0: make one plan instead */
    cli_training training;
    bool trains;
    const tn_hardware *device;
    uint64_t device_bytes; /* bytes that a program can use on the device; 0: no device was named */
    double deadline;       /* time on the clock of cli_clock at which --timeout ends; 0: no limit */
    /* true: the error message is that of the first plan, so hints are printed separately */
    bool hints_apart;
} plan_arguments;

static const struct argp_option plan_options[] = {
    PLAN_OPTIONS(CLI_OPTION){"holders", PLAN_HOLDERS, "N", OPTION_ARG_OPTIONAL,
                             "list the N largest tensors at the peak (default: 20)", 0},
    {"explain", PLAN_EXPLAIN, "tags", OPTION_ARG_OPTIONAL,
     "first explain the peak, list changes that would lower it (each one is planned), and explain "
     "the offsets; =tags shows step by step how memory tags would serve the program",
     0},
    {0}};

/* Sets the options for plans that are written for a microcontroller (.tflite, or .h for a .tflite
 * model). Such a plan keeps the operators of the model file and uses the alignment of the
 * runtime. */
static void plan_set_outputs(plan_arguments *arguments) {
    cli_input *input = &arguments->input;
    bool micro = false;
    for (uint32_t i = 0; i < arguments->output_count; i++) {
        const char *output = arguments->outputs[i];
        bool header = tn__has_suffix(output, ".h") && tn__has_suffix(input->path, ".tflite");
        bool inside = tn__has_suffix(output, ".tflite");
        input->wants_csv |= tn__has_suffix(output, ".csv");
        if (!header && !inside) continue;
        micro = true;
        if (inside) input->import.variables_outside = true;
        if (input->alignment == 0) input->alignment = CLI_TFLITE_ALIGNMENT;
    }
    cli_condition_set(CLI_IF_MICRO_OUTPUT, micro);
}

/* Checks the output files of a curve of waits, time or reuse cost, which can only be drawn as .svg
 * or .html. */
static void plan_check_curve(struct argp_state *state, const plan_arguments *arguments) {
    if (arguments->sweep == 0 || arguments->options.objective == TN_OBJECTIVE_BYTES) return;
    for (uint32_t i = 0; i < arguments->output_count; i++)
        if (!tn__has_suffix(arguments->outputs[i], ".svg") &&
            !tn__has_suffix(arguments->outputs[i], ".html"))
            cli_misuse(state, "-o: '%s': a curve is written as .svg or .html",
                       arguments->outputs[i]);
}

static void plan_set(struct argp_state *state, plan_arguments *arguments) {
    cli_input *input = &arguments->input;
    if (input->path == NULL)
        cli_misuse(state, "no input given; pass the file of a model or problem");
    if (arguments->trains) input->training = &arguments->training;
    input->split.sweeps =
        arguments->sweep > 0 && arguments->options.objective == TN_OBJECTIVE_BYTES;
    plan_check_curve(state, arguments);
    plan_set_outputs(arguments);
    cli_condition_set(CLI_IF_MODEL, cli_input_is_model(input));
    cli_condition_set(CLI_IF_ONNX, cli_input_takes_batch(input->path));
}

static error_t plan_parse(int key, char *value, struct argp_state *state) {
    plan_arguments *arguments = state->input;
    tn_plan_options *options = &arguments->options;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->input;
        state->child_inputs[1] = &arguments->training;
        state->child_inputs[2] = &arguments->input.split;
        state->child_inputs[3] = &arguments->input.streams;
        return 0;
    case PLAN_TRAIN:
        arguments->trains = true;
        return 0;
    case PLAN_BATCH:
        arguments->input.import.batch = (int64_t)cli_count(state, "batch", value, INT64_MAX);
        return 0;
    case PLAN_DEVICE:
        arguments->device = cli_device(state, value, &arguments->device_bytes);
        return 0;
    case PLAN_PLANNER:
        options->planner = value;
        return 0;
    case PLAN_FORM:
        arguments->objects = cli_objects_form(state, value);
        return 0;
    case PLAN_EXPLAIN:
        arguments->explain = true;
        arguments->tags = value != NULL && CLI_CHOICE(state, "explain", value, "tags") == 0;
        return 0;
    case PLAN_CAPACITY:
        options->capacity = cli_size(state, "capacity", value);
        if (options->capacity == 0) cli_misuse(state, "--capacity: the size must be above 0");
        return 0;
    case PLAN_OBJECTIVE:
        options->objective =
            (tn_objective)CLI_CHOICE(state, "objective", value, "bytes", "pairs", "waits", "time");
        return 0;
    case PLAN_WORKERS:
        options->workers = (uint32_t)cli_count(state, "workers", value, 1024);
        return 0;
    case PLAN_BUDGET:
        arguments->budget = cli_size(state, "budget", value);
        if (arguments->budget == 0) cli_misuse(state, "--budget: the size must be above 0");
        return 0;
    case PLAN_THREADS:
        options->threads = (uint32_t)cli_count(state, "threads", value, 64);
        return 0;
    case PLAN_SEED:
        options->seed = cli_number(state, "seed", value);
        return 0;
    case PLAN_TIMEOUT:
        options->timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case PLAN_WORK:
        options->work_limit = cli_number(state, "work-limit", value);
        return 0;
    case 'o':
        cli_add_output(state, arguments->outputs, &arguments->output_count, PLAN_OUTPUTS_MAX,
                       value);
        return 0;
    case PLAN_HOLDERS:
        arguments->holders = value != NULL
                                 ? (uint32_t)cli_count(state, "holders", value, UINT32_MAX)
                                 : PLAN_HOLDERS_MANY;
        return 0;
    case PLAN_SWEEP:
        arguments->sweep = (uint32_t)cli_range(state, "sweep", value, 2, CLI_CURVE_MOST);
        return 0;
    case PLAN_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        cli_input_take(&arguments->input, state, "input", value);
        return 0;
    case ARGP_KEY_END:
        plan_set(state, arguments);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The help filter: lists the registered formats in the help of -o. */
static char *plan_help(int key, const char *text, void *input) {
    (void)input;
    if (key != 'o') return (char *)text;
    char all[CLI_SUFFIXES_MAX], *made = malloc(CLI_SUFFIXES_MAX + 64);
    if (made == NULL) return (char *)text;
    snprintf(made, CLI_SUFFIXES_MAX + 64, "write the plan as %s; may be repeated",
             cli_suffixes(all));
    return made;
}

static const char plan_doc[] =
    "Plans the memory of INPUT, a model (.onnx, .pt2, .tflite), a problem (.csv, .json), or the "
    "buffers of another tool's plan (a folder of XLA dumps, a .pte program of ExecuTorch), "
    "verifies the plan, and prints its size with and without reuse of memory.\v"
    "Examples:\n"
    "  tenure plan resnet50.onnx -o plan.html\n"
    "  tenure plan unet.onnx --dim N=4 --dim H=256 --dim W=256 --json\n"
    "  tenure plan resnet50.onnx --train --batch 64 --device a100-80 -o step.html\n"
    "  tenure plan unet.onnx --split --sweep 12 -o curve.html\n"
    "  tenure plan train.onnx --order auto -o plan.json\n"
    "  tenure plan buffers.csv --capacity 1MiB --planner best-fit -o plan.csv\n"
    "  tenure plan textures.csv --form objects -o objects.csv\n"
    "  tenure plan model.pte -o better.pte\n\n"
    "Exit status: 0 planned, 1 proved not to fit, 2 bad usage or input, 3 stopped before an "
    "answer, "
    "4 internal error.";

/* --- printing the result of planning --- */

static tn_status plan_holders(const cli_input *input, cli_holders *holders, tn_error *error) {
    if (input->foreign != NULL) return cli_foreign_holders(holders, input->foreign, error);
    return input->occupancy != NULL
               ? cli_holders_of_model(holders, input->occupancy, TN_NONE, error)
               : cli_holders_of_problem(holders, input->problem, error);
}

static const cli_facts plan_refused_facts = {
    .rows = (const cli_fact[]){CLI_FACTS_ALSO(&cli_claims_facts),
                               CLI_FACTS_ALSO(&cli_holders_facts), CLI_FACTS_END}};

/* Prints the techniques with which the model would fit. `plan` has no option --allow, so the hints
 * are command lines of `tenure fit`. */
static void plan_put_hints(const plan_arguments *arguments) {
    const tn_fit_answer *answer = &arguments->input.answer;
    const bool alone = arguments->input.target.runner == CLI_RUNNER_NONE;
    if (arguments->hints_apart)
        cli_claims_put_hints(answer,
                             alone ? "`tenure fit` with --kernels none " : "`tenure fit` with ");
    else if (answer->hint_count > 0)
        cli_note(alone ? "--allow is an option of `tenure fit`; add --kernels none there"
                       : "--allow is an option of `tenure fit`");
}

/* Prints the error of a plan that failed, and returns the exit status. If the plan does not fit,
 * the function also prints the buffers that are live at the decisive step and, for a model, the
 * techniques with which it would fit. */
static int plan_fail(const plan_arguments *arguments, const tn_error *error) {
    const cli_input *input = &arguments->input;
    cli_holders holders = {0};
    cli_answer members;
    bool refused = error->status == TN_E_INFEASIBLE || error->status == TN_E_EXHAUSTED;
    bool listed = refused && input->problem != NULL && plan_holders(input, &holders, NULL) == TN_OK;
    cli_members_begin(&members, &plan_refused_facts);
    if (refused) cli_claims_add(&members, &input->answer);
    if (listed) cli_holders_add(&members, &holders, PLAN_HOLDERS_MANY);
    int code = cli_fail_with(error, refused ? cli_members_text(&members) : NULL);
    if (listed) cli_holders_print(&holders, PLAN_HOLDERS_FEW, stderr);
    if (refused && !cli_tone_asked().json) plan_put_hints(arguments);
    cli_answer_release(&members);
    cli_holders_release(&holders);
    return code;
}

/* Offsets in a problem file are constraints for the plan. A note says so, because a user may expect
 * the file to be a finished plan. */
static void plan_note_pins(const cli_input *input) {
    uint32_t pins = 0, count = input->own != NULL ? tn_problem_count(input->own) : 0;
    char text[160];
    for (tn_body_id id = 0; id < count; id++)
        pins += (tn_problem_body(input->own, id)->flags & TN_BODY_PINNED) != 0;
    if (pins == 0) return;
    snprintf(text, sizeof text, "%u of %u buffers are pinned by their %s", pins, count,
             tn__has_suffix(input->path, ".json") ? "\"pinned\": true" : "offset column");
    cli_note(text);
}

/* Returns the bytes that a device needs in addition to the arena, such as those of the weights. */
static uint64_t plan_beside(const cli_input *input) {
    if (input->setup == NULL) return 0;
    tn_setup_needs needs = tn_setup_need(input->setup);
    return needs.total - needs.arena;
}

/* Returns whether arena and weights fit into the named device, or true without a device. */
static bool plan_has_room(const plan_arguments *arguments) {
    const cli_input *input = &arguments->input;
    if (arguments->device_bytes == 0) return true;
    return tn__add_sat(input->layout->peak, plan_beside(input)) <= arguments->device_bytes;
}

static tn_status plan_print(const plan_arguments *arguments, const tn_report *report,
                            tn_error *error) {
    const cli_input *input = &arguments->input;
    cli_holders holders = {0};
    tn_status status = TN_OK;
    if (arguments->holders > 0) status = plan_holders(input, &holders, error);
    if (status == TN_OK)
        status =
            plan_answer(report, input->setup, &holders, arguments->holders, arguments->json, error);
    cli_holders_release(&holders);
    return status;
}

static tn_status plan_report(plan_arguments *arguments, tn_error *error) {
    cli_input *input = &arguments->input;
    const tn_layout *layout = input->layout;
    tn_report report = {.struct_size = sizeof report,
                        .input = cli_shown_path(input->path),
                        .problem = input->problem,
                        .layout = layout,
                        .occupancy = input->occupancy,
                        .stages = input->stages};
    double start = cli_clock();
    tn_report_kernels kernels;
    cli_words words;
    report.kernels = cli_kernel_target_report(&input->target, input->setup, &kernels);
    cli_report_model(&report, input);
    cli_foreign_writes(&report, input);
    cli_words_of(input, input->setup, &words);
    cli_report_words(&report, "plan", &words);
    report.static_bytes = plan_beside(input);
    report.streams = input->streams.count;
    report.device_bytes = arguments->device_bytes;
    if (arguments->device != NULL) report.device = arguments->device->title;
    tn_status status = words.failed ? tn__no_memory(error, "the options of the plan") : TN_OK;
    for (uint32_t i = 0; i < arguments->output_count && status == TN_OK; i++)
        status = tn_report_write(&report, arguments->outputs[i], error);
    cli_words_release(&words);
    report.options = NULL;
    report.option_count = 0;
    TN_TRY(status);
    if (arguments->output_count > 0) cli_stage(input, "write", cli_clock() - start);
    report.stage_count = input->stage_count;
    report.columns = cli_columns(stdout);
    TN_TRY(plan_print(arguments, &report, error));
    bool lists = !arguments->json && !cli_tone_asked().brief;
    for (uint32_t i = 0; i < arguments->output_count && lists; i++)
        printf("wrote %s\n", arguments->outputs[i]);
    return TN_OK;
}

/* Returns the exit status: 0; 1 if the plan does not fit into the device; 3 if Ctrl-C stopped the
 * search before the plan was proved optimal. */
static int plan_code(const plan_arguments *arguments) {
    const tn_layout *layout = arguments->input.layout;
    int code = plan_has_room(arguments) ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
    if (!cli_interrupted() || layout->verdict == TN_VERDICT_OPTIMAL) return code;
    return cli_print_interrupted(layout->peak, layout->lower_bound);
}

static int plan_objects(plan_arguments *arguments) {
    cli_objects asked = {.input = &arguments->input,
                         .options = &arguments->options,
                         .outputs = arguments->outputs,
                         .output_count = arguments->output_count,
                         .json = arguments->json};
    tn_error error = {0};
    int code = cli_objects_run(&asked, &error) == TN_OK ? 0 : cli_fail(&error);
    cli_input_release(&arguments->input);
    return cli_finish(code);
}

static int plan_curve_interrupted(void) {
    cli_progress_end();
    cli_prefix(CLI_WARNING);
    fputs("interrupted; the curve has the points found so far\n", stderr);
    return tn_status_exit_code(TN_E_STOPPED);
}

static int plan_curve(plan_arguments *arguments) {
    const cli_split_curve asked = {.input = &arguments->input,
                                   .options = &arguments->options,
                                   .count = arguments->sweep,
                                   .budget = arguments->budget,
                                   .outputs = arguments->outputs,
                                   .output_count = arguments->output_count,
                                   .json = arguments->json};
    tn_error error = {0};
    if (arguments->options.timeout_s > 0)
        cli_deadline(cli_clock() + arguments->options.timeout_s, "split");
    int code = cli_split_curve_run(&asked, &error) == TN_OK ? 0 : cli_fail(&error);
    if (cli_is_late() && code == 0)
        cli_note("the time limit was reached; the curve may have more points");
    cli_deadline(0, NULL);
    if (cli_interrupted() && code == 0) code = plan_curve_interrupted();
    cli_input_release(&arguments->input);
    return cli_finish(code);
}

static int plan_wait_curve(plan_arguments *arguments) {
    const cli_wait_curve asked = {.input = &arguments->input,
                                  .options = &arguments->options,
                                  .count = arguments->sweep,
                                  .outputs = arguments->outputs,
                                  .output_count = arguments->output_count,
                                  .json = arguments->json};
    tn_error error = {0};
    int code = cli_wait_curve_run(&asked, &error) == TN_OK ? 0 : cli_fail(&error);
    if (cli_interrupted() && code == 0) code = plan_curve_interrupted();
    cli_input_release(&arguments->input);
    return cli_finish(code);
}

static tn_status plan_explain(const plan_arguments *arguments, tn_error *error) {
    const cli_explained of = {.input = &arguments->input,
                              .options = &arguments->options,
                              .training = arguments->input.training,
                              .device = arguments->device,
                              .deadline = arguments->deadline};
    if (!arguments->explain) return TN_OK;
    return arguments->tags ? cli_explain_tags(arguments->input.occupancy, error)
                           : cli_explain_plan(&of, error);
}

static const struct argp_child plan_children[] = {{&cli_input_argp, 0, "Reading the input:", 0},
                                                  {&cli_training_argp, 0, "Training:", 0},
                                                  {&cli_split_argp, 0, "Operators in tiles:", 0},
                                                  {&cli_streams_argp, 0, "Streams and groups:", 0},
                                                  {0}};
static const struct argp plan_parser = {plan_options,  plan_parse, "INPUT", plan_doc,
                                        plan_children, plan_help,  0};

static uint64_t plan_size(const plan_arguments *arguments) {
    return arguments->budget > 0 ? arguments->budget : arguments->options.capacity;
}

/* Returns whether the plan needs a search for a budget: if tiles may be used within a limit, or if
 * the budget includes weights. The bytes of weights are known only after the model was read. */
static bool plan_is_fitted(plan_arguments *arguments) {
    /* a problem has no weights, so its budget is the capacity of the arena */
    if (!cli_input_is_model(&arguments->input)) {
        if (arguments->budget > 0) arguments->options.capacity = arguments->budget;
        return false;
    }
    return arguments->budget > 0 ||
           (arguments->input.split.asked && arguments->options.capacity > 0);
}

/* Makes the plan. --timeout and --work-limit cover the plan without tiles and the search for tiles
 * together. */
static tn_status plan_within(plan_arguments *arguments, tn_error *error) {
    const tn_plan_options *options = &arguments->options;
    if (options->timeout_s > 0) arguments->deadline = cli_clock() + options->timeout_s;
    if (plan_is_fitted(arguments))
        return cli_input_fit(&arguments->input, options, plan_size(arguments),
                             arguments->budget == 0, error);
    tn_status status = cli_input_plan(&arguments->input, options, error);
    if (status == TN_E_INFEASIBLE && cli_input_is_model(&arguments->input) &&
        arguments->input.bank_count == 0) {
        tn_error unused; /* the error is ignored, because this search only finds hints */
        arguments->hints_apart = true;
        (void)!cli_input_fit(&arguments->input, options, options->capacity, true, &unused);
    }
    if (status != TN_OK || !arguments->input.split.asked ||
        tn_setup_splits(arguments->input.setup) != NULL)
        return status;
    if (arguments->deadline > 0 && cli_clock() >= arguments->deadline)
        cli_note(
            "the time limit was reached before tiles were found; this plan does not use tiles");
    else if (options->work_limit > 0)
        cli_note("no tiles were found within the work limit; this plan does not use tiles");
    return status;
}

static int plan_run(int count, char **words) {
    tn_context context = cli_context();
    plan_arguments arguments = {.options = TN_PLAN_OPTIONS_INIT,
                                .input = {.import = TN_IMPORT_OPTIONS_INIT, .ends_work = true},
                                .training = CLI_TRAINING_INIT};
    tn_error error = {0};
    arguments.input.import.context = arguments.options.context = &context;
    cli_parse(&cli_command_plan, count, words, &arguments);
    cli_context_read(&context);
    if (arguments.objects) return plan_objects(&arguments);
    if (arguments.sweep > 0)
        return arguments.options.objective == TN_OBJECTIVE_BYTES ? plan_curve(&arguments)
                                                                 : plan_wait_curve(&arguments);
    tn_status status = plan_within(&arguments, &error);
    plan_note_pins(&arguments.input);
    if (status == TN_OK) status = plan_explain(&arguments, &error);
    if (status == TN_OK) status = plan_report(&arguments, &error);
    if (status == TN_OK) cli_foreign_note(&arguments.input);
    int code = status == TN_OK ? plan_code(&arguments) : plan_fail(&arguments, &error);
    cli_input_release(&arguments.input);
    return cli_finish(code);
}

const cli_command cli_command_plan = {
    .name = "plan",
    .summary = "plan the memory of a model or of buffers, verify the plan, draw it",
    .first = "output train batch device capacity dim order kernels holders explain json",
    .answers = (const cli_facts *const[]){&plan_facts, &cli_objects_facts, &cli_split_curve_facts,
                                          &cli_wait_curve_facts, NULL},
    .parser = &plan_parser,
    .run = plan_run,
};
