/* proto.h - writes protobuf messages, so that tests build ONNX models by hand.
 *
 * A `proto` is a growing buffer. Builders return one; proto_sub and the loaders below take it over
 * and free it. The field numbers are written out again here, apart from the reader's own table:
 * a wrong number there is a failure here.
 */
#ifndef TESTS_IMPORT_PROTO_H
#define TESTS_IMPORT_PROTO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tenure/graph.h>

typedef struct proto {
    uint8_t *data;
    size_t size, room;
} proto;

static inline void proto_raw(proto *to, const void *bytes, size_t size) {
    if (to->size + size > to->room) {
        to->room = 2 * (to->size + size) + 64;
        to->data = realloc(to->data, to->room);
        if (!to->data) abort();
    }
    if (size) memcpy(to->data + to->size, bytes, size);
    to->size += size;
}

static inline void proto_varint(proto *to, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        proto_raw(to, &byte, 1);
        value >>= 7;
    } while (value);
}

static inline void proto_tag(proto *to, uint32_t field, uint32_t type) {
    proto_varint(to, (uint64_t)field << 3 | type);
}
static inline void proto_int(proto *to, uint32_t field, int64_t value) {
    proto_tag(to, field, 0);
    proto_varint(to, (uint64_t)value);
}
static inline void proto_bytes(proto *to, uint32_t field, const void *bytes, size_t size) {
    proto_tag(to, field, 2);
    proto_varint(to, size);
    proto_raw(to, bytes, size);
}
static inline void proto_text(proto *to, uint32_t field, const char *text) {
    proto_bytes(to, field, text, strlen(text));
}
static inline void proto_float(proto *to, uint32_t field, float value) {
    proto_tag(to, field, 5);
    proto_raw(to, &value, sizeof value);
}
static inline void proto_sub(proto *to, uint32_t field, proto child) {
    proto_bytes(to, field, child.data, child.size);
    free(child.data);
}

/* --- ONNX --- */

/* "1,N,?,3": numbers, names, and ? for a dimension without either; NULL: no shape. */
static inline proto onnx_shape(const char *dims) {
    proto shape = {0};
    while (*dims) {
        size_t length = strcspn(dims, ",");
        char text[80] = "";
        memcpy(text, dims, length);
        proto dim = {0};
        if (strspn(text, "-0123456789") == length)
            proto_int(&dim, 1, strtoll(text, NULL, 10));
        else if (strcmp(text, "?") != 0)
            proto_text(&dim, 2, text);
        proto_sub(&shape, 1, dim);
        dims += length + (dims[length] == ',');
    }
    return shape;
}

static inline proto onnx_tensor_type(int type, const char *dims) {
    proto tensor = {0}, outer = {0};
    proto_int(&tensor, 1, type);
    if (dims) proto_sub(&tensor, 2, onnx_shape(dims));
    proto_sub(&outer, 1, tensor);
    return outer;
}

static inline proto onnx_value(const char *name, int type, const char *dims) {
    proto value = {0};
    proto_text(&value, 1, name);
    if (type) proto_sub(&value, 2, onnx_tensor_type(type, dims));
    return value;
}

/* Operands with commas between: "x,,w" leaves the second one out. */
static inline void onnx_names(proto *node, uint32_t field, const char *names) {
    if (!*names) return;
    for (;;) {
        size_t length = strcspn(names, ",");
        proto_bytes(node, field, names, length);
        if (!names[length]) return;
        names += length + 1;
    }
}

static inline proto onnx_node(const char *type, const char *name, const char *inputs,
                              const char *outputs) {
    proto node = {0};
    onnx_names(&node, 1, inputs);
    onnx_names(&node, 2, outputs);
    if (*name) proto_text(&node, 3, name);
    proto_text(&node, 4, type);
    return node;
}

static inline proto onnx_attr(const char *name, int type) {
    proto attr = {0};
    proto_text(&attr, 1, name);
    if (type) proto_int(&attr, 20, type);
    return attr;
}
static inline proto onnx_attr_int(const char *name, int64_t value) {
    proto attr = onnx_attr(name, 2);
    proto_int(&attr, 3, value);
    return attr;
}
static inline proto onnx_attr_graph(const char *name, proto graph) {
    proto attr = onnx_attr(name, 5);
    proto_sub(&attr, 6, graph);
    return attr;
}
static inline proto onnx_attr_tensor(const char *name, proto tensor) {
    proto attr = onnx_attr(name, 4);
    proto_sub(&attr, 5, tensor);
    return attr;
}
static inline proto onnx_attr_ref(const char *name, int type, const char *reference) {
    proto attr = onnx_attr(name, type);
    proto_text(&attr, 21, reference);
    return attr;
}

/* A TensorProto with raw_data, or without any payload when `raw` is NULL. */
static inline proto onnx_tensor(const char *name, int type, const char *dims, const void *raw,
                                size_t size) {
    proto tensor = {0};
    for (const char *at = dims; *at; at += strcspn(at, ","), at += *at == ',')
        proto_int(&tensor, 1, strtoll(at, NULL, 10));
    proto_int(&tensor, 2, type);
    if (*name) proto_text(&tensor, 8, name);
    if (raw) proto_bytes(&tensor, 9, raw, size);
    return tensor;
}

static inline void onnx_entry(proto *to, uint32_t field, const char *key, const char *text) {
    proto entry = {0};
    proto_text(&entry, 1, key);
    proto_text(&entry, 2, text);
    proto_sub(to, field, entry);
}

enum {
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE_INFO = 13,
    GRAPH_SPARSE = 15,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7
};
enum {
    FLOAT = 1,
    UINT8 = 2,
    INT32 = 6,
    INT64 = 7,
    STRING = 8,
    BOOL = 9,
    FLOAT16 = 10,
    DOUBLE = 11,
    COMPLEX64 = 14,
    BFLOAT16 = 16,
    UINT4 = 21,
    INT4 = 22
};

static inline proto onnx_opset(const char *domain, int64_t version) {
    proto opset = {0};
    if (*domain) proto_text(&opset, 1, domain);
    proto_int(&opset, 2, version);
    return opset;
}

static inline proto onnx_model(proto graph) {
    proto model = {0};
    proto_int(&model, 1, 8);
    proto_sub(&model, 8, onnx_opset("", 17));
    proto_sub(&model, 8, onnx_opset("my", 3));
    proto_sub(&model, 7, graph);
    return model;
}

/* x -> y, both float [2,3], by one node of the test's own domain, which has no rule: so its
 * output's shape is the one that is stated. Tests add to it. */
static inline proto onnx_small_graph(void) {
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "2,3"));
    return graph;
}

/* A node of that domain. */
static inline proto onnx_own(const char *name, const char *inputs, const char *outputs) {
    proto node = onnx_node("Own", name, inputs, outputs);
    proto_text(&node, NODE_DOMAIN, "my");
    return node;
}

/* --- loading --- */

typedef struct loaded {
    tn_status status;
    tn_graph *graph; /* of the last load; destroyed by the next one and by unload */
    tn_error error;
} loaded;

static inline loaded load_bytes(const void *bytes, size_t size, const tn_import_options *options) {
    loaded result = {0};
    result.status =
        tn_graph_load_memory("test.onnx", bytes, size, options, &result.graph, &result.error);
    return result;
}

static inline loaded load_with(proto model, const tn_import_options *options) {
    loaded result = load_bytes(model.data, model.size, options);
    free(model.data);
    return result;
}

static inline loaded load_graph(proto graph) { return load_with(onnx_model(graph), NULL); }

static inline void unload(loaded result) { tn_graph_destroy(result.graph); }

static inline const tn_tensor *tensor_of(loaded result, const char *name) {
    uint32_t count = tn_graph_tensor_count(result.graph);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(tn_graph_tensor(result.graph, i)->name, name))
            return tn_graph_tensor(result.graph, i);
    fail_msg("there is no tensor '%s'", name);
    return NULL;
}

static inline void assert_loads(loaded result) {
    if (result.status != TN_OK)
        fail_msg("%s [%s] %s", tn_status_name(result.status), result.error.where,
                 result.error.message);
}

static inline void assert_shape(const tn_tensor *tensor, const char *expected) {
    char text[200] = "";
    size_t used = 0;
    for (uint32_t i = 0; tensor->rank != TN_RANK_UNKNOWN && i < tensor->rank; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? "," : "",
                                 (long long)tensor->shape[i]);
    assert_string_equal(text, expected);
}

/* The load failed with this status, and its error has these words, the file among them. */
static inline void assert_refused(loaded result, tn_status status, const char *where,
                                  const char *words) {
    if (result.status == TN_OK) {
        unload(result);
        fail_msg("accepted, but should be refused for: %s", words);
    }
    if (result.status != status || !strstr(result.error.where, where) ||
        !strstr(result.error.message, words) || strncmp(result.error.where, "test.", 5) != 0)
        fail_msg("expected %s [%s] %s, got %s [%s] %s", tn_status_name(status), where, words,
                 tn_status_name(result.status), result.error.where, result.error.message);
    assert_null(result.graph);
}

#endif
