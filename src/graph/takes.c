/* takes.c - computes an operator's time from the rates of a machine. */
#include "graph/takes.h"

#include "graph/attr.h"

/* Whether all existing outputs lie in memory of inputs, or are known before the run. */
static bool takes_needless(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && tn_op_view(graph, id, k).source == TN_NONE &&
            !(tn_graph_tensor(graph, op->outputs[k])->flags & TN_TENSOR_FOLDED))
            return false;
    return true;
}

bool tn__op_runs(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    if (tn_graph_block(graph, op->block)->dead || tn__op_has_blocks(op)) return false;
    return tn_op_changes(graph, id) != 0 || tn_op_is_ordered(graph, id) ||
           !takes_needless(graph, id);
}

double tn__op_takes(const tn_graph *graph, tn_op_id id, const tn__machine *machine, bool *known) {
    if (known != NULL) *known = true;
    if (!tn__op_runs(graph, id)) return 0;
    tn_cost cost = tn_op_cost(graph, id);
    bool moves = cost.bytes_moved != TN_SIZE_UNKNOWN;
    if (known != NULL) *known = moves;
    return tn__takes(cost.flops != TN_SIZE_UNKNOWN ? (double)cost.flops : 0,
                     moves ? (double)cost.bytes_moved : 0, machine);
}
