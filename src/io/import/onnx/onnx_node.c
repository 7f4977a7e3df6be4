/* onnx_node.c - reads NodeProto: looks up operands by name, and adds the operator to the graph. */
#include "io/import/onnx/onnx_reader.h"

#include <stdio.h>

/* --- AttributeProto --------------------------------------------------------------------------- */

/* Reads AttributeProto: the attributes of a node.
 *
 * Numbers, strings, tensors and graphs become attributes of the operator. A graph becomes a block
 * that is read later (the queue of formats/onnx.c), a tensor becomes a constant of the node's
 * block. Lists of tensors or graphs, which no operator of ONNX has, become one attribute per
 * element. Two kinds are left out, because no rule needs them: type attributes, and strings long
 * enough to be a payload (a compiled engine in a node).
 */

#define ONNX_STRING_MAX (1u << 16)

/* the numbers of the enum AttributeProto.AttributeType */
/* clang-format off */
enum { ONNX_IS_ANY, ONNX_IS_FLOAT, ONNX_IS_INT, ONNX_IS_STRING, ONNX_IS_TENSOR, ONNX_IS_GRAPH,
       ONNX_IS_FLOATS, ONNX_IS_INTS, ONNX_IS_STRINGS, ONNX_IS_TENSORS, ONNX_IS_GRAPHS,
       ONNX_IS_SPARSE, ONNX_IS_SPARSES, ONNX_IS_TYPE, ONNX_IS_TYPES };
/* clang-format on */

typedef struct onnx_attr {
    tn__span message, name, reference;
    uint64_t type;
    uint64_t ints, floats, strings; /* numbers of elements of the fields ints, floats and strings */
    int64_t i;
    double f;
    tn__span s, t, g, sparse;
} onnx_attr;

/* The type of an attribute in files before IR version 2, which have no field `type`: the value
 * field that is present determines it. */
static uint64_t onnx_attr_guess(uint32_t number) {
    switch (number) {
    case ONNX_ATTR_F:
        return ONNX_IS_FLOAT;
    case ONNX_ATTR_I:
        return ONNX_IS_INT;
    case ONNX_ATTR_S:
        return ONNX_IS_STRING;
    case ONNX_ATTR_T:
        return ONNX_IS_TENSOR;
    case ONNX_ATTR_G:
        return ONNX_IS_GRAPH;
    case ONNX_ATTR_FLOATS:
        return ONNX_IS_FLOATS;
    case ONNX_ATTR_INTS:
        return ONNX_IS_INTS;
    case ONNX_ATTR_STRINGS:
        return ONNX_IS_STRINGS;
    case ONNX_ATTR_TENSORS:
        return ONNX_IS_TENSORS;
    case ONNX_ATTR_GRAPHS:
        return ONNX_IS_GRAPHS;
    case ONNX_ATTR_SPARSE:
        return ONNX_IS_SPARSE;
    default:
        return ONNX_IS_ANY;
    }
}

static tn_status onnx_attr_read(onnx_reader *reader, tn__span message, onnx_attr *attr) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_attribute_schema);
    tn__field field;
    uint64_t guess = ONNX_IS_ANY;
    *attr = (onnx_attr){.message = message};
    while (tn__wire_next(&wire, &field)) {
        switch (field.number) {
        case ONNX_ATTR_NAME:
            attr->name = field.span;
            break;
        case ONNX_ATTR_REF:
            attr->reference = field.span;
            break;
        case ONNX_ATTR_TYPE:
            attr->type = field.value;
            break;
        case ONNX_ATTR_F:
            attr->f = tn__float_of((uint32_t)field.value);
            break;
        case ONNX_ATTR_I:
            attr->i = tn__field_int(&field);
            break;
        case ONNX_ATTR_S:
            attr->s = field.span;
            break;
        case ONNX_ATTR_T:
            attr->t = field.span;
            break;
        case ONNX_ATTR_G:
            attr->g = field.span;
            break;
        case ONNX_ATTR_SPARSE:
            attr->sparse = field.span;
            break;
        case ONNX_ATTR_INTS:
            attr->ints += tn__field_count_varints(&field);
            break;
        case ONNX_ATTR_FLOATS:
            attr->floats += tn__field_count_fixed(&field, 4);
            break;
        case ONNX_ATTR_STRINGS:
            attr->strings++;
            break;
        default:
            break;
        }
        if (!guess) guess = onnx_attr_guess(field.number);
    }
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    if (attr->type == ONNX_IS_ANY) attr->type = guess;
    if (attr->type > ONNX_IS_TYPES)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "an attribute has the unknown type %lld",
                (long long)attr->type);
    if (attr->ints > INT32_MAX || attr->floats > INT32_MAX || attr->strings > INT32_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "an attribute has more than 2^31 elements");
    return TN_OK;
}

/* --- contents --- */

static tn_status onnx_push_attr(onnx_reader *reader, uint32_t *count, tn_attr attr) {
    if (!tn__reserve(reader->importer->context, &reader->attrs, &reader->attr_room,
                     (size_t)*count + 1, sizeof *reader->attrs))
        return tn__onnx_no_memory(reader);
    reader->attrs[(*count)++] = attr;
    return TN_OK;
}

/* Copies the numbers of an attribute. The copies stay in the arena until the file is read;
 * attributes are small, and a node has few. */
static tn_status onnx_attr_numbers(onnx_reader *reader, const onnx_attr *from, tn_attr *attr) {
    tn__wire wire = tn__onnx_open(reader, from->message, &tn__onnx_attribute_schema);
    tn__field field;
    bool whole = attr->type == TN_ATTR_INTS;
    uint32_t room = (uint32_t)(whole ? from->ints : from->floats);
    int64_t *ints = whole ? tn__arena_array(&reader->arena, room, sizeof *ints) : NULL;
    double *floats = whole ? NULL : tn__arena_array(&reader->arena, room, sizeof *floats);
    if (!ints && !floats) return tn__onnx_no_memory(reader);
    while (tn__wire_next(&wire, &field)) {
        if (whole && field.number == ONNX_ATTR_INTS)
            attr->count += tn__field_varints(&wire, &field, ints + attr->count, room - attr->count);
        if (!whole && field.number == ONNX_ATTR_FLOATS)
            attr->count += tn__field_floats(&field, floats + attr->count, room - attr->count);
    }
    attr->ints = ints;
    attr->floats = floats;
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_attr_strings(onnx_reader *reader, const onnx_attr *from, tn_attr *attr) {
    tn__wire wire = tn__onnx_open(reader, from->message, &tn__onnx_attribute_schema);
    tn__field field;
    const char **strings = tn__arena_array(&reader->arena, (size_t)from->strings, sizeof *strings);
    if (!strings) return tn__onnx_no_memory(reader);
    while (tn__wire_next(&wire, &field)) {
        if (field.number != ONNX_ATTR_STRINGS) continue;
        strings[attr->count] = tn__span_copy(&reader->arena, field.span);
        if (!strings[attr->count++]) return tn__onnx_no_memory(reader);
    }
    attr->strings = strings;
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_attr_scalar(onnx_reader *reader, const onnx_attr *from, tn_attr *attr) {
    attr->count = 1;
    if (attr->type == TN_ATTR_STRING) {
        const char **string = tn__arena_alloc(&reader->arena, sizeof *string);
        if (!string || !(*string = tn__span_copy(&reader->arena, from->s)))
            return tn__onnx_no_memory(reader);
        attr->strings = string;
        return TN_OK;
    }
    attr->ints = tn__arena_copy(&reader->arena, &from->i, sizeof from->i);
    attr->floats = tn__arena_copy(&reader->arena, &from->f, sizeof from->f);
    if (!attr->ints || !attr->floats) return tn__onnx_no_memory(reader);
    return TN_OK;
}

static tn_status onnx_attr_tensor(onnx_reader *reader, const onnx_scope *scope,
                                  const onnx_node *node, tn__span message, bool sparse,
                                  tn_attr *attr) {
    onnx_tensor tensor;
    TN_TRY(tn__onnx_tensor(reader, message, sparse, &tensor));
    tn_tensor_spec spec = {.kind = TN_KIND_CONSTANT,
                           .dtype = tensor.dtype,
                           .rank = tensor.rank,
                           .shape = tensor.shape,
                           .block = scope->block,
                           .payload = tn__onnx_payload(reader, message)};
    TN_TRY(tn__onnx_value(reader, &tensor, &spec.value));
    tn__span name = tensor.name.size ? tensor.name : node->output;
    spec.name = tn__onnx_text(reader, 0, scope->prefix, name);
    if (!spec.name) return tn__onnx_no_memory(reader);
    attr->count = 1;
    return tn_graph_add_tensor(reader->importer->graph, &spec, &attr->tensor,
                               reader->importer->error);
}

/* Creates a block for a subgraph, and puts the subgraph into the queue. */
static tn_status onnx_attr_graph(onnx_reader *reader, const onnx_scope *scope, onnx_scope *sees,
                                 tn__span message, tn_attr *attr) {
    if (scope->depth == ONNX_DEPTH_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "subgraphs and functions nest more than %u deep", ONNX_DEPTH_MAX);
    if (!message.size) TN_FAIL(reader->importer->error, TN_E_INVALID, "the graph in it is empty");
    if (!tn__reserve(reader->importer->context, &reader->pending, &reader->pending_room,
                     reader->pending_count + 1, sizeof *reader->pending))
        return tn__onnx_no_memory(reader);
    TN_TRY(tn_graph_add_block(reader->importer->graph, attr->name, &attr->block,
                              reader->importer->error));
    reader->pending[reader->pending_count++] = (onnx_pending){.graph = message,
                                                              .parent = sees,
                                                              .block = attr->block,
                                                              .depth = scope->depth + 1,
                                                              .prefix = scope->prefix};
    if (sees) sees->users++;
    attr->count = 1;
    return TN_OK;
}

/* Puts a graph into the queue that becomes part of the block around the node, and makes the tensors
 * for its input and output. */
static tn_status onnx_attr_join(onnx_reader *reader, const onnx_scope *scope, onnx_scope *sees,
                                const onnx_node *node, tn__span message, const char *name) {
    if (scope->depth == ONNX_DEPTH_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "subgraphs and functions nest more than %u deep", ONNX_DEPTH_MAX);
    if (!message.size) TN_FAIL(reader->importer->error, TN_E_INVALID, "the graph in it is empty");
    if (reader->joined_count == ONNX_JOINED_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "the node has more than %u graphs",
                ONNX_JOINED_MAX);
    onnx_joined *joined = &reader->joined[reader->joined_count];
    joined->attribute = name;
    const char *prefix = tn__onnx_prefix(reader, scope, node);
    if (!prefix || !tn__reserve(reader->importer->context, &reader->pending, &reader->pending_room,
                                reader->pending_count + 1, sizeof *reader->pending))
        return tn__onnx_no_memory(reader);
    TN_TRY(tn__onnx_flex_tensor(reader, scope, node, "given", &joined->given));
    TN_TRY(tn__onnx_flex_tensor(reader, scope, node, "result", &joined->result));
    reader->joined_count++;
    reader->pending[reader->pending_count++] = (onnx_pending){.graph = message,
                                                              .parent = sees,
                                                              .block = scope->block,
                                                              .depth = scope->depth + 1,
                                                              .prefix = prefix,
                                                              .joins = true,
                                                              .given = joined->given,
                                                              .result = joined->result};
    if (sees) sees->users++;
    return TN_OK;
}

/* Adds the elements of a list of tensors or graphs, each as an attribute. */
static tn_status onnx_attr_list(onnx_reader *reader, const onnx_scope *scope, onnx_scope *sees,
                                const onnx_node *node, const onnx_attr *from, tn_attr attr,
                                uint32_t *count) {
    bool graphs = attr.type == TN_ATTR_BLOCK;
    /* limit of the list's elements, each of which becomes an attribute of the operator */
    uint32_t left = ONNX_ATTRS_MAX;
    uint32_t number = graphs ? (uint32_t)ONNX_ATTR_GRAPHS : (uint32_t)ONNX_ATTR_TENSORS;
    tn__wire wire = tn__onnx_open(reader, from->message, &tn__onnx_attribute_schema);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != number) continue;
        if (left-- == 0)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "more than %u in one list",
                    ONNX_ATTRS_MAX);
        if (graphs)
            TN_TRY(onnx_attr_graph(reader, scope, sees, field.span, &attr));
        else
            TN_TRY(onnx_attr_tensor(reader, scope, node, field.span, false, &attr));
        TN_TRY(onnx_push_attr(reader, count, attr));
    }
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_attr_convert(onnx_reader *reader, const onnx_scope *scope, onnx_scope *sees,
                                   const onnx_node *node, const onnx_attr *from, tn_attr attr,
                                   uint32_t *count) {
    switch (from->type) {
    case ONNX_IS_FLOAT:
    case ONNX_IS_INT:
    case ONNX_IS_STRING:
        if (from->type == ONNX_IS_STRING && from->s.size > ONNX_STRING_MAX) return TN_OK;
        attr.type = from->type == ONNX_IS_INT     ? TN_ATTR_INT
                    : from->type == ONNX_IS_FLOAT ? TN_ATTR_FLOAT
                                                  : TN_ATTR_STRING;
        TN_TRY(onnx_attr_scalar(reader, from, &attr));
        break;
    case ONNX_IS_INTS:
    case ONNX_IS_FLOATS:
        attr.type = from->type == ONNX_IS_INTS ? TN_ATTR_INTS : TN_ATTR_FLOATS;
        TN_TRY(onnx_attr_numbers(reader, from, &attr));
        break;
    case ONNX_IS_STRINGS:
        attr.type = TN_ATTR_STRINGS;
        TN_TRY(onnx_attr_strings(reader, from, &attr));
        break;
    case ONNX_IS_TENSOR:
    case ONNX_IS_SPARSE: {
        bool sparse = from->type == ONNX_IS_SPARSE;
        attr.type = TN_ATTR_TENSOR;
        TN_TRY(
            onnx_attr_tensor(reader, scope, node, sparse ? from->sparse : from->t, sparse, &attr));
        break;
    }
    case ONNX_IS_GRAPH:
        if (reader->joins) return onnx_attr_join(reader, scope, sees, node, from->g, attr.name);
        attr.type = TN_ATTR_BLOCK;
        TN_TRY(onnx_attr_graph(reader, scope, sees, from->g, &attr));
        break;
    case ONNX_IS_TENSORS:
    case ONNX_IS_GRAPHS:
        attr.type = from->type == ONNX_IS_GRAPHS ? TN_ATTR_BLOCK : TN_ATTR_TENSOR;
        return onnx_attr_list(reader, scope, sees, node, from, attr, count);
    default:
        return TN_OK;
    }
    return onnx_push_attr(reader, count, attr);
}

/* Adds one attribute. A reference to an attribute of the function is resolved in the calls
 * around. */
static tn_status onnx_attr_add(onnx_reader *reader, onnx_scope *scope, const onnx_node *node,
                               const onnx_attr *from, uint32_t *count) {
    onnx_attr meant = *from;
    onnx_scope *sees = scope;
    if (from->reference.size) {
        tn__span message;
        TN_TRY(tn__onnx_reference(reader, scope, from->reference, &message, &sees));
        /* the attribute is neither given nor has a default value, so it is omitted */
        if (!message.size) return TN_OK;
        TN_TRY(onnx_attr_read(reader, message, &meant));
    }
    tn_attr attr = {.name = tn__span_copy(&reader->arena, from->name)};
    if (!attr.name) return tn__onnx_no_memory(reader);
    tn_status status = onnx_attr_convert(reader, scope, sees, node, &meant, attr, count);
    tn_error *error = reader->importer->error;
    if (status == TN_OK || !error) return status;
    char message[sizeof error->message];
    memcpy(message, error->message, sizeof message);
    snprintf(error->message, sizeof error->message, "attribute '%.80s': %.300s", attr.name,
             message);
    return status;
}

/* Reads the attributes of a node into reader->attrs; subgraphs are put into the queue. */
static tn_status onnx_attrs(onnx_reader *reader, onnx_scope *scope, const onnx_node *node,
                            uint32_t *count) {
    tn_error *error = reader->importer->error;
    tn__span names[ONNX_ATTRS_MAX];
    uint32_t seen = 0;
    *count = 0;
    if (node->attribute_count > ONNX_ATTRS_MAX)
        TN_FAIL(error, TN_E_INVALID, "it has %u attributes; the most is %u", node->attribute_count,
                ONNX_ATTRS_MAX);
    if (!node->attribute_count) return TN_OK;
    tn__wire wire = tn__onnx_open(reader, node->message, &tn__onnx_node_schema);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != ONNX_NODE_ATTRIBUTE) continue;
        onnx_attr attr;
        TN_TRY(onnx_attr_read(reader, field.span, &attr));
        if (!attr.name.size) TN_FAIL(error, TN_E_INVALID, "one of its attributes has no name");
        for (uint32_t i = 0; i < seen; i++)
            if (tn__span_equal(names[i], attr.name))
                TN_FAIL(error, TN_E_INVALID, "attribute '%.*s' is given twice",
                        (int)(attr.name.size < 80 ? attr.name.size : 80), attr.name.bytes);
        names[seen++] = attr.name;
        TN_TRY(onnx_attr_add(reader, scope, node, &attr, count));
    }
    return tn__wire_close(&wire, error);
}

/* --- NodeProto -------------------------------------------------------------------------------- */

/* limit of characters shown of a long name; its end is shown, because names differ most there */
#define ONNX_NAME_SHOWN 80u

tn_status tn__onnx_node(onnx_reader *reader, tn__span message, onnx_node *node) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_node_schema);
    tn__field field;
    *node = (onnx_node){.message = message};
    TN_TRY(tn__onnx_check_size(reader, message));
    while (tn__wire_next(&wire, &field)) {
        switch (field.number) {
        case ONNX_NODE_INPUT:
            node->input_count++;
            break;
        case ONNX_NODE_OUTPUT:
            node->output_count++;
            if (!node->output.size) node->output = field.span;
            break;
        case ONNX_NODE_NAME:
            node->name = field.span;
            break;
        case ONNX_NODE_TYPE:
            node->type = field.span;
            break;
        case ONNX_NODE_DOMAIN:
            node->domain = tn__onnx_domain(field.span);
            break;
        case ONNX_NODE_OVERLOAD:
            node->overload = field.span;
            break;
        default:
            node->attribute_count++;
            break;
        }
    }
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    if (!node->type.size)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "node '%.*s' has no operator type",
                (int)(node->name.size < 80 ? node->name.size : 80),
                node->name.size ? (const char *)node->name.bytes : "");
    return TN_OK;
}

/* Sets the place of an error to "what 'prefix/name' (type)". If memory for the text is lacking, the
 * place is left out. */
static tn_status onnx_say_where(const onnx_reader *reader, tn_status status, const char *what,
                                const char *prefix, tn__span name, const tn__span *type) {
    tn_error *error = reader->importer->error;
    if (!error || error->where[0]) return status;
    tn__text text, kind;
    tn__text_init(&text, reader->importer->context);
    tn__text_init(&kind, reader->importer->context);
    tn__text_put(&text, prefix);
    tn__span_text(&text, name);
    if (type) tn__span_text(&kind, *type);
    const char *all = text.data ? text.data : "";
    size_t cut = text.size > ONNX_NAME_SHOWN ? text.size - ONNX_NAME_SHOWN : 0;
    snprintf(error->where, sizeof error->where, type ? "%s '%s%s' (%.40s)" : "%s '%s%s'", what,
             cut ? "..." : "", all + cut, kind.data ? kind.data : "");
    tn__text_release(&text);
    tn__text_release(&kind);
    return status;
}

tn_status tn__onnx_where(const onnx_reader *reader, tn_status status, const char *what,
                         tn__span name) {
    return onnx_say_where(reader, status, what, "", name, NULL);
}

tn_status tn__onnx_node_where(const onnx_reader *reader, tn_status status, const onnx_scope *scope,
                              const onnx_node *node) {
    bool named = node->name.size > 0;
    return onnx_say_where(reader, status, named ? "node" : "node of", scope->prefix,
                          named ? node->name : node->output, &node->type);
}

static tn_status onnx_fail_undefined(onnx_reader *reader, const onnx_scope *scope,
                                     const onnx_node *node, tn__span name) {
    const char *text = tn__onnx_text(reader, 0, "", name);
    if (!text) return tn__onnx_no_memory(reader);
    tn_status status =
        tn__fail(reader->importer->error, TN_E_INVALID,
                 "it reads '%.200s', which no node, input or initializer defines", text);
    return tn__onnx_node_where(reader, status, scope, node);
}

tn_status tn__onnx_operands(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node) {
    size_t all = (size_t)node->input_count + node->output_count;
    if (!tn__reserve(reader->importer->context, &reader->ids, &reader->id_room, all + 1,
                     /* one element more, because even empty lists need an address */
                     sizeof *reader->ids))
        return tn__onnx_no_memory(reader);
    tn__wire wire = tn__onnx_open(reader, node->message, &tn__onnx_node_schema);
    tn__field field;
    size_t input = 0, output = node->input_count;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != ONNX_NODE_INPUT && field.number != ONNX_NODE_OUTPUT) continue;
        tn_tensor_id *id = &reader->ids[field.number == ONNX_NODE_INPUT ? input++ : output++];
        *id = TN_NONE;
        if (!field.span.size) continue;
        const onnx_local *local = tn__onnx_resolve(scope, field.span);
        if (!local) return onnx_fail_undefined(reader, scope, node, field.span);
        *id = local->tensor;
    }
    return tn__wire_close(&wire, reader->importer->error);
}

tn_status tn__onnx_add_op(onnx_reader *reader, onnx_scope *scope, const onnx_node *node) {
    tn_op_spec spec = {.block = scope->block,
                       .input_count = node->input_count,
                       .output_count = node->output_count};
    reader->joins = tn__onnx_flex_joins(node);
    reader->joined_count = 0;
    tn_status status = onnx_attrs(reader, scope, node, &spec.attr_count);
    reader->joins = false;
    if (status != TN_OK) return tn__onnx_node_where(reader, status, scope, node);
    TN_TRY(tn__onnx_operands(reader, scope, node));
    spec.version = tn__onnx_version(reader, scope, node->domain);
    spec.name = node->name.size ? tn__onnx_text(reader, 0, scope->prefix, node->name) : "";
    spec.type = tn__onnx_text(reader, 1, "", node->type);
    spec.domain = tn__onnx_text(reader, 2, "", node->domain);
    if (!spec.name || !spec.type || !spec.domain) return tn__onnx_no_memory(reader);
    spec.inputs = reader->ids;
    spec.outputs = reader->ids + node->input_count;
    spec.attrs = reader->attrs;
    if (reader->joined_count > 0) return tn__onnx_flex_add(reader, scope, node, &spec);
    TN_TRY(tn__onnx_join_pair(reader, &spec));
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->importer->error);
}
