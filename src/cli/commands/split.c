/* split.c - `tenure split`: writes a model with its operators in tiles, for unmodified runtimes.
 */
#include "cli/combine.h"
#include "cli/split.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenure/export.h>

#include "base/base.h"
#include "cli/micro.h"

#define SPLIT_FILE_SHARE 0.25 /* default extra work without --budget */

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
    X(SPLIT_FILE_TARGET, "target", "NAME",                                                         \
      "processor: cortex-m0 to cortex-m85, or x86-64 (default: cortex-m4)")                        \
    X(SPLIT_FILE_KERNELS, "kernels", "reference|cmsis-nn|any",                                     \
      "for .tflite: kernels that determine the scratch memory: reference, cmsis-nn, or any for "   \
      "the larger of both (default: any)")                                                         \
    X(SPLIT_FILE_TIMEOUT, "timeout", "TIME",                                                       \
      "stop after this time (10s, 500ms, 2m) with the smallest model so far (default: no limit)")  \
    X(SPLIT_FILE_WORK_LIMIT, "work-limit", "N",                                                    \
      "stop after N units of work, with the same answer on every machine (default: no limit)")     \
    X(SPLIT_FILE_JSON, "json", NULL, "print one JSON object instead of the table")

typedef struct split_file_arguments {
    const char *input, *output, *target;
    tn_export_options options;
    cli_input sizes; /* of the model's inputs */
    cli_kernels kernels;
    bool json;
    double timeout_s; /* 0: no limit */
} split_file_arguments;

static const struct argp_option split_file_options[] = {SPLIT_FILE_OPTIONS(CLI_OPTION){0}};

/* Checks the files, and sets the defaults. */
static void split_file_check(split_file_arguments *arguments, struct argp_state *state) {
    if (arguments->input == NULL) cli_misuse(state, "which model?");
    bool tflite = tn__has_suffix(arguments->input, ".tflite");
    if (!tflite && !tn__has_suffix(arguments->input, ".onnx"))
        cli_misuse(state, "'%s' is not a .tflite or .onnx model", arguments->input);
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
    if (arguments->output != NULL) arguments->output = cli_standard_output(arguments->output);
    arguments->options.micro = cli_micro(arguments->target, arguments->kernels, true);
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
        arguments->options.share = cli_share(state, "extra-work", value);
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
        arguments->target =
            cli_micro_targets[cli_choice(state, "target", value, cli_micro_targets)];
        return 0;
    case SPLIT_FILE_KERNELS:
        arguments->kernels =
            (cli_kernels)CLI_CHOICE(state, "kernels", value, "reference", "cmsis-nn", "any");
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

static double split_file_extra(uint64_t parts, uint64_t whole) {
    return whole > 0 ? (double)parts / (double)whole - 1 : 0;
}

static void split_file_size(const char *name, uint64_t whole, uint64_t parts) {
    char before[TN_SIZE_TEXT_MAX], after[TN_SIZE_TEXT_MAX];
    printf("  %-22s %-28s %s\n", name, tn_size_format(whole, before), tn_size_format(parts, after));
}

/* A model without operations has no known fraction. */
static const char *split_file_work(double work, char text[static 32]) {
    if (!isfinite(work)) return "an unknown fraction of";
    snprintf(text, 32, "%+.1f %%", 100 * work);
    return text;
}

static void split_file_print(const split_file_arguments *arguments,
                             const tn_export_report *report) {
    bool tflite = tn__has_suffix(arguments->input, ".tflite");
    char moved[TN_SIZE_TEXT_MAX], work[32];
    if (cli_tone_asked().brief) {
        printf("%" PRIu64 " of %" PRIu64 " bytes, %u region%s, %s work\n", report->parts,
               report->whole, report->regions, report->regions == 1 ? "" : "s",
               split_file_work(report->work, work));
        return;
    }
    printf("  %-22s %-28s %s\n", "", "as it is", "in parts");
    if (!tflite) split_file_size("activations", report->whole, report->parts);
    if (tflite) {
        split_file_size("arena", report->whole_arena.total, report->arena.total);
        split_file_size("  tensors and scratch", report->whole_arena.head, report->arena.head);
        split_file_size("  persistent data", report->whole_arena.tail, report->arena.tail);
    }
    split_file_size("file", report->whole_bytes, report->file_bytes);
    printf("  %-22s %-28u %u\n", "operators", report->whole_ops, report->ops);
    if (report->regions == 0) {
        printf("\n  it fits without tiles\n");
    } else {
        printf("\n  %.2f x less, %u region%s; %+.1f %% operations, %s copied: %s work\n",
               report->parts > 0 ? (double)report->whole / (double)report->parts : 0,
               report->regions, report->regions == 1 ? "" : "s",
               100 * split_file_extra(report->flops, report->whole_flops),
               tn_size_format(report->moved, moved), split_file_work(report->work, work));
    }
    if (arguments->output != NULL) printf("  wrote %s\n", arguments->output);
}

static void split_file_print_json(const split_file_arguments *arguments,
                                  const tn_export_report *report, bool found) {
    printf("{\"format\":\"tenure-split\",\"version\":1,\"found\":%s,\"whole\":%" PRIu64
           ",\"parts\":%" PRIu64,
           found ? "true" : "false", report->whole, report->parts);
    if (tn__has_suffix(arguments->input, ".tflite"))
        printf(",\"whole_head\":%" PRIu64 ",\"whole_tail\":%" PRIu64 ",\"head\":%" PRIu64
               ",\"tail\":%" PRIu64,
               report->whole_arena.head, report->whole_arena.tail, report->arena.head,
               report->arena.tail);
    printf(",\"whole_file\":%" PRIu64 ",\"file\":%" PRIu64
           ",\"regions\":%u,\"whole_operators\":%u,\"operators\":%u",
           report->whole_bytes, report->file_bytes, report->regions, report->whole_ops,
           report->ops);
    printf(",\"extra_operations\":%.6f,\"copied\":%" PRIu64 ",\"work\":",
           split_file_extra(report->flops, report->whole_flops), report->moved);
    if (isfinite(report->work))
        printf("%.6f", report->work);
    else
        fputs("null", stdout);
    printf(",\"tried\":%u}\n", report->tried);
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
                                      .target = cli_micro_targets[0],
                                      .kernels = CLI_KERNELS_ANY};
    arguments.options.context = &context;
    cli_parse(&cli_command_split, count, words, &arguments);
    context.follow_links = cli_follows_links();
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
    if (arguments.json && (status == TN_OK || status == TN_E_EXHAUSTED))
        split_file_print_json(&arguments, &report, status == TN_OK);
    if (status == TN_OK && !arguments.json) split_file_print(&arguments, &report);
    int code = status == TN_OK ? 0 : cli_fail(&error);
    if (status == TN_E_EXHAUSTED) split_file_print_binding(&report);
    if (status == TN_OK && cli_interrupted()) code = cli_tell_interrupted(report.parts, 0);
    cli_input_release(&arguments.sizes);
    return cli_finish(code);
}

const cli_command cli_command_split = {
    .name = "split",
    .summary = "write a model with its operators in tiles, which runs in less memory",
    .first = "output budget extra-work plan head target kernels json",
    .parser = &split_file_parser,
    .run = split_file_run,
};
