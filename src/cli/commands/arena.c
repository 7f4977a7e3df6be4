/* arena.c - `tenure arena`: computes the size of the tensor arena of a microcontroller.
 *
 * The arena has a head and a tail. The head comes from a plan: Tenure's own, or the plan inside the
 * model file. The tail comes from the known allocations of TensorFlow Lite Micro
 * (tn_micro_arena_of). Every number is computed twice: with the smallest and with the largest
 * scratch memory that the kernels may need.
 */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/answer/holders.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/plan_file.h"
#include "report/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the runtime rounds tensors and totals up to a multiple of this many bytes */
#define ARENA_ROUND 16u
#define ARENA_OUTPUTS_MAX 16u /* largest number of output files; there are fewer file formats */
#define ARENA_BINDING 8u      /* number of tensors that are listed if the arena does not fit */

enum { ARENA_TARGET = 400, ARENA_MAX, ARENA_PLAN, ARENA_PLANNER, ARENA_TIMEOUT, ARENA_JSON };

#define ARENA_OPTIONS(X)                                                                           \
    X(ARENA_TARGET, "target", "NAME", "processor: " CLI_PROCESSORS " (default: cortex-m4)")        \
    X(ARENA_MAX, "max", "SIZE",                                                                    \
      "check that the arena fits in this many bytes, for the file as it is, or for the file that " \
      "-o writes; exit status 1 if the known parts may need more")                                 \
    X(ARENA_PLAN, "plan", "ours|inside|none",                                                      \
      "plan to use: ours, computed now; inside, the plan in the model file; none, the one that "   \
      "the runtime makes (default: inside if the model has a plan, else ours)")                    \
    X(ARENA_PLANNER, "planner", "NAME", "planner: one of `tenure list planners` (default: auto)")  \
    X(ARENA_TIMEOUT, "timeout", "TIME",                                                            \
      "stop planning after this time, such as 10s, 500ms or 2m, with the best plan so far "        \
      "(default: no limit)")                                                                       \
    X('o', "output", "FILE",                                                                       \
      "write the plan for the largest scratch that kernels may need: .h with the whole arena, "    \
      ".tflite with the plan inside, .json .csv .html .svg; may be repeated")                      \
    X(ARENA_JSON, "json", NULL, "print one JSON object instead of the table")

typedef enum arena_plan { ARENA_AUTO, ARENA_OURS, ARENA_INSIDE, ARENA_NONE } arena_plan;

/* The arena for one end of the interval of scratch sizes: the smallest or the largest scratch. */
typedef struct arena_end {
    /* the arena with the chosen plan, and without any plan in the file */
    tn_micro_arena planned, online;
    tn_micro_arena as_is; /* the arena of the given file, with the plan that it contains, if any */
    uint64_t lower_bound; /* lower bound of the head, from Tenure's live ranges */
    uint64_t head_alignment; /* bytes that alignment adds to the tensors at the head's peak */
} arena_end;

typedef struct arena_arguments {
    cli_input input;
    tn_plan_options options;
    const char *processor;
    uint64_t max;
    arena_plan plan;
    const char *outputs[ARENA_OUTPUTS_MAX];
    uint32_t output_count;
    bool json;
    /* results */
    arena_end ends[2]; /* the arena for the smallest and for the largest scratch memory */
    tn_layout layout;  /* the plan for the largest scratch memory */
    /* with banks: the bank of the arena's tail; bank_count if the tail fits in no bank */
    uint32_t tail_bank;
    cli_holders holders; /* the tensors at the peak of the plan for the largest scratch memory */
    tn_verdict verdict;
} arena_arguments;

static const struct argp_option arena_options[] = {ARENA_OPTIONS(CLI_OPTION){0}};

/* --- options --- */

static const char *const arena_plans[] = {"auto", "ours", "inside", "none", NULL};

static arena_plan arena_whose(struct argp_state *state, const char *value) {
    return (arena_plan)(1 + cli_choice(state, "plan", value, arena_plans + 1));
}

static error_t arena_parse(int key, char *value, struct argp_state *state) {
    arena_arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->input;
        return 0;
    case ARENA_TARGET:
        arguments->processor = cli_processors[cli_choice(state, "target", value, cli_processors)];
        return 0;
    case ARENA_MAX:
        arguments->max = cli_size(state, "max", value);
        if (arguments->max == 0) cli_misuse(state, "--max: the size must be above 0");
        return 0;
    case ARENA_PLAN:
        arguments->plan = arena_whose(state, value);
        return 0;
    case ARENA_PLANNER:
        arguments->options.planner = value;
        return 0;
    case ARENA_TIMEOUT:
        arguments->options.timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case 'o':
        cli_add_output(state, arguments->outputs, &arguments->output_count, ARENA_OUTPUTS_MAX,
                       value);
        return 0;
    case ARENA_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        cli_input_take(&arguments->input, state, "input", value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->input.path == NULL) cli_misuse(state, "no model given; pass a .tflite file");
        if (!tn__has_suffix(arguments->input.path, ".tflite"))
            cli_misuse(state, "'%s' is not a .tflite model; use `tenure plan` for other models",
                       arguments->input.path);
        if (arguments->input.target.runner != CLI_RUNNER_NONE)
            cli_misuse(
                state,
                "--kernels: for a microcontroller use reference, cmsis-nn, esp-nn, hifi-nn or any");
        cli_tflm_kernels_check(state, &arguments->input.tflm_kernels, arguments->processor);
        arguments->input.processor = arguments->processor;
        if (arguments->input.statics != TN_STATIC_APART)
            cli_misuse(
                state,
                "--static: a microcontroller keeps weights in the model file; remove the option");
        if (arguments->output_count > 0) arguments->plan = ARENA_OURS;
        if (arguments->input.alignment == 0) arguments->input.alignment = CLI_TFLITE_ALIGNMENT;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- computing --- */

/* Reads the plan inside the model. If the model has none and --plan was not given, Tenure's own
 * plan is used. */
static tn_status arena_choose_plan(arena_arguments *arguments, uint64_t *offsets, tn_error *error) {
    const cli_input *input = &arguments->input;
    if (arguments->plan != ARENA_AUTO && arguments->plan != ARENA_INSIDE) return TN_OK;
    tn_status status =
        tn_tflite_read_plan(input->path, &input->import, input->graph, offsets, error);
    if (status == TN_E_UNKNOWN && arguments->plan == ARENA_AUTO) {
        arguments->plan = ARENA_OURS;
        return TN_OK;
    }
    arguments->plan = ARENA_INSIDE;
    return status;
}

static tn_status arena_plan_ours(arena_arguments *arguments, uint64_t *offsets, tn_error *error) {
    cli_input *input = &arguments->input;
    tn_layout_release(&arguments->layout);
    arguments->layout = (tn_layout){0};
    TN_TRY(tn_plan(input->problem, &arguments->options, &arguments->layout, error));
    arguments->verdict = arguments->layout.verdict;
    return tn__report_offsets(input->occupancy, &arguments->layout, offsets, error);
}

/* Finds the tensors that are live at the head's peak, and the bytes that alignment adds to them. */
static tn_status arena_bind(arena_arguments *arguments, arena_end *end, tn_error *error) {
    const tn_problem *problem = arguments->input.problem;
    int64_t step;
    TN_TRY(tn_problem_lower_bound(problem, 0, &end->lower_bound, &step, error));
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++) {
        const tn_body *body = tn_problem_body(problem, id);
        uint64_t aligned;
        if (step < body->first || step >= body->last || body->size == 0) continue;
        if (tn__align_up(body->size, ARENA_ROUND, &aligned))
            end->head_alignment += aligned - body->size;
    }
    cli_holders_release(&arguments->holders);
    return cli_holders_of_model(&arguments->holders, arguments->input.occupancy, TN_NONE, error);
}

static tn_status arena_find_end(arena_arguments *arguments, bool most, uint64_t *offsets,
                                tn_error *error) {
    cli_input *input = &arguments->input;
    arena_end *end = &arguments->ends[most];
    tn_micro_options micro = cli_tflm_options(arguments->processor, &input->tflm_kernels, most);
    TN_TRY(cli_input_occupy(input, &micro, error));
    TN_TRY(arena_bind(arguments, end, error));
    for (uint32_t id = 0; id < tn_graph_tensor_count(input->graph); id++)
        offsets[id] = TN_SIZE_UNKNOWN;
    TN_TRY(tn_micro_arena_of(input->path, &input->import, input->graph, offsets, &micro,
                             &end->online, NULL, error));
    TN_TRY(tn_micro_arena_of(input->path, &input->import, input->graph, NULL, &micro, &end->as_is,
                             NULL, error));
    if (arguments->plan == ARENA_OURS) TN_TRY(arena_plan_ours(arguments, offsets, error));
    return tn_micro_arena_of(input->path, &input->import, input->graph,
                             arguments->plan == ARENA_INSIDE ? NULL : offsets, &micro,
                             &end->planned, NULL, error);
}

/* Chooses the bank for the arena's tail: of the banks that can hold the tail, the one with the most
 * free bytes. That is usually a large and slow bank, so that fast banks stay free. */
static void arena_place_tail(arena_arguments *arguments) {
    uint64_t tail = arguments->ends[1].planned.tail, best = 0;
    arguments->tail_bank = arguments->layout.bank_count;
    for (uint32_t b = 0; b < arguments->layout.bank_count; b++) {
        uint64_t capacity = tn_problem_bank(arguments->input.problem, b)->capacity;
        uint64_t room = capacity == 0 ? UINT64_MAX : capacity - arguments->layout.bank_peak[b];
        if (room < tail || room <= best) continue;
        best = room;
        arguments->tail_bank = b;
    }
}

/* Uses the runtime's own plan if it is smaller than Tenure's. Around control flow, Tenure's live
 * ranges are longer than those of TensorFlow Lite Micro, because other runtimes need the longer
 * ones. */
static void arena_do_without(arena_arguments *arguments) {
    if (arguments->ends[1].planned.total <= arguments->ends[1].online.total) return;
    arguments->plan = ARENA_NONE;
    for (int i = 0; i < 2; i++) arguments->ends[i].planned = arguments->ends[i].online;
}

static tn_status arena_find(arena_arguments *arguments, tn_error *error) {
    cli_input *input = &arguments->input;
    TN_TRY(cli_input_load(input, error));
    uint64_t *offsets = calloc((size_t)tn_graph_tensor_count(input->graph) + 1, sizeof *offsets);
    if (offsets == NULL) return tn__no_memory(error, "offsets");
    tn_status status = TN_OK;
    if (input->bank_count > 0) arguments->plan = ARENA_OURS;
    bool is_free = arguments->plan == ARENA_AUTO;
    TN_TRY_DONE(arena_choose_plan(arguments, offsets, error));
    TN_TRY_DONE(arena_find_end(arguments, false, offsets, error));
    TN_TRY_DONE(arena_find_end(arguments, true, offsets, error));
    if (is_free && arguments->plan == ARENA_OURS) arena_do_without(arguments);
    if (input->bank_count > 0) arena_place_tail(arguments);
done:
    free(offsets);
    return status;
}

/* --- output --- */

/* Returns the arena that must fit into --max: that of the file that this call writes, or that of
 * the given file if nothing is written. */
static const tn_micro_arena *arena_judged(const arena_arguments *arguments, int end) {
    const arena_end *it = &arguments->ends[end];
    return arguments->output_count > 0 ? &it->planned : &it->as_is;
}

static bool arena_fits(const arena_arguments *arguments) {
    if (arguments->input.bank_count > 0) return arguments->tail_bank < arguments->layout.bank_count;
    return arguments->max == 0 || arena_judged(arguments, 1)->total <= arguments->max;
}

/* Returns whether the answer is uncertain: the known parts of the arena fit, but kernels with
 * unknown scratch memory may need more. */
static bool arena_is_open(const arena_arguments *arguments) {
    bool limited = arguments->max > 0 || arguments->input.bank_count > 0;
    return limited && arena_fits(arguments) && arena_judged(arguments, 1)->unknown_ops > 0;
}

static const char *arena_target(const arena_arguments *arguments) {
    return arguments->output_count > 0 ? "with the written plan" : "without changes";
}

static const char *arena_plan_text(const arena_arguments *arguments) {
    if (arguments->plan == ARENA_INSIDE) return "the plan inside the model";
    if (arguments->plan == ARENA_NONE) return "planned by the runtime";
    return arguments->verdict == TN_VERDICT_OPTIMAL ? "planned by Tenure; optimal for this order"
                                                    : "planned by Tenure";
}

#define ARENA_LABELS .width = 30, .indent = 2, .cell = 14

static const cli_facts arena_part_facts = {
    ARENA_LABELS,
    .rows = (const cli_fact[]){
#define TN_X(name, text) CLI_FACT_RANGE(BYTES, text, "  " text, "bytes of the " text),
        TN_MICRO_PART_TABLE(TN_X)
#undef TN_X
            CLI_FACT_RANGE(BYTES, "alignment", "  alignment", "bytes that alignment adds"),
        CLI_FACTS_END}};
static const cli_facts arena_bank_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", "bank", "name of the bank"),
        CLI_FACT(BYTES, "head", "head", "bytes of the head in the bank"),
        CLI_FACT(BYTES, "bytes", "bytes", "bytes of the arena in the bank: `head`, and the tail"),
        CLI_FACT(BYTES, "capacity", "capacity", "its capacity; null: no limit"),
        CLI_FACT(YES, "has_tail", "with the tail", "whether the tail is in the bank"),
        CLI_FACTS_END}};
static const cli_facts arena_facts = {
    .name = "arena",
    ARENA_LABELS,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model"),
        CLI_FACT(WORD, "target", NULL, "the processor"),
        CLI_FACT(WORD, "kernels", NULL, "the kernels, as given with --kernels"),
        CLI_FACT(WORD, "counted_kernels", NULL,
                 "the kernel libraries whose sizes are counted, with their versions"),
        CLI_FACT(WORD, "plan", NULL,
                 "the plan that the sizes are for: ours (computed by this call), inside (stored in "
                 "the model file) or none (the runtime plans)"),
        CLI_FACT_RANGE(BYTES, "head", "head: tensors and scratch", "bytes of tensors and scratch"),
        CLI_FACT_RANGE(BYTES, "tail", "tail: persistent data",
                       "bytes of the runtime's own structures"),
        CLI_FACT_OF(OBJECT, "tail_parts", "bytes of the tail by category", &arena_part_facts),
        CLI_FACT_RANGE(BYTES, "temporary", "temporary, before the head",
                       "the most temporary memory that `AllocateTensors()` needs at once; it uses "
                       "the space of the head"),
        CLI_FACT_RANGE(BYTES, "used", NULL, "head plus tail"),
        CLI_FACT_RANGE(BYTES, "total", "total",
                       "the smallest arena in which `AllocateTensors()` succeeds; it can be larger "
                       "than `used`"),
        CLI_FACT(WORD, "deciding_kernels", NULL, "the kernel library of the largest total"),
        CLI_FACT(WORD, "deciding_version", NULL,
                 "the version of that library; empty for the reference kernels"),
        CLI_FACT_RANGE(BYTES, "head_alignment", "in the head for alignment",
                       "bytes that alignment adds at the peak of the head"),
        CLI_FACT_RANGE(BYTES, "head_lower_bound", "lower bound of the head",
                       "no plan has a smaller head for this order of operators"),
        CLI_FACT_RANGE(BYTES, "total_without_plan", "total without a plan",
                       "bytes of the arena if the runtime plans"),
        CLI_FACT_RANGE(BYTES, "head_without_plan", NULL, "bytes of the head if the runtime plans"),
        CLI_FACT_RANGE(BYTES, "total_as_it_is", NULL, "bytes of the arena for the given file"),
        CLI_FACT(WORD, "peak_at", NULL, "the step at which the head has its peak, in words"),
        CLI_FACT_RANGE(COUNT, "buffers", NULL, "planned buffers in the head"),
        CLI_FACT_RANGE(COUNT, "scratch_buffers", NULL, "planned buffers that are scratch"),
        CLI_FACT(COUNT, "unknown_operators", NULL, "operators with unknown kernels"),
        CLI_FACT(BYTES, "max", NULL, "the size given with --max, or null"),
        CLI_FACT(YES, "fits", NULL,
                 "whether the largest possible arena fits in `max`, or in the banks; null: the "
                 "kernels of some operators are unknown"),
        CLI_FACT(WORD, "judged", NULL,
                 "with --max: the file that `fits` is about: written (by -o) or as_it_is"),
        CLI_FACT(YES, "fits_with_plan", NULL,
                 "with --max: whether the arena fits with the plan of `plan`, or null"),
        CLI_FACT_OF(LIST, "banks", "with --bank: the banks", &arena_bank_facts),
        CLI_FACTS_ALSO(&cli_holders_facts),
        CLI_FACTS_END}};

static void arena_add_parts(cli_answer *answer, const tn_micro_arena *low,
                            const tn_micro_arena *high) {
    bool all = cli_answer_table(answer) == NULL;
    cli_answer_open(answer, "tail_parts");
    for (uint32_t part = 0; part < TN_MICRO_PART_COUNT; part++)
        if (all || high->part[part] > 0)
            cli_add_range(answer, tn_micro_part_name(part), low->part[part], high->part[part]);
    cli_add_range(answer, "alignment", low->tail_alignment, high->tail_alignment);
    cli_answer_close(answer);
}

static void arena_add_sizes(cli_answer *answer, const arena_arguments *arguments) {
    const arena_end *least = &arguments->ends[0], *most = &arguments->ends[1];
    const tn_micro_arena *low = &least->planned, *high = &most->planned;
    cli_add_line(answer, "bytes", "%14s %14s", "at least", "at most");
    cli_add_range(answer, "head", low->head, high->head);
    if (arguments->plan == ARENA_OURS) cli_add_more(answer, "  %s", arguments->holders.title);
    cli_add_range(answer, "tail", low->tail, high->tail);
    arena_add_parts(answer, low, high);
    cli_add_range(answer, "temporary", low->temporary, high->temporary);
    cli_add_more(answer, "  during setup of the interpreter");
    cli_add_range(answer, "used", low->used, high->used);
    cli_add_range(answer, "total", low->total, high->total);
    cli_add_more(answer, "  the arena, a multiple of 16");
    if (arguments->input.tflm_kernels.library != TN_MICRO_REFERENCE)
        cli_add_line(answer, "", "%29s  most with %s%s%s", "", high->kernels,
                     *high->version ? " " : "", high->version);
    cli_add_word(answer, "deciding_kernels", high->kernels);
    cli_add_word(answer, "deciding_version", high->version);
    if (low->total >= low->used + ARENA_ROUND)
        cli_add_line(answer, "", "%29s  the temporary part decides", "");
    cli_add_text(answer, "\n");
    cli_add_range(answer, "head_alignment", least->head_alignment, most->head_alignment);
    cli_add_range(answer, "head_lower_bound", least->lower_bound, most->lower_bound);
    cli_add_range(answer, "total_without_plan", least->online.total, most->online.total);
    cli_add_more(answer, "  planned by TensorFlow Lite Micro");
    cli_add_range(answer, "head_without_plan", least->online.head, most->online.head);
    cli_add_range(answer, "total_as_it_is", least->as_is.total, most->as_is.total);
    cli_add_word(answer, "peak_at", arguments->holders.title);
    cli_add_range(answer, "buffers", low->planned, high->planned);
    cli_add_range(answer, "scratch_buffers", low->scratch, high->scratch);
    cli_add(answer, "unknown_operators", high->unknown_ops);
    if (high->unknown_ops > 0)
        cli_add_text(answer,
                     "\n  %u operator%s unknown kernels (such as custom ones); each is counted "
                     "with 0 to 256 bytes\n",
                     high->unknown_ops, high->unknown_ops == 1 ? " has" : "s have");
}

static void arena_add_banks(cli_answer *answer, const arena_arguments *arguments) {
    const tn_layout *layout = &arguments->layout;
    if (arguments->input.bank_count == 0) return;
    cli_add_text(answer, "\n");
    cli_answer_open(answer, "banks");
    for (uint32_t b = 0; b < layout->bank_count; b++) {
        const tn_bank *bank = tn_problem_bank(arguments->input.problem, b);
        bool tail = b == arguments->tail_bank;
        cli_answer_open(answer, NULL);
        cli_add_word(answer, "name", bank->name);
        cli_add(answer, "head", layout->bank_peak[b]);
        cli_add(answer, "bytes",
                layout->bank_peak[b] + (tail ? arguments->ends[1].planned.tail : 0));
        if (bank->capacity > 0) {
            cli_add(answer, "capacity", bank->capacity);
        } else {
            cli_add_null(answer, "capacity");
            cli_add_as(answer, "none");
        }
        cli_add(answer, "has_tail", tail);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

/* Prints the size of the arena with Tenure's plan, if the size that was compared with --max is that
 * of the file without the plan. */
static void arena_add_would(cli_answer *answer, const arena_arguments *arguments) {
    const tn_micro_arena *planned = &arguments->ends[1].planned;
    char text[TN_SIZE_TEXT_MAX];
    if (arguments->output_count > 0 || arguments->plan != ARENA_OURS) return;
    cli_add_text(answer, "  with our plan inside: %s, %s; -o planned.tflite writes that file\n",
                 tn_size_format(planned->total, text),
                 planned->total <= arguments->max ? "it fits" : "it does not fit either");
}

/* Prints why the arena does not fit, and the tensors at its peak. */
static void arena_add_binding(cli_answer *answer, const arena_arguments *arguments) {
    uint64_t low = arena_judged(arguments, 0)->total, high = arena_judged(arguments, 1)->total;
    char a[TN_SIZE_TEXT_MAX], b[TN_SIZE_TEXT_MAX];
    if (arguments->input.bank_count > 0) {
        cli_add_text(answer, "\n  does not fit: no bank has room for the tail of %s\n",
                     tn_size_format(arguments->ends[1].planned.tail, a));
    } else {
        cli_add_text(answer, "\n  does not fit %s in %s; the smallest sufficient capacity is %s\n",
                     arena_target(arguments), tn_size_format(arguments->max, a),
                     tn_size_format(high, b));
        arena_add_would(answer, arguments);
        if (low <= arguments->max)
            cli_add_text(answer, "  with the kernels that need least scratch it would fit; see "
                                 "--kernels\n");
    }
    cli_add_text(answer, "\n");
    cli_holders_add(answer, &arguments->holders, ARENA_BINDING);
}

static void arena_add_fits(cli_answer *answer, const char *name, bool fits, bool open) {
    if (fits && open)
        cli_add_null(answer, name);
    else
        cli_add(answer, name, fits);
}

static void arena_add_open(cli_answer *answer, const arena_arguments *arguments) {
    const tn_micro_arena *judged = arena_judged(arguments, 1);
    uint64_t left = arguments->max > judged->total ? arguments->max - judged->total : 0;
    char text[TN_SIZE_TEXT_MAX];
    cli_add_text(answer,
                 "\n  not known whether it fits %s: the kernels of %u operator%s are unknown\n",
                 arena_target(arguments), judged->unknown_ops, judged->unknown_ops == 1 ? "" : "s");
    if (arguments->max > 0)
        cli_add_text(answer, "  the counted parts fit and leave %s\n", tn_size_format(left, text));
}

static void arena_add_verdict(cli_answer *answer, const arena_arguments *arguments) {
    bool fits = arena_fits(arguments), open = arena_is_open(arguments);
    char text[TN_SIZE_TEXT_MAX];
    if (arguments->max > 0)
        cli_add(answer, "max", arguments->max);
    else
        cli_add_null(answer, "max");
    arena_add_fits(answer, "fits", fits, open);
    if (arguments->max > 0) {
        bool planned = arguments->ends[1].planned.total <= arguments->max;
        cli_add_word(answer, "judged", arguments->output_count > 0 ? "written" : "as_it_is");
        arena_add_fits(answer, "fits_with_plan", planned,
                       arguments->ends[1].planned.unknown_ops > 0);
    }
    if (!fits)
        arena_add_binding(answer, arguments);
    else if (open)
        arena_add_open(answer, arguments);
    else if (arguments->max > 0)
        cli_add_text(answer, "\n  fits %s: %s left\n", arena_target(arguments),
                     tn_size_format(arguments->max - arena_judged(arguments, 1)->total, text));
}

static void arena_add_brief(cli_answer *answer, const arena_arguments *arguments) {
    bool banks = arguments->input.bank_count > 0, judged = arguments->max > 0 && !banks;
    const tn_micro_arena *low = judged ? arena_judged(arguments, 0) : &arguments->ends[0].planned;
    const tn_micro_arena *high = judged ? arena_judged(arguments, 1) : &arguments->ends[1].planned;
    char text[TN_SIZE_TEXT_MAX];
    cli_add_brief(answer, "%s: %s", cli_shown_path(arguments->input.path),
                  tn_size_format(low->total, text));
    if (high->total != low->total)
        cli_add_brief(answer, " to %s", tn_size_format(high->total, text));
    if (judged || banks)
        cli_add_brief(answer, ", %s",
                      arena_is_open(arguments) ? "may fit"
                      : arena_fits(arguments)  ? "fits"
                                               : "does not fit");
    if (judged) cli_add_brief(answer, " %s", arena_target(arguments));
    if (judged && arguments->output_count == 0 && arguments->plan == ARENA_OURS)
        cli_add_brief(answer, "; with our plan inside %s",
                      tn_size_format(arguments->ends[1].planned.total, text));
}

static int arena_print(const arena_arguments *arguments, tn_error *error) {
    char kernels[160];
    cli_answer answer;
    cli_progress_end();
    cli_answer_begin(&answer, &arena_facts, arguments->json);
    arena_add_brief(&answer, arguments);
    cli_add_word(&answer, "input", cli_shown_path(arguments->input.path));
    cli_add_word(&answer, "target", arguments->processor);
    cli_tflm_kernels_list(arguments->processor, &arguments->input.tflm_kernels, kernels,
                          sizeof kernels);
    cli_add_word(&answer, "kernels", arguments->input.tflm_kernels.text);
    cli_add_word(&answer, "counted_kernels", kernels);
    cli_add_word(&answer, "plan", arena_plans[arguments->plan]);
    cli_add_text(&answer, "  %s, kernels: %s; %s\n\n", arguments->processor, kernels,
                 arena_plan_text(arguments));
    arena_add_sizes(&answer, arguments);
    arena_add_banks(&answer, arguments);
    arena_add_verdict(&answer, arguments);
    if (cli_answer_end(&answer, error) != TN_OK) return cli_fail(error);
    return arena_fits(arguments) ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}

static tn_status arena_write(arena_arguments *arguments, tn_error *error) {
    cli_input *input = &arguments->input;
    tn_report report = {.struct_size = sizeof report,
                        .input = input->path,
                        .problem = input->problem,
                        .layout = &arguments->layout,
                        .occupancy = input->occupancy,
                        .arena_total = arguments->ends[1].planned.total};
    cli_words words;
    cli_report_model(&report, input);
    input->processor = arguments->processor;
    cli_words_of(input, input->setup, &words);
    cli_report_words(&report, "arena", &words);
    tn_status status = words.failed ? tn__no_memory(error, "the options of the plan") : TN_OK;
    for (uint32_t i = 0; i < arguments->output_count && status == TN_OK; i++)
        status = tn_report_write(&report, arguments->outputs[i], error);
    cli_words_release(&words);
    return status;
}

static const char arena_doc[] =
    "Prints the size of the TensorFlow Lite Micro arena for MODEL (.tflite), from the file alone: "
    "the head, the tail and temporary memory. If kernels, cores or versions differ, it prints the "
    "smallest and the largest number. docs/microcontrollers.md explains each number.\v"
    "Examples:\n"
    "  tenure arena person.tflite --target cortex-m4 --max 96KiB\n"
    "  tenure arena person.tflite --kernels cmsis-nn --json\n"
    "  tenure arena person.tflite -o person.h -o planned.tflite\n"
    "  tenure arena person.tflite --bank dtcm=64KiB@2GB/s --bank sram=256KiB@0.5GB/s\n\n"
    "Exit status: 0 it fits, or only unknown kernels may need more; 1 it does not fit; 2 bad usage "
    "or input; 3 stopped before an answer; 4 internal error.";

/* The help filter: describes shared options as this command uses them. */
static char *arena_help(int key, const char *text, void *input) {
    (void)input;
    switch (key) {
    case CLI_ALIGNMENT:
        return strdup("alignment in bytes of every buffer without its own (default: 16)");
    case CLI_KERNELS:
        return strdup("kernels that determine the scratch memory: " CLI_TFLM_KERNELS_FORM
                      " (default: any)");
    case CLI_ORDER:
        return strdup("order of the operators: one of `tenure list orders`, or auto; the runtime "
                      "keeps the order of the file (default: file)");
    case CLI_STATIC:
        return strdup("only apart is supported, because a microcontroller keeps weights in the "
                      "model file (default: apart)");
    default:
        return (char *)(uintptr_t)text;
    }
}

static const struct argp_child arena_children[] = {{&cli_input_argp, 0, "Reading the input:", 0},
                                                   {0}};
static const struct argp arena_parser = {arena_options,  arena_parse, "MODEL", arena_doc,
                                         arena_children, arena_help,  0};

static int arena_run(int count, char **words) {
    tn_context context = cli_context();
    arena_arguments arguments = {
        .options = TN_PLAN_OPTIONS_INIT,
        .processor = cli_processors[0],
        .input = {.import = TN_IMPORT_OPTIONS_INIT,
                  .tflm_kernels = {.library = TN_MICRO_ANY, .text = "any"}}};
    arguments.input.import.variables_outside = true;
    tn_error error = {0};
    arguments.input.import.context = arguments.options.context = &context;
    cli_parse(&cli_command_arena, count, words, &arguments);
    cli_context_read(&context);
    tn_status status = arena_find(&arguments, &error);
    if (status == TN_OK) status = arena_write(&arguments, &error);
    int code = status == TN_OK ? arena_print(&arguments, &error) : cli_fail(&error);
    cli_holders_release(&arguments.holders);
    tn_layout_release(&arguments.layout);
    cli_input_release(&arguments.input);
    return cli_finish(code);
}

const cli_command cli_command_arena = {
    .name = "arena",
    .summary = "compute the size of a microcontroller's tensor arena",
    .first = "output max target kernels plan bank json",
    .answers = (const cli_facts *const[]){&arena_facts, NULL},
    .parser = &arena_parser,
    .run = arena_run,
};
