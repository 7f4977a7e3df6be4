/* export.h - writes split graphs as files for other run times.
 *
 *   split_file.c    chooses regions for a budget: each candidate is written in memory and measured
 *   write_tflite.c  a .tflite file: operators, tensors and constants in front of the old file
 *   flat_write.c    FlatBuffers
 *   write_onnx.c    an .onnx file: new nodes in place of the old ones
 *   measure.c       the memory that a run time needs for such a file
 */
#ifndef TN_EXPORT_EXPORT_H
#define TN_EXPORT_EXPORT_H

#include <tenure/rewrite.h>

#include "base/base.h"
#include "fit/split/trace.h"
#include "io/import/tflite/tflite_plan.h"

/* A graph, the split graph, and where each part comes from. */
typedef struct export_split {
    const tn_graph *whole;
    tn_graph *graph;
    tn__split_trace trace;
} export_split;

/* Writes the file of the split graph. plan: open on the file that `whole` was read from. image:
 * initialised; the file is appended. Errors: E_UNSUPPORTED, E_NO_MEMORY. */
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
    bool is_tflite, has_external; /* tensor data lies in files next to the model */
    tflite_plan plan;             /* for a .tflite file */
    uint64_t *workspaces;         /* [operators] of .tflite; NULL: by Tenure's own rules */
    uint64_t *kept;               /* [operators] of .tflite: persistent bytes; NULL: none */
    uint64_t move_kept;
} export_source;

typedef struct export_candidate {
    tn_context context;
    tn__text image; /* the file */
    uint64_t bytes, flops, moved;
    tn_micro_arena arena;
    double work;
    uint32_t regions, ops;
    char binding[TN_EXPORT_BINDING][160];
} export_candidate;

tn_status tn__export_open(export_source *source, const char *path, const tn_context *context,
                          const tn_export_options *asked, tn_error *error);
void tn__export_close(export_source *source);
/* The folder that contains a file. False: its name is too long. */
#define EXPORT_FOLDER_MAX 4096
bool tn__export_folder(const char *path, char folder[EXPORT_FOLDER_MAX]);
/* Are the model's external data files also next to `output`? (output NULL: yes) */
tn_status tn__export_beside(const export_source *source, const char *output, tn_error *error);

/* choice->count 0: the model as it is. candidate: out, to be released. */
tn_status tn__export_measure(const export_source *source, const tn_split_choice *choice,
                             const tn_export_options *asked, uint32_t byte_flops,
                             export_candidate *candidate, tn_error *error);
void tn__export_release(export_candidate *candidate);

#endif
