/* export.h - splits a model into tiles (split.h) and writes it as a file that unmodified runtimes
 * execute in less memory.
 *
 *     tn_export_options options = TN_EXPORT_OPTIONS_INIT;
 *     tn_export_report report;
 *     tn_error error;
 *     options.budget = 50 * 1024;
 *     if (tn_split_file("examples/models/wake_words.tflite", NULL, &options, &report, &error))
 *         return fprintf(stderr, "%s\n", error.message), 2;
 *     printf("%llu bytes instead of %llu\n", (unsigned long long)report.parts,
 *            (unsigned long long)report.whole);
 *
 * The new file has ordinary operators: slices, padding, convolutions, concatenations. They need
 * memory for their results, also where they only copy. So each candidate is written in memory and
 * measured as that runtime would hold it, before one is chosen. All tiles (parts in the
 * identifiers) share the weights; inputs, outputs, names, quantisation and metadata are unchanged.
 * Integer results are the same bit by bit. Float results are the same if the runtime sums each
 * element in an order that does not depend on the extents.
 *
 * Bytes for .tflite are the whole arena of TensorFlow Lite Micro (tn_micro_arena.total), including
 * its structures per operator and tensor, or only the head. Bytes for .onnx are activations in the
 * file's order, laid out by our planner, without weights.
 * Threads: one thread per call.
 */
#ifndef TENURE_EXPORT_H
#define TENURE_EXPORT_H

#include <tenure/import.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_export_options {
    size_t struct_size;
    /* `progress` can stop the search: the best result so far is written */
    const tn_context *context;
    /* Bytes. The candidate with the least predicted work within the budget is chosen, among at most
     * 100 that are measured. 0: no budget. */
    uint64_t budget;
    /* Work budget: additional work as a share of the model's work. Without `budget`, the smallest
     * candidate within it is chosen. */
    double share;
    uint32_t byte_flops;    /* operations in the time of copying one byte; 0: 2 */
    tn_micro_options micro; /* for .tflite: the runtime of the arena */
    bool plan;              /* for .tflite: plan the arena, and write the plan into the file */
    /* For .tflite: count only tensors and scratch, for applications that give the kept data an
     * arena of its own (the runtime's MicroAllocator accepts two). */
    bool head;
    /* For .onnx, as in tn_import_options: tiles have fixed sizes, which replace the symbols in the
     * written file. */
    const tn_dim *dims;                 /* [dim_count] */
    const tn_input_shape *input_shapes; /* [input_shape_count] */
    uint32_t dim_count, input_shape_count;
} tn_export_options;
#define TN_EXPORT_OPTIONS_INIT                                                                     \
    TN_INIT(tn_export_options, TN_SET(struct_size, sizeof(tn_export_options))                      \
                                   TN_SET(micro.struct_size, sizeof(tn_micro_options)))

#define TN_EXPORT_BINDING 3u
typedef struct tn_export_report {
    uint64_t whole, parts;             /* bytes of the original and of the written file */
    tn_micro_arena whole_arena, arena; /* of .tflite */
    uint64_t whole_flops, flops;       /* a multiply-add counts 2 */
    uint64_t moved; /* bytes written by added slices, padding and concatenations */
    /* Additional work as a share of the model's work: operations, and `byte_flops` for each byte of
     * `moved`. Not finite if the model has no operations. */
    double work;
    uint32_t regions; /* regions that are split; 0: the model fits without a change */
    uint32_t whole_ops, ops;
    uint64_t whole_bytes, file_bytes;     /* file sizes */
    uint32_t tried;                       /* candidates that were written and measured */
    char binding[TN_EXPORT_BINDING][160]; /* the largest holders at the peak of the result */
} tn_export_report;

/* Reads a .tflite or .onnx model, splits it and writes the result. It is written next to `output`
 * first and then renamed, so that the file is complete or does not exist.
 *
 * output  NULL: only measure
 * report  out; on E_EXHAUSTED it has the smallest result that was found
 * Errors: E_EXHAUSTED (no candidate is within the budget; the message states the smallest),
 * E_INVALID (neither budget nor share; output is the input), E_UNKNOWN (a symbol without a value),
 * E_UNSUPPORTED (another format, sizes for a .tflite model, a file that cannot be extended, or
 * tiles that cannot be written), E_STOPPED, E_IO, those of tn_graph_load.
 * Cost: that of tn_split_search_create, and at most 205 files in memory, one at a time: the model,
 * 100 candidates, 100 that cannot be written, and 4 for the smallest. */
TN_API TN_CHECKED tn_status tn_split_file(const char *path, const char *output,
                                          const tn_export_options *options,
                                          tn_export_report *report, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
