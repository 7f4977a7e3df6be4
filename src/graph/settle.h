/* settle.h - who is believed where a rule and the file disagree. */
#ifndef TN_GRAPH_SETTLE_H
#define TN_GRAPH_SETTLE_H

#include <tenure/graph.h>

/* From now on a rule wins over an exact shape that was stated for a tensor it computes, in block 0:
 * a line of the log names both, and what was stated is forgotten. ONNX Runtime treats value_info
 * and the shapes of outputs so. Without this call a contradiction is E_INVALID. Element types must
 * agree in either case. */
void tn__graph_rules_win(tn_graph *graph);

#endif
