/* import.h - reads a model file into a graph.
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
#ifndef TENURE_IMPORT_H
#define TENURE_IMPORT_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_dim { /* a value for a symbolic dimension (option --dim N=8) */
    const char *name;
    int64_t value; /* >= 0 */
} tn_dim;

/* A shape for a graph input (option --input-shape NAME=1,3,224,224). It also gives values to the
 * symbolic dimensions of that input. It may contradict the file; in that case the shapes that the
 * file states for computed tensors are dropped. */
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
    uint32_t count; /* at most TN_VALUE_MAX */
    const double *numbers;
} tn_input_value;

typedef struct tn_import_options {
    size_t struct_size;
    const tn_context *context; /* NULL: defaults; must outlive the graph */
    const tn_dim *dims;
    const tn_input_shape *input_shapes;
    uint32_t dim_count, input_shape_count;
    /* glob patterns: graph inputs that match become parameters (static) */
    const char *const *parameters;
    uint32_t parameter_count;
    tn_format format; /* assumed for activations of rank 4 and 5, except graph inputs and outputs */
    /* Variable tensors (.tflite) become parameters, outside the arena. Runtimes store them
     * separately, and TensorFlow Lite Micro would place its own buffers over variable tensors that
     * a plan puts into the head of the arena. */
    bool variables_outside;
    const tn_input_value *values;
    uint32_t value_count;
    /* First extent of the first input that has a rank of at least 1 and is no parameter (.onnx
     * only), and of all other inputs with the same symbol or number there. 0: as stated by the file
     * and `dims`. E_INVALID if that input is a single sample, [channels, height, width], from which
     * the graph itself makes a batch. */
    int64_t batch;
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

/* Like tn_graph_load, from memory. `name` appears in error messages. The bytes may be freed after
 * the call. */
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

/* Like tn_contents_open, for models without their weights. Data that the model file does not
 * contain is generated, even if external data files exist. The generated data depends only on
 * `seed`, the tensor's name, element type and shape, and the operators of `graph` that use the
 * tensor. docs/contents.md states the rule, so other tools can generate the same data.
 *
 * path   NULL: there is no file; all data without a known value is generated
 * graph  as it was loaded, before rewriting; not needed after the call */
TN_API TN_CHECKED tn_status tn_contents_generate(const char *path, const tn_graph *graph,
                                                 uint64_t seed, const tn_context *context,
                                                 tn_contents **contents, tn_error *error);

/* Reads one tensor of `graph`: a parameter, a constant, or any tensor with a known value. `graph`
 * was loaded from this file, or was made from such a graph with its payloads.
 *
 * bytes  out, [size]: plain, in C order, little endian; elements smaller than a byte are packed,
 *        low bits first. May be written to on failure
 * size   must match type and shape
 *
 * Errors: E_IO (external data is missing or too short: the message names both files), E_INVALID
 * (wrong size, damaged data, or a file of another graph), E_UNKNOWN (the tensor has no data),
 * E_UNSUPPORTED (strings), E_NO_MEMORY. */
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
TN_API void tn_contents_close(tn_contents *contents); /* NULL is fine */

/* --- plans inside .tflite files: the metadata "OfflineMemoryAllocation" of TensorFlow Lite Micro
 */

/* Reads the plan inside the model at `path`. `graph` was loaded from that model with the same
 * `options`.
 *
 * offsets  out, [tensors of graph], bytes from the start of the arena; TN_SIZE_UNKNOWN if the plan
 *          leaves the tensor to the runtime, as it does for constants
 * Errors: E_UNKNOWN (the model has no plan), E_INVALID (a plan with another number of tensors or
 * with a negative offset; `graph` is of another model), and those of tn_graph_load. */
TN_API TN_CHECKED tn_status tn_tflite_read_plan(const char *path, const tn_import_options *options,
                                                const tn_graph *graph, uint64_t *offsets,
                                                tn_error *error);

/* Writes the model at `path` to `output` with this plan. The bytes of the model stay unchanged
 * after a new head; a plan that the model had is replaced. The file is written completely or not at
 * all.
 *
 * offsets  [tensors of graph], multiples of 16; TN_SIZE_UNKNOWN leaves the tensor to the runtime
 * Errors: E_UNSUPPORTED (an offset that the format cannot express: not a multiple of 16, above 2^31
 * - 1, or two offsets for one tensor in a subgraph that several operators run; models above 2 GiB
 * or of a later schema), and those of tn_tflite_read_plan. */
TN_API TN_CHECKED tn_status tn_tflite_write_plan(const char *path, const tn_import_options *options,
                                                 const tn_graph *graph, const uint64_t *offsets,
                                                 const char *output, tn_error *error);

/* --- the whole arena of TensorFlow Lite Micro --- */

/* The ABI (sizes of pointers and enums) and the variants of the kernel libraries. */
typedef enum tn_micro_target {
    TN_MICRO_CORTEX_M, /* 32 bits, arm-none-eabi, enums of one byte; DSP: m4, m7, m33, m35p */
    TN_MICRO_CORTEX_M_HELIUM, /* the same with vectors: m52, m55, m85 */
    TN_MICRO_X86_64,
    TN_MICRO_CORTEX_M_SCALAR, /* as TN_MICRO_CORTEX_M, without DSP: m0, m0+, m3, m23 */
    TN_MICRO_ESP32,           /* 32 bits, enums of 4 bytes: ESP32, S2, C2, C3, C5, C6, H2 */
    TN_MICRO_ESP32_S3,
    TN_MICRO_ESP32_P4
} tn_micro_target;

/* The kernels that replace reference kernels. TN_MICRO_ANY: every library that runs on the target,
 * and the reference kernels alone. */
typedef enum tn_micro_kernels {
    TN_MICRO_REFERENCE,
    TN_MICRO_CMSIS_NN, /* Cortex-M and x86-64 */
    TN_MICRO_ESP_NN,   /* ESP32 */
    TN_MICRO_ANY
} tn_micro_kernels;

/* Sizes of CMSIS-NN depend on the compiler. */
typedef enum tn_micro_compiler {
    TN_MICRO_COMPILER_ANY,
    TN_MICRO_GCC, /* gcc and clang */
    TN_MICRO_ARMCLANG
} tn_micro_compiler;

typedef struct tn_micro_options {
    size_t struct_size;
    tn_micro_target target;
    tn_micro_kernels kernels;
    /* For sizes that depend on a version, a compiler or an unknown kernel: true counts the largest
     * likely size, false the smallest. */
    bool most;
    const char *version;        /* of the kernel library, as "1.2.1"; NULL: each known version */
    uint32_t runtime;           /* revision of TensorFlow Lite Micro, as 20250131; 0: any */
    tn_micro_compiler compiler; /* of CMSIS-NN */
} tn_micro_options;
#define TN_MICRO_OPTIONS_INIT                                                                      \
    TN_INIT(tn_micro_options, TN_SET(struct_size, sizeof(tn_micro_options)))

/* The versions of a library at which the sizes on a target changed, the oldest first; index is
 * below the count. The count is 0 if the library does not run on the target. */
TN_API uint32_t tn_micro_version_count(tn_micro_target target, tn_micro_kernels kernels);
TN_API const char *tn_micro_version(tn_micro_target target, tn_micro_kernels kernels,
                                    uint32_t index);

/* The categories (parts) of the tail: X(name, text). */
/* clang-format off */
#define TN_MICRO_PART_TABLE(X)                                                                     \
    X(ALLOCATORS, "allocators")        /* for memory and options; the planner */                   \
    X(TENSORS, "tensor structures")    /* one for each tensor of the file; subgraphs */            \
    X(NODES, "operator structures")                                                                \
    X(OPTIONS, "operator options")                                                                 \
    X(KERNELS, "kernels' own data")    /* multipliers per channel, tables */                       \
    X(HANDLES, "scratch handles")                                                                  \
    X(VARIABLES, "variable tensors")   /* those that no plan places; resource variables */         \
    X(IO, "input and output structures")
/* clang-format on */
typedef enum tn_micro_part {
#define TN_X(name, text) TN_MICRO_PART_##name,
    TN_MICRO_PART_TABLE(TN_X)
#undef TN_X
        TN_MICRO_PART_COUNT
} tn_micro_part;
TN_API const char *tn_micro_part_name(tn_micro_part part);

/* The arena of TensorFlow Lite Micro, in bytes; it starts at a multiple of 16. */
typedef struct tn_micro_arena {
    uint64_t head; /* tensors and scratch, each rounded up to 16 */
    uint64_t tail; /* allocations that are kept: all categories and their alignment */
    uint64_t part[TN_MICRO_PART_COUNT];
    uint64_t tail_alignment;
    /* The most temporary memory that AllocateTensors() needs at once below the tail of that moment.
     * It uses the space of the head, which is laid out afterwards. */
    uint64_t temporary;
    uint64_t total;       /* the smallest arena in which AllocateTensors() succeeds */
    uint64_t used;        /* head + tail, as arena_used_bytes() returns; `total` can be larger */
    uint64_t planned;     /* buffers in the head */
    uint64_t scratch;     /* of the planned buffers, those for scratch */
    uint32_t unknown_ops; /* operators with unknown kernels, custom operators included */
    /* The kernels of `total` and their version ("" of the reference kernels). If several libraries
     * or versions are possible, every other field is the largest (or smallest) of all of them. */
    const char *kernels, *version;
} tn_micro_arena;

/* Computes the arena in which the runtime runs the model at `path`. `graph` was loaded from that
 * model with the same `import` options.
 *
 * offsets  [tensors of graph], as in tn_tflite_write_plan; NULL: the plan inside the model or, if
 *          it has no plan, the layout of the runtime's own planner
 * placed   out, [tensors of graph], may be NULL: offset of each tensor in the head; TN_SIZE_UNKNOWN
 *          if it is not in the head
 *
 * docs/microcontrollers.md lists the sizes that are exact and the sizes that are estimates.
 * Errors: E_UNSUPPORTED (a size that the runtime cannot know, more than 20000 buffers, kernels that
 * do not run on the target, an unknown version), and those of tn_tflite_read_plan except E_UNKNOWN.
 * Cost: O(file + buffers^2), as in the runtime. */
TN_API TN_CHECKED tn_status tn_micro_arena_of(const char *path, const tn_import_options *import,
                                              const tn_graph *graph, const uint64_t *offsets,
                                              const tn_micro_options *options,
                                              tn_micro_arena *arena, uint64_t *placed,
                                              tn_error *error);

/* Computes the scratch bytes of each operator of `graph` (a .tflite model) with these kernels, for
 * `workspaces` of tn_occupancy_options. Every request is rounded up to 16.
 *
 * workspaces  out, [operators of graph] */
TN_API TN_CHECKED tn_status tn_micro_workspaces(const char *path, const tn_import_options *import,
                                                const tn_graph *graph,
                                                const tn_micro_options *options,
                                                uint64_t *workspaces, tn_error *error);

/* Whether a model format claims the file, by its suffix; false for problem files. */
TN_API bool tn_import_recognises(const char *path);

/* The registry of formats (`tenure list formats`). */
TN_API uint32_t tn_import_format_count(void);
TN_API const char *tn_import_format_name(uint32_t index);
TN_API const char *tn_import_format_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
