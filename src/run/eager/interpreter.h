/* interpreter.h - types and functions shared by the files of this room.
 *
 *   types.c, recipes.c, differential.c   facts about operators before they run (recipes.h)
 *   items.c     the tensors of handles, reference-counted
 *   memory.c    the arena and the core that evicts: hooks that compute, move, copy, poison
 *   eager.c     the commands
 *   apply.c     one operator, on items: the core of ApplyOp, of gradients and of updates
 *   tape.c      operators and operands for gradients; tape_backward.c walks them
 *   update.c    optimizers
 *   record.c    record of all commands; recorded.c: as graph and program; log.c: as lines
 *
 * An item is a tensor as the interpreter knows it: its type and its tensor in the core. A handle
 * holds the number of an item and a count of the uses of that number, so a deleted handle is
 * recognised even if its number is in use again.
 */
#ifndef TN_EAGER_INTERPRETER_H
#define TN_EAGER_INTERPRETER_H

#include <tenure/eager.h>

#include "memory/evict/evict.h"
#include "run/eager/recipes.h"
#include "run/eager/record.h"

typedef uint32_t tn__item_id;

typedef struct tn__item {
    /* uses of this number, plus the interpreter's first count; part of the handle */
    uint64_t uses;
    uint32_t tensor;   /* tensor in the core; TN_NONE: an immediate */
    uint32_t type;     /* types.h */
    uint32_t variable; /* on the tape; TN_NONE: gradients do not flow to it */
    /* references by the handle, the tape, gradients in progress; 0: the number is free */
    uint32_t refs;
    uint32_t recorded; /* value of the recording; TN_NONE: none yet */
    uint32_t next;     /* next free item */
    tn_kind kind;
    bool open; /* the handle is not deleted */
    const char *name;
} tn__item;

typedef struct tn__memory {
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
} tn__memory;

/* An operand of an operator on the tape. */
typedef struct tn__taped {
    uint32_t variable; /* TN_NONE: no gradient flows to it */
    tn__item_id item;  /* held, because its data will be read; TN_NONE: it will not */
} tn__taped;

typedef struct tn__tape_entry {
    tn__recipe *recipe;
    size_t first; /* position of its operands: inputs, then outputs */
} tn__tape_entry;

typedef struct tn__tape {
    tn__tape_entry *entries;
    tn__taped *operands;
    tn__item_id *variable; /* [variables] the item that has the variable, or had it */
    tn__item_id *gradient; /* [variables] during the backward run; TN_NONE: none yet */
    bool *is_sum;          /* [variables] whether only this variable holds the gradient */
    tn__item_id *local;    /* [locals] of the current operator (recipes.h) */
    size_t entry_count, operand_count, variable_count;
    size_t entry_room, operand_room, variable_room, gradient_room, sum_room, local_room;
    bool on;
} tn__tape;

struct tn_eager {
    tn_context context;
    tn_eager_options options;
    tn__types types;
    tn__kernel_cache *kernels;
    tn__recipes recipes;
    uint64_t random; /* counter for random numbers */
    tn__memory memory;
    tn__item *items;
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

/* --- items.c --- */

/* Makes an item with one reference. tensor: TN_NONE with an immediate type. */
tn_status tn__item_make(tn_eager *eager, uint32_t tensor, uint32_t type, tn__item_id *id,
                        tn_error *error);
/* Reserves room for `count` more items, so that making them cannot fail. */
tn_status tn__items_reserve(tn_eager *eager, uint32_t count, tn_error *error);
void tn__item_hold(tn_eager *eager, tn__item_id id);
void tn__item_drop(tn_eager *eager, tn__item_id id); /* accepts TN_NONE */
/* The item of an open handle. Errors: E_INVALID; `what` names the handle in the message. */
tn_status tn__item_of(const tn_eager *eager, tn_handle handle, const char *what, tn__item_id *id,
                      tn_error *error);
/* the item's reference moves to the handle */
tn_handle tn__item_open(tn_eager *eager, tn__item_id id);
static inline const tn__type *tn__item_type(const tn_eager *eager, tn__item_id id) {
    return tn__type_of(&eager->types, eager->items[id].type);
}
static inline bool tn__item_is_fixed(const tn__item *item) {
    return item->kind == TN_KIND_PARAMETER || item->kind == TN_KIND_OPTIMIZER_STATE ||
           item->kind == TN_KIND_GRADIENT;
}
/* A copy that is kept once; "" for NULL. Returns NULL if memory is out. */
const char *tn__eager_name(tn_eager *eager, const char *name);

/* --- memory.c --- */

tn_status tn__memory_open(tn_eager *eager, tn_error *error);
void tn__memory_close(tn_eager *eager);
/* Puts data from outside; it is at tn__memory_at when the function returns. bytes NULL: zeros. */
tn_status tn__memory_put(tn_eager *eager, const void *bytes, uint64_t size, bool fixed,
                         const char *label, uint32_t *tensor, tn_error *error);
tn_status tn__memory_get(tn_eager *eager, uint32_t tensor, void *bytes, uint64_t size,
                         tn_error *error);
/* Writes over a fixed tensor; *tensor is the new tensor at the same place. */
tn_status tn__memory_set(tn_eager *eager, const void *bytes, uint64_t size, uint32_t *tensor,
                         tn_error *error);
/* Restores the old data of a fixed tensor that has not been read since it was overwritten. */
void tn__memory_put_back(tn_eager *eager, uint32_t tensor, const void *bytes, uint64_t size);
/* Runs a recipe on its data inputs and data outputs. */
tn_status tn__memory_apply(tn_eager *eager, tn__recipe *recipe, const uint32_t *inputs,
                           uint32_t *outputs, tn_error *error);

/* The same for a sum that is written over its first term. */
tn_status tn__memory_add(tn_eager *eager, tn__recipe *recipe, const uint32_t *inputs,
                         uint32_t *output, tn_error *error);

/* --- eager.c --- */

/* As tn_eager_put, without a handle: an item with one reference. */
tn_status tn__put(tn_eager *eager, const tn_eager_data *data, tn__item_id *id, tn_error *error);

/* --- apply.c --- */

/* Runs a recipe on items. outputs [output_count]: new items with one reference each; TN_NONE if
 * omitted or handed back. An item that is written into refers to its new tensor afterwards. */
tn_status tn__apply(tn_eager *eager, tn__recipe *recipe, const tn__item_id *inputs,
                    tn__item_id *outputs, tn_error *error);
/* Adds `term` to the item `sum`, in place. No other item may refer to the tensor of `sum`. */
tn_status tn__apply_sum(tn_eager *eager, tn__item_id sum, tn__item_id term, tn_error *error);
/* Finds the recipe of an operator on items of any types; the second function applies it as well. */
tn_status tn__recipe_on(tn_eager *eager, tn__ask *ask, const tn__item_id *inputs,
                        tn__recipe **recipe, tn_error *error);
tn_status tn__apply_named(tn_eager *eager, tn__ask *ask, const tn__item_id *inputs,
                          tn__item_id *outputs, tn_error *error);

/* --- tape.c --- */

/* Before an operator runs: reserves room on the tape, so that adding it cannot fail. *wanted: the
 * inputs that may need gradients, as a set; 0: the operator does not go on the tape. */
tn_status tn__tape_prepare(tn_eager *eager, tn__recipe *recipe, const tn__item_id *inputs,
                           uint64_t *wanted, tn_error *error);
void tn__tape_add(tn_eager *eager, tn__recipe *recipe, const tn__item_id *inputs,
                  const tn__item_id *outputs, uint64_t wanted);
void tn__tape_clear(tn_eager *eager);
void tn__tape_release(tn_eager *eager);

#endif
