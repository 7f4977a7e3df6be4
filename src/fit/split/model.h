/* model.h - the memory needs of an unsplit graph, place by place of its order. */
#ifndef TN_SPLIT_MODEL_H
#define TN_SPLIT_MODEL_H

#include "fit/split/region.h"

/* A tensor's whole memory: its root, and its live range in places of the order. This room plans
 * graphs without a program, so it cannot ask an occupancy. */
typedef struct split_life {
    tn_tensor_id root;    /* the tensor that owns the memory */
    uint32_t first, last; /* of a root: range of all tensors that share it; both ends included */
    uint64_t bytes;       /* of a root; static: 0 */
} split_life;

typedef struct split_model {
    split_order order;
    split_life *lives;       /* [tensors] */
    uint64_t *live;          /* [places] bytes while an operator runs */
    uint64_t *flops;         /* [places] */
    uint32_t *alias;         /* [places] input that output 0 may overwrite or view; TN_NONE */
    bool *is_view;           /* [places] output 0 is a view, not in place */
    const uint64_t *scratch; /* [operators of the graph]; NULL: by their rules */
    uint64_t work;           /* sum of all flops */
    const uint64_t *kept;    /* [operators of the graph] permanent bytes of each copy; NULL: none */
    uint64_t move_kept;      /* permanent bytes of an operator that only moves elements */
    bool copies;      /* parts and joins are always copies, and TensorFlow Lite shares no memory */
    uint64_t *behind; /* [places] bytes that are live from before a place to after it */
    tn__lists roots;  /* [places] the tensors with memory of their own that a place makes; graph
                       * inputs are not listed */
    uint64_t *across; /* [places] bytes that are live from before a place to after
                       * `across_last` */
    uint32_t across_last;
} split_model;

/* Arrays are in `arena`; arrays of the options must outlive the model. */
tn_status tn__split_model(const tn_graph *graph, const tn_split_options *options, tn__arena *arena,
                          split_model *model, tn_error *error);

/* Bytes of a tensor in the arena while the graph runs: 0 for static tensors. */
uint64_t tn__split_bytes(const tn_tensor *tensor);

/* Fills `across` with the bytes that live across regions that begin at place `first` or later
 * and end at `last`. Cost: O(roots that are made in between). */
void tn__split_across(split_model *model, uint32_t first, uint32_t last);

#endif
