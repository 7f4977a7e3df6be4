/* tflite_plan.h - a .tflite file that is open for its plan, with the mapping between its tensors
 * and the graph's. */
#ifndef TN_IMPORT_TFLITE_PLAN_H
#define TN_IMPORT_TFLITE_PLAN_H

#include "io/import/tflite/tflite_reader.h"

typedef struct tflite_place {
    uint64_t tensor; /* number among the tensors of all subgraphs */
    tn_tensor_id id;
} tflite_place;

typedef struct tflite_plan {
    tn_context context;
    tn__file file;
    tn__span bytes;
    tn__flat_table model;
    tn__flat_vector subgraphs, buffers, metadata;
    uint64_t *first;      /* [subgraphs + 1] number of the first tensor */
    tflite_place *places; /* several for a tensor, if several operators run its subgraph */
    size_t place_count, place_room;
    uint32_t *block_subgraphs; /* [block_count] of the graph's blocks */
    size_t block_count;
    tn_error *error;
} tflite_plan;

/* Opens the file and reads the model again; `graph` was made from it with the same options. Close
 * in any case. */
tn_status tn__tflite_plan_from(tflite_plan *plan, const char *name, tn__span bytes,
                               const tn_import_options *options, const tn_graph *graph,
                               tn_error *error); /* from memory */
tn_status tn__tflite_plan_open(tflite_plan *plan, const char *path,
                               const tn_import_options *options, const tn_graph *graph,
                               tn_error *error);
void tn__tflite_plan_close(tflite_plan *plan);

/* May a plan inside the file place this tensor? Not if it has 4-bit elements: the run time keeps
 * those in whole bytes, so our sizes would be too small. Not if it is the handle of a variable,
 * which has no place. The run time places such tensors on its own. */
bool tn__tflite_plan_takes(const tn_graph *graph, tn_tensor_id id);

/* May new objects go in front of the file? Positions that count from its start would change.
 * Errors: E_UNSUPPORTED (contents or options after the FlatBuffer, parts of a later schema). */
tn_status tn__tflite_plan_check(const tflite_plan *plan);

/* Writes the file with a plan inside to an empty text, like tn_tflite_write_plan. */
tn_status tn__tflite_plan_put(const tflite_plan *plan, const tn_graph *graph,
                              const uint64_t *offsets, tn__text *text);

/* Is a metadata entry a plan? The second function returns the first such entry, or their count. */
bool tn__tflite_plan_is(const tflite_plan *plan, uint32_t at);
uint32_t tn__tflite_plan_find(const tflite_plan *plan);

/* The offsets in the file's plan, one for each tensor of all subgraphs; `items` NULL: no plan.
 * Errors: E_INVALID (a plan of another size, an offset below -1). */
tn_status tn__tflite_plan_numbers(const tflite_plan *plan, tn__flat_vector *numbers);

#endif
