/* problem.c - turns a computation without a model into a graph of opaque operators and their costs,
 * so that all later stages are the same as for a model.
 *
 *     exists from the start    graph input          held from the start   parameter
 *     kept                     graph output         after                 a tensor without bytes
 *     held after it is made    attribute `held` of the operator: bit of the output
 *     written over an input    attribute `inplace` of the operator: 1 + number of the input
 *
 * Tensors have value i as id i. Cost: O(values + operators + operands).
 */
#include "fit/budget/problem.h"

#include <stdio.h>

#include "fit/budget/costs.h"

typedef struct problem_state {
    const tn__nodes *nodes;
    tn_graph *graph;
    tn_tensor_id *done; /* [nodes] tensor that marks that it has run; TN_NONE: no other node
                         * needs it */
    tn_error *error;
} problem_state;

static tn_status problem_no_memory(const problem_state *s) {
    return tn__no_memory(s->error, "a problem");
}

static tn_status problem_add_tensor(problem_state *s, const char *name, char letter, uint32_t index,
                                    uint64_t bytes, tn_kind kind, uint32_t flags,
                                    tn_tensor_id *id) {
    char text[16];
    int64_t shape[1] = {(int64_t)bytes};
    snprintf(text, sizeof text, "%c%u", letter, index);
    tn_tensor_spec spec = {.name = name != NULL ? name : text,
                           .dtype = TN_UINT8,
                           .kind = kind,
                           .flags = flags,
                           .rank = 1,
                           .shape = shape};
    return tn_graph_add_tensor(s->graph, &spec, id, s->error);
}

static tn_status problem_add_value(problem_state *s, uint32_t index) {
    const tn__node_value *value = &s->nodes->values[index];
    bool ends = value->kept || (value->held && value->made);
    tn_tensor_id id;
    tn_kind kind = value->made   ? ends ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION
                   : value->held ? TN_KIND_PARAMETER
                                 : TN_KIND_INPUT;
    uint32_t flags = kind == TN_KIND_INPUT && value->kept ? TN_TENSOR_IS_OUTPUT : 0;
    return problem_add_tensor(s, value->name, 'v', index, value->bytes, kind, flags, &id);
}

/* Adds a tensor to each node that others must follow, so that they have something to read. */
static tn_status problem_add_done(problem_state *s) {
    for (uint32_t i = 0; i < s->nodes->node_count; i++) s->done[i] = TN_NONE;
    for (uint32_t i = 0; i < s->nodes->node_count; i++)
        for (uint32_t k = 0; k < s->nodes->nodes[i].after_count; k++) {
            uint32_t other = s->nodes->nodes[i].after[k];
            if (s->done[other] != TN_NONE) continue;
            TN_TRY(
                problem_add_tensor(s, NULL, 'd', other, 0, TN_KIND_ACTIVATION, 0, &s->done[other]));
        }
    return TN_OK;
}

static bool problem_is_held(const problem_state *s, const tn__node *node) {
    for (uint32_t k = 0; k < node->output_count; k++)
        if (s->nodes->values[node->outputs[k]].held) return true;
    return false;
}

/* Which outputs are held, as 0 and 1; NULL: out of memory. */
static int64_t *problem_held(const problem_state *s, const tn__node *node) {
    int64_t *held = tn__arena_array(s->nodes->arena, (size_t)node->output_count + 1, sizeof *held);
    for (uint32_t k = 0; held != NULL && k < node->output_count; k++)
        held[k] = s->nodes->values[node->outputs[k]].held;
    return held;
}

static int64_t problem_inplace(const tn__node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] == node->inplace) return i + 1;
    return 0;
}

static tn_status problem_attributes(const problem_state *s, const tn__node *node,
                                    tn_attr attributes[3], int64_t numbers[2], uint32_t *count) {
    *count = 0;
    numbers[0] = (int64_t)node->scratch;
    numbers[1] = problem_inplace(node);
    if (numbers[0] > 0)
        attributes[(*count)++] =
            (tn_attr){.name = "scratch", .type = TN_ATTR_INT, .count = 1, .ints = &numbers[0]};
    if (numbers[1] > 0)
        attributes[(*count)++] =
            (tn_attr){.name = "inplace", .type = TN_ATTR_INT, .count = 1, .ints = &numbers[1]};
    if (!problem_is_held(s, node)) return TN_OK;
    int64_t *held = problem_held(s, node);
    if (held == NULL) return problem_no_memory(s);
    attributes[(*count)++] =
        (tn_attr){.name = "held", .type = TN_ATTR_INTS, .count = node->output_count, .ints = held};
    return TN_OK;
}

/* Operands: values, followed by the tensors that only express order. */
static tn_status problem_operands(const problem_state *s, uint32_t index, tn_op_spec *spec) {
    const tn__node *node = &s->nodes->nodes[index];
    tn_tensor_id *operands = tn__arena_array(
        s->nodes->arena, (size_t)node->input_count + node->after_count + node->output_count + 1,
        sizeof *operands);
    if (operands == NULL) return problem_no_memory(s);
    spec->inputs = operands;
    for (uint32_t k = 0; k < node->input_count; k++) *operands++ = node->inputs[k];
    for (uint32_t k = 0; k < node->after_count; k++) *operands++ = s->done[node->after[k]];
    spec->outputs = operands;
    for (uint32_t k = 0; k < node->output_count; k++) *operands++ = node->outputs[k];
    if (s->done[index] != TN_NONE) *operands++ = s->done[index];
    spec->input_count = node->input_count + node->after_count;
    spec->output_count = node->output_count + (s->done[index] != TN_NONE);
    return TN_OK;
}

static tn_status problem_add_operator(problem_state *s, uint32_t index) {
    const tn__node *node = &s->nodes->nodes[index];
    char name[16];
    tn_attr attributes[3];
    int64_t numbers[2];
    snprintf(name, sizeof name, "o%u", index);
    tn_op_spec spec = {.name = node->name != NULL ? node->name : name,
                       .type = node->once ? "OpaqueOnce" : "Opaque",
                       .domain = "tenure",
                       .attrs = attributes};
    TN_TRY(problem_operands(s, index, &spec));
    TN_TRY(problem_attributes(s, node, attributes, numbers, &spec.attr_count));
    tn_status status = tn_graph_add_op(s->graph, &spec, NULL, s->error);
    return tn__where(s->error, status, "%s: operators[%u]", s->nodes->file, index);
}

/* The graph reports the node, but does not know the file; adds its name to errors. */
static tn_status problem_infer(problem_state *s) {
    char node[sizeof s->error->where];
    tn_status status = tn_graph_infer(s->graph, s->error);
    if (status == TN_OK || s->error == NULL || s->error->where[0] == '\0') return status;
    memcpy(node, s->error->where, sizeof node);
    s->error->where[0] = '\0';
    return tn__where(s->error, status, "%s: %s", s->nodes->file, node);
}

static tn_status problem_graph(problem_state *s) {
    s->done = tn__arena_array(s->nodes->arena, (size_t)s->nodes->node_count + 1, sizeof *s->done);
    if (s->done == NULL) return problem_no_memory(s);
    for (uint32_t i = 0; i < s->nodes->value_count; i++) TN_TRY(problem_add_value(s, i));
    TN_TRY(problem_add_done(s));
    for (uint32_t i = 0; i < s->nodes->node_count; i++) TN_TRY(problem_add_operator(s, i));
    return problem_infer(s);
}

static tn_status problem_costs(problem_state *s, const tn_context *context, tn_costs **costs) {
    tn_costs *made;
    TN_TRY(tn__costs_create(context, s->graph, &made, s->error));
    for (uint32_t i = 0; i < s->nodes->node_count; i++) {
        made->of[i] = s->nodes->nodes[i].cost;
        made->again[i] = s->nodes->nodes[i].again_cost;
    }
    tn_status status = tn__costs_check(made, s->nodes->file, s->error);
    if (status == TN_OK)
        *costs = made;
    else
        tn_costs_destroy(made);
    return status;
}

tn_status tn_fit_problem_load_memory(const char *name, const void *bytes, size_t size,
                                     const tn_context *context, tn_graph **graph, tn_costs **costs,
                                     tn_error *error) {
    tn_context complete = tn__context(context);
    tn__arena arena;
    tn__arena_init(&arena, &complete);
    tn__nodes nodes = {.arena = &arena, .file = name, .error = error};
    problem_state state = {.nodes = &nodes, .error = error};
    tn_status status = tn__nodes_is_log(bytes, size)
                           ? tn__nodes_read_log(&nodes, context, bytes, size)
                           : tn__nodes_read(&nodes, bytes, size);
    if (status == TN_OK) status = tn_graph_create(context, &state.graph, error);
    if (status == TN_OK) status = problem_graph(&state);
    if (status == TN_OK) status = problem_costs(&state, context, costs);
    tn__arena_release(&arena);
    if (status != TN_OK) {
        tn_graph_destroy(state.graph);
        return tn__where(error, status, "%s", name);
    }
    *graph = state.graph;
    return TN_OK;
}

tn_status tn_fit_problem_load(const char *path, const tn_context *context, tn_graph **graph,
                              tn_costs **costs, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_text(path, tn__context(context).read_limit, &file, error));
    tn_status status =
        tn_fit_problem_load_memory(path, file.bytes, file.size, context, graph, costs, error);
    tn__file_unmap(&file);
    return status;
}
