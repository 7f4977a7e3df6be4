/* objects_verify.c - `tenure verify --form objects`: checks shared objects from any tool.
 *
 * The plan is a CSV with the columns `id` and `object`, whose rows are matched by name. Object
 * numbers are names too and may have gaps. An object is as large as its largest buffer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/objects.h"
#include "plan/io/rows.h"

typedef struct check {
    cli_records from;
    tn__names rows;      /* name -> record */
    char (*numbers)[16]; /* [count], names for buffers without one */
    uint64_t *given;     /* [count], object number + 1; 0: no row yet */
    tn_objects objects;
    const char *path;
    uint32_t line;
    tn_error *error;
} check;

static tn_status check_fail(check *state, const char *what, const char *name) {
    tn_status status = tn__fail(state->error, TN_E_INVALID, "%s '%.80s'", what, name);
    return tn__where(state->error, status, "%s:%u", state->path, state->line);
}

static bool check_number(const char *text, size_t length, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || !tn__mul(*value, 10, value) ||
            !tn__add(*value, (uint64_t)(text[i] - '0'), value))
            return false;
    return length > 0 && *value < UINT32_MAX;
}

static tn_status check_row(check *state, const tn__csv_rows *rows, const uint32_t *columns) {
    tn__csv_field id = rows->fields[columns[0]], number = rows->fields[columns[1]];
    uint64_t object;
    char name[81] = "";
    memcpy(name, id.at, id.size < 80 ? id.size : 80);
    uint32_t row = tn__names_find(&state->rows, id.at, id.size);
    if (row == TN__NAMES_NONE) return check_fail(state, "the input has no buffer", name);
    if (state->given[row] != 0) return check_fail(state, "the plan has two rows for", name);
    if (!check_number(number.at, number.size, &object))
        return check_fail(state, "'object' is not a number in the row of", name);
    state->given[row] = object + 1;
    return TN_OK;
}

static tn_status check_header(check *state, const tn__csv_rows *rows, uint32_t *columns) {
    for (uint32_t k = 0; k < rows->count; k++) {
        if (tn__csv_is(rows->fields[k], "id")) columns[0] = k;
        if (tn__csv_is(rows->fields[k], "object")) columns[1] = k;
    }
    if (columns[0] == UINT32_MAX || columns[1] == UINT32_MAX)
        return check_fail(state, "the header needs the columns id and", "object");
    return TN_OK;
}

static tn_status check_rows(check *state, const char *bytes, size_t size) {
    uint32_t columns[2] = {UINT32_MAX, UINT32_MAX};
    tn__csv_rows *rows = calloc(1, sizeof *rows);
    bool more = true;
    tn_status status = TN_OK;
    if (rows == NULL) return tn__no_memory(state->error, "a CSV reader");
    rows->bytes = bytes;
    rows->size = size;
    tn__arena_init(&rows->arena, NULL);
    for (bool first = true; status == TN_OK; first = false) {
        status = tn__csv_row(rows, &more, state->error);
        state->line = rows->line;
        if (status != TN_OK) tn__where(state->error, status, "%s:%u", state->path, rows->line);
        if (!more || status != TN_OK) break;
        status = first ? check_header(state, rows, columns) : check_row(state, rows, columns);
    }
    tn__arena_release(&rows->arena);
    free(rows);
    return status;
}

static tn_status check_names(check *state) {
    for (uint32_t i = 0; i < state->from.count; i++) {
        const char *name = cli_records_name(&state->from, i, state->numbers[i]);
        uint32_t existing;
        if (!tn__names_add(&state->rows, name, strlen(name), i, &existing))
            return tn__no_memory(state->error, "names");
        if (existing != TN__NAMES_NONE) return check_fail(state, "two buffers have the name", name);
    }
    return TN_OK;
}

static int check_order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Renumbers objects as 0, 1, 2, ... and sets each size to that of its largest buffer. */
static tn_status check_objects(check *state) {
    tn_objects *objects = &state->objects;
    uint32_t count = state->from.count;
    uint64_t *numbers = calloc((size_t)count + 1, sizeof *numbers);
    objects->object = calloc((size_t)count + 1, sizeof *objects->object);
    objects->size = calloc((size_t)count + 1, sizeof *objects->size);
    if (numbers == NULL || objects->object == NULL || objects->size == NULL) {
        free(numbers);
        return tn__no_memory(state->error, "objects");
    }
    objects->record_count = count;
    objects->kind = state->from.kind;
    memcpy(numbers, state->given, count * sizeof *numbers);
    qsort(numbers, count, sizeof *numbers, check_order);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || numbers[i] != numbers[i - 1]) numbers[objects->object_count++] = numbers[i];
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *found =
            bsearch(&state->given[i], numbers, objects->object_count, sizeof *numbers, check_order);
        uint32_t object = (uint32_t)(found - numbers);
        objects->object[i] = object;
        for (uint32_t k = 0; k <= (uint32_t)objects->kind; k++)
            if (state->from.records[i].size[k] > objects->size[object][k])
                objects->size[object][k] = state->from.records[i].size[k];
    }
    free(numbers);
    for (uint32_t i = 0; i < objects->object_count; i++) {
        uint64_t product = 1;
        for (uint32_t k = 0; k <= (uint32_t)objects->kind; k++)
            product = tn__mul_sat(product, objects->size[i][k]);
        objects->total = tn__add_sat(objects->total, product);
    }
    return TN_OK;
}

static tn_status check_run(check *state, cli_input *input) {
    tn__file file;
    TN_TRY(cli_records_load(input, &state->from, state->error));
    state->given = calloc((size_t)state->from.count + 1, sizeof *state->given);
    state->numbers = calloc((size_t)state->from.count + 1, sizeof *state->numbers);
    if (state->given == NULL || state->numbers == NULL)
        return tn__no_memory(state->error, "objects");
    TN_TRY(check_names(state));
    TN_TRY(tn__file_map(state->path, &file, state->error));
    tn_status status = check_rows(state, (const char *)file.bytes, file.size);
    tn__file_unmap(&file);
    if (status != TN_OK) return status;
    for (uint32_t i = 0; i < state->from.count; i++) {
        if (state->given[i] == 0)
            return check_fail(state, "the plan has no object for",
                              cli_records_name(&state->from, i, state->numbers[i]));
    }
    TN_TRY(check_objects(state));
    const tn_edges *edges = &state->from.reallocation;
    return tn_objects_verify(state->from.records, state->from.count,
                             edges->vertex_count > 0 ? edges : NULL, &state->objects, state->error);
}

const cli_facts cli_objects_verify_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "form", NULL, "objects, with `--form objects`"),
        CLI_FACT_BRIEF(COUNT, "objects", NULL, "valid: @ objects", "number of objects"),
        CLI_FACT_BRIEF(COUNT, "total", NULL, ", @", "sum of their sizes"),
        CLI_FACT_BRIEF(WORD, "unit", NULL, " @", "of `total`: bytes, or elements"), CLI_FACTS_END}};

tn_status cli_objects_verify(cli_input *input, const char *plan, cli_answer *answer,
                             tn_error *error) {
    check state = {.path = plan, .error = error};
    tn__names_init(&state.rows, NULL);
    tn_status status = check_run(&state, input);
    cli_progress_end();
    cli_tell_word(answer, "form", "objects");
    cli_tell(answer, "valid", status == TN_OK);
    cli_tell_word(answer, "conflict", status == TN_OK ? NULL : error->message);
    if (status == TN_OK || cli_tone_asked().json) {
        cli_tell(answer, "objects", state.objects.object_count);
        cli_tell_brief(answer, " for %u buffers", state.from.count);
        cli_tell(answer, "total", state.objects.total);
        cli_tell_word(answer, "unit", state.from.kind == TN_SIZE_BYTES ? "bytes" : "elements");
    }
    free(state.objects.object);
    free(state.objects.size);
    free(state.given);
    free(state.numbers);
    tn__names_release(&state.rows);
    cli_records_release(&state.from, NULL);
    return status;
}
