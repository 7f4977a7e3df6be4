/* onnx_reader.h - shared definitions of the files of the ONNX reader.
 *
 * The reader works on byte ranges of the mapped file and never builds a second tree of the model:
 *
 *   formats/onnx.c   ModelProto: versions, functions, the list of blocks still to be read; the
 *                    fields of all messages and their wire types
 *   onnx_graph.c     GraphProto: names, initializers, the walk over its nodes; the main graph's
 *                    inputs, under the options
 *   onnx_node.c      NodeProto and AttributeProto: operands by name, attributes
 *   onnx_function.c  FunctionProto: calls are inlined
 *   onnx_tensor.c    TensorProto: size, check of the payload, small tensor data; ValueInfoProto:
 *                    element type and stated shape
 *   onnx_data.c      tensor data, when it is requested
 *
 * Two things nest in a file, and neither uses the C stack. Subgraphs go to a queue and are read
 * when the block around them is done. Functions must be read where they are called, so their bodies
 * are frames of an explicit stack.
 */
#ifndef TN_IMPORT_ONNX_READER_H
#define TN_IMPORT_ONNX_READER_H

#include "io/import/importer.h"

#define ONNX_DEPTH_MAX 64u  /* nesting of subgraphs and calls */
#define ONNX_ATTRS_MAX 256u /* per node */
#define ONNX_OPSETS_MAX 64u /* per model, per function: the list is searched for every node */
#define ONNX_EXPANSION_MIN (UINT64_C(1) << 20) /* bytes of functions read repeatedly, see */
#define ONNX_EXPANSION_FACTOR 64u              /* onnx_function.c */
#define ONNX_FLOATS_MAX (2 * TN_RANK_MAX)      /* see onnx_tensor.c */

/* --- the schema: field numbers and wire types --- */
extern const tn__message tn__onnx_model_schema, tn__onnx_opset_schema, tn__onnx_function_schema,
    tn__onnx_graph_schema, tn__onnx_node_schema, tn__onnx_attribute_schema, tn__onnx_tensor_schema,
    tn__onnx_sparse_schema, tn__onnx_entry_schema, tn__onnx_value_info_schema, tn__onnx_type_schema,
    tn__onnx_tensor_type_schema, tn__onnx_nested_type_schema, tn__onnx_shape_schema,
    tn__onnx_dimension_schema;

/* clang-format off */
enum { ONNX_MODEL_IR = 1, ONNX_MODEL_GRAPH = 7, ONNX_MODEL_OPSET = 8, ONNX_MODEL_TRAINING = 20,
       ONNX_MODEL_FUNCTION = 25 };
enum { ONNX_OPSET_DOMAIN = 1, ONNX_OPSET_VERSION = 2 };
enum { ONNX_FUNCTION_NAME = 1, ONNX_FUNCTION_INPUT = 4, ONNX_FUNCTION_OUTPUT = 5,
       ONNX_FUNCTION_NODE = 7, ONNX_FUNCTION_OPSET = 9, ONNX_FUNCTION_DOMAIN = 10,
       ONNX_FUNCTION_DEFAULT = 11, ONNX_FUNCTION_VALUE_INFO = 12, ONNX_FUNCTION_OVERLOAD = 13 };
enum { ONNX_GRAPH_NODE = 1, ONNX_GRAPH_NAME = 2, ONNX_GRAPH_INITIALIZER = 5, ONNX_GRAPH_INPUT = 11,
       ONNX_GRAPH_OUTPUT = 12, ONNX_GRAPH_VALUE_INFO = 13, ONNX_GRAPH_SPARSE = 15 };
enum { ONNX_NODE_INPUT = 1, ONNX_NODE_OUTPUT = 2, ONNX_NODE_NAME = 3, ONNX_NODE_TYPE = 4,
       ONNX_NODE_ATTRIBUTE = 5, ONNX_NODE_DOMAIN = 7, ONNX_NODE_OVERLOAD = 8 };
enum { ONNX_ATTR_NAME = 1, ONNX_ATTR_F = 2, ONNX_ATTR_I = 3, ONNX_ATTR_S = 4, ONNX_ATTR_T = 5,
       ONNX_ATTR_G = 6, ONNX_ATTR_FLOATS = 7, ONNX_ATTR_INTS = 8, ONNX_ATTR_STRINGS = 9,
       ONNX_ATTR_TENSORS = 10, ONNX_ATTR_GRAPHS = 11, ONNX_ATTR_TYPE = 20, ONNX_ATTR_REF = 21,
       ONNX_ATTR_SPARSE = 22 };
enum { ONNX_TENSOR_DIMS = 1, ONNX_TENSOR_TYPE = 2, ONNX_TENSOR_SEGMENT = 3, ONNX_TENSOR_FLOATS = 4,
       ONNX_TENSOR_INT32S = 5, ONNX_TENSOR_STRINGS = 6, ONNX_TENSOR_INT64S = 7,
       ONNX_TENSOR_NAME = 8, ONNX_TENSOR_RAW = 9, ONNX_TENSOR_DOUBLES = 10, ONNX_TENSOR_UINT64S = 11,
       ONNX_TENSOR_EXTERNAL = 13, ONNX_TENSOR_LOCATION = 14 };
enum { ONNX_SPARSE_VALUES = 1, ONNX_SPARSE_INDICES = 2, ONNX_SPARSE_DIMS = 3 };
enum { ONNX_ENTRY_KEY = 1, ONNX_ENTRY_VALUE = 2 };
enum { ONNX_INFO_NAME = 1, ONNX_INFO_TYPE = 2 };
enum { ONNX_TYPE_TENSOR = 1, ONNX_TYPE_SEQUENCE = 4, ONNX_TYPE_MAP = 5, ONNX_TYPE_OPAQUE = 7,
       ONNX_TYPE_SPARSE = 8, ONNX_TYPE_OPTIONAL = 9 };
enum { ONNX_TENSOR_TYPE_ELEMENT = 1, ONNX_TENSOR_TYPE_SHAPE = 2, ONNX_NESTED_TYPE_ELEMENT = 1 };
enum { ONNX_SHAPE_DIM = 1, ONNX_DIM_VALUE = 1, ONNX_DIM_PARAM = 2 };
/* clang-format on */

/* --- types and tensors --- */

/* Element type, shape and flags as the file states them. */
typedef struct onnx_type {
    tn_dtype dtype;
    uint32_t flags; /* TN_TENSOR_SEQUENCE */
    uint32_t rank;  /* or TN_RANK_UNKNOWN */
    int64_t shape[TN_RANK_MAX];
    tn__span symbols[TN_RANK_MAX]; /* dim_param; size 0: not present */
} onnx_type;

typedef struct onnx_external { /* location of a payload outside the file; see tensor_data.c */
    tn__span location;
    uint64_t offset, length;
    bool has_length;
} onnx_external;

/* The fields of a TensorProto without its elements. */
typedef struct onnx_tensor {
    tn__span name;
    tn__span message;
    tn_dtype dtype;
    uint32_t rank;
    uint64_t elements;
    tn__span raw;     /* raw_data */
    uint32_t payload; /* field number of the payload; 0: none */
    bool is_external, segmented;
    onnx_external external;
    int64_t shape[TN_RANK_MAX]; /* last, because it is not cleared */
} onnx_tensor;

/* --- scopes --- */

/* How a name is defined. A name that is only stated (value_info) is not defined. */
typedef enum onnx_origin {
    ONNX_BY_NOTHING,
    ONNX_BY_INPUT,
    ONNX_BY_INITIALIZER,
    ONNX_BY_NODE
} onnx_origin;

typedef struct onnx_local {
    tn_tensor_id tensor; /* TN_NONE: not defined, or an omitted argument of a function */
    tn_tensor_id target; /* the result of a call that gets this name; else TN_NONE */
    onnx_origin origin;
    tn__span stated; /* its ValueInfoProto; size 0: not present */
} onnx_local;

typedef struct onnx_function {
    tn__span message;
    tn__span name, domain, overload;
    uint32_t input_count, output_count;
    size_t opset_first, opset_count; /* of reader->opsets */
} onnx_function;

/* A call of a function: the values of its formal names and attribute references. */
typedef struct onnx_call {
    const onnx_function *function;
    tn__span node; /* the calling NodeProto */
    struct onnx_scope *caller;
    const tn_tensor_id *inputs, *outputs; /* as many as the function has */
} onnx_call;

typedef struct onnx_scope {
    struct onnx_scope *parent; /* its names are visible too; NULL: main graph, function */
    const onnx_call *call;     /* NULL outside of functions */
    tn__span body;             /* of a graph or, directly in a call, a function */
    bool is_function;
    tn__names names; /* text -> index of locals */
    onnx_local *locals;
    size_t local_room, local_count;
    tn_block_id block;
    uint32_t depth;
    const char *prefix;       /* prefix of new names: "" or "layer1/" */
    struct onnx_scope *holds; /* the scope that this one keeps alive: the parent or the caller */
    /* scopes and waiting subgraphs that need this one, plus its own reading */
    uint32_t users;
    struct onnx_scope *before, *after; /* list of all scopes, for release */
} onnx_scope;

/* A subgraph that waits to be read. */
typedef struct onnx_pending {
    tn__span graph;
    onnx_scope *parent;
    tn_block_id block;
    uint32_t depth;
    const char *prefix;
} onnx_pending;

typedef struct onnx_opset {
    tn__span domain;
    uint32_t version;
} onnx_opset;

/* A node as it is in the file. */
typedef struct onnx_node {
    tn__span message;
    tn__span name, type, domain, overload;
    tn__span output; /* its first named output: the name of a node without one */
    uint32_t input_count, output_count, attribute_count;
} onnx_node;

typedef struct onnx_reader {
    tn_importer *importer;
    tn__arena arena;    /* lives until the file is read */
    onnx_opset *opsets; /* of functions */
    size_t opset_room, opset_count;
    onnx_opset model_opsets[ONNX_OPSETS_MAX];
    uint32_t model_opset_count;
    onnx_function *functions;
    size_t function_room, function_count;
    tn__names function_names; /* domain, name and overload, with a NUL between */
    onnx_scope *scopes;
    onnx_pending *pending;
    size_t pending_room, pending_count;
    uint64_t expansion; /* bytes of functions that may still be read, see onnx_function.c */
    bool drop_stated;   /* an --input-shape contradicts the file: its other shapes are stale */
    bool batch_known;   /* the input that determines `batch` was read: its first extent was */
    tn__span batch_symbol;
    int64_t batch_extent;
    /* Scratch of one node or tensor, reused to save allocations. */
    tn_tensor_id *ids;
    size_t id_room;
    tn_attr *attrs;
    size_t attr_room;
    tn__text text[3];
    int64_t *ints; /* [TN_VALUE_MAX] */
    double floats[ONNX_FLOATS_MAX];
} onnx_reader;

/* --- functions for all files of the reader --- */

static inline tn__wire tn__onnx_open(const onnx_reader *reader, tn__span message,
                                     const tn__message *schema) {
    return tn__wire_open(reader->importer->bytes, message, schema);
}

/* Sets where the error is: "initializer 'w'". Keeps a place that is set already; returns status. */
tn_status tn__onnx_where(const onnx_reader *reader, tn_status status, const char *what,
                         tn__span name);
tn_status tn__onnx_no_memory(const onnx_reader *reader);
/* Checks that the counts of elements in a message fit 32 bits. */
tn_status tn__onnx_check_size(const onnx_reader *reader, tn__span message);
/* Prefix and name as clean text in scratch slot 0 to 2; NULL: out of memory. */
const char *tn__onnx_text(onnx_reader *reader, uint32_t slot, const char *prefix, tn__span name);
tn_status tn__onnx_opset(onnx_reader *reader, tn__span message, onnx_opset *opset);
/* The version of a domain for nodes of this scope; 0 if the file gives none. */
uint32_t tn__onnx_version(const onnx_reader *reader, const onnx_scope *scope, tn__span domain);
/* "ai.onnx" is the long name of the default domain. */
tn__span tn__onnx_domain(tn__span domain);

/* onnx_tensor.c */
tn_status tn__onnx_tensor(onnx_reader *reader, tn__span message, bool sparse, onnx_tensor *tensor);
tn__span tn__onnx_tensor_name(const onnx_reader *reader, tn__span message, bool sparse);
/* Appends the extents of a dims field. */
tn_status tn__onnx_dims(onnx_reader *reader, tn__wire *wire, const tn__field *field, uint32_t *rank,
                        int64_t *shape);
/* The position of a message in the file. */
static inline tn_payload tn__onnx_payload(const onnx_reader *reader, tn__span message) {
    return (tn_payload){(uint64_t)(message.bytes - reader->importer->bytes), message.size};
}

/* Values stay in scratch until the next call; count 0 if they are not stored. */
tn_status tn__onnx_value(onnx_reader *reader, const onnx_tensor *tensor, tn_value *value);

/* tn__onnx_type_settle puts in the values of symbols. */
tn_status tn__onnx_value_info(onnx_reader *reader, tn__span message, onnx_type *type);
tn_status tn__onnx_value_info_name(onnx_reader *reader, tn__span message, tn__span *name);
void tn__onnx_type_settle(onnx_reader *reader, onnx_type *type);

/* onnx_data.c */
typedef struct onnx_array { /* destination of elements */
    tn_contents *contents;  /* NULL: external data is an error */
    uint8_t *bytes;
    uint64_t size;   /* size required by type and shape */
    tn__span *plain; /* NULL, or as in tn__wanted */
} onnx_array;
/* The elements of a tensor that was read; *found false: they are not in the file. */
tn_status tn__onnx_elements(onnx_reader *reader, const onnx_tensor *tensor, const onnx_array *array,
                            bool *found);
/* The hook of the format. */
tn_status tn__onnx_contents(const tn__wanted *wanted, bool *found);

/* onnx_graph.c */
/* A scope like `from`, with one user. It takes over the caller's reference to `from->holds`. */
tn_status tn__onnx_scope_create(onnx_reader *reader, const onnx_scope *from, onnx_scope **scope);
void tn__onnx_scope_drop(onnx_reader *reader, onnx_scope *scope); /* NULL is fine */
/* The local of a name, created if it does not exist. */
tn_status tn__onnx_local(onnx_reader *reader, onnx_scope *scope, tn__span name, onnx_local **local);
/* The definition of a name in this scope or the scopes around it; NULL: not defined. */
const onnx_local *tn__onnx_resolve(const onnx_scope *scope, tn__span name);
/* The first passes over a body: which names have a stated shape; a tensor for every output. */
tn_status tn__onnx_index_stated(onnx_reader *reader, onnx_scope *scope);
tn_status tn__onnx_declare_nodes(onnx_reader *reader, onnx_scope *scope);
/* The main graph, or a subgraph of the queue, with everything but its own subgraphs. */
tn_status tn__onnx_read_block(onnx_reader *reader, const onnx_pending *pending);

/* onnx_node.c */
tn_status tn__onnx_node(onnx_reader *reader, tn__span message, onnx_node *node);
/* Sets where the error is: "node 'prefix/name' (Type)". */
tn_status tn__onnx_node_where(const onnx_reader *reader, tn_status status, const onnx_scope *scope,
                              const onnx_node *node);
/* Ids of a node's inputs and then its outputs, in reader->ids. */
tn_status tn__onnx_operands(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node);
tn_status tn__onnx_add_op(onnx_reader *reader, onnx_scope *scope, const onnx_node *node);

/* onnx_function.c */
tn_status tn__onnx_function_add(onnx_reader *reader, tn__span message);
const onnx_function *tn__onnx_function_find(onnx_reader *reader, const onnx_node *node);
/* Opens a scope for the body of a called function; tn__onnx_call_close connects its results. */
tn_status tn__onnx_call_open(onnx_reader *reader, onnx_scope *caller, const onnx_node *node,
                             const onnx_function *function, onnx_scope **body);
tn_status tn__onnx_call_close(onnx_reader *reader, onnx_scope *body);
/* The attribute that a reference means, and the scope that its subgraphs see; size 0: omitted. */
tn_status tn__onnx_reference(onnx_reader *reader, onnx_scope *scope, tn__span name,
                             tn__span *attribute, onnx_scope **sees);

#endif
