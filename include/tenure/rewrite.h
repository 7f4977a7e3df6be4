/* rewrite.h - rewrites a graph for execution: folds, fuses, prunes, quantises weights.
 *
 *     // ... graph: from tn_graph_load
 *     if (tn_graph_rewrite(graph, NULL, &better, &error)) // fewer, larger operators
 *         return 2;
 *
 * Threads: one thread at a time may use a graph.
 */
#ifndef TENURE_REWRITE_H
#define TENURE_REWRITE_H

#include <tenure/graph.h>
#include <tenure/prune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The purpose of a rewritten graph. */
typedef enum tn_rewrite_use {
    TN_REWRITE_TO_RUN,   /* it runs as it is */
    TN_REWRITE_TO_TRAIN, /* a model for tn_train: every operator made has a gradient */
    TN_REWRITE_TRAINED /* a graph from tn_train: tensors keep their ids, tensors that are no longer
                        * computed have 0 bytes, and trained values are not folded */
} tn_rewrite_use;

typedef struct tn_rewrite_options {
    size_t struct_size;
    const tn_context *context;
    bool no_fuse;        /* keep the operators; then tensors keep their ids too */
    bool no_formats;     /* keep the layout of the file for activations (NCHW) */
    const char *without; /* NULL, or comma-separated names of rewrites to leave out */
    tn_rewrite_use use;
    /* INT8, with TN_REWRITE_TO_RUN: weights of convolutions and products are stored as 8-bit
     * numbers with a scale per channel, and converted to float32 right before each use. Static
     * memory falls to about a quarter; results change. UNDEFINED: weights are unchanged. Applies
     * even with no_fuse. */
    tn_dtype weights_dtype;
    /* NULL, or the result of tn_prune for this graph, with TN_REWRITE_TO_RUN: these weights are
     * pruned at set-up and stored sparse if that is smaller, and operators compute from the sparse
     * form. Results change. Applies even with no_fuse; weights_dtype applies to the other weights.
     */
    const tn_pruning *pruning;
} tn_rewrite_options;
#define TN_REWRITE_OPTIONS_INIT                                                                    \
    TN_INIT(tn_rewrite_options, TN_SET(struct_size, sizeof(tn_rewrite_options)))

/* Makes an equivalent graph for the kernels at hand: batch normalisations are folded into weights
 * of convolutions, activations and additions are fused into the operator before them, GELU and
 * layer normalisation become one operator, and convolutions work channels-last. Names, order and
 * shapes of inputs and outputs are unchanged. The result is inferred; destroy it with
 * tn_graph_destroy. Its payloads still refer to the file of `graph`.
 * Errors: E_UNKNOWN (a name in `without`), E_INVALID (a pruning of another graph), E_UNSUPPORTED
 * (an option that changes weights without TN_REWRITE_TO_RUN), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_graph_rewrite(const tn_graph *graph,
                                             const tn_rewrite_options *options,
                                             tn_graph **rewritten, tn_error *error);
/* The rewrites, in the order in which they are applied. */
TN_API uint32_t tn_rewrite_count(void);
TN_API const char *tn_rewrite_name(uint32_t index);
TN_API const char *tn_rewrite_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
