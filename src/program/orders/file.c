/* file.c - keeps the operators in the order of the file, which tn_graph_infer has made
 * topological.
 *
 * Exporters write the order in which the framework ran the operators; it is seldom bad.
 *
 * Cost: O(operators).
 */
#include "program/program.h"

static tn_status file_arrange(const tn_order_task *task, tn_op_id *ops, tn_order_proof *proof,
                              tn_error *error) {
    (void)proof;
    (void)error;
    const tn_block *facts = tn_graph_block(task->graph, task->block);
    for (uint32_t i = 0; i < facts->op_count; i++) ops[i] = facts->ops[i];
    return TN_OK;
}

const tn_order tn__order_file = {
    .name = "file",
    .summary = "as in the file (topological)",
    .arrange = file_arrange,
};
