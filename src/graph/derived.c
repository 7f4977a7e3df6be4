/* derived.c - makes graphs from a given graph: one with additional tensors, and one of the operator
 * types that recompute operators. */
#include "graph/derived.h"
#include "graph/store.h"

/* --- graphs with additional tensors ----------------------------------------------------------- */

/* Copies a table of the given graph and leaves space for more entries. */
static bool extend_table(const tn_context *context, const void *given, size_t count, size_t more,
                         size_t size, size_t *room, void *table) {
    void *made = tn__alloc_array(context, count + more + 1, size);
    if (made == NULL) return false;
    if (count > 0) memcpy(made, given, count * size);
    *room = count + more + 1;
    memcpy(table, &made, sizeof made);
    return true;
}

static bool extend_tables(tn_graph *made, const tn_graph *given, uint32_t more) {
    const tn_context *context = &made->context;
    bool all = extend_table(context, given->tensors, given->tensor_count, more,
                            sizeof *given->tensors, &made->tensor_room, &made->tensors) &&
               extend_table(context, given->origins, given->tensor_count, more,
                            sizeof *given->origins, &made->origin_room, &made->origins) &&
               extend_table(context, given->ops, given->op_count, 0, sizeof *given->ops,
                            &made->op_room, &made->ops) &&
               extend_table(context, given->rules, given->op_count, 0, sizeof *given->rules,
                            &made->rule_room, &made->rules) &&
               extend_table(context, given->blocks, given->block_count, 0, sizeof *given->blocks,
                            &made->block_room, &made->blocks);
    if (!all) return false;
    made->tensor_count = given->tensor_count;
    made->op_count = given->op_count;
    made->block_count = given->block_count;
    /* the copy has no lists of its own: the lists of a block are read only through its `view` */
    for (uint32_t b = 0; b < made->block_count; b++) {
        tn__graph_block *block = &made->blocks[b];
        block->ops = NULL;
        block->inputs = block->outputs = NULL;
        block->op_room = block->input_room = block->output_room = 0;
    }
    return true;
}

static tn_status extend_add(tn_graph *graph, const tn__extra *extra, tn_error *error) {
    if (extra->bytes > INT64_MAX) TN_FAIL(error, TN_E_INVALID, "more than 2^63 bytes");
    int64_t *shape = tn__arena_alloc(&graph->said, sizeof *shape);
    char *name = tn__arena_string(&graph->said, extra->name, strlen(extra->name));
    if (shape == NULL || name == NULL) return tn__no_memory(error, "a tensor");
    *shape = (int64_t)extra->bytes;
    tn_tensor_id id = graph->tensor_count++;
    graph->tensors[id] = (tn_tensor){.name = name,
                                     .dtype = TN_UINT8,
                                     .kind = TN_KIND_ACTIVATION,
                                     .flags = TN_TENSOR_STATED,
                                     .rank = 1,
                                     .shape = shape,
                                     .repeat = 1,
                                     .bytes = extra->bytes,
                                     .producer = TN_NONE};
    graph->origins[id] = (tn__origin){.dtype = TN_UINT8,
                                      .kind = TN_KIND_ACTIVATION,
                                      .flags = TN_TENSOR_STATED,
                                      .rank = 1,
                                      .shape = shape};
    return TN_OK;
}

tn_status tn__graph_extend(const tn_graph *given, const tn__extra *extras, uint32_t count,
                           tn_graph **extended, tn_error *error) {
    tn_context context = given->context;
    if (count >= TN_NONE - given->tensor_count)
        TN_FAIL(error, TN_E_INVALID, "more than 2^32 - 2 tensors");
    tn_graph *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a graph");
    made->context = context;
    tn__arena_init(&made->said, &made->context);
    tn__arena_init(&made->found, &made->context);
    tn_status status = extend_tables(made, given, count) ? TN_OK : tn__no_memory(error, "a graph");
    for (uint32_t i = 0; i < count && status == TN_OK; i++)
        status = extend_add(made, &extras[i], error);
    if (status == TN_OK)
        *extended = made;
    else
        tn_graph_destroy(made);
    return status;
}

/* --- the graph of the operator types that recompute other operators --------------------------- */

/* Makes a graph of the operators that are recomputed by another operator type (tn_op_form). Each
 * operand keeps its element type, extents and format. Cost: O(tensors + operators). */

typedef struct repeats_state {
    const tn_graph *graph;
    tn__repeats *repeats;
    tn__arena arena;
    tn_tensor_id *made; /* [tensors] the tensor in the new graph; TN_NONE: not made yet */
    tn_error *error;
} repeats_state;

static bool repeats_by_other(const tn_op_form *form) {
    return form->type != NULL && form->type != form->op->type;
}

static tn_status repeats_tensor(repeats_state *s, tn_tensor_id id, bool output,
                                tn_tensor_id *copy) {
    const tn_tensor *tensor = tn_graph_tensor(s->graph, id);
    tn_tensor_spec spec = {.name = tensor->name,
                           .dtype = tensor->dtype,
                           .kind = output ? TN_KIND_OUTPUT : TN_KIND_INPUT,
                           .format = tensor->format,
                           .rank = tensor->rank,
                           .shape = tensor->shape};
    return tn_graph_add_tensor(s->repeats->graph, &spec, copy, s->error);
}

static tn_status repeats_op(repeats_state *s, tn_op_id id, const tn_op_form *form) {
    const tn_op *op = form->op;
    tn_tensor_id *inputs = tn__arena_array(&s->arena, op->input_count, sizeof *inputs), output;
    if (inputs == NULL) return tn__no_memory(s->error, "operators that run again");
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id input = inputs[i] = tn_op_form_input(form, i);
        if (input == TN_NONE) continue;
        if (s->made[input] == TN_NONE) TN_TRY(repeats_tensor(s, input, false, &s->made[input]));
        inputs[i] = s->made[input];
    }
    TN_TRY(repeats_tensor(s, op->outputs[0], true, &output));
    tn_op_spec spec = {.name = op->name,
                       .type = form->type,
                       .domain = op->domain,
                       .version = op->version,
                       .inputs = inputs,
                       .outputs = &output,
                       .attrs = op->attrs,
                       .input_count = form->input_count,
                       .output_count = form->output_count,
                       .attr_count = op->attr_count};
    return tn_graph_add_op(s->repeats->graph, &spec, &s->repeats->of[id], s->error);
}

static tn_status repeats_fill(repeats_state *s) {
    size_t tensors = tn_graph_tensor_count(s->graph);
    TN_TRY(tn_graph_create(&s->repeats->context, &s->repeats->graph, s->error));
    s->made = tn__arena_array(&s->arena, tensors, sizeof *s->made);
    if (s->made == NULL) return tn__no_memory(s->error, "operators that run again");
    for (size_t i = 0; i < tensors; i++) s->made[i] = TN_NONE;
    for (tn_op_id id = 0; id < s->repeats->count; id++) {
        tn_op_form form = tn_op_form_of(s->graph, id, true);
        if (repeats_by_other(&form)) TN_TRY(repeats_op(s, id, &form));
    }
    return tn_graph_infer(s->repeats->graph, s->error);
}

tn_status tn__repeats_make(const tn_context *context, const tn_graph *graph, tn__repeats *repeats,
                           tn_error *error) {
    uint32_t count = tn_graph_op_count(graph);
    bool any = false;
    *repeats = (tn__repeats){.context = tn__context(context)};
    for (tn_op_id id = 0; id < count && !any; id++) {
        tn_op_form form = tn_op_form_of(graph, id, true);
        any = repeats_by_other(&form);
    }
    if (!any) return TN_OK;
    repeats->of = tn__alloc_array(&repeats->context, count, sizeof *repeats->of);
    if (repeats->of == NULL) return tn__no_memory(error, "operators that run again");
    repeats->count = count;
    for (uint32_t i = 0; i < count; i++) repeats->of[i] = TN_NONE;
    repeats_state s = {.graph = graph, .repeats = repeats, .error = error};
    tn__arena_init(&s.arena, &repeats->context);
    tn_status status = repeats_fill(&s);
    tn__arena_release(&s.arena);
    if (status != TN_OK) tn__repeats_release(repeats);
    return status;
}

void tn__repeats_release(tn__repeats *repeats) {
    tn_graph_destroy(repeats->graph);
    tn__free(&repeats->context, repeats->of, repeats->count * sizeof *repeats->of);
    *repeats = (tn__repeats){.context = repeats->context};
}
