/* graph.c - creates graphs, adds tensors, operators and blocks, and reads them.
 *
 * Tensors, operators and blocks are stored in flat arrays, indexed by id. Strings, shapes, operand
 * lists, attributes and values are copied into one arena, so a tensor needs no allocation of its
 * own. Everything is checked and copied before the first change, so a failed call leaves the graph
 * as it was, except for used arena memory. Errors that a call cannot see yet (scopes, cycles,
 * missing producers) are found by tn_graph_infer.
 */
#include "graph/rules/fold.h"
#include "graph/store.h"

/* --- graphs and tensors ----------------------------------------------------------------------- */

#define GRAPH_FLAGS                                                                                \
    (TN_TENSOR_BOUND | TN_TENSOR_FOLDED | TN_TENSOR_STATED | TN_TENSOR_SEQUENCE |                  \
     TN_TENSOR_IS_OUTPUT | TN_TENSOR_UPDATED | TN_TENSOR_IN_FILE | TN_TENSOR_ROW_CACHE)

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
        tn__graph_block *block = &graph->blocks[i];
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

/* Checks that a tensor with known values has a known shape of as many elements, and that the values
 * are integers or floating-point numbers as its element type says. Rules rely on both. */
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
 * shape, every extent of the copy is unknown. If it has neither of them and no element type, the
 * rank is unknown. */
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

/* Reserves one more entry in the main block's lists, so that adding it cannot fail afterwards. */
static bool graph_lists_reserve(tn_graph *graph) {
    tn__graph_block *block = &graph->blocks[0];
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

/* Fills a tensor and its origin from the copied spec. The callers store the lists. */
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
    tn__graph_block *main_block = &graph->blocks[0];
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
    /* of the old specification, only name and block of the tensor stay */
    tn_tensor_spec copy = *spec;
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

/* --- operators and blocks --------------------------------------------------------------------- */

/* Adds operators and blocks to a graph.
 *
 * Everything is checked and copied before the first change. The rule of an operator is looked up
 * once, when the operator is added. The last types are cached, so the cost depends on the number of
 * different types.
 */

/* --- operators --- */

/* Finds the rule of an operator type with a small cache of recent types. The cache keys point to
 * strings of earlier operators in the graph's arena. */
static const tn_op_rule *operators_rule(tn_graph *graph, const char **domain, const char **type) {
    size_t length = strlen(*type);
    unsigned slot = 0;
    if (length) {
        slot = (unsigned)(unsigned char)(*type)[0] * 7u + (unsigned)length * 13u +
               (unsigned)(unsigned char)(*type)[length / 2] * 3u +
               (unsigned)(unsigned char)(*type)[length - 1];
    }
    slot %= sizeof graph->recent / sizeof *graph->recent;
    if (graph->recent[slot].type && !strcmp(graph->recent[slot].type, *type) &&
        !strcmp(graph->recent[slot].domain, *domain)) {
        *type = graph->recent[slot].type;
        *domain = graph->recent[slot].domain;
        return graph->recent[slot].rule;
    }
    const char *type_copy = tn__arena_string(&graph->said, *type, length);
    const char *domain_copy =
        **domain ? tn__arena_string(&graph->said, *domain, strlen(*domain)) : "";
    const tn_op_rule *rule = tn__op_rule(*domain, *type);
    *type = type_copy;
    *domain = domain_copy;
    if (type_copy && domain_copy) {
        graph->recent[slot].type = type_copy;
        graph->recent[slot].domain = domain_copy;
        graph->recent[slot].rule = rule;
    }
    return rule;
}

static bool operators_copy_attr(tn_graph *graph, tn_attr *copy) {
    tn__arena *arena = &graph->said;
    const tn_attr from = *copy;
    const char *name = tn__graph_text(from.name);
    copy->name = tn__arena_string(arena, name, strlen(name));
    copy->ints = NULL;
    copy->floats = NULL;
    copy->strings = NULL;
    bool fine = copy->name != NULL;
    if (from.ints && (from.type == TN_ATTR_INT || from.type == TN_ATTR_INTS))
        fine &= (copy->ints = tn__arena_copy(arena, from.ints, from.count * sizeof(int64_t))) != 0;
    if (from.floats && (from.type == TN_ATTR_FLOAT || from.type == TN_ATTR_FLOATS))
        fine &=
            (copy->floats = tn__arena_copy(arena, from.floats, from.count * sizeof(double))) != 0;
    if (from.strings && (from.type == TN_ATTR_STRING || from.type == TN_ATTR_STRINGS)) {
        const char **list = tn__arena_array(arena, from.count, sizeof *list);
        for (uint32_t i = 0; list && i < from.count; i++)
            fine &= (list[i] = tn__arena_string(arena, from.strings[i], strlen(from.strings[i]))) !=
                    NULL;
        fine &= list != NULL;
        copy->strings = list;
    }
    return fine;
}

static bool operators_copy(tn_graph *graph, const tn_op_spec *spec, tn_op *op) {
    tn__arena *arena = &graph->said;
    const char *name = tn__graph_text(spec->name);
    tn_attr *attrs = tn__arena_array(arena, spec->attr_count, sizeof *attrs);
    op->name = *name ? tn__arena_string(arena, name, strlen(name)) : "";
    op->inputs = tn__arena_copy(arena, spec->inputs, spec->input_count * sizeof *op->inputs);
    op->outputs = tn__arena_copy(arena, spec->outputs, spec->output_count * sizeof *op->outputs);
    op->attrs = attrs;
    if (!op->name || !op->inputs || !op->outputs || !attrs) return false;
    for (uint32_t i = 0; i < spec->attr_count; i++) {
        attrs[i] = spec->attrs[i];
        if (!operators_copy_attr(graph, &attrs[i])) return false;
    }
    return true;
}

static tn_status operators_check_attrs(const tn_graph *graph, const tn_op_spec *spec,
                                       tn_error *error) {
    for (uint32_t i = 0; i < spec->attr_count; i++) {
        const tn_attr *attr = &spec->attrs[i];
        const char *name = tn__graph_text(attr->name);
        if ((unsigned)attr->type > TN_ATTR_BLOCK)
            TN_FAIL(error, TN_E_INVALID, "attribute '%.100s' has no such type", name);
        if (attr->type == TN_ATTR_TENSOR && attr->tensor >= graph->tensor_count)
            TN_FAIL(error, TN_E_INVALID, "attribute '%.100s': there is no tensor %u", name,
                    attr->tensor);
        if (attr->type != TN_ATTR_BLOCK) continue;
        if (attr->block == 0 || attr->block >= graph->block_count)
            TN_FAIL(error, TN_E_INVALID, "attribute '%.100s': there is no sub-block %u", name,
                    attr->block);
        if (graph->blocks[attr->block].view.owner != TN_NONE)
            TN_FAIL(error, TN_E_INVALID, "attribute '%.100s': block %u has an owner already", name,
                    attr->block);
        for (uint32_t j = 0; j < i; j++)
            if (spec->attrs[j].type == TN_ATTR_BLOCK && spec->attrs[j].block == attr->block)
                TN_FAIL(error, TN_E_INVALID, "block %u is given twice", attr->block);
    }
    return TN_OK;
}

static tn_status operators_check_output(const tn_graph *graph, tn_tensor_id id, tn_block_id block,
                                        tn_error *error) {
    const tn_tensor *tensor = &graph->tensors[id];
    tn_kind kind = graph->origins[id].kind;
    if (kind == TN_KIND_INPUT || kind == TN_KIND_PARAMETER || graph->origins[id].formal)
        TN_FAIL(error, TN_E_INVALID,
                "tensor '%.100s' is %s and cannot be computed by an operator as well; names must "
                "be assigned once",
                tensor->name, kind == TN_KIND_PARAMETER ? "a parameter" : "an input of its graph");
    if (tensor->block != block)
        TN_FAIL(error, TN_E_INVALID, "tensor '%.100s' belongs to block %u, its operator to %u",
                tensor->name, tensor->block, block);
    return TN_OK;
}

static tn_status operators_check(const tn_graph *graph, const tn_op_spec *spec, tn_error *error) {
    if (spec->block >= graph->block_count)
        TN_FAIL(error, TN_E_INVALID, "there is no block %u", spec->block);
    if (graph->op_count == TN_NONE - 1) TN_FAIL(error, TN_E_INVALID, "more than 2^32 - 2 nodes");
    for (uint32_t i = 0; i < spec->input_count; i++)
        if (spec->inputs[i] != TN_NONE && spec->inputs[i] >= graph->tensor_count)
            TN_FAIL(error, TN_E_INVALID, "input %u: there is no tensor %u", i, spec->inputs[i]);
    for (uint32_t i = 0; i < spec->output_count; i++) {
        if (spec->outputs[i] == TN_NONE) continue;
        if (spec->outputs[i] >= graph->tensor_count)
            TN_FAIL(error, TN_E_INVALID, "output %u: there is no tensor %u", i, spec->outputs[i]);
        TN_TRY(operators_check_output(graph, spec->outputs[i], spec->block, error));
    }
    return operators_check_attrs(graph, spec, error);
}

/* Makes operator `id` the producer of its outputs. If one of them already has a producer, nothing
 * is changed. */
static tn_status operators_claim_outputs(tn_graph *graph, const tn_op *op, tn_op_id id,
                                         tn_error *error) {
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        tn_tensor *tensor = &graph->tensors[op->outputs[i]];
        if (tensor->producer == TN_NONE) {
            tensor->producer = id;
            continue;
        }
        tn_op_id other = tensor->producer;
        for (uint32_t j = 0; j < i; j++)
            if (op->outputs[j] != TN_NONE) graph->tensors[op->outputs[j]].producer = TN_NONE;
        if (other == id)
            TN_FAIL(error, TN_E_INVALID, "tensor '%.100s' is listed twice as an output",
                    tensor->name);
        TN_FAIL(error, TN_E_INVALID,
                "tensor '%.100s' is computed already, by node '%.60s' (%.40s); names must be "
                "assigned once",
                tensor->name, graph->ops[other].name, graph->ops[other].type);
    }
    return TN_OK;
}

tn_status tn_graph_add_op(tn_graph *graph, const tn_op_spec *spec, tn_op_id *id, tn_error *error) {
    const char *type = tn__graph_text(spec->type), *domain = tn__graph_text(spec->domain);
    tn_status status = operators_check(graph, spec, error);
    tn_op_id new_id = graph->op_count;
    tn_op op = {.version = spec->version,
                .block = spec->block,
                .input_count = spec->input_count,
                .output_count = spec->output_count,
                .attr_count = spec->attr_count};
    const tn_op_rule *rule = NULL;
    if (status == TN_OK) {
        tn__graph_block *block = &graph->blocks[spec->block];
        rule = operators_rule(graph, &domain, &type);
        if (!type || !domain || !operators_copy(graph, spec, &op) ||
            !tn__reserve(&graph->context, &graph->ops, &graph->op_room, (size_t)new_id + 1,
                         sizeof *graph->ops) ||
            !tn__reserve(&graph->context, &graph->rules, &graph->rule_room, (size_t)new_id + 1,
                         sizeof *graph->rules) ||
            !tn__reserve(&graph->context, &block->ops, &block->op_room,
                         (size_t)block->view.op_count + 1, sizeof *block->ops))
            return tn__no_memory(error, "an operator");
        block->view.ops = block->ops;
        status = operators_claim_outputs(graph, &op, new_id, error);
    }
    if (status != TN_OK)
        return tn__where(error, status, "node '%.100s' (%.60s)", tn__graph_text(spec->name),
                         tn__graph_text(spec->type));
    op.type = type;
    op.domain = domain;
    graph->ops[new_id] = op;
    graph->rules[new_id] = rule;
    graph->op_count++;
    tn__graph_block *block = &graph->blocks[spec->block];
    block->ops[block->view.op_count++] = new_id;
    for (uint32_t i = 0; i < op.attr_count; i++)
        if (op.attrs[i].type == TN_ATTR_BLOCK) graph->blocks[op.attrs[i].block].view.owner = new_id;
    if (id) *id = new_id;
    return TN_OK;
}

/* Adds a constant without a name. */
static tn_status graph_add_constant(tn_graph *graph, tn_dtype dtype, uint32_t rank, tn_value value,
                                    tn_tensor_id *id, tn_error *error) {
    int64_t shape[] = {(int64_t)value.count};
    tn_tensor_spec spec = {.name = "",
                           .dtype = dtype,
                           .kind = TN_KIND_CONSTANT,
                           .rank = rank,
                           .shape = shape,
                           .value = value};
    return tn_graph_add_tensor(graph, &spec, id, error);
}

tn_status tn__graph_add_number(tn_graph *graph, tn_dtype dtype, double number, tn_tensor_id *id,
                               tn_error *error) {
    return graph_add_constant(graph, dtype, 0, (tn_value){.count = 1, .floats = &number}, id,
                              error);
}

tn_status tn__graph_add_integer(tn_graph *graph, int64_t number, tn_tensor_id *id,
                                tn_error *error) {
    return graph_add_constant(graph, TN_INT64, 0, (tn_value){.count = 1, .ints = &number}, id,
                              error);
}

tn_status tn__graph_add_list(tn_graph *graph, const int64_t *list, uint32_t count, tn_tensor_id *id,
                             tn_error *error) {
    return graph_add_constant(graph, TN_INT64, 1, (tn_value){.count = count, .ints = list}, id,
                              error);
}

tn_op_spec tn__graph_op_spec(const tn_op *op) {
    return (tn_op_spec){.name = op->name,
                        .type = op->type,
                        .domain = op->domain,
                        .version = op->version,
                        .block = op->block,
                        .inputs = op->inputs,
                        .outputs = op->outputs,
                        .attrs = op->attrs,
                        .input_count = op->input_count,
                        .output_count = op->output_count,
                        .attr_count = op->attr_count};
}

/* --- blocks --- */

tn_status tn_graph_add_block(tn_graph *graph, const char *name, tn_block_id *id, tn_error *error) {
    const char *text = tn__graph_text(name);
    char *copy = tn__arena_string(&graph->said, text, strlen(text));
    if (!copy || !tn__reserve(&graph->context, &graph->blocks, &graph->block_room,
                              (size_t)graph->block_count + 1, sizeof *graph->blocks))
        return tn__no_memory(error, "a block");
    graph->blocks[graph->block_count] = (tn__graph_block){.view = {.name = copy, .owner = TN_NONE}};
    *id = graph->block_count++;
    return TN_OK;
}

static tn_status operators_check_list(const tn_graph *graph, const tn_tensor_id *list,
                                      uint32_t count, tn_error *error) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] >= graph->tensor_count)
            TN_FAIL(error, TN_E_INVALID, "there is no tensor %u", list[i]);
    return TN_OK;
}

static tn_status operators_check_formals(const tn_graph *graph, tn_block_id block,
                                         const tn_tensor_id *list, uint32_t count,
                                         tn_error *error) {
    TN_TRY(operators_check_list(graph, list, count, error));
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = &graph->tensors[list[i]];
        if (tensor->producer != TN_NONE || tensor->block != block)
            TN_FAIL(error, TN_E_INVALID,
                    "tensor '%.100s' cannot be an input of block %u: it is computed by an operator "
                    "or belongs to another block",
                    tensor->name, block);
    }
    return TN_OK;
}

/* Gives tensors in the main block's lists their roles, input or output. */
static void operators_assign_roles(tn_graph *graph, const tn_block *view) {
    for (uint32_t i = 0; i < view->input_count; i++) {
        tn_tensor_id id = view->inputs[i];
        if (graph->origins[id].kind == TN_KIND_ACTIVATION)
            graph->tensors[id].kind = graph->origins[id].kind = TN_KIND_INPUT;
    }
    for (uint32_t i = 0; i < view->output_count; i++) {
        tn_tensor_id id = view->outputs[i];
        graph->tensors[id].flags |= TN_TENSOR_IS_OUTPUT;
        graph->origins[id].flags |= TN_TENSOR_IS_OUTPUT;
        if (graph->origins[id].kind == TN_KIND_ACTIVATION)
            graph->tensors[id].kind = graph->origins[id].kind = TN_KIND_OUTPUT;
    }
}

/* Removes the roles of the tensors in a block's lists, before other lists replace these: formal
 * input and, in the main block, input and output of the graph. */
static void operators_clear_roles(tn_graph *graph, tn_block_id block) {
    const tn_block *view = &graph->blocks[block].view;
    for (uint32_t i = 0; i < view->input_count; i++) {
        tn__origin *origin = &graph->origins[view->inputs[i]];
        origin->formal = false;
        if (!block && origin->kind == TN_KIND_INPUT)
            graph->tensors[view->inputs[i]].kind = origin->kind = TN_KIND_ACTIVATION;
    }
    for (uint32_t i = 0; !block && i < view->output_count; i++) {
        tn_tensor_id id = view->outputs[i];
        graph->tensors[id].flags &= ~(uint32_t)TN_TENSOR_IS_OUTPUT;
        graph->origins[id].flags &= ~(uint32_t)TN_TENSOR_IS_OUTPUT;
        if (graph->origins[id].kind == TN_KIND_OUTPUT)
            graph->tensors[id].kind = graph->origins[id].kind = TN_KIND_ACTIVATION;
    }
}

tn_status tn_graph_set_block_io(tn_graph *graph, tn_block_id block, const tn_tensor_id *inputs,
                                uint32_t input_count, const tn_tensor_id *outputs,
                                uint32_t output_count, tn_error *error) {
    if (block >= graph->block_count) TN_FAIL(error, TN_E_INVALID, "there is no block %u", block);
    TN_TRY(operators_check_formals(graph, block, inputs, input_count, error));
    TN_TRY(operators_check_list(graph, outputs, output_count, error));
    tn__graph_block *to = &graph->blocks[block];
    if (!tn__reserve(&graph->context, &to->inputs, &to->input_room, input_count,
                     sizeof *to->inputs) ||
        !tn__reserve(&graph->context, &to->outputs, &to->output_room, output_count,
                     sizeof *to->outputs))
        return tn__no_memory(error, "the inputs and outputs of a block");
    /* the view's pointers must be set again, because the arrays may have moved when they grew */
    to->view.inputs = to->inputs;
    to->view.outputs = to->outputs;
    operators_clear_roles(graph, block);
    if (input_count) memcpy(to->inputs, inputs, input_count * sizeof *inputs);
    if (output_count) memcpy(to->outputs, outputs, output_count * sizeof *outputs);
    to->view.input_count = input_count;
    to->view.output_count = output_count;
    for (uint32_t i = 0; block && i < input_count; i++) graph->origins[inputs[i]].formal = true;
    if (!block) operators_assign_roles(graph, &to->view);
    return TN_OK;
}
