/* batch.h - by which input samples are counted. */
#ifndef TN_GRAPH_BATCH_H
#define TN_GRAPH_BATCH_H

#include <tenure/graph.h>

/* The first input of the graph that is not static and has dimensions; TN_NONE: there is none.
 * `single`: its first extent is no batch. It is one sample, an image [channels, height, width], of
 * which the graph makes a batch of one itself: an Unsqueeze before axis 0, behind operators that
 * work element by element (a mean taken away). Cost: O(operators + operands). Errors: E_NO_MEMORY.
 */
tn_status tn__graph_batch_input(const tn_graph *graph, tn_tensor_id *input, bool *single,
                                tn_error *error);

#endif
