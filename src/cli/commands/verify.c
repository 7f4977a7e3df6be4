/* verify.c - `tenure verify`: checks a plan of any tool for a model or problem.
 *
 * A .json plan of Tenure contains all information that is needed to check it (plan_file.h). Its
 * options reproduce the graph and the program from the model, and each live range is found by the
 * index of its tensor. The rows of any other plan are matched by name (plan/match_rows.c). The
 * command then verifies the layout. For a .json plan it also checks that the tensors in the
 * document agree with the buffers.
 */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/answer/model_facts.h"
#include "cli/model/file_kind.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/plan_file.h"
#include "cli/plan/plan.h"
#include "cli/traces/foreign.h"
#include "report/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERIFY_PLAN = 400, VERIFY_FORM, VERIFY_TRAIN, VERIFY_BATCH, VERIFY_JSON };

#define VERIFY_OPTIONS(X)                                                                          \
    X(VERIFY_PLAN, "plan", "FILE",                                                                 \
      "the plan: .json, .csv with offsets, or a solution of dsa-solver (default: the plan inside " \
      "a .tflite model, written by any tool)")                                                     \
    X(VERIFY_FORM, "form", "offsets|objects",                                                      \
      "form of the plan: offsets, or objects for a .csv with shared objects (default: offsets)")   \
    X(VERIFY_TRAIN, "train", NULL,                                                                 \
      "the plan is for a training step of the model; a .json plan records this")                   \
    X(VERIFY_BATCH, "batch", "N",                                                                  \
      "batch size of an .onnx or .pt2 model, the first dimension of its inputs; a .json plan "     \
      "records it "                                                                                \
      "(default: as in the file)")                                                                 \
    X(VERIFY_JSON, "json", NULL, "print one JSON object instead of a sentence")

static const struct argp_option verify_options[] = {VERIFY_OPTIONS(CLI_OPTION){0}};

static error_t verify_parse(int key, char *value, struct argp_state *state) {
    cli_verify *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->input;
        state->child_inputs[1] = &arguments->training;
        return 0;
    case VERIFY_TRAIN:
        arguments->trains = true;
        return 0;
    case VERIFY_BATCH:
        (void)cli_input_apply(&arguments->input, "batch", value);
        return 0;
    case VERIFY_PLAN:
        arguments->plan_path = cli_standard_input(state, value);
        cli_refuse_kind(state, arguments->plan_path);
        return 0;
    case VERIFY_FORM:
        arguments->objects = cli_objects_form(state, value);
        return 0;
    case VERIFY_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        cli_input_take(&arguments->input, state, "input", value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->input.path == NULL)
            cli_misuse(state, "no input given; pass the file of a model or problem");
        if (arguments->plan_path == NULL &&
            (arguments->objects || (!tn__has_suffix(arguments->input.path, ".tflite") &&
                                    !tn_foreign_recognises(arguments->input.path))))
            cli_misuse(state, "no plan given; add --plan FILE");
        if (arguments->trains) arguments->input.training = &arguments->training;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- output --- */

/* The answer for people is the brief line, one sentence. */
static const cli_facts verify_facts = {
    .name = "verify",
    .sentence = true,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model or problem"),
        CLI_FACT(WORD, "plan", NULL, "path of the plan"), CLI_FACTS_ALSO(&cli_kernels_facts),
        CLI_FACT(YES, "valid", NULL, "whether the plan is valid for the input"),
        CLI_FACT_BRIEF(WORD, "conflict", NULL, "not valid: @", "the first conflict, or null"),
        CLI_FACT_BRIEF(COUNT, "buffers", NULL, "valid: @ buffers",
                       "if valid: number of buffers that the plan places"),
        CLI_FACT_BRIEF(BYTES, "peak", NULL, "@", "if valid: bytes up to the end of the buffers"),
        CLI_FACT_BRIEF(BYTES, "lower_bound", NULL, "; the lower bound is @",
                       "no layout of these buffers takes less; null: the plan leaves tensors to "
                       "the runtime"),
        CLI_FACT_BRIEF(SHARE, "gap", NULL, ", the gap @", "`peak` / `lower_bound` - 1, or null"),
        CLI_FACT_BRIEF(COUNT, "reuse_cost", NULL, ", reuse cost @",
                       "for problems with reuse costs: the sum of the costs of the pairs that "
                       "share bytes"),
        CLI_FACT_BRIEF(
            COUNT, "waits", NULL, ", waits @",
            "if the order of the operators is known: the waits that the plan adds to it"),
        CLI_FACT(
            COUNT, "time", NULL,
            "if the order of the operators is known: the time of the program with these waits"),
        CLI_FACT_BRIEF(COUNT, "in_tail", NULL, "; @ variable tensors are placed in the tail",
                       "number of tensors that the plan leaves to the tail of the arena"),
        CLI_FACTS_ALSO(&cli_foreign_verify_facts), CLI_FACTS_ALSO(&cli_objects_verify_facts),
        CLI_FACTS_END}};

static double verify_gap(const tn_layout *layout) {
    return layout->lower_bound == 0 ? 0 : (double)layout->peak / (double)layout->lower_bound - 1;
}

static void verify_add_partial(cli_answer *answer, const cli_verify *arguments,
                               const tn_layout *layout) {
    cli_add(answer, "buffers", layout->body_count - arguments->tail_count);
    cli_add_brief(answer, " in a head of ");
    cli_add(answer, "peak", arguments->head);
    cli_add_brief(answer, ", scratch included");
    cli_add_null(answer, "lower_bound");
    cli_add_null(answer, "gap");
    cli_add_if(answer, "in_tail", arguments->tail_count);
}

static void verify_add_whole(cli_answer *answer, const tn_problem *problem,
                             const tn_layout *layout) {
    uint32_t costs;
    cli_add(answer, "buffers", layout->body_count);
    cli_add_brief(answer, " in ");
    cli_add(answer, "peak", layout->peak);
    cli_add(answer, "lower_bound", layout->lower_bound);
    cli_add_real(answer, "gap", verify_gap(layout));
    tn_problem_reuse_costs(problem, &costs);
    if (costs > 0) cli_add(answer, "reuse_cost", layout->reuse_cost);
    tn_problem_events(problem, &costs);
    if (costs > 0) cli_add(answer, "waits", layout->waits);
    if (costs > 0) cli_add(answer, "time", layout->time);
}

/* Adds the kernels for which the plan was checked, as a line "for KERNELS". */
static void verify_add_kernels(cli_answer *answer, const tn_report_kernels *kernels) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_whom(&text, kernels);
    cli_add_break(answer);
    if (!text.failed) cli_add_brief(answer, "for %s", text.data);
    tn__text_release(&text);
}

static int verify_print(const cli_verify *arguments, tn_status status, const tn_layout *layout) {
    const cli_input *input = &arguments->input;
    tn_report_kernels described;
    cli_answer answer;
    if (status != TN_OK && status != TN_E_CONFLICT) return cli_fail(arguments->error);
    cli_progress_end();
    cli_answer_begin(&answer, &verify_facts, arguments->json);
    cli_add_word(&answer, "input", cli_shown_path(input->path));
    cli_add_word(&answer, "plan",
                 cli_shown_path(arguments->plan_path != NULL ? arguments->plan_path : input->path));
    const tn_report_kernels *kernels =
        input->occupancy != NULL
            ? cli_kernel_target_report(&input->target, input->setup, &described)
            : NULL;
    if (input->occupancy != NULL) cli_kernels_add(&answer, kernels);
    cli_add(&answer, "valid", status == TN_OK);
    cli_add_word(&answer, "conflict", status == TN_OK ? NULL : arguments->error->message);
    if (status == TN_OK && arguments->is_partial)
        verify_add_partial(&answer, arguments, layout);
    else if (status == TN_OK)
        verify_add_whole(&answer, input->problem, layout);
    if (status == TN_OK && !arguments->is_partial && input->occupancy != NULL &&
        !cli_tone_asked().brief)
        verify_add_kernels(&answer, kernels);
    if (input->foreign != NULL && arguments->plan_path == NULL)
        cli_foreign_verify_add(&answer, input->foreign, status == TN_OK);
    tn_status printed = cli_answer_end(&answer, arguments->error);
    return printed != TN_OK ? cli_fail(arguments->error) : tn_status_exit_code(status);
}

/* Checks a plan of another tool in a file that also has the buffers of the plan. Returns the exit
 * status. */
static int verify_foreign(cli_verify *arguments) {
    cli_input *input = &arguments->input;
    int code;
    tn_status status = cli_foreign_check(input, arguments->error);
    code = verify_print(arguments, status, &input->own_layout);
    cli_input_release(input);
    return cli_finish(code);
}

static const char verify_doc[] =
    "Checks a plan of any tool against INPUT, a model (.onnx, .pt2, .tflite) or a problem (.csv, "
    ".json). "
    "Without --plan, checks the plan that INPUT contains: a .tflite model, a folder of XLA dumps, "
    "a "
    ".pte program of ExecuTorch. Prints the first conflict with both buffers, their bytes and the "
    "step.\v"
    "Examples:\n"
    "  tenure verify resnet50.onnx --plan plan.json\n"
    "  tenure verify buffers.csv --plan theirs.csv\n"
    "  tenure verify kernel.json --plan kernel.solution.json\n"
    "  tenure verify resnet50.onnx --plan plan.csv --kernels onednn:2\n"
    "  tenure verify planned.tflite\n"
    "  tenure verify xla_dump/\n"
    "  tenure verify textures.csv --form objects --plan objects.csv\n\n"
    "Exit status: 0 valid, 1 not valid, 2 bad usage or input, or the input does not show whether "
    "the "
    "plan is valid, 4 internal error.";

static int verify_objects(cli_verify *arguments) {
    cli_answer answer;
    cli_answer_begin(&answer, &verify_facts, arguments->json);
    cli_add_word(&answer, "input", cli_shown_path(arguments->input.path));
    cli_add_word(&answer, "plan", cli_shown_path(arguments->plan_path));
    tn_status status =
        cli_objects_verify(&arguments->input, arguments->plan_path, &answer, arguments->error);
    bool printed = status == TN_OK || status == TN_E_CONFLICT;
    if (!printed)
        cli_answer_release(&answer);
    else if (cli_answer_end(&answer, arguments->error) != TN_OK)
        printed = false;
    int code = printed ? tn_status_exit_code(status) : cli_fail(arguments->error);
    cli_input_release(&arguments->input);
    return cli_finish(code);
}

/* The help filter: describes shared options as this command uses them. */
static char *verify_help(int key, const char *text, void *input) {
    (void)input;
    switch (key) {
    case CLI_ORDER:
        return strdup("order of the operators that the plan was made for: one of `tenure list "
                      "orders`, or auto; a .json plan of Tenure records it (default: file)");
    case CLI_FUSE_CONCAT:
        return strdup("assume fused concatenations for tensors that the plan does not place; if it "
                      "places both tensors, their places decide");
    default:
        return (char *)(uintptr_t)text;
    }
}

static const struct argp_child verify_children[] = {
    {&cli_input_argp, 0, "Reading the input:", 0}, {&cli_training_argp, 0, "Training:", 0}, {0}};
static const struct argp verify_parser = {verify_options,
                                          verify_parse,
                                          "INPUT [--plan FILE]",
                                          verify_doc,
                                          verify_children,
                                          verify_help,
                                          0};

/* Copies the reuse cost, the waits and the time that the plan states into the layout, so that the
 * verifier compares them with its own results. For a model, the events of its program are added,
 * which the verifier needs for waits and time. */
static tn_status verify_claims(cli_verify *arguments, tn_layout *layout, tn_error *error) {
    const cli_plan_file *file = &arguments->file;
    cli_input *input = &arguments->input;
    if (file->has_reuse_cost) layout->reuse_cost = file->reuse_cost;
    if ((file->has_reuse_cost || file->minimises_pairs) && input->setup != NULL)
        TN_TRY(tn_setup_add_reuse_costs(input->setup, error));
    if (!file->has_waits) return TN_OK;
    if (input->setup != NULL) TN_TRY(tn_setup_add_events(input->setup, error));
    layout->workers = (uint32_t)file->workers;
    layout->waits = file->waits;
    layout->time = file->time;
    return TN_OK;
}

static int verify_run(int count, char **words) {
    tn_context context = cli_context();
    tn_error error = {0};
    tn_layout layout = {0};
    cli_verify arguments = {.input = {.import = TN_IMPORT_OPTIONS_INIT},
                            .training = CLI_TRAINING_INIT,
                            .plan_training = CLI_TRAINING_INIT,
                            .error = &error};
    arguments.input.import.context = &context;
    tn__names_init(&arguments.rows, NULL);
    cli_parse(&cli_command_verify, count, words, &arguments);
    cli_context_read(&context);
    if (arguments.objects) return verify_objects(&arguments);
    if (arguments.plan_path == NULL && tn_foreign_recognises(arguments.input.path))
        return verify_foreign(&arguments);
    tn_status status = cli_verify_load(&arguments);
    arguments.is_placed = status == TN_OK;
    if (status == TN_OK)
        status = tn_layout_from_places(arguments.input.problem, arguments.offsets, arguments.banks,
                                       &layout, &error);
    if (status == TN_OK) status = verify_claims(&arguments, &layout, &error);
    if (status == TN_OK) status = tn_layout_verify(arguments.input.problem, &layout, NULL, &error);
    if (status == TN_OK) status = cli_verify_agree(&arguments, &layout);
    if (status == TN_OK) status = cli_verify_document(&arguments, &layout);
    status = cli_verify_missing(&arguments, status);
    int code = verify_print(&arguments, status, &layout);
    tn_layout_release(&layout);
    tn__names_release(&arguments.rows);
    if (arguments.plan != NULL)
        tn_offsets_release(&context, arguments.plan_offsets, tn_problem_count(arguments.plan));
    tn_problem_destroy(arguments.plan);
    free(arguments.offsets);
    free(arguments.banks);
    free(arguments.claimed);
    free(arguments.next);
    free(arguments.turn);
    /* the input is released first, because it refers to the plan file and the program */
    cli_input_release(&arguments.input);
    tn_program_destroy(arguments.program);
    cli_plan_file_close(&arguments.file);
    return cli_finish(code);
}

const cli_command cli_command_verify = {
    .name = "verify",
    .summary = "check a plan of any tool, and print the first conflict",
    .first = "plan dim kernels form json",
    .answers = (const cli_facts *const[]){&verify_facts, NULL},
    .parser = &verify_parser,
    .run = verify_run,
};
