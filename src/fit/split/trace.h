/* trace.h - maps each operator and tensor of a split graph to its origin in the given graph.
 *
 * Writers use it to write the split graph into the file from which the graph was read.
 */
#ifndef TN_SPLIT_TRACE_H
#define TN_SPLIT_TRACE_H

#include <tenure/rewrite.h>

#include "graph/rewrite/rewrite.h"

typedef struct tn__split_trace {
    tn_context context;
    /* [operators] the operator of the given graph that this one is, or of which this one computes a
     * tile; TN_NONE: this one only moves elements (of the domains "tenure" and "", or a PAD of
     * "tflite") */
    tn_op_id *ops;
    /* [operators] the split added this operator: it is not an operator of the given graph */
    bool *is_part;
    /* [operators] for the operator of a tile, the last operator of the region that it replaces */
    tn_op_id *before;
    /* [tensors] the tensor of the given graph that this one is, or of which this one has a part;
     * TN_NONE: this one is a new constant */
    tn_tensor_id *tensors;
    /* [tensors] the split added this tensor: it is not a tensor of the given graph */
    bool *is_new;
    uint32_t op_count, tensor_count;
} tn__split_trace;

/* Does what tn_graph_split does, and records the origin of operators and tensors. `trace`: out, to
 * be released by the caller; NULL: not needed. */
tn_status tn__graph_split(const tn_graph *graph, const tn_split_region *regions, uint32_t count,
                          const tn_context *context, tn_graph **split, tn__split_trace *trace,
                          tn_error *error);
void tn__split_trace_release(tn__split_trace *trace);

/* --- while the graph is built (emit.c) -------------------------------------------------------- */

/* The origin of each new operator and tensor while the graph is built. Ids of the draft that are
 * new follow those of the graph. */
typedef struct emit_trace {
    const tn_context *context;
    const tn_graph *graph;
    tn_op_id *ops, *before;
    tn_tensor_id *tensors;
    size_t op_room, before_room, tensor_room;
} emit_trace;

/* Records the origin of a new operator. Returns false if memory is exhausted. `trace` may be
 * NULL. */
bool tn__trace_op(emit_trace *trace, tn_op_id made, tn_op_id from, tn_op_id before);
bool tn__trace_tensor(emit_trace *trace, tn_tensor_id made, tn_tensor_id like);
tn_status tn__trace_take(const emit_trace *from, const tn__draft *draft, const tn_graph *split,
                         tn__split_trace *trace);
void tn__trace_end(emit_trace *trace);

#endif
