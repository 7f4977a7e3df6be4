/* export.h - writes split graphs as files for other runtimes.
 *
 *   split_file.c    chooses the regions; each candidate is written in memory and measured
 *   write_tflite.c  writes a .tflite file: operators, tensors and constants before the old file
 *   flat_write.c    writes FlatBuffers
 *   write_onnx.c    writes an .onnx file: new nodes in place of old ones
 *   measure.c       computes the memory that a runtime needs for such a file
 */
#ifndef TN_EXPORT_EXPORT_H
#define TN_EXPORT_EXPORT_H

#include <tenure/rewrite.h>

#include "base/base.h"
#include "fit/split/trace.h"
#include "io/import/tflite/tflite_plan.h"

/* A graph, the graph after splitting, and a trace that says from which tensor or operator each part
 * comes. */
typedef struct export_split {
    const tn_graph *whole;
    tn_graph *graph;
    tn__split_trace trace;
} export_split;

/* Append the file of the split graph to `image`, which must be initialised. `plan` must be open on
 * the file from which split->whole was read. Errors: E_UNSUPPORTED, E_NO_MEMORY. */
tn_status tn__export_tflite(const tflite_plan *plan, const export_split *split, tn__text *image,
                            tn_error *error);
tn_status tn__export_onnx(tn__span file, const export_split *split, tn__text *image,
                          tn_error *error);

/* --- measure.c: a model that is open to be split; candidates, written in memory and measured ---
 */

typedef struct export_source {
    const char *path;
    tn_context context;
    tn__file mapped;
    tn__span file;
    tn_graph *graph;
    bool is_tflite, has_external; /* has_external: tensor data is in files next to the model */
    tflite_plan plan;             /* the open .tflite file; unused for other files */
    /* [operators] scratch bytes of the kernels of a .tflite model; NULL: Tenure's own rules
     * apply */
    uint64_t *workspaces;
    /* [operators] persistent bytes of the operators of a .tflite model; NULL: none */
    uint64_t *kept;
    uint64_t move_kept;
} export_source;

typedef struct export_candidate {
    tn_context context;
    tn__text image; /* the bytes of the file that was made for this candidate */
    uint64_t bytes, flops, moved;
    tn_micro_arena arena;
    double work;
    uint32_t regions, ops;
    char binding[TN_EXPORT_BINDING][160];
} export_candidate;

tn_status tn__export_open(export_source *source, const char *path, const tn_context *context,
                          const tn_export_options *asked, tn_error *error);
void tn__export_close(export_source *source);
/* Writes the path of the folder that contains a file. Returns false if the path is too long. */
#define EXPORT_FOLDER_MAX 4096
bool tn__export_folder(const char *path, char folder[EXPORT_FOLDER_MAX]);
/* Checks that `output` is in the folder of the model if the model has external data files, because
 * the new file refers to them. `output` may be NULL. Errors: E_INVALID. */
tn_status tn__export_beside(const export_source *source, const char *output, tn_error *error);

/* Makes and measures the candidate for a choice of regions; a choice of 0 regions is the model as
 * it is. The caller releases the candidate. */
tn_status tn__export_measure(const export_source *source, const tn_split_choice *choice,
                             const tn_export_options *asked, uint32_t byte_flops,
                             export_candidate *candidate, tn_error *error);
void tn__export_release(export_candidate *candidate);

#endif
