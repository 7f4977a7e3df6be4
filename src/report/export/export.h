/* export.h - writes split graphs as files for other run times.
 *
 *   split_file.c  chooses regions for a budget: each candidate is written in memory and measured
 *   tflite.c      a .tflite file: operators, tensors and constants in front of the old file
 *   flat_write.c  FlatBuffers
 *   onnx.c        an .onnx file: new nodes in place of the old ones
 *   proto.c       protobuf
 *   measure.c     the memory that a run time needs for such a file
 */
#ifndef TN_EXPORT_EXPORT_H
#define TN_EXPORT_EXPORT_H

#include <tenure/export.h>

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

#endif
