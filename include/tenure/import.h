/* import.h - from a model file to a Graph.
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
 * Loading neither reads nor copies weights: their sizes suffice, so a model whose external data is
 * absent loads too. tn_contents reads them when a program is to run. Files are hostile until proved
 * otherwise: depth, counts and sizes are bounded, and an error names file, byte or node, and
 * reason.
 */
#ifndef TENURE_IMPORT_H
#define TENURE_IMPORT_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_dim { /* --dim N=8: a value for a symbolic dimension */
    const char *name;
    int64_t value; /* >= 0 */
} tn_dim;

/* --input-shape NAME=1,3,224,224: gives values to the symbols of that input, too. It may contradict
 * the file; the shapes that the file states for what is computed are then dropped. */
typedef struct tn_input_shape {
    const char *name;
    uint32_t rank;
    const int64_t *shape;
} tn_input_shape;

/* --value NAME=1,2,3: contents of a graph input that are known before the run, because shapes
 * depend on them (a length, the size to resize to). It becomes a parameter with these contents, in
 * the order of its elements; type and shape are the model's. Integers and bools must be given
 * exactly. */
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
    const char *const *parameters; /* globs: matching graph inputs are parameters (static) */
    uint32_t parameter_count;
    tn_format format; /* assumed for activations of rank 4 and 5; not for inputs and outputs */
    bool variables_outside; /* variable tensors (.tflite) are parameters, outside the arena: run
                             * times keep them apart, and TensorFlow Lite Micro would lay what it
                             * places by itself over those that a plan has in the head */
    const tn_input_value *values;
    uint32_t value_count;
    /* first extent of the first input (.onnx; of rank 1 and more, no parameter), and of all others
     * that have the same symbol or number there; 0: as the file and `dims` say. E_INVALID where
     * that input is one sample, [channels, height, width], which the graph itself makes a batch of
     */
    int64_t batch;
} tn_import_options;

#define TN_IMPORT_OPTIONS_INIT                                                                     \
    TN_INIT(tn_import_options, TN_SET(struct_size, sizeof(tn_import_options)))

/* Reads a model; the format is recognised by content and suffix. The graph is inferred
 * (tn_graph_infer) and complete: every size is known.
 *
 * options  NULL for the defaults
 * graph    out; destroy with tn_graph_destroy
 * Errors: E_IO, E_INVALID (also for an option that meets nothing in the model), E_UNKNOWN (a size
 * nothing determines, or a symbolic dimension without a value: all of them are listed),
 * E_UNSUPPORTED (no such format), E_NO_MEMORY.
 * Cost: O(file without weights). */
TN_API TN_CHECKED tn_status tn_graph_load(const char *path, const tn_import_options *options,
                                          tn_graph **graph, tn_error *error);

/* The same from memory; `name` stands in error messages. Bytes may go after the call. */
TN_API TN_CHECKED tn_status tn_graph_load_memory(const char *name, const void *bytes, size_t size,
                                                 const tn_import_options *options, tn_graph **graph,
                                                 tn_error *error);

/* --- contents of parameters and constants --------------------------------------------------------
 */

typedef struct tn_contents tn_contents;

/* Maps the model file that a graph was loaded from. Files with external data are mapped when a
 * tensor in them is first read; their paths are relative to the model's folder.
 *
 * context   NULL or outlives the contents
 * contents  out; close with tn_contents_close
 * Errors: E_IO, E_UNSUPPORTED (standard input, which is read once; no model format), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_contents_open(const char *path, const tn_context *context,
                                             tn_contents **contents, tn_error *error);

/* The same, for models without their weights: what is kept outside of the model file, or nowhere,
 * is made up, whether such files exist or not. What is made up follows from `seed`, name, element
 * type and shape alone, and from what the operators of `graph` use the tensor for; the rule is in
 * docs/contents.md, so that other tools can make the same.
 *
 * path   NULL: there is no file, everything is made up that has no known value
 * graph  as it was loaded, before rewriting; not needed after the call */
TN_API TN_CHECKED tn_status tn_contents_generate(const char *path, const tn_graph *graph,
                                                 uint64_t seed, const tn_context *context,
                                                 tn_contents **contents, tn_error *error);

/* Reads one tensor of `graph`, which is the one that was loaded from this file, or was made from it
 * with payloads kept: a parameter, a constant, or any with a known value.
 *
 * bytes  out, [size]: plain, in C order, little endian; elements below a byte packed, low bits
 *        first. May be written to on failure
 * size   must be what type and shape need
 *
 * Errors: E_IO (external data is absent or too short: both files are named), E_INVALID (another
 * size, damaged contents, not the file of this graph), E_UNKNOWN (no contents anywhere),
 * E_UNSUPPORTED (strings), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_contents_read(tn_contents *contents, const tn_graph *graph,
                                             tn_tensor_id tensor, void *bytes, uint64_t size,
                                             tn_error *error);
/* Where a file holds just the bytes that tn_contents_read would give, so that they may be read from
 * there, part by part: raw data of .onnx files and of those beside them, buffers of .tflite files.
 *
 * range  out, its path lives as long as the contents
 * found  out; false: nowhere as they are (numbers one by one, sparse, made up, no file)
 * Errors: those of tn_contents_read. Cost: O(1), nothing is read of them. */
TN_API TN_CHECKED tn_status tn_contents_where(tn_contents *contents, const tn_graph *graph,
                                              tn_tensor_id tensor, tn_file_range *range,
                                              bool *found, tn_error *error);
TN_API void tn_contents_close(tn_contents *contents); /* NULL is fine */

/* --- plans inside .tflite files: the metadata "OfflineMemoryAllocation" of TensorFlow Lite Micro
 */

/* Reads the plan of the model at `path`, from which `graph` was loaded with the same `options`.
 *
 * offsets  out, [tensors of graph], bytes from the start of the arena; TN_SIZE_UNKNOWN where the
 *          plan leaves the tensor to the run time, as constants
 * Errors: E_UNKNOWN (no plan in the model), E_INVALID (a plan of another size or with a negative
 * offset; `graph` is of another model), and those of tn_graph_load. */
TN_API TN_CHECKED tn_status tn_tflite_read_plan(const char *path, const tn_import_options *options,
                                                const tn_graph *graph, uint64_t *offsets,
                                                tn_error *error);

/* Writes the model at `path` with this plan to `output`: what was in the file stays byte for byte,
 * behind a new head. A plan that was there is replaced. The file appears whole or not at all.
 *
 * offsets  [tensors of graph], multiples of 16; TN_SIZE_UNKNOWN: left to the run time
 * Errors: E_UNSUPPORTED (offsets that the format cannot say: no multiple of 16, above 2^31 - 1, two
 * for a tensor whose subgraph several operators run; models above 2 GiB or of a later schema), and
 * those of tn_tflite_read_plan. */
TN_API TN_CHECKED tn_status tn_tflite_write_plan(const char *path, const tn_import_options *options,
                                                 const tn_graph *graph, const uint64_t *offsets,
                                                 const char *output, tn_error *error);

/* --- the whole arena of TensorFlow Lite Micro ---------------------------------------------------
 */

typedef enum tn_micro_target { /* sizes of pointers and enums; what CMSIS-NN makes of the core */
                               TN_MICRO_CORTEX_M, /* 32 bits, arm-none-eabi: enums as short as they
                                                     can be */
                               TN_MICRO_CORTEX_M_HELIUM, /* the same with vectors: cortex-m55, m85
                                                          */
                               TN_MICRO_X86_64
} tn_micro_target;
typedef enum tn_micro_kernels { TN_MICRO_REFERENCE, TN_MICRO_CMSIS_NN } tn_micro_kernels;

typedef struct tn_micro_options {
    size_t struct_size;
    tn_micro_target target;
    tn_micro_kernels kernels;
    bool most; /* of what depends on the core, the version or a kernel that is not known: the most
                * that is likely; false: the least */
} tn_micro_options;
#define TN_MICRO_OPTIONS_INIT                                                                      \
    TN_INIT(tn_micro_options, TN_SET(struct_size, sizeof(tn_micro_options)))

/* What the tail holds: X(name, text). */
/* clang-format off */
#define TN_MICRO_PART_TABLE(X)                                                                     \
    X(ALLOCATORS, "allocators")        /* of memory and options, planner */                        \
    X(TENSORS, "tensor structures")    /* one for each tensor of the file, subgraphs */            \
    X(NODES, "operator structures")                                                                \
    X(OPTIONS, "operator options")                                                                 \
    X(KERNELS, "kernels' own data")    /* multipliers of channels, tables */                       \
    X(HANDLES, "scratch handles")                                                                  \
    X(VARIABLES, "variable tensors")   /* those that no plan places */                             \
    X(IO, "input and output structures")
/* clang-format on */
typedef enum tn_micro_part {
#define TN_X(name, text) TN_MICRO_PART_##name,
    TN_MICRO_PART_TABLE(TN_X)
#undef TN_X
        TN_MICRO_PART_COUNT
} tn_micro_part;
TN_API const char *tn_micro_part_name(tn_micro_part part);

/* Bytes of an arena that starts at a multiple of 16. */
typedef struct tn_micro_arena {
    uint64_t head; /* tensors and scratch, each rounded up to 16 */
    uint64_t tail; /* all that stays: the parts and their alignment */
    uint64_t part[TN_MICRO_PART_COUNT];
    uint64_t tail_alignment;
    uint64_t temporary;   /* the most that AllocateTensors() needs at once below the tail as it then
                           * is; in the place of the head, which is laid out after it */
    uint64_t total;       /* the smallest arena in which AllocateTensors() succeeds */
    uint64_t used;        /* head + tail: what arena_used_bytes() tells; total may be more */
    uint64_t planned;     /* buffers in the head */
    uint64_t scratch;     /* of these, scratch */
    uint32_t unknown_ops; /* operators whose kernels are not known: custom ones, too */
} tn_micro_arena;

/* The arena in which the run time runs the model at `path`, from which `graph` was loaded with the
 * same `import` options.
 *
 * offsets  [tensors of graph] as in tn_tflite_write_plan; NULL: the plan inside the model, and
 *          where it has none, the run time's own
 * placed   out, [tensors of graph], may be NULL: where each tensor is then in the head;
 *          TN_SIZE_UNKNOWN: not there
 *
 * What is exact and what is estimated: docs/microcontrollers.md.
 * Errors: E_UNSUPPORTED (a size that the run time cannot know, more than 20000 buffers), those of
 * tn_tflite_read_plan but for E_UNKNOWN.
 * Cost: O(file + buffers^2), as there. */
TN_API TN_CHECKED tn_status tn_micro_arena_of(const char *path, const tn_import_options *import,
                                              const tn_graph *graph, const uint64_t *offsets,
                                              const tn_micro_options *options,
                                              tn_micro_arena *arena, uint64_t *placed,
                                              tn_error *error);

/* Scratch bytes of each operator of `graph` (a .tflite model) under these kernels, every request
 * rounded up to 16: for `workspaces` of tn_occupancy_options.
 *
 * workspaces  out, [operators of graph] */
TN_API TN_CHECKED tn_status tn_micro_workspaces(const char *path, const tn_import_options *import,
                                                const tn_graph *graph,
                                                const tn_micro_options *options,
                                                uint64_t *workspaces, tn_error *error);

/* Whether a model format claims the file, by suffix; false for problem files. */
TN_API bool tn_import_recognises(const char *path);

/* The registry, for `tenure list formats`. */
TN_API uint32_t tn_import_format_count(void);
TN_API const char *tn_import_format_name(uint32_t index);
TN_API const char *tn_import_format_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
