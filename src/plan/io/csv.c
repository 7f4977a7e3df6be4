/* csv.c - MiniMalloc's CSV, in all its dialects, both ways.
 *
 * A header names the columns, in any order: `id` (or `buffer`, `buffer_id`), `lower` (`begin`,
 * `start`), `upper` (`end`: then the last step is inclusive, in `gaps` too), `size`; optional
 * `alignment`, `hint` (-1: none), `gaps`, `offset`. A gap `lo-hi` is a time in which the buffer
 * holds nothing, `lo-hi@wlo:whi` one in which only that window of it is live. The first empty line
 * ends the file; nothing is quoted. Ours, written only where needed: `bank`, and `pinned` (0 or 1:
 * without it every offset pins). Empty cells of optional columns mean "not given"; a carriage
 * return at the end of a line is not part of it; columns of other names are left alone.
 *
 * Cost: O(bytes). Source: google/minimalloc, converter.cc and README (facts, no code).
 */
#include "plan/io/io.h"
#include "plan/problem.h"

#include <inttypes.h>

typedef enum csv_column {
    CSV_ID,
    CSV_LOWER,
    CSV_UPPER,
    CSV_SIZE,
    CSV_ALIGNMENT,
    CSV_HINT,
    CSV_GAPS,
    CSV_OFFSET,
    CSV_BANK,
    CSV_PINNED,
    CSV_COLUMN_COUNT
} csv_column;

static const struct {
    const char *name;
    csv_column column;
} csv_names[] = {
    {"id", CSV_ID},         {"buffer", CSV_ID},
    {"buffer_id", CSV_ID},  {"lower", CSV_LOWER},
    {"begin", CSV_LOWER},   {"start", CSV_LOWER},
    {"upper", CSV_UPPER},   {"end", CSV_UPPER},
    {"size", CSV_SIZE},     {"alignment", CSV_ALIGNMENT},
    {"hint", CSV_HINT},     {"gaps", CSV_GAPS},
    {"offset", CSV_OFFSET}, {"bank", CSV_BANK},
    {"pinned", CSV_PINNED},
};

#define CSV_FIELDS_MAX 256u

typedef struct csv_text { /* a stretch of the file */
    const char *at;
    size_t size;
} csv_text;

typedef struct csv_reader {
    tn__reading *reading;
    size_t next;   /* byte after the present line */
    uint32_t line; /* from 1 */
    uint32_t field_count;
    uint32_t field_of[CSV_COLUMN_COUNT]; /* UINT32_MAX: no such column */
    bool inclusive;                      /* the column is called `end` */
    csv_text fields[CSV_FIELDS_MAX];
    tn_piece *pieces;
    size_t piece_room;
    char *id; /* the row's id with a NUL */
    size_t id_room;
} csv_reader;

static tn_status csv_fail(csv_reader *reader, csv_column column, const char *what) {
    static const char *const titles[] = {"id",   "lower", "upper",  "size", "alignment",
                                         "hint", "gaps",  "offset", "bank", "pinned"};
    tn_error *error = reader->reading->error;
    csv_text field = reader->fields[reader->field_of[column]];
    int shown = field.size < 40 ? (int)field.size : 40;
    tn_status status = tn__fail(error, TN_E_INVALID, "column '%s': '%.*s' %s", titles[column],
                                shown, field.at, what);
    return tn__where(error, status, "%s:%u", reader->reading->name, reader->line);
}

static tn_status csv_fail_line(csv_reader *reader, const char *what) {
    tn_error *error = reader->reading->error;
    tn_status status = tn__fail(error, TN_E_INVALID, "%s", what);
    return tn__where(error, status, "%s:%u", reader->reading->name, reader->line);
}

/* The next line without its end; false at the end of the file or at an empty line. */
static bool csv_line(csv_reader *reader, csv_text *line) {
    const tn__reading *reading = reader->reading;
    if (reader->next >= reading->size) return false;
    const char *start = reading->bytes + reader->next;
    size_t left = reading->size - reader->next;
    const char *newline = memchr(start, '\n', left);
    size_t size = newline != NULL ? (size_t)(newline - start) : left;
    reader->next += newline != NULL ? size + 1 : size;
    reader->line++;
    if (size > 0 && start[size - 1] == '\r') size--;
    *line = (csv_text){start, size};
    return size > 0;
}

static bool csv_split(csv_reader *reader, csv_text line) {
    reader->field_count = 0;
    for (;;) {
        if (reader->field_count == CSV_FIELDS_MAX) return false;
        const char *comma = line.size > 0 ? memchr(line.at, ',', line.size) : NULL;
        size_t size = comma != NULL ? (size_t)(comma - line.at) : line.size;
        reader->fields[reader->field_count++] = (csv_text){line.at, size};
        if (comma == NULL) return true;
        line.at += size + 1;
        line.size -= size + 1;
    }
}

static bool csv_is(csv_text field, const char *name) {
    return field.size == strlen(name) && memcmp(field.at, name, field.size) == 0;
}

static tn_status csv_header(csv_reader *reader) {
    csv_text line;
    for (int i = 0; i < CSV_COLUMN_COUNT; i++) reader->field_of[i] = UINT32_MAX;
    if (!csv_line(reader, &line)) return csv_fail_line(reader, "there is no header line");
    if (line.size >= 3 && memcmp(line.at, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        line.at += 3;
        line.size -= 3;
    }
    if (!csv_split(reader, line)) return csv_fail_line(reader, "more than 256 columns");
    for (uint32_t field = 0; field < reader->field_count; field++) {
        for (size_t i = 0; i < sizeof csv_names / sizeof *csv_names; i++) {
            if (!csv_is(reader->fields[field], csv_names[i].name)) continue;
            uint32_t *of = &reader->field_of[csv_names[i].column];
            if (*of != UINT32_MAX) return csv_fail(reader, csv_names[i].column, "is there twice");
            *of = field;
            if (csv_is(reader->fields[field], "end")) reader->inclusive = true;
        }
    }
    for (csv_column column = CSV_ID; column <= CSV_SIZE; column++)
        if (reader->field_of[column] == UINT32_MAX)
            return csv_fail_line(reader,
                                 "the header needs the columns id, lower, upper (or end), size");
    return TN_OK;
}

/* --- numbers --- */

/* Reads a decimal int64 from the front of `text` and steps over it. */
static bool csv_integer(csv_text *text, int64_t *value) {
    bool minus = text->size > 0 && text->at[0] == '-';
    size_t at = minus ? 1 : 0, digits = 0;
    int64_t result = 0;
    for (; at < text->size && text->at[at] >= '0' && text->at[at] <= '9'; at++, digits++) {
        int64_t digit = text->at[at] - '0';
        if (__builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, minus ? -digit : digit, &result))
            return false;
    }
    text->at += at;
    text->size -= at;
    *value = result;
    return digits > 0;
}

static bool csv_skip(csv_text *text, char c) {
    if (text->size == 0 || text->at[0] != c) return false;
    text->at++;
    text->size--;
    return true;
}

static bool csv_given(const csv_reader *reader, csv_column column) {
    uint32_t field = reader->field_of[column];
    return field != UINT32_MAX && reader->fields[field].size > 0;
}

static tn_status csv_number(csv_reader *reader, csv_column column, int64_t least, int64_t *value) {
    csv_text text = reader->fields[reader->field_of[column]];
    if (!csv_integer(&text, value) || text.size > 0)
        return csv_fail(reader, column, "is no whole number of 64 bits");
    return *value >= least ? TN_OK : csv_fail(reader, column, "is too small");
}

/* --- gaps to pieces ------------------------------------------------------------------------------
 */

static bool csv_piece(csv_reader *reader, uint32_t *count, tn_piece piece) {
    if (piece.first >= piece.last || piece.lo >= piece.hi) return true;
    if (!tn__reserve(&reader->reading->problem->context, &reader->pieces, &reader->piece_room,
                     (size_t)*count + 1, sizeof *reader->pieces))
        return false;
    reader->pieces[(*count)++] = piece;
    return true;
}

/* One `lo-hi` or `lo-hi@wlo:whi`; the window is empty when none is given. */
static bool csv_gap(csv_text *text, bool inclusive, tn_piece *gap) {
    int64_t lo = 0, hi = 0;
    if (!csv_integer(text, &gap->first) || !csv_skip(text, '-') || !csv_integer(text, &gap->last))
        return false;
    if (inclusive && __builtin_add_overflow(gap->last, 1, &gap->last)) return false;
    if (csv_skip(text, '@')) {
        if (!csv_integer(text, &lo) || !csv_skip(text, ':') || !csv_integer(text, &hi) || lo < 0 ||
            hi <= lo)
            return false;
    }
    gap->lo = (uint64_t)lo;
    gap->hi = (uint64_t)hi;
    return gap->first < gap->last;
}

/* Gaps come in order of time and do not meet; between them the whole buffer is live. */
static tn_status csv_gaps(csv_reader *reader, tn_body *body) {
    csv_text text = reader->fields[reader->field_of[CSV_GAPS]];
    int64_t done = body->first;
    uint32_t count = 0;
    bool memory = true;
    while (memory) {
        while (csv_skip(&text, ' ')) continue;
        if (text.size == 0) break;
        tn_piece gap = {0};
        if (!csv_gap(&text, reader->inclusive, &gap) || (text.size > 0 && text.at[0] != ' '))
            return csv_fail(reader, CSV_GAPS, "is no list of `lo-hi` or `lo-hi@from:to`");
        if (gap.first < done || gap.last > body->last || gap.hi > body->size)
            return csv_fail(reader, CSV_GAPS, "has a gap out of order or outside its buffer");
        memory = csv_piece(reader, &count,
                           (tn_piece){.first = done, .last = gap.first, .hi = body->size}) &&
                 csv_piece(reader, &count, gap);
        done = gap.last;
    }
    memory = memory && csv_piece(reader, &count,
                                 (tn_piece){.first = done, .last = body->last, .hi = body->size});
    if (!memory) return tn__no_memory(reader->reading->error, "gaps");
    if (count == 0) return csv_fail(reader, CSV_GAPS, "leaves the buffer no life at all");
    body->pieces = reader->pieces;
    body->piece_count = count;
    return TN_OK;
}

/* --- rows --- */

static tn_status csv_id(csv_reader *reader, tn_body *body) {
    csv_text id = reader->fields[reader->field_of[CSV_ID]];
    if (memchr(id.at, '\0', id.size) != NULL) return csv_fail(reader, CSV_ID, "holds a NUL byte");
    if (!tn__reserve(&reader->reading->problem->context, &reader->id, &reader->id_room, id.size + 1,
                     1))
        return tn__no_memory(reader->reading->error, "an id");
    memcpy(reader->id, id.at, id.size);
    reader->id[id.size] = '\0';
    body->name = reader->id;
    return TN_OK;
}

static tn_status csv_optional(csv_reader *reader, tn_body *body) {
    int64_t value;
    if (csv_given(reader, CSV_ALIGNMENT)) {
        TN_TRY(csv_number(reader, CSV_ALIGNMENT, 1, &value));
        if (!tn__is_power_of_two((uint64_t)value))
            return csv_fail(reader, CSV_ALIGNMENT, "is no power of two");
        body->alignment = (uint64_t)value;
    }
    if (csv_given(reader, CSV_HINT)) {
        TN_TRY(csv_number(reader, CSV_HINT, INT64_MIN, &body->hint));
        body->has_hint = body->hint != -1;
    }
    if (csv_given(reader, CSV_BANK)) {
        TN_TRY(csv_number(reader, CSV_BANK, 0, &value));
        if (value > 63) return csv_fail(reader, CSV_BANK, "is above 63");
        body->bank = (tn_bank_id)value;
    }
    tn_problem *problem = reader->reading->problem;
    while (body->bank >= problem->bank_count)
        TN_TRY(tn_problem_set_bank(problem, (tn_bank_id)problem->bank_count, &(tn_bank){0},
                                   reader->reading->error));
    if (csv_given(reader, CSV_GAPS)) TN_TRY(csv_gaps(reader, body));
    return TN_OK;
}

static tn_status csv_offset(csv_reader *reader, tn_body *body) {
    tn__reading *reading = reader->reading;
    int64_t offset = 0, pinned = !reading->wants_offsets;
    bool given = csv_given(reader, CSV_OFFSET);
    if (csv_given(reader, CSV_PINNED)) TN_TRY(csv_number(reader, CSV_PINNED, 0, &pinned));
    if (given) TN_TRY(csv_number(reader, CSV_OFFSET, 0, &offset));
    if (reading->has_offsets) {
        if (!given) return csv_fail(reader, CSV_OFFSET, "is missing in this row");
        if (!tn__reading_offset(reading, (uint64_t)offset))
            return tn__no_memory(reading->error, "offsets");
    }
    if (given && pinned != 0) {
        body->flags |= TN_BODY_PINNED;
        body->offset = (uint64_t)offset;
    }
    return TN_OK;
}

static tn_status csv_row(csv_reader *reader) {
    tn_body body = {0};
    int64_t size;
    TN_TRY(csv_id(reader, &body));
    TN_TRY(csv_number(reader, CSV_LOWER, INT64_MIN, &body.first));
    TN_TRY(csv_number(reader, CSV_UPPER, INT64_MIN, &body.last));
    TN_TRY(csv_number(reader, CSV_SIZE, 0, &size));
    if (reader->inclusive && __builtin_add_overflow(body.last, 1, &body.last))
        return csv_fail(reader, CSV_UPPER, "is too large");
    if (body.first >= body.last)
        return csv_fail(reader, CSV_UPPER, "is not after the start of its buffer");
    body.size = (uint64_t)size;
    TN_TRY(csv_optional(reader, &body));
    TN_TRY(csv_offset(reader, &body));
    tn_error *error = reader->reading->error;
    tn_status status = tn_problem_add(reader->reading->problem, &body, NULL, error);
    if (status != TN_OK && error != NULL) error->where[0] = '\0';
    return tn__where(error, status, "%s:%u", reader->reading->name, reader->line);
}

tn_status tn__csv_read(tn__reading *reading) {
    csv_reader *reader = tn__alloc_array(&reading->problem->context, 1, sizeof *reader);
    if (reader == NULL) return tn__no_memory(reading->error, "a CSV reader");
    reader->reading = reading;
    csv_text line;
    tn_status status = csv_header(reader);
    uint32_t columns = reader->field_count;
    reading->has_offsets =
        status == TN_OK && reading->wants_offsets && reader->field_of[CSV_OFFSET] != UINT32_MAX;
    while (status == TN_OK && csv_line(reader, &line)) {
        if (!csv_split(reader, line) || reader->field_count != columns)
            status = csv_fail_line(reader, "the row has another number of fields than the header");
        else
            status = csv_row(reader);
    }
    const tn_context *context = &reading->problem->context;
    tn__free(context, reader->pieces, reader->piece_room * sizeof *reader->pieces);
    tn__free(context, reader->id, reader->id_room);
    tn__free(context, reader, sizeof *reader);
    return status;
}

/* --- writing --- */

typedef struct csv_columns {
    bool alignment, hint, gaps, bank, pinned, offset;
} csv_columns;

static bool csv_is_plain(const tn_body *body) { /* one piece that is all of it */
    return body->size == 0 ||
           (body->piece_count == 1 && body->pieces[0].lo == 0 && body->pieces[0].hi == body->size);
}

static csv_columns csv_choose(const tn_problem *problem, const tn_layout *layout) {
    csv_columns columns = {0};
    size_t pins = 0;
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        columns.alignment |= body->alignment > 1;
        columns.hint |= body->has_hint;
        columns.gaps |= !csv_is_plain(body);
        columns.bank |= body->bank != 0;
        pins += (body->flags & TN_BODY_PINNED) != 0;
    }
    columns.offset = layout != NULL || pins > 0;
    columns.pinned = pins > 0 && (layout != NULL || pins < problem->count);
    return columns;
}

static tn_status csv_put_gaps(tn__text *text, const tn_body *body, tn_error *error) {
    int64_t done = body->first;
    const char *space = "";
    for (uint32_t i = 0; i < body->piece_count && !csv_is_plain(body); i++) {
        const tn_piece *piece = &body->pieces[i];
        if (piece->first < done)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "has two windows at step %" PRId64 "; write JSON instead", piece->first);
        if (piece->first > done) {
            tn__text_printf(text, "%s%" PRId64 "-%" PRId64, space, done, piece->first);
            space = " ";
        }
        done = piece->last;
        if (piece->lo == 0 && piece->hi == body->size) continue;
        tn__text_printf(text, "%s%" PRId64 "-%" PRId64 "@%" PRIu64 ":%" PRIu64, space, piece->first,
                        piece->last, piece->lo, piece->hi);
        space = " ";
    }
    return TN_OK;
}

static tn_status csv_put_row(tn__text *text, const tn_problem *problem, const tn_layout *layout,
                             tn_body_id id, csv_columns columns, tn_error *error) {
    const tn_body *body = &problem->bodies[id];
    if (body->name != NULL && strpbrk(body->name, ",\r\n") != NULL)
        TN_FAIL(error, TN_E_INVALID, "its name holds a comma or a line end; write JSON instead");
    if (body->name != NULL)
        tn__text_put(text, body->name);
    else
        tn__text_printf(text, "%u", id);
    tn__text_printf(text, ",%" PRId64 ",%" PRId64 ",%" PRIu64, body->first, body->last, body->size);
    if (columns.alignment) tn__text_printf(text, ",%" PRIu64, body->alignment);
    if (columns.hint) tn__text_printf(text, ",%" PRId64, body->has_hint ? body->hint : -1);
    if (columns.gaps) {
        tn__text_put(text, ",");
        TN_TRY(csv_put_gaps(text, body, error));
    }
    if (columns.bank) tn__text_printf(text, ",%u", body->bank);
    bool pinned = (body->flags & TN_BODY_PINNED) != 0;
    if (columns.pinned) tn__text_printf(text, ",%d", pinned);
    if (columns.offset && (layout != NULL || pinned))
        tn__text_printf(text, ",%" PRIu64, layout != NULL ? layout->offset[id] : body->offset);
    else if (columns.offset)
        tn__text_put(text, ",");
    tn__text_put(text, "\n");
    return TN_OK;
}

tn_status tn__csv_render(const tn_problem *problem, const tn_layout *layout, tn__text *text,
                         tn_error *error) {
    csv_columns columns = csv_choose(problem, layout);
    tn__text_printf(text, "id,lower,upper,size%s%s%s%s%s%s\n",
                    columns.alignment ? ",alignment" : "", columns.hint ? ",hint" : "",
                    columns.gaps ? ",gaps" : "", columns.bank ? ",bank" : "",
                    columns.pinned ? ",pinned" : "", columns.offset ? ",offset" : "");
    for (tn_body_id id = 0; id < problem->count; id++) {
        tn_status status = csv_put_row(text, problem, layout, id, columns, error);
        char name[TN__BODY_TEXT_MAX];
        if (status != TN_OK)
            return tn__where(error, status, "%s", tn__body_text(problem, id, name));
    }
    return TN_OK;
}

tn_status tn_problem_save_csv(const tn_problem *problem, const tn_layout *layout, const char *path,
                              tn_error *error) {
    tn__text text;
    tn__text_init(&text, &problem->context);
    tn_status status = tn__csv_render(problem, layout, &text, error);
    if (status == TN_OK && text.failed) status = tn__no_memory(error, path);
    if (status == TN_OK) status = tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}
