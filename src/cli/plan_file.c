/* plan_file.c - a .json plan as a document: options, tensors by index, program.
 *
 * Our plans record their options, so that a plan and its model are enough to check it. Tensors and
 * operators are indices into the planned graph, which the options reproduce from the model. So
 * names may be empty, repeated or changed. Every index is checked before use.
 *
 *  Cost: O(bytes), and O(n log n) for n tensors.
 */
#include "cli/plan_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/plan_options.h"

static int plan_order(const void *a, const void *b) {
    const cli_plan_tensor *x = a, *y = b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return 0;
}

const cli_plan_tensor *cli_plan_file_find(const cli_plan_file *file, tn_tensor_id tensor,
                                          tn_op_id op, int64_t first) {
    const cli_plan_tensor sought = {.tensor = tensor, .op = op, .first = first};
    if (file->tensor_count == 0) return NULL;
    return bsearch(&sought, file->tensors, file->tensor_count, sizeof sought, plan_order);
}

#ifdef TENURE_MINIMAL

tn_status cli_plan_file_open(const char *path, cli_plan_file *file, tn_error *error) {
    (void)error;
    *file = (cli_plan_file){.path = path, .library = ""};
    return TN_OK;
}
void cli_plan_file_close(cli_plan_file *file) { *file = (cli_plan_file){0}; }

tn_status cli_plan_file_options(const cli_plan_file *file, cli_input *input, cli_training *training,
                                tn_error *error) {
    (void)file, (void)input, (void)training, (void)error;
    return TN_OK;
}
void cli_plan_file_whom(const cli_plan_file *file, cli_whom *whom) { (void)file, (void)whom; }

tn_status cli_plan_file_program(const cli_plan_file *file, const tn_graph *graph,
                                tn_program **program, tn_error *error) {
    (void)file, (void)graph, (void)program;
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "this minimal build cannot read JSON; use a build with jansson");
}

#else

#include "base/json.h"

/* --- members ----------------------------------------------------------------------------------
 */

static bool plan_number(const json_t *object, const char *member, uint64_t *value) {
    const json_t *found = json_object_get(object, member);
    if (!json_is_integer(found) || json_integer_value(found) < 0) return false;
    *value = (uint64_t)json_integer_value(found);
    return true;
}

/* An index; null or absent is TN_NONE. */
static bool plan_index(const json_t *object, const char *member, uint32_t *value) {
    const json_t *found = json_object_get(object, member);
    uint64_t number;
    *value = TN_NONE;
    if (found == NULL || json_is_null(found)) return true;
    if (!plan_number(object, member, &number) || number >= TN_NONE) return false;
    *value = (uint32_t)number;
    return true;
}

/* A number of a step; 0 if it is absent. */
static bool plan_small(const json_t *object, const char *member, uint32_t *value) {
    const json_t *found = json_object_get(object, member);
    uint64_t number = 0;
    if (found != NULL && (!plan_number(object, member, &number) || number >= TN_NONE)) return false;
    *value = (uint32_t)number;
    return true;
}

static const char *plan_text(const json_t *object, const char *member) {
    const char *text = json_string_value(json_object_get(object, member));
    return text != NULL ? text : "";
}

static tn_status plan_fail(const cli_plan_file *file, const char *list, size_t index,
                           const char *what, tn_error *error) {
    tn_status status = tn__fail(error, TN_E_INVALID, "%s[%zu]: %s", list, index, what);
    return tn__where(error, status, "%s", file->path);
}

/* --- reading ----------------------------------------------------------------------------------
 */

/* Older plans identify tensors by name only; they have no "delta". */
static tn_status plan_tensors(cli_plan_file *file, tn_error *error) {
    const json_t *list = json_object_get(file->document, "tensors");
    size_t count = json_array_size(list), index;
    json_t *item;
    if (count == 0 || count >= TN_NONE || json_object_get(json_array_get(list, 0), "delta") == NULL)
        return TN_OK;
    file->tensors = calloc(count, sizeof *file->tensors);
    if (file->tensors == NULL) return tn__no_memory(error, "the tensors of the plan");
    json_array_foreach(list, index, item) {
        cli_plan_tensor *tensor = &file->tensors[index];
        const json_t *first = json_object_get(item, "first");
        if (!plan_index(item, "tensor", &tensor->tensor) ||
            !plan_index(item, "node", &tensor->op) ||
            !plan_index(item, "buffer", &tensor->buffer) || tensor->buffer == TN_NONE ||
            !plan_number(item, "delta", &tensor->delta) ||
            !plan_number(item, "offset", &tensor->offset) ||
            !plan_number(item, "size", &tensor->bytes) || !json_is_integer(first))
            return plan_fail(file, "tensors", index,
                             "\"tensor\", \"node\", \"buffer\", \"delta\", \"offset\", \"size\" "
                             "and \"first\" must be numbers of at least 0",
                             error);
        tensor->first = json_integer_value(first);
        tensor->name = plan_text(item, "name");
    }
    file->tensor_count = (uint32_t)count;
    qsort(file->tensors, count, sizeof *file->tensors, plan_order);
    return TN_OK;
}

static tn_status plan_steps(cli_plan_file *file, tn_error *error) {
    const json_t *list = json_object_get(file->document, "steps");
    size_t room = json_array_size(list), index;
    json_t *step;
    if (room == 0) return TN_OK;
    file->steps = calloc(room, sizeof *file->steps);
    if (file->steps == NULL) return tn__no_memory(error, "the steps of the plan");
    json_array_foreach(list, index, step) {
        tn_op_id node;
        if (!plan_index(step, "node", &node))
            return plan_fail(file, "steps", index, "\"node\" is not the number of an operator",
                             error);
        if (node != TN_NONE) file->steps[file->step_count++] = node;
    }
    return TN_OK;
}

/* A number that the verifier computes again; *given: whether the plan states it. */
static tn_status plan_claim(const cli_plan_file *file, const json_t *result, const char *member,
                            uint64_t *value, bool *given, tn_error *error) {
    const json_t *found = json_object_get(result, member);
    *given = found != NULL && !json_is_null(found);
    if (!*given || plan_number(result, member, value)) return TN_OK;
    tn_status status = tn__fail(error, TN_E_INVALID,
                                "result: \"%s\" must be a whole number of at least 0", member);
    return tn__where(error, status, "%s", file->path);
}

/* Waits and time belong together, with the workers of the time. */
static tn_status plan_claims(cli_plan_file *file, const json_t *result, tn_error *error) {
    bool waits, time, workers;
    TN_TRY(plan_claim(file, result, "reuse_cost", &file->reuse_cost, &file->has_reuse_cost, error));
    TN_TRY(plan_claim(file, result, "waits", &file->waits, &waits, error));
    TN_TRY(plan_claim(file, result, "time", &file->time, &time, error));
    TN_TRY(plan_claim(file, result, "workers", &file->workers, &workers, error));
    file->has_waits = waits && time && workers;
    if (file->has_waits && file->workers <= UINT32_MAX) return TN_OK;
    if (!waits && !time && !workers) return TN_OK;
    tn_status status = tn__fail(error, TN_E_INVALID,
                                "result: \"waits\", \"time\" and \"workers\" (below 2^32) must "
                                "be given together");
    return tn__where(error, status, "%s", file->path);
}

static tn_status plan_read(cli_plan_file *file, tn_error *error) {
    const json_t *result = json_object_get(file->document, "result");
    file->has_options = json_is_object(json_object_get(file->document, "options"));
    file->library = plan_text(file->document, "library");
    file->has_peak = plan_number(result, "peak", &file->peak);
    TN_TRY(plan_claims(file, result, error));
    TN_TRY(plan_tensors(file, error));
    TN_TRY(plan_steps(file, error));
    file->has_program = file->tensor_count > 0 && file->step_count > 0;
    return TN_OK;
}

tn_status cli_plan_file_open(const char *path, cli_plan_file *file, tn_error *error) {
    tn__file bytes;
    json_error_t why;
    *file = (cli_plan_file){.path = path, .library = ""};
    if (!tn__has_suffix(path, ".json")) return TN_OK;
    TN_TRY(tn__file_map(path, &bytes, error));
    tn_status status;
    file->document = tn__json_parse(bytes.bytes, bytes.size, &why, &status);
    tn__file_unmap(&bytes);
    if (status == TN_E_NO_MEMORY) return tn__no_memory(error, "the plan");
    return file->document != NULL ? plan_read(file, error) : TN_OK; /* plan/io reports the error */
}

void cli_plan_file_close(cli_plan_file *file) {
    free(file->tensors);
    free(file->steps);
    json_decref(file->document);
    *file = (cli_plan_file){0};
}

/* --- options ---------------------------------------------------------------------------------- */

void cli_plan_file_whom(const cli_plan_file *file, cli_whom *whom) {
    const json_t *kernels = json_object_get(file->document, "kernels");
    const char *library = json_string_value(json_object_get(kernels, "library"));
    json_int_t threads = json_integer_value(json_object_get(kernels, "threads"));
    if (whom->runner != CLI_RUNNER_NONE || library == NULL) return;
    if (strcmp(library, "onednn") == 0) whom->runner = CLI_RUNNER_ONEDNN;
    if (strcmp(library, "plain") == 0) whom->runner = CLI_RUNNER_PLAIN;
    if (threads > 0 && threads <= 1024) whom->threads = (uint32_t)threads;
    if (json_is_false(json_object_get(kernels, "rewritten"))) whom->no_rewrite = true;
    if (json_is_true(json_object_get(kernels, "fastest"))) whom->fastest = true;
}

static tn_status plan_option(const cli_plan_file *file, cli_input *input, cli_training *training,
                             const char *name, const json_t *value, tn_error *error) {
    bool is_switch = json_is_true(value);
    if ((is_switch || json_is_string(value)) &&
        cli_words_apply(input, training, name, is_switch ? NULL : json_string_value(value)))
        return TN_OK;
    tn_status status =
        tn__fail(error, TN_E_INVALID,
                 "option '%.60s' or its value is unknown: version '%.20s' of the library made the "
                 "plan, and this is version %s; use the same version",
                 name, file->library, tn_version());
    return tn__where(error, status, "%s", file->path);
}

tn_status cli_plan_file_options(const cli_plan_file *file, cli_input *input, cli_training *training,
                                tn_error *error) {
    cli_input made = {.import = TN_IMPORT_OPTIONS_INIT, .path = input->path};
    const char *name;
    json_t *value, *one;
    size_t index;
    made.import.context = input->import.context;
    made.ends_work = input->ends_work;
    cli_misuse_in(file->path);
    json_object_foreach(json_object_get(file->document, "options"), name, value) {
        if (!json_is_array(value)) {
            TN_TRY(plan_option(file, &made, training, name, value, error));
            continue;
        }
        json_array_foreach(value, index, one)
            TN_TRY(plan_option(file, &made, training, name, one, error));
    }
    cli_misuse_in(NULL);
    cli_words_check(input, &made, file->path);
    made.given = input->given;
    cli_input_release(input);
    *input = made;
    return TN_OK;
}

/* --- the program ------------------------------------------------------------------------------ */

static bool plan_opcode(const char *text, tn_opcode *opcode) {
    for (int i = 0; i < TN_OPCODE_COUNT; i++)
        if (strcmp(tn_opcode_name((tn_opcode)i), text) == 0) {
            *opcode = (tn_opcode)i;
            return true;
        }
    return false;
}

static tn_codec plan_codec(const char *text) {
    for (int i = 0; i < TN_CODEC_COUNT; i++)
        if (strcmp(tn_codec_name((tn_codec)i), text) == 0) return (tn_codec)i;
    return TN_CODEC_NONE;
}

static tn_reduction plan_reduction(const char *text) {
    const tn_reduction all[] = {TN_REDUCTION_SUM, TN_REDUCTION_MEAN, TN_REDUCTION_MAX};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(tn_reduction_name(all[i]), text) == 0) return all[i];
    return TN_REDUCTION_SUM;
}

/* tensors: number of tensors, encoded forms included. */
static tn_status plan_instruction(const cli_plan_file *file, const tn_graph *graph,
                                  uint32_t tensors, size_t index, tn_instruction *it,
                                  tn_error *error) {
    const json_t *step = json_array_get(json_object_get(file->document, "steps"), index);
    *it = (tn_instruction)TN_INSTRUCTION_INIT;
    if (!plan_opcode(plan_text(step, "opcode"), &it->opcode))
        return plan_fail(file, "steps", index, "\"opcode\" is unknown", error);
    if (!plan_index(step, "node", &it->op) || !plan_index(step, "tensor_id", &it->tensor) ||
        !plan_index(step, "other_id", &it->other) || !plan_small(step, "stream", &it->stream) ||
        !plan_small(step, "wait", &it->wait) || !plan_small(step, "signal", &it->signal) ||
        !plan_small(step, "slot", &it->slot) || !plan_small(step, "group", &it->group) ||
        !plan_small(step, "peer", &it->peer) || !plan_small(step, "tag", &it->tag) ||
        !plan_small(step, "part", &it->part) || !plan_small(step, "parts", &it->parts))
        return plan_fail(file, "steps", index, "a member is not a number of at least 0", error);
    it->again = json_is_true(json_object_get(step, "recomputed")) ||
                json_is_true(json_object_get(step, "again")); /* its name in version 0.1 */
    it->codec = plan_codec(plan_text(step, "codec"));
    it->reduction = plan_reduction(plan_text(step, "reduction"));
    bool op = it->op == TN_NONE || it->op < tn_graph_op_count(graph);
    bool tensor = it->tensor == TN_NONE || it->tensor < tensors;
    bool other = it->other == TN_NONE || it->other < tensors;
    if (op && tensor && other) return TN_OK;
    return plan_fail(file, "steps", index, "the model has no such operator or tensor", error);
}

static tn_status plan_region(const cli_plan_file *file, const tn_graph *graph, size_t index,
                             tn_region *region, tn_error *error) {
    const json_t *item = json_array_get(json_object_get(file->document, "regions"), index);
    if (!plan_index(item, "node", &region->op) || !plan_index(item, "block", &region->block) ||
        !plan_index(item, "first", &region->first) ||
        !plan_index(item, "last_excl", &region->last) || region->op >= tn_graph_op_count(graph) ||
        region->block >= tn_graph_block_count(graph))
        return plan_fail(file, "regions", index, "the model has no such block", error);
    region->repeats = json_is_true(json_object_get(item, "repeats"));
    return TN_OK;
}

static tn_status plan_encoded(const cli_plan_file *file, const tn_graph *graph, size_t index,
                              tn_encoded *form, tn_error *error) {
    const json_t *item = json_array_get(json_object_get(file->document, "encoded"), index);
    form->codec = plan_codec(plan_text(item, "codec"));
    if (!plan_index(item, "tensor", &form->tensor) || !plan_number(item, "bytes", &form->bytes) ||
        form->tensor >= tn_graph_tensor_count(graph) || form->codec == TN_CODEC_NONE)
        return plan_fail(file, "encoded", index, "the model has no such tensor", error);
    return TN_OK;
}

tn_status cli_plan_file_program(const cli_plan_file *file, const tn_graph *graph,
                                tn_program **program, tn_error *error) {
    size_t steps = json_array_size(json_object_get(file->document, "steps"));
    size_t regions = json_array_size(json_object_get(file->document, "regions"));
    size_t forms = json_array_size(json_object_get(file->document, "encoded"));
    uint32_t tensors = tn_graph_tensor_count(graph);
    if (steps >= TN_NONE || regions >= TN_NONE || forms >= TN_NONE - tensors)
        return plan_fail(file, "steps", 0, "too many entries", error);
    tn_instruction *list = calloc(steps + 1, sizeof *list);
    tn_region *blocks = calloc(regions + 1, sizeof *blocks);
    tn_encoded *encoded = calloc(forms + 1, sizeof *encoded);
    tn_status status = list != NULL && blocks != NULL && encoded != NULL
                           ? TN_OK
                           : tn__no_memory(error, "the program of the plan");
    for (size_t i = 0; i < forms && status == TN_OK; i++)
        status = plan_encoded(file, graph, i, &encoded[i], error);
    for (size_t i = 0; i < regions && status == TN_OK; i++)
        status = plan_region(file, graph, i, &blocks[i], error);
    for (size_t i = 0; i < steps && status == TN_OK; i++)
        status = plan_instruction(file, graph, tensors + (uint32_t)forms, i, &list[i], error);
    if (status == TN_OK)
        status = forms > 0 ? tn_program_from_encoded(graph, encoded, (uint32_t)forms, list,
                                                     (uint32_t)steps, blocks, (uint32_t)regions,
                                                     program, error)
                           : tn_program_from(graph, list, (uint32_t)steps, blocks,
                                             (uint32_t)regions, program, error);
    free(list);
    free(blocks);
    free(encoded);
    return status;
}

#endif
