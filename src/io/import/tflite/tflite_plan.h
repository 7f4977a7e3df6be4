/* tflite_plan.h - a .tflite file that is open for its plan, with the mapping between its tensors
 * and the graph's. */
#ifndef TN_IMPORT_TFLITE_PLAN_H
#define TN_IMPORT_TFLITE_PLAN_H

#include "io/import/tflite/tflite_reader.h"

typedef struct tflite_place {
    uint64_t tensor; /* number of the tensor among those of all subgraphs */
    tn_tensor_id id;
} tflite_place;

typedef struct tflite_plan {
    tn_context context;
    tn__file file;
    tn__span bytes;
    tn__flat_table model;
    tn__flat_vector subgraphs, buffers, metadata;
    uint64_t *first; /* [subgraphs + 1] number of the first tensor of each subgraph */
    /* which tensor of the graph a tensor of the file became; several entries for a tensor if
     * several operators run its subgraph */
    tflite_place *places;
    size_t place_count, place_room;
    uint32_t *block_subgraphs; /* [block_count] subgraph of each block of the graph */
    size_t block_count;
    tn_error *error;
} tflite_plan;

/* Opens the file and reads the model again. `graph` must have been made from the file with the same
 * options. Call tn__tflite_plan_close on success and on failure. */
tn_status tn__tflite_plan_from(tflite_plan *plan, const char *name, tn__span bytes,
                               const tn_import_options *options, const tn_graph *graph,
                               /* tn__tflite_plan_from opens a file that is in memory already */
                               tn_error *error);
tn_status tn__tflite_plan_open(tflite_plan *plan, const char *path,
                               const tn_import_options *options, const tn_graph *graph,
                               tn_error *error);
void tn__tflite_plan_close(tflite_plan *plan);

/* Whether a plan inside the file may place this tensor. It may not if the tensor has 4-bit
 * elements: the run time stores those in whole bytes, so the planned size would be too small. It
 * may not if the tensor is the handle of a variable, which has no place. The run time places such
 * tensors itself. */
bool tn__tflite_plan_takes(const tn_graph *graph, tn_tensor_id id);

/* Checks that new objects may be put before the contents of the file, which changes positions that
 * count from its start. Errors: E_UNSUPPORTED (contents or options after the FlatBuffer, parts of a
 * later schema). */
tn_status tn__tflite_plan_check(const tflite_plan *plan);

/* Appends the file with a plan inside to an empty text, as tn_tflite_write_plan writes it. */
tn_status tn__tflite_plan_put(const tflite_plan *plan, const tn_graph *graph,
                              const uint64_t *offsets, tn__text *text);

/* tn__tflite_plan_is returns whether a metadata entry is a plan. tn__tflite_plan_find returns the
 * first such entry, or the number of entries if no entry is a plan. */
bool tn__tflite_plan_is(const tflite_plan *plan, uint32_t at);
uint32_t tn__tflite_plan_find(const tflite_plan *plan);

/* Finds the offsets in the file's plan, one for each tensor of all subgraphs; `items` is NULL if
 * the file has no plan. Errors: E_INVALID (a plan of another size, an offset below -1). */
tn_status tn__tflite_plan_numbers(const tflite_plan *plan, tn__flat_vector *numbers);

#endif
