/* diff.c - `tenure diff`: compares the peaks of two models or plans, tensor by tensor.
 *
 * Each tensor that is live at the peak of the first input is paired with one of the second input.
 * Tensors are paired by name. In dumps of a compiler they are first paired by the operator of the
 * user's program and by the name without its number. The remaining tensors are paired by operator
 * and shape, as after renaming a layer, and then by operator and size. A tensor without a partner
 * is new or gone. The changes therefore add up to the change in live bytes. Any further difference
 * between the arenas is due to alignment and fragmentation.
 */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/answer/holders.h"
#include "cli/command_line/combine.h"
#include "cli/model/file_kind.h"
#include "cli/model/input.h"
#include "cli/model/plan_file.h"
#include "cli/traces/foreign.h"
#include "report/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIFF_OUTPUTS_MAX 4u
#define DIFF_LABELS 6u
#define DIFF_SHOWN 12u /* number of changes in the table, largest first; --json has all */

enum { DIFF_MAX = 400, DIFF_PLANNER, DIFF_TIMEOUT, DIFF_PROBLEM, DIFF_JSON };

#define DIFF_OPTIONS(X)                                                                            \
    X(DIFF_MAX, "max-increase", "SIZE",                                                            \
      "exit status 1 if the peak grows by more than this, in percent (2%) or bytes (default: no "  \
      "limit)")                                                                                    \
    X(DIFF_PLANNER, "planner", "NAME", "planner: one of `tenure list planners` (default: auto)")   \
    X(DIFF_TIMEOUT, "timeout", "TIME",                                                             \
      "stop planning each input after this time, such as 10s, 500ms or 2m, with the best plan so " \
      "far (default: no limit)")                                                                   \
    X(DIFF_PROBLEM, "problem", "FILE",                                                             \
      "the problem of inputs that are solutions of dsa-solver (default: an input that is not a "   \
      "solution)")                                                                                 \
    X('o', "output", "FILE",                                                                       \
      "write a page that shows both plans side by side, .html; may be repeated")                   \
    X(DIFF_JSON, "json", NULL, "print one JSON object instead of the table")

/* A tensor that is live at the peak of one of the two inputs. */
typedef struct diff_item {
    const char *name, *op;
    const tn_tensor *tensor; /* the tensor of the graph; NULL: unknown */
    /* the operator of the user's program, for a plan of another tool; NULL: unknown */
    const char *source;
    uint64_t bytes;
    uint32_t partner; /* index of its partner in the items of the other input, or TN_NONE */
} diff_item;

typedef struct diff_side {
    cli_input input;
    const tn_layout *layout; /* the plan of this input, owned by `input` */
    cli_holders holders;
    diff_item *items;
    uint32_t count;
    /* sum of the bytes of all items, which are the tensors that are live at the peak */
    uint64_t live;
} diff_side;

typedef struct diff_change {
    /* the tensor in the first and in the second input; NULL for an input that lacks the tensor */
    const diff_item *before, *after;
    int64_t bytes;
} diff_change;

typedef struct diff_arguments {
    cli_input input; /* options that apply to both inputs */
    tn_plan_options options;
    const char *paths[2], *outputs[DIFF_OUTPUTS_MAX];
    const char *problem_path; /* --problem, or NULL */
    uint32_t output_count;
    double most_ratio;   /* --max-increase as a fraction; below 0: not given */
    uint64_t most_bytes; /* --max-increase in bytes; valid if has_most_bytes */
    bool has_most_bytes, json;
    diff_side sides[2];
    diff_change *changes;
    uint32_t change_count;
} diff_arguments;

static const struct argp_option diff_options[] = {DIFF_OPTIONS(CLI_OPTION){0}};

static void diff_set_most(struct argp_state *state, diff_arguments *arguments, const char *value) {
    char *end;
    double percent = strtod(value, &end);
    if (end != value && strcmp(end, "%") == 0 && percent >= 0 && percent < 1e9) {
        arguments->most_ratio = percent / 100;
        return;
    }
    arguments->most_bytes = cli_size(state, "max-increase", value);
    arguments->has_most_bytes = true;
}

static error_t diff_parse(int key, char *value, struct argp_state *state) {
    diff_arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->input;
        return 0;
    case DIFF_MAX:
        diff_set_most(state, arguments, value);
        return 0;
    case DIFF_PLANNER:
        arguments->options.planner = value;
        return 0;
    case DIFF_TIMEOUT:
        arguments->options.timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case 'o':
        cli_add_output(state, arguments->outputs, &arguments->output_count, DIFF_OUTPUTS_MAX,
                       value);
        if (!tn__has_suffix(arguments->outputs[arguments->output_count - 1], ".html"))
            cli_misuse(state, "-o %s: the comparison can be written as .html only", value);
        return 0;
    case DIFF_PROBLEM:
        arguments->problem_path = value;
        return 0;
    case DIFF_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            cli_misuse(state, "give only two inputs; '%s' is a third one", value);
        arguments->paths[state->arg_num] = cli_standard_input(state, value);
        cli_refuse_kind(state, arguments->paths[state->arg_num]);
        return 0;
    case ARGP_KEY_END:
        if (arguments->paths[1] == NULL)
            cli_misuse(state, "two inputs are needed; pass two models or plans");
        cli_condition_set(CLI_IF_FOREIGN, tn_foreign_recognises(arguments->paths[0]) ||
                                              tn_foreign_recognises(arguments->paths[1]));
        if (arguments->problem_path != NULL && !cli_plan_file_is_solution(arguments->paths[0]) &&
            !cli_plan_file_is_solution(arguments->paths[1]))
            cli_misuse(state, "--problem has no effect: no input is a solution of dsa-solver; remove "
                              "the option");
        cli_condition_set(CLI_IF_MODEL,
                          cli_input_is_model(&(cli_input){.path = arguments->paths[0]}) ||
                              cli_input_is_model(&(cli_input){.path = arguments->paths[1]}));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- one of the two inputs --- */

/* Refuses options about planning if both inputs are plans. */
static void diff_check_planned(const diff_arguments *arguments) {
    static const char *const options[] = {"planner", "timeout"};
    for (int i = 0; i < 2; i++)
        if (strcmp(arguments->sides[i].layout->planner, "given") != 0) return;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (cli_given(options[i]))
            cli_misuse(NULL, "--%s has no effect: both inputs are plans; remove the option",
                       options[i]);
}

static tn_status diff_plan(diff_arguments *arguments, diff_side *side, tn_error *error) {
    cli_input *input = &side->input;
    return cli_input_is_model(input) ? cli_input_plan(input, &arguments->options, error)
                                     : cli_input_load_layout(input, &arguments->options, error);
}

/* Returns the problem of an input that is a solution of dsa-solver: that of --problem, else the other
 * input, unless that is a solution, too. NULL: the input is not a solution. */
static const char *diff_problem(const diff_arguments *arguments, uint32_t which) {
    const char *other = arguments->paths[!which];
    if (!cli_plan_file_is_solution(arguments->paths[which])) return NULL;
    if (arguments->problem_path != NULL) return arguments->problem_path;
    if (cli_plan_file_is_solution(other))
        cli_misuse(NULL, "both inputs are solutions of dsa-solver; add --problem FILE");
    return other;
}

static int diff_by_size(const void *a, const void *b) {
    const diff_item *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return order;
}

static tn_status diff_load(diff_arguments *arguments, uint32_t which, tn_error *error) {
    diff_side *side = &arguments->sides[which];
    side->input = arguments->input;
    side->input.path = arguments->paths[which];
    side->input.problem_path = diff_problem(arguments, which);
    TN_TRY(diff_plan(arguments, side, error));
    side->layout = side->input.layout;
    const cli_input *input = &side->input;
    TN_TRY(input->occupancy != NULL
               ? cli_holders_of_model(&side->holders, input->occupancy, TN_NONE, error)
           : input->foreign != NULL
               ? cli_foreign_holders(&side->holders, input->foreign, error)
               : cli_holders_of_problem(&side->holders, input->problem, error));
    side->count = side->holders.count;
    side->items = calloc((size_t)side->count + 1, sizeof *side->items);
    if (side->items == NULL) return tn__no_memory(error, "tensors");
    for (uint32_t i = 0; i < side->count; i++) {
        const tn_holder *row = &side->holders.rows[i];
        diff_item *item = &side->items[i];
        *item = (diff_item){.name = row->label.name,
                            .op = row->label.op,
                            .bytes = row->allocated,
                            .partner = TN_NONE};
        tn_tensor_id id = input->graph != NULL ? tn_graph_find(input->graph, item->name) : TN_NONE;
        if (id != TN_NONE) item->tensor = tn_graph_tensor(input->graph, id);
        if (input->foreign != NULL) item->source = cli_foreign_source(input->foreign, item->name);
        side->live = tn__add_sat(side->live, item->bytes);
    }
    qsort(side->items, side->count, sizeof *side->items, diff_by_size);
    return TN_OK;
}

/* --- matching --- */

typedef bool diff_alike(const diff_item *a, const diff_item *b);

/* Returns whether two values of compiler dumps come from the same operator of the user's program.
 * Numbers in names are ignored, because a compiler numbers its instructions differently in each
 * dump. */
static bool diff_same_source(const diff_item *a, const diff_item *b) {
    if (a->source == NULL || b->source == NULL || *a->source == '\0') return false;
    return cli_foreign_alike(&(cli_foreign_named){a->name, a->source},
                             &(cli_foreign_named){b->name, b->source});
}

static bool diff_same_name(const diff_item *a, const diff_item *b) {
    return a->name[0] != '\0' && strcmp(a->name, b->name) == 0;
}
static bool diff_same_shape(const diff_item *a, const diff_item *b) {
    if (a->tensor == NULL || b->tensor == NULL || strcmp(a->op, b->op) != 0) return false;
    return a->tensor->rank == b->tensor->rank && a->tensor->dtype == b->tensor->dtype &&
           (a->tensor->rank == 0 || memcmp(a->tensor->shape, b->tensor->shape,
                                           a->tensor->rank * sizeof *a->tensor->shape) == 0);
}
static bool diff_same_size(const diff_item *a, const diff_item *b) {
    return a->bytes == b->bytes && strcmp(a->op, b->op) == 0;
}

/* Pairs items for which `alike` holds, in the order of the items, which begin with the largest. The
 * cost is quadratic, but few tensors are live at a peak: tens in a network, thousands in a training
 * step. */
static void diff_match(diff_side *sides, diff_alike *alike) {
    for (uint32_t i = 0; i < sides[0].count; i++) {
        diff_item *before = &sides[0].items[i];
        for (uint32_t k = 0; k < sides[1].count && before->partner == TN_NONE; k++) {
            diff_item *after = &sides[1].items[k];
            if (after->partner != TN_NONE || !alike(before, after)) continue;
            before->partner = k;
            after->partner = i;
        }
    }
}

static int diff_by_change(const void *a, const void *b) {
    const diff_change *x = a, *y = b;
    uint64_t p = x->bytes < 0 ? 0 - (uint64_t)x->bytes : (uint64_t)x->bytes;
    uint64_t q = y->bytes < 0 ? 0 - (uint64_t)y->bytes : (uint64_t)y->bytes;
    /* tensors that grew come first */
    if ((x->bytes > 0) != (y->bytes > 0)) return x->bytes > 0 ? -1 : 1;
    if (p != q) return p > q ? -1 : 1;
    const diff_item *i = x->after != NULL ? x->after : x->before;
    const diff_item *k = y->after != NULL ? y->after : y->before;
    return strcmp(i->name, k->name);
}

static void diff_add(diff_arguments *arguments, const diff_item *before, const diff_item *after) {
    uint64_t old_bytes = before != NULL ? before->bytes : 0;
    uint64_t new_bytes = after != NULL ? after->bytes : 0;
    if (old_bytes == new_bytes) return;
    arguments->changes[arguments->change_count++] =
        (diff_change){before, after, (int64_t)(new_bytes - old_bytes)};
}

static tn_status diff_compare(diff_arguments *arguments, tn_error *error) {
    diff_side *sides = arguments->sides;
    arguments->changes =
        calloc((size_t)sides[0].count + sides[1].count + 1, sizeof *arguments->changes);
    if (arguments->changes == NULL) return tn__no_memory(error, "changes");
    diff_match(sides, diff_same_source);
    diff_match(sides, diff_same_name);
    diff_match(sides, diff_same_shape);
    diff_match(sides, diff_same_size);
    for (uint32_t i = 0; i < sides[0].count; i++) {
        const diff_item *item = &sides[0].items[i];
        diff_add(arguments, item, item->partner == TN_NONE ? NULL : &sides[1].items[item->partner]);
    }
    for (uint32_t i = 0; i < sides[1].count; i++)
        if (sides[1].items[i].partner == TN_NONE) diff_add(arguments, NULL, &sides[1].items[i]);
    qsort(arguments->changes, arguments->change_count, sizeof *arguments->changes, diff_by_change);
    return TN_OK;
}

/* --- output --- */

static bool diff_is_within(const diff_arguments *arguments) {
    uint64_t before = arguments->sides[0].layout->peak, after = arguments->sides[1].layout->peak;
    uint64_t increase = after > before ? after - before : 0;
    if (arguments->has_most_bytes && increase > arguments->most_bytes) return false;
    return arguments->most_ratio < 0 || (double)increase <= arguments->most_ratio * (double)before;
}

static double diff_ratio(const diff_arguments *arguments) {
    double before = (double)arguments->sides[0].layout->peak;
    double after = (double)arguments->sides[1].layout->peak;
    return before == 0 ? 0 : after / before - 1;
}

static const char *diff_remark(const diff_change *change, char text[160]) {
    if (change->before == NULL) return "new at the peak";
    if (change->after == NULL) return "no longer at the peak";
    if (strcmp(change->before->name, change->after->name) == 0) return "";
    snprintf(text, 160, "was '%.120s'", change->before->name);
    return text;
}

/* The facts about one input. `side` is the label of its line, and `shown` its text in the brief
 * line. */
#define DIFF_SIDE(side, shown)                                                                     \
    {                                                                                              \
        .width = DIFF_LABELS, .rows = (const cli_fact[]) {                                         \
            CLI_FACT(WORD, "input", NULL, "path of the input"),                                    \
                CLI_FACT_BRIEF(BYTES, "peak", side, shown, "bytes of the arena"),                  \
                CLI_FACT(BYTES, "lower_bound", NULL, "no layout takes less"),                      \
                CLI_FACT(BYTES, "live", NULL, "bytes that are live at the peak step"),             \
                CLI_FACTS_END                                                                      \
        }                                                                                          \
    }
static const cli_facts diff_sides_facts[] = {DIFF_SIDE("old", NULL), DIFF_SIDE("new", "@")};
static const cli_facts diff_tensor_facts = {
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(CHANGE, "change", "change", "`new` minus `old`"),
        CLI_FACT(BYTES, "old", "old", "bytes at the old peak step; 0: none"),
        CLI_FACT(BYTES, "new", "new", "bytes at the new peak step; 0: none"),
        CLI_FACT(WORD, "op", NULL, "type of the operator that defines it"),
        CLI_FACT(WORD, "old_name", NULL, "its name in the old input; null: not at the peak"),
        CLI_FACT(WORD, "new_name", NULL, "its name in the new input; null: not at the peak"),
        CLI_COLUMN(WORD, "tensor at the peak"), CLI_FACTS_END}};
static const cli_facts diff_facts = {
    .name = "diff",
    .width = DIFF_LABELS,
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "old", "the first input", &diff_sides_facts[0]),
        CLI_FACT_OF(OBJECT, "new", "the second input", &diff_sides_facts[1]),
        CLI_FACT(CHANGE, "change", "peak", "peak of `new` minus peak of `old`"),
        CLI_FACT(CHANGE, "live_change", "  live", "`live` of `new` minus `live` of `old`"),
        CLI_FACT(CHANGE, "lost_change", "  lost", "`change` - `live_change`: alignment and holes"),
        CLI_FACT(REAL, "change_ratio", NULL, "peak of `new` / peak of `old` - 1"),
        CLI_FACT(YES, "within", NULL, "whether the change is within `--max-increase`"),
        CLI_FACT_OF(LIST, "tensors",
                    "the tensors that changed; their changes add up to the change of `live`",
                    &diff_tensor_facts),
        CLI_FACTS_END}};

static void diff_add_side(cli_answer *answer, const diff_arguments *arguments, int which) {
    const diff_side *side = &arguments->sides[which];
    cli_answer_open(answer, which ? "new" : "old");
    cli_add_word(answer, "input", cli_shown_path(arguments->paths[which]));
    cli_add(answer, "peak", side->layout->peak);
    cli_add_more(answer, ", %s", cli_shown_path(arguments->paths[which]));
    cli_add(answer, "lower_bound", side->layout->lower_bound);
    cli_add(answer, "live", side->live);
    cli_answer_close(answer);
}

static void diff_add_tensor(cli_answer *answer, const diff_change *change) {
    const diff_item *before = change->before, *after = change->after;
    const diff_item *item = after != NULL ? after : before;
    char remark[160];
    cli_answer_open(answer, NULL);
    cli_add(answer, "change", (uint64_t)change->bytes);
    cli_add(answer, "old", before != NULL ? before->bytes : 0);
    cli_add(answer, "new", after != NULL ? after->bytes : 0);
    cli_add_word(answer, "op", item->op);
    cli_add_word(answer, "old_name", before != NULL ? before->name : NULL);
    cli_add_word(answer, "new_name", after != NULL ? after->name : NULL);
    cli_add_cell(answer, "tensor at the peak", "%s%s%s%s%s", item->op,
                 item->op[0] != '\0' ? " " : "", item->name,
                 *diff_remark(change, remark) ? "  " : "", diff_remark(change, remark));
    cli_answer_close(answer);
}

static void diff_add_tensors(cli_answer *answer, const diff_arguments *arguments) {
    tn__text *table = cli_answer_table(answer);
    uint32_t shown = arguments->change_count;
    if (table != NULL && shown > DIFF_SHOWN) shown = DIFF_SHOWN;
    if (table != NULL && shown > 0) tn__text_put(table, "\n");
    cli_answer_open(answer, "tensors");
    for (uint32_t i = 0; i < shown; i++) diff_add_tensor(answer, &arguments->changes[i]);
    cli_answer_close(answer);
    if (shown < arguments->change_count)
        tn__text_printf(table, "and %u more\n", arguments->change_count - shown);
    if (table != NULL && !diff_is_within(arguments))
        tn__text_put(table, "\nmore than --max-increase allows\n");
}

static tn_status diff_print(const diff_arguments *arguments, tn_error *error) {
    const diff_side *sides = arguments->sides;
    int64_t grown = (int64_t)(sides[1].layout->peak - sides[0].layout->peak);
    int64_t live = (int64_t)(sides[1].live - sides[0].live);
    double percent = 100 * diff_ratio(arguments);
    bool within = diff_is_within(arguments);
    cli_answer answer;
    cli_answer_begin(&answer, &diff_facts, arguments->json);
    cli_add_brief(&answer, "%s: ", cli_shown_path(arguments->paths[1]));
    for (int i = 0; i < 2; i++) diff_add_side(&answer, arguments, i);
    cli_add(&answer, "change", (uint64_t)grown);
    cli_add_more(&answer, ", %+.2f %%", percent);
    cli_add(&answer, "live_change", (uint64_t)live);
    cli_add(&answer, "lost_change", (uint64_t)(grown - live));
    cli_add_more(&answer, " to alignment and holes");
    cli_add_real(&answer, "change_ratio", diff_ratio(arguments));
    cli_add(&answer, "within", within);
    cli_add_brief(&answer, ", %+.2f %%%s", percent, within ? "" : ", more than allowed");
    diff_add_tensors(&answer, arguments);
    return cli_answer_end(&answer, error);
}

/* Writes a page that shows both plans to each output file. */
static tn_status diff_write(const diff_arguments *arguments, tn_error *error) {
    tn_report reports[2];
    for (int i = 0; i < 2; i++) {
        const cli_input *input = &arguments->sides[i].input;
        reports[i] = (tn_report){.struct_size = sizeof reports[i],
                                 .input = arguments->paths[i],
                                 .problem = input->problem,
                                 .layout = input->layout,
                                 .occupancy = input->occupancy};
    }
    reports[1].before = &reports[0];
    for (uint32_t i = 0; i < arguments->output_count; i++)
        TN_TRY(tn_report_write(&reports[1], arguments->outputs[i], error));
    return TN_OK;
}

static int diff_print_answer(const diff_arguments *arguments) {
    tn_error error = {0};
    cli_progress_end();
    if (diff_print(arguments, &error) != TN_OK) return cli_fail(&error);
    for (uint32_t i = 0; i < arguments->output_count && !arguments->json; i++)
        printf("wrote %s\n", arguments->outputs[i]);
    return diff_is_within(arguments) ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}

static void diff_release(diff_arguments *arguments) {
    for (int i = 0; i < 2; i++) {
        diff_side *side = &arguments->sides[i];
        cli_holders_release(&side->holders);
        cli_input_release_loaded(&side->input);
        free(side->items);
    }
    free(arguments->changes);
    cli_input_release(&arguments->input);
}

static const char diff_doc[] =
    "Compares the peaks of OLD and NEW, models (.onnx, .pt2, .tflite) or plans (.csv, .json, XLA "
    "dumps, .pte programs), and lists the tensors that changed it. Tensors are matched by name, "
    "then by operator and shape. The "
    "same files always give the same answer, so the command can be a gate in continuous "
    "integration.\v"
    "Examples:\n"
    "  tenure diff main.json branch.json --max-increase 2%\n"
    "  tenure diff main.json branch.json -o both.html\n"
    "  tenure diff v1.tflite v2.tflite --max-increase 4KiB --json\n\n"
    "Exit status: 0 compared, 1 grew by more than --max-increase, 2 bad usage or input, 3 stopped "
    "before an answer, 4 internal error.";

static const struct argp_child diff_children[] = {{&cli_input_argp, 0, "Reading the inputs:", 0},
                                                  {0}};
static const struct argp diff_parser = {diff_options,  diff_parse, "OLD NEW", diff_doc,
                                        diff_children, 0,          0};

static int diff_run(int count, char **words) {
    tn_context context = cli_context();
    diff_arguments arguments = {.options = TN_PLAN_OPTIONS_INIT,
                                .most_ratio = -1,
                                .input = {.import = TN_IMPORT_OPTIONS_INIT}};
    tn_error error = {0};
    arguments.input.import.context = arguments.options.context = &context;
    cli_parse(&cli_command_diff, count, words, &arguments);
    cli_context_read(&context);
    tn_status status = diff_load(&arguments, 0, &error);
    if (status == TN_OK) status = diff_load(&arguments, 1, &error);
    if (status == TN_OK) diff_check_planned(&arguments);
    if (status == TN_OK) status = diff_compare(&arguments, &error);
    if (status == TN_OK) status = diff_write(&arguments, &error);
    int code = status == TN_OK ? diff_print_answer(&arguments) : cli_fail(&error);
    diff_release(&arguments);
    return cli_finish(code);
}

const cli_command cli_command_diff = {
    .name = "diff",
    .summary = "compare the peaks of two models or plans, tensor by tensor",
    .first = "output max-increase dim kernels json",
    .answers = (const cli_facts *const[]){&diff_facts, NULL},
    .parser = &diff_parser,
    .run = diff_run,
};
