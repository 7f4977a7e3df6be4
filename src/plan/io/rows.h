/* rows.h - rows of a CSV file, as in RFC 4180 and in the files that MiniMalloc's tools and
 * spreadsheets write. */
#ifndef TN_PLAN_IO_ROWS_H
#define TN_PLAN_IO_ROWS_H

#include "base/base.h"

/* limit of fields per row, far above the number of columns that have a meaning */
#define TN__CSV_FIELDS_MAX 256u

typedef struct tn__csv_field { /* a field: bytes of the file, or of the arena */
    const char *at;
    size_t size;
} tn__csv_field;

/* A reader of rows. It is initialised as {.bytes, .size} with an arena, which stores fields with
 * doubled quotes. */
typedef struct tn__csv_rows {
    const char *bytes;
    size_t size, next;     /* next: index of the byte after the current row */
    uint32_t line, passed; /* line: number of the line at which the row begins, counted from 1 */
    char separator;        /* the character between two fields; 0: the header decides it */
    uint32_t columns;      /* number of columns of the header; 0: the header is not read yet */
    tn__arena arena;
    uint32_t count;
    tn__csv_field fields[TN__CSV_FIELDS_MAX];
} tn__csv_rows;

/* Reads the next row. *more is false at the end of the file, and at the first empty line. Returns
 * E_INVALID for more than 256 fields or for another number of fields than in the header, and
 * E_NO_MEMORY. The caller sets the error's `where`. */
tn_status tn__csv_row(tn__csv_rows *rows, bool *more, tn_error *error);
bool tn__csv_is(tn__csv_field field, const char *text);
/* The name of the separator of the fields: "commas", "semicolons", "tabs" or "blanks". */
const char *tn__csv_separators(const tn__csv_rows *rows);

/* Appends a field, in quotes if needed, so that tn__csv_row reads it back as `value`. */
void tn__csv_put(tn__text *text, const char *value);

#endif
