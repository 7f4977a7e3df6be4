/* price.h - the memory and the cost of a graph without tiles, and of a region in tiles without
 * building its graph.
 *
 * A pricer belongs to one window of operators (region.h). It is extended together with the region,
 * one operator at a time, and can price several numbers of tiles at each length of the region.
 */
#ifndef TN_SPLIT_PRICE_H
#define TN_SPLIT_PRICE_H

#include "fit/split/region.h"

/* --- the unsplit graph, place by place of its order ------------------------------------------- */

/* The whole memory of a tensor: the tensor that owns it (its root), and its live range in places of
 * the order. These files examine graphs without a program, so there is no occupancy. */
typedef struct split_life {
    tn_tensor_id root; /* the tensor that owns the memory */
    /* for a root, the first and last place at which any tensor uses its memory; both included */
    uint32_t first, last;
    uint64_t bytes; /* for a root, its bytes; 0 for static memory */
} split_life;

typedef struct split_model {
    split_order order;
    split_life *lives; /* [tensors] */
    uint64_t *live;    /* [places] bytes that are live while the operator runs */
    uint64_t *flops;   /* [places] */
    /* [places] the input that output 0 views or may overwrite; TN_NONE: no such input */
    uint32_t *alias;
    /* [places] output 0 is a view of the input `alias`, rather than written over it */
    bool *is_view;
    /* [operators of the graph] bytes of scratch memory; NULL: those of the operators' rules */
    const uint64_t *scratch;
    uint64_t work; /* sum of the operations of all operators */
    /* [operators of the graph] permanent bytes that each copy of the operator needs; NULL: none */
    const uint64_t *kept;
    uint64_t move_kept; /* permanent bytes for each additional operator that only moves elements */
    /* the runtime copies all parts and joins, and shares no memory for views (TensorFlow Lite) */
    bool copies;
    uint64_t *behind; /* [places] bytes that are live from before the place until after it */
    /* [places] the tensors with memory of their own that the place makes, without inputs of the
     * graph */
    tn__lists roots;
    /* [places] bytes that are live from before the place until after the place `across_last` */
    uint64_t *across;
    uint32_t across_last;
} split_model;

/* Reads a graph. Arrays of the model belong to `arena`; arrays in the options must exist as long as
 * the model. */
tn_status tn__split_model(const tn_graph *graph, const tn_split_options *options, tn__arena *arena,
                          split_model *model, tn_error *error);

/* Returns the bytes of a tensor in the arena while the graph runs: 0 for static tensors. */
uint64_t tn__split_bytes(const tn_tensor *tensor);

/* Fills `across` for all regions that begin at place `first` or later and end at place `last`, with
 * the bytes that are live from before the region until after it. Cost: O(tensors with memory of
 * their own that are made in between). */
void tn__split_across(split_model *model, uint32_t first, uint32_t last);

/* --- a region in tiles ------------------------------------------------------------------------ */

/* The memory and the cost of a region in tiles. */
typedef struct split_price {
    /* most live bytes at any step of the region, with tensors that are live across it;
     * TN_SIZE_UNKNOWN: the region cannot be cut in this way */
    uint64_t peak;
    uint64_t extra; /* operations in addition to those of the whole operators */
    uint64_t halo;  /* bytes that are kept for the next tile */
    uint64_t moved; /* bytes that are copied (parts, kept elements, joined results) or read again */
    uint64_t kept;  /* permanent bytes that the additional operators need */
} split_price;

#define PRICE_COUNTS 11u /* number of different numbers of tiles for one window */
/* number of tiles along an axis that are examined (first, second, middle, last); all others are
 * like the middle one */
#define PRICE_SEEN 4u

/* Bytes of a tensor in one tile: `need` are those that its readers need, `made` those that the tile
 * computes. */
typedef struct price_tensor {
    uint64_t need, made;
    uint64_t kept;  /* bytes that are kept for the next tile after the last reader */
    uint64_t joins; /* additional bytes while kept and computed elements are joined */
} price_tensor;

/* The copies that an operator makes in one tile before it computes. */
typedef struct price_step {
    uint64_t copied; /* bytes of operands that are copied because they are not contiguous */
    uint64_t read;
    uint64_t moves; /* number of copies that the operator makes */
    bool any;       /* the operator computes at least one element in this tile */
} price_step;

/* The counts for one number of tiles. Operators from `at` to the last one of the region are
 * counted. */
typedef struct price_table {
    uint32_t parts[TN_SPLIT_AXES];
    bool failed; /* the operator before `at` cannot compute one of the tiles */
    uint32_t at;
    /* the elements of each tile that are needed and computed (see split_region) */
    split_span *need[TN_SPLIT_AXES], *made[TN_SPLIT_AXES];
    uint32_t seen, part[PRICE_SEEN * PRICE_SEEN][TN_SPLIT_AXES];
    /* [seen][results of the window] bytes of the tensors in each examined tile */
    price_tensor *tensors;
    price_step *steps; /* [seen][operators] copies that the operator makes in each examined tile */
    /* bytes that operators read and make: sums over all counted operators and examined tiles */
    uint64_t bytes_read, bytes_made;
    uint64_t moved, moves, halo;
    double extra;
} price_table;

typedef struct split_pricer {
    split_model *model;
    split_region *region;
    uint32_t first; /* place of the first operator of the window */
    price_table *tables[PRICE_COUNTS];
    tn__lists readers; /* [made tensors] the operators of the window that read the tensor */
    uint32_t *results; /* [result_count] tensors that must be whole after the region */
    uint32_t result_count;
    uint64_t whole; /* most live bytes while an operator of the region runs that is not in tiles */
    uint64_t operands; /* bytes of the operands of all operators in tiles */
    uint64_t kept;     /* permanent bytes that one copy of all operators in tiles needs */
    /* the following fields are for the region at its current length */
    uint32_t shared; /* first operator of the region for which the following fields were computed */
    /* [made tensors] the tensor that gives its memory to this one inside a tile, and the last
     * reader of that memory */
    uint32_t *root, *last;
    /* lists of the releases and last reads after each operator: [operators] the first entry, [2 *
     * made tensors] the next entry */
    uint32_t *end, *next;
    uint64_t floor;
} split_pricer;

/* Begins a pricer for a region that was opened and is not extended yet. Arrays belong to the
 * region's arena. */
tn_status tn__price_open(split_pricer *pricer, split_model *model, split_region *region,
                         uint32_t first, tn_error *error);
/* Extends a pricer after its region was extended by one operator. */
void tn__price_extend(split_pricer *pricer);
/* Returns the bytes that are live throughout the region, a lower bound for every number of tiles.
 * tn__split_across must have been called for the last operator. Cost: O(operands). */
uint64_t tn__price_floor(const split_pricer *pricer);
/* Computes the price of the region at its current length. Each `index` must always be used with the
 * same number of tiles. Errors: E_NO_MEMORY. Cost: O(operands of the region), and once for each
 * operator and number of tiles O(operands * tiles). */
tn_status tn__price(split_pricer *pricer, uint32_t index, const uint32_t *parts, split_price *price,
                    tn_error *error);

static inline const tn_op *tn__price_op(const split_pricer *pricer, uint32_t at) {
    return tn_graph_op(pricer->region->graph, pricer->region->ops[at].id);
}
static inline const tn_tensor *tn__price_whole(const split_pricer *pricer, uint32_t tensor) {
    return tn_graph_tensor(pricer->region->graph, pricer->region->tensors[tensor].id);
}

#endif
