/* batch.c - decides whether the first extent of an input counts samples. See batch.h. */
#include "graph/batch.h"

#include "graph/attr.h"
#include "graph/op.h"

#define BATCH_IMAGE_RANK                                                                           \
    3u /* rank of one image; a sequence of samples looks the same: [batch, time, features] */

static tn_tensor_id batch_first(const tn_graph *graph) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (!tn_tensor_is_static(tensor) && tensor->rank > 0 && tensor->rank != TN_RANK_UNKNOWN)
            return block->inputs[i];
    }
    return TN_NONE;
}

/* Whether a new axis goes before all others: the axes are an attribute, or since opset 13 a known
 * input. */
static bool batch_is_made(const tn_graph *graph, const tn_op *op) {
    uint32_t count = 0;
    const int64_t *axes = tn__attr_ints(op, "axes", &count);
    if (strcmp(op->type, "Unsqueeze") != 0) return false;
    if (axes == NULL && op->input_count > 1 && op->inputs[1] != TN_NONE) {
        const tn_value *value = tn_graph_tensor(graph, op->inputs[1])->value;
        axes = value != NULL ? value->ints : NULL;
        count = value != NULL ? (uint32_t)value->count : 0;
    }
    return axes != NULL && count == 1 &&
           (axes[0] == 0 || axes[0] == -(int64_t)BATCH_IMAGE_RANK - 1);
}

/* Extents stay where they are, in outputs of the same rank. */
static bool batch_goes_on(const tn_graph *graph, tn_op_id id, const tn_op *op) {
    const tn_op_rule *rule = tn__rule_of(graph, id);
    bool each = rule != NULL && (rule->flags & (TN_RULE_ARITHMETIC | TN_RULE_IMAGES)) != 0;
    return each || strcmp(op->type, "Cast") == 0 || strcmp(op->type, "Identity") == 0;
}

static bool batch_walk(const tn_graph *graph, uint8_t *carries) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->op_count; i++) {
        const tn_op *op = tn_graph_op(graph, block->ops[i]);
        bool any = op->input_count > 0 && op->inputs[0] != TN_NONE && carries[op->inputs[0]] > 0;
        if (any && batch_is_made(graph, op)) return true;
        for (uint32_t k = 1; k < op->input_count; k++)
            any = any || (op->inputs[k] != TN_NONE && carries[op->inputs[k]] > 0);
        for (uint32_t k = 0; any && k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE && batch_goes_on(graph, block->ops[i], op))
                carries[op->outputs[k]] = 1;
    }
    return false;
}

tn_status tn__graph_batch_input(const tn_graph *graph, tn_tensor_id *input, bool *single,
                                tn_error *error) {
    tn_context context = tn__context(NULL);
    size_t count = tn_graph_tensor_count(graph);
    *input = batch_first(graph);
    *single = false;
    if (*input == TN_NONE || tn_graph_tensor(graph, *input)->rank != BATCH_IMAGE_RANK) return TN_OK;
    uint8_t *carries = tn__alloc_array(&context, count, sizeof *carries);
    if (carries == NULL) return tn__no_memory(error, "the batch");
    carries[*input] = 1;
    *single = batch_walk(graph, carries);
    tn__free(&context, carries, count * sizeof *carries);
    return TN_OK;
}
