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
 *   onnx_flex.c      FlexAttention with graphs becomes the operators that its text names
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

#define ONNX_DEPTH_MAX 64u  /* limit of nesting of subgraphs and calls */
#define ONNX_ATTRS_MAX 256u /* limit of attributes per node */
/* limit of operator sets per model and per function; the list of them is searched for every node */
#define ONNX_OPSETS_MAX 64u
/* bytes of functions that may be read repeatedly, at least; see onnx_function.c */
#define ONNX_EXPANSION_MIN (UINT64_C(1) << 20)
/* bytes of functions that may be read repeatedly, per byte of the file */
#define ONNX_EXPANSION_FACTOR 64u
/* limit of the elements that are read from a small tensor of floats or narrow integers; see
 * onnx_tensor.c */
#define ONNX_FLOATS_MAX (2 * TN_RANK_MAX)

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
    uint32_t rank;  /* number of dimensions, or TN_RANK_UNKNOWN */
    int64_t shape[TN_RANK_MAX];
    tn__span symbols[TN_RANK_MAX]; /* names of dimensions (dim_param); size 0: no name */
} onnx_type;

typedef struct onnx_external { /* where a payload outside the file lies; see tensor_data.c */
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
    tn__span raw;     /* content of the field raw_data */
    uint32_t payload; /* field number of the payload; 0: there is no payload */
    bool is_external, segmented;
    onnx_external external;
    /* last in the struct, because code that clears the struct leaves this array out */
    int64_t shape[TN_RANK_MAX];
} onnx_tensor;

/* --- scopes --- */

/* How a name is defined. A name that value_info only describes is not defined. */
typedef enum onnx_origin {
    ONNX_BY_NOTHING,
    ONNX_BY_INPUT,
    ONNX_BY_INITIALIZER,
    ONNX_BY_NODE
} onnx_origin;

typedef struct onnx_local {
    /* the tensor; TN_NONE: not defined, or an omitted argument of a function */
    tn_tensor_id tensor;
    /* for a result of a function call: the caller's tensor that receives it; otherwise TN_NONE */
    tn_tensor_id target;
    onnx_origin origin;
    tn__span stated; /* the ValueInfoProto of the name; size 0: it has no such message */
} onnx_local;

typedef struct onnx_function {
    tn__span message;
    tn__span name, domain, overload;
    uint32_t input_count, output_count;
    /* the function's own operator sets, as a range in reader->opsets */
    size_t opset_first, opset_count;
} onnx_function;

/* A call of a function: the values of its formal names and attribute references. */
typedef struct onnx_call {
    const onnx_function *function;
    tn__span node; /* the NodeProto that calls the function */
    struct onnx_scope *caller;
    /* [formal inputs], [formal outputs] the caller's tensors for them */
    const tn_tensor_id *inputs, *outputs;
} onnx_call;

typedef struct onnx_scope {
    /* the scope of the block around; its names are visible here, too; NULL for the main graph and
     * for functions */
    struct onnx_scope *parent;
    const onnx_call *call; /* NULL: the scope is outside of functions */
    /* the message that holds the nodes: a graph or, directly in a call, a function */
    tn__span body;
    bool is_function;
    tn__names names; /* index in `locals` of each name */
    onnx_local *locals;
    size_t local_room, local_count;
    tn_block_id block;
    uint32_t depth;
    const char *prefix;       /* prefix of new names: "" or, for example, "layer1/" */
    struct onnx_scope *holds; /* the scope that this scope keeps alive: its parent or its caller */
    /* number of scopes and waiting subgraphs that need this one, plus 1 while it is read itself */
    uint32_t users;
    /* links of the list of all scopes, through which they are released */
    struct onnx_scope *before, *after;
} onnx_scope;

/* A subgraph that waits in the queue to be read. */
typedef struct onnx_pending {
    tn__span graph;
    onnx_scope *parent;
    tn_block_id block;
    uint32_t depth;
    const char *prefix;
    /* true: the graph, which has one input and one output, becomes part of the block around it;
     * `given` and `result` are the tensors for them */
    bool joins;
    tn_tensor_id given, result;
} onnx_pending;

/* A graph in an attribute that becomes part of the block around it. */
typedef struct onnx_joined {
    const char *attribute;
    tn_tensor_id given, result;
} onnx_joined;
#define ONNX_JOINED_MAX 2u

typedef struct onnx_opset {
    tn__span domain;
    uint32_t version;
} onnx_opset;

/* A node as it is in the file. */
typedef struct onnx_node {
    tn__span message;
    tn__span name, type, domain, overload;
    /* first named output of the node; it stands for the name if the node has none */
    tn__span output;
    uint32_t input_count, output_count, attribute_count;
} onnx_node;

typedef struct onnx_reader {
    tn_importer *importer;
    tn__arena arena;    /* memory that is released when the file has been read */
    onnx_opset *opsets; /* operator sets of functions */
    size_t opset_room, opset_count;
    onnx_opset model_opsets[ONNX_OPSETS_MAX];
    uint32_t model_opset_count;
    onnx_function *functions;
    size_t function_room, function_count;
    /* keys of functions: domain, name and overload, with a NUL between them */
    tn__names function_names;
    onnx_scope *scopes;
    onnx_pending *pending;
    size_t pending_room, pending_count;
    /* while the attributes of a node are read whose graphs join the block: the graphs found */
    bool joins;
    uint32_t joined_count;
    onnx_joined joined[ONNX_JOINED_MAX];
    /* bytes of functions that may still be read repeatedly; see onnx_function.c */
    uint64_t expansion;
    /* true: an --input-shape contradicts the file, so other shapes that the file states are
     * ignored */
    bool drop_stated;
    /* true: the input that determines `batch` has been read; its first extent was batch_extent */
    bool batch_known;
    tn__span batch_symbol;
    int64_t batch_extent;
    /* Scratch memory for one node or tensor, reused to save allocations. */
    tn_tensor_id *ids;
    size_t id_room;
    tn_attr *attrs;
    size_t attr_room;
    tn__text text[3];
    int64_t *ints; /* [TN_VALUE_MAX] values of a small tensor, as `floats` */
    double floats[ONNX_FLOATS_MAX];
} onnx_reader;

/* --- functions for all files of the reader --- */

static inline tn__wire tn__onnx_open(const onnx_reader *reader, tn__span message,
                                     const tn__message *schema) {
    return tn__wire_open(reader->importer->bytes, message, schema);
}

/* Sets the place of an error, such as "initializer 'w'", unless a place is already set; returns
 * status. */
tn_status tn__onnx_where(const onnx_reader *reader, tn_status status, const char *what,
                         tn__span name);
tn_status tn__onnx_no_memory(const onnx_reader *reader);
/* Checks that a message has less than 4 GiB, so that the number of its elements fits 32 bits. */
tn_status tn__onnx_check_size(const onnx_reader *reader, tn__span message);
/* Writes prefix and name as clean text into scratch slot 0, 1 or 2; returns NULL if memory runs
 * out. */
const char *tn__onnx_text(onnx_reader *reader, uint32_t slot, const char *prefix, tn__span name);
tn_status tn__onnx_opset(onnx_reader *reader, tn__span message, onnx_opset *opset);
/* The operator set version of a domain for nodes of this scope; 0 if the file gives none. */
uint32_t tn__onnx_version(const onnx_reader *reader, const onnx_scope *scope, tn__span domain);
/* Returns the domain with "ai.onnx", the long name of the default domain, replaced by "". */
tn__span tn__onnx_domain(tn__span domain);

/* onnx_tensor.c */
tn_status tn__onnx_tensor(onnx_reader *reader, tn__span message, bool sparse, onnx_tensor *tensor);
tn__span tn__onnx_tensor_name(const onnx_reader *reader, tn__span message, bool sparse);
/* Appends the extents of a field `dims`. */
tn_status tn__onnx_dims(onnx_reader *reader, tn__wire *wire, const tn__field *field, uint32_t *rank,
                        int64_t *shape);
/* The position of a message in the file, as the payload of a tensor. */
static inline tn_payload tn__onnx_payload(const onnx_reader *reader, tn__span message) {
    return (tn_payload){(uint64_t)(message.bytes - reader->importer->bytes), message.size};
}

/* Reads the values of a small tensor. They stay in scratch memory until the next call; count 0:
 * they are not stored. */
tn_status tn__onnx_value(onnx_reader *reader, const onnx_tensor *tensor, tn_value *value);

/* Reads element type and shape of a ValueInfoProto. Symbols among the extents get their values from
 * tn__onnx_type_settle. */
tn_status tn__onnx_value_info(onnx_reader *reader, tn__span message, onnx_type *type);
tn_status tn__onnx_value_info_name(onnx_reader *reader, tn__span message, tn__span *name);
void tn__onnx_type_settle(onnx_reader *reader, onnx_type *type);

/* onnx_data.c */
typedef struct onnx_array { /* destination of a tensor's elements */
    tn_contents *contents;  /* contents that open external data; NULL: external data is an error */
    uint8_t *bytes;
    uint64_t size; /* bytes that type and shape require */
    /* where to store the range of the tensor's plain bytes in the file, as tn__wanted.plain does;
     * NULL: not wanted */
    tn__span *plain;
} onnx_array;
/* Reads the elements of a tensor; *found is set to false if they are not in the file. */
tn_status tn__onnx_elements(onnx_reader *reader, const onnx_tensor *tensor, const onnx_array *array,
                            bool *found);
/* Reads the data of a tensor, as tn_import_format.contents describes. */
tn_status tn__onnx_contents(const tn__wanted *wanted, bool *found);

/* onnx_pair.c */
/* If `spec` is a DequantizeLinear of the result of a QuantizeLinear, and its scale or zero point is
 * an initializer with the same contents as that of the QuantizeLinear, lets it read the latter.
 * spec->inputs is reader->ids. */
tn_status tn__onnx_join_pair(onnx_reader *reader, tn_op_spec *spec);

/* onnx_graph.c */
/* Creates a scope with the values of `from` and one user. It takes over the caller's reference to
 * `from->holds`. */
tn_status tn__onnx_scope_create(onnx_reader *reader, const onnx_scope *from, onnx_scope **scope);
/* removes one user of a scope, and releases the scope with its last user; accepts NULL */
void tn__onnx_scope_drop(onnx_reader *reader, onnx_scope *scope);
/* Returns the entry of a name in a scope, and creates it if it does not exist. */
tn_status tn__onnx_local(onnx_reader *reader, onnx_scope *scope, tn__span name, onnx_local **local);
/* Finds the definition of a name in this scope or the scopes around it; NULL: not defined. */
const onnx_local *tn__onnx_resolve(const onnx_scope *scope, tn__span name);
/* The first passes over a body: tn__onnx_index_stated finds the names with a stated shape,
 * tn__onnx_declare_nodes makes a tensor for every output. */
tn_status tn__onnx_index_stated(onnx_reader *reader, onnx_scope *scope);
tn_status tn__onnx_declare_nodes(onnx_reader *reader, onnx_scope *scope);
/* Reads the main graph, or a subgraph of the queue, except its own subgraphs. */
tn_status tn__onnx_read_block(onnx_reader *reader, const onnx_pending *pending);

/* onnx_node.c */
tn_status tn__onnx_node(onnx_reader *reader, tn__span message, onnx_node *node);
/* Sets the place of an error to "node 'prefix/name' (Type)", or to "node of 'prefix/output' (Type)"
 * if the node has no name. */
tn_status tn__onnx_node_where(const onnx_reader *reader, tn_status status, const onnx_scope *scope,
                              const onnx_node *node);
/* Writes the ids of a node's inputs and then its outputs to reader->ids. */
tn_status tn__onnx_operands(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node);
tn_status tn__onnx_add_op(onnx_reader *reader, onnx_scope *scope, const onnx_node *node);

/* onnx_flex.c */
/* Whether the graphs in the attributes of a node become part of the block around it. */
bool tn__onnx_flex_joins(const onnx_node *node);
/* Adds a tensor of unknown type and shape with the name "<prefix><node>/<what>". */
tn_status tn__onnx_flex_tensor(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node,
                               const char *what, tn_tensor_id *id);
/* Adds the operators of a FlexAttention whose graphs are in reader->joined. `spec` has the operands
 * and the other attributes of the node. */
tn_status tn__onnx_flex_add(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node,
                            const tn_op_spec *spec);

/* onnx_function.c */
/* The prefix of names in a body that is inlined for a node: "outer/node/", or the scope's own
 * prefix if that would become too long. NULL: memory ran out. */
const char *tn__onnx_prefix(onnx_reader *reader, const onnx_scope *scope, const onnx_node *node);
tn_status tn__onnx_function_add(onnx_reader *reader, tn__span message);
const onnx_function *tn__onnx_function_find(onnx_reader *reader, const onnx_node *node);
/* Opens a scope for the body of a called function; tn__onnx_call_close connects its results. */
tn_status tn__onnx_call_open(onnx_reader *reader, onnx_scope *caller, const onnx_node *node,
                             const onnx_function *function, onnx_scope **body);
tn_status tn__onnx_call_close(onnx_reader *reader, onnx_scope *body);
/* Finds the attribute to which a reference in a function's body refers, and the scope in which
 * subgraphs of the attribute look up names. *attribute is empty if the call omits the attribute and
 * it has no default value. */
tn_status tn__onnx_reference(onnx_reader *reader, onnx_scope *scope, tn__span name,
                             tn__span *attribute, onnx_scope **sees);

#endif
