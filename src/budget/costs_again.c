/* costs_again.c - the repeat forms of a graph's operators, each an operator of a graph of its own.
 *
 * Such an operator reads what the first run read, and what that found where it wrote
 * (tn_op_rule.again); its operands here are inputs of the type and extents that they have there.
 * Cost: O(tensors + operators).
 */
#include "budget/costs.h"

#include "graph/store.h"

typedef struct again_state {
    const tn_graph *graph;
    tn__repeats *repeats;
    tn__arena arena;
    tn_tensor_id *made; /* [tensors] in the other graph; TN_NONE: not yet */
    tn_error *error;
} again_state;

static const char *again_type(const tn_graph *graph, tn_op_id id) {
    const tn_op_rule *rule = tn__rule_of(graph, id);
    return rule != NULL ? rule->again : NULL;
}

/* What stands at an input of the repeat form; TN_NONE: nothing, or what was found was not kept. */
static tn_tensor_id again_input(const tn_graph *graph, tn_op_id id, uint32_t index) {
    const tn_op *op = tn_graph_op(graph, id);
    bool found = index < 64 && (tn_op_changes(graph, id) >> index & 1);
    if (!found) return op->inputs[index];
    return index < op->output_count ? op->outputs[index] : TN_NONE;
}

static bool again_has_all(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t i = 0; i < op->attr_count; i++) /* ids of the graph that they are in */
        if (op->attrs[i].type == TN_ATTR_TENSOR || op->attrs[i].type == TN_ATTR_BLOCK) return false;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && again_input(graph, id, i) == TN_NONE) return false;
    return op->output_count > 0 && op->outputs[0] != TN_NONE;
}

static tn_status again_tensor(again_state *s, tn_tensor_id id, bool output, tn_tensor_id *copy) {
    const tn_tensor *tensor = tn_graph_tensor(s->graph, id);
    tn_tensor_spec spec = {.name = tensor->name,
                           .dtype = tensor->dtype,
                           .kind = output ? TN_KIND_OUTPUT : TN_KIND_INPUT,
                           .format = tensor->format,
                           .rank = tensor->rank,
                           .shape = tensor->shape};
    if (!output && tn_tensor_is_static(tensor)) spec.kind = TN_KIND_PARAMETER;
    if (!output && tensor->value != NULL) spec.value = *tensor->value;
    return tn_graph_add_tensor(s->repeats->graph, &spec, copy, s->error);
}

static tn_status again_op(again_state *s, tn_op_id id) {
    const tn_op *op = tn_graph_op(s->graph, id);
    tn_tensor_id *inputs = tn__arena_array(&s->arena, op->input_count, sizeof *inputs), output;
    if (inputs == NULL) return tn__no_memory(s->error, "costs");
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id input = inputs[i] = again_input(s->graph, id, i);
        if (input == TN_NONE) continue;
        if (s->made[input] == TN_NONE) TN_TRY(again_tensor(s, input, false, &s->made[input]));
        inputs[i] = s->made[input];
    }
    TN_TRY(again_tensor(s, op->outputs[0], true, &output));
    tn_op_spec spec = {.name = op->name,
                       .type = again_type(s->graph, id),
                       .domain = op->domain,
                       .version = op->version,
                       .inputs = inputs,
                       .outputs = &output,
                       .attrs = op->attrs,
                       .input_count = op->input_count,
                       .output_count = 1,
                       .attr_count = op->attr_count};
    return tn_graph_add_op(s->repeats->graph, &spec, &s->repeats->of[id], s->error);
}

static tn_status again_fill(again_state *s) {
    size_t tensors = tn_graph_tensor_count(s->graph);
    TN_TRY(tn_graph_create(&s->repeats->context, &s->repeats->graph, s->error));
    s->made = tn__arena_array(&s->arena, tensors, sizeof *s->made);
    if (s->made == NULL) return tn__no_memory(s->error, "costs");
    for (size_t i = 0; i < tensors; i++) s->made[i] = TN_NONE;
    for (tn_op_id id = 0; id < s->repeats->count; id++)
        if (again_type(s->graph, id) != NULL && again_has_all(s->graph, id))
            TN_TRY(again_op(s, id));
    return tn_graph_infer(s->repeats->graph, s->error);
}

tn_status tn__repeats_make(const tn_context *context, const tn_graph *graph, tn__repeats *repeats,
                           tn_error *error) {
    uint32_t count = tn_graph_op_count(graph);
    bool any = false;
    *repeats = (tn__repeats){.context = tn__context(context)};
    for (tn_op_id id = 0; id < count && !any; id++) any = again_type(graph, id) != NULL;
    if (!any) return TN_OK;
    repeats->of = tn__alloc_array(&repeats->context, count, sizeof *repeats->of);
    if (repeats->of == NULL) return tn__no_memory(error, "costs");
    repeats->count = count;
    for (uint32_t i = 0; i < count; i++) repeats->of[i] = TN_NONE;
    again_state s = {.graph = graph, .repeats = repeats, .error = error};
    tn__arena_init(&s.arena, &repeats->context);
    tn_status status = again_fill(&s);
    tn__arena_release(&s.arena);
    if (status != TN_OK) tn__repeats_release(repeats);
    return status;
}

void tn__repeats_release(tn__repeats *repeats) {
    tn_graph_destroy(repeats->graph);
    tn__free(&repeats->context, repeats->of, repeats->count * sizeof *repeats->of);
    *repeats = (tn__repeats){.context = repeats->context};
}
