/* onnx_node.c - reads NodeProto: operands by name, and the operator in the graph. */
#include "io/import/onnx_reader.h"

#include <stdio.h>

#define ONNX_NAME_SHOWN 80u /* characters shown of a long name, from its end, which differs most */

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

/* "what 'prefix/name' (type)"; if memory for this text is lacking, that is benign. */
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
                     sizeof *reader->ids)) /* one more, because even empty lists need an address */
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
    tn_status status = tn__onnx_attrs(reader, scope, node, &spec.attr_count);
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
    return tn_graph_add_op(reader->importer->graph, &spec, NULL, reader->importer->error);
}
