/* transformer.c - finds the sizes of a transformer in its graph.
 *
 * Exporters write attention in many ways. All have one Softmax over [batch, heads, tokens, tokens]
 * in each layer, and a Gather from a table of embeddings. So
 *
 *     layers, heads, sequence   from those Softmax
 *     vocabulary, hidden        the largest table that a Gather reads
 *     inner size                the widest product of the hidden size, except the vocabulary's and
 *                               query, key and value in one (3 hidden)
 *
 * For any other graph the formulas do not apply, and the result is an error.
 */
#include <tenure/estimate.h>

#include "graph/op.h"

static const tn_tensor *shape_operand(const tn_graph *graph, const tn_op *op, uint32_t i) {
    return i < op->input_count && op->inputs[i] != TN_NONE ? tn_graph_tensor(graph, op->inputs[i])
                                                           : NULL;
}

static void shape_attention(const tn_graph *graph, const tn_op *op, tn_large *made) {
    const tn_tensor *scores = shape_operand(graph, op, 0);
    if (scores == NULL || scores->rank != 4 || scores->shape[1] < 1 || scores->shape[3] < 1 ||
        scores->shape[2] != scores->shape[3])
        return;
    made->model.layers++;
    made->model.heads = (uint64_t)scores->shape[1];
    made->sequence = (uint64_t)scores->shape[3];
}

static void shape_table(const tn_graph *graph, const tn_op *op, tn_transformer *made) {
    const tn_tensor *table = shape_operand(graph, op, 0);
    if (table == NULL || table->kind != TN_KIND_PARAMETER || table->rank != 2 ||
        table->shape[0] < 1 || table->shape[1] < 1)
        return;
    if ((uint64_t)table->shape[0] <= made->vocabulary) return;
    made->vocabulary = (uint64_t)table->shape[0];
    made->hidden = (uint64_t)table->shape[1];
}

static void shape_inner(const tn_graph *graph, const tn_op *op, tn_transformer *made) {
    const tn_tensor *weights = shape_operand(graph, op, 1);
    if (weights == NULL || weights->rank != 2 || !tn_tensor_is_static(weights)) return;
    for (uint32_t side = 0; side < 2; side++) {
        uint64_t a = (uint64_t)weights->shape[side], b = (uint64_t)weights->shape[1 - side];
        if (a == made->hidden && b > made->inner && b != made->vocabulary && b != 3 * made->hidden)
            made->inner = b;
    }
}

tn_status tn_large_from_graph(const tn_graph *graph, tn_large *large, tn_error *error) {
    tn_large made = *large;
    tn_transformer *model = &made.model;
    *model = (tn_transformer){.position_rows = TN_SIZE_UNKNOWN};
    uint64_t sequence = large->sequence;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        if (tn__op_is(op, "Softmax")) shape_attention(graph, op, &made);
        if (tn__op_is(op, "Gather")) shape_table(graph, op, model);
    }
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        if (tn__op_has(graph, id, TN_RULE_MATMUL))
            shape_inner(graph, tn_graph_op(graph, id), model);
    if (model->layers == 0 || model->hidden == 0)
        TN_FAIL(error, TN_E_INVALID, "the graph is not recognised as a transformer (%s)",
                model->layers == 0 ? "no Softmax over [batch, heads, tokens, tokens]"
                                   : "no table of embeddings");
    if (model->inner <= model->hidden) model->inner = 0; /* not found: 4 hidden is used */
    if (sequence > 0) made.sequence = sequence;
    *large = made;
    return TN_OK;
}
