/* explain.c - after inference: finds an unknown size, and the input or operator that causes it.
 *
 * It names an input without a size, else the first operator in order with a result of unknown size
 * and known inputs, because later unknown sizes only follow from that.
 * Cost: O(operands).
 */
#include "graph/store.h"

static bool explain_needs_size(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = &graph->tensors[id];
    return tensor->bytes == TN_SIZE_UNKNOWN && !tn_tensor_is_static(tensor) &&
           !graph->blocks[tensor->block].view.dead;
}

static tn_status explain_source(const tn_graph *graph, tn_tensor_id id, tn_error *error) {
    const tn_tensor *tensor = &graph->tensors[id];
    char shape[100] = "of unknown rank";
    if (tensor->rank != TN_RANK_UNKNOWN)
        tn__shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    tn_status status =
        tensor->flags & TN_TENSOR_SEQUENCE || !tn_dtype_bits(tensor->dtype)
            ? tn__fail(error, TN_E_UNKNOWN,
                       "the size of %s '%.80s' cannot be known: it is a sequence, or its elements "
                       "(%s) have no fixed size; plan the part of the model after it",
                       tn_kind_name(tensor->kind), tensor->name, tn_dtype_name(tensor->dtype))
            : tn__fail(error, TN_E_UNKNOWN,
                       "the size of %s '%.80s' is not known: its shape is %s; give its dimensions "
                       "values",
                       tn_kind_name(tensor->kind), tensor->name, shape);
    return tn__where(error, status, "%s '%.100s'", tn_kind_name(tensor->kind), tensor->name);
}

/* --- what it depends on ------------------------------------------------------------------------
 */

#define EXPLAIN_FEW 16u   /* elements of an input that shapes are made of: extents, a count */
#define EXPLAIN_STEPS 64u /* operators that are looked at on the way to it */

/* A graph input of a few integers (or a condition) with unknown values. */
static bool explain_is_number(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = &graph->tensors[id];
    uint64_t count = 1;
    bool whole = tensor->dtype == TN_INT64 || tensor->dtype == TN_INT32 || tensor->dtype == TN_BOOL;
    if (tensor->producer != TN_NONE || tensor->kind != TN_KIND_INPUT || tensor->value != NULL)
        return false;
    if (!whole || tensor->rank == TN_RANK_UNKNOWN || tensor->rank > 1) return false;
    if (tensor->rank == 1) count = (uint64_t)tensor->shape[0];
    return tensor->bytes != TN_SIZE_UNKNOWN && count <= EXPLAIN_FEW;
}

/* The input that the operator's result depends on, found backwards from its operands, the nearest
 * first; TN_NONE: no such input. */
static tn_tensor_id explain_number(const tn_graph *graph, tn_op_id op) {
    tn_op_id queue[EXPLAIN_STEPS] = {op};
    uint32_t count = 1;
    for (uint32_t at = 0; at < count; at++) {
        const tn_op *it = &graph->ops[queue[at]];
        for (uint32_t i = 0; i < it->input_count; i++) {
            tn_tensor_id id = it->inputs[i];
            if (id == TN_NONE) continue;
            if (explain_is_number(graph, id)) return id;
            tn_op_id producer = graph->tensors[id].producer;
            bool known = producer == TN_NONE || count == EXPLAIN_STEPS;
            for (uint32_t k = 0; k < count && !known; k++) known = queue[k] == producer;
            if (!known) queue[count++] = producer;
        }
    }
    return TN_NONE;
}

static tn_status explain_output(const tn_graph *graph, tn_op_id op, tn_tensor_id id,
                                tn_error *error) {
    const tn_tensor *tensor = &graph->tensors[id];
    const char *type = graph->ops[op].type, *domain = graph->ops[op].domain;
    const char *dot = *domain ? "." : "";
    char shape[80] = "no shape";
    tn_status status = TN_E_UNKNOWN;
    if (tensor->rank != TN_RANK_UNKNOWN)
        tn__shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    if (tensor->dtype != TN_UNDEFINED && !tn_dtype_bits(tensor->dtype))
        tn__fail(error, status,
                 "the size of tensor '%.80s' cannot be known: elements of type %s have no fixed "
                 "size; plan the part of the model after it",
                 tensor->name, tn_dtype_name(tensor->dtype));
    else if (tensor->flags & TN_TENSOR_SEQUENCE)
        tn__fail(
            error, status,
            "the size of sequence '%.80s' cannot be known: %s elements of %s; plan the part of "
            "the model after it",
            tensor->name, tensor->repeat == TN_SIZE_UNKNOWN ? "an unknown number of" : "its",
            shape);
    else if (!graph->rules[op] || !graph->rules[op]->shape)
        tn__fail(error, status,
                 "the size of tensor '%.80s' cannot be known: there is no rule for operator "
                 "%.40s%s%.40s, and the file states %s of type %s for it; state both in the file "
                 "(value_info)",
                 tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype));
    else if (explain_number(graph, op) != TN_NONE)
        tn__fail(error, status,
                 "the size of tensor '%.80s' is not known: operator %.40s%s%.40s gives %s of type "
                 "%s, as it depends on data; give input '%.80s' a value (`values` %.80s=N), or "
                 "state the shape in the file (value_info)",
                 tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype),
                 graph->tensors[explain_number(graph, op)].name,
                 graph->tensors[explain_number(graph, op)].name);
    else
        tn__fail(
            error, status,
            "the size of tensor '%.80s' cannot be known: operator %.40s%s%.40s gives %s of type "
            "%s, as it depends on data, and the file states no more; state the shape in the "
            "file (value_info)",
            tensor->name, domain, dot, type, shape, tn_dtype_name(tensor->dtype));
    return tn__op_where(graph, op, error, status);
}

/* The first operator in order with an unknown result, preferably one with known inputs. */
tn_status tn__explain_unknown(const tn_graph *graph, tn_error *error) {
    tn_op_id first = TN_NONE;
    tn_tensor_id which = TN_NONE;
    for (uint32_t id = 0; id < graph->tensor_count; id++)
        if (graph->tensors[id].producer == TN_NONE && !graph->origins[id].formal &&
            explain_needs_size(graph, id) && graph->tensors[id].kind != TN_KIND_ACTIVATION &&
            graph->tensors[id].kind != TN_KIND_OUTPUT)
            return explain_source(graph, id, error);
    for (tn_block_id block = 0; block < graph->block_count; block++) {
        const tn_block *view = &graph->blocks[block].view;
        for (uint32_t i = 0; i < view->op_count; i++) {
            const tn_op *op = &graph->ops[view->ops[i]];
            tn_tensor_id unknown = TN_NONE;
            for (uint32_t j = op->output_count; j-- > 0;)
                if (op->outputs[j] != TN_NONE && explain_needs_size(graph, op->outputs[j]))
                    unknown = op->outputs[j];
            if (unknown == TN_NONE) continue;
            bool root = true;
            for (uint32_t j = 0; j < op->input_count && root; j++)
                root = op->inputs[j] == TN_NONE ||
                       graph->tensors[op->inputs[j]].bytes != TN_SIZE_UNKNOWN;
            if (root) return explain_output(graph, view->ops[i], unknown, error);
            if (first == TN_NONE) first = view->ops[i], which = unknown;
        }
    }
    if (first != TN_NONE) return explain_output(graph, first, which, error);
    for (uint32_t id = 0; id < graph->tensor_count; id++)
        if (graph->origins[id].formal && explain_needs_size(graph, id))
            return explain_output(graph, graph->blocks[graph->tensors[id].block].view.owner, id,
                                  error);
    return TN_OK;
}
