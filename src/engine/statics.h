/* statics.h - static memory: weights, constants and folded tensors, which stay in memory between
 * runs. tn__statics_plan finds the tensors that the operators of a program read and assigns
 * offsets; tn__statics_fill reads, folds and packs their data. */
#ifndef TN_ENGINE_STATICS_H
#define TN_ENGINE_STATICS_H

#include "engine/executor.h"
#include "engine/kernels/kernels.h"

/* A static tensor and its block of static memory. Packed forms have blocks of their own
 * (tn__packed_form). */
typedef struct tn__static {
    tn_tensor_id base; /* the tensor that this tensor is a view of, or the tensor itself */
    uint64_t delta;    /* distance in bytes from the start of `base` */
    /* offset of the tensor's block; TN_SIZE_UNKNOWN: the tensor is needed only at
     * set-up, or a run fetches it from the file of the model */
    uint64_t offset;
    uint32_t uses;   /* number of reads during set-up that have not happened yet */
    uint8_t *staged; /* temporary host memory with the tensor's data during set-up, or NULL */
    bool needed;     /* whether an operator that runs reads the tensor, plain or packed */
    bool kept;       /* whether the tensor itself has a block of static memory */
    bool visited;
    /* list of those packed forms of the tensor that operators can share */
    struct tn__shared_form *forms;
} tn__static;

/* A packed form of a tensor that several operators can read. */
typedef struct tn__shared_form {
    struct tn__shared_form *next;
    uint64_t form, bytes;
    /* points to the offset of the form, in the tables of the operator for which it was made */
    const uint64_t *offset;
} tn__shared_form;

/* The packed forms of an operator's inputs, as its kernel needs them. */
typedef struct tn__packed_form {
    /* for each input: offset of its packed form in static memory; TN_SIZE_UNKNOWN: the input is not
     * packed, or it shares another operator's form */
    uint64_t *offset;
    /* for each input: points to the offset of another operator's form that it shares; NULL: it
     * shares none */
    const uint64_t **shared;
    /* for each input: address of its packed form once it is filled; NULL: the input is not
     * packed */
    void **at;
    bool done;
} tn__packed_form;

/* The operators of a program in the order in which they run, and the blocks that have static
 * tensors among their outputs. Static memory is planned for these readers. */
typedef struct tn__readers {
    const tn_op_id *ops; /* an operator may be listed twice, because it may be recomputed */
    /* for each entry of `ops`: whether it recomputes the operator; NULL: no entry does */
    const bool *again;
    const tn_block_id *blocks;
    size_t op_count, block_count;
} tn__readers;

typedef struct tn__statics {
    const tn_kernels *kernels;
    const tn_graph *graph;
    /* the lists belong to the caller and must exist until static memory is filled */
    tn__readers readers;
    tn__static *tensors; /* [tensors] entry of each tensor of the graph */
    tn_op_id *order;     /* folded operators, in the order in which they are computed */
    size_t order_count;
    /* for each operator: its packed inputs, or NULL if no input is packed */
    tn__packed_form **packed;
    tn__arena arena;
    const tn_context *context;
    uint64_t bytes; /* size of static memory in bytes */
    /* for each tensor: whether a FETCH reads it during a run; its offset is then one in `store`;
     * NULL: no tensor is fetched */
    const uint8_t *fetched;
    uint8_t *store; /* where the forms of fetched tensors are written during set-up; else NULL */
    /* function that is called when a block in `store` is complete */
    void (*stored)(uint8_t *at, uint64_t bytes);
} tn__statics;

/* Finds the static tensors that the readers need and assigns offsets in static memory. Errors:
 * E_NO_MEMORY, E_INVALID (more than 2^64 bytes).
 * Cost: O(operands).
 */
tn_status tn__statics_plan(tn__statics *statics, const tn_kernels *kernels,
                           const tn__readers *readers, const tn_context *context, tn_error *error);
/* Assigns the next free offset of static memory to a block of `bytes`. Errors: E_INVALID (more than
 * 2^64 bytes). */
tn_status tn__statics_take(tn__statics *statics, uint64_t bytes, uint64_t *offset, tn_error *error);
void tn__statics_release(tn__statics *statics); /* releases memory; accepts a struct of zeros */

/* Whether the data of a base tensor exists in a file or in the graph, so that no operator computes
 * it. */
bool tn__statics_is_leaf(const tn__statics *statics, tn_tensor_id base);
/* For each input of an operator: bytes of the packed form that its kernel needs, or 0 if the input
 * is not packed. Returns NULL if the operator has no packed inputs. */
const uint64_t *tn__statics_sizes(const tn__statics *statics, tn_op_id op);

/* One block of static memory. tn__statics_next iterates over all blocks; the iteration begins with
 * a cursor of zeros. */
typedef struct tn__static_place {
    tn_tensor_id tensor;
    /* the block is packed for the kernel of this operator; TN_NONE: it is not packed */
    tn_op_id op;
    uint64_t bytes;
    uint64_t *offset;
} tn__static_place;
typedef struct tn__static_cursor {
    tn_tensor_id tensor;
    tn_op_id op;
    uint32_t input;
} tn__static_cursor;
bool tn__statics_next(const tn__statics *statics, tn__static_cursor *at, tn__static_place *place);

/* A function that reads the data of tensors, and a function that is called for each block of static
 * memory. */
typedef struct tn__contents_source {
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      /* `read` NULL: there is no source; otherwise it is called as
                       * tn_engine_options.read is */
                      uint64_t size, tn_error *error);
    void *self;
    void (*told)(void *listener, tn_tensor_id tensor, uint64_t bytes);
    void *listener;
} tn__contents_source;

/* Reads, folds and packs all static tensors into `memory`, which has statics->bytes bytes at an
 * address that kernels can use. Sets the addresses of the executor's static operands. */
tn_status tn__statics_fill(tn__statics *statics, tn__executor *executor,
                           const tn__contents_source *source, uint8_t *memory);

/* The addresses of an operator's packed inputs, for the parameter `packed` of tn__executor_call.
 * NULL: the operator has no packed inputs. */
void *const *tn__statics_packed(const tn__statics *statics, tn_op_id op);

#endif
