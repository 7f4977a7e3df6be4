/* verify.c - `tenure verify`: checks a plan of any tool for a model or problem.
 *
 * A .json plan of Tenure needs no other information (plan_file.h). Its options are read from it,
 * they reproduce the graph and the program from the model, and each live range is found by the
 * index of its tensor. Then the layout is verified, and the document must be consistent.
 *
 * The rows of any other plan are matched by name, for the order and the options of the command
 * line. A row may name any tensor. Operators may then work in place, and reshapes may be views,
 * wherever the rows place both tensors together and the operator's rule allows it. A tensor without
 * a row must share the memory of one with a row.
 *
 * A .csv plan has no options. If its rows show that it was made with other options than those of
 * the command line, the result is a usage error that names the option, as for rows that name no
 * tensor of the model.
 */
#include "cli/facts.h"
#include "cli/foreign.h"
#include "cli/micro.h"
#include "cli/objects.h"
#include "cli/plan_file.h"
#include "cli/whom.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "report/format.h"

enum { VERIFY_PLAN = 400, VERIFY_FORM, VERIFY_TRAIN, VERIFY_BATCH, VERIFY_JSON };

#define VERIFY_OPTIONS(X)                                                                          \
    X(VERIFY_PLAN, "plan", "FILE",                                                                 \
      "the plan: .json, or .csv with offsets (default: the plan inside a .tflite model, written "  \
      "by any tool)")                                                                              \
    X(VERIFY_FORM, "form", "offsets|objects",                                                      \
      "form of the plan: offsets, or objects for a .csv with shared objects (default: offsets)")   \
    X(VERIFY_TRAIN, "train", NULL,                                                                 \
      "the plan is for a training step of the model; a .json plan records this")                   \
    X(VERIFY_BATCH, "batch", "N",                                                                  \
      "batch size of an .onnx model, the first dimension of its inputs; a .json plan records it "  \
      "(default: as in the file)")                                                                 \
    X(VERIFY_JSON, "json", NULL, "print one JSON object instead of a sentence")

typedef struct verify_arguments {
    cli_input input;
    const char *plan_path;
    bool json, objects;
    tn_problem *plan; /* the rows of the plan */
    uint64_t *plan_offsets;
    tn__names rows;    /* name -> row of the plan, the first of that name */
    uint32_t *next;    /* [rows], the next row of the same name, or TN__NAMES_NONE */
    uint32_t *turn;    /* [rows], indexed by the first row of a name: the row to match next, or
                        * NONE */
    uint64_t *offsets; /* [bodies] */
    tn_bank_id *banks; /* [buffers]: banks from the rows, where buffers may choose */
    uint64_t *claimed; /* [tensors] */
    cli_plan_file file;
    cli_training training;      /* of the command line */
    cli_training plan_training; /* of the plan */
    bool trains, repeats;       /* repeats: a name has several rows */
    bool is_placed;             /* all rows fit the tensors that they name */
    bool has_rows;              /* each row is the buffer of the same number: no option is
                                 * missing */
    tn_program *program;        /* the program in the plan, or NULL */
    uint32_t body_count;
    uint64_t head,
        tail; /* for a plan inside a model: its end, where tensors without an offset are placed */
    uint32_t tail_count;
    bool is_partial; /* a plan inside a model that leaves tensors to the runtime: bounds do not
                      * apply */
    tn_error *error;
} verify_arguments;

static const struct argp_option verify_options[] = {VERIFY_OPTIONS(CLI_OPTION){0}};

static error_t verify_parse(int key, char *value, struct argp_state *state) {
    verify_arguments *arguments = state->input;
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

/* --- the plan's rows --- */

static const char *verify_row_name(const tn_body *body, uint32_t row, char text[16]) {
    if (body->name != NULL) return body->name;
    snprintf(text, 16, "%u", row);
    return text;
}

/* Ids may be missing or repeated: rows with the same id are matched in order, in plan and problem.
 * `rows` gives the first of them, and turn[] the next one to match. */
static tn_status verify_name_rows(verify_arguments *arguments) {
    uint32_t count = tn_problem_count(arguments->plan), first;
    arguments->next = calloc((size_t)count + 1, sizeof *arguments->next);
    arguments->turn = calloc((size_t)count + 1, sizeof *arguments->turn);
    if (arguments->next == NULL || arguments->turn == NULL)
        return tn__no_memory(arguments->error, "the plan");
    for (uint32_t row = 0; row < count; row++) {
        const char *name = tn_problem_body(arguments->plan, row)->name;
        arguments->next[row] = TN__NAMES_NONE;
        arguments->turn[row] = row; /* the last row of its id so far */
        if (name == NULL) continue;
        if (!tn__names_add(&arguments->rows, name, strlen(name), row, &first))
            return tn__no_memory(arguments->error, "the plan");
        if (first == TN__NAMES_NONE) continue;
        arguments->repeats = true;
        arguments->next[arguments->turn[first]] = row;
        arguments->turn[first] = row;
    }
    for (uint32_t row = 0; row < count; row++) arguments->turn[row] = row;
    return TN_OK;
}

/* Finds the next unmatched row for a buffer name and marks it as matched. */
static uint32_t verify_take_row(verify_arguments *arguments, const char *name) {
    uint32_t first = tn__names_find(&arguments->rows, name, strlen(name));
    if (first == TN__NAMES_NONE || arguments->turn[first] == TN__NAMES_NONE) return TN__NAMES_NONE;
    uint32_t row = arguments->turn[first];
    arguments->turn[first] = arguments->next[row];
    return row;
}

static tn_status verify_read_plan(verify_arguments *arguments) {
    tn_error *error = arguments->error;
    TN_TRY(tn_problem_load(arguments->plan_path, arguments->input.import.context, &arguments->plan,
                           &arguments->plan_offsets, error));
    if (arguments->plan_offsets == NULL && tn_problem_count(arguments->plan) > 0)
        return tn__where(
            error,
            tn__fail(error, TN_E_INVALID,
                     "the plan has no offsets; pass a .csv with a column offset, or a .json plan"),
            "%s", arguments->plan_path);
    return verify_name_rows(arguments);
}

static tn_status verify_check_size(const verify_arguments *arguments, const char *name,
                                   uint32_t row, uint64_t needed) {
    uint64_t given = tn_problem_body(arguments->plan, row)->size;
    if (given >= needed) return TN_OK;
    char has[TN__WORDS_MAX], needs[TN__WORDS_MAX];
    TN_FAIL(arguments->error, TN_E_CONFLICT, "'%.80s' has %s bytes in the plan but needs %s", name,
            tn__grouped(given, has), tn__grouped(needed, needs));
}

/* --- problems: a row per buffer --- */

/* A plan with few of the buffers is for another problem. */
static tn_status verify_refuse_other(const verify_arguments *arguments, uint32_t first,
                                     uint32_t known, const char *name) {
    uint32_t count = arguments->body_count;
    for (tn_body_id id = first + 1; id < count; id++) {
        char text[16];
        const tn_body *body = tn_problem_body(arguments->input.problem, id);
        const char *other = verify_row_name(body, id, text);
        known += tn__names_find(&arguments->rows, other, strlen(other)) != TN__NAMES_NONE;
    }
    if (2 * (uint64_t)known < count)
        TN_FAIL(arguments->error, TN_E_CONFLICT,
                "%.120s is a plan for another problem: it has %u of the %u buffers of %.120s",
                arguments->plan_path, known, count, arguments->input.path);
    TN_FAIL(arguments->error, TN_E_CONFLICT, "the plan has no offset for '%.80s'", name);
}

static tn_status verify_match_bodies(verify_arguments *arguments) {
    const tn_problem *problem = arguments->input.problem;
    uint32_t matched = 0;
    for (tn_body_id id = 0; id < arguments->body_count; id++) {
        char text[16];
        const tn_body *body = tn_problem_body(problem, id);
        const char *name = verify_row_name(body, id, text);
        uint32_t row = verify_take_row(arguments, name);
        if (row == TN__NAMES_NONE) return verify_refuse_other(arguments, id, matched, name);
        TN_TRY(verify_check_size(arguments, name, row, body->size));
        arguments->offsets[id] = arguments->plan_offsets[row];
        arguments->banks[id] = body->flags & TN_BODY_ANY_BANK
                                   ? tn_problem_body(arguments->plan, row)->bank
                                   : body->bank;
        matched++;
    }
    if (matched == tn_problem_count(arguments->plan)) return TN_OK;
    TN_FAIL(arguments->error, TN_E_CONFLICT, "the plan has %u rows for %u buffers",
            tn_problem_count(arguments->plan), matched);
}

/* --- models: rows name tensors --- */

/* The plan inside a model has an offset for each tensor, without rows. Tensors that it leaves to
 * the runtime get the runtime's place; variables without an offset go to the tail. The runtime
 * always places scratch around the rest, so scratch is not checked. */
static tn_status verify_claim_inside(verify_arguments *arguments) {
    cli_input *input = &arguments->input;
    uint32_t tensors = tn_graph_tensor_count(input->graph);
    tn_micro_options micro = TN_MICRO_OPTIONS_INIT;
    tn_micro_arena arena;
    micro = cli_micro(input->target != NULL ? input->target : cli_micro_targets[0], &input->kernels,
                      input->kernels.library != TN_MICRO_REFERENCE);
    arguments->claimed = calloc((size_t)tensors + 1, sizeof *arguments->claimed);
    if (arguments->claimed == NULL) return tn__no_memory(arguments->error, "claims");
    TN_TRY(tn_tflite_read_plan(input->path, &input->import, input->graph, arguments->claimed,
                               arguments->error)); /* a plan is required */
    TN_TRY(tn_micro_arena_of(input->path, &input->import, input->graph, NULL, &micro, &arena,
                             arguments->claimed, arguments->error));
    input->occupancy_options.workspaces = NULL;
    arguments->head = arena.head;
    arguments->is_partial = arena.scratch > 0;
    arguments->tail = (arena.head + CLI_TFLITE_ALIGNMENT - 1) / CLI_TFLITE_ALIGNMENT;
    arguments->tail *= CLI_TFLITE_ALIGNMENT;
    return TN_OK;
}

/* Rows of scratch memory are named after their operator; the placement checks whether it has
 * scratch. */
static bool verify_is_scratch(const verify_arguments *arguments, uint32_t row) {
    static const char suffix[] = ":workspace";
    char text[16];
    const char *name = verify_row_name(tn_problem_body(arguments->plan, row), row, text);
    size_t length = strlen(name), end = sizeof suffix - 1;
    return arguments->input.occupancy_options.workspaces != NULL && length > end &&
           strcmp(name + length - end, suffix) == 0;
}

/* Rows of weights in a kernel's layout are named after the weight and the operator, like buffers.
 */
static bool verify_is_form(const verify_arguments *arguments, uint32_t row) {
    char text[16];
    const char *name = verify_row_name(tn_problem_body(arguments->plan, row), row, text);
    return arguments->input.whom.runner != CLI_RUNNER_NONE && strstr(name, " for ") != NULL;
}

/* Plans of tools without scratch memory have no rows for it. */
static bool verify_has_scratch(const verify_arguments *arguments) {
    uint32_t rows = arguments->plan != NULL ? tn_problem_count(arguments->plan) : 0;
    for (uint32_t row = 0; row < rows; row++)
        if (verify_is_scratch(arguments, row)) return true;
    return false;
}

/* The tensors of the program: those of its graph, and its encoded forms. */
static const tn_graph *verify_graph(const verify_arguments *arguments) {
    return arguments->program != NULL ? tn_program_graph(arguments->program)
                                      : cli_input_graph(&arguments->input);
}

/* The place of a tensor: the offset of its buffer plus its distance from there.
 */
static tn_status verify_item_at(const verify_arguments *arguments, const cli_plan_tensor *item,
                                uint64_t *offset) {
    if (item->buffer < tn_problem_count(arguments->plan) &&
        tn__add(arguments->plan_offsets[item->buffer], item->delta, offset))
        return TN_OK;
    TN_FAIL(arguments->error, TN_E_INVALID, "%.120s: tensor '%.80s' is in no buffer of the plan",
            arguments->plan_path, item->name);
}

/* Claims are only compared with each other. `above`[bank] separates equal offsets in different
 * banks. False: more than 2^64 bytes. */
static bool verify_stack_banks(const verify_arguments *arguments, uint64_t *above) {
    uint32_t rows = tn_problem_count(arguments->plan),
             banks = tn_problem_bank_count(arguments->plan);
    for (uint32_t row = 0; row < rows; row++) { /* first the end of each bank */
        const tn_body *body = tn_problem_body(arguments->plan, row);
        uint64_t end = tn__add_sat(arguments->plan_offsets[row], body->size);
        if (end > above[body->bank]) above[body->bank] = end;
    }
    uint64_t sum = 0;
    for (uint32_t bank = 0; bank < banks; bank++) {
        uint64_t reach = above[bank];
        above[bank] = sum;
        sum = tn__add_sat(sum, reach);
    }
    return sum != UINT64_MAX;
}

static tn_status verify_make_claims(verify_arguments *arguments, uint64_t **above) {
    uint32_t tensors = tn_graph_tensor_count(verify_graph(arguments));
    arguments->claimed = calloc((size_t)tensors + 1, sizeof *arguments->claimed);
    *above = calloc((size_t)tn_problem_bank_count(arguments->plan) + 1, sizeof **above);
    if (arguments->claimed == NULL || *above == NULL)
        return tn__no_memory(arguments->error, "claims");
    for (tn_tensor_id id = 0; id < tensors; id++) arguments->claimed[id] = TN_SIZE_UNKNOWN;
    if (verify_stack_banks(arguments, *above)) return TN_OK;
    TN_FAIL(arguments->error, TN_E_INVALID, "%.120s: the banks together have more than 2^64 bytes",
            arguments->plan_path);
}

/* By index. A tensor with several places over time has no claim. */
static tn_status verify_claim_file(verify_arguments *arguments, const uint64_t *above) {
    const cli_plan_file *file = &arguments->file;
    const tn_graph *graph = verify_graph(arguments);
    uint32_t tensors = tn_graph_tensor_count(graph);
    tn_tensor_id before = TN_NONE;
    for (uint32_t i = 0; i < file->tensor_count; i++) { /* sorted by tensor */
        const cli_plan_tensor *item = &file->tensors[i];
        uint64_t place = 0;
        TN_TRY(verify_item_at(arguments, item, &place));
        if (item->tensor == TN_NONE) continue;
        if (item->tensor >= tensors)
            TN_FAIL(arguments->error, TN_E_CONFLICT,
                    "the plan places tensor %u ('%.80s'), but the model has only %u tensors",
                    item->tensor, item->name, tensors);
        bool form =
            item->op != TN_NONE && tn_tensor_is_static(tn_graph_tensor(graph, item->tensor));
        if (form) continue; /* for one kernel, with a separate place */
        place = tn__add_sat(place, above[tn_problem_body(arguments->plan, item->buffer)->bank]);
        uint64_t *claim = &arguments->claimed[item->tensor];
        *claim = item->tensor != before || *claim == place ? place : TN_SIZE_UNKNOWN;
        before = item->tensor;
    }
    return TN_OK;
}

static tn_status verify_claim_rows(verify_arguments *arguments, const uint64_t *above) {
    const tn_graph *graph = cli_input_graph(&arguments->input);
    uint32_t tensors = tn_graph_tensor_count(graph), known = 0;
    for (uint32_t row = 0; arguments->repeats && row < tn_problem_count(arguments->plan); row++) {
        if (arguments->next[row] == TN__NAMES_NONE) continue;
        tn_status status = tn__fail(arguments->error, TN_E_INVALID,
                                    "the plan has '%.80s' twice, and only the options of the plan "
                                    "can distinguish them; add those, such as --train, --order or "
                                    "--kernels, or use a .json plan, which records them",
                                    tn_problem_body(arguments->plan, row)->name);
        return tn__where(arguments->error, status, "%s", arguments->plan_path);
    }
    uint8_t *seen = calloc((size_t)tn_problem_count(arguments->plan) + 1, 1);
    tn_status status = TN_OK;
    if (seen == NULL) status = tn__no_memory(arguments->error, "claims");
    for (tn_tensor_id id = 0; id < tensors && status == TN_OK; id++) {
        const char *name = tn_graph_tensor(graph, id)->name;
        uint32_t row = tn__names_find(&arguments->rows, name, strlen(name));
        if (row == TN__NAMES_NONE) continue;
        arguments->claimed[id] = tn__add_sat(arguments->plan_offsets[row],
                                             above[tn_problem_body(arguments->plan, row)->bank]);
        if (!seen[row]) {
            seen[row] = 1;
            known++;
        }
    }
    for (uint32_t row = 0; row < tn_problem_count(arguments->plan) && status == TN_OK &&
                           known < tn_problem_count(arguments->plan);
         row++) {
        char text[16];
        if (seen[row] || verify_is_scratch(arguments, row) || verify_is_form(arguments, row))
            continue;
        uint32_t rows = tn_problem_count(arguments->plan);
        if (2 * (uint64_t)known < rows)
            status = tn__fail(arguments->error, TN_E_INVALID,
                              "%.120s is a plan for another model, or was made with other options: "
                              "%u of its %u rows name tensors of %.120s",
                              arguments->plan_path, known, rows, arguments->input.path);
        else
            status = tn__fail(arguments->error, TN_E_INVALID,
                              "%.120s names '%.80s', which is not a tensor of the model; add the "
                              "options that the plan was made with, such as --train or --kernels, "
                              "or use a .json plan, which records them",
                              arguments->plan_path,
                              verify_row_name(tn_problem_body(arguments->plan, row), row, text));
    }
    free(seen);
    return status;
}

static tn_status verify_claim(verify_arguments *arguments) {
    uint64_t *above;
    if (arguments->plan_path == NULL) return verify_claim_inside(arguments);
    tn_status status = verify_make_claims(arguments, &above);
    if (status == TN_OK)
        status = arguments->file.tensor_count > 0 ? verify_claim_file(arguments, above)
                                                  : verify_claim_rows(arguments, above);
    free(above);
    return status;
}

/* Whether the plan places parameters, so that all of them must be checked. A plan inside a model
 * may place a tensor that Tenure folds and the runtime computes; it does not count. */
static bool verify_claims_static(const verify_arguments *arguments) {
    const tn_graph *graph = cli_input_graph(&arguments->input);
    if (arguments->plan_path == NULL || arguments->file.has_options) return false;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        if (arguments->claimed[id] != TN_SIZE_UNKNOWN &&
            tn_tensor_is_static(tn_graph_tensor(graph, id)))
            return true;
    for (uint32_t row = 0; row < tn_problem_count(arguments->plan); row++)
        if (verify_is_form(arguments, row)) return true;
    return false;
}

/* Places a variable after the head, away from all other buffers. */
static void verify_put_in_tail(verify_arguments *arguments, tn_body_id id) {
    const tn_body *body = tn_problem_body(arguments->input.problem, id);
    uint64_t size = body->size;
    arguments->offsets[id] = arguments->tail;
    if (!tn__align_up(size, body->alignment, &size)) size = body->size;
    arguments->tail = tn__add_sat(arguments->tail, size);
    arguments->tail_count++;
    arguments->is_partial = true;
}

/* The place of one live range in the document. *claim is TN_SIZE_UNKNOWN if it has none. */
static tn_status verify_item(verify_arguments *arguments, const tn_life *life, const char *name,
                             uint64_t *claim, uint32_t *row) {
    const cli_plan_tensor *item =
        cli_plan_file_find(&arguments->file, life->tensor, life->op, life->first);
    *claim = TN_SIZE_UNKNOWN;
    *row = TN__NAMES_NONE;
    if (item == NULL) return TN_OK;
    if (item->bytes < life->bytes) {
        char has[TN__WORDS_MAX], needs[TN__WORDS_MAX];
        TN_FAIL(arguments->error, TN_E_CONFLICT, "'%.80s' has %s bytes in the plan but needs %s",
                name, tn__grouped(item->bytes, has), tn__grouped(life->bytes, needs));
    }
    *row = item->buffer;
    return verify_item_at(arguments, item, claim);
}

/* Computes the offsets of buffers from the claims of their live ranges, which must agree. */
static tn_status verify_place(verify_arguments *arguments) {
    const tn_graph *graph = verify_graph(arguments);
    const cli_input *input = &arguments->input;
    const tn_life *lives = tn_occupancy_lives(input->occupancy);
    for (tn_body_id id = 0; id < arguments->body_count; id++)
        arguments->offsets[id] = TN_SIZE_UNKNOWN;
    for (uint32_t i = 0; i < tn_occupancy_life_count(input->occupancy); i++) {
        const tn_life *life = &lives[i];
        bool own = life->tensor == TN_NONE || (life->is_static && life->op != TN_NONE);
        uint64_t claim = TN_SIZE_UNKNOWN, *offset = &arguments->offsets[life->body];
        const char *name = own ? tn_problem_body(input->problem, life->body)->name
                               : tn_graph_tensor(graph, life->tensor)->name;
        uint32_t row = TN__NAMES_NONE;
        bool by_index = arguments->file.tensor_count > 0;
        if (by_index) {
            TN_TRY(verify_item(arguments, life, name, &claim, &row));
        } else if (arguments->plan_path == NULL) {
            if (!own) claim = arguments->claimed[life->tensor];
        } else { /* scratch and converted weights have separate rows */
            row = tn__names_find(&arguments->rows, name, strlen(name));
            if (row != TN__NAMES_NONE) claim = arguments->plan_offsets[row];
        }
        if (claim == TN_SIZE_UNKNOWN || life->whole) continue;
        if (!by_index && row != TN__NAMES_NONE)
            TN_TRY(verify_check_size(arguments, name, row, life->bytes));
        if (claim < life->delta || (*offset != TN_SIZE_UNKNOWN && *offset != claim - life->delta))
            TN_FAIL(arguments->error, TN_E_CONFLICT,
                    "'%.80s' is an alias of '%.80s', but the plan puts it elsewhere, at %" PRIu64,
                    name, tn_problem_body(input->problem, life->body)->name, claim);
        *offset = claim - life->delta;
        if (row != TN__NAMES_NONE &&
            (tn_problem_body(input->problem, life->body)->flags & TN_BODY_ANY_BANK))
            arguments->banks[life->body] = tn_problem_body(arguments->plan, row)->bank;
    }
    for (tn_body_id id = 0; id < arguments->body_count; id++)
        if (arguments->offsets[id] == TN_SIZE_UNKNOWN && arguments->plan_path == NULL)
            verify_put_in_tail(arguments, id);
        else if (arguments->offsets[id] == TN_SIZE_UNKNOWN)
            TN_FAIL(arguments->error, TN_E_CONFLICT, "the plan has no offset for '%.80s'",
                    tn_problem_body(input->problem, id)->name);
    return TN_OK;
}

/* Loads the input. Invalid steps in a plan with few of the model's tensor names mean that the plan
 * is for another model. */
static tn_status verify_load_input(verify_arguments *arguments) {
    cli_input *input = &arguments->input;
    uint32_t known = 0, rows = arguments->plan != NULL ? tn_problem_count(arguments->plan) : 0;
    tn_status status = cli_input_load(input, arguments->error);
    if (status != TN_E_INVALID || input->sequence == NULL || input->graph == NULL) return status;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(input->graph); id++) {
        const char *name = tn_graph_tensor(input->graph, id)->name;
        known += tn__names_find(&arguments->rows, name, strlen(name)) != TN__NAMES_NONE;
    }
    if (2 * (uint64_t)known >= rows)
        return tn__where(arguments->error, status, "%.120s (the plan may be for another model)",
                         arguments->plan_path);
    *arguments->error = (tn_error){0};
    TN_FAIL(arguments->error, TN_E_INVALID,
            "%.120s is a plan for another model: %u of its %u rows name tensors of %.120s",
            arguments->plan_path, known, rows, input->path);
}

/* Matches rows that are the buffers of this model in order, as in our .csv plans, whose names may
 * be empty or repeated. *valid: the rows match and do not overlap. Otherwise matching by name finds
 * the error. */
static tn_status verify_match_rows(verify_arguments *arguments, bool *valid) {
    const tn_problem *problem = arguments->input.problem, *plan = arguments->plan;
    uint32_t count = tn_problem_count(problem);
    tn_layout layout = {0};
    tn_error why = {0};
    *valid = false;
    if (plan == NULL || tn_problem_count(plan) != count) return TN_OK;
    for (tn_body_id id = 0; id < count; id++) {
        char here[16], there[16];
        const tn_body *body = tn_problem_body(problem, id), *row = tn_problem_body(plan, id);
        if (strcmp(verify_row_name(body, id, here), verify_row_name(row, id, there)) != 0 ||
            row->size < body->size || row->first > body->first || row->last < body->last)
            return TN_OK;
        arguments->offsets[id] = arguments->plan_offsets[id];
        arguments->banks[id] = body->flags & TN_BODY_ANY_BANK ? row->bank : body->bank;
    }
    arguments->has_rows = true;
    TN_TRY(tn_layout_from_places(problem, arguments->offsets, arguments->banks, &layout,
                                 arguments->error));
    tn_status status = tn_layout_verify(problem, &layout, NULL, &why);
    tn_layout_release(&layout);
    *valid = status == TN_OK;
    if (*valid || !arguments->repeats) return TN_OK;
    *arguments->error = why; /* names are ambiguous */
    return status;
}

/* Allocates the places of the buffers of the current problem. */
static tn_status verify_make_room(verify_arguments *arguments) {
    arguments->body_count = tn_problem_count(arguments->input.problem);
    free(arguments->offsets);
    free(arguments->banks);
    arguments->offsets = calloc((size_t)arguments->body_count + 1, sizeof *arguments->offsets);
    arguments->banks = calloc((size_t)arguments->body_count + 1, sizeof *arguments->banks);
    if (arguments->offsets == NULL || arguments->banks == NULL)
        return tn__no_memory(arguments->error, "offsets");
    return TN_OK;
}

/* Kernels have slower variants with less scratch: requests those that fit in the document's
 * scratch.
 */
static tn_status verify_find_scratch(verify_arguments *arguments) {
    cli_input *input = &arguments->input;
    uint32_t operators = tn_graph_op_count(tn_setup_graph(input->setup));
    if (tn_setup_kernels(input->setup) == NULL) return TN_OK;
    input->scratch = calloc((size_t)operators + 1, sizeof *input->scratch);
    if (input->scratch == NULL) return tn__no_memory(arguments->error, "scratch");
    for (uint32_t i = 0; i < arguments->file.tensor_count; i++) {
        const cli_plan_tensor *item = &arguments->file.tensors[i];
        if (item->tensor == TN_NONE && item->op < operators &&
            item->bytes > input->scratch[item->op])
            input->scratch[item->op] = item->bytes;
    }
    return TN_OK;
}

/* Makes the graph and the program of the plan; a document has its own. */
static tn_status verify_load_program(verify_arguments *arguments) {
    cli_input *input = &arguments->input;
    input->replays = arguments->file.has_program;
    if (!input->replays && input->order == NULL) {
        input->sequence = arguments->file.steps;
        input->sequence_count = arguments->file.step_count;
    }
    TN_TRY(verify_load_input(arguments));
    if (!input->replays) return TN_OK;
    TN_TRY(cli_plan_file_program(&arguments->file, tn_setup_graph(input->setup),
                                 &arguments->program, arguments->error));
    input->program = arguments->program;
    TN_TRY(verify_find_scratch(arguments));
    return cli_input_replay(input, arguments->error);
}

static tn_status verify_load_model(verify_arguments *arguments) {
    cli_input *input = &arguments->input;
    bool valid = false;
    TN_TRY(verify_load_program(arguments));
    if (input->whom.runner != CLI_RUNNER_NONE &&
        !input->replays) /* the plan decides about scratch, not the command line */
        input->occupancy_options.workspaces = tn_kernels_workspaces(tn_setup_kernels(input->setup));
    TN_TRY(verify_make_room(arguments));
    if (arguments->file.tensor_count == 0) TN_TRY(verify_match_rows(arguments, &valid));
    if (valid) return TN_OK;
    if (arguments->file.tensor_count == 0 && !verify_has_scratch(arguments))
        input->occupancy_options.workspaces = NULL;
    TN_TRY(verify_claim(arguments));
    tn_occupancy_options *options = &input->occupancy_options;
    options->claimed = arguments->claimed;
    if (options->inplace == TN_INPLACE_CHOOSE) {
        options->inplace = TN_INPLACE_CLAIMED;
        options->fuse_concat = true; /* if the claims require it */
    }
    if (verify_claims_static(arguments)) input->statics = TN_STATIC_ARENA;
    TN_TRY(cli_input_again(input, arguments->error));
    TN_TRY(verify_make_room(arguments));
    return verify_place(arguments);
}

/* Reports a plan for another model if the document has few of the model's tensor names. */
static tn_status verify_other_model(const verify_arguments *arguments, tn_status status) {
    const cli_plan_file *file = &arguments->file;
    const tn_graph *graph = cli_input_graph(&arguments->input);
    uint32_t known = 0, named = 0;
    bool wrong = status == TN_E_CONFLICT || status == TN_E_INVALID;
    for (uint32_t i = 0; wrong && graph != NULL && i < file->tensor_count; i++) {
        const cli_plan_tensor *item = &file->tensors[i];
        if (item->tensor == TN_NONE) continue;
        named++;
        known += item->tensor < tn_graph_tensor_count(graph) &&
                 strcmp(tn_graph_tensor(graph, item->tensor)->name, item->name) == 0;
    }
    if (2 * (uint64_t)known >= named) return status;
    *arguments->error = (tn_error){0};
    TN_FAIL(arguments->error, TN_E_INVALID,
            "%.120s is a plan for another model: %u of its %u tensors are those of %.120s",
            arguments->plan_path, known, named, arguments->input.path);
}

static tn_status verify_load(verify_arguments *arguments) {
    cli_input *input = &arguments->input;
    if (arguments->plan_path != NULL) {
        TN_TRY(verify_read_plan(arguments));
        TN_TRY(cli_plan_file_open(arguments->plan_path, &arguments->file, arguments->error));
    } else if (input->alignment == 0) {
        input->alignment = CLI_TFLITE_ALIGNMENT;
    }
    if (arguments->file.has_options)
        TN_TRY(cli_plan_file_options(&arguments->file, input, &arguments->plan_training,
                                     arguments->error));
    else if (cli_input_is_model(input))
        cli_plan_file_whom(&arguments->file, &input->whom);
    if (cli_input_is_model(input))
        return verify_other_model(arguments, verify_load_model(arguments));
    input->of_plan = arguments->file.has_options;
    TN_TRY(cli_input_load(input, arguments->error));
    TN_TRY(verify_make_room(arguments));
    return verify_match_bodies(arguments);
}

/* --- consistency of the document --- */

/* The recorded places of tensors, and the peak, must agree with the buffers. */
static tn_status verify_agree(const verify_arguments *arguments, const tn_layout *layout) {
    const cli_plan_file *file = &arguments->file;
    char said[TN__WORDS_MAX], is[TN__WORDS_MAX];
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const cli_plan_tensor *item = &file->tensors[i];
        uint64_t offset = 0;
        TN_TRY(verify_item_at(arguments, item, &offset));
        if (offset != item->offset)
            TN_FAIL(arguments->error, TN_E_CONFLICT,
                    "the plan contradicts itself: tensor '%.80s' is at %s, but its buffer places "
                    "it at %s",
                    item->name, tn__grouped(item->offset, said), tn__grouped(offset, is));
    }
    if (file->has_options && file->has_peak && file->peak != layout->peak)
        TN_FAIL(arguments->error, TN_E_CONFLICT,
                "the plan contradicts itself: its peak is %s, but its buffers end at %s",
                tn__grouped(file->peak, said), tn__grouped(layout->peak, is));
    return TN_OK;
}

/* --- the options of a plan without options --- */

static uint64_t verify_alignment(const tn_problem *problem) {
    uint64_t most = 1;
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++)
        if (tn_problem_body(problem, id)->alignment > most)
            most = tn_problem_body(problem, id)->alignment;
    return most;
}

/* A row with other steps than the buffer of its name, or with enough bytes for its tensor but fewer
 * than the buffer, in which other tensors are joined with it; or TN__NAMES_NONE. */
static uint32_t verify_other_row(const verify_arguments *arguments, tn_body_id *body) {
    for (tn_body_id id = 0; id < arguments->body_count; id++) {
        char text[16];
        const tn_body *it = tn_problem_body(arguments->input.problem, id);
        const char *name = verify_row_name(it, id, text);
        uint32_t row = tn__names_find(&arguments->rows, name, strlen(name));
        if (row == TN__NAMES_NONE) continue;
        const tn_body *other = tn_problem_body(arguments->plan, row);
        *body = id;
        if (other->first > it->first || other->last < it->last) return row;
        if (arguments->is_placed && other->size < it->size) return row;
    }
    return TN__NAMES_NONE;
}

static tn_status verify_fail_other(const verify_arguments *arguments, uint32_t row, tn_body_id body,
                                   tn_error *why) {
    const tn_body *it = tn_problem_body(arguments->input.problem, body);
    const tn_body *other = tn_problem_body(arguments->plan, row);
    const char *advice = "add its options, such as --order, --train or --kernels, or use a .json "
                         "plan, which records them";
    if (other->first > it->first || other->last < it->last)
        TN_FAIL(why, TN_E_INVALID,
                "%.120s was made with other options: '%.60s' lives in steps [%" PRId64 ", %" PRId64
                ") in the plan and [%" PRId64 ", %" PRId64 ") here; %s",
                arguments->plan_path, it->name, other->first, other->last, it->first, it->last,
                advice);
    TN_FAIL(why, TN_E_INVALID,
            "%.120s was made with other options: the buffer of '%.60s' has %" PRIu64
            " bytes in the plan and %" PRIu64 " here; %s",
            arguments->plan_path, it->name, other->size, it->size, advice);
}

/* Whether the rows alone, with their own sizes and steps, are a valid plan: then only tensors that
 * are joined in other ways here can conflict. */
static bool verify_rows_agree(const verify_arguments *arguments) {
    tn_layout layout = {0};
    tn_error ignored = {0};
    tn_status status =
        tn_layout_from_offsets(arguments->plan, arguments->plan_offsets, &layout, &ignored);
    if (status == TN_OK) status = tn_layout_verify(arguments->plan, &layout, NULL, &ignored);
    tn_layout_release(&layout);
    return status == TN_OK;
}

/* Whether at least half of the row names belong to this model or problem. */
static bool verify_knows_rows(const verify_arguments *arguments) {
    uint32_t known = 0, rows = tn_problem_count(arguments->plan);
    for (tn_body_id id = 0; id < tn_problem_count(arguments->input.problem); id++) {
        char text[16];
        const char *name = verify_row_name(tn_problem_body(arguments->input.problem, id), id, text);
        known += tn__names_find(&arguments->rows, name, strlen(name)) != TN__NAMES_NONE;
    }
    return 2 * (uint64_t)known >= rows;
}

/* Replaces "not valid" by the missing option, if the rows show one. */
static tn_status verify_missing(const verify_arguments *arguments, tn_status status) {
    tn_error *error = arguments->error;
    const tn_problem *problem = arguments->input.problem, *plan = arguments->plan;
    tn_body_id body = 0;
    bool bare = plan != NULL && arguments->file.document == NULL && problem != NULL;
    if (status != TN_E_CONFLICT || !bare || !verify_knows_rows(arguments)) return status;
    const char *path = arguments->plan_path;
    uint32_t banks = tn_problem_bank_count(plan), row = verify_other_row(arguments, &body);
    uint64_t asked = verify_alignment(problem), rows = verify_alignment(plan);
    bool packed = false; /* smaller alignment than requested */
    for (uint32_t i = 0; i < tn_problem_count(plan) && rows < asked; i++)
        packed |= arguments->plan_offsets[i] % asked != 0;
    tn_error why = {0};
    if (banks > tn_problem_bank_count(problem))
        status = tn__fail(
            &why, TN_E_INVALID,
            "%.120s has rows in %u banks; add --bank NAME=SIZE for each of them, in the same order",
            path, banks);
    else if (packed && cli_input_is_model(&arguments->input))
        status = tn__fail(&why, TN_E_INVALID,
                          "%.120s was made for alignment %" PRIu64 ", but %" PRIu64
                          " is used here; add --alignment %" PRIu64,
                          path, rows, asked, rows);
    else if (row != TN__NAMES_NONE && !arguments->has_rows && cli_input_is_model(&arguments->input))
        status = verify_fail_other(arguments, row, body, &why);
    else if (arguments->is_placed && !arguments->has_rows &&
             cli_input_is_model(&arguments->input) && verify_rows_agree(arguments))
        status =
            tn__fail(&why, TN_E_INVALID,
                     "%.120s was made with other options: its buffers do not overlap, but hold "
                     "other tensors here; add its options, such as --fuse-concat, or use a "
                     ".json plan, which records them",
                     path);
    if (status == TN_E_INVALID) *error = why;
    return status;
}

/* --- output --- */

/* The text is one sentence. */
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

static void verify_tell_partial(cli_answer *answer, const verify_arguments *arguments,
                                const tn_layout *layout) {
    cli_tell(answer, "buffers", layout->body_count - arguments->tail_count);
    cli_tell_brief(answer, " in a head of ");
    cli_tell(answer, "peak", arguments->head);
    cli_tell_brief(answer, ", scratch included");
    cli_tell_null(answer, "lower_bound");
    cli_tell_null(answer, "gap");
    cli_tell_if(answer, "in_tail", arguments->tail_count);
}

static void verify_tell_whole(cli_answer *answer, const tn_problem *problem,
                              const tn_layout *layout) {
    uint32_t costs;
    cli_tell(answer, "buffers", layout->body_count);
    cli_tell_brief(answer, " in ");
    cli_tell(answer, "peak", layout->peak);
    cli_tell(answer, "lower_bound", layout->lower_bound);
    cli_tell_real(answer, "gap", verify_gap(layout));
    tn_problem_reuse_costs(problem, &costs);
    if (costs > 0) cli_tell(answer, "reuse_cost", layout->reuse_cost);
    tn_problem_events(problem, &costs);
    if (costs > 0) cli_tell(answer, "waits", layout->waits);
    if (costs > 0) cli_tell(answer, "time", layout->time);
}

/* The model that a plan was checked against. */
static void verify_tell_kernels(cli_answer *answer, const tn_report_kernels *kernels) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_whom(&text, kernels);
    cli_tell_break(answer);
    if (!text.failed) cli_tell_brief(answer, "for %s", text.data);
    tn__text_release(&text);
}

static int verify_print(const verify_arguments *arguments, tn_status status,
                        const tn_layout *layout) {
    const cli_input *input = &arguments->input;
    tn_report_kernels told;
    cli_answer answer;
    if (status != TN_OK && status != TN_E_CONFLICT) return cli_fail(arguments->error);
    cli_progress_end();
    cli_answer_begin(&answer, &verify_facts, arguments->json);
    cli_tell_word(&answer, "input", cli_shown_path(input->path));
    cli_tell_word(&answer, "plan",
                  arguments->plan_path != NULL ? arguments->plan_path : input->path);
    const tn_report_kernels *kernels =
        input->occupancy != NULL ? cli_whom_told(&input->whom, input->setup, &told) : NULL;
    if (input->occupancy != NULL) cli_kernels_tell(&answer, kernels);
    cli_tell(&answer, "valid", status == TN_OK);
    cli_tell_word(&answer, "conflict", status == TN_OK ? NULL : arguments->error->message);
    if (status == TN_OK && arguments->is_partial)
        verify_tell_partial(&answer, arguments, layout);
    else if (status == TN_OK)
        verify_tell_whole(&answer, input->problem, layout);
    if (status == TN_OK && !arguments->is_partial && input->occupancy != NULL &&
        !cli_tone_asked().brief)
        verify_tell_kernels(&answer, kernels);
    if (input->foreign != NULL && arguments->plan_path == NULL)
        cli_foreign_verify_tell(&answer, input->foreign, status == TN_OK);
    tn_status printed = cli_answer_end(&answer, arguments->error);
    return printed != TN_OK ? cli_fail(arguments->error) : tn_status_exit_code(status);
}

/* The plan of another tool, in the files that also have its buffers. */
static int verify_foreign(verify_arguments *arguments) {
    cli_input *input = &arguments->input;
    int code;
    tn_status status = cli_foreign_check(input, arguments->error);
    code = verify_print(arguments, status, &input->own_layout);
    cli_input_release(input);
    return cli_finish(code);
}

static const char verify_doc[] =
    "Checks a plan of any tool against INPUT, a model (.onnx, .tflite) or a problem (.csv, .json). "
    "Without --plan, checks the plan that INPUT contains: a .tflite model, a folder of XLA dumps, "
    "a "
    ".pte program of ExecuTorch. Prints the first conflict with both buffers, their bytes and the "
    "step.\v"
    "Examples:\n"
    "  tenure verify resnet50.onnx --plan plan.json\n"
    "  tenure verify buffers.csv --plan theirs.csv\n"
    "  tenure verify resnet50.onnx --plan plan.csv --kernels onednn:2\n"
    "  tenure verify planned.tflite\n"
    "  tenure verify xla_dump/\n"
    "  tenure verify textures.csv --form objects --plan objects.csv\n\n"
    "Exit status: 0 valid, 1 not valid, 2 bad usage or input, 4 internal error.";

static int verify_objects(verify_arguments *arguments) {
    cli_answer answer;
    cli_answer_begin(&answer, &verify_facts, arguments->json);
    cli_tell_word(&answer, "input", cli_shown_path(arguments->input.path));
    cli_tell_word(&answer, "plan", arguments->plan_path);
    tn_status status =
        cli_objects_verify(&arguments->input, arguments->plan_path, &answer, arguments->error);
    bool told = status == TN_OK || status == TN_E_CONFLICT;
    if (!told)
        cli_answer_release(&answer);
    else if (cli_answer_end(&answer, arguments->error) != TN_OK)
        told = false;
    int code = told ? tn_status_exit_code(status) : cli_fail(arguments->error);
    cli_input_release(&arguments->input);
    return cli_finish(code);
}

/* The meaning of shared options in this command. */
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

/* The reuse cost, waits and time that the plan states; the verifier computes them again. A model
 * gets the events of its program for that. */
static tn_status verify_claims(verify_arguments *arguments, tn_layout *layout, tn_error *error) {
    const cli_plan_file *file = &arguments->file;
    cli_input *input = &arguments->input;
    if (file->has_reuse_cost) layout->reuse_cost = file->reuse_cost;
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
    verify_arguments arguments = {.input = {.import = TN_IMPORT_OPTIONS_INIT},
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
    tn_status status = verify_load(&arguments);
    arguments.is_placed = status == TN_OK;
    if (status == TN_OK)
        status = tn_layout_from_places(arguments.input.problem, arguments.offsets, arguments.banks,
                                       &layout, &error);
    if (status == TN_OK) status = verify_claims(&arguments, &layout, &error);
    if (status == TN_OK) status = tn_layout_verify(arguments.input.problem, &layout, NULL, &error);
    if (status == TN_OK) status = verify_agree(&arguments, &layout);
    status = verify_missing(&arguments, status);
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
    cli_input_release(&arguments.input); /* of the file's strings, and the program's set-up */
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
