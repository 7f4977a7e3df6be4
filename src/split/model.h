/* model.h - what a graph as it is needs, place by place of its order. */
#ifndef TN_SPLIT_MODEL_H
#define TN_SPLIT_MODEL_H

#include "split/region.h"

/* A tensor's memory as a whole: who shares it, and from when to when it lives, in places of the
 * order. */
typedef struct split_life {
    tn_tensor_id root;    /* whose memory it is in */
    uint32_t first, last; /* of a root: with all that share it; both included */
    uint64_t bytes;       /* of a root; static: 0 */
} split_life;

typedef struct split_model {
    split_order order;
    split_life *lives; /* [tensors] */
    uint64_t *live;    /* [places] bytes while an operator runs */
    uint64_t *flops;   /* [places] */
    uint32_t *alias;   /* [places] input that output 0 may lie over or is a view of; TN_NONE */
    bool *is_view;     /* [places] it is a view, not written over */
    const uint64_t *scratch; /* [operators of the graph]; NULL: by their rules */
    uint64_t work;           /* flops of all */
    const uint64_t *kept;    /* [operators of the graph] bytes for good, of each copy; NULL: none */
    uint64_t move_kept;      /* of what only moves elements */
    bool copies;      /* parts and joins are always copies, and TensorFlow Lite shares no memory */
    uint64_t *behind; /* [places] bytes that live from before a place to behind it */
    tn_tensor_id *roots;  /* tensors with memory of their own, by the place that makes them */
    uint32_t *first_root; /* [places + 1] of each place, in `roots`; inputs are in none */
    uint64_t *across;     /* [places] bytes that live from before a place to behind `across_last` */
    uint32_t across_last;
} split_model;

/* Lists in `arena`; lists of the options outlive the model. */
tn_status tn__split_model(const tn_graph *graph, const tn_split_options *options, tn__arena *arena,
                          split_model *model, tn_error *error);

/* Bytes of a tensor that take memory while the graph runs: none of those that are static. */
uint64_t tn__split_bytes(const tn_tensor *tensor);

/* Counts what lives across regions that begin at a place from `first` on and end at `last`, in
 * `across`. Cost: O(roots that are made in between). */
void tn__split_across(split_model *model, uint32_t first, uint32_t last);

#endif
