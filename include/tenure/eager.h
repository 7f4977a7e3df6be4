/* eager.h - runs operators one at a time within a memory budget that is never exceeded.
 *
 *     tn_eager *eager;
 *     tn_error error;
 *     tn_eager_options options = TN_EAGER_OPTIONS_INIT;
 *     float numbers[] = {1, -2, 3, -4}, result[4];
 *     int64_t shape[] = {2, 2};
 *     tn_handle x, y;
 *     tn_eager_data data = {.dtype = TN_FLOAT32, .rank = 2, .shape = shape, .data = numbers};
 *     tn_eager_call relu = {.type = "Relu", .inputs = &x, .input_count = 1, .output_count = 1};
 *     options.budget = 64 << 10;
 *     if (tn_eager_create(&options, &eager, &error) || tn_eager_put(eager, &data, &x, &error) ||
 *         tn_eager_apply(eager, &relu, &y, &error) ||
 *         tn_eager_get(eager, y, result, sizeof result, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     printf("%g %g\n", result[0], result[1]); // 1 0
 *     tn_eager_destroy(eager);
 *
 * For networks without a fixed graph: trees, loops with data-dependent lengths, research code. An
 * interpreter has four commands on handles: put, apply, del, get. An operator runs when it is
 * applied, with the kernels of planned programs. The interpreter remembers how each tensor was
 * computed. When the budget is full, it evicts tensors and recomputes them on demand. The caller
 * notices only the time. A policy chooses the tensors to evict (evict.h).
 *
 * The budget is an arena of that many bytes. It contains tensors, scratch memory of kernels,
 * parameters and optimizer state, each at a multiple of 64. An evicted tensor uses no bytes of it.
 * Constants (TN_KIND_CONSTANT) belong to the operators that read them, like attributes, and are
 * stored by the interpreter outside the arena.
 *
 * A tape records operators that depend on parameters. tn_eager_backward runs it backwards with the
 * gradient rules of the registry, and an optimizer updates parameters in place. A run can be
 * recorded as a graph and a program, for the planning tools, and as a log.
 *
 * Units: bytes; shapes list the outermost dimension first.
 * Threads: one thread at a time uses an interpreter.
 */
#ifndef TENURE_EAGER_H
#define TENURE_EAGER_H

#include <tenure/device.h>
#include <tenure/evict.h>
#include <tenure/program.h>
#include <tenure/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_eager tn_eager;
/* A tensor of one interpreter, valid until tn_eager_del. Deleted handles and handles of another
 * interpreter are detected. */
typedef uint64_t tn_handle;
#define TN_HANDLE_NONE 0u /* an omitted operand, or no gradient */

typedef struct tn_eager_options {
    size_t struct_size;
    const tn_context *context; /* NULL, or must outlive the interpreter */
    /* Bytes, rounded down to a multiple of 64; 0: the memory of the device or, if the device states
     * none, of the machine; nothing is evicted before it is full. */
    uint64_t budget;
    const char *policy; /* eviction policy (evict.h); NULL: the default */
    tn_device *device;  /* a device with host kernels; NULL: an own host device */
    uint32_t threads;   /* threads of oneDNN; 0 = 1 */
    bool plain;         /* use only our own loops, without oneDNN: the same bits on every machine */
    bool poison;        /* fill and check unused memory; a stray write is E_CONFLICT. Slow */
    bool no_tape;       /* gradients will not be requested */
    bool record;        /* record for tn_eager_recorded and tn_eager_log */
    /* Costs of operators are modelled from their arithmetic and bytes instead of measured, so that
     * a policy decides the same in every run. */
    bool model_costs;
    bool all_candidates; /* policies consider small tensors, too, and all of them */
    uint64_t seed;       /* start of the random numbers of operators */
    bool find_least;     /* for tn_eager_least; costs O(tensors) per operator */
} tn_eager_options;
#define TN_EAGER_OPTIONS_INIT                                                                      \
    TN_INIT(tn_eager_options, TN_SET(struct_size, sizeof(tn_eager_options)))

/* Creates an interpreter. Errors: E_UNKNOWN (policy), E_INVALID (a budget below 64 bytes),
 * E_UNSUPPORTED (a device without host kernels), E_EXHAUSTED (the device has less memory),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_create(const tn_eager_options *options, tn_eager **eager,
                                            tn_error *error);
/* Frees all memory, including that of tensors. Destroy optimizers first. NULL is fine. */
TN_API void tn_eager_destroy(tn_eager *eager);

/* --- four commands ---------------------------------------------------------------------------- */

/* Tensor data from the host. */
typedef struct tn_eager_data {
    tn_dtype dtype;
    /* ACTIVATION (0) and INPUT: any data. PARAMETER: at a fixed address, followed by the tape,
     * updated by optimizers. OPTIMIZER_STATE, and GRADIENT for accumulated gradients: at a fixed
     * address, operators can write into it. CONSTANT: few elements that shape rules can read, such
     * as axes, new shapes, or numbers of a formula. */
    tn_kind kind;
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    const void *data;     /* C order, little endian; copied. NULL: zeros */
    const char *name;     /* for messages and recorded runs; copied. NULL: no name */
} tn_eager_data;

/* Copies data into the arena.
 *
 * handle  out, owned by the caller
 * Errors: E_INVALID (an unknown size, a constant with too many elements), E_EXHAUSTED (the budget;
 * the message names the holders and a sufficient budget), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_put(tn_eager *eager, const tn_eager_data *data,
                                         tn_handle *handle, tn_error *error);

typedef struct tn_eager_call {
    const char *type;   /* "MatMul" */
    const char *domain; /* NULL or "": ONNX's; "tenure" */
    uint32_t version;   /* operator set version of the domain; 0: newest (ONNX: 21) */
    uint32_t input_count, output_count, attr_count;
    const tn_handle *inputs; /* [input_count]; TN_HANDLE_NONE: omitted */
    /* [attr_count], without tensors and blocks. Attributes with names that the operator does not
     * have are ignored. */
    const tn_attr *attrs;
} tn_eager_call;

/* Runs an operator of the registry (`tenure list operators`). Evicted inputs are recomputed first.
 *
 * outputs  out, [output_count] new handles, owned by the caller. TN_HANDLE_NONE for an output that
 *          is an updated input (SgdStep, the running statistics of BatchNormTrain): the input's
 *          handle then has the new data
 * An output that is a view (Reshape, Slice along the outermost axis) shares the bytes of its input.
 * A tensor that an operator writes into must have been put as PARAMETER, OPTIMIZER_STATE or
 * GRADIENT; handles of its views lose their data.
 * After an error the interpreter is unchanged. Errors: E_INVALID (a handle that was deleted, is of
 * another interpreter or has lost its data; types and shapes that do not match; attributes without
 * name or data, or given twice), E_UNSUPPORTED (no kernel; data-dependent extents; a newer operator
 * set), E_EXHAUSTED (the operator needs more than the budget; the message names the locked tensors
 * and a sufficient budget), E_CONFLICT (poison), E_NO_MEMORY.
 * Cost: kernels, and O(operands + attributes). Allocates nothing for an operator that already ran
 * on such types. */
TN_API TN_CHECKED tn_status tn_eager_apply(tn_eager *eager, const tn_eager_call *call,
                                           tn_handle *outputs, tn_error *error);

/* Deletes a handle. Its bytes are free at once. The interpreter remembers how it was computed as
 * long as other tensors may be recomputed from it. TN_HANDLE_NONE is fine. Errors: E_INVALID
 * (already deleted). */
TN_API tn_status tn_eager_del(tn_eager *eager, tn_handle handle, tn_error *error);

/* Copies the data of a tensor to the host. It is recomputed if it was evicted.
 *
 * data  out
 * size  bytes of the tensor
 * Errors: E_INVALID (handle, size), and those of recomputation. */
TN_API TN_CHECKED tn_status tn_eager_get(tn_eager *eager, tn_handle handle, void *data,
                                         uint64_t size, tn_error *error);
/* Replaces the data of a tensor at a fixed address (PARAMETER, OPTIMIZER_STATE, GRADIENT). Tensors
 * that were computed from the old data keep their values. Errors: E_INVALID (handle, size, kind),
 * and those of recomputing other tensors. */
TN_API TN_CHECKED tn_status tn_eager_set(tn_eager *eager, tn_handle handle, const void *data,
                                         uint64_t size, tn_error *error);

/* Frees the bytes of a tensor now, with any policy. Its handle stays valid, and its next use
 * brings it back. Views of the same bytes go with it. A tensor that is not resident stays so.
 * tn_eager_drop: it is recomputed from its operands. tn_eager_offload: it is copied to the host,
 * and back at its next use; this needs a device with a link (`link_bytes_per_s`).
 * Errors: E_INVALID (handle), E_UNSUPPORTED (dropped: a value that was put, or otherwise cannot be
 * recomputed; offloaded: no link; both: a tensor at a fixed address, or one without memory),
 * E_EXHAUSTED (the host has no room), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_drop(tn_eager *eager, tn_handle handle, tn_error *error);
TN_API TN_CHECKED tn_status tn_eager_offload(tn_eager *eager, tn_handle handle, tn_error *error);

typedef struct tn_eager_about {
    tn_dtype dtype;
    tn_kind kind;
    uint32_t rank;
    const int64_t *shape; /* [rank]; lives as long as the interpreter */
    uint64_t bytes;
    bool resident; /* its bytes are in the arena now */
} tn_eager_about;
/* Describes a tensor. Errors: E_INVALID (handle). */
TN_API TN_CHECKED tn_status tn_eager_describe(const tn_eager *eager, tn_handle handle,
                                              tn_eager_about *about, tn_error *error);

/* --- gradients and updates --- */

/* Computes the gradients of a scalar by running the tape backwards, and empties the tape. Tensors
 * that only the tape held are released after their last use.
 *
 * loss       a tensor with one element of a floating type that depends on parameters
 * of         [count] handles of parameters
 * gradients  out, [count] new handles; TN_HANDLE_NONE if the loss does not depend on the parameter
 * Errors: E_INVALID (handles; a loss that is not a scalar or not on the tape), E_UNSUPPORTED (an
 * operator without a gradient), and those of tn_eager_apply. The tape is emptied in these cases,
 * too. */
TN_API TN_CHECKED tn_status tn_eager_backward(tn_eager *eager, tn_handle loss, const tn_handle *of,
                                              uint32_t count, tn_handle *gradients,
                                              tn_error *error);
/* Turns the tape on or off for the following operators (initially on); evaluation needs no tape. */
TN_API void tn_eager_tape(tn_eager *eager, bool on);
/* Empties the tape and releases the tensors that it held. */
TN_API void tn_eager_forget(tn_eager *eager);

typedef struct tn_eager_optimizer tn_eager_optimizer;
typedef struct tn_eager_optimizer_options {
    size_t struct_size;
    tn_optimizer optimizer; /* train.h; not NONE */
    double momentum;        /* 0 = 0.9 */
    double beta1, beta2;    /* of Adam; 0 = 0.9 and 0.999 */
    double epsilon;         /* of Adam; 0 = 1e-8 */
    double weight_decay;
    bool nesterov;
} tn_eager_optimizer_options;
#define TN_EAGER_OPTIMIZER_OPTIONS_INIT                                                            \
    TN_INIT(tn_eager_optimizer_options, TN_SET(struct_size, sizeof(tn_eager_optimizer_options)))

/* Creates an optimizer of some parameters. Its state is put into the arena as zeros.
 * Errors: E_INVALID (handles; a tensor that is not a parameter), those of tn_eager_put. */
TN_API TN_CHECKED tn_status tn_eager_optimizer_create(tn_eager *eager,
                                                      const tn_eager_optimizer_options *options,
                                                      const tn_handle *parameters, uint32_t count,
                                                      tn_eager_optimizer **optimizer,
                                                      tn_error *error);
TN_API void tn_eager_optimizer_destroy(tn_eager_optimizer *optimizer); /* NULL is fine */
/* Updates every parameter in place by its gradient; TN_HANDLE_NONE leaves a parameter unchanged.
 * Each gradient is deleted after its use, and gradients[i] becomes TN_HANDLE_NONE, even if a later
 * update fails. */
TN_API TN_CHECKED tn_status tn_eager_optimizer_step(tn_eager_optimizer *optimizer,
                                                    tn_handle *gradients, double learning_rate,
                                                    tn_error *error);

/* --- recorded runs --- */

/* Returns the operators that ran since tn_eager_create, or since the last tn_eager_restart, as a
 * graph, and as a program in the order in which they ran, for planning, drawing, fitting and
 * running. The tensors from tn_eager_put are the graph's inputs, parameters and constants; the
 * tensors read with tn_eager_get are its outputs. A recomputed operator is in the graph once.
 *
 * graph, program  out, owned by the caller. `program` may be NULL; destroy it before the graph
 * Errors: E_INVALID (nothing was recorded, or the run cannot be expressed as a program),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_recorded(const tn_eager *eager, tn_graph **graph,
                                              tn_program **program, tn_error *error);
/* Writes the same as a log, one JSON object per line, in the format of DTR's simulator: operators
 * with measured nanoseconds, bytes, aliases, and deletions of tensors. For `tenure simulate`. "-"
 * is standard output. Errors: E_INVALID (nothing was recorded), E_IO. */
TN_API TN_CHECKED tn_status tn_eager_log(const tn_eager *eager, const char *path, tn_error *error);
/* Restarts recording: existing tensors count as put. */
TN_API TN_CHECKED tn_status tn_eager_restart(tn_eager *eager, tn_error *error);

typedef struct tn_eager_counts {
    uint64_t budget;       /* bytes of the arena */
    uint64_t handles;      /* open handles */
    uint64_t history;      /* operators that are remembered */
    uint64_t recipes;      /* different operators on different types so far */
    tn_evict_counts evict; /* evictions, recomputations and copies; costs in nanoseconds */
} tn_eager_counts;
/* The counters of an interpreter. */
TN_API void tn_eager_count(const tn_eager *eager, tn_eager_counts *counts);
/* With `find_least`: a lower bound of the budget for the run so far if nothing is copied to the
 * host (tn_evict_least), with sizes rounded up to multiples of 64. The name is an operator type or
 * the name of a put tensor, and lives as long as the interpreter. */
TN_API void tn_eager_least(const tn_eager *eager, tn_evict_least *least);
/* Checks all invariants and, with `poison`, that unused memory was not written to.
 * Errors: E_CONFLICT, E_INTERNAL. Cost: O(arena + history). */
TN_API TN_CHECKED tn_status tn_eager_check(const tn_eager *eager, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
