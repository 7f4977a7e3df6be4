/* statics.h - static memory: weights, constants, folded tensors. It is planned from the tensors
 * that operators read, then filled through an executor.
 *
 *   statics.c  the needed tensors and their places
 *   (its last part reads, folds and packs them)
 */
#ifndef TN_ENGINE_STATICS_H
#define TN_ENGINE_STATICS_H

#include "engine/executor.h"
#include "engine/kernels/kernels.h"

/* The place of a static tensor. A form that is packed for an operator has its own place. */
typedef struct tn__static {
    tn_tensor_id base; /* the tensor that it is a view of, or itself */
    uint64_t delta;    /* from the base's start */
    uint64_t offset;   /* in static memory; TN_SIZE_UNKNOWN: needed only during set-up */
    uint32_t uses;     /* during set-up: number of reads that are still to come */
    uint8_t *staged;   /* its bytes on the host, as long as they are needed */
    bool needed;       /* read by an operator that runs, or packed for one */
    bool kept;         /* has a place in static memory */
    bool visited;
    struct tn__shared_form *forms; /* its forms that operators may share */
} tn__static;

/* A packed form that several operators read, or parts of one. */
typedef struct tn__shared_form {
    struct tn__shared_form *next;
    uint64_t form, bytes;
    const uint64_t *offset; /* place in the operator that it was made for */
} tn__shared_form;

/* The inputs of an operator that its kernel wants in its own form. */
typedef struct tn__packed_form {
    uint64_t *offset; /* [inputs] place in static memory; TN_SIZE_UNKNOWN: the plain tensor, or */
    const uint64_t **shared; /* [inputs] the place of another operator's form; NULL: not shared */
    void **at;               /* [inputs] the same as addresses, once filled; NULL: as bound */
    bool done;
} tn__packed_form;

/* The readers of static tensors: operators that run, in their order, and blocks that hand out
 * static tensors. */
typedef struct tn__readers {
    const tn_op_id *ops; /* may list an operator twice */
    const bool *again;   /* [ops] whether it runs in its repeat form; NULL: none does */
    const tn_block_id *blocks;
    size_t op_count, block_count;
} tn__readers;

typedef struct tn__statics {
    const tn_kernels *kernels;
    const tn_graph *graph;
    tn__readers readers; /* the caller's lists, which must outlive the filling */
    tn__static *tensors; /* [tensors] */
    tn_op_id *order;     /* folded operators, in the order in which they are computed */
    size_t order_count;
    tn__packed_form **packed; /* [operators] or NULL */
    tn__arena arena;
    const tn_context *context;
    uint64_t bytes; /* bytes of static memory */
    /* [tensors] whether it is fetched during a run and has its place in `store`. NULL: none is */
    const uint8_t *fetched;
    uint8_t *store;                              /* set while it is filled */
    void (*stored)(uint8_t *at, uint64_t bytes); /* called when one of its blocks is complete */
} tn__statics;

/* Finds the tensors that are needed and gives them places. Errors: E_NO_MEMORY, E_INVALID (2^64
 * bytes).
 * Cost: O(operands).
 */
tn_status tn__statics_plan(tn__statics *statics, const tn_kernels *kernels,
                           const tn__readers *readers, const tn_context *context, tn_error *error);
/* Takes a place after all others. Errors: E_INVALID (2^64 bytes). */
tn_status tn__statics_take(tn__statics *statics, uint64_t bytes, uint64_t *offset, tn_error *error);
void tn__statics_release(tn__statics *statics); /* accepts zeros */

/* Whether the data of a base exists without computing it. */
bool tn__statics_is_leaf(const tn__statics *statics, tn_tensor_id base);
/* [inputs] bytes of the packed forms that an operator's kernel wants, 0: unpacked; NULL: no packed
 * forms. */
const uint64_t *tn__statics_sizes(const tn__statics *statics, tn_op_id op);

/* Iterates over the blocks and their places: begin with a cursor of zeros. */
typedef struct tn__static_place {
    tn_tensor_id tensor;
    tn_op_id op; /* the operator that it is packed for; TN_NONE: not packed */
    uint64_t bytes;
    uint64_t *offset;
} tn__static_place;
typedef struct tn__static_cursor {
    tn_tensor_id tensor;
    tn_op_id op;
    uint32_t input;
} tn__static_cursor;
bool tn__statics_next(const tn__statics *statics, tn__static_cursor *at, tn__static_place *place);

/* Source of tensor data, and a listener that is called when a block of static memory is filled. */
typedef struct tn__contents_source {
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      /* NULL: no source; as in tn_engine_options */
                      uint64_t size, tn_error *error);
    void *self;
    void (*told)(void *listener, tn_tensor_id tensor, uint64_t bytes);
    void *listener;
} tn__contents_source;

/* Reads, folds and packs into `memory`, which has statics->bytes at an address as kernels see it,
 * and binds the executor's static operands. */
tn_status tn__statics_fill(tn__statics *statics, tn__executor *executor,
                           const tn__contents_source *source, uint8_t *memory);

/* The argument `packed` for tn__executor_call; NULL: every input is as it is bound. */
void *const *tn__statics_packed(const tn__statics *statics, tn_op_id op);

#endif
