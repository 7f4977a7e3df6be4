/* batch.h - finds the input by which samples are counted. */
#ifndef TN_GRAPH_BATCH_H
#define TN_GRAPH_BATCH_H

#include <tenure/graph.h>

/* The first input of the graph that is not static and has dimensions; TN_NONE: no such input.
 * `single`: its first extent is not a batch. The input is one sample, an image [channels, height,
 * width], which the graph turns into a batch of one: by an Unsqueeze before axis 0, after
 * element-wise operators (such as subtracting a mean). Cost: O(operators + operands). Errors:
 * E_NO_MEMORY. */
tn_status tn__graph_batch_input(const tn_graph *graph, tn_tensor_id *input, bool *single,
                                tn_error *error);

#endif
