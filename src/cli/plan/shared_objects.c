/* shared_objects.c - `--form objects` of `tenure plan` and `tenure verify`: assigns buffers to
 * shared objects instead of offsets, and checks such an assignment.
 *
 * The input is a model, a problem, or a CSV with sizes that may be vectors (2x8, 1x16x16x3). This
 * file also writes the output files, because they are too simple for a format in src/report.
 */
#include "base/base.h"
#include "cli/model/input.h"
#include "cli/plan/plan.h"
#include "plan/io/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- assigning buffers to shared objects --- */

/* The buffers to assign to objects: the rows of a CSV with sizes that may be vectors, or the
 * buffers of a problem or model. */
typedef struct objects_records {
    tn_object_record *records;
    char **names; /* names of the rows of such a CSV; NULL: `problem` has the names */
    const tn_problem *problem;
    uint32_t count;
    tn_size_kind kind;
    /* the pairs of buffers that may share an object; if vertex_count is 0, buffers with disjoint
     * live ranges may */
    tn_edges reallocation;
} objects_records;

typedef struct objects_job {
    const cli_objects *asked;
    objects_records from;
    tn_objects objects;
    uint64_t naive;
} objects_job;

static const char *objects_record_name(const objects_records *records, uint32_t id,
                                       char number[16]) {
    const char *name =
        records->names != NULL ? records->names[id] : tn_problem_body(records->problem, id)->name;
    snprintf(number, 16, "%u", id);
    return name != NULL ? name : number;
}

static tn_status objects_load_records(cli_input *input, objects_records *records, tn_error *error) {
    tn_status status = TN_E_UNSUPPORTED;
    if (!cli_input_is_model(input) && tn__has_suffix(input->path, ".csv"))
        status = tn_object_records_load(input->path, NULL, &records->records, &records->names,
                                        &records->count, &records->kind, error);
    if (status != TN_E_UNSUPPORTED) return status;
    *error = (tn_error){.status = TN_OK};
    TN_TRY(cli_input_load(input, error));
    records->problem = input->problem;
    records->count = tn_problem_count(input->problem);
    records->records = tn__alloc_array(NULL, records->count, sizeof *records->records);
    if (records->records == NULL) return tn__no_memory(error, "records");
    return tn_problem_records(input->problem, records->records, &records->reallocation, error);
}

/* Releases the records; a zeroed struct is accepted. */
static void objects_release_records(objects_records *records, const tn_context *context) {
    tn_edges_release(context, &records->reallocation);
    tn_object_records_release(NULL, records->records, records->names, records->count);
}

static void objects_size(tn__text *text, const uint64_t *size, tn_size_kind kind,
                         const char *between) {
    for (uint32_t k = 0; k <= (uint32_t)kind; k++)
        tn__text_printf(text, "%s%" PRIu64, k > 0 ? between : "", size[k]);
}

static uint64_t objects_product(const uint64_t *size, tn_size_kind kind) {
    uint64_t product = 1;
    /* the library has checked that the product does not overflow */
    for (uint32_t k = 0; k <= (uint32_t)kind; k++) product *= size[k];
    return product;
}

static double objects_gap(const tn_objects *objects) {
    if (objects->lower_bound == 0) return 0;
    return (double)objects->total / (double)objects->lower_bound - 1;
}

const cli_facts cli_objects_facts = {
    .name = "objects",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model or problem"),
        CLI_FACT(WORD, "strategy", "  strategy", "the strategy that found the objects"),
        CLI_FACT(WORD, "status", NULL,
                 "optimal: no choice of objects for these buffers takes less; or feasible"),
        CLI_FACT(COUNT, "objects", "  objects", "number of objects"),
        CLI_FACT(COUNT, "buffers", NULL, "number of buffers"),
        CLI_FACT(BYTES, "naive", "  without sharing", "sum of the sizes of the buffers"),
        CLI_FACT(BYTES, "total", "  total", "sum of the sizes of the objects"),
        CLI_FACT(BYTES, "lower_bound", "  lower bound",
                 "no choice of objects for these buffers takes less"),
        CLI_FACT_BRIEF(SHARE, "gap", NULL, ", gap @", "`total` / `lower_bound` - 1"),
        CLI_FACT(WORD, "unit", NULL, "of the sizes: bytes, or elements"),
        CLI_FACT(COUNT, "work", NULL, "effort of the strategy in units of work"),
        CLI_FACT(SECONDS, "seconds", NULL, "wall time of the strategy"), CLI_FACTS_END}};

static const char *objects_words(const objects_job *job, uint64_t size, char text[64]) {
    char digits[TN__GROUPED_MAX];
    if (job->from.kind == TN_SIZE_BYTES) return tn_size_format(size, text);
    snprintf(text, 64, "%s elements", tn__grouped(size, digits));
    return text;
}

static void objects_add_size(cli_answer *answer, const objects_job *job, const char *key,
                             uint64_t size) {
    char text[64];
    cli_add(answer, key, size);
    cli_add_as(answer, "%s", objects_words(job, size, text));
}

static void objects_add(cli_answer *answer, const objects_job *job) {
    const tn_objects *objects = &job->objects;
    bool optimal = objects->verdict == TN_VERDICT_OPTIMAL;
    double naive = job->naive > 0 ? (double)job->naive : 1;
    char total[64];
    cli_add_word(answer, "input", cli_shown_path(job->asked->input->path));
    cli_add_word(answer, "strategy", objects->strategy);
    cli_add_more(answer, "; %s",
                 optimal ? "optimal: no choice of objects for these buffers needs less"
                         : "valid; a smaller choice may exist");
    cli_add_word(answer, "status", tn_verdict_name(objects->verdict));
    cli_add(answer, "objects", objects->object_count);
    cli_add_more(answer, " for %u buffers", job->from.count);
    cli_add(answer, "buffers", job->from.count);
    objects_add_size(answer, job, "naive", job->naive);
    objects_add_size(answer, job, "total", objects->total);
    cli_add_more(answer, ", saved %.1f %%", 100 * (1 - (double)objects->total / naive));
    cli_add_brief(answer, "%s, %s by %s", objects_words(job, objects->total, total),
                  optimal ? "optimal" : "valid", objects->strategy);
    objects_add_size(answer, job, "lower_bound", objects->lower_bound);
    cli_add_more(answer, ", gap %.1f %%", 100 * objects_gap(objects));
    cli_add_real(answer, "gap", objects_gap(objects));
    cli_add_word(answer, "unit", job->from.kind == TN_SIZE_BYTES ? "bytes" : "elements");
    cli_add(answer, "work", objects->work);
    cli_add_real(answer, "seconds", objects->seconds);
}

static void objects_json(tn__text *text, const objects_job *job) {
    char number[16];
    cli_answer members;
    cli_members_begin(&members, &cli_objects_facts);
    objects_add(&members, job);
    text->failed |= cli_members_text(&members) == NULL;
    tn__text_put(text, "{\"format\":\"tenure-objects\",\"version\":1");
    if (!text->failed) tn__text_put(text, cli_members_text(&members));
    cli_answer_release(&members);
    tn__text_put(text, ",\n \"object_sizes\":[");
    for (uint32_t i = 0; i < job->objects.object_count; i++) {
        tn__text_put(text, i > 0 ? ",[" : "[");
        objects_size(text, job->objects.size[i], job->from.kind, ",");
        tn__text_put(text, "]");
    }
    tn__text_put(text, "],\n \"assignment\":[");
    for (uint32_t i = 0; i < job->from.count; i++) {
        const tn_object_record *record = &job->from.records[i];
        tn__text_printf(text, "%s\n  {\"id\":%u,\"name\":", i > 0 ? "," : "", i);
        tn__text_json(text, objects_record_name(&job->from, i, number));
        tn__text_printf(text, ",\"first\":%" PRId64 ",\"last_excl\":%" PRId64 ",\"size\":[",
                        record->first, record->last);
        objects_size(text, record->size, job->from.kind, ",");
        tn__text_printf(text, "],\"object\":%u}", job->objects.object[i]);
    }
    tn__text_put(text, "\n]}\n");
}

static void objects_csv(tn__text *text, const objects_job *job) {
    char number[16];
    tn__text_put(text, "id,lower,upper,size,object\n");
    for (uint32_t i = 0; i < job->from.count; i++) {
        const tn_object_record *record = &job->from.records[i];
        const char *name = objects_record_name(&job->from, i, number);
        tn__csv_put(text, name);
        tn__text_printf(text, ",%" PRId64 ",%" PRId64 ",", record->first, record->last);
        objects_size(text, record->size, job->from.kind, "x");
        tn__text_printf(text, ",%u\n", job->objects.object[i]);
    }
}

static tn_status objects_write(const objects_job *job, const char *path, tn_error *error) {
    tn__text text;
    tn_status status = TN_OK;
    tn__text_init(&text, NULL);
    if (tn__has_suffix(path, ".csv"))
        objects_csv(&text, job);
    else
        objects_json(&text, job);
    if (status == TN_OK && text.failed) status = tn__no_memory(error, path);
    if (status == TN_OK) status = tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

static tn_status objects_check_capacity(const objects_job *job, tn_error *error) {
    uint64_t capacity = job->asked->options->capacity;
    if (capacity == 0 || job->objects.total <= capacity) return TN_OK;
    if (job->objects.lower_bound > capacity)
        return tn__fail(error, TN_E_INFEASIBLE,
                        "every choice of objects for these buffers needs at least %" PRIu64
                        ", but the capacity is %" PRIu64,
                        job->objects.lower_bound, capacity);
    return tn__fail(error, TN_E_STOPPED,
                    "the best objects found need %" PRIu64 ", but the capacity is %" PRIu64,
                    job->objects.total, capacity);
}

static tn_status objects_report(const objects_job *job, tn_error *error) {
    tn_status status = objects_check_capacity(job, error);
    cli_answer answer;
    for (uint32_t i = 0; status == TN_OK && i < job->asked->output_count; i++)
        status = objects_write(job, job->asked->outputs[i], error);
    if (status != TN_OK) return status;
    cli_progress_end();
    cli_answer_begin(&answer, &cli_objects_facts, job->asked->json);
    if (cli_answer_table(&answer) != NULL)
        tn__text_printf(cli_answer_table(&answer), "%s\n", job->asked->input->path);
    objects_add(&answer, job);
    status = cli_answer_end(&answer, error);
    for (uint32_t i = 0; status == TN_OK && i < job->asked->output_count && !job->asked->json; i++)
        printf("wrote %s\n", job->asked->outputs[i]);
    return status;
}

bool cli_objects_form(struct argp_state *state, const char *value) {
    return CLI_CHOICE(state, "form", value, "offsets", "objects") == 1;
}

static tn_status objects_refuse(const cli_objects *asked, tn_error *error) {
    for (uint32_t i = 0; i < asked->output_count; i++)
        if (!tn__has_suffix(asked->outputs[i], ".csv") &&
            !tn__has_suffix(asked->outputs[i], ".json"))
            return tn__fail(error, TN_E_UNSUPPORTED,
                            "-o %.80s: shared objects can be written as .csv or .json only",
                            asked->outputs[i]);
    return TN_OK;
}

tn_status cli_objects_run(const cli_objects *asked, tn_error *error) {
    objects_job job = {.asked = asked};
    tn_objects_options options = TN_OBJECTS_OPTIONS_INIT;
    tn_status status = objects_refuse(asked, error);
    if (status == TN_OK) status = objects_load_records(asked->input, &job.from, error);
    options.context = asked->options->context;
    options.strategy = asked->options->planner;
    options.work_limit = asked->options->work_limit;
    options.timeout_s = asked->options->timeout_s;
    options.kind = job.from.kind;
    if (job.from.reallocation.vertex_count > 0) options.reallocation = &job.from.reallocation;
    if (status == TN_OK)
        status = tn_objects_plan(job.from.records, job.from.count, &options, &job.objects, error);
    for (uint32_t i = 0; status == TN_OK && i < job.from.count; i++)
        job.naive += objects_product(job.from.records[i].size, job.from.kind);
    if (status == TN_OK) status = objects_report(&job, error);
    tn_objects_release(&job.objects);
    objects_release_records(&job.from, asked->options->context);
    return status;
}

/* --- checking shared objects from any tool --- */

/* The plan is a CSV with the columns `id` and `object`. Its rows are matched by name. The numbers
 * of objects are only names and may have gaps. An object is as large as its largest buffer. */

typedef struct check {
    objects_records from;
    tn__names rows;      /* maps a name to the number of its buffer */
    char (*numbers)[16]; /* [count] names that are made for buffers without a name */
    /* [count] number of the buffer's object plus 1; 0: no row has named the buffer yet */
    uint64_t *given;
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
        const char *name = objects_record_name(&state->from, i, state->numbers[i]);
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

/* Renumbers the objects as 0, 1, 2 and so on, and sets the size of each object to that of its
 * largest buffer. */
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
    TN_TRY(objects_load_records(input, &state->from, state->error));
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
            TN_FAIL(state->error, TN_E_CONFLICT, "the plan has no object for '%.80s'",
                    objects_record_name(&state->from, i, state->numbers[i]));
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
    cli_add_word(answer, "form", "objects");
    cli_add(answer, "valid", status == TN_OK);
    cli_add_word(answer, "conflict", status == TN_OK ? NULL : error->message);
    if (status == TN_OK || cli_tone_asked().json) {
        cli_add(answer, "objects", state.objects.object_count);
        cli_add_brief(answer, " for %u buffers", state.from.count);
        cli_add(answer, "total", state.objects.total);
        cli_add_word(answer, "unit", state.from.kind == TN_SIZE_BYTES ? "bytes" : "elements");
    }
    free(state.objects.object);
    free(state.objects.size);
    free(state.given);
    free(state.numbers);
    tn__names_release(&state.rows);
    objects_release_records(&state.from, NULL);
    return status;
}
