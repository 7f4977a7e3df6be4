/* dims.h - symbolic dimensions: values from --dim and --input-shape, and the list of missing
 * values.
 *
 * A symbol is a text in the file: "batch", "seq", or an expression over others as exporters write
 * them, "past_sequence_length + 1". The text itself may be given a value; otherwise an expression
 * is computed from its names (+ - * / // %, parentheses; `/` only if it is exact).
 *
 * No value is refused while the file is read: tn__dims_check reports all problems at once.
 */
#ifndef TN_IMPORT_DIMS_H
#define TN_IMPORT_DIMS_H

#include <tenure/graph.h>

#include "base/base.h"
#include "io/import/onnx/wire.h"

typedef struct tn__dims {
    const tn_context *context;
    tn__arena arena;
    tn__names index;            /* maps a symbol to the index of its entry */
    struct dims_entry *entries; /* the symbols; those with a value from --dim come first */
    size_t room, count;
    /* dimensions of inputs that have no name, so that --dim cannot set them */
    struct dims_open *open;
    size_t open_room, open_count;
} tn__dims;

/* Begins with the values of --dim. Errors: E_INVALID (a negative value, two values for one name),
 * E_NO_MEMORY. */
tn_status tn__dims_init(tn__dims *dims, const tn_context *context, const tn_import_options *options,
                        tn_error *error);
void tn__dims_release(tn__dims *dims);

/* Gives `symbol` the value that --input-shape has for it in input `input`. Errors: E_INVALID if the
 * symbol already has another value. */
tn_status tn__dims_bind(tn__dims *dims, tn__span symbol, int64_t value, const char *input,
                        tn_error *error);

/* The value of a symbol, or TN_DIM_UNKNOWN. Marks the names that it contains as used. */
int64_t tn__dims_value(tn__dims *dims, tn__span symbol);

/* Records that a dimension of an input is this symbol: without a value, the symbol is reported as
 * missing. Returns false if memory runs out. */
bool tn__dims_need(tn__dims *dims, tn__span symbol);
/* Records that the file names this symbol, so that the option `dims` may give it a value, though
 * none is needed. Returns false if memory runs out. */
bool tn__dims_name(tn__dims *dims, tn__span symbol);
/* Records that an input has a dimension without a name; axis TN_RANK_UNKNOWN: even its rank is
 * unknown. Returns false if memory runs out. */
bool tn__dims_need_shape(tn__dims *dims, const char *input, uint32_t axis);

/* Reports all problems with symbols. Errors: E_INVALID for a --dim with a name that does not occur,
 * with the names that do; E_UNKNOWN with a list of all missing values. */
tn_status tn__dims_check(tn__dims *dims, tn_error *error);

/* --- lists in messages: as many items as fit, then "and N more" --- */
typedef struct tn__item_list {
    char *text;
    size_t room, size;
    uint32_t count, left_out;
} tn__item_list;
tn__item_list tn__item_list_begin(char *text, size_t room);
void tn__item_list_add(tn__item_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *tn__item_list_end(tn__item_list *list); /* ends the list and returns its text */

/* Appends a span as text for messages and for the graph. Bytes that are not UTF-8, NUL, and control
 * characters become U+FFFD, because they would end the text or control a terminal. */
void tn__span_text(tn__text *text, tn__span span);
void tn__mend(char *text); /* replaces incomplete or invalid characters by '?' */
char *tn__span_copy(tn__arena *arena, tn__span span); /* returns NULL if memory runs out */

#endif
