/* price.h - the memory and the cost of a graph: unsplit, and of a region in parts without building
 * its graph.
 *
 * A pricer belongs to one window (region.h). It is extended with the region, one operator at a
 * time, and can be asked for several numbers of parts at each length.
 */
#ifndef TN_SPLIT_PRICE_H
#define TN_SPLIT_PRICE_H

#include "fit/split/region.h"

/* --- the unsplit graph, place by place of its order ------------------------------------------- */

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

/* Fills `across` with the bytes that live across regions that begin at place `first` or later and
 * end at `last`. Cost: O(roots that are made in between). */
void tn__split_across(split_model *model, uint32_t first, uint32_t last);

/* --- a region in parts ------------------------------------------------------------------------ */

/* The cost and the memory of a region. */
typedef struct split_price {
    uint64_t peak;  /* live bytes at its worst step, with tensors that live across it;
                     * TN_SIZE_UNKNOWN: this cut is not possible */
    uint64_t extra; /* flops beyond those of the whole operators */
    uint64_t halo;  /* bytes that are kept for the next part */
    uint64_t moved; /* bytes that are copied (parts, kept halos, joined results) or read again */
    uint64_t kept;  /* permanent bytes of the additional operators */
} split_price;

#define PRICE_COUNTS 11u /* maximum of different numbers of parts for one window */
#define PRICE_SEEN 4u    /* sampled parts along an axis; those in between are alike */

/* The bytes of one operand of an operator in one part. */
typedef struct price_tensor {
    uint64_t need, made;
    uint64_t kept;  /* for the next part, after the last reader */
    uint64_t joins; /* bytes of the kept elements in addition to the computed ones, while the two
                     * are joined */
} price_tensor;

/* The copies that one part of an operator makes before it computes. */
typedef struct price_step {
    uint64_t copied; /* bytes of operands that are not contiguous */
    uint64_t read;
    uint64_t moves; /* number of copies */
    bool any;       /* the part computes at least one element */
} price_step;

/* One number of parts: operators from the last one to `at` are counted. */
typedef struct price_table {
    uint32_t parts[TN_SPLIT_AXES];
    bool failed; /* the operator before `at` cannot compute one of the parts */
    uint32_t at;
    split_span *need[TN_SPLIT_AXES], *made[TN_SPLIT_AXES]; /* of the region */
    uint32_t seen, part[PRICE_SEEN * PRICE_SEEN][TN_SPLIT_AXES];
    price_tensor *tensors;           /* [seen][results of the window] */
    price_step *steps;               /* [seen][operators] */
    uint64_t bytes_read, bytes_made; /* sums over all counted operators */
    uint64_t moved, moves, halo;
    double extra;
} price_table;

typedef struct split_pricer {
    split_model *model;
    split_region *region;
    uint32_t first; /* place of the window's first operator */
    price_table *tables[PRICE_COUNTS];
    tn__lists readers; /* [made tensors] operators of the window */
    uint32_t *results; /* [result_count] tensors that must be whole after the region */
    uint32_t result_count;
    uint64_t whole;    /* live bytes at the worst operator that runs whole */
    uint64_t operands; /* bytes of the operands of all operators in parts */
    uint64_t kept;     /* permanent bytes of a copy of all operators in parts */
    /* of the region at its current length */
    uint32_t shared;       /* first operator of the region when these were computed */
    uint32_t *root, *last; /* [made tensors] the tensor that owns its memory in a part; last
                            * reader of that memory */
    uint32_t *end, *next;  /* [operators], [2 x made tensors] lists of the ends at each operator */
    uint64_t floor;
} split_pricer;

/* For a region that was opened, before it is extended. Arrays are in the region's arena. */
tn_status tn__price_open(split_pricer *pricer, split_model *model, split_region *region,
                         uint32_t first, tn_error *error);
/* After the region was extended. */
void tn__price_extend(split_pricer *pricer);
/* Bytes that live throughout the region: a lower bound for every number of parts. Requires
 * tn__split_across for its last operator. Cost: O(operands). */
uint64_t tn__price_floor(const split_pricer *pricer);
/* The price of the region at its current length. Each `index` stands for one number of parts.
 * Errors: E_NO_MEMORY. Cost: O(operands of the region); once for each operator and number of parts
 * O(operands x parts). */
tn_status tn__price(split_pricer *pricer, uint32_t index, const uint32_t *parts, split_price *price,
                    tn_error *error);

static inline const tn_op *tn__price_op(const split_pricer *pricer, uint32_t at) {
    return tn_graph_op(pricer->region->graph, pricer->region->ops[at].id);
}
static inline const tn_tensor *tn__price_whole(const split_pricer *pricer, uint32_t tensor) {
    return tn_graph_tensor(pricer->region->graph, pricer->region->tensors[tensor].id);
}

#endif
