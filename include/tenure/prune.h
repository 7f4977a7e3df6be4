/* prune.h - weights without their smallest magnitudes: which, and what it costs.
 *
 *     // ... graph: of tn_graph_load; read: tn_contents_read, as of tn_engine_options
 *     tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
 *     options.share = 0.9; // of all weights of convolutions and products
 *     options.read = read;
 *     if (tn_prune(graph, &options, &pruning, &error)) // chosen, with the error of each
 *         return 2;
 *     rewrite.pruning = &pruning; // of tn_rewrite_options: made at set-up, stored sparse
 *
 * Magnitudes are those of the weights as the file has them, before batch normalisations go into
 * them. Of equal magnitudes the first stay: those of earlier operators, then of earlier elements
 * as the operator reads them.
 */
#ifndef TENURE_PRUNE_H
#define TENURE_PRUNE_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tn_prune_scope {
    TN_PRUNE_GLOBAL, /* one threshold for all weights: needs their contents */
    TN_PRUNE_TENSOR  /* the same share of each */
} tn_prune_scope;

typedef struct tn_prune_options {
    size_t struct_size;
    const tn_context *context;
    double share; /* of the elements that become zero, in [0, 1): the nearest whole number of
                   * them, and never all. 0: nothing is pruned */
    tn_prune_scope scope;
    /* As of tn_engine_options. NULL: contents are not known; then scope must be TENSOR, errors are
     * not known, and zeros that a weight has already are stored. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
} tn_prune_options;
#define TN_PRUNE_OPTIONS_INIT                                                                      \
    TN_INIT(tn_prune_options, TN_SET(struct_size, sizeof(tn_prune_options)))

/* A weight that is pruned. */
typedef struct tn_pruned {
    tn_op_id op; /* of the graph, that reads it as its second input */
    uint64_t elements;
    uint64_t kept;     /* elements that stay; those that are zero anyway are not counted */
    double norm, lost; /* squares summed up: of all elements, of those that become zero; NaN: not
                        * known. sqrt(lost / norm) is the relative error */
    uint64_t bytes;    /* float32: 4 elements */
    uint64_t stored;   /* bytes as it is stored; 0: not asked yet (tn_pruning_measure) */
    uint32_t bits;     /* of a place in the sparse form: 1, 8, 16; 0: it is stored dense */
} tn_pruned;

typedef struct tn_pruning {
    tn_pruned *weights; /* in the order of operators */
    uint32_t count;
    tn_context context; /* whose memory it is */
    size_t room;        /* weights that there is memory for */
} tn_pruning;

/* Chooses. Weights of Conv, Gemm and MatMul are pruned that are static float32 (as file or graph
 * have them; Transpose, Reshape and Identity may lie between), of two dimensions for products, and
 * that nobody else reads; biases and all others stay. With share 0 there are none.
 *
 * pruning  out, release with tn_pruning_release; the graph is not kept
 * Errors: E_INVALID (share outside of [0, 1), no contents for the global scope, a weight that is no
 * number: the tensor is named), those of `read`, E_NO_MEMORY. Cost: weights are read once, with the
 * global scope three times; memory for the largest of them. */
TN_API TN_CHECKED tn_status tn_prune(const tn_graph *graph, const tn_prune_options *options,
                                     tn_pruning *pruning, tn_error *error);

/* Fills `stored` and `bits` from the graph that tn_graph_rewrite made with this pruning. A weight
 * is stored dense where that takes no more bytes, or where its operator has no sparse form. */
TN_API void tn_pruning_measure(tn_pruning *pruning, const tn_graph *rewritten);
TN_API void tn_pruning_release(tn_pruning *pruning); /* NULL, or all zeros, is fine */

#ifdef __cplusplus
}
#endif
#endif
