/* kinds.c - answers the questions of passes about operators from the registry. Cost: O(1) each. */
#include "fit/budget/kinds.h"

#include "graph/op.h"

static const tn_op_rule *kinds_rule(const tn_graph *graph, tn_op_id op) {
    return graph != NULL && op != TN_NONE ? tn__rule_of(graph, op) : NULL;
}

static bool kinds_has(const tn_graph *graph, tn_op_id op, uint32_t flag) {
    const tn_op_rule *rule = kinds_rule(graph, op);
    return rule != NULL && (rule->flags & flag) != 0;
}

bool tn__kind_is_conv(const tn_graph *graph, tn_op_id op) {
    return kinds_has(graph, op, TN_RULE_CONV | TN_RULE_CONV_LIKE);
}

bool tn__kind_is_matmul(const tn_graph *graph, tn_op_id op) {
    return kinds_has(graph, op, TN_RULE_MATMUL | TN_RULE_MATMUL_LIKE);
}

uint64_t tn__kind_signs(const tn_graph *graph, tn_op_id op) {
    const tn_op_rule *rule = kinds_rule(graph, op);
    return rule != NULL ? rule->signs : 0;
}
