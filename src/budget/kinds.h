/* kinds.h - what passes ask the registry of operators, in words of their own: graph/op.h and
 * work.h mean different things by a value. */
#ifndef TN_BUDGET_KINDS_H
#define TN_BUDGET_KINDS_H

#include <tenure/graph.h>

/* Of TN_NONE, or without a graph, nothing is known: false, 0. */
bool tn__kind_is_conv(const tn_graph *graph, tn_op_id op);   /* TN_RULE_CONV */
bool tn__kind_is_matmul(const tn_graph *graph, tn_op_id op); /* TN_RULE_MATMUL */
/* tn_op_rule.signs: of which inputs it only matters where they are above 0. */
uint64_t tn__kind_signs(const tn_graph *graph, tn_op_id op);

#endif
