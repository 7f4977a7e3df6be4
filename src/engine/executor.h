/* executor.h - what runs one operator: where its operands are now, and the call.
 *
 *     tn__executor executor;
 *     tn__executor_open(&executor, &context, graph);
 *     tn__executor_cover(&executor);                    // every tensor of the graph is an operand
 *     executor.operands[x].data = bytes;                // wherever the caller has room for them
 *     tn__executor_call(&executor, op, prepared, NULL, workspace);
 *
 * It knows neither a program nor a plan: whoever calls decides what runs next and where operands
 * lie. So it serves a walk of a Program (walk.c), the folding of constants before any program runs
 * (statics.c), and callers that learn what to run while they run. The graph may grow between calls;
 * `cover` then adds operands for what is new, and those that there are stay as they are bound.
 *
 *   executor.c  operands, the call
 *   reshape.c   extents that are known only now
 *
 * Between two `cover`s nothing is allocated.
 * Threads: one at a time. Errors go to `error`, which the caller sets (NULL: nowhere).
 */
#ifndef TN_ENGINE_EXECUTOR_H
#define TN_ENGINE_EXECUTOR_H

#include "graph/repeats.h"
#include "kernels/cache.h"

typedef struct tn__executor {
    const tn_graph *graph;
    tn_operand *operands; /* [tensors] as bound now; rank and extents are the executor's */
    uint64_t random;      /* counter of the numbers drawn by operators without a seed */
    tn_error *error;      /* of the work in hand */

    tn__arena arena;
    uint32_t tensor_count, op_count; /* covered */
    uint32_t tensor_room, input_room, output_room;
    tn_operand *inputs, *outputs; /* of the call in hand */
    uint8_t *scratch;             /* for reshape.c; NULL: no operator needs it */
    size_t scratch_used;
} tn__executor;

/* Context and graph outlive it. */
void tn__executor_open(tn__executor *executor, const tn_context *context, const tn_graph *graph);
void tn__executor_close(tn__executor *executor); /* fine when it is all zeros */
/* Operands for what the graph has got since the last time, unbound, with the extents that the graph
 * has: they are inferred first. Errors: E_NO_MEMORY. Cost: O(tensors and operators that are new).
 */
tn_status tn__executor_cover(tn__executor *executor);
/* Extents as the graph has them: calls may have changed those that are bounds. */
void tn__executor_reset(tn__executor *executor);

/* Runs the operator on the operands that it names, as they are bound now.
 *
 * packed     NULL, or [inputs]: addresses of inputs that lie in a form of the kernel's own;
 *            NULL where they are as bound
 * workspace  of prepared->workspace bytes, aligned to 64
 *
 * Extents of outputs that are bounds in the graph become what they are now.
 * Errors: E_INVALID (they exceed the room of the operand), those of the kernel. */
tn_status tn__executor_call(tn__executor *executor, tn_op_id op, const tn__prepared *prepared,
                            void *const *packed, void *workspace);

/* Runs the operator once more, by another type. The output has the extents that it had the first
 * time. */
tn_status tn__executor_again(tn__executor *executor, tn_op_id op, const tn__repeats *repeats,
                             const tn__prepared *prepared, void *workspace);

/* reshape.c: extents of an operator's outputs, from its rule and what its inputs are now. */
tn_status tn__executor_reshape(tn__executor *executor, tn_op_id op);
#define TN__RESHAPE_SCRATCH (UINT64_C(1) << 20)

#endif
