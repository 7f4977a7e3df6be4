/* estimate.h - what a graph needs and what a region of it would, without making the graph. */
#ifndef TN_SPLIT_ESTIMATE_H
#define TN_SPLIT_ESTIMATE_H

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
    uint64_t *across; /* [places] bytes that live from before a place to behind `across_last` */
    uint32_t across_last;
} split_model;

/* Lists in `arena`; lists of the options outlive the model. */
tn_status tn__split_model(const tn_graph *graph, const tn_split_options *options, tn__arena *arena,
                          split_model *model, tn_error *error);

/* What a region costs and needs. */
typedef struct split_price {
    uint64_t peak;  /* live bytes at its worst step, with what lives across it */
    uint64_t extra; /* flops beyond those of the whole operators */
    uint64_t halo;  /* bytes that are kept for the next part */
    uint64_t moved; /* bytes that are copied (parts, halos that are kept, results that are joined)
                     * or read again */
    uint64_t kept;  /* bytes for good, of the operators more */
} split_price;

/* Counts what lives across regions that end at a place: ask for those one after the other.
 * Cost: O(tensors + operators). */
void tn__split_across(split_model *model, uint32_t last);
/* Bytes that live throughout a region whatever its parts are: no number of parts needs less. */
uint64_t tn__split_floor(const split_model *model, const split_region *region, uint32_t first,
                         uint32_t last);
/* After tn__split_ranges. Cost: O(operands x parts). */
void tn__split_price(const split_model *model, const split_region *region, uint32_t first,
                     uint32_t last, split_price *price);

#endif
