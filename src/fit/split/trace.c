/* trace.c - records the origin of each operator and tensor of a split graph.
 *
 * While the graph is built, origins are recorded for the ids of the draft. Afterwards they are
 * assigned to the ids of the new graph, in which operators are found by their operands. Cost:
 * O(operands).
 */
#include "fit/split/trace.h"

static bool trace_put(const emit_trace *trace, uint32_t **list, size_t *room, uint32_t whole,
                      uint32_t made, uint32_t from) {
    uint32_t at = made - whole;
    size_t before = *room;
    if (!tn__reserve(trace->context, list, room, (size_t)at + 1, sizeof **list)) return false;
    for (size_t i = before; i < *room; i++) (*list)[i] = TN_NONE;
    (*list)[at] = from;
    return true;
}

bool tn__trace_op(emit_trace *trace, tn_op_id made, tn_op_id from, tn_op_id before) {
    if (trace == NULL) return true;
    uint32_t whole = tn_graph_op_count(trace->graph);
    return trace_put(trace, &trace->ops, &trace->op_room, whole, made, from) &&
           trace_put(trace, &trace->before, &trace->before_room, whole, made, before);
}

static tn_tensor_id trace_tensor_of(const emit_trace *trace, tn_tensor_id id) {
    uint32_t whole = tn_graph_tensor_count(trace->graph);
    if (id < whole) return id;
    return id - whole < trace->tensor_room ? trace->tensors[id - whole] : TN_NONE;
}

bool tn__trace_tensor(emit_trace *trace, tn_tensor_id made, tn_tensor_id like) {
    return trace == NULL ||
           trace_put(trace, &trace->tensors, &trace->tensor_room,
                     tn_graph_tensor_count(trace->graph), made, trace_tensor_of(trace, like));
}

static void trace_operands(const emit_trace *from, const tn_tensor_id *draft,
                           const tn_tensor_id *made, uint32_t count, tn__split_trace *trace) {
    for (uint32_t i = 0; i < count; i++) {
        if (made[i] == TN_NONE) continue;
        trace->tensors[made[i]] = trace_tensor_of(from, draft[i]);
        trace->is_new[made[i]] = draft[i] >= tn_graph_tensor_count(from->graph);
    }
}

tn_status tn__trace_take(const emit_trace *from, const tn__draft *draft, const tn_graph *split,
                         tn__split_trace *trace) {
    uint32_t ops = tn_graph_op_count(split), tensors = tn_graph_tensor_count(split);
    uint32_t whole = tn_graph_op_count(from->graph);
    tn__split_trace made = {.context = *from->context, .op_count = ops, .tensor_count = tensors};
    made.ops = tn__alloc_array(&made.context, (size_t)ops + 1, sizeof *made.ops);
    made.is_part = tn__alloc_array(&made.context, (size_t)ops + 1, sizeof *made.is_part);
    made.tensors = tn__alloc_array(&made.context, (size_t)tensors + 1, sizeof *made.tensors);
    made.is_new = tn__alloc_array(&made.context, (size_t)tensors + 1, sizeof *made.is_new);
    made.before = tn__alloc_array(&made.context, (size_t)ops + 1, sizeof *made.before);
    if (made.ops == NULL || made.is_part == NULL || made.before == NULL || made.tensors == NULL ||
        made.is_new == NULL) {
        tn__split_trace_release(&made);
        return tn__no_memory(draft->error, "a split graph");
    }
    for (uint32_t i = 0; i < tensors; i++) made.tensors[i] = TN_NONE;
    for (tn_op_id id = 0; id < draft->op_count; id++) {
        const tn__draft_op *op = &draft->ops[id];
        if (op->gone) continue;
        const tn_op *now = tn_graph_op(split, op->made);
        made.is_part[op->made] = id >= whole;
        bool known = id >= whole && id - whole < from->before_room;
        made.before[op->made] = known ? from->before[id - whole] : TN_NONE;
        made.ops[op->made] = id < whole                   ? id
                             : id - whole < from->op_room ? from->ops[id - whole]
                                                          : TN_NONE;
        trace_operands(from, op->op.inputs, now->inputs, now->input_count, &made);
        trace_operands(from, op->op.outputs, now->outputs, now->output_count, &made);
    }
    *trace = made;
    return TN_OK;
}

void tn__trace_end(emit_trace *trace) {
    tn__free(trace->context, trace->ops, trace->op_room * sizeof *trace->ops);
    tn__free(trace->context, trace->before, trace->before_room * sizeof *trace->before);
    tn__free(trace->context, trace->tensors, trace->tensor_room * sizeof *trace->tensors);
}

void tn__split_trace_release(tn__split_trace *trace) {
    size_t ops = (size_t)trace->op_count + 1, tensors = (size_t)trace->tensor_count + 1;
    if (trace->ops != NULL) tn__free(&trace->context, trace->ops, ops * sizeof *trace->ops);
    if (trace->before != NULL)
        tn__free(&trace->context, trace->before, ops * sizeof *trace->before);
    if (trace->is_part != NULL)
        tn__free(&trace->context, trace->is_part, ops * sizeof *trace->is_part);
    if (trace->tensors != NULL)
        tn__free(&trace->context, trace->tensors, tensors * sizeof *trace->tensors);
    if (trace->is_new != NULL)
        tn__free(&trace->context, trace->is_new, tensors * sizeof *trace->is_new);
    *trace = (tn__split_trace){0};
}
