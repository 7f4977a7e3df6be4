/* file.c - operators in the order of the file, which tn_graph_infer has made topological.
 *
 * Exporters write what the framework ran, which is seldom bad and never surprising.
 * Cost: O(operators).
 */
#include "program/program.h"

static tn_status file_arrange(const tn_graph *graph, tn_block_id block, tn_op_id *ops,
                              tn_error *error) {
    (void)error;
    const tn_block *facts = tn_graph_block(graph, block);
    for (uint32_t i = 0; i < facts->op_count; i++) ops[i] = facts->ops[i];
    return TN_OK;
}

const tn_order tn__order_file = {
    .name = "file",
    .summary = "as the file has them (topological)",
    .arrange = file_arrange,
};
