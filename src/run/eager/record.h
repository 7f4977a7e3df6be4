/* record.h - records the commands that were run, to be written as a graph and a program
 * (recorded.c) or as a log (log.c).
 *
 * A value is a tensor at one time: an operator that writes into a tensor makes another value of it.
 * A recording never reuses the number of a value, and operators refer to their operands by these
 * numbers.
 * Cost: O(operands) per operator; a recording grows without limit.
 */
#ifndef TN_EAGER_RECORD_H
#define TN_EAGER_RECORD_H

#include <tenure/eager.h>

#include "run/eager/recipes.h"

typedef enum tn__record_kind {
    TN__RECORD_PUT, /* a value from outside */
    TN__RECORD_APPLY,
    TN__RECORD_GET,
    TN__RECORD_RELEASE /* the last reference to the value has ended */
} tn__record_kind;

typedef struct tn__record_value {
    const tn__type *type;
    const char *name;
    tn_kind kind;
} tn__record_value;

typedef struct tn__record_entry {
    tn__record_kind kind;
    uint32_t value;           /* for all kinds but APPLY */
    const tn__recipe *recipe; /* for APPLY */
    size_t first;             /* position of its operands: inputs, then outputs */
    bool onto_first;          /* APPLY: its result was written over its first input */
} tn__record_entry;

typedef struct tn__record {
    bool on;
    tn__record_entry *entries;
    tn__record_value *values;
    uint32_t *operands; /* values; TN_NONE: omitted, or an immediate */
    size_t entry_count, value_count, operand_count;
    size_t entry_room, value_room, operand_room;
} tn__record;

/* Reserves room for the most that one command adds, so that recording cannot fail after the command
 * took effect. */
tn_status tn__record_reserve(tn_eager *eager, tn_error *error);
void tn__record_put(tn_eager *eager, uint32_t item);
/* Records an operator: before it runs the values that it reads, afterwards the values that it
 * makes. */
void tn__record_reads(tn_eager *eager, const tn__recipe *recipe, const uint32_t *inputs);
void tn__record_makes(tn_eager *eager, const tn__recipe *recipe, const uint32_t *inputs,
                      const uint32_t *outputs);
/* The operator recorded last wrote over its first input. */
void tn__record_onto_first(tn_eager *eager);
/* the operator failed: removes its entry */
void tn__record_take_back(tn_eager *eager, const tn__recipe *recipe);
void tn__record_get(tn_eager *eager, uint32_t item);
void tn__record_release(tn_eager *eager, uint32_t item);
void tn__record_close(tn_eager *eager);

#endif
