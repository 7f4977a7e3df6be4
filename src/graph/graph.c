/* graph.c - creates graphs, adds tensors, and reads both. operators.c adds operators and blocks.
 *
 * Flat arrays by id; strings, shapes, operand lists, attributes and contents are copied into one
 * arena, so a tensor costs no allocation of its own (some 100 ns). Everything is checked and copied
 * before the first change, so a failed call leaves the graph as it was, except for used arena
 * memory. Errors that a call cannot see yet (scopes, cycles, missing producers) are found by
 * tn_graph_infer.
 */
#include "graph/fold.h"
#include "graph/store.h"

#define GRAPH_FLAGS                                                                                \
    (TN_TENSOR_BOUND | TN_TENSOR_FOLDED | TN_TENSOR_STATED | TN_TENSOR_SEQUENCE |                  \
     TN_TENSOR_IS_OUTPUT | TN_TENSOR_UPDATED)

tn_status tn_graph_create(const tn_context *context, tn_graph **graph, tn_error *error) {
    tn_context full = tn__context(context);
    tn_graph *made = tn__alloc_array(&full, 1, sizeof *made);
    if (!made) return tn__no_memory(error, "a graph");
    made->context = full;
    tn__arena_init(&made->said, &made->context);
    tn__arena_init(&made->found, &made->context);
    tn_block_id main_block;
    tn_status status = tn_graph_add_block(made, "main", &main_block, error);
    if (status != TN_OK) {
        tn_graph_destroy(made);
        return status;
    }
    *graph = made;
    return TN_OK;
}

void tn_graph_destroy(tn_graph *graph) {
    if (!graph) return;
    tn_context context = graph->context;
    for (uint32_t i = 0; i < graph->block_count; i++) {
        tn__block *block = &graph->blocks[i];
        tn__free(&context, block->ops, block->op_room * sizeof *block->ops);
        tn__free(&context, block->inputs, block->input_room * sizeof *block->inputs);
        tn__free(&context, block->outputs, block->output_room * sizeof *block->outputs);
    }
    tn__free(&context, graph->blocks, graph->block_room * sizeof *graph->blocks);
    tn__free(&context, graph->tensors, graph->tensor_room * sizeof *graph->tensors);
    tn__free(&context, graph->origins, graph->origin_room * sizeof *graph->origins);
    tn__free(&context, graph->ops, graph->op_room * sizeof *graph->ops);
    tn__free(&context, graph->rules, graph->rule_room * sizeof *graph->rules);
    tn__arena_release(&graph->found);
    tn__arena_release(&graph->said);
    tn__free(&context, graph, sizeof *graph);
}

/* --- tensors --- */

static tn_status graph_check_spec(const tn_graph *graph, const tn_tensor_spec *spec,
                                  tn_error *error) {
    const char *name = tn__graph_text(spec->name);
    if ((unsigned)spec->dtype >= TN_DTYPE_COUNT || (unsigned)spec->kind >= TN_KIND_COUNT ||
        (spec->flags & ~(uint32_t)GRAPH_FLAGS) || (unsigned)spec->format.order > TN_ORDER_NHWC)
        TN_FAIL(error, TN_E_INVALID, "tensor '%.100s': no such type, kind, format or flag", name);
    if (spec->block >= graph->block_count)
        TN_FAIL(error, TN_E_INVALID, "tensor '%.100s': there is no block %u", name, spec->block);
    if (spec->block && (spec->kind == TN_KIND_INPUT || spec->kind == TN_KIND_OUTPUT))
        TN_FAIL(error, TN_E_INVALID,
                "tensor '%.100s': only the main block has tensors of kind %s; give it kind "
                "activation and list it with tn_graph_set_block_io",
                name, tn_kind_name(spec->kind));
    if (spec->rank != TN_RANK_UNKNOWN && spec->rank > TN_RANK_MAX)
        TN_FAIL(error, TN_E_INVALID, "tensor '%.100s' has rank %u; the most is %u", name,
                spec->rank, TN_RANK_MAX);
    if (!spec->shape || spec->rank == TN_RANK_UNKNOWN) return TN_OK;
    for (uint32_t i = 0; i < spec->rank; i++)
        if (spec->shape[i] < 0 && spec->shape[i] != TN_DIM_UNKNOWN)
            TN_FAIL(error, TN_E_INVALID,
                    "tensor '%.100s': dimension %u is negative (%lld); use TN_DIM_UNKNOWN for one "
                    "that is not known",
                    name, i, (long long)spec->shape[i]);
    return TN_OK;
}

/* Contents must be as many as the extents say, and of the type's class: rules rely on both. */
static tn_status graph_check_value(const tn_tensor_spec *spec, tn_error *error) {
    uint64_t count = 1;
    bool known = spec->rank != TN_RANK_UNKNOWN && (spec->shape || !spec->rank);
    if (!spec->value.count || (!spec->value.ints && !spec->value.floats)) return TN_OK;
    for (uint32_t i = 0; known && i < spec->rank; i++)
        known = spec->shape[i] >= 0 && tn__mul(count, (uint64_t)spec->shape[i], &count);
    if (!known || count != spec->value.count)
        TN_FAIL(error, TN_E_INVALID,
                "tensor '%.100s': contents of %u elements do not fit its shape",
                tn__graph_text(spec->name), spec->value.count);
    if (tn__is_integer(spec->dtype) != (spec->value.ints != NULL))
        TN_FAIL(error, TN_E_INVALID, "tensor '%.100s': contents are not of type %s",
                tn__graph_text(spec->name), tn_dtype_name(spec->dtype));
    return TN_OK;
}

/* Copies the rank and the shape of a spec into the graph's arena. If the spec has a rank but no
 * shape, every extent of the copy is unknown. */
static bool graph_copy_shape(tn_graph *graph, const tn_tensor_spec *spec, uint32_t *rank,
                             const int64_t **shape) {
    *rank = spec->rank;
    *shape = NULL;
    if (!spec->shape && !spec->rank && spec->dtype == TN_UNDEFINED) *rank = TN_RANK_UNKNOWN;
    if (*rank == 0 || *rank == TN_RANK_UNKNOWN) return true;
    int64_t *copy = tn__arena_array(&graph->said, *rank, sizeof *copy);
    if (!copy) return false;
    for (uint32_t i = 0; i < *rank; i++) copy[i] = spec->shape ? spec->shape[i] : TN_DIM_UNKNOWN;
    *shape = copy;
    return true;
}

static bool graph_copy_value(tn_graph *graph, const tn_value *value, const tn_value **copy) {
    *copy = NULL;
    if (!value->count || value->count > TN_VALUE_MAX || (!value->ints && !value->floats))
        return true;
    tn_value *made = tn__arena_alloc(&graph->said, sizeof *made);
    if (!made) return false;
    made->count = value->count;
    if (value->ints)
        made->ints = tn__arena_copy(&graph->said, value->ints, value->count * sizeof(int64_t));
    else
        made->floats = tn__arena_copy(&graph->said, value->floats, value->count * sizeof(double));
    *copy = made;
    return made->ints || made->floats;
}

/* Room for one more entry in the main block's lists, so that entering cannot fail afterwards. */
static bool graph_lists_reserve(tn_graph *graph) {
    tn__block *block = &graph->blocks[0];
    bool fine = tn__reserve(&graph->context, &block->inputs, &block->input_room,
                            (size_t)block->view.input_count + 1, sizeof *block->inputs) &&
                tn__reserve(&graph->context, &block->outputs, &block->output_room,
                            (size_t)block->view.output_count + 1, sizeof *block->outputs);
    block->view.inputs = block->inputs;
    block->view.outputs = block->outputs;
    return fine;
}

static bool graph_is_listed(const tn_tensor_id *list, uint32_t count, tn_tensor_id id) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == id) return true;
    return false;
}

/* Fills a tensor and its origin from the copied data; the callers store the lists. */
static void graph_fill(tn_graph *graph, tn_tensor_id id, const tn_tensor_spec *spec, uint32_t rank,
                       const int64_t *shape, const tn_value *value) {
    tn_tensor *tensor = &graph->tensors[id];
    tn__origin *origin = &graph->origins[id];
    uint32_t flags = spec->flags | (tensor->flags & TN_TENSOR_IS_OUTPUT);
    if (spec->kind == TN_KIND_OUTPUT) flags |= TN_TENSOR_IS_OUTPUT;
    if (rank != TN_RANK_UNKNOWN) flags |= TN_TENSOR_STATED;
    tensor->dtype = origin->dtype = spec->dtype;
    tensor->kind = origin->kind = spec->kind;
    tensor->format = spec->format;
    tensor->flags = origin->flags = flags;
    tensor->rank = origin->rank = rank;
    tensor->shape = origin->shape = shape;
    tensor->value = origin->value = value;
    if (spec->payload.size > 0) tensor->payload = spec->payload;
    tensor->bytes = TN_SIZE_UNKNOWN;
    tensor->repeat = flags & TN_TENSOR_SEQUENCE ? TN_SIZE_UNKNOWN : 1;
    origin->loose = NULL;
}

tn_status tn_graph_add_tensor(tn_graph *graph, const tn_tensor_spec *spec, tn_tensor_id *id,
                              tn_error *error) {
    TN_TRY(graph_check_spec(graph, spec, error));
    TN_TRY(graph_check_value(spec, error));
    uint32_t new_id = graph->tensor_count, rank;
    if (new_id == TN_NONE - 1) TN_FAIL(error, TN_E_INVALID, "more than 2^32 - 2 tensors");
    const char *text = tn__graph_text(spec->name);
    const int64_t *shape;
    const tn_value *value;
    char *name = tn__arena_string(&graph->said, text, strlen(text));
    bool listed = spec->kind == TN_KIND_INPUT || spec->kind == TN_KIND_OUTPUT ||
                  (spec->flags & TN_TENSOR_IS_OUTPUT);
    if (!name || !graph_copy_shape(graph, spec, &rank, &shape) ||
        !graph_copy_value(graph, &spec->value, &value) ||
        !tn__reserve(&graph->context, &graph->tensors, &graph->tensor_room, (size_t)new_id + 1,
                     sizeof *graph->tensors) ||
        !tn__reserve(&graph->context, &graph->origins, &graph->origin_room, (size_t)new_id + 1,
                     sizeof *graph->origins) ||
        (listed && !graph_lists_reserve(graph)))
        return tn__no_memory(error, "a tensor");
    graph->tensors[new_id] = (tn_tensor){.name = name, .producer = TN_NONE, .block = spec->block};
    graph->origins[new_id] = (tn__origin){0};
    graph_fill(graph, new_id, spec, rank, shape, value);
    graph->tensor_count++;
    tn__block *main_block = &graph->blocks[0];
    if (spec->kind == TN_KIND_INPUT) main_block->inputs[main_block->view.input_count++] = new_id;
    if (graph->tensors[new_id].flags & TN_TENSOR_IS_OUTPUT && !spec->block)
        main_block->outputs[main_block->view.output_count++] = new_id;
    *id = new_id;
    return TN_OK;
}

tn_status tn_graph_set_tensor(tn_graph *graph, tn_tensor_id id, const tn_tensor_spec *spec,
                              tn_error *error) {
    if (id >= graph->tensor_count) TN_FAIL(error, TN_E_INVALID, "there is no tensor %u", id);
    tn_tensor *tensor = &graph->tensors[id];
    tn_tensor_spec copy = *spec; /* name and block stay */
    copy.name = tensor->name;
    copy.block = tensor->block;
    TN_TRY(graph_check_spec(graph, &copy, error));
    TN_TRY(graph_check_value(&copy, error));
    if (copy.kind == TN_KIND_INPUT && tensor->producer != TN_NONE)
        TN_FAIL(error, TN_E_INVALID, "tensor '%.100s' has a producer, so it cannot be an input",
                tensor->name);
    const int64_t *shape;
    const tn_value *value;
    uint32_t rank;
    if (!graph_copy_shape(graph, &copy, &rank, &shape) ||
        !graph_copy_value(graph, &copy.value, &value) || !graph_lists_reserve(graph))
        return tn__no_memory(error, "a tensor");
    tn_block *view = &graph->blocks[0].view;
    tn_kind before = graph->origins[id].kind;
    graph_fill(graph, id, &copy, rank, shape, value);
    if (copy.kind == TN_KIND_INPUT && before != TN_KIND_INPUT)
        graph->blocks[0].inputs[view->input_count++] = id;
    if (copy.kind != TN_KIND_INPUT && before == TN_KIND_INPUT) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < view->input_count; i++)
            if (view->inputs[i] != id) graph->blocks[0].inputs[kept++] = view->inputs[i];
        view->input_count = kept;
    }
    if (!tensor->block && tensor->flags & TN_TENSOR_IS_OUTPUT &&
        !graph_is_listed(view->outputs, view->output_count, id))
        graph->blocks[0].outputs[view->output_count++] = id;
    return TN_OK;
}

tn_tensor_spec tn__graph_spec(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = &graph->tensors[id];
    const tn__origin *origin = &graph->origins[id];
    tn_tensor_spec spec = {.name = tensor->name,
                           .dtype = origin->dtype,
                           .kind = origin->kind,
                           .format = tensor->format,
                           .flags = origin->flags & ~(uint32_t)TN_TENSOR_STATED,
                           .rank = origin->rank,
                           .shape = origin->shape,
                           .block = tensor->block,
                           .payload = tensor->payload};
    if (origin->value != NULL) spec.value = *origin->value;
    return spec;
}

/* --- reading --- */

const tn_context *tn_graph_context(const tn_graph *graph) { return &graph->context; }
uint32_t tn_graph_tensor_count(const tn_graph *graph) { return graph->tensor_count; }
uint32_t tn_graph_op_count(const tn_graph *graph) { return graph->op_count; }
uint32_t tn_graph_block_count(const tn_graph *graph) { return graph->block_count; }

const tn_tensor *tn_graph_tensor(const tn_graph *graph, tn_tensor_id id) {
    tn_assert(id < graph->tensor_count);
    return &graph->tensors[id];
}

const tn_op *tn_graph_op(const tn_graph *graph, tn_op_id id) {
    tn_assert(id < graph->op_count);
    return &graph->ops[id];
}

const tn_block *tn_graph_block(const tn_graph *graph, tn_block_id id) {
    tn_assert(id < graph->block_count);
    return &graph->blocks[id].view;
}

tn_tensor_id tn_graph_find(const tn_graph *graph, const char *name) {
    for (uint32_t id = 0; id < graph->tensor_count; id++)
        if (!graph->tensors[id].block && !strcmp(graph->tensors[id].name, name)) return id;
    return TN_NONE;
}
