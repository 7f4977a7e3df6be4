/* rows.h - rows of a CSV file: RFC 4180, and the files that MiniMalloc's tools and spreadsheets
 * write. */
#ifndef TN_PLAN_IO_ROWS_H
#define TN_PLAN_IO_ROWS_H

#include "base/base.h"

#define TN__CSV_FIELDS_MAX 256u /* limit of fields per row: far fewer columns have a meaning */

typedef struct tn__csv_field { /* part of the file, or of the arena */
    const char *at;
    size_t size;
} tn__csv_field;

/* A reader starts as {.bytes, .size} with an arena, which stores fields with doubled quotes. */
typedef struct tn__csv_rows {
    const char *bytes;
    size_t size, next;     /* next: the byte after the current row */
    uint32_t line, passed; /* line: line of the file, from 1, at which the row begins */
    char separator;        /* 0: the header decides */
    uint32_t columns;      /* columns of the header; 0: the header comes next */
    tn__arena arena;
    uint32_t count;
    tn__csv_field fields[TN__CSV_FIELDS_MAX];
} tn__csv_rows;

/* The next row. *more: false at the end of the file, and at the first empty line.
 * Errors: E_INVALID (more than 256 fields, another number of them than the header), E_NO_MEMORY;
 * `where` is left to the caller. */
tn_status tn__csv_row(tn__csv_rows *rows, bool *more, tn_error *error);
bool tn__csv_is(tn__csv_field field, const char *text);
/* "commas", "semicolons", "tabs" or "blanks": the separator of the fields. */
const char *tn__csv_separators(const tn__csv_rows *rows);

/* Appends a field, in quotes if needed, so that tn__csv_row reads `value` again. */
void tn__csv_put(tn__text *text, const char *value);

#endif
