/* plan_file.c - reads a .json plan as a document: its options, its tensors by index, and its
 * program.
 *
 * Plans of Tenure record their options, so that a plan and its model are enough to check the plan.
 * One function writes each option in a normal form from its parsed value. `64` and `64B` therefore
 * become the same text, and so do a default and the same value given explicitly. `verify` compares
 * the options of its command line with the recorded ones in this form.
 *
 * Tensors and operators are indices into the planned graph, which the options reproduce from the
 * model. Names may therefore be empty, repeated or changed. Every index is checked before it is
 * used.
 *
 * Cost: O(size of the file), and O(n log n) for n tensors.
 */
#include "cli/model/plan_file.h"
#include "base/base.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_ALIGNMENT 64u /* default alignment of buffers of models, in bytes */

/* --- options as words: the list of options --- */

void cli_words_add(cli_words *words, const char *name, const char *format, ...) {
    char *value = NULL;
    tn_context context = tn__context(NULL);
    va_list arguments;
    int length = 0;
    va_start(arguments, format);
    if (format != NULL) length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (format != NULL && length >= 0) value = malloc((size_t)length + 1);
    va_start(arguments, format);
    if (value != NULL) vsnprintf(value, (size_t)length + 1, format, arguments);
    va_end(arguments);
    if (format != NULL && value == NULL) {
        words->failed = true;
        return;
    }
    if (!tn__reserve(&context, &words->rows, &words->room, (size_t)words->count + 1,
                     sizeof *words->rows)) {
        words->failed = true;
        free(value);
        return;
    }
    words->rows[words->count++] = (tn_report_option){name, value};
}

void cli_words_release(cli_words *words) {
    tn_context context = tn__context(NULL);
    for (uint32_t i = 0; i < words->count; i++) free((void *)(uintptr_t)words->rows[i].value);
    tn__free(&context, words->rows, words->room * sizeof *words->rows);
    *words = (cli_words){0};
}

/* --- options as words: writing one option --- */

static void options_shapes(const cli_input *input, const char *name, cli_words *words) {
    for (uint32_t i = 0; i < input->import.input_shape_count; i++) {
        const tn_input_shape *shape = &input->import.input_shapes[i];
        tn__text text;
        tn__text_init(&text, NULL);
        for (uint32_t k = 0; k < shape->rank; k++)
            tn__text_printf(&text, k > 0 ? ",%" PRId64 : "%" PRId64, shape->shape[k]);
        cli_words_add(words, name, "%s=%s", shape->name, shape->rank > 0 ? text.data : "");
        words->failed |= text.failed;
        tn__text_release(&text);
    }
}

static void options_values(const cli_input *input, const char *name, cli_words *words) {
    for (uint32_t i = 0; i < input->import.value_count; i++) {
        const tn_input_value *value = &input->import.values[i];
        tn__text text;
        tn__text_init(&text, NULL);
        for (uint32_t k = 0; k < value->count; k++)
            tn__text_printf(&text, k > 0 ? ",%.17g" : "%.17g", value->numbers[k]);
        cli_words_add(words, name, "%s=%s", value->name, value->count > 0 ? text.data : "");
        words->failed |= text.failed;
        tn__text_release(&text);
    }
}

static void options_banks(const cli_input *input, const char *name, cli_words *words) {
    for (uint32_t i = 0; i < input->bank_count; i++) {
        const tn_bank *bank = &input->banks[i];
        char capacity[24] = "none", speed[48] = "";
        if (bank->capacity > 0) snprintf(capacity, sizeof capacity, "%" PRIu64, bank->capacity);
        if (bank->bytes_per_s > 0) snprintf(speed, sizeof speed, "@%.17gB/s", bank->bytes_per_s);
        cli_words_add(words, name, "%s=%s%s", bank->name, capacity, speed);
    }
}

static void options_kernels(const cli_input *input, const char *name, cli_words *words) {
    static const char *const runners[] = {"none", "plain", "onednn"};
    const char *micro =
        input->tflm_kernels.text[0] != '\0' ? input->tflm_kernels.text : "reference";
    bool lite = tn__has_suffix(input->path, ".tflite") && input->training == NULL;
    if (input->target.runner != CLI_RUNNER_NONE)
        cli_words_add(words, name, "%s:%u", runners[input->target.runner],
                      input->target.threads > 0 ? input->target.threads : 1);
    else
        cli_words_add(words, name, "%s", lite ? micro : "none");
}

static void options_switch(bool on, const char *name, cli_words *words) {
    if (on) cli_words_add(words, name, NULL);
}

/* Adds one option with its present or default value. Adds nothing if the option was not given and
 * has no default. */
static void options_word(const cli_input *input, int key, const char *name, cli_words *words) {
    static const char *const statics[] = {"apart", "arena", "first"};
    bool model = cli_input_is_model(input);
    uint64_t alignment = input->alignment > 0 ? input->alignment : model ? OPTIONS_ALIGNMENT : 0;
    switch (key) {
    case CLI_DIM:
        for (uint32_t i = 0; i < input->import.dim_count; i++)
            cli_words_add(words, name, "%s=%" PRId64, input->import.dims[i].name,
                          input->import.dims[i].value);
        return;
    case CLI_INPUT_SHAPE:
        options_shapes(input, name, words);
        return;
    case CLI_VALUE:
        options_values(input, name, words);
        return;
    case CLI_PARAMETER:
        for (uint32_t i = 0; i < input->import.parameter_count; i++)
            cli_words_add(words, name, "%s", input->import.parameters[i]);
        return;
    case CLI_FORMAT:
        if (input->format != NULL) cli_words_add(words, name, "%s", input->format);
        return;
    case CLI_BATCH:
        if (input->import.batch > 0) cli_words_add(words, name, "%" PRId64, input->import.batch);
        return;
    case CLI_ALIGNMENT:
        if (alignment > 0) cli_words_add(words, name, "%" PRIu64, alignment);
        return;
    case CLI_ORDER:
        if (model) cli_words_add(words, name, "%s", input->order != NULL ? input->order : "file");
        return;
    case CLI_BANK:
        options_banks(input, name, words);
        return;
    case CLI_PARALLEL:
        if (model)
            cli_words_add(words, name, "%s",
                          input->occupancy_options.parallel == TN_PARALLEL_SAFE ? "safe"
                                                                                : "serial");
        return;
    case CLI_STATIC:
        if (model) cli_words_add(words, name, "%s", statics[input->statics]);
        return;
    case CLI_KERNELS:
        if (model) options_kernels(input, name, words);
        return;
    case CLI_NO_INPLACE:
        options_switch(input->occupancy_options.inplace == TN_INPLACE_NONE, name, words);
        return;
    case CLI_NO_VIEWS:
        options_switch(input->occupancy_options.no_views, name, words);
        return;
    case CLI_FUSE_CONCAT:
        options_switch(input->occupancy_options.fuse_concat, name, words);
        return;
    case CLI_KEEP_ATEN:
        options_switch(input->import.keep_aten, name, words);
        return;
    case CLI_NO_REWRITE:
        options_switch(input->target.no_rewrite, name, words);
        return;
    case CLI_FASTEST:
        options_switch(input->target.fastest, name, words);
        return;
    case CLI_TARGET:
        if (input->processor != NULL) cli_words_add(words, name, "%s", input->processor);
        return;
    case CLI_VARIABLES_OUTSIDE:
        options_switch(input->import.variables_outside, name, words);
        return;
    default:
        return;
    }
}

/* --- options as words: writing all options of a plan --- */

static void options_split(const tn_setup *setup, cli_words *words) {
    const tn_split_report *split = setup != NULL ? tn_setup_splits(setup) : NULL;
    for (uint32_t i = 0; split != NULL && i < split->again_count; i++)
        cli_words_add(words, "split-again", "%u,%u,%u", split->again[i].tensor,
                      split->again[i].from, split->again[i].before);
    for (uint32_t i = 0; split != NULL && i < split->count; i++) {
        const tn_split_region *region = &split->regions[i];
        cli_words_add(words, "split-region", "%u,%u,%u,%u,%u,%u,%d,%d", region->first, region->last,
                      region->axes[0], region->parts[0], region->axes[1], region->parts[1],
                      region->keep, region->slices);
    }
}

void cli_words_of(const cli_input *input, const tn_setup *setup, cli_words *words) {
    *words = (cli_words){0};
    for (const struct argp_option *row = cli_input_argp.options; row->name != NULL; row++)
        options_word(input, row->key, row->name, words);
    if (input->training != NULL) cli_words_add(words, "train", NULL);
    if (input->training != NULL) cli_training_words(input->training, words);
    options_split(setup, words);
}

void cli_report_words(tn_report *report, const char *command, const cli_words *words) {
    report->command = command;
    report->options = words->failed ? NULL : words->rows;
    report->option_count = words->count;
}

/* --- options as words: finding contradictions --- */

static bool options_same(const cli_words *a, const cli_words *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const char *x = a->rows[i].value, *y = b->rows[i].value;
        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0)) return false;
    }
    return true;
}

/* Writes an option as a user would, such as "--order auto" or "--bank a=1 --bank b=2", or "no
 * --order" if `words` does not have the option. */
static void options_say(const cli_words *words, const char *name, char text[200]) {
    size_t used = 0;
    snprintf(text, 200, "no --%s", name);
    for (uint32_t i = 0; i < words->count && used < 199; i++) {
        const char *value = words->rows[i].value;
        int more = snprintf(text + used, 200 - used, "%s--%s%s%.60s", i > 0 ? " " : "", name,
                            value != NULL ? " " : "", value != NULL ? value : "");
        used += more > 0 ? (size_t)more : 0;
    }
}

static void options_check(const char *name, const cli_words *given, const cli_words *of_plan,
                          const char *path) {
    char here[200], there[200];
    if (options_same(given, of_plan)) return;
    options_say(given, name, here);
    options_say(of_plan, name, there);
    cli_misuse(NULL, "%s contradicts %.100s, which was made with %s; remove the option", here, path,
               there);
}

static void options_check_training(const cli_input *given, const cli_input *of_plan,
                                   const char *path) {
    cli_words here = {0}, there = {0};
    if (given->training == NULL) return;
    if (of_plan->training == NULL)
        cli_misuse(NULL,
                   "--train contradicts %.100s, which is a plan for inference; remove --train",
                   path);
    cli_training_words(given->training, &here);
    cli_training_words(of_plan->training, &there);
    for (uint32_t i = 0; i < here.count; i++) {
        bool found = false;
        const char *value = here.rows[i].value;
        if (!cli_training_is_given(given->training, here.rows[i].name)) continue;
        for (uint32_t k = 0; k < there.count && !found; k++) {
            const char *other = there.rows[k].value;
            found = strcmp(here.rows[i].name, there.rows[k].name) == 0 &&
                    (value == other || (value && other && strcmp(value, other) == 0));
        }
        if (!found)
            cli_misuse(NULL, "--%s%s%s contradicts the options of %.100s; remove the option",
                       here.rows[i].name, value != NULL ? " " : "", value != NULL ? value : "",
                       path);
    }
    cli_words_release(&here);
    cli_words_release(&there);
}

/* Ends the program with a usage error if an option that was given on the command line (`given`)
 * differs from the option in the plan. The message has both values. */
static void words_check(const cli_input *given, const cli_input *of_plan, const char *path) {
    for (const struct argp_option *row = cli_input_argp.options; row->name != NULL; row++) {
        cli_words here = {0}, there = {0};
        if ((given->given >> (row->key - CLI_DIM) & 1) == 0) continue;
        options_word(given, row->key, row->name, &here);
        options_word(of_plan, row->key, row->name, &there);
        options_check(row->name, &here, &there, path);
        cli_words_release(&here);
        cli_words_release(&there);
    }
    options_check_training(given, of_plan, path);
}

/* --- options as words: reading them back --- */

/* Applies one option of a plan; `value` is NULL for an option without a value. Returns false if the
 * option is unknown, or if its value is missing or unexpected. An invalid value is a usage
 * error. */
static bool words_apply(cli_input *input, cli_training *training, const char *name,
                        const char *value) {
    if (strcmp(name, "train") == 0 && value == NULL) {
        input->training = training;
        return true;
    }
    if (cli_option_renamed(name) != NULL) name = cli_option_renamed(name);
    return cli_input_apply(input, name, value) || cli_training_apply(training, name, value);
}

/* --- the document: looking up its tensors --- */

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

tn_status cli_plan_conflict(tn_status status, tn_error *error) {
    char why[sizeof error->message];
    if (status != TN_E_INVALID) return status;
    memcpy(why, error->message, sizeof why);
    const char *colon = error->where[0] != '\0' ? ": " : "";
    int room = (int)(sizeof error->message - strlen(error->where) - strlen(colon) - 1);
    snprintf(error->message, sizeof error->message, "%s%s%.*s", error->where, colon, room, why);
    error->where[0] = '\0';
    return error->status = TN_E_CONFLICT;
}

#ifdef TENURE_MINIMAL

tn_status cli_plan_file_open(const char *path, cli_plan_file *file, tn_error *error) {
    (void)error;
    *file = (cli_plan_file){.path = path, .library = ""};
    return TN_OK;
}
void cli_plan_file_close(cli_plan_file *file) { *file = (cli_plan_file){0}; }
bool cli_plan_file_is_solution(const char *path) {
    (void)path;
    return false;
}

tn_status cli_plan_file_options(const cli_plan_file *file, cli_input *input, cli_training *training,
                                tn_error *error) {
    (void)file, (void)input, (void)training, (void)error;
    return TN_OK;
}
void cli_plan_file_target(const cli_plan_file *file, cli_kernel_target *target) {
    (void)file, (void)target;
}

tn_status cli_plan_file_program(const cli_plan_file *file, const tn_graph *graph,
                                tn_program **program, tn_error *error) {
    (void)file, (void)graph, (void)program;
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "this minimal build cannot read JSON; use a build with jansson");
}

#else

#include "base/json.h"

/* --- the document: reading single members --- */

static bool plan_number(const json_t *object, const char *member, uint64_t *value) {
    const json_t *found = json_object_get(object, member);
    if (!json_is_integer(found) || json_integer_value(found) < 0) return false;
    *value = (uint64_t)json_integer_value(found);
    return true;
}

/* Reads an index. A member that is null or absent gives TN_NONE. Returns false if the member is not
 * an index. */
static bool plan_index(const json_t *object, const char *member, uint32_t *value) {
    const json_t *found = json_object_get(object, member);
    uint64_t number;
    *value = TN_NONE;
    if (found == NULL || json_is_null(found)) return true;
    if (!plan_number(object, member, &number) || number >= TN_NONE) return false;
    *value = (uint32_t)number;
    return true;
}

/* Reads a number below 2^32 - 1. An absent member gives 0. Returns false if the member is not such
 * a number. */
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

/* --- the document: reading all of it --- */

/* Reads the list "tensors". Plans of older versions have no member "delta" and identify tensors by
 * name only; from them nothing is read. */
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
        tensor->index = (uint32_t)index;
        tensor->name = plan_text(item, "name");
    }
    file->tensor_count = (uint32_t)count;
    qsort(file->tensors, count, sizeof *file->tensors, plan_order);
    for (size_t i = 1; i < count; i++) {
        const cli_plan_tensor *a = &file->tensors[i - 1], *b = &file->tensors[i];
        if (plan_order(a, b) != 0) continue;
        char text[120];
        uint32_t before = a->index < b->index ? a->index : b->index;
        uint32_t after = a->index < b->index ? b->index : a->index;
        snprintf(text, sizeof text,
                 "it is that of tensors[%u], with the same \"tensor\", \"node\" and \"first\"; "
                 "a tensor is listed once",
                 before);
        return plan_fail(file, "tensors", after, text, error);
    }
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

/* Reads a number that the plan states and that the verifier computes itself. Sets *given to whether
 * the plan states it. */
static tn_status plan_claim(const cli_plan_file *file, const json_t *result, const char *member,
                            uint64_t *value, bool *given, tn_error *error) {
    const json_t *found = json_object_get(result, member);
    *given = found != NULL && !json_is_null(found);
    if (!*given || plan_number(result, member, value)) return TN_OK;
    tn_status status = tn__fail(error, TN_E_INVALID,
                                "result: \"%s\" must be a whole number of at least 0", member);
    return tn__where(error, status, "%s", file->path);
}

/* Reads the stated reuse cost, waits and time. A plan must state waits, time and the number of
 * workers together. */
static tn_status plan_claims(cli_plan_file *file, const json_t *result, tn_error *error) {
    bool waits, time, workers;
    const char *objective = json_string_value(json_object_get(result, "objective"));
    file->minimises_pairs =
        objective != NULL && strcmp(objective, tn_objective_name(TN_OBJECTIVE_PAIRS)) == 0;
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
    file->is_own = json_is_integer(json_object_get(result, "work"));
    file->has_options = json_is_object(json_object_get(file->document, "options"));
    file->library = plan_text(file->document, "library");
    file->has_peak = plan_number(result, "peak", &file->peak);
    file->has_lower_bound = plan_number(result, "lower_bound", &file->lower_bound);
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
    /* if the file is not JSON, plan/io reports the error later */
    return file->document != NULL ? plan_read(file, error) : TN_OK;
}

void cli_plan_file_close(cli_plan_file *file) {
    free(file->tensors);
    free(file->steps);
    json_decref(file->document);
    *file = (cli_plan_file){0};
}

bool cli_plan_file_is_solution(const char *path) {
    tn__file bytes;
    tn_error unused;
    json_error_t why;
    tn_status status;
    if (!tn__has_suffix(path, ".json") || tn__file_map(path, &bytes, &unused) != TN_OK)
        return false;
    json_t *root = tn__json_parse(bytes.bytes, bytes.size, &why, &status);
    bool is =
        json_object_get(root, "schema_version") != NULL && json_object_get(root, "problem") == NULL;
    tn__file_unmap(&bytes);
    json_decref(root);
    return is;
}

/* --- the document: applying its options --- */

void cli_plan_file_target(const cli_plan_file *file, cli_kernel_target *target) {
    const json_t *kernels = json_object_get(file->document, "kernels");
    const char *library = json_string_value(json_object_get(kernels, "library"));
    json_int_t threads = json_integer_value(json_object_get(kernels, "threads"));
    if (target->runner != CLI_RUNNER_NONE || library == NULL) return;
    if (strcmp(library, "onednn") == 0) target->runner = CLI_RUNNER_ONEDNN;
    if (strcmp(library, "plain") == 0) target->runner = CLI_RUNNER_PLAIN;
    if (threads > 0 && threads <= 1024) target->threads = (uint32_t)threads;
    if (json_is_false(json_object_get(kernels, "rewritten"))) target->no_rewrite = true;
    if (json_is_true(json_object_get(kernels, "fastest"))) target->fastest = true;
}

static tn_status plan_option(const cli_plan_file *file, cli_input *input, cli_training *training,
                             const char *name, const json_t *value, tn_error *error) {
    bool is_switch = json_is_true(value);
    if ((is_switch || json_is_string(value)) &&
        words_apply(input, training, name, is_switch ? NULL : json_string_value(value)))
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
    words_check(input, &made, file->path);
    made.given = input->given;
    cli_input_release(input);
    *input = made;
    return TN_OK;
}

/* --- the document: making its program --- */

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

/* Reads one instruction of the program. `tensors` is the number of tensors of the graph including
 * encoded forms. */
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
                /* the name of this member in version 0.1 */
                json_is_true(json_object_get(step, "again"));
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
        status =
            cli_plan_conflict(forms > 0 ? tn_program_from_encoded(graph, encoded, (uint32_t)forms,
                                                                  list, (uint32_t)steps, blocks,
                                                                  (uint32_t)regions, program, error)
                                        : tn_program_from(graph, list, (uint32_t)steps, blocks,
                                                          (uint32_t)regions, program, error),
                              error);
    free(list);
    free(blocks);
    free(encoded);
    return status;
}

#endif
