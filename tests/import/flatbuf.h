/* flatbuf.h - writes FlatBuffers and small .tflite models, so that tests build them by hand.
 *
 * A buffer grows from its end to its front, children before their parents; a `ref` is the distance
 * of an object's first byte from the end. Field numbers are written out again here, apart from the
 * reader's own table: a wrong number there is a failure here.
 */
#ifndef TESTS_IMPORT_FLATBUF_H
#define TESTS_IMPORT_FLATBUF_H

#include "proto.h"

typedef struct flat_buffer {
    uint8_t bytes[1 << 16]; /* used from the end */
    uint32_t used;
} flat_buffer;
typedef uint32_t ref; /* 0: absent */

static inline void flat_raw(flat_buffer *to, const void *bytes, uint32_t size) {
    if (to->used + size > sizeof to->bytes) abort();
    to->used += size;
    if (size) memcpy(to->bytes + sizeof to->bytes - to->used, bytes, size);
}
static inline void flat_u32(flat_buffer *to, uint32_t value) { flat_raw(to, &value, 4); }
/* So that after `size` more bytes the front is aligned. */
static inline void flat_pad(flat_buffer *to, uint32_t size, uint32_t alignment) {
    static const uint8_t zero[16];
    flat_raw(to, zero, (alignment - (to->used + size) % alignment) % alignment);
}

static inline ref flat_bytes(flat_buffer *to, const void *bytes, uint32_t size) {
    flat_pad(to, size, 16);
    flat_raw(to, bytes, size);
    flat_u32(to, size);
    return to->used;
}
static inline ref flat_text(flat_buffer *to, const char *text) {
    uint32_t length = (uint32_t)strlen(text);
    flat_pad(to, length + 1, 4);
    flat_raw(to, text, length + 1);
    flat_u32(to, length);
    return to->used;
}
/* "1,-1,3" as a vector of int32. */
static inline ref flat_ints(flat_buffer *to, const char *list) {
    int32_t values[64];
    uint32_t count = 0;
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        values[count++] = (int32_t)strtol(at, NULL, 10);
    flat_pad(to, 4 * count, 4);
    flat_raw(to, values, 4 * count);
    flat_u32(to, count);
    return to->used;
}
static inline ref flat_refs(flat_buffer *to, const ref *refs, uint32_t count) {
    flat_pad(to, 4 * count, 4);
    for (uint32_t i = count; i-- > 0;) flat_u32(to, to->used + 4 - refs[i]);
    flat_u32(to, count);
    return to->used;
}

typedef struct flat_slot {
    uint32_t field;
    uint64_t value; /* or 0 when it is a ref */
    ref target;
} flat_slot;

/* A table; every field takes 8 bytes, which any scalar fits into. */
static inline ref flat_table(flat_buffer *to, const flat_slot *slots, uint32_t count) {
    uint16_t vtable[20] = {4, 0};
    flat_pad(to, 8 * count + 4, 8);
    uint32_t start = to->used + 8 * count + 4; /* of the table, from the end */
    for (uint32_t i = count; i-- > 0;) {
        uint32_t at = to->used + 8;
        uint64_t value = slots[i].target ? at - slots[i].target : slots[i].value;
        flat_raw(to, &value, 8);
        if (4 + 2 * slots[i].field + 2u > vtable[0])
            vtable[0] = (uint16_t)(4 + 2 * slots[i].field + 2);
        vtable[2 + slots[i].field] = (uint16_t)(start - at);
    }
    flat_u32(to, vtable[0]); /* the vtable stands right before the table */
    vtable[1] = (uint16_t)(8 * count + 4);
    ref table = to->used;
    flat_raw(to, vtable, vtable[0]);
    return table;
}

/* --- .tflite --- */

enum {
    T_FLOAT32 = 0,
    T_FLOAT16 = 1,
    T_INT32 = 2,
    T_UINT8 = 3,
    T_INT64 = 4,
    T_STRING = 5,
    T_BOOL = 6,
    T_INT16 = 7,
    T_COMPLEX64 = 8,
    T_INT8 = 9,
    T_FLOAT64 = 10,
    T_COMPLEX128 = 11,
    T_UINT64 = 12,
    T_RESOURCE = 13,
    T_VARIANT = 14,
    T_UINT32 = 15,
    T_UINT16 = 16,
    T_INT4 = 17,
    T_BFLOAT16 = 18,
    T_INT2 = 19,
    T_UINT4 = 20
};
enum {
    OP_ADD = 0,
    OP_CONV = 3,
    OP_DEQUANTIZE = 6,
    OP_LOGISTIC = 14,
    OP_MUL = 18,
    OP_RELU = 19,
    OP_RESHAPE = 22,
    OP_CALL = 31,
    OP_CUSTOM = 32,
    OP_SUB = 41,
    OP_LSTM_SEQUENCE = 44,
    OP_IF = 118,
    OP_WHILE = 119,
    OP_DENSIFY = 124,
    OP_CALL_ONCE = 129,
    OP_VAR_HANDLE = 142,
    OP_READ_VARIABLE = 143,
    OP_ASSIGN_VARIABLE = 144
};

#define LITE_MAX 64
typedef struct lite_graph {
    ref tensors[LITE_MAX], ops[LITE_MAX];
    uint32_t tensor_count, op_count;
} lite_graph;
typedef struct lite {
    flat_buffer flat;
    lite_graph graph; /* under way */
    ref graphs[LITE_MAX], buffers[LITE_MAX], codes[LITE_MAX];
    int kinds[LITE_MAX];
    uint32_t graph_count, buffer_count, code_count, version;
    const char *custom; /* name of custom operators */
} lite;

static inline uint32_t lite_buffer(lite *to, uint32_t size) {
    static const uint8_t zeros[4096];
    if (!to->buffer_count) to->buffers[to->buffer_count++] = flat_table(&to->flat, NULL, 0);
    if (!size) return 0;
    ref data = flat_bytes(&to->flat, zeros, size);
    flat_slot slot = {0, 0, data};
    to->buffers[to->buffer_count] = flat_table(&to->flat, &slot, 1);
    return to->buffer_count++;
}

typedef struct lite_tensor {
    const char *name, *shape, *signature;
    int type;
    uint32_t bytes; /* of contents; 0: none */
    bool variable, sparse;
    uint32_t buffer; /* when bytes is 0 */
} lite_tensor;

static inline uint32_t lite_add(lite *to, lite_tensor spec) {
    flat_buffer *flat = &to->flat;
    uint32_t buffer = spec.bytes ? lite_buffer(to, spec.bytes) : spec.buffer, count = 0;
    flat_slot slots[10];
    if (spec.shape) slots[count++] = (flat_slot){0, 0, flat_ints(flat, spec.shape)};
    slots[count++] = (flat_slot){1, (uint64_t)spec.type, 0};
    slots[count++] = (flat_slot){2, buffer, 0};
    if (spec.name) slots[count++] = (flat_slot){3, 0, flat_text(flat, spec.name)};
    if (spec.variable) slots[count++] = (flat_slot){5, 1, 0};
    if (spec.sparse) slots[count++] = (flat_slot){6, 0, flat_table(flat, NULL, 0)};
    if (spec.signature) slots[count++] = (flat_slot){7, 0, flat_ints(flat, spec.signature)};
    to->graph.tensors[to->graph.tensor_count] = flat_table(flat, slots, count);
    return to->graph.tensor_count++;
}
static inline uint32_t lite_float(lite *to, const char *name, const char *shape) {
    return lite_add(to, (lite_tensor){.name = name, .shape = shape, .type = T_FLOAT32});
}

static inline uint32_t lite_code(lite *to, int kind) {
    for (uint32_t i = 0; i < to->code_count; i++)
        if (to->kinds[i] == kind) return i;
    flat_slot slots[4];
    uint32_t count = 0;
    slots[count++] = (flat_slot){0, (uint64_t)(kind < 127 ? kind : 127), 0};
    if (kind == OP_CUSTOM)
        slots[count++] = (flat_slot){1, 0, flat_text(&to->flat, to->custom ? to->custom : "Own")};
    slots[count++] = (flat_slot){2, 3, 0};
    slots[count++] = (flat_slot){3, (uint64_t)kind, 0};
    to->codes[to->code_count] = flat_table(&to->flat, slots, count);
    to->kinds[to->code_count] = kind;
    return to->code_count++;
}

/* `options`: number in the union, or 0; its fields 0 and 1 are a and b. */
static inline void lite_op_with(lite *to, int kind, const char *inputs, const char *outputs,
                                uint32_t options, uint32_t a, uint32_t b) {
    flat_buffer *flat = &to->flat;
    uint32_t code = lite_code(to, kind), count = 0;
    flat_slot slots[6];
    slots[count++] = (flat_slot){0, code, 0};
    slots[count++] = (flat_slot){1, 0, flat_ints(flat, inputs)};
    slots[count++] = (flat_slot){2, 0, flat_ints(flat, outputs)};
    if (options) {
        flat_slot own[] = {{0, a, 0}, {1, b, 0}};
        slots[count++] = (flat_slot){3, options, 0};
        slots[count++] = (flat_slot){4, 0, flat_table(flat, own, 2)};
    }
    to->graph.ops[to->graph.op_count++] = flat_table(flat, slots, count);
}
static inline void lite_op(lite *to, int kind, const char *inputs, const char *outputs) {
    lite_op_with(to, kind, inputs, outputs, 0, 0, 0);
}

/* Ends the subgraph under way. */
static inline void lite_end(lite *to, const char *name, const char *inputs, const char *outputs) {
    flat_buffer *flat = &to->flat;
    lite_graph *graph = &to->graph;
    flat_slot slots[] = {{0, 0, flat_refs(flat, graph->tensors, graph->tensor_count)},
                         {1, 0, flat_ints(flat, inputs)},
                         {2, 0, flat_ints(flat, outputs)},
                         {3, 0, flat_refs(flat, graph->ops, graph->op_count)},
                         {4, 0, flat_text(flat, name)}};
    to->graphs[to->graph_count++] = flat_table(flat, slots, 5);
    *graph = (lite_graph){0};
}

/* Ends the model; `*size` bytes at the returned place. */
static inline const uint8_t *lite_model(lite *to, size_t *size) {
    flat_buffer *flat = &to->flat;
    lite_buffer(to, 0);
    flat_slot slots[] = {{0, to->version ? to->version : 3, 0},
                         {1, 0, flat_refs(flat, to->codes, to->code_count)},
                         {2, 0, flat_refs(flat, to->graphs, to->graph_count)},
                         {3, 0, flat_text(flat, "by hand")},
                         {4, 0, flat_refs(flat, to->buffers, to->buffer_count)}};
    ref root = flat_table(flat, slots, 5);
    flat_pad(flat, 8, 16);
    flat_raw(flat, "TFL3", 4);
    flat_u32(flat, flat->used + 4 - root);
    *size = flat->used;
    return flat->bytes + sizeof flat->bytes - flat->used;
}

static inline loaded lite_load_with(lite *to, const tn_import_options *options) {
    size_t size;
    const uint8_t *bytes = lite_model(to, &size);
    uint8_t *exact = malloc(size); /* exactly as long: a read beyond is seen */
    if (!exact) abort();
    memcpy(exact, bytes, size);
    loaded result = {0};
    result.status =
        tn_graph_load_memory("test.tflite", exact, size, options, &result.graph, &result.error);
    free(exact);
    free(to);
    return result;
}
static inline loaded lite_load(lite *to) { return lite_load_with(to, NULL); }
static inline lite *lite_new(void) {
    lite *made = calloc(1, sizeof *made);
    if (!made) abort();
    return made;
}

#endif
