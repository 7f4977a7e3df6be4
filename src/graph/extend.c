/* extend.c - extends a graph by tensors without operators, for programs that own a few. */
#include "graph/extend.h"

#include "graph/store.h"

/* A table of the given graph, with room for more. */
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
    for (uint32_t b = 0; b < made->block_count; b++) { /* lists are read through `view` alone */
        tn__block *block = &made->blocks[b];
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
