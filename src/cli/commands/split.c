/* split.c - `tenure split`: writes a model with operators in tiles, for unmodified runtimes. */
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/command_line/combine.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include <tenure/rewrite.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SPLIT_FILE_SHARE 0.25 /* limit of the extra work, as a fraction, without --budget */

enum {
    SPLIT_FILE_BUDGET = 400,
    SPLIT_FILE_WORK,
    SPLIT_FILE_PLAN,
    SPLIT_FILE_HEAD,
    SPLIT_FILE_TARGET,
    SPLIT_FILE_KERNELS,
    SPLIT_FILE_TIMEOUT,
    SPLIT_FILE_WORK_LIMIT,
    SPLIT_FILE_JSON
};

#define SPLIT_FILE_OPTIONS(X)                                                                      \
    X(SPLIT_FILE_BUDGET, "budget", "SIZE",                                                         \
      "find the tiling with least work within this many bytes; for .tflite of the whole arena, "   \
      "for .onnx of the activations")                                                              \
    X(SPLIT_FILE_WORK, "extra-work", "SHARE",                                                      \
      "most additional work, such as 10% or 0.1 of the model's; a copied byte counts as two "      \
      "operations; without --budget, minimize memory within it (default: 25%; no limit with "      \
      "--budget)")                                                                                 \
    X('o', "output", "FILE",                                                                       \
      "write the tiled model, .tflite or .onnx like the input (default: only print the result)")   \
    X(SPLIT_FILE_PLAN, "plan", NULL,                                                               \
      "for .tflite: plan the tensors, and write the plan into the file")                           \
    X(SPLIT_FILE_HEAD, "head", NULL,                                                               \
      "for .tflite: count only tensors and scratch, for a runtime with a separate arena for "      \
      "persistent data")                                                                           \
    X(SPLIT_FILE_TARGET, "target", "NAME", "processor: " CLI_PROCESSORS " (default: cortex-m4)")   \
    X(SPLIT_FILE_KERNELS, "kernels", "LIBRARY",                                                    \
      "for .tflite: kernels that determine the scratch memory: " CLI_TFLM_KERNELS_FORM             \
      " (default: any)")                                                                           \
    X(SPLIT_FILE_TIMEOUT, "timeout", "TIME",                                                       \
      "stop after this time (10s, 500ms, 2m) with the smallest model so far (default: no limit)")  \
    X(SPLIT_FILE_WORK_LIMIT, "work-limit", "N",                                                    \
      "stop after N units of work, with the same answer on every machine (default: no limit)")     \
    X(SPLIT_FILE_JSON, "json", NULL, "print one JSON object instead of the table")

typedef struct split_file_arguments {
    const char *input, *output, *processor;
    tn_export_options options;
    cli_input sizes; /* options that set the sizes of the model's inputs */
    cli_tflm_kernels kernels;
    bool json;
    double timeout_s; /* limit of the search time in seconds; 0: no limit */
} split_file_arguments;

static const struct argp_option split_file_options[] = {SPLIT_FILE_OPTIONS(CLI_OPTION){0}};

/* Checks the paths of input and output, and sets the defaults. */
static void split_file_check(split_file_arguments *arguments, struct argp_state *state) {
    if (arguments->input == NULL) cli_misuse(state, "which model?");
    bool tflite = tn__has_suffix(arguments->input, ".tflite");
    if (!tflite && !tn__has_suffix(arguments->input, ".onnx"))
        cli_misuse(state, "'%s' is not a .tflite or .onnx model", cli_shown_path(arguments->input));
    if (arguments->output != NULL && strcmp(arguments->output, "-") == 0)
        arguments->output = tflite ? "-.tflite" : "-.onnx";
    if (arguments->output != NULL &&
        !tn__has_suffix(arguments->output, tflite ? ".tflite" : ".onnx"))
        cli_misuse(state, "-o %s: the output must end in %s, like the input", arguments->output,
                   tflite ? ".tflite" : ".onnx");
    cli_condition_set(CLI_IF_TFLITE, tflite);
    cli_condition_set(CLI_IF_ONNX, !tflite);
    if (arguments->options.budget == 0 && !(arguments->options.share > 0))
        arguments->options.share = SPLIT_FILE_SHARE;
    const tn_import_options *sizes = &arguments->sizes.import;
    arguments->options.dims = sizes->dims;
    arguments->options.dim_count = sizes->dim_count;
    arguments->options.input_shapes = sizes->input_shapes;
    arguments->options.input_shape_count = sizes->input_shape_count;
    cli_tflm_kernels_check(state, &arguments->kernels, arguments->processor);
    if (arguments->output != NULL) arguments->output = cli_standard_output(arguments->output);
    arguments->options.micro = cli_tflm_options(arguments->processor, &arguments->kernels, true);
}

static error_t split_file_parse(int key, char *value, struct argp_state *state) {
    split_file_arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->sizes;
        return 0;
    case SPLIT_FILE_BUDGET:
        arguments->options.budget = cli_size(state, "budget", value);
        if (arguments->options.budget == 0) cli_misuse(state, "--budget: the size must be above 0");
        return 0;
    case SPLIT_FILE_WORK:
        arguments->options.share = cli_extra_work(state, value);
        if (!(arguments->options.share > 0))
            cli_misuse(state, "--extra-work: tiles need some extra work; give more than 0");
        return 0;
    case SPLIT_FILE_PLAN:
        arguments->options.plan = true;
        return 0;
    case SPLIT_FILE_HEAD:
        arguments->options.head = true;
        return 0;
    case SPLIT_FILE_TARGET:
        arguments->processor = cli_processors[cli_choice(state, "target", value, cli_processors)];
        return 0;
    case SPLIT_FILE_KERNELS:
        arguments->kernels = cli_tflm_kernels_parse(state, value);
        return 0;
    case SPLIT_FILE_TIMEOUT:
        arguments->timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case SPLIT_FILE_WORK_LIMIT:
        arguments->options.work_limit = cli_number(state, "work-limit", value);
        return 0;
    case SPLIT_FILE_JSON:
        arguments->json = true;
        return 0;
    case 'o':
        cli_path_once(state, "-o", &arguments->output, value);
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->input != NULL)
            cli_misuse(state, "give only one model; '%s' is a second one", value);
        arguments->input = cli_standard_input(state, value);
        return 0;
    case ARGP_KEY_END:
        split_file_check(arguments, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- output --- */

static const cli_facts split_file_facts = {
    .name = "split",
    .width = 22,
    .indent = 2,
    .cell = -28,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model"),
        CLI_FACT(YES, "found", NULL,
                 "false: no tiling is within the budget, and the other members describe the "
                 "smallest one"),
        CLI_FACT(BYTES, "whole", "activations",
                 "bytes without tiles: for .tflite of the arena, or with --head of its head; for "
                 ".onnx of the activations"),
        CLI_FACT(BYTES, "parts", "| ", "the same with tiles"),
        CLI_FACT(BYTES, "whole_arena", "arena", "for .tflite: bytes of the arena without tiles"),
        CLI_FACT(BYTES, "arena", "| ", "the same with tiles"),
        CLI_FACT(BYTES, "whole_head", "  tensors and scratch",
                 "for .tflite: bytes of the head of the arena without tiles"),
        CLI_FACT(BYTES, "head", "| ", "the same with tiles"),
        CLI_FACT(BYTES, "whole_tail", "  persistent data",
                 "for .tflite: bytes of the tail of the arena without tiles"),
        CLI_FACT(BYTES, "tail", "| ", "the same with tiles"),
        CLI_FACT(BYTES, "whole_file", "file", "bytes of the file without tiles"),
        CLI_FACT(BYTES, "file", "| ", "the same with tiles"),
        CLI_FACT(COUNT, "whole_operators", "operators", "operators without tiles"),
        CLI_FACT(COUNT, "operators", "| ", "operators with tiles"),
        CLI_FACT(COUNT, "regions", "regions in tiles", "regions of operators in tiles"),
        CLI_FACT(SHARE, "extra_operations", "extra operations",
                 "additional operations as a fraction; negative if the original operators compute "
                 "rows that no operator reads"),
        CLI_FACT(BYTES, "copied", "copied", "bytes written by slices, padding and concatenations"),
        CLI_FACT(SHARE, "work", "extra work",
                 "additional work as a fraction: operations, and two for each copied byte; null: "
                 "the model has no operations"),
        CLI_FACT(COUNT, "tried", NULL, "candidates that were written and measured"),
        CLI_FACTS_END}};

static void split_file_add_sizes(cli_answer *answer, const tn_export_report *report, bool tflite) {
    cli_add_line(answer, "", "%-28s %s", "as it is", "in parts");
    if (!tflite || cli_answer_table(answer) == NULL) {
        cli_add(answer, "whole", report->whole);
        cli_add(answer, "parts", report->parts);
    }
    if (tflite) {
        cli_add(answer, "whole_arena", report->whole_arena.total);
        cli_add(answer, "arena", report->arena.total);
        cli_add(answer, "whole_head", report->whole_arena.head);
        cli_add(answer, "head", report->arena.head);
        cli_add(answer, "whole_tail", report->whole_arena.tail);
        cli_add(answer, "tail", report->arena.tail);
    }
    cli_add(answer, "whole_file", report->whole_bytes);
    cli_add(answer, "file", report->file_bytes);
    cli_add(answer, "whole_operators", report->whole_ops);
    cli_add(answer, "operators", report->ops);
}

static tn_status split_file_print(const split_file_arguments *arguments,
                                  const tn_export_report *report, bool found, tn_error *error) {
    double whole = (double)report->whole_flops;
    cli_answer answer;
    cli_answer_begin(&answer, &split_file_facts, arguments->json);
    cli_add_word(&answer, "input", cli_shown_path(arguments->input));
    cli_add(&answer, "found", found);
    cli_add_brief(&answer, "%" PRIu64 " of %" PRIu64 " bytes, %u region%s", report->parts,
                  report->whole, report->regions, report->regions == 1 ? "" : "s");
    split_file_add_sizes(&answer, report, tn__has_suffix(arguments->input, ".tflite"));
    cli_add(&answer, "regions", report->regions);
    if (report->regions == 0)
        cli_add_as(&answer, "none; it fits without tiles");
    else
        cli_add_more(&answer, "%.2f x less memory",
                     report->parts > 0 ? (double)report->whole / (double)report->parts : 0);
    cli_add_real(&answer, "extra_operations", whole > 0 ? (double)report->flops / whole - 1 : 0);
    cli_add(&answer, "copied", report->moved);
    cli_add_real(&answer, "work", report->work);
    if (isfinite(report->work)) cli_add_brief(&answer, ", %+.1f %% work", 100 * report->work);
    cli_add(&answer, "tried", report->tried);
    if (arguments->output != NULL) cli_add_text(&answer, "  wrote %s\n", arguments->output);
    return cli_answer_end(&answer, error);
}

static void split_file_print_binding(const tn_export_report *report) {
    fputs("  the tensors at the peak of the smallest tiling found:\n", stderr);
    for (uint32_t i = 0; i < TN_EXPORT_BINDING && report->binding[i][0] != '\0'; i++)
        fprintf(stderr, "    %s\n", report->binding[i]);
}

static const char split_file_doc[] =
    "Writes MODEL (.tflite, .onnx) with its operators in tiles, so that unmodified TensorFlow Lite "
    "Micro or ONNX Runtime execute it in less memory. The result has ordinary slices, padding, "
    "convolutions and concatenations; outputs are the same, and weights are stored once. The "
    "memory of the copies is counted.\v"
    "Examples:\n"
    "  tenure split person.tflite --budget 48KiB -o small.tflite\n"
    "  tenure split person.tflite --extra-work 10% --plan -o small.tflite\n"
    "  tenure split model.onnx --extra-work 25% -o small.onnx\n"
    "  tenure split model.onnx --dim N=1 --budget 8MiB -o small.onnx\n\n"
    "Exit status: 0 done, 1 no tiling was found within the budget, 2 bad usage or input, 3 stopped "
    "before an "
    "answer, 4 internal error.";

static const struct argp_child split_file_children[] = {
    {&cli_input_sizes_argp, 0, "Reading an .onnx model:", 0}, {0}};
static const struct argp split_file_parser = {
    split_file_options, split_file_parse, "MODEL", split_file_doc, split_file_children, 0, 0};

static int split_file_run(int count, char **words) {
    tn_context context = cli_context();
    tn_error error = {0};
    tn_export_report report = {0};
    split_file_arguments arguments = {.options = TN_EXPORT_OPTIONS_INIT,
                                      .processor = cli_processors[0],
                                      .kernels = {.library = TN_MICRO_ANY}};
    arguments.options.context = &context;
    cli_parse(&cli_command_split, count, words, &arguments);
    cli_context_read(&context);
    cli_interrupt_ends_work();
    if (arguments.timeout_s > 0) cli_deadline(cli_clock() + arguments.timeout_s, NULL);
    tn_status status =
        tn_split_file(arguments.input, arguments.output, &arguments.options, &report, &error);
    cli_progress_end();
    if (status == TN_OK && cli_is_late())
        cli_note("time was up: a longer search may find a smaller model");
    else if (status == TN_OK && report.stopped)
        cli_note("the work limit was reached: a longer search may find a smaller model");
    cli_deadline(0, NULL);
    tn_error ignored; /* an error of printing is ignored: an earlier error is reported */
    if (status == TN_OK)
        status = split_file_print(&arguments, &report, true, &error);
    else if (status == TN_E_EXHAUSTED && arguments.json)
        (void)split_file_print(&arguments, &report, false, &ignored);
    int code = status == TN_OK ? 0 : cli_fail(&error);
    if (status == TN_E_EXHAUSTED) split_file_print_binding(&report);
    if (status == TN_OK && cli_interrupted()) code = cli_print_interrupted(report.parts, 0);
    cli_input_release(&arguments.sizes);
    return cli_finish(code);
}

const cli_command cli_command_split = {
    .name = "split",
    .summary = "write a model with its operators in tiles, which runs in less memory",
    .first = "output budget extra-work plan head target kernels json",
    .answers = (const cli_facts *const[]){&split_file_facts, NULL},
    .parser = &split_file_parser,
    .run = split_file_run,
};
