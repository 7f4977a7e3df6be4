/* write_onnx.c - writes a split graph as an .onnx file. Operators become these nodes:
 *
 *   tenure.Part   Slice, with inputs from opset 10 on, with attributes before
 *   Concat        Concat
 *   a part        the node of the file with other operands and another name; `pads` are those of
 *                 the part, so that auto_pad and ceil_mode have no effect
 *
 * All other bytes of the file are copied unchanged: initializers, locations of external data,
 * metadata, functions, unknown fields. New constants are Constant nodes, because old versions of
 * ONNX require initializers to be inputs as well. Shape information about removed tensors is left
 * out. In other shapes, symbols are replaced by the numbers for which the parts were made.
 *
 * Cost: O(size of the file + operators).
 *
 * Sources: onnx.proto, Operators.md.
 */
#include "graph/attr.h"
#include "graph/op.h"
#include "io/import/onnx/onnx_reader.h"
#include "io/import/onnx/proto.h"
#include "report/export/export.h"

#include <stdio.h>

/* --- the state of the new file ---------------------------------------------------------------- */

typedef struct onnx_image {
    const export_split *split;
    tn_context context;
    tn__arena arena;
    /* maps the names of tensors of the main graph to the operators of split->whole that compute
     * them */
    tn__names makers;
    tn__names taken; /* all names that the file uses */
    /* [tensors of the split graph] name of the tensor in the new file; NULL: no name yet */
    const char **names;
    /* [tensors of the split graph] whether a constant was already written */
    bool *written;
    /* [operators of split->whole] whether the split graph has the operator unchanged */
    bool *stays;
    /* [operators of split->whole] for an operator that runs in parts: its node in the old file */
    tn__span *nodes;
    /* `gone`: number of operators that run as tiles; `met`: number of their nodes that were found
     * in the file */
    uint32_t gone, met;
    int64_t opset;
    tn_error *error;
} onnx_image;

static tn_status onnx_no_memory(const onnx_image *image) {
    return tn__no_memory(image->error, "the split model");
}

static tn_status onnx_bad(const onnx_image *image) {
    TN_FAIL(image->error, TN_E_INVALID, "a message of the model does not end where it should");
}

/* --- names --- */

static tn_status onnx_name(onnx_image *image, tn_tensor_id id, const char **name) {
    const tn_graph *graph = image->split->graph;
    char text[200];
    *name = "";
    if (id == TN_NONE) return TN_OK;
    const char *own = tn_graph_tensor(graph, id)->name;
    if (image->names[id] == NULL && !image->split->trace.is_new[id]) image->names[id] = own;
    for (uint32_t turn = 0; image->names[id] == NULL; turn++) {
        if (turn == 0)
            snprintf(text, sizeof text, "%.160s#%u", own, id);
        else
            snprintf(text, sizeof text, "%.140s#%u_%u", own, id, turn);
        size_t length = strlen(text);
        uint32_t existing = TN__NAMES_NONE;
        char *copy = tn__arena_string(&image->arena, text, length);
        if (copy == NULL || !tn__names_add(&image->taken, copy, length, id, &existing))
            return onnx_no_memory(image);
        if (existing == TN__NAMES_NONE) image->names[id] = copy;
    }
    *name = image->names[id];
    return TN_OK;
}

/* --- writing parts of nodes --- */

static void onnx_put_ints(tn__text *to, const char *name, const int64_t *ints, uint32_t count,
                          bool list) {
    tn__text attr;
    tn__text_init(&attr, to->context);
    tn__proto_string(&attr, ONNX_ATTR_NAME, name);
    for (uint32_t i = 0; i < count; i++)
        tn__proto_varint(&attr, list ? ONNX_ATTR_INTS : ONNX_ATTR_I, (uint64_t)ints[i]);
    /* the attribute type is INTS (7) for a list and INT (2) for a number */
    tn__proto_varint(&attr, ONNX_ATTR_TYPE, list ? 7 : 2);
    tn__proto_bytes(to, ONNX_NODE_ATTRIBUTE, attr.data, attr.size);
    to->failed = to->failed || attr.failed;
    tn__text_release(&attr);
}

static void onnx_put_attr(tn__text *to, const tn_attr *attr) {
    if (attr->type == TN_ATTR_INT || attr->type == TN_ATTR_INTS) {
        onnx_put_ints(to, attr->name, attr->ints, attr->count, attr->type == TN_ATTR_INTS);
        return;
    }
    tn__text text; /* the only string attribute is auto_pad, with the value NOTSET */
    tn__text_init(&text, to->context);
    tn__proto_string(&text, ONNX_ATTR_NAME, attr->name);
    tn__proto_string(&text, ONNX_ATTR_S, attr->strings[0]);
    tn__proto_varint(&text, ONNX_ATTR_TYPE, 3);
    tn__proto_bytes(to, ONNX_NODE_ATTRIBUTE, text.data, text.size);
    to->failed = to->failed || text.failed;
    tn__text_release(&text);
}

/* Writes a Constant node with a vector of integers, unless it was written before. */
static tn_status onnx_constant(onnx_image *image, tn__text *graph, const char *name,
                               const int64_t *ints, uint32_t count) {
    tn__text raw, tensor, attr, node;
    tn__text *const all[] = {&raw, &tensor, &attr, &node};
    bool failed = false;
    for (uint32_t i = 0; i < 4; i++) tn__text_init(all[i], &image->context);
    for (uint32_t i = 0; i < 8 * count; i++) {
        char byte = (char)(uint8_t)((uint64_t)ints[i / 8] >> (8 * (i % 8)));
        tn__text_add(&raw, &byte, 1);
    }
    tn__proto_varint(&tensor, ONNX_TENSOR_DIMS, count);
    tn__proto_varint(&tensor, ONNX_TENSOR_TYPE, 7); /* INT64 */
    tn__proto_bytes(&tensor, ONNX_TENSOR_RAW, raw.data, raw.size);
    tn__proto_string(&attr, ONNX_ATTR_NAME, "value");
    tn__proto_bytes(&attr, ONNX_ATTR_T, tensor.data, tensor.size);
    tn__proto_varint(&attr, ONNX_ATTR_TYPE, 4); /* TENSOR */
    tn__proto_string(&node, ONNX_NODE_OUTPUT, name);
    tn__proto_string(&node, ONNX_NODE_TYPE, "Constant");
    tn__proto_bytes(&node, ONNX_NODE_ATTRIBUTE, attr.data, attr.size);
    tn__proto_bytes(graph, ONNX_GRAPH_NODE, node.data, node.size);
    for (uint32_t i = 0; i < 4; i++) {
        failed = failed || all[i]->failed;
        tn__text_release(all[i]);
    }
    return failed || graph->failed ? onnx_no_memory(image) : TN_OK;
}

/* --- nodes --- */

static tn_status onnx_operands(onnx_image *image, const tn_op *op, tn__text *node) {
    for (uint32_t i = 0; i < op->input_count; i++) {
        const char *name;
        TN_TRY(onnx_name(image, op->inputs[i], &name));
        tn__proto_string(node, ONNX_NODE_INPUT, name);
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        const char *name;
        TN_TRY(onnx_name(image, op->outputs[k], &name));
        tn__proto_string(node, ONNX_NODE_OUTPUT, name);
        if (k == 0) tn__proto_string(node, ONNX_NODE_NAME, name);
    }
    return TN_OK;
}

/* Writes starts, ends and axes of a Slice as inputs; the Constant nodes of these inputs come before
 * the node. */
static tn_status onnx_slice_inputs(onnx_image *image, const tn_op *op, tn__text *graph,
                                   tn__text *node) {
    static const char *const lists[] = {"starts", "ends", "axes"};
    const char *x, *y;
    TN_TRY(onnx_name(image, op->inputs[0], &x));
    TN_TRY(onnx_name(image, op->outputs[0], &y));
    tn__proto_string(node, ONNX_NODE_INPUT, x);
    for (uint32_t i = 0; i < 3; i++) {
        char name[260];
        uint32_t count, existing = TN__NAMES_NONE;
        const int64_t *ints = tn__attr_ints(op, lists[i], &count);
        snprintf(name, sizeof name, "%.200s#%s", y, lists[i]);
        char *copy = tn__arena_string(&image->arena, name, strlen(name));
        if (copy == NULL || !tn__names_add(&image->taken, copy, strlen(copy), 0, &existing))
            return onnx_no_memory(image);
        if (existing != TN__NAMES_NONE)
            TN_FAIL(image->error, TN_E_UNSUPPORTED, "a tensor is called '%.150s' already", name);
        TN_TRY(onnx_constant(image, graph, name, ints, count));
        tn__proto_string(node, ONNX_NODE_INPUT, name);
    }
    tn__proto_string(node, ONNX_NODE_OUTPUT, y);
    tn__proto_string(node, ONNX_NODE_NAME, y);
    return TN_OK;
}

static tn_status onnx_put_slice(onnx_image *image, const tn_op *op, tn__text *graph,
                                tn__text *node) {
    static const char *const lists[] = {"axes", "starts", "ends"};
    if (image->opset >= 10) {
        TN_TRY(onnx_slice_inputs(image, op, graph, node));
    } else {
        TN_TRY(onnx_operands(image, op, node));
        for (uint32_t i = 0; i < 3; i++) onnx_put_attr(node, tn__attr(op, lists[i]));
    }
    tn__proto_string(node, ONNX_NODE_TYPE, "Slice");
    return TN_OK;
}

/* Returns an attribute of a part if it differs from that of the whole operator, else NULL. Only
 * such attributes are written anew. */
static const tn_attr *onnx_changed(const tn_op *part, const tn_op *whole, const char *name) {
    const tn_attr *now = tn__attr(part, name), *was = tn__attr(whole, name);
    if (now == NULL ||
        (now->type != TN_ATTR_INT && now->type != TN_ATTR_INTS && now->type != TN_ATTR_STRING))
        return NULL;
    bool same = was != NULL && was->type == now->type && was->count == now->count;
    for (uint32_t i = 0; same && i < now->count; i++)
        same = now->type == TN_ATTR_STRING ? strcmp(now->strings[i], was->strings[i]) == 0
                                           : now->ints[i] == was->ints[i];
    return same ? NULL : now;
}

static bool onnx_is_changed(const tn_op *part, const tn_op *whole, tn__span attr) {
    tn__proto_field field;
    bool bad = false;
    char name[64];
    while (tn__proto_next(&attr, &field, &bad))
        if (field.number == ONNX_ATTR_NAME && field.inside.size < sizeof name) {
            memcpy(name, field.inside.bytes, field.inside.size);
            name[field.inside.size] = '\0';
            return onnx_changed(part, whole, name) != NULL;
        }
    return false;
}

static tn_status onnx_put_part(onnx_image *image, const tn_op *op, tn_op_id source,
                               tn__text *node) {
    const tn_op *whole = tn_graph_op(image->split->whole, source);
    tn__span left = image->nodes[source];
    tn__proto_field field;
    bool bad = false;
    if (left.bytes == NULL)
        TN_FAIL(image->error, TN_E_UNSUPPORTED, "operator '%.80s' stands inside of a function",
                whole->name);
    TN_TRY(onnx_operands(image, op, node));
    while (tn__proto_next(&left, &field, &bad)) {
        bool ours = field.number == ONNX_NODE_INPUT || field.number == ONNX_NODE_OUTPUT ||
                    field.number == ONNX_NODE_NAME;
        if (ours ||
            (field.number == ONNX_NODE_ATTRIBUTE && onnx_is_changed(op, whole, field.inside)))
            continue;
        tn__proto_copy(node, field.raw);
    }
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (onnx_changed(op, whole, op->attrs[i].name) != NULL) onnx_put_attr(node, &op->attrs[i]);
    return bad ? onnx_bad(image) : TN_OK;
}

/* Writes the constants that the split graph added as inputs of an operator, such as the shapes of a
 * Reshape in parts. */
static tn_status onnx_put_constants(onnx_image *image, const tn_op *op, tn__text *graph) {
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id id = op->inputs[i];
        const char *name;
        if (id == TN_NONE || !image->split->trace.is_new[id] || image->written[id]) continue;
        const tn_tensor *tensor = tn_graph_tensor(image->split->graph, id);
        if (tensor->producer != TN_NONE || tensor->value == NULL || tensor->value->ints == NULL)
            continue;
        image->written[id] = true;
        TN_TRY(onnx_name(image, id, &name));
        TN_TRY(onnx_constant(image, graph, name, tensor->value->ints, tensor->value->count));
    }
    return TN_OK;
}

static tn_status onnx_put_new(onnx_image *image, tn_op_id id, tn__text *graph) {
    const tn_op *op = tn_graph_op(image->split->graph, id);
    tn_op_id source = image->split->trace.ops[id];
    tn__text node;
    TN_TRY(onnx_put_constants(image, op, graph));
    tn__text_init(&node, &image->context);
    tn_status status = TN_OK;
    if (source != TN_NONE) {
        status = onnx_put_part(image, op, source, &node);
    } else if (strcmp(op->domain, "tenure") == 0) {
        status = onnx_put_slice(image, op, graph, &node);
    } else {
        status = onnx_operands(image, op, &node);
        if (image->opset < 4 && status == TN_OK && tn__attr_int(op, "axis", 1) != 1)
            status = tn__fail(image->error, TN_E_UNSUPPORTED, "Concat of opset %lld",
                              (long long)image->opset);
        onnx_put_attr(&node, tn__attr(op, "axis"));
        tn__proto_string(&node, ONNX_NODE_TYPE, "Concat");
    }
    if (status == TN_OK) tn__proto_bytes(graph, ONNX_GRAPH_NODE, node.data, node.size);
    if (status == TN_OK && (node.failed || graph->failed)) status = onnx_no_memory(image);
    tn__text_release(&node);
    return status;
}

/* Writes the operators that replace the region that ended with the operator `last`. */
static tn_status onnx_put_region(onnx_image *image, tn_op_id last, tn__text *graph) {
    const tn_block *main = tn_graph_block(image->split->graph, 0);
    for (uint32_t i = 0; i < main->op_count; i++)
        if (image->split->trace.is_part[main->ops[i]] &&
            image->split->trace.before[main->ops[i]] == last)
            TN_TRY(onnx_put_new(image, main->ops[i], graph));
    return TN_OK;
}

/* --- writing the graph --- */

/* Returns the operator of split->whole that a node of the file stands for. It is found by the first
 * output of the node that has a name. */
static tn_op_id onnx_op_of(const onnx_image *image, tn__span node) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&node, &field, &bad))
        if (field.number == ONNX_NODE_OUTPUT && field.inside.size > 0)
            return tn__names_find(&image->makers, (const char *)field.inside.bytes,
                                  field.inside.size);
    return TN__NAMES_NONE;
}

static bool onnx_is_type(tn__span node, const char *type) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&node, &field, &bad))
        if (field.number == ONNX_NODE_TYPE) return tn__span_is(field.inside, type);
    return false;
}

/* Finds the nodes of all operators that run in parts. */
static tn_status onnx_find_nodes(onnx_image *image, tn__span graph) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&graph, &field, &bad)) {
        if (field.number != ONNX_GRAPH_NODE) continue;
        tn_op_id op = onnx_op_of(image, field.inside);
        if (op == TN__NAMES_NONE || image->stays[op]) continue;
        if (!onnx_is_type(field.inside, tn_graph_op(image->split->whole, op)->type)) continue;
        image->nodes[op] = field.inside;
        image->met++;
    }
    if (bad) return onnx_bad(image);
    if (image->met == image->gone) return TN_OK;
    TN_FAIL(image->error, TN_E_UNSUPPORTED,
            "operators that stand inside of functions cannot be written in parts");
}

/* Returns whether a ValueInfo message describes a tensor that does not exist in the split graph. */
static bool onnx_is_gone(const onnx_image *image, tn__span info) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&info, &field, &bad)) {
        if (field.number != ONNX_INFO_NAME) continue;
        uint32_t op =
            tn__names_find(&image->makers, (const char *)field.inside.bytes, field.inside.size);
        return op != TN__NAMES_NONE && !image->stays[op];
    }
    return false;
}

static bool onnx_dim_is_open(tn__span dim) {
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&dim, &field, &bad))
        if (field.number == ONNX_DIM_VALUE) return (int64_t)field.value < 0;
    return true;
}

/* A path into nested messages: `field` of a message is replaced by the copy that `inner` describes,
 * and all other fields are copied. */
typedef struct onnx_nest {
    uint32_t field;
    /* NULL: the field is a dimension, in which a symbol is replaced by a number */
    const struct onnx_nest *inner;
} onnx_nest;

static void onnx_put_nested(const onnx_nest *nest, tn__span from, const tn_tensor *tensor,
                            tn__text *to) {
    tn__proto_field field;
    bool bad = false;
    uint32_t axis = 0;
    while (tn__proto_next(&from, &field, &bad)) {
        bool dim = field.number == nest->field && nest->inner == NULL;
        bool open = dim && axis < tensor->rank && onnx_dim_is_open(field.inside);
        if (field.number != nest->field || (dim && !open)) {
            tn__proto_copy(to, field.raw);
        } else {
            tn__text inside;
            tn__text_init(&inside, to->context);
            if (dim)
                tn__proto_varint(&inside, ONNX_DIM_VALUE, (uint64_t)tensor->shape[axis]);
            else
                onnx_put_nested(nest->inner, field.inside, tensor, &inside);
            tn__proto_bytes(to, field.number, inside.data, inside.size);
            to->failed = to->failed || inside.failed;
            tn__text_release(&inside);
        }
        axis += dim;
    }
}

/* Writes the description of an input, an output or an inner tensor. Symbols in its shape are
 * replaced by numbers. */
static void onnx_put_info(const onnx_image *image, const tn__proto_field *info, tn__text *graph) {
    static const onnx_nest dims = {ONNX_SHAPE_DIM, NULL};
    static const onnx_nest shape = {ONNX_TENSOR_TYPE_SHAPE, &dims};
    static const onnx_nest tensor_type = {ONNX_TYPE_TENSOR, &shape};
    static const onnx_nest type = {ONNX_INFO_TYPE, &tensor_type};
    const tn_tensor *tensor = NULL;
    tn__span left = info->inside;
    tn__text text;
    tn__proto_field field;
    bool bad = false;
    while (tn__proto_next(&left, &field, &bad) && tensor == NULL) {
        if (field.number != ONNX_INFO_NAME) continue;
        uint32_t id =
            tn__names_find(&image->taken, (const char *)field.inside.bytes, field.inside.size);
        if (id < tn_graph_tensor_count(image->split->whole))
            tensor = tn_graph_tensor(image->split->whole, id);
    }
    if (tensor == NULL || tensor->block != 0 || !tn__shape_known(tensor)) {
        tn__proto_copy(graph, info->raw);
        return;
    }
    tn__text_init(&text, &image->context);
    onnx_put_nested(&type, info->inside, tensor, &text);
    tn__proto_bytes(graph, info->number, text.data, text.size);
    graph->failed = graph->failed || text.failed;
    tn__text_release(&text);
}

static tn_status onnx_put_graph(onnx_image *image, tn__span from, tn__text *graph) {
    tn__proto_field field;
    bool bad = false;
    TN_TRY(onnx_find_nodes(image, from));
    while (tn__proto_next(&from, &field, &bad)) {
        tn_op_id op =
            field.number == ONNX_GRAPH_NODE ? onnx_op_of(image, field.inside) : TN__NAMES_NONE;
        bool inner = field.number == ONNX_GRAPH_VALUE_INFO;
        if (op != TN__NAMES_NONE && image->nodes[op].bytes != NULL)
            TN_TRY(onnx_put_region(image, op, graph));
        else if (field.number == ONNX_GRAPH_INPUT || field.number == ONNX_GRAPH_OUTPUT ||
                 (inner && !onnx_is_gone(image, field.inside)))
            onnx_put_info(image, &field, graph);
        else if (!inner)
            tn__proto_copy(graph, field.raw);
    }
    if (bad) return onnx_bad(image);
    return graph->failed ? onnx_no_memory(image) : TN_OK;
}

/* --- writing the model --- */

static tn_status onnx_begin(onnx_image *image) {
    const tn_graph *whole = image->split->whole;
    const tn__split_trace *trace = &image->split->trace;
    uint32_t ops = tn_graph_op_count(whole), tensors = tn_graph_tensor_count(whole);
    tn__arena *arena = &image->arena;
    image->stays = tn__arena_array(arena, (size_t)ops + 1, sizeof *image->stays);
    image->nodes = tn__arena_array(arena, (size_t)ops + 1, sizeof *image->nodes);
    image->names = tn__arena_array(arena, (size_t)trace->tensor_count + 1, sizeof *image->names);
    image->written =
        tn__arena_array(arena, (size_t)trace->tensor_count + 1, sizeof *image->written);
    if (image->stays == NULL || image->nodes == NULL || image->names == NULL ||
        image->written == NULL)
        return onnx_no_memory(image);
    for (tn_op_id id = 0; id < trace->op_count; id++)
        if (!trace->is_part[id] && trace->ops[id] != TN_NONE) image->stays[trace->ops[id]] = true;
    for (tn_op_id id = 0; id < ops; id++) image->gone += !image->stays[id];
    for (tn_tensor_id id = 0; id < tensors; id++) {
        const tn_tensor *tensor = tn_graph_tensor(whole, id);
        size_t length = strlen(tensor->name);
        bool makes = tensor->producer != TN_NONE && tensor->block == 0;
        if (!tn__names_add(&image->taken, tensor->name, length, id, NULL) ||
            (makes && !tn__names_add(&image->makers, tensor->name, length, tensor->producer, NULL)))
            return onnx_no_memory(image);
    }
    return TN_OK;
}

static void onnx_read_opset(onnx_image *image, tn__span opset) {
    tn__proto_field field;
    bool bad = false, own = true;
    int64_t version = 0;
    while (tn__proto_next(&opset, &field, &bad)) {
        if (field.number == ONNX_OPSET_DOMAIN)
            own = field.inside.size == 0 || tn__span_is(field.inside, "ai.onnx");
        if (field.number == ONNX_OPSET_VERSION) version = (int64_t)field.value;
    }
    if (own) image->opset = version;
}

static tn_status onnx_put_model(onnx_image *image, tn__span file, tn__text *to) {
    tn__proto_field field;
    bool bad = false;
    tn__span left = file;
    while (tn__proto_next(&left, &field, &bad))
        if (field.number == ONNX_MODEL_OPSET) onnx_read_opset(image, field.inside);
    TN_TRY(onnx_begin(image));
    for (left = file; tn__proto_next(&left, &field, &bad);) {
        if (field.number != ONNX_MODEL_GRAPH) {
            tn__proto_copy(to, field.raw);
            continue;
        }
        tn__text graph;
        tn__text_init(&graph, &image->context);
        tn_status status = onnx_put_graph(image, field.inside, &graph);
        if (status == TN_OK) tn__proto_bytes(to, ONNX_MODEL_GRAPH, graph.data, graph.size);
        tn__text_release(&graph);
        TN_TRY(status);
    }
    if (bad) return onnx_bad(image);
    if (to->size > INT32_MAX) TN_FAIL(image->error, TN_E_UNSUPPORTED, "a model above 2 GiB");
    return to->failed ? onnx_no_memory(image) : TN_OK;
}

tn_status tn__export_onnx(tn__span file, const export_split *split, tn__text *to, tn_error *error) {
    onnx_image image = {.split = split, .context = *tn_graph_context(split->whole), .error = error};
    tn__arena_init(&image.arena, &image.context);
    tn__names_init(&image.makers, &image.context);
    tn__names_init(&image.taken, &image.context);
    tn_status status = onnx_put_model(&image, file, to);
    tn__names_release(&image.makers);
    tn__names_release(&image.taken);
    tn__arena_release(&image.arena);
    return status;
}
