/* price.h - the memory and the cost of a region in parts, without building its graph.
 *
 * A pricer belongs to one window (region.h). It is extended with the region, one operator at a
 * time, and can be asked for several numbers of parts at each length.
 */
#ifndef TN_SPLIT_PRICE_H
#define TN_SPLIT_PRICE_H

#include "fit/split/model.h"

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

/* --- price.c --- */

/* For a region that was opened, before it is extended. Arrays are in the region's arena. */
tn_status tn__price_open(split_pricer *pricer, split_model *model, split_region *region,
                         uint32_t first, tn_error *error);
/* After the region was extended. */
void tn__price_extend(split_pricer *pricer);
/* Bytes that live throughout the region: a lower bound for every number of parts. Requires
 * tn__split_across for its last operator. Cost: O(operands). */
uint64_t tn__price_floor(const split_pricer *pricer);
/* The price of the region at its current length. Each `index` stands for one number of parts.
 * Errors: E_NO_MEMORY. Cost: O(operands of the region); once for each operator and number of
 * parts O(operands x parts). */
tn_status tn__price(split_pricer *pricer, uint32_t index, const uint32_t *parts, split_price *price,
                    tn_error *error);

/* --- price_table.c: the numbers that price.c uses --- */

/* One of the sampled parts. */
typedef struct price_part {
    const split_pricer *pricer;
    price_table *table;
    const uint32_t *part; /* by cut */
    price_tensor *tensors;
    price_step *steps;
} price_part;
price_part tn__price_part(const split_pricer *pricer, price_table *table, uint32_t seen);
/* Makes a table for a number of parts, without any operator. Errors: E_NO_MEMORY. */
tn_status tn__price_make_table(split_pricer *pricer, const uint32_t *parts, price_table **made,
                               tn_error *error);
/* Counts the operators of the region that are not in the table yet. */
void tn__price_catch_up(split_pricer *pricer, price_table *table);
/* Whether elements along an axis are contiguous in memory. */
bool tn__price_is_piece(const tn_tensor *tensor, uint32_t axis);

static inline const tn_op *tn__price_op(const split_pricer *pricer, uint32_t at) {
    return tn_graph_op(pricer->region->graph, pricer->region->ops[at].id);
}
static inline const tn_tensor *tn__price_whole(const split_pricer *pricer, uint32_t tensor) {
    return tn_graph_tensor(pricer->region->graph, pricer->region->tensors[tensor].id);
}

#endif
