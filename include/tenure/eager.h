/* eager.h - run operators as they come, within a budget that is a bound.
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
 * For networks without a graph: trees, loops whose length depends on data, research code. Four
 * commands on handles: put, apply, del, get. An operator runs when it is applied, by the kernels
 * that run planned programs. The interpreter remembers how each tensor was made; when the budget is
 * full it drops some, and makes them again when somebody asks: the caller sees nothing of it but
 * time. Which ones go is a policy's choice (evict.h).
 *
 * The budget is an arena of exactly that many bytes: tensors, scratch memory of kernels, parameters
 * and optimizer state lie in it, each at a multiple of 64. Handles of other tensors take nothing
 * while they are evicted. Constants (TN_KIND_CONSTANT) are part of the operators that read them, as
 * attributes are, and lie with the interpreter.
 *
 * A tape records what depends on parameters; tn_eager_backward runs it backwards by the gradient
 * rules of the registry, and an optimizer updates parameters where they lie. What was run may be
 * recorded as a Graph and a Program, for the tools that plan, and as a log.
 *
 * Units: bytes; shapes outermost dimension first.
 * Threads: an interpreter by one at a time.
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
/* A tensor of one interpreter, until tn_eager_del. A handle that was deleted, or is of another
 * interpreter, is told from all others. */
typedef uint64_t tn_handle;
#define TN_HANDLE_NONE 0u /* an omitted operand; a gradient that there is not */

typedef struct tn_eager_options {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the interpreter */
    uint64_t budget;           /* bytes, rounded down to a multiple of 64; 0: what the device, or
                                * else the machine has, and nothing is ever evicted before that */
    const char *policy;        /* evict.h; NULL: the default */
    tn_device *device;         /* with kernels on the host; NULL: a host device of its own */
    uint32_t threads;          /* of oneDNN; 0 = 1 */
    bool plain;                /* our own loops alone, without oneDNN: the same bits everywhere */
    bool poison;               /* memory that nobody holds is filled and looked at: E_CONFLICT when
                                * somebody wrote there. Slow */
    bool no_tape;              /* no gradients will be asked for */
    bool record;               /* keep what tn_eager_recorded and tn_eager_log tell */
    bool model_costs;          /* costs of operators by their arithmetic and bytes, not measured: a
                                * policy then decides the same in every run */
    bool all_candidates;       /* policies look at small tensors as well, and at all of them */
    uint64_t seed;             /* where the numbers of random operators begin */
    bool find_least;           /* for tn_eager_least; O(tensors) an operator */
} tn_eager_options;
#define TN_EAGER_OPTIONS_INIT                                                                      \
    TN_INIT(tn_eager_options, TN_SET(struct_size, sizeof(tn_eager_options)))

/* Errors: E_UNKNOWN (policy), E_INVALID (a budget below 64 bytes), E_UNSUPPORTED (a device whose
 * kernels are no functions of the host), E_EXHAUSTED (the device has not as much), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_create(const tn_eager_options *options, tn_eager **eager,
                                            tn_error *error);
/* Gives back all memory, of tensors as well. NULL is fine; optimizers before it. */
TN_API void tn_eager_destroy(tn_eager *eager);

/* --- four commands ---------------------------------------------------------------------------- */

/* Contents from the host. */
typedef struct tn_eager_data {
    tn_dtype dtype;
    tn_kind kind; /* ACTIVATION (0) and INPUT: any data. PARAMETER: at a fixed place, the tape
                   * follows it, optimizers update it. OPTIMIZER_STATE, and GRADIENT for sums: at a
                   * fixed place, operators may write into it. CONSTANT: few elements that rules of
                   * shapes may read: axes, new shapes, numbers of a formula */
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    const void *data;     /* C order, little endian, copied; NULL: zeros */
    const char *name;     /* NULL: none; copied. For messages and recorded runs */
} tn_eager_data;

/* Puts contents into the arena.
 *
 * Errors: E_INVALID (a size that is not known, a constant of too many elements), E_EXHAUSTED (the
 * budget: who holds it and what would have sufficed), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_put(tn_eager *eager, const tn_eager_data *data,
                                         tn_handle *handle, tn_error *error);

typedef struct tn_eager_call {
    const char *type;   /* "MatMul" */
    const char *domain; /* NULL, "": ONNX's; "tenure" */
    uint32_t version;   /* operator set version of the domain; 0: newest (ONNX's: 21) */
    uint32_t input_count, output_count, attr_count;
    const tn_handle *inputs; /* [input_count] TN_HANDLE_NONE: omitted */
    const tn_attr *attrs;    /* [attr_count]; none that is a tensor or a block. Of names that the
                              * operator does not have nothing is read, and nothing is told */
} tn_eager_call;

/* Runs an operator of the registry (`tenure list operators`). Its inputs are made again first,
 * where they were evicted.
 *
 * outputs  [output_count] new handles, the caller's. Where an operator hands back an input that it
 *          writes into (SgdStep, the running statistics of BatchNormTrain), TN_HANDLE_NONE: the
 *          input's handle names the new contents
 * An output that is a view (Reshape, Slice along the outermost axis) shares the bytes of its input.
 * What an operator writes into must have been put as PARAMETER, OPTIMIZER_STATE or GRADIENT;
 * handles of views of it lose their contents. Errors, after which everything is as before:
 * E_INVALID (a handle that was deleted or is of another interpreter, types and shapes that do not
 * fit, attributes without a name or contents or twice, contents that are lost), E_UNSUPPORTED (no
 * kernel; extents that depend on data; a newer operator set), E_EXHAUSTED
 * (the operator needs more than the budget: who is locked, and what would have sufficed),
 * E_CONFLICT (poison), E_NO_MEMORY. Cost: beside kernels O(operands + attributes); allocates
 * nothing once it has seen an operator on such types. */
TN_API TN_CHECKED tn_status tn_eager_apply(tn_eager *eager, const tn_eager_call *call,
                                           tn_handle *outputs, tn_error *error);

/* The handle is no more. Its bytes are free at once; how it was made is kept as long as others may
 * have to be made from it. TN_HANDLE_NONE is fine. Errors: E_INVALID (deleted before). */
TN_API tn_status tn_eager_del(tn_eager *eager, tn_handle handle, tn_error *error);

/* The contents, to the host; made again, if they were evicted.
 *
 * data  [size] bytes, as many as the tensor has
 * Errors: E_INVALID (handle, size), and those of making it again. */
TN_API TN_CHECKED tn_status tn_eager_get(tn_eager *eager, tn_handle handle, void *data,
                                         uint64_t size, tn_error *error);
/* New contents for what lies at a fixed place (PARAMETER, OPTIMIZER_STATE, GRADIENT); what was made
 * of the old ones stays. Errors: E_INVALID (handle, size, kind), those of making others again. */
TN_API TN_CHECKED tn_status tn_eager_set(tn_eager *eager, tn_handle handle, const void *data,
                                         uint64_t size, tn_error *error);

typedef struct tn_eager_about {
    tn_dtype dtype;
    tn_kind kind;
    uint32_t rank;
    const int64_t *shape; /* [rank]; lives as long as the interpreter */
    uint64_t bytes;
    bool resident; /* its bytes are in the arena now */
} tn_eager_about;
/* Errors: E_INVALID (handle). */
TN_API TN_CHECKED tn_status tn_eager_describe(const tn_eager *eager, tn_handle handle,
                                              tn_eager_about *about, tn_error *error);

/* --- gradients and updates -----------------------------------------------------------------------
 */

/* Gradients of a scalar by tensors, by running the tape backwards; the tape is empty then. What it
 * held only for this is given up as soon as it was read last.
 *
 * loss       a tensor of one element of a floating type that depends on parameters
 * of         [count] handles of parameters
 * gradients  out, [count] new handles; TN_HANDLE_NONE where nothing of the loss depends on it
 * Errors: E_INVALID (handles; a loss that is no scalar; not on the tape), E_UNSUPPORTED (an
 * operator without gradient lies between), and those of tn_eager_apply; the tape is empty then,
 * too. */
TN_API TN_CHECKED tn_status tn_eager_backward(tn_eager *eager, tn_handle loss, const tn_handle *of,
                                              uint32_t count, tn_handle *gradients,
                                              tn_error *error);
/* Whether operators are put on the tape from now on (they are); evaluation needs no tape. */
TN_API void tn_eager_tape(tn_eager *eager, bool on);
/* An empty tape: what it held is given up. */
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

/* An optimizer of some parameters; its state is put into the arena, zero.
 * Errors: E_INVALID (handles; a tensor that is no parameter), those of tn_eager_put. */
TN_API TN_CHECKED tn_status tn_eager_optimizer_create(tn_eager *eager,
                                                      const tn_eager_optimizer_options *options,
                                                      const tn_handle *parameters, uint32_t count,
                                                      tn_eager_optimizer **optimizer,
                                                      tn_error *error);
TN_API void tn_eager_optimizer_destroy(tn_eager_optimizer *optimizer); /* NULL is fine */
/* One step: every parameter is updated by its gradient (TN_HANDLE_NONE: it stays), in place, and
 * the gradients are deleted, each as soon as it was used: gradients[i] is TN_HANDLE_NONE then, also
 * when a later one fails. */
TN_API TN_CHECKED tn_status tn_eager_optimizer_step(tn_eager_optimizer *optimizer,
                                                    tn_handle *gradients, double learning_rate,
                                                    tn_error *error);

/* --- what was run ------------------------------------------------------------------------- */

/* What was run since the beginning, or since tn_eager_restart, as a Graph of those operators and a
 * Program in their order: saved, planned, drawn, fitted and run by everything that takes these.
 * What was put is its inputs, parameters and constants, what was got its outputs. Operators that
 * ran again for the budget's sake are in it once.
 *
 * graph, program  out, the caller's; the program goes before the graph, and may be NULL
 * Errors: E_INVALID (nothing was recorded; it is not the one that a program can be), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_eager_recorded(const tn_eager *eager, tn_graph **graph,
                                              tn_program **program, tn_error *error);
/* The same as a log, a JSON object a line, in the format of DTR's simulator: operators with
 * measured nanoseconds, bytes, aliases, and when tensors were deleted. For `tenure simulate`. "-":
 * standard output. Errors: E_INVALID (nothing was recorded), E_IO. */
TN_API TN_CHECKED tn_status tn_eager_log(const tn_eager *eager, const char *path, tn_error *error);
/* Recording begins anew: what there is now counts as put. */
TN_API TN_CHECKED tn_status tn_eager_restart(tn_eager *eager, tn_error *error);

typedef struct tn_eager_counts {
    uint64_t budget;       /* bytes of the arena */
    uint64_t handles;      /* open */
    uint64_t history;      /* operators that are remembered */
    uint64_t recipes;      /* different operators on different types, so far */
    tn_evict_counts evict; /* what was done for the budget's sake; costs in nanoseconds */
} tn_eager_counts;
TN_API void tn_eager_count(const tn_eager *eager, tn_eager_counts *counts);
/* With `find_least`: what no budget could have done without so far, places rounded up to multiples
 * of 64, as long as nothing is copied to the host (tn_evict_least). The name is a type of operator
 * or that of what was put, and lives as long as the interpreter. */
TN_API void tn_eager_least(const tn_eager *eager, tn_evict_least *least);
/* Whether all that must hold does, and with `poison`, whether nobody wrote where nothing lives.
 * Errors: E_CONFLICT, E_INTERNAL. Cost: O(arena + history). */
TN_API TN_CHECKED tn_status tn_eager_check(const tn_eager *eager, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
