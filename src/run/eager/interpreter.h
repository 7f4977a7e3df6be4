/* interpreter.h - types and functions shared by the files of this room.
 *
 *   op_cache.c, differential.c   facts about operators before they run (op_cache.h)
 *   memory.c    the arena and the core that evicts: hooks that compute, move, copy, poison
 *   eager.c     the commands; the tensors of handles, reference-counted
 *   apply.c     one operator, on items: the core of ApplyOp, of gradients and of updates
 *   tape.c      operators and operands for gradients; the backward pass
 *   update.c    optimizers
 *   record.c    a recording of all commands: as graph and program, or as lines
 *
 * An item is a tensor as the interpreter knows it: its type and its tensor in the core. A handle
 * holds the number of an item and a count of the uses of that number, so a deleted handle is
 * recognised even if its number is in use again.
 */
#ifndef TN_EAGER_INTERPRETER_H
#define TN_EAGER_INTERPRETER_H

#include <tenure/eager.h>

#include "memory/evict/evict.h"
#include "run/eager/op_cache.h"

/* --- record.c --------------------------------------------------------------------------------- */

/* Records the commands that were run, to be written as a graph and a program or as a log.
 *
 * A value is a tensor at one time: an operator that writes into a tensor makes another value of it.
 * A recording never reuses the number of a value, and operators refer to their operands by these
 * numbers.
 * Cost: O(operands) per operator; a recording grows without limit.
 */

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
    uint32_t value;              /* for all kinds but APPLY */
    const tn__cached_op *cached; /* for APPLY */
    size_t first;                /* position of its operands: inputs, then outputs */
    bool onto_first;             /* APPLY: its result was written over its first input */
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
void tn__record_reads(tn_eager *eager, const tn__cached_op *cached, const uint32_t *inputs);
void tn__record_makes(tn_eager *eager, const tn__cached_op *cached, const uint32_t *inputs,
                      const uint32_t *outputs);
/* The operator recorded last wrote over its first input. */
void tn__record_onto_first(tn_eager *eager);
/* the operator failed: removes its entry */
void tn__record_take_back(tn_eager *eager, const tn__cached_op *cached);
void tn__record_get(tn_eager *eager, uint32_t item);
void tn__record_release(tn_eager *eager, uint32_t item);
void tn__record_close(tn_eager *eager);

/* --- items, memory, tape ---------------------------------------------------------------------- */

typedef uint32_t tn__eager_item_id;

typedef struct tn__eager_item {
    /* uses of this number, plus the interpreter's first count; part of the handle */
    uint64_t uses;
    uint32_t tensor;   /* tensor in the core; TN_NONE: an immediate */
    uint32_t type;     /* op_cache.h */
    uint32_t variable; /* on the tape; TN_NONE: gradients do not flow to it */
    /* how many hold the item: its handle, the tape, gradients in progress, optimizers. At 0 the
     * item's number is free and may be given to another item */
    uint32_t refs;
    uint32_t recorded; /* value of the recording; TN_NONE: none yet */
    uint32_t next;     /* next free item */
    tn_kind kind;
    bool open; /* the handle is not deleted */
    const char *name;
} tn__eager_item;

typedef struct tn__eager_memory {
    tn__evict *core;
    tn_device *device;
    tn_stream *stream;
    tn_address arena;
    uint8_t *bytes; /* address of the arena as kernels see it */
    uint64_t size;
    bool own_device, in_place; /* the current operator writes over its first operand */
    uint8_t *owned;            /* poison: [size / 64] whether the bytes are held; NULL: no poison */
    uint64_t *drawn;           /* [operators of the core] the random counter at the first run */
    const char **labels;       /* [tensors of the core] for messages */
    const void *given;         /* the data that is about to be written over a fixed tensor */
    uint64_t given_bytes;
    tn_evict_least least; /* the least budget that suffices for the commands so far */
    uint64_t history;     /* operators that the core remembers */
    size_t drawn_room, label_room;
} tn__eager_memory;

/* An operand of an operator on the tape. */
typedef struct tn__taped {
    uint32_t variable;      /* TN_NONE: no gradient flows to it */
    tn__eager_item_id item; /* held, because its data will be read; TN_NONE: it will not */
} tn__taped;

typedef struct tn__tape_entry {
    tn__cached_op *cached;
    size_t first; /* position of its operands: inputs, then outputs */
} tn__tape_entry;

typedef struct tn__tape {
    tn__tape_entry *entries;
    tn__taped *operands;
    tn__eager_item_id *variable; /* [variables] the item that has the variable, or had it */
    tn__eager_item_id *gradient; /* [variables] during the backward run; TN_NONE: none yet */
    bool *is_sum;                /* [variables] whether only this variable holds the gradient */
    tn__eager_item_id *local;    /* [locals] of the current operator (op_cache.h) */
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
    uint64_t random; /* counter for random numbers */
    tn__eager_memory memory;
    tn__eager_item *items;
    size_t item_room;
    uint32_t item_count, free_item;
    uint64_t first_use, open_count;
    tn__arena arena;
    tn__names names; /* names of tensors, each kept once: -> index into `kept` */
    const char **kept;
    size_t kept_room;
    tn__tape tape;
    tn__record record;
};

/* --- eager.c: the tensors of handles --- */

/* Makes an item with one reference. tensor: TN_NONE with an immediate type. */
tn_status tn__eager_item_make(tn_eager *eager, uint32_t tensor, uint32_t type,
                              tn__eager_item_id *id, tn_error *error);
/* Reserves room for `count` more items, so that making them cannot fail. */
tn_status tn__eager_items_reserve(tn_eager *eager, uint32_t count, tn_error *error);
void tn__eager_item_hold(tn_eager *eager, tn__eager_item_id id);
void tn__eager_item_drop(tn_eager *eager, tn__eager_item_id id); /* accepts TN_NONE */
/* The item of an open handle. Errors: E_INVALID; `what` names the handle in the message. */
tn_status tn__eager_item_of(const tn_eager *eager, tn_handle handle, const char *what,
                            tn__eager_item_id *id, tn_error *error);
/* the item's reference moves to the handle */
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
/* Puts data from outside; it is in place when the function returns. bytes NULL:
 * zeros. */
tn_status tn__eager_memory_put(tn_eager *eager, const void *bytes, uint64_t size, bool fixed,
                               const char *label, uint32_t *tensor, tn_error *error);
tn_status tn__eager_memory_get(tn_eager *eager, uint32_t tensor, void *bytes, uint64_t size,
                               tn_error *error);
/* Writes over a fixed tensor; *tensor is the new tensor at the same place. */
tn_status tn__eager_memory_set(tn_eager *eager, const void *bytes, uint64_t size, uint32_t *tensor,
                               tn_error *error);
/* Restores the old data of a fixed tensor that has not been read since it was overwritten. */
void tn__eager_memory_put_back(tn_eager *eager, uint32_t tensor, const void *bytes, uint64_t size);
/* Runs a cached operator on its data inputs and data outputs. */
tn_status tn__eager_memory_apply(tn_eager *eager, tn__cached_op *cached, const uint32_t *inputs,
                                 uint32_t *outputs, tn_error *error);

/* The same for a sum that is written over its first term. */
tn_status tn__eager_memory_add(tn_eager *eager, tn__cached_op *cached, const uint32_t *inputs,
                               uint32_t *output, tn_error *error);

/* --- eager.c: commands --- */

/* As tn_eager_put, without a handle: an item with one reference. */
tn_status tn__put(tn_eager *eager, const tn_eager_data *data, tn__eager_item_id *id,
                  tn_error *error);

/* --- apply.c --- */

/* Runs a cached operator on items. outputs [output_count]: new items with one reference each;
 * TN_NONE if omitted or handed back. An item that is written into refers to its new tensor
 * afterwards. */
tn_status tn__apply(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                    tn__eager_item_id *outputs, tn_error *error);
/* Adds `term` to the item `sum`, in place. No other item may refer to the tensor of `sum`. */
tn_status tn__apply_sum(tn_eager *eager, tn__eager_item_id sum, tn__eager_item_id term,
                        tn_error *error);
/* Finds the cached operator of an operator on items of any types; the second function applies it as
 * well. */
tn_status tn__cached_op_on(tn_eager *eager, tn__ask *ask, const tn__eager_item_id *inputs,
                           tn__cached_op **cached, tn_error *error);
tn_status tn__apply_named(tn_eager *eager, tn__ask *ask, const tn__eager_item_id *inputs,
                          tn__eager_item_id *outputs, tn_error *error);

/* --- tape.c --- */

/* Before an operator runs: reserves room on the tape, so that adding it cannot fail. *wanted: the
 * inputs that may need gradients, as a set; 0: the operator does not go on the tape. */
tn_status tn__tape_prepare(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                           uint64_t *wanted, tn_error *error);
void tn__tape_add(tn_eager *eager, tn__cached_op *cached, const tn__eager_item_id *inputs,
                  const tn__eager_item_id *outputs, uint64_t wanted);
void tn__tape_release(tn_eager *eager);

#endif
