/* xla_text.h - the instructions in the text of an HLO module, which xla_text.c reads and from which
 * xla_needs.c derives what each step needs. */
#ifndef TN_INTEROP_FOREIGN_XLA_TEXT_H
#define TN_INTEROP_FOREIGN_XLA_TEXT_H

#include "interop/foreign/foreign.h"

typedef struct tn__xla_instruction {
    tn__span name, op;
    tn__span operands; /* the operands as text, without the closing parenthesis */
    /* attributes and metadata of the instruction, the text after that parenthesis */
    tn__span rest;
    /* true: the instruction is inside of a computation that is not the entry computation */
    bool inner;
} tn__xla_instruction;

typedef struct tn__xla_row { /* a row of the module's tables of stack frames, by its number */
    tn__span text;           /* in a row of files or functions: the name */
    /* in a row of locations: numbers of the file and of the function; `line` belongs to them */
    uint32_t file, function;
    uint32_t line;
    /* in a row of stack frames: numbers of the location and of the parent frame */
    uint32_t location, parent;
} tn__xla_row;
typedef struct tn__xla_table {
    tn__xla_row *rows; /* [count] the rows; row number n, from 1, is rows[n - 1] */
    size_t count, room;
} tn__xla_table;
enum { TN__XLA_FILES, TN__XLA_FUNCTIONS, TN__XLA_LOCATIONS, TN__XLA_FRAMES, TN__XLA_TABLES };

typedef struct tn__xla_text {
    tn__names names; /* finds the number of an instruction by its name */
    tn__xla_instruction *instructions;
    size_t count, room;
    tn__xla_table tables[TN__XLA_TABLES];
} tn__xla_text;

/* Returns the position of `what` in a text; the size of the text if it does not occur. */
size_t tn__xla_find(tn__span text, const char *what);
/* Takes the next name from a list of operands, skipping shapes, numbers and comments. Returns false
 * at the end of the list. */
bool tn__xla_operand(tn__span *operands, tn__span *name);
/* xla_needs.c: fills foreign->needs. Returns false if memory runs out. */
bool tn__xla_needs(tn_foreign *foreign, const tn__xla_text *text);

#endif
