/* statics.h - static memory: weights, constants, folded tensors. Planned from what is read,
 * then filled through an executor.
 *
 *   statics.c  what is needed, and its places
 *   fill.c     how it gets there
 */
#ifndef TN_ENGINE_STATICS_H
#define TN_ENGINE_STATICS_H

#include "engine/executor.h"
#include "kernels/kernels.h"

/* Where a static tensor is. What is packed for an operator has its own places. */
typedef struct tn__static {
    tn_tensor_id base; /* another tensor whose bytes it views; itself: none */
    uint64_t delta;    /* from the base's start */
    uint64_t offset;   /* in static memory; TN_SIZE_UNKNOWN: only needed while setting up */
    uint32_t uses;     /* while setting up: how often it will yet be read */
    uint8_t *staged;   /* its bytes, while they are needed */
    bool needed;       /* read by what runs, or by what packs for it */
    bool kept;         /* has a place in static memory */
    bool visited;
    struct tn__shared_form *forms; /* of it that are there for operators to share */
} tn__static;

/* A packed form that several operators read (parts of one). */
typedef struct tn__shared_form {
    struct tn__shared_form *next;
    uint64_t form, bytes;
    const uint64_t *offset; /* of the operator that it was made for */
} tn__shared_form;

/* The inputs of an operator that its kernel wants in a form of its own. */
typedef struct tn__packed {
    uint64_t *offset; /* [inputs] in static memory; TN_SIZE_UNKNOWN: as the graph has it, or */
    const uint64_t **shared; /* [inputs] where another operator's form is; NULL: none */
    void **at;               /* [inputs] the same as addresses, once it is filled; NULL: as bound */
    bool done;
} tn__packed;

/* What reads static tensors: operators that run, in their order, and blocks for their outputs. */
typedef struct tn__readers {
    const tn_op_id *ops; /* an operator may be there again */
    const bool *again;   /* [ops] in its repeat form; NULL: none is */
    const tn_block_id *blocks;
    size_t op_count, block_count;
} tn__readers;

typedef struct tn__statics {
    const tn_kernels *kernels;
    const tn_graph *graph;
    tn__readers readers; /* the caller's lists: they outlive the filling */
    tn__static *tensors; /* [tensors] */
    tn_op_id *order;     /* folded operators, as they are to be computed */
    size_t order_count;
    tn__packed **packed; /* [operators] or NULL */
    tn__arena arena;
    const tn_context *context;
    uint64_t bytes; /* of static memory */
    /* [tensors] whose place is in `store` instead: they come and go in a run. NULL: none */
    const uint8_t *fetched;
    uint8_t *store;                              /* while it is filled */
    void (*stored)(uint8_t *at, uint64_t bytes); /* a block of it is complete */
} tn__statics;

/* Finds what has to be there and gives it places. Errors: E_NO_MEMORY, E_INVALID (2^64 bytes).
 * Cost: O(operands). */
tn_status tn__statics_plan(tn__statics *statics, const tn_kernels *kernels,
                           const tn__readers *readers, const tn_context *context, tn_error *error);
/* A place behind all others. Errors: E_INVALID (2^64 bytes). */
tn_status tn__statics_take(tn__statics *statics, uint64_t bytes, uint64_t *offset, tn_error *error);
void tn__statics_release(tn__statics *statics); /* fine when it is all zeros */

/* Whether the contents of a base are there without computing. */
bool tn__statics_is_leaf(const tn__statics *statics, tn_tensor_id base);
/* [inputs] bytes of the forms that an operator's kernel wants of them, 0: as it is; NULL: none. */
const uint64_t *tn__statics_sizes(const tn__statics *statics, tn_op_id op);

/* Its blocks and where they are, one after the other: begin with a cursor of zeros. */
typedef struct tn__static_place {
    tn_tensor_id tensor;
    tn_op_id op; /* that it is packed for; TN_NONE: none */
    uint64_t bytes;
    uint64_t *offset;
} tn__static_place;
typedef struct tn__static_cursor {
    tn_tensor_id tensor;
    tn_op_id op;
    uint32_t input;
} tn__static_cursor;
bool tn__statics_next(const tn__statics *statics, tn__static_cursor *at, tn__static_place *place);

/* Whose contents they are, and who is told when a block of static memory is filled. */
typedef struct tn__contents_source {
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error); /* NULL: nobody; tn_engine_options */
    void *self;
    void (*told)(void *listener, tn_tensor_id tensor, uint64_t bytes);
    void *listener;
} tn__contents_source;

/* Reads, folds and packs into `memory`, of statics->bytes where kernels see them, and binds the
 * executor's operands that are static. */
tn_status tn__statics_fill(tn__statics *statics, tn__executor *executor,
                           const tn__contents_source *source, uint8_t *memory);

/* What tn__executor_call takes as `packed`; NULL: every input is as it is bound. */
void *const *tn__statics_packed(const tn__statics *statics, tn_op_id op);

#endif
