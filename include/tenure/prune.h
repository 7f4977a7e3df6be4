/* prune.h - magnitude pruning: sets the smallest weights to zero, and reports the error.
 *
 *     // ... graph: from tn_graph_load; read: tn_contents_read, as in tn_engine_options
 *     tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
 *     options.share = 0.9; // of all weights of convolutions and products
 *     options.read = read;
 *     if (tn_prune(graph, &options, &pruning, &error)) // chosen, with the error of each weight
 *         return 2;
 *     rewrite.pruning = &pruning; // of tn_rewrite_options: applied at set-up, stored sparse
 *
 * Magnitudes are those of the weights in the file, before batch normalisations are folded into
 * them. Among equal magnitudes the first elements are kept: those of earlier operators, then
 * earlier elements in the order in which the operator reads them.
 */
#ifndef TENURE_PRUNE_H
#define TENURE_PRUNE_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tn_prune_scope {
    TN_PRUNE_GLOBAL, /* one threshold for all weights; needs their data */
    TN_PRUNE_TENSOR  /* the same share of each weight */
} tn_prune_scope;

typedef struct tn_prune_options {
    size_t struct_size;
    const tn_context *context;
    double share; /* share of the elements that become zero, in [0, 1): rounded to whole elements,
                   * and never all. 0: nothing is pruned */
    tn_prune_scope scope;
    /* As in tn_engine_options. NULL: the data are unknown; then scope must be TENSOR, errors are
     * unknown, and elements that are already zero are stored too. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
} tn_prune_options;
#define TN_PRUNE_OPTIONS_INIT                                                                      \
    TN_INIT(tn_prune_options, TN_SET(struct_size, sizeof(tn_prune_options)))

/* A pruned weight. */
typedef struct tn_pruned {
    tn_op_id op; /* the operator that reads it as its second input */
    uint64_t elements;
    uint64_t kept;     /* elements kept, without those that were zero already */
    double norm, lost; /* sums of squares of all elements and of the pruned ones; NaN: unknown.
                        * sqrt(lost / norm) is the relative error */
    uint64_t bytes;    /* float32: 4 * elements */
    uint64_t stored;   /* bytes as stored; 0 before tn_pruning_measure */
    uint32_t bits;     /* bits per position in the sparse form: 1, 8, 16; 0: stored dense */
} tn_pruned;

typedef struct tn_pruning {
    tn_pruned *weights; /* in the order of operators */
    uint32_t count;
    tn_context context; /* that allocated `weights` */
    size_t room;        /* capacity of `weights` */
} tn_pruning;

/* Chooses the elements to prune. Only weights of Conv, Gemm and MatMul are pruned: static float32
 * weights of the file or graph (possibly through Transpose, Reshape and Identity), with two
 * dimensions for Gemm and MatMul, and without other readers. With share 0 the result is empty.
 *
 * pruning  out, release with tn_pruning_release; it does not refer to the graph
 *
 * Errors: E_INVALID (a share outside [0, 1), no data for the global scope, a weight with a value
 * that is not a number; the message names the tensor), those of `read`, E_NO_MEMORY. Cost: reads
 * the weights once, or three times with the global scope; memory for the largest weight. */
TN_API TN_CHECKED tn_status tn_prune(const tn_graph *graph, const tn_prune_options *options,
                                     tn_pruning *pruning, tn_error *error);

/* Sets `stored` and `bits` from the graph that tn_graph_rewrite made with this pruning. A weight is
 * stored dense if its sparse form is not smaller, or if its operator does not support it. */
TN_API void tn_pruning_measure(tn_pruning *pruning, const tn_graph *rewritten);
TN_API void tn_pruning_release(tn_pruning *pruning); /* NULL, or all zeros, is fine */

#ifdef __cplusplus
}
#endif
#endif
