/* eager.h - runs operators one at a time within a memory budget; policies that evict tensors.
 */
#ifndef TENURE_EAGER_H
#define TENURE_EAGER_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/eager.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/engine.h>
#include <tenure/graph.h>
#include <tenure/program.h>
#include <tenure/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- evict ----------------------------------------------------------------------------------- */

/* Policies that evict tensors when a budget is full and the future is unknown.
 *
 *     for (uint32_t i = 0; i < tn_evict_policy_count(); i++)
 *         printf("%-10s %s\n", tn_evict_policy_name(i), tn_evict_policy_summary(i));
 *
 * If memory is full and a value must be stored, other values are evicted: dropped and recomputed on
 * demand, or swapped to the host and back. The policy decides from past operators and accesses
 * only.
 *
 * Units: bytes. Costs have the unit of the caller (nanoseconds in logs).
 */

/* --- policies --------------------------------------------------------------------------- */

TN_API uint32_t tn_evict_policy_count(void);
/* The eviction policies: index < tn_evict_policy_count(). The texts are static. */
/* Returns the name of a policy, for options. */
TN_API const char *tn_evict_policy_name(uint32_t index);
/* Returns a summary of a policy in one line. */
TN_API const char *tn_evict_policy_summary(uint32_t index);
/* Returns the publication from which the idea of a policy comes. */
TN_API const char *tn_evict_policy_source(uint32_t index);

/* Counters of evictions and recomputations since the beginning. */
typedef struct tn_evict_counts {
    uint64_t plain_cost, plain_ops;      /* cost and number of first runs of operators */
    uint64_t remade_cost, remade_ops;    /* cost and number of recomputations of operators */
    uint64_t drop_count, dropped_bytes;  /* number and bytes of evictions by dropping */
    uint64_t swap_count, swapped_bytes;  /* number and bytes of evictions by copying to the host */
    uint64_t fetch_count, fetched_bytes; /* number and bytes of copies back from the host */
    uint64_t swap_cost; /* cost of copies in both directions, at the rate of the link */
    uint64_t move_count, moved_bytes; /* number and bytes of moves by compaction */
    uint64_t move_cost;               /* cost of moves, at the rate of moves */
    uint64_t search_count;            /* number of searches for a value to evict */
    uint64_t evaluation_count;        /* number of candidates that were considered */
    uint64_t access_count; /* number of records that were touched, counted as DTR's authors do */
    /* Seconds spent on choosing candidates and on updating the records of a policy (extrapolated:
     * one in 16 updates is timed). 0 if they are not timed. */
    double search_s;
    /* resident bytes, including scratch: at present, and at their peak */
    uint64_t bytes, peak_bytes;
    /* highest byte of the arena that was ever in use; 0 if values have no addresses */
    uint64_t reach_bytes;
    /* number of allocations for which enough bytes were free, but not contiguous */
    uint64_t hole_count;
    /* bytes that were evicted although enough bytes were free, because these were not contiguous */
    uint64_t hole_bytes;
    /* bytes of copies on the host: at present, and at their peak */
    uint64_t host_bytes, host_peak_bytes;
    uint64_t restart_count; /* number of times that locked operands were released to free memory */
    /* Number and bytes of values that were released because nothing referred to them and they could
     * not be recomputed. */
    uint64_t spent_count, spent_bytes;
} tn_evict_counts;

/* The memory that any policy needs if nothing is copied to the host: a lower bound of every budget.
 * Recomputation can need more memory. */
typedef struct tn_evict_least {
    uint64_t bytes;  /* bytes at the operator that needs most memory */
    uint64_t pinned; /* the part of `bytes` at fixed addresses: parameters, states, constants */
    /* the part of `bytes` that is referenced and cannot be recomputed: data, gradients */
    uint64_t held;
    uint64_t working; /* bytes of the operator's other operands, its results and its scratch */
    /* number of operators that ran before the operator that needs most memory; recomputations and
     * values from outside count, too */
    uint64_t op;
    /* name of the operator or of the put tensor; NULL: all live values at the end need most */
    const char *name;
} tn_evict_least;

/* --- recorded runs ----------------------------------------------------------------------- */

/* The operators of a run, in order: a log in the line format of DTR's simulator (docs/eager.md), or
 * of Tenure's recorder. */
typedef struct tn_evict_log tn_evict_log;
typedef struct tn_evict_log_facts {
    /* number of calls; number of values, including views and constants */
    uint32_t op_count, tensor_count;
    uint32_t constant_count;
    uint64_t constant_bytes; /* bytes of constants, which are always resident */
    uint64_t plain_cost;     /* time of all calls in nanoseconds */
} tn_evict_log_facts;

/* Reads a log. `path` "-" is standard input. Errors: E_INVALID (bad line; error.where has
 * file:line), E_IO, E_NO_MEMORY, E_UNSUPPORTED (a build without JSON). Cost: O(bytes). */
TN_API TN_CHECKED tn_status tn_evict_log_load(const tn_context *context, const char *path,
                                              tn_evict_log **log, tn_error *error);
/* Reads a log from memory; otherwise like tn_evict_log_load. `file` is the name of the log in
 * messages. */
TN_API TN_CHECKED tn_status tn_evict_log_parse(const tn_context *context, const void *bytes,
                                               size_t size, const char *file, tn_evict_log **log,
                                               tn_error *error);
TN_API void tn_evict_log_destroy(tn_evict_log *log);
TN_API const tn_evict_log_facts *tn_evict_log_about(const tn_evict_log *log);

/* --- simulation ------------------------------------------------------------------------ */

typedef struct tn_evict_options {
    size_t struct_size;        /* sizeof(tn_evict_options) */
    const tn_context *context; /* services of the caller; NULL: those of the log */
    const char *policy;        /* name of the eviction policy; NULL: the default */
    uint64_t budget;           /* budget in bytes, including constants */
    bool addresses; /* true: values have addresses in one arena; false: only bytes are counted */
    uint64_t alignment; /* alignment of each value, if values have addresses; 0: 64 */
    /* the simulation stops above this multiple of the plain cost; 0: it never stops early */
    double overhead_max;
    /* rate of the link to the host, for policies that swap; 0: there is no link */
    uint64_t link_bytes_per_s;
    uint64_t host_bytes;       /* limit of the bytes on the host; 0: no limit */
    uint64_t move_bytes_per_s; /* rate of compaction in bytes per second; 0: 10^11 */
    uint64_t seed;
    bool sample;      /* true: only sqrt(n) of n candidates are considered */
    bool time_search; /* whether counts.search_s is measured */
} tn_evict_options;
#define TN_EVICT_OPTIONS_INIT                                                                      \
    TN_INIT(tn_evict_options, TN_SET(struct_size, sizeof(tn_evict_options)))

typedef enum tn_evict_end {
    TN_EVICT_DONE,
    TN_EVICT_FULL, /* the budget is too small: no further value can be evicted */
    TN_EVICT_OVER  /* overhead_max was exceeded */
} tn_evict_end;

typedef struct tn_evict_outcome {
    tn_evict_end end;
    uint32_t line; /* line of the log at which the simulation ended; 0: it reached the end */
    /* if the budget was too small (FULL): bytes that would have sufficed for the step at `line` */
    uint64_t needed;
    uint64_t cost;   /* total cost: first runs, recomputations, swaps, moves */
    double overhead; /* cost / plain cost of the log; valid if the outcome is DONE */
    tn_evict_counts counts;
    /* if the budget was too small (FULL): a sentence that names the holders of the memory */
    char message[400];
} tn_evict_outcome;

/* Replays a log under a budget. Without addresses, DTR's policies give the same integers as DTR's
 * simulator: resident results of a recomputed operator count twice, and histories are never
 * forgotten. Values that are referenced at the end of the log must be resident together.
 *
 * Errors: E_UNKNOWN (policy), E_INVALID (options), E_NO_MEMORY. A budget that is too small is an
 * outcome, not an error. Cost: that of the policy. */
TN_API TN_CHECKED tn_status tn_evict_simulate(const tn_evict_log *log,
                                              const tn_evict_options *options,
                                              tn_evict_outcome *outcome, tn_error *error);
/* Computes the peak in bytes of a run in which nothing is evicted. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_evict_plain_peak(const tn_evict_log *log, uint64_t *bytes,
                                                tn_error *error);

/* Computes a lower bound of every budget (tn_evict_least). Errors: E_NO_MEMORY. Cost: O(operators x
 * values that are live at once). */
TN_API TN_CHECKED tn_status tn_evict_plain_least(const tn_evict_log *log, tn_evict_least *least,
                                                 tn_error *error);

/* --- eager ----------------------------------------------------------------------------------- */

/* Runs operators one at a time within a memory budget that is never exceeded.
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
 * notices only the time. A policy chooses the tensors to evict (eager.h).
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

typedef struct tn_eager tn_eager;
/* A tensor of one interpreter, valid until tn_eager_del. Deleted handles and handles of another
 * interpreter are detected. */
typedef uint64_t tn_handle;
#define TN_HANDLE_NONE 0u /* in place of a handle: an omitted operand, or no gradient */

typedef struct tn_eager_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the interpreter */
    const tn_context *context;
    /* Budget in bytes, rounded down to a multiple of 64; 0: the memory of the device or, if the
     * device states none, of the machine. No tensor is evicted before the budget is full. */
    uint64_t budget;
    const char *policy; /* name of the eviction policy; NULL: the default */
    tn_device *device; /* a device with host kernels; NULL: the interpreter creates a host device */
    uint32_t threads;  /* number of threads of oneDNN; 0: 1 */
    /* true: use only Tenure's own loops, without oneDNN, so that results have the same bits on
     * every machine */
    bool plain;
    /* true: fill unused memory and check it; a stray write fails with E_CONFLICT. This is slow */
    bool poison;
    bool no_tape; /* true: no tape is kept, because gradients will not be requested */
    bool record;  /* true: the run is recorded, for tn_eager_recorded and tn_eager_log */
    /* If true, costs of operators are modelled from their arithmetic and bytes instead of measured,
     * so that a policy makes the same decisions in every run. */
    bool model_costs;
    bool all_candidates; /* true: policies consider all tensors, including small ones */
    uint64_t seed;       /* seed of the random numbers of operators */
    /* true: the bound of tn_eager_least is computed; costs O(tensors) per operator */
    bool find_least;
} tn_eager_options;
#define TN_EAGER_OPTIONS_INIT                                                                      \
    TN_INIT(tn_eager_options, TN_SET(struct_size, sizeof(tn_eager_options)))

/* Creates an interpreter. Errors: E_UNKNOWN (policy), E_INVALID (a budget below 64 bytes),
 * E_UNSUPPORTED (a device without host kernels), E_EXHAUSTED (the device has less memory),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_create(const tn_eager_options *options, tn_eager **eager,
                                            tn_error *error);
/* Destroys an interpreter and frees all its memory, including that of tensors. Optimizers must be
 * destroyed first. NULL has no effect. */
TN_API void tn_eager_destroy(tn_eager *eager);

/* --- the commands on tensors ------------------------------------------------------------------ */

/* Tensor data that comes from the host. */
typedef struct tn_eager_data {
    tn_dtype dtype;
    /* Purpose of the tensor. ACTIVATION (0) and INPUT: any data. PARAMETER: at a fixed address,
     * followed by the tape, updated by optimizers. OPTIMIZER_STATE, and GRADIENT for accumulated
     * gradients: at a fixed address, operators can write into it. CONSTANT: few elements that shape
     * rules can read, such as axes, new shapes, or numbers of a formula. */
    tn_kind kind;
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    const void *data; /* the elements in C order, little endian; copied. NULL: all elements are 0 */
    const char *name; /* name for messages and recorded runs; copied. NULL: no name */
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
    const char *domain; /* domain of the type: NULL or "": ONNX's; "tenure" */
    uint32_t version;   /* operator set version of the domain; 0: the newest (ONNX: 21) */
    uint32_t input_count, output_count, attr_count;
    const tn_handle *inputs; /* [input_count] the inputs; TN_HANDLE_NONE: the input is omitted */
    /* [attr_count], without tensors and blocks. Attributes with names that the operator does not
     * have are ignored. */
    const tn_attr *attrs;
    /* [output_count] names of the outputs, for messages and recorded runs; copied. NULL, also in
     * place of a single name: no name */
    const char *const *names;
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
 * another interpreter or has lost its data; types and shapes that do not match; a result whose
 * shape is not known, for example because the axes were not put as a constant; no outputs;
 * attributes without name or data, or given twice), E_UNSUPPORTED (no kernel; data-dependent
 * extents; a newer operator set), E_EXHAUSTED (the operator needs more than the budget; the
 * message names the locked tensors and a sufficient budget), E_CONFLICT (poison), E_NO_MEMORY.
 * Cost: kernels, and O(operands + attributes). Allocates nothing for an operator that already ran
 * on such types. */
TN_API TN_CHECKED tn_status tn_eager_apply(tn_eager *eager, const tn_eager_call *call,
                                           tn_handle *outputs, tn_error *error);

/* Deletes a handle. Bytes of its tensor are free at once. The interpreter remembers how the tensor
 * was computed as long as other tensors may be recomputed from it. TN_HANDLE_NONE has no effect.
 * Errors: E_INVALID (already deleted). */
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

/* Free the bytes of a tensor now, with any policy. Its handle stays valid, and the next use of the
 * tensor makes it resident again. Views of the same bytes are freed with it. If the tensor is not
 * resident, the call has no effect. tn_eager_drop: the tensor is recomputed from its operands.
 * tn_eager_offload: the tensor is copied to the host, and back at its next use; this needs a device
 * with a link (`link_bytes_per_s`). Errors: E_INVALID (handle), E_UNSUPPORTED (dropped: a value
 * that was put, or otherwise cannot be recomputed; offloaded: no link; both: a tensor at a fixed
 * address, or one without memory), E_EXHAUSTED (the host limit is reached), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_eager_drop(tn_eager *eager, tn_handle handle, tn_error *error);
TN_API TN_CHECKED tn_status tn_eager_offload(tn_eager *eager, tn_handle handle, tn_error *error);

typedef struct tn_eager_about {
    tn_dtype dtype;
    tn_kind kind;
    uint32_t rank;
    const int64_t *shape; /* [rank] the extents; they live as long as the interpreter */
    uint64_t bytes;
    bool resident; /* whether the bytes of the tensor are in the arena now */
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
/* Empties the tape and releases the tensors that only the tape kept. */
TN_API void tn_eager_forget(tn_eager *eager);

typedef struct tn_eager_optimizer tn_eager_optimizer;
typedef struct tn_eager_optimizer_options {
    size_t struct_size;
    tn_optimizer optimizer; /* the optimizer (train.h); not NONE. INIT and NULL: ADAM */
    double momentum;        /* momentum; 0: 0.9 */
    double beta1, beta2;    /* decay rates of Adam; 0: 0.9 and 0.999 */
    double epsilon;         /* epsilon of Adam; 0: 1e-8 */
    double weight_decay;
    bool nesterov;
} tn_eager_optimizer_options;
#define TN_EAGER_OPTIMIZER_OPTIONS_INIT                                                            \
    TN_INIT(tn_eager_optimizer_options, TN_SET(struct_size, sizeof(tn_eager_optimizer_options))    \
                                            TN_SET(optimizer, TN_OPTIMIZER_ADAM))

/* Creates an optimizer of some parameters. Its state is put into the arena as zeros.
 * Errors: E_INVALID (handles; a tensor that is not a parameter, or that is given twice; a number
 * outside of its range), those of tn_eager_put. */
TN_API TN_CHECKED tn_status tn_eager_optimizer_create(tn_eager *eager,
                                                      const tn_eager_optimizer_options *options,
                                                      const tn_handle *parameters, uint32_t count,
                                                      tn_eager_optimizer **optimizer,
                                                      tn_error *error);
/* Destroys an optimizer; NULL has no effect. */
TN_API void tn_eager_optimizer_destroy(tn_eager_optimizer *optimizer);
/* Updates every parameter in place by its gradient; TN_HANDLE_NONE leaves a parameter unchanged.
 * Each gradient is deleted after its use, and gradients[i] becomes TN_HANDLE_NONE, even if a later
 * update fails. Errors: E_INVALID (a handle; a learning rate that is not finite), those of
 * tn_eager_apply. */
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
/* Writes the recorded run as a log, one JSON object per line, in the format of DTR's simulator:
 * operators with measured nanoseconds, bytes, aliases, and deletions of tensors. For `tenure
 * simulate`. "-" is standard output. Errors: E_INVALID (nothing was recorded), E_IO. */
TN_API TN_CHECKED tn_status tn_eager_log(const tn_eager *eager, const char *path, tn_error *error);
/* Restarts recording; tensors that exist count as put. */
TN_API TN_CHECKED tn_status tn_eager_restart(tn_eager *eager, tn_error *error);

typedef struct tn_eager_counts {
    uint64_t budget;  /* bytes of the arena */
    uint64_t handles; /* number of open handles */
    uint64_t history; /* number of operators that are remembered for recomputation */
    uint64_t recipes; /* number of different operators on different types so far */
    /* counters of evictions, recomputations and copies; costs in nanoseconds */
    tn_evict_counts evict;
} tn_eager_counts;
/* Returns the counters of an interpreter. */
TN_API void tn_eager_count(const tn_eager *eager, tn_eager_counts *counts);
/* With `find_least`: computes a lower bound of the budget for the run so far if nothing is copied
 * to the host (tn_evict_least), with sizes rounded up to multiples of 64. The name in the result is
 * an operator type or the name of a put tensor, and lives as long as the interpreter. */
TN_API void tn_eager_least(const tn_eager *eager, tn_evict_least *least);
/* Checks all invariants of an interpreter and, with `poison`, that unused memory was not written
 * to. Errors: E_CONFLICT, E_INTERNAL. Cost: O(arena + history). */
TN_API TN_CHECKED tn_status tn_eager_check(const tn_eager *eager, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
