/* onnx_graph.c - reads GraphProto: a block's names, its tensors, and its nodes.
 *
 * A block is read in several passes over its fields; each skips the fields that it does not need:
 *
 *   1. value_info and outputs: which names have a stated shape
 *   2. initializers and inputs  \  every name gets its tensor before any use is resolved,
 *   3. outputs of all nodes     /  so files need not be sorted
 *   4. nodes: operands and attributes resolved, operators added, functions inlined
 *   5. inputs and outputs of the block
 *
 * Names: a block sees its own names and those of the blocks around it; its own come first, in the
 * whole block. ONNX requires one producer per name and forbids that a node hides a visible name of
 * an outer graph; the first is checked, the second is harmless here and occurs in files.
 *
 * Cost: O(fields), one hash look-up per name. Payloads are skipped.
 */
#include "io/import/onnx/onnx_reader.h"

/* --- options for the inputs of the main graph ------------------------------------------------- */

/* Applies --dim, --input-shape and --parameters to the inputs of the main graph.
 *
 * --input-shape may contradict the file. Then the shapes that the file states for computed tensors
 * belong to another model; they are dropped, and shape inference alone decides. A symbol of the
 * input gets its value everywhere, as if by --dim, and contradicts nothing.
 */

/* Gives the symbols of an input the extents of the option, and notes whether these contradict an
 * extent of the file. */
static tn_status onnx_bind_input(onnx_reader *reader, tn__span message, tn__span name,
                                 const tn_input_shape *given) {
    onnx_type type;
    TN_TRY(tn__onnx_value_info(reader, message, &type));
    if (type.rank == TN_RANK_UNKNOWN) return TN_OK;
    if (type.rank != given->rank) {
        reader->drop_stated = true;
        return TN_OK;
    }
    for (uint32_t i = 0; i < type.rank; i++) {
        if (type.symbols[i].size) {
            tn_status status = tn__dims_bind(&reader->importer->dims, type.symbols[i],
                                             given->shape[i], given->name, reader->importer->error);
            if (status != TN_OK) return tn__onnx_where(reader, status, "input", name);
        } else if (type.shape[i] != TN_DIM_UNKNOWN && type.shape[i] != given->shape[i]) {
            reader->drop_stated = true;
        }
    }
    return TN_OK;
}

/* Gives the symbols of the main graph's inputs the extents of the options. */
static tn_status onnx_bind_inputs(onnx_reader *reader, tn__span graph) {
    if (!reader->importer->options->input_shape_count) return TN_OK;
    tn__wire wire = tn__onnx_open(reader, graph, &tn__onnx_graph_schema);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != ONNX_GRAPH_INPUT) continue;
        tn__span name;
        TN_TRY(tn__onnx_value_info_name(reader, field.span, &name));
        const tn_input_shape *given = tn__import_shape(reader->importer, name);
        if (given) TN_TRY(onnx_bind_input(reader, field.span, name, given));
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* Registers the dimensions that the shape of an input leaves open. */
static bool onnx_need(onnx_reader *reader, const char *name, const onnx_type *type) {
    tn__dims *dims = &reader->importer->dims;
    bool is_tensor = type->dtype != TN_UNDEFINED && !type->flags;
    if (type->rank == TN_RANK_UNKNOWN)
        return !is_tensor || tn__dims_need_shape(dims, name, TN_RANK_UNKNOWN);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->symbols[i].size) {
            if (!tn__dims_need(dims, type->symbols[i])) return false;
        } else if (type->shape[i] == TN_DIM_UNKNOWN) {
            if (!tn__dims_need_shape(dims, name, i)) return false;
        }
    }
    return true;
}

/* Sets the requested batch: the first extent of the first input, and of those inputs that share
 * it. */
static tn_status onnx_set_batch(onnx_reader *reader, const char *name, onnx_type *type) {
    int64_t batch = reader->importer->options->batch;
    if (batch <= 0 || type->rank == 0 || type->rank == TN_RANK_UNKNOWN || type->flags) return TN_OK;
    if (!reader->batch_known) {
        reader->batch_known = true;
        reader->batch_symbol = type->symbols[0];
        reader->batch_extent = type->shape[0];
        if (type->symbols[0].size)
            return tn__dims_bind(&reader->importer->dims, type->symbols[0], batch, name,
                                 reader->importer->error);
    }
    bool same = !type->symbols[0].size && !reader->batch_symbol.size &&
                type->shape[0] == reader->batch_extent;
    if (!same) return TN_OK;
    if (type->shape[0] != batch) reader->drop_stated = true;
    type->shape[0] = batch;
    return TN_OK;
}

/* Applies the options to one input of the main graph. */
static tn_status onnx_main_input(onnx_reader *reader, tn__span name, onnx_type *type,
                                 tn_kind *kind) {
    const char *text = tn__onnx_text(reader, 1, "", name);
    if (!text) return tn__onnx_no_memory(reader);
    const tn_input_shape *given = tn__import_shape(reader->importer, name);
    if (given) {
        type->rank = given->rank;
        memcpy(type->shape, given->shape, given->rank * sizeof *given->shape);
    } else {
        if (!tn__import_is_parameter(reader->importer, text))
            TN_TRY(onnx_set_batch(reader, text, type));
        if (!onnx_need(reader, text, type)) return tn__onnx_no_memory(reader);
        tn__onnx_type_settle(reader, type);
    }
    if (tn__import_is_parameter(reader->importer, text)) *kind = TN_KIND_PARAMETER;
    return TN_OK;
}

/* --- scopes --- */

/* Creates a scope. It exists as long as a name may still be looked up in it, so that a file of many
 * small subgraphs does not keep a table for each. */
tn_status tn__onnx_scope_create(onnx_reader *reader, const onnx_scope *from, onnx_scope **scope) {
    onnx_scope *made = tn__alloc(reader->importer->context, sizeof *made);
    if (!made) {
        tn__onnx_scope_drop(reader, from->holds);
        return tn__onnx_no_memory(reader);
    }
    *made = *from;
    tn__names_init(&made->names, reader->importer->context);
    made->users = 1;
    made->after = reader->scopes;
    if (made->after) made->after->before = made;
    reader->scopes = made;
    *scope = made;
    return TN_OK;
}

void tn__onnx_scope_drop(onnx_reader *reader, onnx_scope *scope) {
    const tn_context *context = reader->importer->context;
    while (scope && --scope->users == 0) {
        onnx_scope *holds = scope->holds;
        if (scope->after) scope->after->before = scope->before;
        *(scope->before ? &scope->before->after : &reader->scopes) = scope->after;
        tn__names_release(&scope->names);
        tn__free(context, scope->locals, scope->local_room * sizeof *scope->locals);
        tn__free(context, scope, sizeof *scope);
        scope = holds;
    }
}

tn_status tn__onnx_local(onnx_reader *reader, onnx_scope *scope, tn__span name,
                         onnx_local **local) {
    uint32_t existing;
    if (scope->local_count == TN__NAMES_NONE)
        TN_FAIL(reader->importer->error, TN_E_UNSUPPORTED, "more than 2^32 - 2 names in a graph");
    if (!tn__reserve(reader->importer->context, &scope->locals, &scope->local_room,
                     scope->local_count + 1, sizeof *scope->locals) ||
        !tn__names_add(&scope->names, (const char *)name.bytes, name.size,
                       (uint32_t)scope->local_count, &existing))
        return tn__onnx_no_memory(reader);
    if (existing == TN__NAMES_NONE) {
        existing = (uint32_t)scope->local_count++;
        scope->locals[existing] = (onnx_local){.tensor = TN_NONE, .target = TN_NONE};
    }
    *local = &scope->locals[existing];
    return TN_OK;
}

const onnx_local *tn__onnx_resolve(const onnx_scope *scope, tn__span name) {
    for (; scope; scope = scope->parent) {
        uint32_t at = tn__names_find(&scope->names, (const char *)name.bytes, name.size);
        if (at != TN__NAMES_NONE && scope->locals[at].origin) return &scope->locals[at];
    }
    return NULL;
}

static uint32_t onnx_node_field(const onnx_scope *scope) {
    return scope->is_function ? ONNX_FUNCTION_NODE : ONNX_GRAPH_NODE;
}
static tn__wire onnx_body(const onnx_reader *reader, const onnx_scope *scope) {
    return tn__onnx_open(reader, scope->body,
                         scope->is_function ? &tn__onnx_function_schema : &tn__onnx_graph_schema);
}

/* --- pass 1: names with a shape that the file states --- */

/* Notes which names have a stated shape. value_info has precedence over the list of outputs:
 * exporters that know more about a name put it there, and otherwise both state equal shapes. */
tn_status tn__onnx_index_stated(onnx_reader *reader, onnx_scope *scope) {
    uint32_t stated =
        scope->is_function ? (uint32_t)ONNX_FUNCTION_VALUE_INFO : (uint32_t)ONNX_GRAPH_VALUE_INFO;
    tn__wire wire = onnx_body(reader, scope);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        bool is_output = !scope->is_function && field.number == ONNX_GRAPH_OUTPUT;
        if (field.number != stated && !is_output) continue;
        tn__span name;
        onnx_local *local;
        TN_TRY(tn__onnx_value_info_name(reader, field.span, &name));
        if (!name.size) continue;
        TN_TRY(tn__onnx_local(reader, scope, name, &local));
        if (!local->stated.size || !is_output) local->stated = field.span;
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* --- passes 2 and 3: every name gets its tensor --- */

static tn_status onnx_add_tensor(onnx_reader *reader, const onnx_scope *scope, tn__span name,
                                 tn_tensor_spec *spec, onnx_origin origin, onnx_local *local) {
    spec->name = tn__onnx_text(reader, 0, scope->prefix, name);
    if (!spec->name) return tn__onnx_no_memory(reader);
    spec->block = scope->block;
    local->origin = origin;
    return tn_graph_add_tensor(reader->importer->graph, spec, &local->tensor,
                               reader->importer->error);
}

/* Adds a computed tensor, with type and shape as far as the file states them. */
static tn_status onnx_add_stated(onnx_reader *reader, const onnx_scope *scope, tn__span name,
                                 onnx_local *local) {
    onnx_type type;
    tn_tensor_spec spec = {.kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    if (local->stated.size) {
        TN_TRY(tn__onnx_value_info(reader, local->stated, &type));
        spec.dtype = type.dtype;
        spec.flags = type.flags;
        if (!reader->drop_stated && type.rank != TN_RANK_UNKNOWN) {
            tn__onnx_type_settle(reader, &type);
            spec.rank = type.rank;
            spec.shape = type.shape;
        }
    }
    return onnx_add_tensor(reader, scope, name, &spec, ONNX_BY_NODE, local);
}

static tn_status onnx_fail_double(const onnx_reader *reader, const char *what, tn__span name) {
    tn_status status = tn__fail(reader->importer->error, TN_E_INVALID,
                                "two %ss of one graph have this name", what);
    return tn__onnx_where(reader, status, what, name);
}

static tn_status onnx_read_initializer(onnx_reader *reader, onnx_scope *scope, tn__span message,
                                       bool sparse) {
    onnx_tensor tensor;
    onnx_local *local;
    tn_status status = tn__onnx_tensor(reader, message, sparse, &tensor);
    if (status != TN_OK)
        return tn__onnx_where(reader, status, "initializer",
                              tn__onnx_tensor_name(reader, message, sparse));
    if (!tensor.name.size)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "an initializer has no name");
    TN_TRY(tn__onnx_local(reader, scope, tensor.name, &local));
    /* ignores an initializer that gives an input of a subgraph its default value */
    if (local->origin == ONNX_BY_INPUT) return TN_OK;
    if (local->origin) return onnx_fail_double(reader, "initializer", tensor.name);
    tn_tensor_spec spec = {.kind = TN_KIND_PARAMETER,
                           .dtype = tensor.dtype,
                           .rank = tensor.rank,
                           .shape = tensor.shape,
                           .payload = tn__onnx_payload(reader, message)};
    TN_TRY(tn__onnx_value(reader, &tensor, &spec.value));
    return onnx_add_tensor(reader, scope, tensor.name, &spec, ONNX_BY_INITIALIZER, local);
}

static tn_status onnx_read_initializers(onnx_reader *reader, onnx_scope *scope) {
    tn__wire wire = onnx_body(reader, scope);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        bool sparse = field.number == ONNX_GRAPH_SPARSE;
        if (sparse || field.number == ONNX_GRAPH_INITIALIZER)
            TN_TRY(onnx_read_initializer(reader, scope, field.span, sparse));
    }
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_read_input(onnx_reader *reader, onnx_scope *scope, tn__span message) {
    tn__span name;
    onnx_local *local;
    onnx_type type;
    /* tn_graph_set_block_io makes this tensor an input later */
    tn_tensor_spec spec = {.kind = TN_KIND_ACTIVATION};
    TN_TRY(tn__onnx_value_info_name(reader, message, &name));
    if (!name.size)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "an input of the graph has no name");
    TN_TRY(tn__onnx_value_info(reader, message, &type));
    TN_TRY(tn__onnx_local(reader, scope, name, &local));
    /* the input has a default value, so it is a parameter and already has a tensor */
    if (local->origin == ONNX_BY_INITIALIZER) return TN_OK;
    if (local->origin) return onnx_fail_double(reader, "input", name);
    if (scope->block == 0)
        TN_TRY(onnx_main_input(reader, name, &type, &spec.kind));
    else
        tn__onnx_type_settle(reader, &type);
    spec.dtype = type.dtype;
    spec.flags = type.flags;
    spec.rank = type.rank;
    spec.shape = type.rank == TN_RANK_UNKNOWN ? NULL : type.shape;
    return onnx_add_tensor(reader, scope, name, &spec, ONNX_BY_INPUT, local);
}

static tn_status onnx_read_inputs(onnx_reader *reader, onnx_scope *scope) {
    tn__wire wire = onnx_body(reader, scope);
    tn__field field;
    while (tn__wire_next(&wire, &field))
        if (field.number == ONNX_GRAPH_INPUT) TN_TRY(onnx_read_input(reader, scope, field.span));
    return tn__wire_close(&wire, reader->importer->error);
}

/* Finds the first node of the body that computes `name`, for the error that a second one does
 * so. */
static tn_status onnx_first_producer(onnx_reader *reader, const onnx_scope *scope, tn__span name,
                                     onnx_node *node) {
    tn__wire wire = onnx_body(reader, scope);
    tn__field field, output;
    *node = (onnx_node){0};
    while (tn__wire_next(&wire, &field)) {
        if (field.number != onnx_node_field(scope)) continue;
        tn__wire inner = tn__onnx_open(reader, field.span, &tn__onnx_node_schema);
        while (tn__wire_next(&inner, &output))
            if (output.number == ONNX_NODE_OUTPUT && tn__span_equal(output.span, name))
                return tn__onnx_node(reader, field.span, node);
    }
    return TN_OK;
}

static tn_status onnx_fail_producer(onnx_reader *reader, const onnx_scope *scope, tn__span message,
                                    tn__span name, onnx_origin origin) {
    onnx_node first, second;
    TN_TRY(tn__onnx_node(reader, message, &second));
    TN_TRY(onnx_first_producer(reader, scope, name, &first));
    const char *text = tn__onnx_text(reader, 0, "", name);
    const char *node = tn__onnx_text(reader, 1, "", first.name.size ? first.name : first.output);
    const char *type = tn__onnx_text(reader, 2, "", first.type);
    if (!text || !node || !type) return tn__onnx_no_memory(reader);
    tn_status status;
    tn_error *error = reader->importer->error;
    if (origin == ONNX_BY_NODE)
        status = tn__fail(error, TN_E_INVALID,
                          "it computes '%.100s', which node '%.80s' (%.40s) computes too; a name "
                          "must be assigned once",
                          text, node, type);
    else
        status = tn__fail(error, TN_E_INVALID,
                          "it computes '%.100s', which is an %s of its graph; a name must be "
                          "assigned once",
                          text, origin == ONNX_BY_INPUT ? "input" : "initializer");
    return tn__onnx_node_where(reader, status, scope, &second);
}

static tn_status onnx_declare_output(onnx_reader *reader, onnx_scope *scope, tn__span message,
                                     tn__span name) {
    onnx_local *local;
    if (!name.size) return TN_OK;
    TN_TRY(tn__onnx_local(reader, scope, name, &local));
    if (local->origin) return onnx_fail_producer(reader, scope, message, name, local->origin);
    if (local->target == TN_NONE) return onnx_add_stated(reader, scope, name, local);
    local->origin = ONNX_BY_NODE;
    local->tensor = local->target;
    return TN_OK;
}

tn_status tn__onnx_declare_nodes(onnx_reader *reader, onnx_scope *scope) {
    tn__wire wire = onnx_body(reader, scope);
    tn__field field, output;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != onnx_node_field(scope)) continue;
        tn__wire inner = tn__onnx_open(reader, field.span, &tn__onnx_node_schema);
        while (tn__wire_next(&inner, &output))
            if (output.number == ONNX_NODE_OUTPUT)
                TN_TRY(onnx_declare_output(reader, scope, field.span, output.span));
        TN_TRY(tn__wire_close(&inner, reader->importer->error));
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* --- pass 4: the nodes --- */

typedef struct onnx_frame {
    tn__wire wire;
    onnx_scope *scope;
} onnx_frame;

/* Adds a node to the graph, or pushes a frame for the function that it calls. */
static tn_status onnx_visit(onnx_reader *reader, onnx_frame *frames, uint32_t *depth,
                            tn__span message) {
    onnx_scope *scope = frames[*depth - 1].scope;
    onnx_node node;
    TN_TRY(tn__onnx_node(reader, message, &node));
    const onnx_function *function = tn__onnx_function_find(reader, &node);
    if (!function) return tn__onnx_add_op(reader, scope, &node);
    tn_status status = TN_E_INVALID;
    if (*depth == ONNX_DEPTH_MAX) {
        status = tn__fail(reader->importer->error, TN_E_INVALID,
                          "functions call each other more than %u deep", ONNX_DEPTH_MAX);
        return tn__onnx_node_where(reader, status, scope, &node);
    }
    onnx_scope *body = NULL;
    status = tn__onnx_call_open(reader, scope, &node, function, &body);
    if (status != TN_OK) return tn__onnx_node_where(reader, status, scope, &node);
    frames[(*depth)++] = (onnx_frame){onnx_body(reader, body), body};
    return TN_OK;
}

/* Visits all nodes in file order, and the nodes of a function at each call. */
static tn_status onnx_walk(onnx_reader *reader, onnx_scope *scope) {
    onnx_frame frames[ONNX_DEPTH_MAX] = {{onnx_body(reader, scope), scope}};
    uint32_t depth = 1;
    tn__field field;
    while (depth) {
        onnx_frame *top = &frames[depth - 1];
        if (tn__wire_next(&top->wire, &field)) {
            if (field.number == onnx_node_field(top->scope))
                TN_TRY(onnx_visit(reader, frames, &depth, field.span));
            continue;
        }
        TN_TRY(tn__wire_close(&top->wire, reader->importer->error));
        if (top->scope->is_function) TN_TRY(tn__onnx_call_close(reader, top->scope));
        depth--;
    }
    return TN_OK;
}

/* --- pass 5: the inputs and outputs of the block --- */

static tn_status onnx_push_id(onnx_reader *reader, size_t at, tn_tensor_id id) {
    if (!tn__reserve(reader->importer->context, &reader->ids, &reader->id_room, at + 1,
                     sizeof *reader->ids))
        return tn__onnx_no_memory(reader);
    reader->ids[at] = id;
    return TN_OK;
}

/* Looks up the ids of the names in one list. Inputs that have become parameters are left out. An
 * output may be a name of an outer graph. */
static tn_status onnx_list(onnx_reader *reader, const onnx_scope *scope, uint32_t list,
                           size_t *count) {
    tn__wire wire = onnx_body(reader, scope);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != list) continue;
        tn__span name;
        TN_TRY(tn__onnx_value_info_name(reader, field.span, &name));
        const onnx_local *local = tn__onnx_resolve(scope, name);
        if (!local || local->tensor == TN_NONE) {
            tn_status status =
                tn__fail(reader->importer->error, TN_E_INVALID,
                         "no node computes this output, and no input or initializer has its name");
            return tn__onnx_where(reader, status, "output", name);
        }
        bool has_default = list == ONNX_GRAPH_INPUT && local->origin != ONNX_BY_INPUT;
        bool is_static =
            list == ONNX_GRAPH_INPUT && scope->block == 0 &&
            tn_graph_tensor(reader->importer->graph, local->tensor)->kind == TN_KIND_PARAMETER;
        if (has_default || is_static) continue;
        TN_TRY(onnx_push_id(reader, (*count)++, local->tensor));
    }
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_set_io(onnx_reader *reader, const onnx_scope *scope) {
    size_t inputs = 0, all;
    TN_TRY(onnx_list(reader, scope, ONNX_GRAPH_INPUT, &inputs));
    all = inputs;
    TN_TRY(onnx_list(reader, scope, ONNX_GRAPH_OUTPUT, &all));
    if (all > UINT32_MAX)
        TN_FAIL(reader->importer->error, TN_E_UNSUPPORTED, "more than 2^32 inputs and outputs");
    /* adds a dummy entry, so that even empty lists have an address */
    TN_TRY(onnx_push_id(reader, all, TN_NONE));
    return tn_graph_set_block_io(reader->importer->graph, scope->block, reader->ids,
                                 (uint32_t)inputs, reader->ids + inputs, (uint32_t)(all - inputs),
                                 reader->importer->error);
}

/* --- a graph that becomes part of the block around it --- */

/* Finds the only name in a list of the graph: its inputs without a default value, or its outputs.
 */
static tn_status onnx_join_name(onnx_reader *reader, onnx_scope *scope, uint32_t list,
                                tn__span *name) {
    const char *what = list == ONNX_GRAPH_INPUT ? "input" : "output";
    tn__wire wire = onnx_body(reader, scope);
    tn__field field;
    *name = (tn__span){0};
    while (tn__wire_next(&wire, &field)) {
        tn__span found;
        if (field.number != list) continue;
        TN_TRY(tn__onnx_value_info_name(reader, field.span, &found));
        if (name->size || !found.size)
            TN_FAIL(reader->importer->error, TN_E_INVALID,
                    "a graph in an attribute of FlexAttention needs one named %s", what);
        *name = found;
    }
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    if (!name->size)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "a graph in an attribute of FlexAttention has no %s", what);
    return TN_OK;
}

/* Copies the graph's output to the tensor for it. */
static tn_status onnx_join_result(onnx_reader *reader, onnx_scope *scope, tn_tensor_id result) {
    tn__span name;
    TN_TRY(onnx_join_name(reader, scope, ONNX_GRAPH_OUTPUT, &name));
    const onnx_local *local = tn__onnx_resolve(scope, name);
    if (!local || local->tensor == TN_NONE) {
        tn_status status =
            tn__fail(reader->importer->error, TN_E_INVALID,
                     "no node computes this output, and no input or initializer has its name");
        return tn__onnx_where(reader, status, "output", name);
    }
    tn_op_spec copy = {.type = "Identity",
                       .block = scope->block,
                       .inputs = &local->tensor,
                       .input_count = 1,
                       .outputs = &result,
                       .output_count = 1};
    return tn_graph_add_op(reader->importer->graph, &copy, NULL, reader->importer->error);
}

static tn_status onnx_read_joined(onnx_reader *reader, onnx_scope *scope,
                                  const onnx_pending *pending) {
    tn__span name;
    onnx_local *local;
    TN_TRY(tn__onnx_index_stated(reader, scope));
    TN_TRY(onnx_join_name(reader, scope, ONNX_GRAPH_INPUT, &name));
    TN_TRY(tn__onnx_local(reader, scope, name, &local));
    local->origin = ONNX_BY_INPUT;
    local->tensor = pending->given;
    TN_TRY(onnx_read_initializers(reader, scope));
    TN_TRY(tn__onnx_declare_nodes(reader, scope));
    TN_TRY(onnx_walk(reader, scope));
    return onnx_join_result(reader, scope, pending->result);
}

tn_status tn__onnx_read_block(onnx_reader *reader, const onnx_pending *pending) {
    onnx_scope *parent = pending->parent, *scope = NULL;
    onnx_scope from = {.parent = parent,
                       .holds = parent,
                       .call = parent ? parent->call : NULL,
                       .body = pending->graph,
                       .block = pending->block,
                       .depth = pending->depth,
                       .prefix = pending->prefix};
    TN_TRY(tn__onnx_scope_create(reader, &from, &scope));
    if (pending->joins) {
        TN_TRY(onnx_read_joined(reader, scope, pending));
        tn__onnx_scope_drop(reader, scope);
        return TN_OK;
    }
    bool is_main = scope->block == 0;
    if (is_main) TN_TRY(onnx_bind_inputs(reader, scope->body));
    TN_TRY(tn__onnx_index_stated(reader, scope));
    /* In the main graph, an input with a default value is a parameter. In a subgraph, an input
     * stays an input. */
    TN_TRY((is_main ? onnx_read_initializers : onnx_read_inputs)(reader, scope));
    TN_TRY((is_main ? onnx_read_inputs : onnx_read_initializers)(reader, scope));
    TN_TRY(tn__onnx_declare_nodes(reader, scope));
    TN_TRY(onnx_walk(reader, scope));
    TN_TRY(onnx_set_io(reader, scope));
    tn__onnx_scope_drop(reader, scope);
    return TN_OK;
}
