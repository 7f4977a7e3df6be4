/* executor.h - runs single operators: keeps the address of each operand and calls kernels.
 *
 *     tn__executor executor;
 *     tn__executor_open(&executor, &context, graph);
 *     tn__executor_cover(&executor);                    // every tensor of the graph is an operand
 *     executor.operands[x].data = bytes;                // memory that the caller provides
 *     tn__executor_call(&executor, op, prepared, NULL, workspace);
 *
 * The executor knows neither a program nor a plan. The caller decides which operator runs next and
 * where operands are in memory. For this reason three callers can share it: the loop over a program
 * (walk.c), the computation of folded constants before any run (statics.c), and eager execution,
 * where the next operator becomes known only during the run. The graph may grow between calls:
 * tn__executor_cover then adds operands for the new tensors and leaves the other operands as they
 * are.
 *
 * Only tn__executor_cover allocates memory. One thread at a time may use an executor, except for
 * tn__executor_run_bound. Errors are written to the member `error`, which the caller sets (NULL:
 * errors are dropped).
 */
#ifndef TN_ENGINE_EXECUTOR_H
#define TN_ENGINE_EXECUTOR_H

#include "engine/kernels/cache.h"
#include "graph/derived.h"

typedef struct tn__executor {
    const tn_graph *graph;
    /* for each tensor: its current address and extents; the executor sets rank and extents */
    tn_operand *operands;
    uint64_t random; /* counter from which operators without a seed derive random numbers */
    const tn_kernel_rows *rows; /* operands that stay in files; NULL: no operand does */
    tn_error *error;            /* receives the error of the current call */

    tn__arena arena;
    /* number of tensors and operators for which tn__executor_cover has made room */
    uint32_t tensor_count, op_count;
    uint32_t tensor_room, input_room, output_room;
    tn_operand *inputs, *outputs; /* operands of the operator that runs now */
    /* memory for computing extents that are known only during the run; NULL: no operator needs
     * it */
    uint8_t *scratch;
    size_t scratch_used;
} tn__executor;

/* Initialises an executor. `context` and `graph` must outlive it. */
void tn__executor_open(tn__executor *executor, const tn_context *context, const tn_graph *graph);
/* releases memory; accepts an executor that is all zeros */
void tn__executor_close(tn__executor *executor);
/* Adds operands for the tensors that the graph has gained since the last call. A new operand has no
 * address; its extents are those of the graph, so infer shapes first. Errors: E_NO_MEMORY. Cost:
 * O(new tensors and operators). */
tn_status tn__executor_cover(tn__executor *executor);
/* Resets the extents of all operands to those of the graph. This is needed before a run, because an
 * earlier run may have changed extents for which the graph has only upper bounds. */
void tn__executor_reset(tn__executor *executor);

/* A call of a kernel whose operands are bound, so that it can run later and in another thread. */
typedef struct tn__bound_call {
    tn_op_id op;
    const tn__prepared *prepared;
    tn_operand *inputs, *outputs; /* tables that the caller provides: one entry for each operand */
    void *workspace;              /* as for tn__executor_call */
} tn__bound_call;
/* Fills the tables of a call with the operands of call->op, at their current addresses. The
 * operator's outputs must have exact extents in the graph. `packed`: as for tn__executor_call. */
void tn__executor_bind(const tn__executor *executor, void *const *packed, tn__bound_call *call);
/* Runs a bound call. Several threads may run calls of one executor at the same time, if no operator
 * among them draws random numbers. Errors: those of the kernel, in `error`. */
tn_status tn__executor_run_bound(const tn__executor *executor, const tn__bound_call *call,
                                 tn_error *error);

/* Runs an operator on its operands at their current addresses.
 *
 * packed     NULL, or an array with an entry for each input: the address of the input in a packed
 *            form that only the kernel reads, or NULL for an input that is at its operand's address
 * workspace  prepared->workspace bytes, aligned to 64
 *
 * For outputs with upper bounds in the graph, the operands get the current extents.
 * Errors: E_INVALID (an output needs more bytes than its operand has), errors of the kernel.
 */
tn_status tn__executor_call(tn__executor *executor, tn_op_id op, const tn__prepared *prepared,
                            void *const *packed, void *workspace);

/* Recomputes the outputs of an operator, with the operator type that `repeats` has for
 * recomputation. The outputs keep the extents of the first computation. */
tn_status tn__executor_again(tn__executor *executor, tn_op_id op, const tn__repeats *repeats,
                             const tn__prepared *prepared, void *workspace);

#endif
