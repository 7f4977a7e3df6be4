/* infer.h - the functions that importers call to control inference: whether a rule or the file
 * decides, which input has the batch axis, and how to infer with another batch than that of the
 * file. */
#ifndef TN_INFER_INFER_H
#define TN_INFER_INFER_H

#include <tenure/graph.h>

#include "graph/op.h"

/* Makes a rule win over an exact shape that the file states, from now on, for tensors computed in
 * block 0. A log line names both shapes, and the file's statement is dropped. ONNX Runtime treats
 * value_info and the shapes of outputs in this way. Without this call a contradiction is E_INVALID.
 * Element types must agree in either case. */
void tn__graph_rules_win(tn_graph *graph);

/* Finds the first input of the graph that is not static and has dimensions; TN_NONE: no such input.
 * `single` is set if its first extent is not a batch: the input is then one sample, such as an
 * image [channels, height, width], which the graph turns into a batch of one by an Unsqueeze before
 * axis 0, after element-wise operators (such as subtracting a mean). Cost: O(operators + operands).
 * Errors: E_NO_MEMORY. */
tn_status tn__graph_batch_input(const tn_graph *graph, tn_tensor_id *input, bool *single,
                                tn_error *error);

/* --- inference with another batch size than that of the file --------------------------------- */

typedef struct tn__rebatch {
    const tn_graph *reference; /* the graph, inferred with the batch that it was exported with */
    int64_t from, to;          /* the batch of the reference and the new batch, both at least 1 */
    uint32_t changed;          /* out: number of changed constants */
    /* [tensors of the reference] true: an axis combines the batch with other extents, and the batch
     * varies fastest along it */
    bool *inner;
    /* [operators] true: the operator is a Reshape that must make the batch vary fastest along an
     * axis */
    bool *inward;
    uint32_t tensors; /* number of tensors in the reference */
    /* out: true if a tensor that was already inferred has changed, so that inference must run
     * again */
    bool again;
    char first[240]; /* out: text that describes the first changed shape and its operator */
} tn__rebatch;

/* Does tn_graph_infer for a graph with inputs of batch `to`. If a Reshape has a constant shape, the
 * axis that must carry the batch is derived from its place in the input, and the constant is
 * changed, in a copy for that operator.
 * Errors: E_INVALID (the axis is not certain; an operator would take another batch out of its
 *         input), those of tn_graph_infer.
 */
tn_status tn__graph_infer_rebatched(tn_graph *graph, tn__rebatch *rebatch, tn_error *error);

/* Functions that infer.c calls before and after it infers an operator, if the batch size
 * changes. */
tn_status tn__rebatch_before(tn_infer *infer, tn__rebatch *rebatch);
tn_status tn__rebatch_after(tn_infer *infer, tn__rebatch *rebatch);

#endif
