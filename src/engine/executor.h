/* executor.h - runs one operator: holds the addresses of its operands and calls its kernel.
 *
 *     tn__executor executor;
 *     tn__executor_open(&executor, &context, graph);
 *     tn__executor_cover(&executor);                    // every tensor of the graph is an operand
 *     executor.operands[x].data = bytes;                // wherever the caller has room for them
 *     tn__executor_call(&executor, op, prepared, NULL, workspace);
 *
 * It knows neither a program nor a plan: the caller decides which operator runs next and where
 * operands lie. So it serves the walk of a program (walk.c), the folding of constants before any
 * program runs (statics.c), and eager callers, which learn the next operator while they run. The
 * graph may grow between calls: `cover` then adds operands for the new tensors and leaves the
 * others bound as they are.
 *
 * Between two `cover`s nothing is allocated. Threads: one at a time. Errors are written to `error`,
 * which the caller sets (NULL: errors are dropped).
 */
#ifndef TN_ENGINE_EXECUTOR_H
#define TN_ENGINE_EXECUTOR_H

#include "engine/kernels/cache.h"
#include "graph/derived.h"

typedef struct tn__executor {
    const tn_graph *graph;
    tn_operand *operands; /* [tensors] current bindings; the executor sets rank and extents */
    uint64_t random;      /* counter for the random numbers of operators without a seed */
    tn_error *error;      /* error of the current call */

    tn__arena arena;
    uint32_t tensor_count, op_count; /* number of tensors and operators that are covered */
    uint32_t tensor_room, input_room, output_room;
    tn_operand *inputs, *outputs; /* operands of the current call */
    uint8_t
        *scratch; /* for extents that are known only during the run; NULL: no operator needs it */
    size_t scratch_used;
} tn__executor;

/* Context and graph must outlive the executor. */
void tn__executor_open(tn__executor *executor, const tn_context *context, const tn_graph *graph);
void tn__executor_close(tn__executor *executor); /* accepts an executor that is all zeros */
/* Adds operands for the tensors that the graph has gained since the last call: unbound, with
 * extents inferred first. Errors: E_NO_MEMORY. Cost: O(new tensors and operators). */
tn_status tn__executor_cover(tn__executor *executor);
/* Sets extents to those of the graph: calls may have changed extents that are bounds. */
void tn__executor_reset(tn__executor *executor);

/* Runs the operator on the operands that it names, as they are bound now.
 *
 * packed     NULL, or [inputs]: addresses of inputs that lie in a form of the kernel's own;
 *            NULL where they are as bound
 * workspace  of prepared->workspace bytes, aligned to 64
 *
 * Extents of outputs that are bounds in the graph become the current ones.
 * Errors: E_INVALID (they exceed the room of the operand), those of the kernel. */
tn_status tn__executor_call(tn__executor *executor, tn_op_id op, const tn__prepared *prepared,
                            void *const *packed, void *workspace);

/* Runs the operator once more, by another type. The output keeps the extents of the first run. */
tn_status tn__executor_again(tn__executor *executor, tn_op_id op, const tn__repeats *repeats,
                             const tn__prepared *prepared, void *workspace);

#endif
