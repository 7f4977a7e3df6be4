/* rewrite.h - what a graph becomes before it runs: Graph to Graph.
 *
 *     // ... graph: of tn_graph_load
 *     if (tn_graph_rewrite(graph, NULL, &better, &error)) // fewer, larger operators
 *         return 2;
 *
 * Threads: one graph is used by one thread at a time.
 */
#ifndef TENURE_REWRITE_H
#define TENURE_REWRITE_H

#include <tenure/graph.h>
#include <tenure/prune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a rewritten graph is for. */
typedef enum tn_rewrite_use {
    TN_REWRITE_TO_RUN,   /* it runs as it is */
    TN_REWRITE_TO_TRAIN, /* a model for tn_train: only what has a gradient is made */
    TN_REWRITE_TRAINED   /* of tn_train: tensors keep their ids, those that are computed no more
                          * have no bytes, and nothing that training changes is taken as known */
} tn_rewrite_use;

typedef struct tn_rewrite_options {
    size_t struct_size;
    const tn_context *context;
    bool no_fuse;        /* keep the operators as they are; then tensors keep their ids, too */
    bool no_formats;     /* keep activations in the order of the file (NCHW) */
    const char *without; /* NULL, or names of rewrites to leave out, with commas between */
    tn_rewrite_use use;
    /* INT8, with TN_REWRITE_TO_RUN: weights of convolutions and products are kept as 8-bit numbers
     * with a scale per channel, and made float32 again right before each use. Static memory falls
     * to about a quarter; results change. UNDEFINED: as they are. Whatever no_fuse says. */
    tn_dtype weights_dtype;
    /* NULL, or of tn_prune for this graph, with TN_REWRITE_TO_RUN: those weights lose elements at
     * set-up, are stored sparse where that is smaller, and operators run from that. Results change.
     * Whatever no_fuse says; with weights_dtype the others are of that type. */
    const tn_pruning *pruning;
} tn_rewrite_options;
#define TN_REWRITE_OPTIONS_INIT                                                                    \
    TN_INIT(tn_rewrite_options, TN_SET(struct_size, sizeof(tn_rewrite_options)))

/* An equal graph for the kernels that there are: batch normalisation folded into the weights of
 * convolutions, activations and additions into the operator before them, GELU and layer
 * normalisation recognised, channels last where convolutions work on them. Names, order and shapes
 * of inputs and outputs stay. The result is inferred; destroy it with tn_graph_destroy. Payloads
 * still mean the file that `graph` was read from. Errors: E_UNKNOWN (a name in `without`),
 * E_INVALID (a pruning of another graph),
 * E_UNSUPPORTED (what changes weights, not to run), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_graph_rewrite(const tn_graph *graph,
                                             const tn_rewrite_options *options,
                                             tn_graph **rewritten, tn_error *error);
/* The registry, in the order in which they are applied. */
TN_API uint32_t tn_rewrite_count(void);
TN_API const char *tn_rewrite_name(uint32_t index);
TN_API const char *tn_rewrite_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
