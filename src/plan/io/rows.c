/* rows.c - reads and writes rows of a CSV file.
 *
 * The header decides the separator: commas, semicolons, tabs, or only blanks. Blanks around a field
 * are not part of it, nor is a carriage return at the end of a line. A quoted field is read as in
 * RFC 4180: separators, line ends and blanks inside the quotes belong to it, and a doubled quote is
 * one quote. MiniMalloc's own files have no quoting, so a field that begins with a quote but is not
 * closed right before a separator or the end of a line is taken literally.
 *
 * Cost: O(bytes).
 */
#include "plan/io/rows.h"

static bool rows_is_blank(const tn__csv_rows *rows, char c) {
    return c == ' ' || (c == '\t' && rows->separator != '\t');
}

/* Whether a field ends right before byte `at`. */
static bool rows_ends(const tn__csv_rows *rows, size_t at) {
    if (at >= rows->size) return true;
    char c = rows->bytes[at];
    return c == rows->separator || c == '\n' ||
           (c == '\r' && (at + 1 >= rows->size || rows->bytes[at + 1] == '\n'));
}

/* Finds the quote that closes the one before byte `at`; returns rows->size if the quote is not
 * closed. *doubled: number of doubled quotes before it. */
static size_t rows_close(const tn__csv_rows *rows, size_t at, size_t *doubled) {
    *doubled = 0;
    while (at < rows->size) {
        const char *quote = memchr(rows->bytes + at, '"', rows->size - at);
        if (quote == NULL) return rows->size;
        at = (size_t)(quote - rows->bytes);
        if (at + 1 >= rows->size || rows->bytes[at + 1] != '"') break;
        at += 2;
        ++*doubled;
    }
    size_t after = at + 1;
    while (after < rows->size && rows_is_blank(rows, rows->bytes[after]) && !rows_ends(rows, after))
        after++;
    return at < rows->size && rows_ends(rows, after) ? at : rows->size;
}

static tn_status rows_undouble(tn__csv_rows *rows, tn__csv_field *field, size_t doubled,
                               tn_error *error) {
    char *made = tn__arena_array(&rows->arena, field->size - doubled + 1, 1);
    size_t used = 0;
    if (made == NULL) return tn__no_memory(error, "a field in quotes");
    for (size_t i = 0; i < field->size; i++) {
        made[used++] = field->at[i];
        i += field->at[i] == '"';
    }
    *field = (tn__csv_field){made, used};
    return TN_OK;
}

/* Reads the field that begins at *at, and moves *at to the end of the field. */
static tn_status rows_field(tn__csv_rows *rows, size_t *at, tn__csv_field *field, tn_error *error) {
    size_t start = *at, doubled, end;
    while (!rows_ends(rows, start) && rows_is_blank(rows, rows->bytes[start])) start++;
    if (start < rows->size && rows->bytes[start] == '"' &&
        (end = rows_close(rows, start + 1, &doubled)) < rows->size) {
        *field = (tn__csv_field){rows->bytes + start + 1, end - start - 1};
        for (size_t i = start; i < end; i++) rows->passed += rows->bytes[i] == '\n';
        for (end++; !rows_ends(rows, end);) end++;
        *at = end;
        return doubled > 0 ? rows_undouble(rows, field, doubled, error) : TN_OK;
    }
    for (end = start; !rows_ends(rows, end);) end++;
    *at = end;
    while (end > start && rows_is_blank(rows, rows->bytes[end - 1])) end--;
    *field = (tn__csv_field){rows->bytes + start, end - start};
    return TN_OK;
}

/* The separator of the fields: the first comma, semicolon or tab in the header line. If there is
 * none, a blank; in a line without blanks, a comma. */
static char rows_separator(const tn__csv_rows *rows) {
    bool blank = false;
    for (size_t at = rows->next; at < rows->size && rows->bytes[at] != '\n'; at++) {
        char c = rows->bytes[at];
        if (c == ',' || c == ';' || c == '\t') return c;
        blank |= c == ' ';
    }
    return blank ? ' ' : ',';
}

tn_status tn__csv_row(tn__csv_rows *rows, bool *more, tn_error *error) {
    if (rows->columns == 0 && rows->next == 0 && rows->size >= 3 &&
        memcmp(rows->bytes, "\xef\xbb\xbf", 3) == 0)
        rows->next = 3; /* skips a byte order mark */
    if (rows->separator == 0) rows->separator = rows_separator(rows);
    size_t at = rows->next;
    rows->line = ++rows->passed;
    rows->count = 0;
    *more = at < rows->size && (rows->bytes[at] == rows->separator || !rows_ends(rows, at));
    while (*more) {
        if (rows->count == TN__CSV_FIELDS_MAX)
            TN_FAIL(error, TN_E_INVALID, "more than 256 columns");
        TN_TRY(rows_field(rows, &at, &rows->fields[rows->count++], error));
        if (at >= rows->size || rows->bytes[at] != rows->separator) break;
        at++;
        while (rows->separator == ' ' && at < rows->size && rows->bytes[at] == ' ') at++;
        /* blanks at the end of the line do not begin another field */
        if (rows->separator == ' ' && rows_ends(rows, at)) break;
    }
    if (at < rows->size && rows->bytes[at] == '\r') at++;
    rows->next = at < rows->size ? at + 1 : at;
    if (!*more) return TN_OK;
    if (rows->columns == 0) rows->columns = rows->count;
    if (rows->count != rows->columns)
        TN_FAIL(error, TN_E_INVALID,
                "the row has another number of fields than the header, %u and not %u", rows->count,
                rows->columns);
    return TN_OK;
}

bool tn__csv_is(tn__csv_field field, const char *text) {
    return field.size == strlen(text) && memcmp(field.at, text, field.size) == 0;
}

const char *tn__csv_separators(const tn__csv_rows *rows) {
    return rows->separator == ';'    ? "semicolons"
           : rows->separator == '\t' ? "tabs"
           : rows->separator == ' '  ? "blanks"
                                     : "commas";
}

void tn__csv_put(tn__text *text, const char *value) {
    size_t size = strlen(value);
    bool plain = strpbrk(value, ",;\"\r\n\t") == NULL &&
                 (size == 0 || (value[0] != ' ' && value[size - 1] != ' '));
    if (plain) {
        tn__text_put(text, value);
        return;
    }
    tn__text_put(text, "\"");
    for (const char *quote; (quote = strchr(value, '"')) != NULL; value = quote + 1) {
        tn__text_add(text, value, (size_t)(quote - value));
        tn__text_put(text, "\"\"");
    }
    tn__text_put(text, value);
    tn__text_put(text, "\"");
}
