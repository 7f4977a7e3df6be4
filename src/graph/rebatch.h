/* rebatch.h - changes the batch of a graph that was exported with a fixed batch in its
 * constants. */
#ifndef TN_GRAPH_REBATCH_H
#define TN_GRAPH_REBATCH_H

#include "graph/op.h"

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
