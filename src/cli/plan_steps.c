/* plan_steps.c - in which order a plan runs the operators, and for whom: "steps" and "kernels" of
 * our .json plans, read back.
 *
 * {"opcode":"apply","node":12,...}: nodes are counted in the model's file. Everything else of a
 * step is for people.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#ifdef TENURE_MINIMAL

tn_status cli_read_steps(const char *path, tn_op_id **steps, uint32_t *count, tn_error *error) {
    (void)path;
    (void)error;
    *steps = NULL;
    *count = 0;
    return TN_OK;
}

/* NULL: it is no plan, and the reader of its rows says what is wrong. */
static json_t *steps_open(const char *path, tn_status *status) {
    json_error_t why;
    tn__file file;
    *status = tn__file_map(path, &file, NULL);
    if (*status != TN_OK) return NULL;
    json_t *plan = tn__json_parse(file.bytes, file.size, &why, status);
    tn__file_unmap(&file);
    return plan;
}

void cli_read_whom(const char *path, cli_whom *whom) {
    (void)path;
    (void)whom;
}

#else

#include "base/json.h"

/* NULL: it is no plan, and the reader of its rows says what is wrong. */
static json_t *steps_open(const char *path, tn_status *status) {
    json_error_t why;
    tn__file file;
    *status = tn__file_map(path, &file, NULL);
    if (*status != TN_OK) return NULL;
    json_t *plan = tn__json_parse(file.bytes, file.size, &why, status);
    tn__file_unmap(&file);
    return plan;
}

void cli_read_whom(const char *path, cli_whom *whom) {
    tn_status status;
    tn_error error = {0};
    if (whom->runner != CLI_RUNNER_NONE || !tn__has_suffix(path, ".json")) return;
    json_t *plan = steps_open(path, &status);
    if (status == TN_E_NO_MEMORY) {
        tn__no_memory(&error, path);
        cli_end(&error);
    }
    const json_t *kernels = json_object_get(plan, "kernels");
    const char *library = json_string_value(json_object_get(kernels, "library"));
    json_int_t threads = json_integer_value(json_object_get(kernels, "threads"));
    if (library != NULL && strcmp(library, "onednn") == 0) whom->runner = CLI_RUNNER_ONEDNN;
    if (library != NULL && strcmp(library, "plain") == 0) whom->runner = CLI_RUNNER_PLAIN;
    if (library != NULL && threads > 0 && threads <= 1024) whom->threads = (uint32_t)threads;
    if (library != NULL && json_is_false(json_object_get(kernels, "rewritten")))
        whom->no_rewrite = true;
    if (library != NULL && json_is_true(json_object_get(kernels, "fastest"))) whom->fastest = true;
    json_decref(plan);
}

static tn_status steps_take(const json_t *list, tn_op_id *steps, uint32_t *count, tn_error *error) {
    size_t index;
    json_t *step;
    json_array_foreach(list, index, step) {
        const json_t *node = json_object_get(step, "node");
        if (node == NULL) continue; /* data comes or goes: no operator */
        json_int_t number = json_is_integer(node) ? json_integer_value(node) : -1;
        if (number < 0 || number >= TN_NONE)
            TN_FAIL(error, TN_E_INVALID, "steps[%zu]: \"node\" is no number of an operator", index);
        steps[(*count)++] = (tn_op_id)number;
    }
    return TN_OK;
}

tn_status cli_read_steps(const char *path, tn_op_id **steps, uint32_t *count, tn_error *error) {
    *steps = NULL;
    *count = 0;
    if (!tn__has_suffix(path, ".json")) return TN_OK;
    tn_status status;
    json_t *plan = steps_open(path, &status);
    if (status == TN_E_NO_MEMORY) return tn__no_memory(error, "the steps of the plan");
    if (plan == NULL) return TN_OK;
    const json_t *list = json_object_get(plan, "steps");
    size_t room = json_array_size(list);
    status = TN_OK;
    tn_op_id *made = room > 0 ? calloc(room, sizeof *made) : NULL;
    if (room > 0 && made == NULL) status = tn__no_memory(error, "the steps of the plan");
    if (made != NULL) status = steps_take(list, made, count, error);
    json_decref(plan);
    if (status != TN_OK) status = tn__where(error, status, "%s", path);
    if (status == TN_OK && *count > 0)
        *steps = made;
    else
        free(made);
    return status;
}

#endif
