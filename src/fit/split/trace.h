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
    tn_op_id *ops;         /* [operators] the operator that it is or computes a part of; TN_NONE:
                            * it only moves elements, of domains "tenure", "" and "tflite" (PAD) */
    bool *is_part;         /* [operators] it is not an operator of the given graph */
    tn_op_id *before;      /* [operators] the last operator of the region that a part replaces */
    tn_tensor_id *tensors; /* [tensors] the tensor that it is or has a part of; TN_NONE: a new
                            * constant */
    bool *is_new;          /* [tensors] it is not a tensor of the given graph */
    uint32_t op_count, tensor_count;
} tn__split_trace;

/* tn_graph_split, with the origin of its operators and tensors. trace: out, the caller releases it;
 * NULL: not wanted. */
tn_status tn__graph_split(const tn_graph *graph, const tn_split_region *regions, uint32_t count,
                          const tn_context *context, tn_graph **split, tn__split_trace *trace,
                          tn_error *error);
void tn__split_trace_release(tn__split_trace *trace);

/* --- while the graph is built (emit.c) -------------------------------------------------------- */

/* The origin of each new operator and tensor, by ids of the draft after those of the graph. */
typedef struct emit_trace {
    const tn_context *context;
    const tn_graph *graph;
    tn_op_id *ops, *before;
    tn_tensor_id *tensors;
    size_t op_room, before_room, tensor_room;
} emit_trace;

/* False: out of memory. trace: may be NULL. */
bool tn__trace_op(emit_trace *trace, tn_op_id made, tn_op_id from, tn_op_id before);
bool tn__trace_tensor(emit_trace *trace, tn_tensor_id made, tn_tensor_id like);
tn_status tn__trace_take(const emit_trace *from, const tn__draft *draft, const tn_graph *split,
                         tn__split_trace *trace);
void tn__trace_end(emit_trace *trace);

#endif
