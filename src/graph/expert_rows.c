/* expert_rows.c - finds mixtures with experts that can be rows of a cache (expert_rows.h).
 *
 * Such a mixture is in the main graph, and every operand from input 2 on is a constant of the file;
 * its first dimension counts the experts. (A third weight matrix is input 6 of MoE and input 8
 * of QMoE; no kernel runs it.)
 */
#include "graph/expert_rows.h"

static bool experts_part(const tn_graph *graph, tn_tensor_id id, int64_t experts, uint64_t *size) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    const uint32_t inexact = TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE;
    if (!tn_tensor_is_constant(tensor) || tensor->producer != TN_NONE || tensor->rank < 1 ||
        tensor->rank == TN_RANK_UNKNOWN || (tensor->flags & inexact) != 0 ||
        tensor->format.order != TN_ORDER_PLAIN || tensor->bytes == TN_SIZE_UNKNOWN)
        return false;
    if (tensor->shape[0] != experts || tensor->bytes == 0 || tensor->bytes % (uint64_t)experts != 0)
        return false;
    *size = tensor->bytes / (uint64_t)experts;
    /* one read moves a part, and states its bytes in 32 bits */
    return *size <= UINT32_MAX;
}

bool tn__expert_row_of(const tn_graph *graph, const tn_op *op, tn__expert_row *row) {
    bool rows = tn__op_has_rows(op);
    bool packed = strcmp(op->type, "QMoE") == 0;
    *row = (tn__expert_row){0};
    if (!rows &&
        (strcmp(op->domain, "com.microsoft") != 0 || (!packed && strcmp(op->type, "MoE") != 0)))
        return false;
    if (op->block != 0 || op->input_count <= TN__EXPERTS_FIRST_PART) return false;
    const tn_tensor *router =
        op->inputs[1] != TN_NONE ? tn_graph_tensor(graph, op->inputs[1]) : NULL;
    if (router == NULL || router->rank != 2 || router->shape[1] < 1 || router->shape[1] > INT32_MAX)
        return false;
    row->experts = (uint32_t)router->shape[1];
    for (uint32_t i = TN__EXPERTS_FIRST_PART; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE || (rows && i >= TN__EXPERTS_CACHE)) continue;
        if (i >= TN__EXPERTS_CACHE ||
            !experts_part(graph, op->inputs[i], router->shape[1], &row->size[i]))
            return false;
        row->at[i] = row->bytes;
        uint64_t end = tn__add_sat(row->bytes, row->size[i]);
        if (!tn__align_up(end, TN__EXPERTS_ALIGNMENT, &row->bytes)) return false;
    }
    return row->bytes > 0;
}
