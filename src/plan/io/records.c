/* records.c - reads records for shared objects from CSV; sizes may be vectors such as 2x8 or
 * 1x16x16x3.
 *
 * The columns are those of csv.c: `id`, `lower`, `upper` (if it is called `end`, it is inclusive),
 * `size`, optional `alignment`. Columns for constraints and costs, which shared objects do not
 * support, are refused. All sizes in a file have equally many extents: 2 or 3 make
 * vectors, 4 make shapes. The first row decides whether the file contains records or a problem with
 * plain sizes.
 *
 * Cost: O(bytes).
 */
#include <tenure/objects.h>

#include "base/base.h"
#include "plan/io/rows.h"

#include <inttypes.h>

enum { RECORDS_ID, RECORDS_LOWER, RECORDS_UPPER, RECORDS_SIZE, RECORDS_ALIGNMENT, RECORDS_COLUMNS };

static const struct {
    const char *name;
    int column;
} records_names[] = {
    {"id", RECORDS_ID},        {"buffer", RECORDS_ID},
    {"buffer_id", RECORDS_ID}, {"lower", RECORDS_LOWER},
    {"begin", RECORDS_LOWER},  {"start", RECORDS_LOWER},
    {"upper", RECORDS_UPPER},  {"end", RECORDS_UPPER},
    {"size", RECORDS_SIZE},    {"alignment", RECORDS_ALIGNMENT},
};
static const char *const records_refused[] = {"gaps",     "offset", "pinned", "bank",
                                              "any_bank", "leader", "delta",  "begins",
                                              "ends",     "apart",  "costs",  "excludes", "reserved"};

typedef tn__csv_field records_text;

typedef struct records_reader {
    const tn_context *context;
    const char *name;
    tn__csv_rows rows;
    uint32_t field_of[RECORDS_COLUMNS];
    bool inclusive, refused; /* refused: the header has a column for an unsupported constraint */
    tn_object_record *records;
    char **names;
    size_t record_room, name_room;
    uint32_t count;
    tn_size_kind kind;
    tn_error *error;
} records_reader;

static tn_status records_fail(const records_reader *reader, const char *what) {
    tn_status status = tn__fail(reader->error, TN_E_INVALID, "%s", what);
    return tn__where(reader->error, status, "%s:%u", reader->name, reader->rows.line);
}

/* Reads the next row; *more is false at the end of the file or at an empty line. */
static tn_status records_line(records_reader *reader, bool *more) {
    tn_status status = tn__csv_row(&reader->rows, more, reader->error);
    return status == TN_OK
               ? TN_OK
               : tn__where(reader->error, status, "%s:%u", reader->name, reader->rows.line);
}

static tn_status records_header(records_reader *reader) {
    bool more;
    TN_TRY(records_line(reader, &more));
    for (int i = 0; i < RECORDS_COLUMNS; i++) reader->field_of[i] = UINT32_MAX;
    for (uint32_t field = 0; field < reader->rows.count; field++) {
        for (size_t i = 0; i < sizeof records_names / sizeof *records_names; i++)
            if (tn__csv_is(reader->rows.fields[field], records_names[i].name))
                reader->field_of[records_names[i].column] = field;
        if (tn__csv_is(reader->rows.fields[field], "end")) reader->inclusive = true;
        for (size_t i = 0; i < sizeof records_refused / sizeof *records_refused; i++)
            if (tn__csv_is(reader->rows.fields[field], records_refused[i])) reader->refused = true;
    }
    for (int i = RECORDS_ID; i <= RECORDS_SIZE; i++)
        if (reader->field_of[i] == UINT32_MAX)
            return records_fail(reader, "the header needs id, lower, upper (or end), size");
    return TN_OK;
}

static bool records_number(records_text *text, int64_t *value) {
    return tn__take_integer(&text->at, &text->size, value);
}

static bool records_field(const records_reader *reader, int column, int64_t *value) {
    records_text text = reader->rows.fields[reader->field_of[column]];
    return records_number(&text, value) && text.size == 0;
}

static tn_status records_size(records_reader *reader, tn_object_record *record) {
    records_text text = reader->rows.fields[reader->field_of[RECORDS_SIZE]];
    uint32_t rank = 0;
    for (;;) {
        int64_t extent;
        if (rank == TN_SIZE_RANK_MAX || !records_number(&text, &extent) || extent < 0)
            return records_fail(reader, "'size' is not a number, nor 2 to 4 numbers such as 2x8");
        record->size[rank++] = (uint64_t)extent;
        if (text.size == 0) break;
        if (text.at[0] != 'x') return records_fail(reader, "'size' should read 64 or 2x8");
        text.at++;
        text.size--;
    }
    tn_size_kind kind = (tn_size_kind)(rank - 1);
    if (reader->count > 0 && kind != reader->kind)
        return records_fail(reader, "'size' has another number of extents than before");
    reader->kind = kind;
    return TN_OK;
}

static tn_status records_keep(records_reader *reader, const tn_object_record *record) {
    records_text id = reader->rows.fields[reader->field_of[RECORDS_ID]];
    size_t need = (size_t)reader->count + 1;
    if (memchr(id.at, '\0', id.size) != NULL) return records_fail(reader, "'id' holds a NUL byte");
    if (reader->count == UINT32_MAX - 1) return records_fail(reader, "too many rows");
    if (!tn__reserve(reader->context, &reader->records, &reader->record_room, need,
                     sizeof *reader->records) ||
        !tn__reserve(reader->context, &reader->names, &reader->name_room, need,
                     sizeof *reader->names))
        return tn__no_memory(reader->error, "records");
    char *copy = tn__alloc(reader->context, id.size + 1);
    if (copy == NULL) return tn__no_memory(reader->error, "a name");
    memcpy(copy, id.at, id.size);
    copy[id.size] = '\0';
    reader->names[reader->count] = copy;
    reader->records[reader->count++] = *record;
    return TN_OK;
}

static tn_status records_row(records_reader *reader) {
    tn_object_record record = {0};
    int64_t alignment = 1;
    if (!records_field(reader, RECORDS_LOWER, &record.first) ||
        !records_field(reader, RECORDS_UPPER, &record.last) ||
        (reader->inclusive && __builtin_add_overflow(record.last, 1, &record.last)))
        return records_fail(reader, "'lower' or 'upper' is not a whole number of 64 bits");
    if (record.first >= record.last)
        return records_fail(reader, "'upper' is not after the start of its buffer");
    uint32_t field = reader->field_of[RECORDS_ALIGNMENT];
    if (field != UINT32_MAX && reader->rows.fields[field].size > 0 &&
        (!records_field(reader, RECORDS_ALIGNMENT, &alignment) || alignment < 1 ||
         !tn__is_power_of_two((uint64_t)alignment)))
        return records_fail(reader, "'alignment' is not a power of two");
    record.alignment = (uint64_t)alignment;
    TN_TRY(records_size(reader, &record));
    return records_keep(reader, &record);
}

/* Copies the records and names into arrays of exactly `count` items, because callers release them
 * by count. */
static tn_status records_hand_over(records_reader *reader, tn_object_record **records,
                                   char ***names) {
    size_t count = reader->count;
    tn_object_record *own = tn__alloc_array(reader->context, count, sizeof *own);
    char **own_names = tn__alloc_array(reader->context, count, sizeof *own_names);
    if (own == NULL || own_names == NULL) {
        tn__free(reader->context, own, count * sizeof *own);
        tn__free(reader->context, own_names, count * sizeof *own_names);
        return tn__no_memory(reader->error, "records");
    }
    if (count > 0) {
        memcpy(own, reader->records, count * sizeof *own);
        memcpy(own_names, reader->names, count * sizeof *own_names);
    }
    reader->count = 0; /* the caller owns the names now, so the reader must not release them */
    *records = own;
    *names = own_names;
    return TN_OK;
}

static void records_free_names(const tn_context *context, char **names, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) tn__free(context, names[i], strlen(names[i]) + 1);
}

static tn_status records_read(records_reader *reader) {
    bool more = true;
    TN_TRY(records_header(reader));
    for (bool first = true;; first = false) {
        TN_TRY(records_line(reader, &more));
        records_text size = {0};
        if (more && reader->rows.count > reader->field_of[RECORDS_SIZE])
            size = reader->rows.fields[reader->field_of[RECORDS_SIZE]];
        if (first && (size.size == 0 || memchr(size.at, 'x', size.size) == NULL))
            TN_FAIL(reader->error, TN_E_UNSUPPORTED, "its sizes are not vectors; it is a problem");
        if (!more) return TN_OK;
        if (first && reader->refused)
            return records_fail(reader,
                                "shared objects know no gaps, pins, banks, ties or streams; "
                                "leave the column out");
        TN_TRY(records_row(reader));
    }
}

tn_status tn_object_records_load_memory(const char *name, const void *bytes, size_t size,
                                        const tn_context *context, tn_object_record **records,
                                        char ***names, uint32_t *count, tn_size_kind *kind,
                                        tn_error *error) {
    tn_context own = tn__context(context);
    records_reader *reader = tn__alloc_array(&own, 1, sizeof *reader);
    if (reader == NULL) return tn__no_memory(error, "a CSV reader");
    *reader = (records_reader){
        .context = &own, .name = name, .rows = {.bytes = bytes, .size = size}, .error = error};
    tn__arena_init(&reader->rows.arena, &own);
    tn_status status = records_read(reader);
    uint32_t found = reader->count;
    if (status == TN_OK) status = records_hand_over(reader, records, names);
    if (status == TN_OK) {
        *count = found;
        *kind = reader->kind;
    }
    records_free_names(&own, reader->names, reader->count);
    tn__free(&own, reader->records, reader->record_room * sizeof *reader->records);
    tn__free(&own, reader->names, reader->name_room * sizeof *reader->names);
    tn__arena_release(&reader->rows.arena);
    tn__free(&own, reader, sizeof *reader);
    return tn__where(error, status, "%s", name);
}

tn_status tn_object_records_load(const char *path, const tn_context *context,
                                 tn_object_record **records, char ***names, uint32_t *count,
                                 tn_size_kind *kind, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_most(path, tn__context(context).read_limit, &file, error));
    tn_status status = tn_object_records_load_memory(path, file.bytes, file.size, context, records,
                                                     names, count, kind, error);
    tn__file_unmap(&file);
    return status;
}

void tn_object_records_release(const tn_context *context, tn_object_record *records, char **names,
                               uint32_t count) {
    tn_context own = tn__context(context);
    tn__free(&own, records, count * sizeof *records);
    if (names == NULL) return;
    records_free_names(&own, names, count);
    tn__free(&own, names, count * sizeof *names);
}
