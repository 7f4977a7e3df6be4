/* csv.c - reads problems in MiniMalloc's CSV format, in all its dialects; write.c writes them.
 *
 * A header names the columns, in any order: `id` (or `buffer`, `buffer_id`), `lower` (`begin`,
 * `start`), `upper` (if it is called `end`, the last step is inclusive, in `gaps` too), `size`;
 * optional `alignment`, `hint` (-1: none), `gaps`, `offset`. A gap `lo-hi` is a time in which the
 * buffer holds nothing; in a gap `lo-hi@wlo:whi`, only that window of its bytes is live (an
 * extension of this reader; several windows have `+` between them). The first empty line ends the
 * file. Empty cells of optional columns mean "not given"; other columns are ignored. For separators
 * and quotes see rows.c.
 *
 * Further columns are extensions and written only if needed. `bank` names the bank. `any_bank` is 1
 * if any bank may hold the buffer (then `bank` is a remark) and 0 if the buffer is bound to `bank`
 * (default 0). `traffic` is in bytes. `leader` and `delta` tie the buffer `delta` bytes above the
 * buffer of that id, in an earlier row. `begins` and `ends` are clocks, one number per stream,
 * separated by blanks: one list for each part of the live range between `gaps` in order of time,
 * separated by slashes, or one list for all; an empty list means unknown. `pinned` is 0 or 1;
 * without this column every offset pins, in the bank that the row names. `apart` lists ids of rows,
 * with blanks between: buffers that never share bytes with this one. `costs` lists `id` or
 * `id:cost`, with blanks between: the reuse cost of this buffer with the buffer of that id, default
 * 1. `excludes` lists ids of rows like `apart`: buffers that are never live at the same time as
 * this one. `reserved` lists `first-last`, with blanks between: bytes that no buffer of the row's
 * bank may hold.
 *
 * Cost: O(bytes). Source: google/minimalloc, converter.cc and README (facts, no code).
 */
#include "plan/io/io.h"
#include "plan/io/rows.h"
#include "plan/problem/problem.h"

#include <inttypes.h>
#include <stdio.h>

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
    CSV_ANY_BANK,
    CSV_TRAFFIC,
    CSV_LEADER,
    CSV_DELTA,
    CSV_BEGINS,
    CSV_ENDS,
    CSV_PINNED,
    CSV_APART,
    CSV_COSTS,
    CSV_EXCLUDES,
    CSV_RESERVED,
    CSV_COLUMN_COUNT
} csv_column;

static const struct {
    const char *name;
    csv_column column;
} csv_names[] = {
    {"id", CSV_ID},
    {"buffer", CSV_ID},
    {"buffer_id", CSV_ID},
    {"lower", CSV_LOWER},
    {"begin", CSV_LOWER},
    {"start", CSV_LOWER},
    {"upper", CSV_UPPER},
    {"end", CSV_UPPER},
    {"size", CSV_SIZE},
    {"alignment", CSV_ALIGNMENT},
    {"hint", CSV_HINT},
    {"gaps", CSV_GAPS},
    {"offset", CSV_OFFSET},
    {"bank", CSV_BANK},
    {"any_bank", CSV_ANY_BANK},
    {"traffic", CSV_TRAFFIC},
    {"leader", CSV_LEADER},
    {"delta", CSV_DELTA},
    {"begins", CSV_BEGINS},
    {"ends", CSV_ENDS},
    {"pinned", CSV_PINNED},
    {"apart", CSV_APART},
    {"costs", CSV_COSTS},
    {"excludes", CSV_EXCLUDES},
    {"reserved", CSV_RESERVED},
};

typedef tn__csv_field csv_text;

/* an entry of `apart`, `costs` or `excludes`: row `row` names the row with id `other` in `column`
 * */
typedef struct csv_pair {
    csv_text other;
    int64_t cost;
    uint32_t row, line;
    csv_column column;
} csv_pair;

typedef struct csv_reader {
    tn__reading *reading;
    tn__csv_rows rows;
    /* index of the field of each column; UINT32_MAX: there is no such column */
    uint32_t field_of[CSV_COLUMN_COUNT];
    bool inclusive; /* the column `upper` is called `end`, so the last step is inclusive */
    tn_piece *pieces;
    size_t piece_room;
    char *id; /* the id of the current row, with a terminating NUL */
    size_t id_room;
    int64_t *clocks; /* clocks of the row: those of all pieces' begins, then those of their ends */
    size_t clock_room;
    uint32_t streams;
    tn__names ids;   /* ids of earlier rows; used only if a column refers to rows */
    csv_pair *pairs; /* entries of `apart`, `costs` and `excludes`; they may refer to later rows */
    size_t pair_count, pair_room;
} csv_reader;

static tn_status csv_fail(csv_reader *reader, csv_column column, const char *what) {
    static const char *const titles[] = {"id",      "lower",  "upper",  "size",     "alignment",
                                         "hint",    "gaps",   "offset", "bank",     "any_bank",
                                         "traffic", "leader", "delta",  "begins",   "ends",
                                         "pinned",  "apart",  "costs",  "excludes", "reserved"};
    tn_error *error = reader->reading->error;
    csv_text field = reader->rows.fields[reader->field_of[column]];
    int shown = field.size < 40 ? (int)field.size : 40;
    tn_status status = tn__fail(error, TN_E_INVALID, "column '%s': '%.*s' %s", titles[column],
                                shown, field.at, what);
    return tn__where(error, status, "%s:%u", reader->reading->name, reader->rows.line);
}

static tn_status csv_fail_line(csv_reader *reader, const char *what) {
    tn_error *error = reader->reading->error;
    tn_status status = tn__fail(error, TN_E_INVALID, "%s", what);
    return tn__where(error, status, "%s:%u", reader->reading->name, reader->rows.line);
}

/* Reads the next row; *more is false at the end of the file. */
static tn_status csv_next(csv_reader *reader, bool *more) {
    tn_status status = tn__csv_row(&reader->rows, more, reader->reading->error);
    return status == TN_OK ? TN_OK
                           : tn__where(reader->reading->error, status, "%s:%u",
                                       reader->reading->name, reader->rows.line);
}

/* Reports a missing column, for example: the header has no column 'size'; it has 'id', 'lower',
 * 'bytes', separated by commas. */
static tn_status csv_fail_header(csv_reader *reader, csv_column missing) {
    static const char *const needed[] = {"id", "lower", "upper' or 'end", "size"};
    const tn__csv_rows *rows = &reader->rows;
    char what[240];
    size_t used = (size_t)snprintf(what, sizeof what, "the header has no column '%s'; it has ",
                                   needed[missing]);
    for (uint32_t i = 0; i < rows->count && used + 60 < sizeof what; i++) {
        int shown = rows->fields[i].size < 24 ? (int)rows->fields[i].size : 24;
        used += (size_t)snprintf(what + used, sizeof what - used, "%s'%.*s'", i > 0 ? ", " : "",
                                 shown, rows->fields[i].at);
    }
    if (rows->count > 1)
        snprintf(what + used, sizeof what - used, ", separated by %s", tn__csv_separators(rows));
    else
        snprintf(what + used, sizeof what - used,
                 " alone; columns are separated by commas, semicolons, tabs or blanks");
    return csv_fail_line(reader, what);
}

static tn_status csv_header(csv_reader *reader) {
    bool more;
    for (int i = 0; i < CSV_COLUMN_COUNT; i++) reader->field_of[i] = UINT32_MAX;
    TN_TRY(csv_next(reader, &more));
    if (!more) return csv_fail_line(reader, "there is no header line");
    for (uint32_t field = 0; field < reader->rows.count; field++) {
        for (size_t i = 0; i < sizeof csv_names / sizeof *csv_names; i++) {
            if (!tn__csv_is(reader->rows.fields[field], csv_names[i].name)) continue;
            uint32_t *of = &reader->field_of[csv_names[i].column];
            if (*of != UINT32_MAX) return csv_fail(reader, csv_names[i].column, "is there twice");
            *of = field;
            if (tn__csv_is(reader->rows.fields[field], "end")) reader->inclusive = true;
        }
    }
    for (csv_column column = CSV_ID; column <= CSV_SIZE; column++)
        if (reader->field_of[column] == UINT32_MAX) return csv_fail_header(reader, column);
    return TN_OK;
}

/* --- numbers --- */

static bool csv_integer(csv_text *text, int64_t *value) {
    return tn__take_integer(&text->at, &text->size, value);
}

static bool csv_skip(csv_text *text, char c) {
    if (text->size == 0 || text->at[0] != c) return false;
    text->at++;
    text->size--;
    return true;
}

static bool csv_given(const csv_reader *reader, csv_column column) {
    uint32_t field = reader->field_of[column];
    return field != UINT32_MAX && reader->rows.fields[field].size > 0;
}

static tn_status csv_number(csv_reader *reader, csv_column column, int64_t least, int64_t *value) {
    csv_text text = reader->rows.fields[reader->field_of[column]];
    if (!csv_integer(&text, value) || text.size > 0)
        return csv_fail(reader, column, "is not a whole number of 64 bits");
    return *value >= least ? TN_OK : csv_fail(reader, column, "is too small");
}

/* --- gaps of live ranges, as pieces ----------------------------------------------------------- */

static bool csv_piece(csv_reader *reader, uint32_t *count, tn_piece piece) {
    if (piece.first >= piece.last || piece.lo >= piece.hi) return true;
    if (!tn__reserve(&reader->reading->problem->context, &reader->pieces, &reader->piece_room,
                     (size_t)*count + 1, sizeof *reader->pieces))
        return false;
    reader->pieces[(*count)++] = piece;
    return true;
}

/* Reads `lo-hi`, the steps of a gap. */
static bool csv_gap(csv_text *text, bool inclusive, tn_piece *gap) {
    if (!csv_integer(text, &gap->first) || !csv_skip(text, '-') || !csv_integer(text, &gap->last))
        return false;
    if (inclusive && __builtin_add_overflow(gap->last, 1, &gap->last)) return false;
    return gap->first < gap->last;
}

/* Reads `wlo:whi`, a window of bytes. */
static bool csv_window(csv_text *text, tn_piece *gap) {
    int64_t lo, hi;
    if (!csv_integer(text, &lo) || !csv_skip(text, ':') || !csv_integer(text, &hi) || lo < 0 ||
        hi <= lo)
        return false;
    gap->lo = (uint64_t)lo;
    gap->hi = (uint64_t)hi;
    return true;
}

/* Reads the live part of a gap: nothing, or the windows after the `@`. */
static tn_status csv_windows(csv_reader *reader, csv_text *text, const tn_body *body, tn_piece gap,
                             uint32_t *count) {
    bool more = csv_skip(text, '@');
    while (more) {
        if (!csv_window(text, &gap))
            return csv_fail(reader, CSV_GAPS, "is not a list of `lo-hi` or `lo-hi@from:to`");
        if (gap.hi > body->size)
            return csv_fail(reader, CSV_GAPS, "has a gap out of order or outside its buffer");
        if (!csv_piece(reader, count, gap)) return tn__no_memory(reader->reading->error, "gaps");
        more = csv_skip(text, '+');
    }
    if (text->size > 0 && text->at[0] != ' ')
        return csv_fail(reader, CSV_GAPS, "is not a list of `lo-hi` or `lo-hi@from:to`");
    return TN_OK;
}

/* Reads the gaps of a row, which come in order of time and do not overlap. Between them, all bytes
 * of the buffer are live. */
static tn_status csv_gaps(csv_reader *reader, tn_body *body) {
    csv_text text = reader->rows.fields[reader->field_of[CSV_GAPS]];
    int64_t done = body->first;
    uint32_t count = 0;
    bool memory = true;
    while (memory) {
        while (csv_skip(&text, ' ')) continue;
        if (text.size == 0) break;
        tn_piece gap = {0};
        if (!csv_gap(&text, reader->inclusive, &gap))
            return csv_fail(reader, CSV_GAPS, "is not a list of `lo-hi` or `lo-hi@from:to`");
        if (gap.first < done || gap.last > body->last)
            return csv_fail(reader, CSV_GAPS, "has a gap out of order or outside its buffer");
        memory = csv_piece(reader, &count,
                           (tn_piece){.first = done, .last = gap.first, .hi = body->size});
        if (memory) TN_TRY(csv_windows(reader, &text, body, gap, &count));
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

/* --- clocks --- */

/* Reads clocks up to a slash or the end of the text; stores at most `room` of them. *count: their
 * number. */
static bool csv_clock_list(csv_text *text, int64_t *clocks, uint32_t room, uint32_t *count) {
    for (*count = 0;;) {
        int64_t value;
        while (csv_skip(text, ' ')) continue;
        if (text->size == 0 || text->at[0] == '/') return true;
        if (!csv_integer(text, &value)) return false;
        if (text->size > 0 && text->at[0] != ' ' && text->at[0] != '/') return false;
        if (*count < room) clocks[*count] = value;
        if (++*count > TN_STREAMS_MAX) return false;
    }
}

/* Determines the number of streams: the length of the first list of clocks in the file that is not
 * empty. */
static tn_status csv_count_streams(csv_reader *reader) {
    const size_t next = reader->rows.next;
    const uint32_t passed = reader->rows.passed;
    uint32_t count = 0;
    bool more = true;
    bool clocks =
        reader->field_of[CSV_BEGINS] != UINT32_MAX || reader->field_of[CSV_ENDS] != UINT32_MAX;
    while (clocks && count == 0) {
        TN_TRY(csv_next(reader, &more));
        if (!more) break;
        for (csv_column column = CSV_BEGINS; column <= CSV_ENDS && count == 0; column++) {
            uint32_t field = reader->field_of[column];
            if (field >= reader->rows.count) continue;
            csv_text text = reader->rows.fields[field];
            while (count == 0 && text.size > 0)
                if (!csv_clock_list(&text, NULL, 0, &count) || !csv_skip(&text, '/')) break;
        }
    }
    reader->rows.next = next;
    reader->rows.passed = passed;
    reader->streams = count > 1 ? count : 1;
    /* an error in the clocks is reported later, when their row is read */
    if (count > TN_STREAMS_MAX) return TN_OK;
    return tn_problem_set_streams(reader->reading->problem, reader->streams,
                                  reader->reading->error);
}

/* Reads one list of clocks for all pieces, or one list for each piece, into the `begins` or `ends`
 * of out[]. */
static tn_status csv_clocks(csv_reader *reader, csv_column column, uint32_t pieces, size_t at,
                            tn_piece *out) {
    if (!csv_given(reader, column)) return TN_OK;
    csv_text text = reader->rows.fields[reader->field_of[column]];
    uint32_t lists = 0, count;
    for (bool more = true; more; lists++) {
        int64_t *list =
            lists < pieces ? reader->clocks + at + (size_t)lists * reader->streams : NULL;
        if (!csv_clock_list(&text, list, list != NULL ? reader->streams : 0, &count) ||
            (count != 0 && count != reader->streams))
            return csv_fail(reader, column, "has a list with another number of streams");
        if (list != NULL && count != 0)
            *(column == CSV_BEGINS ? &out[lists].begins : &out[lists].ends) = list;
        more = csv_skip(&text, '/');
    }
    if (lists != 1 && lists != pieces)
        return csv_fail(reader, column, "has not one list for all and not one for each stretch");
    for (uint32_t k = lists; k < pieces; k++) {
        out[k].begins = column == CSV_BEGINS ? out[0].begins : out[k].begins;
        out[k].ends = column == CSV_ENDS ? out[0].ends : out[k].ends;
    }
    return TN_OK;
}

/* Gives the buffer's pieces their clocks; a plain buffer becomes one piece. */
static tn_status csv_body_clocks(csv_reader *reader, tn_body *body) {
    const tn_context *context = &reader->reading->problem->context;
    uint32_t count = body->piece_count;
    bool given = csv_given(reader, CSV_BEGINS) || csv_given(reader, CSV_ENDS);
    if (!given || body->size == 0) return TN_OK;
    if (count == 0) {
        tn_piece whole = {.first = body->first, .last = body->last, .hi = body->size};
        if (!csv_piece(reader, &count, whole))
            return tn__no_memory(reader->reading->error, "a row");
    }
    size_t half = (size_t)count * reader->streams;
    if (!tn__reserve(context, &reader->clocks, &reader->clock_room, 2 * half,
                     sizeof *reader->clocks))
        return tn__no_memory(reader->reading->error, "clocks");
    TN_TRY(csv_clocks(reader, CSV_BEGINS, count, 0, reader->pieces));
    TN_TRY(csv_clocks(reader, CSV_ENDS, count, half, reader->pieces));
    body->pieces = reader->pieces;
    body->piece_count = count;
    return TN_OK;
}

/* --- rows --- */

static tn_status csv_tie(csv_reader *reader, tn_body *body) {
    int64_t delta = 0;
    if (csv_given(reader, CSV_DELTA)) TN_TRY(csv_number(reader, CSV_DELTA, 0, &delta));
    if (reader->field_of[CSV_LEADER] == UINT32_MAX) return TN_OK;
    if (csv_given(reader, CSV_LEADER)) {
        csv_text leader = reader->rows.fields[reader->field_of[CSV_LEADER]];
        uint32_t row = tn__names_find(&reader->ids, leader.at, leader.size);
        if (row == TN__NAMES_NONE)
            return csv_fail(reader, CSV_LEADER, "is the id of no earlier row");
        body->flags |= TN_BODY_TIED;
        body->leader = row;
        body->delta = (uint64_t)delta;
    }
    return TN_OK;
}

/* Registers the id of the row, if a column refers to rows. Keys point into the file; of equal ids,
 * the first one is used. */
static tn_status csv_note_id(csv_reader *reader) {
    if (reader->field_of[CSV_LEADER] == UINT32_MAX && reader->field_of[CSV_APART] == UINT32_MAX &&
        reader->field_of[CSV_COSTS] == UINT32_MAX && reader->field_of[CSV_EXCLUDES] == UINT32_MAX)
        return TN_OK;
    csv_text id = reader->rows.fields[reader->field_of[CSV_ID]];
    uint32_t existing, row = (uint32_t)reader->reading->problem->count;
    if (!tn__names_add(&reader->ids, id.at, id.size, row, &existing))
        return tn__no_memory(reader->reading->error, "ids");
    return TN_OK;
}

/* --- pairs and reserved ranges --- */

/* Returns the next item of a list in which blanks separate the items; empty at its end. */
static csv_text csv_word(csv_text *text) {
    while (csv_skip(text, ' ')) continue;
    csv_text word = {text->at, 0};
    while (text->size > 0 && text->at[0] != ' ') {
        word.size++;
        text->at++;
        text->size--;
    }
    return word;
}

/* Splits `id:cost`; without a colon, the cost is 1. An id may contain colons itself, if a cost
 * follows the last one. */
static bool csv_split_cost(csv_text *word, int64_t *cost) {
    size_t colon = word->size;
    while (colon > 0 && word->at[colon - 1] != ':') colon--;
    *cost = 1;
    if (colon == 0) return true;
    csv_text number = {word->at + colon, word->size - colon};
    if (!csv_integer(&number, cost) || number.size > 0 || *cost < 0) return false;
    word->size = colon - 1;
    return word->size > 0;
}

static tn_status csv_pairs(csv_reader *reader, csv_column column) {
    if (!csv_given(reader, column)) return TN_OK;
    csv_text text = reader->rows.fields[reader->field_of[column]], word;
    while ((word = csv_word(&text)).size > 0) {
        csv_pair pair = {.row = (uint32_t)reader->reading->problem->count,
                         .line = reader->rows.line,
                         .column = column};
        if (column == CSV_COSTS && !csv_split_cost(&word, &pair.cost))
            return csv_fail(reader, column, "is not a list of `id` or `id:cost`");
        pair.other = word;
        if (!tn__reserve(&reader->reading->problem->context, &reader->pairs, &reader->pair_room,
                         reader->pair_count + 1, sizeof *reader->pairs))
            return tn__no_memory(reader->reading->error, "pairs");
        reader->pairs[reader->pair_count++] = pair;
    }
    return TN_OK;
}

static tn_status csv_reserved(csv_reader *reader, tn_bank_id bank) {
    if (!csv_given(reader, CSV_RESERVED)) return TN_OK;
    csv_text text = reader->rows.fields[reader->field_of[CSV_RESERVED]], word;
    while ((word = csv_word(&text)).size > 0) {
        int64_t first, last;
        if (!csv_integer(&word, &first) || !csv_skip(&word, '-') || !csv_integer(&word, &last) ||
            word.size > 0 || first < 0 || last < first)
            return csv_fail(reader, CSV_RESERVED, "is not a list of `first-last`");
        tn_status status = tn_problem_reserve(reader->reading->problem, bank, (uint64_t)first,
                                              (uint64_t)last, reader->reading->error);
        if (status != TN_OK)
            return tn__where(reader->reading->error, status, "%s:%u", reader->reading->name,
                             reader->rows.line);
    }
    return TN_OK;
}

/* Adds the pairs of `apart`, `costs` and `excludes` to the problem, after all rows have been read.
 * */
static tn_status csv_add_pairs(csv_reader *reader) {
    tn__reading *reading = reader->reading;
    for (size_t i = 0; i < reader->pair_count; i++) {
        const csv_pair *pair = &reader->pairs[i];
        const char *title = pair->column == CSV_APART   ? "apart"
                            : pair->column == CSV_COSTS ? "costs"
                                                        : "excludes";
        uint32_t other = tn__names_find(&reader->ids, pair->other.at, pair->other.size);
        tn_status status;
        if (other == TN__NAMES_NONE)
            status =
                tn__fail(reading->error, TN_E_INVALID, "column '%s': '%.*s' is the id of no row",
                         title, pair->other.size < 40 ? (int)pair->other.size : 40, pair->other.at);
        else if (pair->column == CSV_APART)
            status = tn_problem_keep_apart(reading->problem, pair->row, other, reading->error);
        else if (pair->column == CSV_COSTS)
            status = tn_problem_add_reuse_cost(reading->problem, pair->row, other,
                                               (uint64_t)pair->cost, reading->error);
        else
            status = tn_problem_add_exclusion(reading->problem, pair->row, other, reading->error);
        if (status != TN_OK)
            return tn__where(reading->error, status, "%s:%u", reading->name, pair->line);
    }
    return TN_OK;
}

static tn_status csv_id(csv_reader *reader, tn_body *body) {
    csv_text id = reader->rows.fields[reader->field_of[CSV_ID]];
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
            return csv_fail(reader, CSV_ALIGNMENT, "is not a power of two");
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
    if (csv_given(reader, CSV_ANY_BANK)) {
        TN_TRY(csv_number(reader, CSV_ANY_BANK, 0, &value));
        body->flags |= value != 0 ? TN_BODY_ANY_BANK : TN__BODY_IN_BANK;
    }
    if (csv_given(reader, CSV_TRAFFIC)) {
        TN_TRY(csv_number(reader, CSV_TRAFFIC, 0, &value));
        body->traffic = (uint64_t)value;
    }
    if (csv_given(reader, CSV_GAPS)) TN_TRY(csv_gaps(reader, body));
    TN_TRY(csv_body_clocks(reader, body));
    TN_TRY(csv_reserved(reader, body->bank));
    TN_TRY(csv_pairs(reader, CSV_APART));
    TN_TRY(csv_pairs(reader, CSV_COSTS));
    TN_TRY(csv_pairs(reader, CSV_EXCLUDES));
    TN_TRY(csv_tie(reader, body));
    return csv_note_id(reader);
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
        /* an offset without `pinned` comes from a plan, so the buffer is bound to the bank in the
         * row */
        if (!csv_given(reader, CSV_PINNED)) body->flags &= ~(uint32_t)TN_BODY_ANY_BANK;
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
    return tn__where(error, status, "%s:%u", reader->reading->name, reader->rows.line);
}

tn_status tn__csv_read(tn__reading *reading) {
    csv_reader *reader = tn__alloc_array(&reading->problem->context, 1, sizeof *reader);
    if (reader == NULL) return tn__no_memory(reading->error, "a CSV reader");
    reader->reading = reading;
    tn__names_init(&reader->ids, &reading->problem->context);
    reader->rows.bytes = reading->bytes;
    reader->rows.size = reading->size;
    tn__arena_init(&reader->rows.arena, &reading->problem->context);
    bool more = true;
    tn_status status = csv_header(reader);
    if (status == TN_OK) status = csv_count_streams(reader);
    reading->has_offsets =
        status == TN_OK && reading->wants_offsets && reader->field_of[CSV_OFFSET] != UINT32_MAX;
    while (status == TN_OK) {
        status = csv_next(reader, &more);
        if (!more || status != TN_OK) break;
        status = csv_row(reader);
    }
    if (status == TN_OK) status = csv_add_pairs(reader);
    const tn_context *context = &reading->problem->context;
    tn__free(context, reader->pieces, reader->piece_room * sizeof *reader->pieces);
    tn__free(context, reader->id, reader->id_room);
    tn__free(context, reader->clocks, reader->clock_room * sizeof *reader->clocks);
    tn__free(context, reader->pairs, reader->pair_room * sizeof *reader->pairs);
    tn__names_release(&reader->ids);
    tn__arena_release(&reader->rows.arena);
    tn__free(context, reader, sizeof *reader);
    return status;
}
