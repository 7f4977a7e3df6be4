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
 * Weights are never read nor copied: their sizes suffice, so a model whose external
 * data is absent loads too. Files are hostile until proved otherwise: depth, counts
 * and sizes are bounded, and an error names file, byte or node, and reason.
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

typedef struct tn_import_options {
    size_t struct_size;
    const tn_context *context; /* NULL: defaults; must outlive the graph */
    const tn_dim *dims;
    const tn_input_shape *input_shapes;
    uint32_t dim_count, input_shape_count;
    const char *const *parameters; /* globs: matching graph inputs are parameters (static) */
    uint32_t parameter_count;
    tn_format format; /* assumed for activations of rank 4 and 5; not for inputs and outputs */
} tn_import_options;

#define TN_IMPORT_OPTIONS_INIT                                                                     \
    { .struct_size = sizeof(tn_import_options) }

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
