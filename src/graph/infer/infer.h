/* infer.h - what importers ask of inference: whether a rule or the file decides, the input by which
 * samples are counted, and another batch than that of the file.
 */
#ifndef TN_INFER_INFER_H
#define TN_INFER_INFER_H

#include <tenure/graph.h>

#include "graph/op.h"

/* From now on, for tensors computed in block 0, a rule wins over an exact shape that the file
 * states: a log line names both, and the statement is dropped. ONNX Runtime treats value_info and
 * the shapes of outputs in this way. Without this call a contradiction is E_INVALID. Element types
 * must agree in either case. */
void tn__graph_rules_win(tn_graph *graph);

/* The first input of the graph that is not static and has dimensions; TN_NONE: no such input.
 * `single`: its first extent is not a batch. The input is one sample, an image [channels, height,
 * width], which the graph turns into a batch of one: by an Unsqueeze before axis 0, after
 * element-wise operators (such as subtracting a mean). Cost: O(operators + operands). Errors:
 * E_NO_MEMORY. */
tn_status tn__graph_batch_input(const tn_graph *graph, tn_tensor_id *input, bool *single,
                                tn_error *error);

/* --- another batch than that of the file ----------------------------------------------------- */

typedef struct tn__rebatch {
    const tn_graph
        *reference;   /* the same graph, inferred, with the batch that it was exported with */
    int64_t from, to; /* batches; 1 or more */
    uint32_t changed; /* out: constants */
    bool *inner;      /* [tensors of the reference] the batch is the fastest part of its axis */
    bool *inward;     /* [operators] of a Reshape: it is to be that */
    uint32_t tensors; /* number of tensors in the reference */
    bool again;       /* out: a tensor that was inferred already has changed, so infer once more */
    char first[240];  /* out: the first changed shape in its old form, and its place */
} tn__rebatch;

/* Does tn_graph_infer for a graph with inputs of batch `to`. If a Reshape has a constant shape, the
 * axis that must carry the batch is derived from its place in the input, and the constant is
 * changed, in a copy for that operator.
 * Errors: E_INVALID (the axis is not certain; an operator would take another batch out of its
 *         input), those of tn_graph_infer.
 */
tn_status tn__graph_infer_rebatched(tn_graph *graph, tn__rebatch *rebatch, tn_error *error);

/* Before and after an operator is inferred; infer.c calls them. */
tn_status tn__rebatch_before(tn_infer *infer, tn__rebatch *rebatch);
tn_status tn__rebatch_after(tn_infer *infer, tn__rebatch *rebatch);

#endif
