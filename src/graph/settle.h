/* settle.h - decides between a rule and the file if they disagree. */
#ifndef TN_GRAPH_SETTLE_H
#define TN_GRAPH_SETTLE_H

#include <tenure/graph.h>

/* From now on, for tensors computed in block 0, a rule wins over an exact shape that the file
 * states: a log line names both, and the statement is dropped. ONNX Runtime treats value_info and
 * the shapes of outputs in this way. Without this call a contradiction is E_INVALID. Element types
 * must agree in either case. */
void tn__graph_rules_win(tn_graph *graph);

#endif
