/* match_rows.c - finds the offsets of the buffers of a model or problem in the rows of a plan, for
 * `tenure verify`.
 *
 * The rows of a .json plan of Tenure are found by the index of their tensor. The rows of any other
 * plan are matched by name, for the order and the options of the command line. A row may name any
 * tensor. If the rows place the input and the output of an operator at one offset, and the
 * operator's rule allows it, the operator is taken to work in place, or a reshape to be a view. A
 * tensor without a row must share the memory of one with a row.
 *
 * A .csv plan records no options. If its rows show that it was made with other options than those
 * of the command line, the result is a usage error that names the option. A plan with rows that
 * name no tensor of the model is refused in the same way.
 *
 * A solution of dsa-solver names the buffers of its problem by id; the library reads it.
 */
#include "base/base.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/plan_file.h"
#include "cli/plan/plan.h"
#include "report/format.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- reading the plan's rows --- */

static const char *rows_row_name(const tn_body *body, uint32_t row, char text[16]) {
    if (body->name != NULL) return body->name;
    snprintf(text, 16, "%u", row);
    return text;
}

/* Makes the index of row names. Names may be missing or repeated. Rows with equal names are matched
 * in their order with buffers of that name. arguments->rows gives the first row of a name, next[]
 * the next row of the same name, and turn[] the row to match next. */
static tn_status rows_name_rows(cli_verify *arguments) {
    uint32_t count = tn_problem_count(arguments->plan), first;
    arguments->next = calloc((size_t)count + 1, sizeof *arguments->next);
    arguments->turn = calloc((size_t)count + 1, sizeof *arguments->turn);
    if (arguments->next == NULL || arguments->turn == NULL)
        return tn__no_memory(arguments->error, "the plan");
    for (uint32_t row = 0; row < count; row++) {
        const char *name = tn_problem_body(arguments->plan, row)->name;
        arguments->next[row] = TN__NAMES_NONE;
        /* during this loop, turn[first] is the last row of the name so far */
        arguments->turn[row] = row;
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

/* Returns the next unmatched row with this name and marks it as matched. Returns TN__NAMES_NONE if
 * there is no such row. */
static uint32_t rows_take_row(cli_verify *arguments, const char *name) {
    uint32_t first = tn__names_find(&arguments->rows, name, strlen(name));
    if (first == TN__NAMES_NONE || arguments->turn[first] == TN__NAMES_NONE) return TN__NAMES_NONE;
    uint32_t row = arguments->turn[first];
    arguments->turn[first] = arguments->next[row];
    return row;
}

static tn_status rows_read_plan(cli_verify *arguments) {
    tn_error *error = arguments->error;
    TN_TRY(tn_problem_load(arguments->plan_path, arguments->input.import.context, &arguments->plan,
                           &arguments->plan_offsets, error));
    if (arguments->plan_offsets == NULL && tn_problem_count(arguments->plan) > 0)
        return tn__where(
            error,
            tn__fail(error, TN_E_INVALID,
                     "the plan has no offsets; pass a .csv with a column offset, or a .json plan"),
            "%s", arguments->plan_path);
    return rows_name_rows(arguments);
}

static tn_status rows_check_size(const cli_verify *arguments, const char *name, uint32_t row,
                                 uint64_t needed) {
    uint64_t given = tn_problem_body(arguments->plan, row)->size;
    if (given >= needed) return TN_OK;
    char has[TN__WORDS_MAX], needs[TN__WORDS_MAX];
    TN_FAIL(arguments->error, TN_E_CONFLICT, "'%.80s' has %s bytes in the plan but needs %s", name,
            tn__grouped(given, has), tn__grouped(needed, needs));
}

/* --- problems: a row per buffer --- */

/* Reports a buffer without a row. If the plan has rows for fewer than half of the buffers, the
 * message says that it is a plan for another problem. */
static tn_status rows_refuse_other(const cli_verify *arguments, uint32_t first, uint32_t known,
                                   const char *name) {
    uint32_t count = arguments->body_count;
    for (tn_body_id id = first + 1; id < count; id++) {
        char text[16];
        const tn_body *body = tn_problem_body(arguments->input.problem, id);
        const char *other = rows_row_name(body, id, text);
        known += tn__names_find(&arguments->rows, other, strlen(other)) != TN__NAMES_NONE;
    }
    if (2 * (uint64_t)known < count)
        TN_FAIL(arguments->error, TN_E_CONFLICT,
                "%.120s is a plan for another problem: it has %u of the %u buffers of %.120s",
                arguments->plan_path, known, count, arguments->input.path);
    TN_FAIL(arguments->error, TN_E_CONFLICT, "the plan has no offset for '%.80s'", name);
}

static tn_status rows_match_bodies(cli_verify *arguments) {
    const tn_problem *problem = arguments->input.problem;
    uint32_t matched = 0;
    for (tn_body_id id = 0; id < arguments->body_count; id++) {
        char text[16];
        const tn_body *body = tn_problem_body(problem, id);
        const char *name = rows_row_name(body, id, text);
        uint32_t row = rows_take_row(arguments, name);
        if (row == TN__NAMES_NONE) return rows_refuse_other(arguments, id, matched, name);
        TN_TRY(rows_check_size(arguments, name, row, body->size));
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

/* Reads the plan inside a model, which has an offset for each tensor instead of rows. A tensor that
 * the plan leaves to the runtime gets the offset that the runtime would choose. Variables without
 * an offset are placed after the head. Scratch memory is not checked, because the runtime always
 * places it around the other buffers. */
static tn_status rows_claim_inside(cli_verify *arguments) {
    cli_input *input = &arguments->input;
    uint32_t tensors = tn_graph_tensor_count(input->graph);
    tn_micro_options micro = TN_MICRO_OPTIONS_INIT;
    tn_micro_arena arena;
    micro =
        cli_tflm_options(input->processor != NULL ? input->processor : cli_processors[0],
                         &input->tflm_kernels, input->tflm_kernels.library != TN_MICRO_REFERENCE);
    arguments->claimed = calloc((size_t)tensors + 1, sizeof *arguments->claimed);
    if (arguments->claimed == NULL) return tn__no_memory(arguments->error, "claims");
    TN_TRY(tn_tflite_read_plan(input->path, &input->import, input->graph, arguments->claimed,
                               arguments->error)); /* a model without a plan is an error here */
    TN_TRY(tn_micro_arena_of(input->path, &input->import, input->graph, NULL, &micro, &arena,
                             arguments->claimed, arguments->error));
    input->occupancy_options.workspaces = NULL;
    arguments->head = arena.head;
    arguments->is_partial = arena.scratch > 0;
    arguments->tail = (arena.head + CLI_TFLITE_ALIGNMENT - 1) / CLI_TFLITE_ALIGNMENT;
    arguments->tail *= CLI_TFLITE_ALIGNMENT;
    return TN_OK;
}

/* Returns whether a row is scratch memory. Such a row is named after its operator. rows_place finds
 * out whether the operator has scratch memory. */
static bool rows_is_scratch(const cli_verify *arguments, uint32_t row) {
    static const char suffix[] = ":workspace";
    char text[16];
    const char *name = rows_row_name(tn_problem_body(arguments->plan, row), row, text);
    size_t length = strlen(name), end = sizeof suffix - 1;
    return arguments->input.occupancy_options.workspaces != NULL && length > end &&
           strcmp(name + length - end, suffix) == 0;
}

/* Returns whether a row is a weight in the layout of one kernel. Such a row, like the buffer, is
 * named after the weight and the operator. */
static bool rows_is_form(const cli_verify *arguments, uint32_t row) {
    char text[16];
    const char *name = rows_row_name(tn_problem_body(arguments->plan, row), row, text);
    return arguments->input.target.runner != CLI_RUNNER_NONE && strstr(name, " for ") != NULL;
}

/* Returns whether the plan has rows for scratch memory. Plans of some tools have none. */
static bool rows_has_scratch(const cli_verify *arguments) {
    uint32_t rows = arguments->plan != NULL ? tn_problem_count(arguments->plan) : 0;
    for (uint32_t row = 0; row < rows; row++)
        if (rows_is_scratch(arguments, row)) return true;
    return false;
}

/* Returns the graph that has all tensors of the program, including encoded forms. */
static const tn_graph *rows_graph(const cli_verify *arguments) {
    return arguments->program != NULL ? tn_program_graph(arguments->program)
                                      : cli_input_graph(&arguments->input);
}

/* Computes the offset of a tensor in the plan: the offset of its buffer plus the tensor's distance
 * from the start of the buffer. */
static tn_status rows_item_at(const cli_verify *arguments, const cli_plan_tensor *item,
                              uint64_t *offset) {
    if (item->buffer < tn_problem_count(arguments->plan) &&
        tn__add(arguments->plan_offsets[item->buffer], item->delta, offset))
        return TN_OK;
    TN_FAIL(arguments->error, TN_E_CONFLICT, "tensor '%.80s' is in no buffer of the plan",
            item->name);
}

/* Sets above[bank] to a number that is added to the offsets of a bank, so that offsets in different
 * banks are never equal. That is enough, because claimed offsets are only compared with each other.
 * Returns false if the banks together have more than 2^64 bytes. */
static bool rows_stack_banks(const cli_verify *arguments, uint64_t *above) {
    uint32_t rows = tn_problem_count(arguments->plan),
             banks = tn_problem_bank_count(arguments->plan);
    /* until the next loop, above[bank] is the end of the bank */
    for (uint32_t row = 0; row < rows; row++) {
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

static tn_status rows_make_claims(cli_verify *arguments, uint64_t **above) {
    uint32_t tensors = tn_graph_tensor_count(rows_graph(arguments));
    arguments->claimed = calloc((size_t)tensors + 1, sizeof *arguments->claimed);
    *above = calloc((size_t)tn_problem_bank_count(arguments->plan) + 1, sizeof **above);
    if (arguments->claimed == NULL || *above == NULL)
        return tn__no_memory(arguments->error, "claims");
    for (tn_tensor_id id = 0; id < tensors; id++) arguments->claimed[id] = TN_SIZE_UNKNOWN;
    if (rows_stack_banks(arguments, *above)) return TN_OK;
    TN_FAIL(arguments->error, TN_E_INVALID, "%.120s: the banks together have more than 2^64 bytes",
            arguments->plan_path);
}

/* Sets the claimed offset of each tensor from the document, by index. A tensor that has several
 * offsets at different times claims none. */
static tn_status rows_claim_file(cli_verify *arguments, const uint64_t *above) {
    const cli_plan_file *file = &arguments->file;
    const tn_graph *graph = rows_graph(arguments);
    uint32_t tensors = tn_graph_tensor_count(graph);
    tn_tensor_id before = TN_NONE;
    /* the list of tensors is sorted by tensor */
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const cli_plan_tensor *item = &file->tensors[i];
        uint64_t place = 0;
        TN_TRY(rows_item_at(arguments, item, &place));
        if (item->tensor == TN_NONE) continue;
        if (item->tensor >= tensors)
            TN_FAIL(arguments->error, TN_E_CONFLICT,
                    "the plan places tensor %u ('%.80s'), but the model has only %u tensors",
                    item->tensor, item->name, tensors);
        bool form =
            item->op != TN_NONE && tn_tensor_is_static(tn_graph_tensor(graph, item->tensor));
        if (form) continue; /* a weight in the layout of one kernel has a separate place */
        place = tn__add_sat(place, above[tn_problem_body(arguments->plan, item->buffer)->bank]);
        uint64_t *claim = &arguments->claimed[item->tensor];
        *claim = item->tensor != before || *claim == place ? place : TN_SIZE_UNKNOWN;
        before = item->tensor;
    }
    return TN_OK;
}

static tn_status rows_claim_rows(cli_verify *arguments, const uint64_t *above) {
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
        if (seen[row] || rows_is_scratch(arguments, row) || rows_is_form(arguments, row)) continue;
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
                              rows_row_name(tn_problem_body(arguments->plan, row), row, text));
    }
    free(seen);
    return status;
}

static tn_status rows_claim(cli_verify *arguments) {
    uint64_t *above;
    if (arguments->plan_path == NULL) return rows_claim_inside(arguments);
    tn_status status = rows_make_claims(arguments, &above);
    if (status == TN_OK)
        status = arguments->file.tensor_count > 0 ? rows_claim_file(arguments, above)
                                                  : rows_claim_rows(arguments, above);
    free(above);
    return status;
}

/* Returns whether the plan places parameters, in which case all parameters must be checked. A plan
 * inside a model is not considered: it may place a tensor that the runtime computes but that is a
 * constant for Tenure. */
static bool rows_claims_static(const cli_verify *arguments) {
    const tn_graph *graph = cli_input_graph(&arguments->input);
    if (arguments->plan_path == NULL || arguments->file.has_options) return false;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        if (arguments->claimed[id] != TN_SIZE_UNKNOWN &&
            tn_tensor_is_static(tn_graph_tensor(graph, id)))
            return true;
    for (uint32_t row = 0; row < tn_problem_count(arguments->plan); row++)
        if (rows_is_form(arguments, row)) return true;
    return false;
}

/* Gives a variable an offset after the head, where it overlaps no other buffer. */
static void rows_put_in_tail(cli_verify *arguments, tn_body_id id) {
    const tn_body *body = tn_problem_body(arguments->input.problem, id);
    uint64_t size = body->size;
    arguments->offsets[id] = arguments->tail;
    if (!tn__align_up(size, body->alignment, &size)) size = body->size;
    arguments->tail = tn__add_sat(arguments->tail, size);
    arguments->tail_count++;
    arguments->is_partial = true;
}

/* Finds the offset of one live range in the document. *claim is TN_SIZE_UNKNOWN if the document
 * does not have the live range. Errors: E_CONFLICT if it has fewer bytes there than it needs. */
static tn_status rows_item(cli_verify *arguments, const tn_life *life, const char *name,
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
    return rows_item_at(arguments, item, claim);
}

/* Computes the offset of each buffer from the offsets that the plan gives its live ranges, which
 * must agree. */
static tn_status rows_place(cli_verify *arguments) {
    const tn_graph *graph = rows_graph(arguments);
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
            TN_TRY(rows_item(arguments, life, name, &claim, &row));
        } else if (arguments->plan_path == NULL) {
            if (!own) claim = arguments->claimed[life->tensor];
            /* the search by name also finds the rows of scratch memory, and those of weights in a
             * kernel's layout */
        } else {
            row = tn__names_find(&arguments->rows, name, strlen(name));
            if (row != TN__NAMES_NONE) claim = arguments->plan_offsets[row];
        }
        if (claim == TN_SIZE_UNKNOWN || life->whole) continue;
        if (!by_index && row != TN__NAMES_NONE)
            TN_TRY(rows_check_size(arguments, name, row, life->bytes));
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
            rows_put_in_tail(arguments, id);
        else if (arguments->offsets[id] == TN_SIZE_UNKNOWN)
            TN_FAIL(arguments->error, TN_E_CONFLICT, "the plan has no offset for '%.80s'",
                    tn_problem_body(input->problem, id)->name);
    return TN_OK;
}

/* Loads the input. If the steps of the plan are invalid for the model and fewer than half of the
 * plan's rows name tensors of the model, the error says that the plan is for another model. */
static tn_status rows_load_input(cli_verify *arguments) {
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

/* Matches row i with buffer i, if names, sizes and steps agree, as in .csv plans of Tenure. Names
 * may be empty or repeated there. Sets *valid if all rows match and the layout is valid. If it is
 * not, matching by name finds the error. */
static tn_status rows_match_rows(cli_verify *arguments, bool *valid) {
    const tn_problem *problem = arguments->input.problem, *plan = arguments->plan;
    uint32_t count = tn_problem_count(problem);
    tn_layout layout = {0};
    tn_error why = {0};
    *valid = false;
    if (plan == NULL || tn_problem_count(plan) != count) return TN_OK;
    for (tn_body_id id = 0; id < count; id++) {
        char here[16], there[16];
        const tn_body *body = tn_problem_body(problem, id), *row = tn_problem_body(plan, id);
        if (strcmp(rows_row_name(body, id, here), rows_row_name(row, id, there)) != 0 ||
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
    /* the conflict is reported here, because rows with repeated names cannot be matched */
    *arguments->error = why;
    return status;
}

/* Allocates the offsets and banks of the buffers of the present problem. */
static tn_status rows_make_room(cli_verify *arguments) {
    arguments->body_count = tn_problem_count(arguments->input.problem);
    free(arguments->offsets);
    free(arguments->banks);
    arguments->offsets = calloc((size_t)arguments->body_count + 1, sizeof *arguments->offsets);
    arguments->banks = calloc((size_t)arguments->body_count + 1, sizeof *arguments->banks);
    if (arguments->offsets == NULL || arguments->banks == NULL)
        return tn__no_memory(arguments->error, "offsets");
    return TN_OK;
}

/* Requests kernels with scratch memory that fits into that of the document. Kernels have slower
 * variants that need less scratch memory. */
static tn_status rows_find_scratch(cli_verify *arguments) {
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

/* Makes the graph and the program that the plan was made for. A document of Tenure contains its
 * program. */
static tn_status rows_load_program(cli_verify *arguments) {
    cli_input *input = &arguments->input;
    input->replays = arguments->file.has_program;
    if (!input->replays && input->order == NULL) {
        input->sequence = arguments->file.steps;
        input->sequence_count = arguments->file.step_count;
    }
    TN_TRY(rows_load_input(arguments));
    if (!input->replays) return TN_OK;
    TN_TRY(cli_plan_file_program(&arguments->file, tn_setup_graph(input->setup),
                                 &arguments->program, arguments->error));
    input->program = arguments->program;
    TN_TRY(rows_find_scratch(arguments));
    return cli_input_replay(input, arguments->error);
}

/* Refuses a plan for several streams that does not say which operators run on them: such a plan can
 * be checked only in one order of execution, which is not what it is for. */
static tn_status rows_check_streams(const cli_verify *arguments) {
    uint32_t planned = arguments->plan != NULL ? tn_problem_streams(arguments->plan) : 1;
    bool known = arguments->file.has_program || tn_problem_streams(arguments->input.problem) > 1;
    if (planned < 2 || known) return TN_OK;
    TN_FAIL(arguments->error, TN_E_INVALID,
            "%.120s is a plan for %u streams, but does not say which operators run on them; pass "
            "the .json plan with its tensors and steps, or add --parallel safe if the plan was "
            "made so",
            arguments->plan_path, planned);
}

static tn_status rows_load_model(cli_verify *arguments) {
    cli_input *input = &arguments->input;
    bool valid = false;
    TN_TRY(rows_load_program(arguments));
    TN_TRY(rows_check_streams(arguments));
    if (input->target.runner != CLI_RUNNER_NONE &&
        /* if the plan contains a program, it also decides about scratch memory */
        !input->replays)
        input->occupancy_options.workspaces = tn_kernels_workspaces(tn_setup_kernels(input->setup));
    TN_TRY(rows_make_room(arguments));
    if (arguments->file.tensor_count == 0) TN_TRY(rows_match_rows(arguments, &valid));
    if (valid) return TN_OK;
    if (arguments->file.tensor_count == 0 && !rows_has_scratch(arguments))
        input->occupancy_options.workspaces = NULL;
    TN_TRY(rows_claim(arguments));
    tn_occupancy_options *options = &input->occupancy_options;
    options->claimed = arguments->claimed;
    if (options->inplace == TN_INPLACE_CHOOSE) {
        options->inplace = TN_INPLACE_CLAIMED;
        /* Concatenations are fused only where the claimed offsets require it. A tensor that is
         * computed several times has no claim, so the plan's own options decide if it has some. */
        options->fuse_concat = options->fuse_concat || !arguments->file.has_options;
    }
    if (rows_claims_static(arguments)) input->statics = TN_STATIC_ARENA;
    TN_TRY(cli_input_rebuild(input, arguments->error));
    TN_TRY(rows_make_room(arguments));
    return rows_place(arguments);
}

/* If fewer than half of the document's tensors have the name of the model's tensor with that index,
 * replaces the error by one that says that the plan is for another model. */
static tn_status rows_other_model(const cli_verify *arguments, tn_status status) {
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

/* Reads a solution of dsa-solver. It has no buffers, but refers to those of the problem by id. */
static tn_status rows_load_solution(cli_verify *arguments) {
    tn_layout layout;
    TN_TRY(cli_input_load(&arguments->input, arguments->error));
    TN_TRY(rows_make_room(arguments));
    TN_TRY(
        tn_layout_load(arguments->input.problem, arguments->plan_path, &layout, arguments->error));
    for (tn_body_id id = 0; id < arguments->body_count; id++) {
        arguments->offsets[id] = layout.offset[id];
        arguments->banks[id] = layout.bank[id];
    }
    tn_layout_release(&layout);
    return TN_OK;
}

tn_status cli_verify_load(cli_verify *arguments) {
    cli_input *input = &arguments->input;
    if (arguments->plan_path != NULL) {
        if (!cli_input_is_model(input) && cli_plan_file_is_solution(arguments->plan_path))
            return rows_load_solution(arguments);
        TN_TRY(rows_read_plan(arguments));
        TN_TRY(cli_plan_file_open(arguments->plan_path, &arguments->file, arguments->error));
    } else if (input->alignment == 0) {
        input->alignment = CLI_TFLITE_ALIGNMENT;
    }
    if (arguments->file.has_options)
        TN_TRY(cli_plan_file_options(&arguments->file, input, &arguments->plan_training,
                                     arguments->error));
    else if (cli_input_is_model(input))
        cli_plan_file_target(&arguments->file, &input->target);
    if (cli_input_is_model(input)) return rows_other_model(arguments, rows_load_model(arguments));
    input->of_plan = arguments->file.has_options;
    TN_TRY(cli_input_load(input, arguments->error));
    TN_TRY(rows_make_room(arguments));
    return rows_match_bodies(arguments);
}

/* --- consistency of the document --- */

/* Checks that the offsets of tensors and the peak, which the document states in addition to its
 * buffers, agree with the buffers, and its number of streams with its steps. */
tn_status cli_verify_agree(const cli_verify *arguments, const tn_layout *layout) {
    const cli_plan_file *file = &arguments->file;
    char said[TN__WORDS_MAX], is[TN__WORDS_MAX];
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const cli_plan_tensor *item = &file->tensors[i];
        uint64_t offset = 0;
        TN_TRY(rows_item_at(arguments, item, &offset));
        if (offset != item->offset)
            TN_FAIL(arguments->error, TN_E_CONFLICT,
                    "the plan contradicts itself: tensor '%.80s' is at %s, but its buffer places "
                    "it at %s",
                    item->name, tn__grouped(item->offset, said), tn__grouped(offset, is));
    }
    if (file->has_peak && file->peak != layout->peak)
        TN_FAIL(arguments->error, TN_E_CONFLICT,
                "the plan contradicts itself: its peak is %s, but its buffers end at %s",
                tn__grouped(file->peak, said), tn__grouped(layout->peak, is));
    if (file->has_lower_bound && file->lower_bound > layout->peak)
        TN_FAIL(arguments->error, TN_E_CONFLICT,
                "the plan contradicts itself: its lower bound is %s, but it needs %s",
                tn__grouped(file->lower_bound, said), tn__grouped(layout->peak, is));
    /* the problem of the model was made from the steps of the plan */
    uint32_t planned = arguments->plan != NULL ? tn_problem_streams(arguments->plan) : 1;
    uint32_t used = tn_problem_streams(arguments->input.problem);
    if (file->has_program && planned != used)
        TN_FAIL(
            arguments->error, TN_E_CONFLICT,
            "the plan contradicts itself: its member \"streams\" is %u, but its steps run on %u "
            "stream%s",
            planned, used, used == 1 ? "" : "s");
    return TN_OK;
}

/* --- finding missing options, for a plan that records no options --- */

static uint64_t rows_alignment(const tn_problem *problem) {
    uint64_t most = 1;
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++)
        if (tn_problem_body(problem, id)->alignment > most)
            most = tn_problem_body(problem, id)->alignment;
    return most;
}

/* Finds a row that shows that the plan was made with other options. Either its steps differ from
 * those of the buffer of its name. Or the row is large enough for its tensor but smaller than the
 * buffer, because other tensors share that buffer here. Returns TN__NAMES_NONE if there is no such
 * row. */
static uint32_t rows_other_row(const cli_verify *arguments, tn_body_id *body) {
    for (tn_body_id id = 0; id < arguments->body_count; id++) {
        char text[16];
        const tn_body *it = tn_problem_body(arguments->input.problem, id);
        const char *name = rows_row_name(it, id, text);
        uint32_t row = tn__names_find(&arguments->rows, name, strlen(name));
        if (row == TN__NAMES_NONE) continue;
        const tn_body *other = tn_problem_body(arguments->plan, row);
        *body = id;
        if (other->first > it->first || other->last < it->last) return row;
        if (arguments->is_placed && other->size < it->size) return row;
    }
    return TN__NAMES_NONE;
}

static tn_status rows_fail_other(const cli_verify *arguments, uint32_t row, tn_body_id body,
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

/* Returns whether the rows alone, with their own sizes and steps, are a valid plan. If they are,
 * conflicts with the model can only come from tensors that share buffers in another way here. */
static bool rows_rows_agree(const cli_verify *arguments) {
    tn_layout layout = {0};
    tn_error ignored = {0};
    tn_status status =
        tn_layout_from_offsets(arguments->plan, arguments->plan_offsets, &layout, &ignored);
    if (status == TN_OK) status = tn_layout_verify(arguments->plan, &layout, NULL, &ignored);
    tn_layout_release(&layout);
    return status == TN_OK;
}

/* Returns whether at least half of the rows have the name of a buffer of this model or problem. */
static bool rows_knows_rows(const cli_verify *arguments) {
    uint32_t known = 0, rows = tn_problem_count(arguments->plan);
    for (tn_body_id id = 0; id < tn_problem_count(arguments->input.problem); id++) {
        char text[16];
        const char *name = rows_row_name(tn_problem_body(arguments->input.problem, id), id, text);
        known += tn__names_find(&arguments->rows, name, strlen(name)) != TN__NAMES_NONE;
    }
    return 2 * (uint64_t)known >= rows;
}

/* If the rows show which option is missing on the command line, replaces the error "not valid" by
 * one that names the option. */
tn_status cli_verify_missing(const cli_verify *arguments, tn_status status) {
    tn_error *error = arguments->error;
    const tn_problem *problem = arguments->input.problem, *plan = arguments->plan;
    tn_body_id body = 0;
    bool bare = plan != NULL && arguments->file.document == NULL && problem != NULL;
    if (status != TN_E_CONFLICT || !bare || !rows_knows_rows(arguments)) return status;
    const char *path = arguments->plan_path;
    uint32_t banks = tn_problem_bank_count(plan), row = rows_other_row(arguments, &body);
    uint64_t asked = rows_alignment(problem), rows = rows_alignment(plan);
    bool packed = false; /* whether some offset has a smaller alignment than requested */
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
        status = rows_fail_other(arguments, row, body, &why);
    else if (arguments->is_placed && !arguments->has_rows &&
             cli_input_is_model(&arguments->input) && rows_rows_agree(arguments))
        status =
            tn__fail(&why, TN_E_INVALID,
                     "%.120s was made with other options: its buffers do not overlap, but hold "
                     "other tensors here; add its options, such as --fuse-concat, or use a "
                     ".json plan, which records them",
                     path);
    if (status == TN_E_INVALID) *error = why;
    return status;
}
