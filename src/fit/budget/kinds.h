/* kinds.h - the questions that passes ask the registry of operators.
 *
 * Passes cannot include graph/op.h, because it declares a function tn__value, and work.h defines a
 * type of that name. */
#ifndef TN_BUDGET_KINDS_H
#define TN_BUDGET_KINDS_H

#include <tenure/graph.h>

/* For TN_NONE, or without a graph, nothing is known: the answer is false or 0. */
bool tn__kind_is_conv(const tn_graph *graph, tn_op_id op);   /* of any domain, in any form */
bool tn__kind_is_matmul(const tn_graph *graph, tn_op_id op); /* or it contains one, as attention */
/* tn_op_rule.signs: a bit for each input of which the operator only needs to know which elements
 * are above 0. */
uint64_t tn__kind_signs(const tn_graph *graph, tn_op_id op);

#endif
