/* export.h - a model split into parts (split.h), written back as a file that unmodified run times
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
 * What is written are ordinary operators: slices, padding, convolutions, concatenations. These are
 * copies in those run times, and take bytes: each candidate is written in memory and measured as
 * that run time would hold it, before one is taken. Weights are shared by all parts, inputs,
 * outputs, names, quantisation and metadata stay. Integer results are the same bits; float results
 * are where the run time sums each element in one order whatever the extents are.
 *
 * Bytes, of .tflite: the whole arena of TensorFlow Lite Micro (tn_micro_arena.total), structures
 * that each operator and tensor takes included, or its head alone. Of .onnx: activations, laid out
 * by our planner in the order of the file; weights are beside.
 * Threads: one for each call.
 */
#ifndef TENURE_EXPORT_H
#define TENURE_EXPORT_H

#include <tenure/import.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_export_options {
    size_t struct_size;
    const tn_context *context; /* `progress` may stop the search: the best so far is written */
    uint64_t budget;           /* bytes; the least work that keeps to it, as it is predicted, of at
                                * most 100 candidates that are measured. 0: none */
    double share; /* of the model's work that may be done beyond it; without a budget, the fewest
                   * bytes for so much */
    uint32_t byte_flops;    /* operations that take as long as copying a byte; 0: 2 */
    tn_micro_options micro; /* whose arena, of .tflite */
    bool plan;              /* of .tflite: laid out by us, and the plan written into the file */
    bool head; /* of .tflite: tensors and scratch alone count, as what stays has an arena of its own
                * (the run time's MicroAllocator takes two) */
    /* Of .onnx, as in tn_import_options: parts have fixed sizes, and these stand in the file that
     * is written instead of the symbols */
    const tn_dim *dims;                 /* [dim_count] */
    const tn_input_shape *input_shapes; /* [input_shape_count] */
    uint32_t dim_count, input_shape_count;
    uint64_t work_limit; /* regions that are priced, and operators of files that are measured; 0: no
                          * limit; deterministic. The best so far is written */
} tn_export_options;
#define TN_EXPORT_OPTIONS_INIT                                                                     \
    TN_INIT(tn_export_options, TN_SET(struct_size, sizeof(tn_export_options))                      \
                                   TN_SET(micro.struct_size, sizeof(tn_micro_options)))

#define TN_EXPORT_BINDING 3u
typedef struct tn_export_report {
    uint64_t whole, parts;             /* bytes, of the file as it is and as it is written */
    tn_micro_arena whole_arena, arena; /* of .tflite */
    uint64_t whole_flops, flops;       /* a multiply-add is 2 */
    uint64_t moved;   /* bytes written by slices, padding and joins that were added */
    double work;      /* share of the model's work beyond it: operations and 2 for each of those;
                       * not finite where the model has no operations */
    uint32_t regions; /* 0: it fits as it is */
    uint32_t whole_ops, ops;
    uint64_t whole_bytes, file_bytes;     /* of the files */
    uint32_t tried;                       /* candidates that were written and measured */
    char binding[TN_EXPORT_BINDING][160]; /* who holds most at the peak, of what was found */
    bool stopped; /* a limit or the caller ended the search: there may be a smaller model */
} tn_export_report;

/* Reads a .tflite or .onnx model and writes it in parts, beside `output` first, which then takes
 * its name: whole or not at all.
 *
 * output  NULL: nothing is written, only measured
 * report  out; filled with the least that was found on E_EXHAUSTED, too
 * Errors: E_EXHAUSTED (nothing keeps to the budget; the message tells the least found), E_INVALID
 * (neither budget nor share; output is the input), E_UNKNOWN (a symbol without a value),
 * E_UNSUPPORTED (another format, sizes for a .tflite model, a file that cannot be extended, or none
 * of the parts can be written), E_STOPPED, E_IO, those of tn_graph_load. Cost: that of
 * tn_split_search_create and at most 205 files in memory, one after the other: the model, 100
 * candidates, 100 that cannot be written, and 4 for the least. */
TN_API TN_CHECKED tn_status tn_split_file(const char *path, const char *output,
                                          const tn_export_options *options,
                                          tn_export_report *report, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
