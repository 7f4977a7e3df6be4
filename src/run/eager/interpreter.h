/* interpreter.h - types and functions that the files of the eager interpreter share.
 *
 *   op_cache.c       operators that are prepared once for given types (op_cache.h)
 *   differential.c   the operators that compute the gradients of one operator (op_cache.h)
 *   memory.c         the arena, and the functions that the eviction core (memory/evict) calls:
 *                    compute, move, copy; the detection of stray writes
 *   eager.c          the commands; items and handles
 *   apply.c          applies one operator to items
 *   tape.c           records operators for gradients; the backward pass
 *   update.c         optimizers
 *   record.c         a recording of all commands, as a graph with a program or as lines of text
 *
 * An item stands for a tensor: it has the type of the tensor, and the number of the tensor in the
 * eviction core. A handle has the number of an item and a count of the uses of that number, so a
 * deleted handle is recognised even if its number is in use again.
 */
#ifndef TN_EAGER_INTERPRETER_H
#define TN_EAGER_INTERPRETER_H

#include <tenure/eager.h>

#include "memory/evict/evict.h"
#include "run/eager/op_cache.h"

/* --- record.c --------------------------------------------------------------------------------- */

/* Records the commands that are run, so that they can be written as a graph with a program, or as a
 * log.
 *
 * A value is a tensor at one time: an operator that writes into a tensor creates a new value of it.
 * The numbers of values are never reused, and recorded operators refer to their operands by these
 * numbers.
 * Cost: O(operands) per operator; the size of a recording is not limited.
 */

typedef enum tn__record_kind {
    TN__RECORD_PUT, /* the caller made a value from data */
    TN__RECORD_APPLY,
    TN__RECORD_GET,
    TN__RECORD_RELEASE /* the last reference to a value was released */
} tn__record_kind;

typedef struct tn__record_value {
    const tn__type *type;
    const char *name;
    tn_kind kind;
} tn__record_value;

typedef struct tn__record_entry {
    tn__record_kind kind;
    uint32_t value;              /* the value to which a PUT, GET or RELEASE applies */
    const tn__cached_op *cached; /* the operator that an APPLY runs */
    /* for APPLY: index of the operator's first operand in `operands`; inputs, then outputs */
    size_t first;
    bool onto_first; /* APPLY: whether the result was written over the first input */
} tn__record_entry;

typedef struct tn__record {
    bool on;
    tn__record_entry *entries;
    tn__record_value *values;
    uint32_t *operands; /* numbers of values; TN_NONE: the operand is omitted or an immediate */
    size_t entry_count, value_count, operand_count;
    size_t entry_room, value_room, operand_room;
} tn__record;

/* Reserves memory for everything that one command can add, so that recording cannot fail after the
 * command has taken effect. */
tn_status tn__record_reserve(tn_eager *eager, tn_error *error);
void tn__record_put(tn_eager *eager, uint32_t item);
/* Record an operator: the first function, before it runs, the values that it reads; the second,
 * afterwards, the values that it creates. */
void tn__record_reads(tn_eager *eager, const tn__cached_op *cached, const uint32_t *inputs);
void tn__record_makes(tn_eager *eager, const tn__cached_op *cached, const uint32_t *inputs,
                      const uint32_t *outputs);
/* Records that the last recorded operator wrote its result over its first input. */
void tn__record_onto_first(tn_eager *eager);
/* Removes the entry of an operator that failed. */
void tn__record_take_back(tn_eager *eager, const tn__cached_op *cached);
void tn__record_get(tn_eager *eager, uint32_t item);
void tn__record_release(tn_eager *eager, uint32_t item);
void tn__record_close(tn_eager *eager);

/* --- items, memory, tape ---------------------------------------------------------------------- */

typedef uint32_t tn__eager_item_id;

typedef struct tn__eager_item {
    /* number of uses of this item's number, plus the interpreter's first count; a part of the
     * handle */
    uint64_t uses;
    uint32_t tensor; /* tensor in the eviction core; TN_NONE: the item is an immediate */
    uint32_t type;   /* number of the item's type (op_cache.h) */
    /* number of the item's variable on the tape; TN_NONE: no gradients are computed for the item */
    uint32_t variable;
    /* number of references: by its handle, the tape, gradients in progress, optimizers. At 0 the
     * item is released, and its number may be used for another item. */
    uint32_t refs;
    /* number of the item's value in the recording; TN_NONE: it is not recorded yet */
    uint32_t recorded;
    uint32_t next; /* next item in the list of unused items */
    tn_kind kind;
    bool open; /* whether a handle of the item exists */
    const char *name;
} tn__eager_item;

typedef struct tn__eager_memory {
    tn__evict *core;
    tn_device *device;
    tn_stream *stream;
    tn_address arena;
    uint8_t *bytes; /* address of the arena as kernels use it */
    uint64_t size;
    bool own_device, in_place; /* `in_place`: the current operator writes over its first operand */
    /* state of each 64-byte unit of the arena; NULL: stray writes are not checked */
    uint8_t *owned;
    /* for each operator of the eviction core: the random counter before its first run */
    uint64_t *drawn;
    const char **labels; /* for each tensor of the eviction core: a name for messages */
    const void *given;   /* new data for a fixed tensor, while it is being overwritten */
    uint64_t given_bytes;
    /* the most bytes that had to be resident at once in the commands so far, under any eviction
     * policy */
    tn_evict_least least;
    uint64_t history; /* number of operators that the eviction core remembers for recomputation */
    size_t drawn_room, label_room;
} tn__eager_memory;

/* An operand of an operator on the tape. */
typedef struct tn__taped {
    /* number of the operand's variable; TN_NONE: no gradient is computed for the operand */
    uint32_t variable;
    /* the operand, with a reference, if its data will be read; else TN_NONE */
    tn__eager_item_id item;
} tn__taped;

typedef struct tn__tape_entry {
    tn__cached_op *cached;
    size_t first; /* index in `operands` of the first operand of the entry: inputs, then outputs */
} tn__tape_entry;

typedef struct tn__tape {
    tn__tape_entry *entries;
    tn__taped *operands;
    /* for each variable: the item that is this variable, or was before it was released */
    tn__eager_item_id *variable;
    /* for each variable, during the backward pass: its gradient; TN_NONE: none yet */
    tn__eager_item_id *gradient;
    bool *is_sum; /* for each variable: whether its gradient is a sum that nothing else refers to */
    tn__eager_item_id *local; /* the local tensors of the current operator (op_cache.h) */
    size_t entry_count, operand_count, variable_count;
    size_t entry_room, operand_room, variable_room, gradient_room, sum_room, local_room;
    bool on;
} tn__tape;

struct tn_eager {
    tn_context context;
    tn_eager_options options;
    tn__types types;
    tn__kernel_cache *kernels;
    tn__op_cache op_cache;
    uint64_t random; /* counter from which random numbers are derived */
    tn__eager_memory memory;
    tn__eager_item *items;
    size_t item_room;
    uint32_t item_count, free_item;
    uint64_t first_use, open_count;
    tn__arena arena;
    tn__names names; /* maps a name of a tensor to its index in `kept`; each name is stored once */
    const char **kept;
    size_t kept_room;
    tn__tape tape;
    tn__record record;
};

/* --- eager.c: the tensors of handles --- */

/* Makes an item with one reference. `tensor` is TN_NONE if the type is an immediate. */
tn_status tn__eager_item_make(tn_eager *eager, uint32_t tensor, uint32_t type,
                              tn__eager_item_id *id, tn_error *error);
/* Reserves memory for `count` more items, so that tn__eager_item_make cannot fail for them. */
tn_status tn__eager_items_reserve(tn_eager *eager, uint32_t count, tn_error *error);
void tn__eager_item_hold(tn_eager *eager, tn__eager_item_id id);
/* releases a reference to an item; accepts TN_NONE */
void tn__eager_item_drop(tn_eager *eager, tn__eager_item_id id);
/* Finds the item of a handle. `what` names the handle in the error message. Errors: E_INVALID. */
tn_status tn__eager_item_of(const tn_eager *eager, tn_handle handle, const char *what,
                            tn__eager_item_id *id, tn_error *error);
/* Makes a handle for an item. The caller's reference moves to the handle. */
tn_handle tn__eager_item_open(tn_eager *eager, tn__eager_item_id id);
static inline const tn__type *tn__eager_item_type(const tn_eager *eager, tn__eager_item_id id) {
    return tn__type_of(&eager->types, eager->items[id].type);
}
static inline bool tn__eager_item_is_fixed(const tn__eager_item *item) {
    return item->kind == TN_KIND_PARAMETER || item->kind == TN_KIND_OPTIMIZER_STATE ||
           item->kind == TN_KIND_GRADIENT;
}

/* --- memory.c --- */

tn_status tn__eager_memory_open(tn_eager *eager, tn_error *error);
void tn__eager_memory_close(tn_eager *eager);
/* Stores the name that messages use for a tensor. `label` must live as long as the interpreter. */
void tn__eager_memory_label(tn_eager *eager, uint32_t tensor, const char *label);
/* Puts data of the caller into the arena; it is copied when the function returns. `bytes` NULL:
 * zeros. `fixed`: the tensor gets a fixed address and is never evicted. */
tn_status tn__eager_memory_put(tn_eager *eager, const void *bytes, uint64_t size, bool fixed,
                               const char *label, uint32_t *tensor, tn_error *error);
tn_status tn__eager_memory_get(tn_eager *eager, uint32_t tensor, void *bytes, uint64_t size,
                               tn_error *error);
/* Writes over a fixed tensor. *tensor becomes the new tensor, which has the address of the old
 * one. */
tn_status tn__eager_memory_set(tn_eager *eager, const void *bytes, uint64_t size, uint32_t *tensor,
                               tn_error *error);
/* Restores the old data of a fixed tensor that has not been read since it was overwritten. */
void tn__eager_memory_put_back(tn_eager *eager, uint32_t tensor, const void *bytes, uint64_t size);
/* Runs a cached operator on tensors: its inputs and outputs that are not immediates. */
tn_status tn__eager_memory_apply(tn_eager *eager, tn__cached_op *cached, const uint32_t *inputs,
                                 uint32_t *outputs, tn_error *error);

/* Runs a cached addition as tn__eager_memory_apply does, but writes the sum over its first term. */
tn_status tn__eager_memory_add(tn_eager *eager, tn__cached_op *cached, const uint32_t *inputs,
                               uint32_t *output, tn_error *error);

/* --- eager.c: commands --- */

/* Does the work of tn_eager_put, but returns an item with one reference instead of a handle. */
tn_status tn__put(tn_eager *eager, const tn_eager_data *data, tn__eager_item_id *id,
                  tn_error *error);

/* --- apply.c --- */

/* Runs a cached operator on items. `outputs` receives a new item with one reference for each
 * output, or TN_NONE if the output is omitted or is an input that the operator has written into.
 * The item of such an input then refers to its new tensor. */
tn_status tn__apply(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                    tn__eager_item_id *outputs, tn_error *error);
/* Adds `term` to the item `sum`, writing over it. No other item may refer to the tensor of
 * `sum`. */
tn_status tn__apply_sum(tn_eager *eager, tn__eager_item_id sum, tn__eager_item_id term,
                        tn_error *error);
/* Finds the cached operator for an operator and the types of these items. tn__apply_named also
 * applies it. */
tn_status tn__cached_op_on(tn_eager *eager, tn__ask *ask, const tn__eager_item_id *inputs,
                           tn__cached_op **cached, tn_error *error);
tn_status tn__apply_named(tn_eager *eager, tn__ask *ask, const tn__eager_item_id *inputs,
                          tn__eager_item_id *outputs, tn_error *error);

/* --- tape.c --- */

/* Called before an operator runs. Reserves memory on the tape, so that tn__tape_add cannot fail.
 * *wanted becomes the set of inputs that may need gradients; if it is empty, the operator is not
 * added to the tape. */
tn_status tn__tape_prepare(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                           uint64_t *wanted, tn_error *error);
void tn__tape_add(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                  const tn__eager_item_id *outputs, uint64_t wanted);
void tn__tape_release(tn_eager *eager);

#endif
