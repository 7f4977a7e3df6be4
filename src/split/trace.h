/* trace.h - which operator and tensor of a graph each one of its split graph comes from: for who
 * writes it into the file that the graph was read from. */
#ifndef TN_SPLIT_TRACE_H
#define TN_SPLIT_TRACE_H

#include <tenure/split.h>

#include "rewrite/rewrite.h"

typedef struct tn__split_trace {
    tn_context context;
    tn_op_id *ops;    /* [operators] that it is or computes a part of; TN_NONE: it only moves
                       * elements, of domains "tenure", "" and "tflite" (PAD) */
    bool *is_part;    /* [operators] it is none of the whole graph's */
    tn_op_id *before; /* [operators] the last operator of the region in whose place a part is */
    tn_tensor_id *tensors; /* [tensors] that it is, or has part of; TN_NONE: a new constant */
    bool *is_new;          /* [tensors] it is none of the whole graph's */
    uint32_t op_count, tensor_count;
} tn__split_trace;

/* tn_graph_split, and where all of it comes from. trace: out, to be released; NULL: not wanted. */
tn_status tn__graph_split(const tn_graph *graph, const tn_split_region *regions, uint32_t count,
                          const tn_context *context, tn_graph **split, tn__split_trace *trace,
                          tn_error *error);
void tn__split_trace_release(tn__split_trace *trace);

#endif
