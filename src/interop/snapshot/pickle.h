/* pickle.h - an interpreter for Python's pickles that accepts data only: no code, no classes.
 *
 * A pickle is a program for a machine with a stack, marks in the stack, and numbered copies of
 * values (the memo). This machine knows the opcodes for numbers, texts, lists, dicts and tuples, in
 * protocols 2 to 5. It refuses all others and reports their byte. GLOBAL and REDUCE, which name
 * functions and call them, make pickles dangerous.
 *
 * The machine makes no containers itself. It calls functions of its caller (tn__pickle_maker),
 * which decide what to store: snapshot files contain 10^7 dicts, and each becomes one row of a
 * table.
 */
#ifndef TN_SNAPSHOT_PICKLE_H
#define TN_SNAPSHOT_PICKLE_H

#include "base/base.h"

typedef enum tn__pickle_kind {
    TN__PICKLE_NONE,
    TN__PICKLE_BOOL,
    TN__PICKLE_INTEGER,  /* an integer that fits in int64_t */
    TN__PICKLE_UNSIGNED, /* an integer from 2^63 to below 2^64 */
    /* any other integer, as a text of its bytes: two's complement, low byte first */
    TN__PICKLE_BIG,
    TN__PICKLE_REAL,
    TN__PICKLE_TEXT,
    TN__PICKLE_BYTES, /* bytes, stored like a text */
    TN__PICKLE_LIST,  /* containers, from this kind on, are values that the maker made */
    TN__PICKLE_DICT,
    TN__PICKLE_TUPLE,
} tn__pickle_kind;

typedef struct tn__pickle_value {
    tn__pickle_kind kind;
    /* an integer; the bits of a real number; the number of a text; or a value of the maker */
    uint64_t word;
} tn__pickle_value;

/* The functions that make containers. Items of a dict are pairs: key, value, key, value. */
typedef struct tn__pickle_maker {
    void *self;
    /* Makes an empty list or dict, or a tuple with its items. */
    tn_status (*make)(void *self, tn__pickle_kind kind, const tn__pickle_value *items, size_t count,
                      uint64_t *word, tn_error *error);
    /* Adds items to a list, or pairs to a dict. `count` is the number of values: two for a pair. */
    tn_status (*add)(void *self, const tn__pickle_value *container, const tn__pickle_value *items,
                     size_t count, tn_error *error);
} tn__pickle_maker;

typedef struct tn__pickle_text {
    const char *bytes; /* bytes of the text in the file, without a terminating NUL */
    size_t size;
} tn__pickle_text;

/* Texts by number; equal texts have the same number. They point into the file, which must exist as
 * long. */
typedef struct tn__pickle_texts {
    const tn_context *context;
    tn__names names;
    tn__pickle_text *texts;
    size_t count, room;
} tn__pickle_texts;
void tn__pickle_texts_init(tn__pickle_texts *texts, const tn_context *context);
void tn__pickle_texts_release(tn__pickle_texts *texts);
/* Finds the number of a text, which is added if it is new. False if memory is out. */
bool tn__pickle_texts_add(tn__pickle_texts *texts, const char *bytes, size_t size,
                          uint32_t *number);

/* Reads one pickle from the beginning of `bytes`; bytes after its STOP are ignored.
 *
 * Memory: 16 bytes for each value on the stack (at most 2^22), 9 for each in the memo (at most one
 * entry for each byte of the file), and the texts.
 *
 * Errors: E_INVALID (truncated, an opcode that is unknown or would run code, a sequence that no
 * pickler writes) with the byte in error->where; E_UNSUPPORTED (the stack is too large);
 * E_NO_MEMORY; errors of the maker.
 *
 * Cost: O(size).
 */
tn_status tn__pickle_read(const char *name, const uint8_t *bytes, size_t size,
                          tn__pickle_texts *texts, const tn__pickle_maker *maker,
                          tn__pickle_value *value, tn_error *error);

#endif
