/* graph.h - the graph of a network: tensors and operators, without order, time or addresses.
 *
 *     tn_graph *graph;
 *     tn_error error;
 *     int64_t shape[] = {1, 8};
 *     if (tn_graph_create(NULL, &graph, &error) != TN_OK) return 4;
 *     tn_tensor_id x, y;
 *     tn_tensor_spec in = {.name = "x", .dtype = TN_FLOAT32, .rank = 2, .shape = shape,
 *                          .kind = TN_KIND_INPUT};
 *     tn_op_spec relu = {.type = "Relu", .inputs = &x, .input_count = 1, .outputs = &y,
 *                        .output_count = 1};
 *     tn_tensor_spec out = {.name = "y", .kind = TN_KIND_OUTPUT};
 *     if (tn_graph_add_tensor(graph, &in, &x, &error) ||
 *         tn_graph_add_tensor(graph, &out, &y, &error) ||
 *         tn_graph_add_op(graph, &relu, NULL, &error) || tn_graph_infer(graph, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     printf("y: %llu bytes\n", (unsigned long long)tn_graph_tensor(graph, y)->bytes);
 *     tn_graph_destroy(graph);
 *
 * Ids are indices: 0, 1, 2, ... in the order of adding. Names need not be unique; operators refer
 * to tensors by id. Control flow (If, Loop, Scan) owns blocks. The tensors and operators of all
 * blocks share one id space, so a block reads a tensor of an outer block by its id.
 * Units: bytes. Shapes list the outermost dimension first, as ONNX writes them.
 * Threads: any number of threads may read a graph; only one thread at a time may change it.
 */
#ifndef TENURE_GRAPH_H
#define TENURE_GRAPH_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_graph tn_graph;
typedef uint32_t tn_tensor_id;
typedef uint32_t tn_op_id;
typedef uint32_t tn_block_id; /* id of a block; 0 is the main block */

/* in place of an id: an operand is omitted, or a tensor has no producer */
#define TN_NONE UINT32_MAX
#define TN_DIM_UNKNOWN INT64_MIN   /* an extent that is not known (yet) */
#define TN_RANK_UNKNOWN UINT32_MAX /* in place of a rank: not even the rank is known */
#define TN_RANK_MAX 64u

/* Element types of ONNX and TFLite: X(name, bits, text). 0 bits: the type has no fixed size. A
 * RESOURCE is the number of a variable or table that is stored elsewhere. */
/* clang-format off */
#define TN_DTYPE_TABLE(X)                                                                      \
    X(UNDEFINED, 0, "undefined")                                                               \
    X(FLOAT32, 32, "float32")   X(UINT8, 8, "uint8")       X(INT8, 8, "int8")                  \
    X(UINT16, 16, "uint16")     X(INT16, 16, "int16")      X(INT32, 32, "int32")               \
    X(INT64, 64, "int64")       X(STRING, 0, "string")     X(BOOL, 8, "bool")                  \
    X(FLOAT16, 16, "float16")   X(FLOAT64, 64, "float64")  X(UINT32, 32, "uint32")             \
    X(UINT64, 64, "uint64")     X(COMPLEX64, 64, "complex64")                                  \
    X(COMPLEX128, 128, "complex128")                       X(BFLOAT16, 16, "bfloat16")         \
    X(FLOAT8E4M3FN, 8, "float8e4m3fn")                     X(FLOAT8E4M3FNUZ, 8, "float8e4m3fnuz") \
    X(FLOAT8E5M2, 8, "float8e5m2")                         X(FLOAT8E5M2FNUZ, 8, "float8e5m2fnuz") \
    X(UINT4, 4, "uint4")        X(INT4, 4, "int4")         X(FLOAT4E2M1, 4, "float4e2m1")      \
    X(FLOAT8E8M0, 8, "float8e8m0")                         X(UINT2, 2, "uint2")                \
    X(INT2, 2, "int2")          X(RESOURCE, 32, "resource") X(VARIANT, 0, "variant")
/* clang-format on */

/* Element types. The first 27 values are ONNX's TensorProto.DataType numbers (0 to 26). */
typedef enum tn_dtype {
#define TN_X(name, bits, text) TN_##name,
    TN_DTYPE_TABLE(TN_X)
#undef TN_X
        TN_DTYPE_COUNT
} tn_dtype;

/* The purpose of a tensor's memory: X(name, text). */
/* clang-format off */
#define TN_KIND_TABLE(X)                                                                       \
    X(ACTIVATION, "activation") X(INPUT, "input") X(OUTPUT, "output")                          \
    X(PARAMETER, "parameter") X(CONSTANT, "constant") X(WORKSPACE, "workspace")                \
    X(GRADIENT, "gradient") X(OPTIMIZER_STATE, "optimizer_state")
/* clang-format on */

typedef enum tn_kind {
#define TN_X(name, text) TN_KIND_##name,
    TN_KIND_TABLE(TN_X)
#undef TN_X
        TN_KIND_COUNT
} tn_kind;

/* The order in which the elements of a tensor are stored. NCHW and NHWC have equal numbers of
 * bytes. A blocked format (nChw8c: block 8) rounds dimension 1 up to a multiple of the block. */
typedef enum tn_layout_order { TN_ORDER_PLAIN, TN_ORDER_NCHW, TN_ORDER_NHWC } tn_layout_order;
typedef struct tn_format {
    tn_layout_order order;
    uint32_t block; /* elements per block; 0: the format is not blocked */
} tn_format;

enum { /* flags of a tensor (tn_tensor.flags) */
       /* the shape is an upper bound, because the size depends on data */
       TN_TENSOR_BOUND = 1u << 0,
       /* the tensor is computed before the run: it is static, never in the arena */
       TN_TENSOR_FOLDED = 1u << 1,
       TN_TENSOR_STATED = 1u << 2, /* the shape was read from the file, not inferred */
       /* the tensor is a list of tensors: `repeat` elements of this shape */
       TN_TENSOR_SEQUENCE = 1u << 3,
       /* the tensor is a graph output, of any kind (an input can be one) */
       TN_TENSOR_IS_OUTPUT = 1u << 4,
       /* The tensor is static, but operators write into it, so it is never folded and changes from
        * run to run (a trained parameter). */
       TN_TENSOR_UPDATED = 1u << 5,
       /* The tensor is static, but its data stays in a file. Its only reader is an operator of
        * domain "tenure" that reads rows of it into a cache when it needs them (experts). */
       TN_TENSOR_IN_FILE = 1u << 6,
       /* The tensor is the memory of that cache. Its initial data has no meaning. */
       TN_TENSOR_ROW_CACHE = 1u << 7
};

/* The place of a tensor's data in the source file of a graph, in the encoding of that format.
 * tn_contents_read decodes the data. Size 0: the data is not stored, or its place is not known. */
typedef struct tn_payload {
    uint64_t offset, size; /* place of the data in the file, in bytes */
} tn_payload;

/* The place of a tensor's plain bytes in a file, for callers that read them on demand. */
typedef struct tn_file_range {
    const char *path; /* path of the file; the function that returned the range owns it */
    uint64_t offset, size;
} tn_file_range;

/* Known data of small tensors, which shape arithmetic needs. Integers and bools are exact int64;
 * floating types are double. At most TN_VALUE_MAX elements are kept. */
#define TN_VALUE_MAX 4096u
typedef struct tn_value {
    uint32_t count;
    const int64_t *ints;  /* [count] the data of integer and bool types; NULL for other types */
    const double *floats; /* [count] the data of floating types; NULL for other types */
} tn_value;

typedef struct tn_tensor {
    const char *name; /* name in UTF-8, never NULL; owned by the graph */
    tn_dtype dtype;
    tn_kind kind;
    tn_format format;
    uint32_t flags; /* flags of the tensor: bits TN_TENSOR_* */
    uint32_t rank;  /* number of dimensions, or TN_RANK_UNKNOWN */
    /* [rank] the extents, outermost first; TN_DIM_UNKNOWN if an extent is not known */
    const int64_t *shape;
    uint64_t repeat; /* number of elements of a sequence; 1 for a single tensor */
    /* size in bytes, not rounded up to the alignment; TN_SIZE_UNKNOWN before tn_graph_infer */
    uint64_t bytes;
    /* the operator that defines the tensor; TN_NONE: it is an input, a parameter, a constant, or an
     * input of a block */
    tn_op_id producer;
    tn_block_id block;     /* the block that defines the tensor */
    const tn_value *value; /* the data, if it is small and known; otherwise NULL */
    tn_payload payload; /* for parameters and constants: the place of the data in the source file */
} tn_tensor;

typedef enum tn_attr_type {
    TN_ATTR_INT,
    TN_ATTR_FLOAT,
    TN_ATTR_STRING,
    TN_ATTR_INTS,
    TN_ATTR_FLOATS,
    TN_ATTR_STRINGS,
    TN_ATTR_TENSOR,
    TN_ATTR_BLOCK
} tn_attr_type;

typedef struct tn_attr {
    const char *name;
    tn_attr_type type;
    uint32_t count;       /* number of ints, floats or strings; 1 for other types */
    const int64_t *ints;  /* the value of an attribute of type INT or INTS */
    const double *floats; /* the value of an attribute of type FLOAT or FLOATS */
    /* the value of an attribute of type STRING or STRINGS; each string ends with NUL */
    const char *const *strings;
    /* the value of an attribute of type TENSOR: the id of a tensor of kind constant */
    tn_tensor_id tensor;
    tn_block_id block; /* the value of an attribute of type BLOCK: the id of the block */
} tn_attr;

typedef struct tn_op {
    const char *name; /* name; "" if the operator has no name; owned by the graph */
    const char *type; /* type of the operator: "Conv", "relu_.default" */
    /* domain of the type: "" for ONNX's default, "com.microsoft", "aten", "tflite" */
    const char *domain;
    uint32_t version; /* operator set version of the domain; 0: the newest */
    tn_block_id block;
    uint32_t input_count, output_count, attr_count;
    const tn_tensor_id *inputs; /* [input_count] the inputs; TN_NONE where an input is omitted */
    /* [output_count] the outputs; TN_NONE where an output is omitted */
    const tn_tensor_id *outputs;
    const tn_attr *attrs; /* [attr_count] the attributes */
} tn_op;

/* A list of operators with formal inputs and outputs: the main graph or a subgraph. */
typedef struct tn_block {
    const char *name;
    tn_op_id owner; /* the control-flow operator that owns the block; TN_NONE for block 0 */
    uint32_t op_count, input_count, output_count;
    /* [op_count] the operators: in file order at first, in topological order after
     * tn_graph_infer */
    const tn_op_id *ops;
    const tn_tensor_id *inputs, *outputs;
    /* Set by tn_graph_infer: the block never runs, because the condition of its If is known.
     * Tensors of the block need no memory, and their sizes may stay TN_SIZE_UNKNOWN. */
    bool dead;
} tn_block;

/* --- building: strings and arrays are copied --------------------------------------------- */

typedef struct tn_tensor_spec {
    const char *name; /* name of the tensor; NULL: "" */
    tn_dtype dtype;
    /* kind of the tensor; one of kind INPUT or OUTPUT is also added to the inputs or outputs of
     * block 0, in the order of adding */
    tn_kind kind;
    tn_format format;
    uint32_t flags;
    /* number of dimensions. Rank 0 with shape NULL: a scalar if dtype is given; otherwise the rank
     * is not known. */
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    tn_block_id block;
    tn_value value; /* the data; count 0: the data is not known */
    tn_payload payload;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_tensor_spec;

typedef struct tn_op_spec {
    const char *name, *type, *domain; /* strings of the operator; NULL: "" */
    uint32_t version;
    tn_block_id block;
    const tn_tensor_id *inputs, *outputs;
    const tn_attr *attrs;
    uint32_t input_count, output_count, attr_count;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_op_spec;

/* Creates an empty graph with its main block. `context` may be NULL and must outlive the graph.
 * Destroy the graph with tn_graph_destroy. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_graph_create(const tn_context *context, tn_graph **graph,
                                            tn_error *error);
TN_API void tn_graph_destroy(tn_graph *graph); /* Destroys a graph; NULL has no effect. */
/* Returns the context of the graph, in which every default is set. The context lives as long as the
 * graph. */
TN_API const tn_context *tn_graph_context(const tn_graph *graph);

/* Adds a tensor and returns its id. Errors: E_INVALID (rank above TN_RANK_MAX, negative extent,
 * unknown block), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_graph_add_tensor(tn_graph *graph, const tn_tensor_spec *spec,
                                                tn_tensor_id *id, tn_error *error);

/* Adds an operator. `id` receives its id and may be NULL. An attribute of type BLOCK makes this
 * operator the owner of that block. Errors: E_INVALID (an id does not exist, or an output already
 * has a producer), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_graph_add_op(tn_graph *graph, const tn_op_spec *spec, tn_op_id *id,
                                            tn_error *error);

/* Adds a block for a control-flow operator that is added later. */
TN_API TN_CHECKED tn_status tn_graph_add_block(tn_graph *graph, const char *name, tn_block_id *id,
                                               tn_error *error);
/* Sets the formal inputs and outputs of a block. Errors: E_INVALID (an id does not exist),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_graph_set_block_io(tn_graph *graph, tn_block_id block,
                                                  const tn_tensor_id *inputs, uint32_t input_count,
                                                  const tn_tensor_id *outputs,
                                                  uint32_t output_count, tn_error *error);

/* Replaces dtype, shape, kind, format, flags and value of a tensor; NULL fields of `spec` have the
 * meaning that tn_graph_add_tensor gives them. Name and block do not change, nor does the payload
 * unless `spec` gives a new one. Importers use this function, for example to apply a shape that the
 * caller gave for an input. */
TN_API TN_CHECKED tn_status tn_graph_set_tensor(tn_graph *graph, tn_tensor_id id,
                                                const tn_tensor_spec *spec, tn_error *error);

/* Sorts each block topologically if file order is not topological, propagates shapes, element types
 * and small values, folds operators that depend only on constants, and computes every size.
 * Operators without a rule keep the shapes stated in the file.
 *
 * Errors: E_INVALID with node, operator and tensor (a cycle, contradictory shapes, a size that
 * overflows); E_UNKNOWN (a size that cannot be determined).
 * Cost: O(tensors + operators + attributes). */
TN_API TN_CHECKED tn_status tn_graph_infer(tn_graph *graph, tn_error *error);

/* --- reading: pointers stay valid until the graph is changed or destroyed ------------------- */

/* Counts, and the elements by id. The id must be less than the count. */
TN_API uint32_t tn_graph_tensor_count(const tn_graph *graph);
TN_API uint32_t tn_graph_op_count(const tn_graph *graph);
TN_API uint32_t tn_graph_block_count(const tn_graph *graph);
TN_API const tn_tensor *tn_graph_tensor(const tn_graph *graph, tn_tensor_id id);
TN_API const tn_op *tn_graph_op(const tn_graph *graph, tn_op_id id);
TN_API const tn_block *tn_graph_block(const tn_graph *graph, tn_block_id id);
/* Returns the first tensor in block 0 with this name, or TN_NONE. Cost: O(tensors); no index is
 * kept. */
TN_API tn_tensor_id tn_graph_find(const tn_graph *graph, const char *name);

/* --- element types, kinds, sizes ----------------------------------------------------------- */

TN_API const char *tn_dtype_name(tn_dtype dtype);
/* Returns the bits of an element; 0: the type has no fixed size. */
TN_API uint32_t tn_dtype_bits(tn_dtype dtype);
TN_API const char *tn_kind_name(tn_kind kind);
/* Whether a tensor's memory is allocated before a run and kept: parameters, constants, folded
 * tensors, and optimizer state and accumulated gradients that no operator defines. */
TN_API bool tn_tensor_is_static(const tn_tensor *tensor);
/* Whether a tensor is static and no run changes its data. */
TN_API bool tn_tensor_is_constant(const tn_tensor *tensor);

/* Computes the bytes of a tensor: the product of the extents times the bits per element, rounded up
 * to a byte. A blocked format pads dimension 1.
 * Errors: E_INVALID (overflow, negative extent), E_UNKNOWN (unknown extent, no fixed size). */
TN_API TN_CHECKED tn_status tn_tensor_size(tn_dtype dtype, tn_format format, uint32_t rank,
                                           const int64_t *shape, uint64_t *bytes, tn_error *error);
/* Parses the name of a format: "plain", "nchw", "nhwc", "nChw8c", "nChw16c", or a name with any
 * other block size. Errors: E_UNKNOWN. */
TN_API TN_CHECKED tn_status tn_format_parse(const char *text, tn_format *format, tn_error *error);

/* --- array ----------------------------------------------------------------------------------- */

/* Arrays on the host: inputs and outputs of a run, and their files.
 *
 *     tn_array array = {0};
 *     tn_error error;
 *     float numbers[] = {1, 2, 3, 4, 5, 6};
 *     tn_array matrix = {.dtype = TN_FLOAT32, .rank = 2, .shape = {2, 3}, .bytes = sizeof numbers,
 *                        .data = numbers};
 *     if (tn_array_save("matrix.npy", &matrix, NULL, &error) ||
 *         tn_array_load("matrix.npy", NULL, &array, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     printf("%lld columns\n", (long long)array.shape[1]);
 *     tn_array_release(&array, NULL);
 *     remove("matrix.npy");
 *
 * Units: bytes; shapes list the outermost dimension first.
 * Threads: any number of threads at once, each with its own array; unchanged arrays can be shared.
 */

typedef struct tn_array {
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX]; /* the extents, outermost first */
    uint64_t bytes;             /* bytes of `data`; for an output of a run: the space in `data` */
    void *data;                 /* the elements in C order, little endian; owned by the caller */
    uint64_t spare[2];          /* reserved for later fields: 0 (status.h) */
} tn_array;

/* Reads an array from a .npy file (versions 1 to 3, C or Fortran order, little endian) or an ONNX
 * TensorProto (.pb, as in ONNX's test data). The format is recognised by content.
 *
 * context  NULL, or a context, which must also be passed to tn_array_release
 * array    out; free its data with tn_array_release
 * Errors: E_IO, E_INVALID (damaged, or neither format), E_UNSUPPORTED (big endian, strings,
 * structs, pickled objects, numpy extensions such as bfloat16), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_array_load(const char *path, const tn_context *context,
                                          tn_array *array, tn_error *error);
/* Frees the data of a loaded array and clears the array; a cleared array may be released again. */
TN_API void tn_array_release(tn_array *array, const tn_context *context);

/* Writes an array to a .npy file. The file is written completely or not at all.
 *
 * Errors: E_IO, E_INVALID (`bytes` does not match type and shape), E_UNSUPPORTED (a type that numpy
 * does not have: bfloat16, float8, types smaller than a byte), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_array_save(const char *path, const tn_array *array,
                                          const tn_context *context, tn_error *error);

/* --- import ---------------------------------------------------------------------------------- */

/* Reads a model file into a graph.
 *
 *     tn_graph *graph;
 *     tn_error error;
 *     tn_import_options options = TN_IMPORT_OPTIONS_INIT;
 *     tn_dim batch = {.name = "N", .value = 8};
 *     options.dims = &batch;
 *     options.dim_count = 1;
 *     if (tn_graph_load("no-such-model.onnx", &options, &graph, &error) == TN_OK)
 *         tn_graph_destroy(graph);
 *     else
 *         printf("%s: %s\n", error.where, error.message);
 *
 * Loading neither reads nor copies weights, because the sizes suffice. So a model loads even if its
 * external data is missing. tn_contents reads the weights (the tensor data) when a program is to
 * run. Every file is treated as hostile: depth, counts and sizes are bounded, and an error names
 * file, byte or node, and reason.
 */

typedef struct tn_dim { /* A value for a symbolic dimension (option --dim N=8). */
    const char *name;
    int64_t value; /* the value, at least 0 */
} tn_dim;

/* A shape for a graph input (option --input-shape NAME=1,3,224,224). The shape also gives values to
 * the symbolic dimensions of the input. The shape may contradict the file; in that case the shapes
 * that the file states for computed tensors are dropped. */
typedef struct tn_input_shape {
    const char *name;
    uint32_t rank;
    const int64_t *shape;
} tn_input_shape;

/* Data of a graph input that is known before the run, because shapes depend on it, such as a length
 * or a target size (option --value NAME=1,2,3). The input becomes a parameter with this data, in
 * the order of its elements. Type and shape are those of the model. Integers and bools must be
 * given exactly. */
typedef struct tn_input_value {
    const char *name;
    uint32_t count; /* number of elements, at most TN_VALUE_MAX */
    const double *numbers;
} tn_input_value;

typedef struct tn_import_options {
    size_t struct_size;
    const tn_context *context; /* services of the caller; NULL: defaults; must outlive the graph */
    const tn_dim *dims;
    const tn_input_shape *input_shapes;
    uint32_t dim_count, input_shape_count;
    /* glob patterns: graph inputs with a name that matches become parameters (static) */
    const char *const *parameters;
    uint32_t parameter_count;
    /* format that is assumed for activations of rank 4 and 5, except graph inputs and outputs */
    tn_format format;
    /* If true, variable tensors (.tflite) become parameters, outside the arena. Runtimes store
     * variable tensors separately, and TensorFlow Lite Micro would place its own buffers over
     * variable tensors that a plan puts into the head of the arena. */
    bool variables_outside;
    const tn_input_value *values;
    uint32_t value_count;
    /* The batch of an .onnx model: the first extent of the first input that has a rank of at least
     * 1 and is not a parameter. Every other input with a first extent of the same symbol or number
     * gets the batch, too. 0: the batch that the file and `dims` state. E_INVALID if that input is
     * a single sample, [channels, height, width], from which the graph itself makes a batch. */
    int64_t batch;
    /* If true, operators of a .pt2 program stay PyTorch's own: views share the storage of their
     * operand, as in PyTorch, and the graph can be planned but neither trained nor run. */
    bool keep_aten;
} tn_import_options;

#define TN_IMPORT_OPTIONS_INIT                                                                     \
    TN_INIT(tn_import_options, TN_SET(struct_size, sizeof(tn_import_options)))

/* Reads a model. The format is recognised by content and suffix. The graph is inferred
 * (tn_graph_infer) and complete: every size is known.
 *
 * options  NULL for the defaults
 * graph    out; destroy it with tn_graph_destroy
 * Errors: E_IO, E_INVALID (also for an option that matches nothing in the model), E_UNKNOWN (sizes
 * that cannot be determined, or symbolic dimensions without a value; the message lists all of
 * them), E_UNSUPPORTED (unknown format), E_NO_MEMORY.
 * Cost: O(file without weights). */
TN_API TN_CHECKED tn_status tn_graph_load(const char *path, const tn_import_options *options,
                                          tn_graph **graph, tn_error *error);

/* Reads a model from memory; otherwise like tn_graph_load. `name` appears in error messages. The
 * bytes may be freed after the call. */
TN_API TN_CHECKED tn_status tn_graph_load_memory(const char *name, const void *bytes, size_t size,
                                                 const tn_import_options *options, tn_graph **graph,
                                                 tn_error *error);

/* --- data of parameters and constants --- */

typedef struct tn_contents tn_contents;

/* Opens (maps) the model file from which a graph was loaded. Files with external data are mapped
 * when a tensor in them is first read; their paths are relative to the folder of the model.
 *
 * context   NULL, or must outlive the contents
 * contents  out; close it with tn_contents_close
 * Errors: E_IO, E_UNSUPPORTED (standard input, which can be read only once; not a model format),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_contents_open(const char *path, const tn_context *context,
                                             tn_contents **contents, tn_error *error);

/* Opens a model without its weights, like tn_contents_open with a model file. Data that the model
 * file does not contain is generated, even if external data files exist. The generated data depends
 * only on `seed`, the tensor's name, element type and shape, and the operators of `graph` that use
 * the tensor. docs/contents.md states the rule, so other tools can generate the same data.
 *
 * path   NULL: there is no file; all data without a known value is generated
 * graph  as it was loaded, before rewriting; not needed after the call
 */
TN_API TN_CHECKED tn_status tn_contents_generate(const char *path, const tn_graph *graph,
                                                 uint64_t seed, const tn_context *context,
                                                 tn_contents **contents, tn_error *error);

/* Reads the data of a tensor of `graph`: a parameter, a constant, or any tensor with a known value.
 * `graph` must have been loaded from the file of `contents`, or made from such a graph with its
 * payloads.
 *
 * bytes  out, [size]: plain, in C order, little endian; elements smaller than a byte are packed,
 *        low bits first. May be written to on failure
 * size   must match type and shape
 *
 * Errors: E_IO (external data is missing or too short: the message names both files), E_INVALID
 * (wrong size, damaged data, or a file of another graph), E_UNKNOWN (the tensor has no data),
 * E_UNSUPPORTED (strings), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_contents_read(tn_contents *contents, const tn_graph *graph,
                                             tn_tensor_id tensor, void *bytes, uint64_t size,
                                             tn_error *error);
/* Finds the file range that holds exactly the bytes which tn_contents_read would return, so that a
 * caller can read them section by section: raw data of .onnx files and of their external data
 * files, buffers of .tflite files.
 *
 * range  out; its path lives as long as the contents
 * found  out; false if no file stores the bytes in this form (numbers stored one by one, sparse or
 *        generated data, no file)
 * Errors: those of tn_contents_read. Cost: O(1); the data itself is not read. */
TN_API TN_CHECKED tn_status tn_contents_where(tn_contents *contents, const tn_graph *graph,
                                              tn_tensor_id tensor, tn_file_range *range,
                                              bool *found, tn_error *error);
TN_API void tn_contents_close(tn_contents *contents); /* Closes contents; NULL has no effect. */

/* Whether the suffix of a file is one of a model format; false for problem files. */
TN_API bool tn_import_recognises(const char *path);

/* The registry of formats (`tenure list formats`). */
TN_API uint32_t tn_import_format_count(void);
TN_API const char *tn_import_format_name(uint32_t index);
TN_API const char *tn_import_format_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
