/* rebatch.h - another batch for a graph that was exported with one written into its constants. */
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
    uint32_t tensors; /* of the reference */
    bool again;       /* out: what was inferred already has changed: infer once more */
    char first[240];  /* out: the first, as it was, and where */
} tn__rebatch;

/* tn_graph_infer of a graph whose inputs have the batch `to`. Where a Reshape has a constant shape,
 * the axis that has to carry the batch is found from where it lies in what is reshaped, and the
 * constant is changed, in a copy for that operator.
 * Errors: E_INVALID (it is not certain which axis that is; an operator would take another batch out
 * of what it reads), those of tn_graph_infer. */
tn_status tn__graph_infer_rebatched(tn_graph *graph, tn__rebatch *rebatch, tn_error *error);

/* Before and after an operator is inferred; infer.c calls them. */
tn_status tn__rebatch_before(tn_infer *infer, tn__rebatch *rebatch);
tn_status tn__rebatch_after(tn_infer *infer, tn__rebatch *rebatch);

#endif
