/* price.h - what a region needs and what it costs in parts, without making its graph.
 *
 * A pricer belongs to one window (region.h). It is extended with the region, one operator at a
 * time, and can be asked for several numbers of parts at each length.
 */
#ifndef TN_SPLIT_PRICE_H
#define TN_SPLIT_PRICE_H

#include "split/model.h"

/* What a region costs and needs. */
typedef struct split_price {
    uint64_t peak;  /* live bytes at its worst step, with what lives across it; TN_SIZE_UNKNOWN:
                     * it cannot be cut so */
    uint64_t extra; /* flops beyond those of the whole operators */
    uint64_t halo;  /* bytes that are kept for the next part */
    uint64_t moved; /* bytes that are copied (parts, halos that are kept, results that are joined)
                     * or read again */
    uint64_t kept;  /* bytes for good, of the operators more */
} split_price;

#define PRICE_COUNTS 11u /* numbers of parts of one window */
#define PRICE_SEEN 4u    /* parts along an axis that are looked at; those between are alike */

/* Elements of one operand of an operator, as one part has it: bytes. */
typedef struct price_tensor {
    uint64_t need, made;
    uint64_t kept;  /* for the next part, once nobody reads it any more */
    uint64_t joins; /* of what was kept beside what is made, while both become one */
} price_tensor;

/* What one part of an operator does before it computes. */
typedef struct price_step {
    uint64_t copied; /* operands that are not in one piece */
    uint64_t read;
    uint64_t moves; /* copies */
    bool any;       /* it computes anything */
} price_step;

/* A number of parts: operators from the last one to `at` are counted in. */
typedef struct price_table {
    uint32_t parts[TN_SPLIT_AXES];
    bool failed; /* the operator before `at` cannot compute one of the parts */
    uint32_t at;
    split_span *need[TN_SPLIT_AXES], *made[TN_SPLIT_AXES]; /* of the region */
    uint32_t seen, part[PRICE_SEEN * PRICE_SEEN][TN_SPLIT_AXES];
    price_tensor *tensors;           /* [seen][results of the window] */
    price_step *steps;               /* [seen][operators] */
    uint64_t bytes_read, bytes_made; /* sums over all that was seen */
    uint64_t moved, moves, halo;
    double extra;
} price_table;

typedef struct split_pricer {
    split_model *model;
    split_region *region;
    uint32_t first; /* place of the window's first operator */
    price_table *tables[PRICE_COUNTS];
    uint32_t *first_reader; /* [made tensors + 1] */
    uint32_t *readers;      /* operators of the window */
    uint32_t *results;      /* [result_count] tensors that have to be whole behind the region */
    uint32_t result_count;
    uint64_t whole;    /* live bytes at the worst operator that runs whole */
    uint64_t operands; /* bytes of the operands of all that runs in parts */
    uint64_t kept;     /* bytes for good, of a copy of all that runs in parts */
    /* of the region as it is long now */
    uint32_t shared;       /* operator that it began with when these were made */
    uint32_t *root, *last; /* [made tensors] whose memory it is in, in a part; last reader of it */
    uint32_t *end, *next;  /* [operators], [2 x made tensors] lists of what ends there, and ... */
    uint64_t floor;
} split_pricer;

/* --- price.c --- */

/* Of a region that was opened, before it is extended. Lists in the region's arena. */
tn_status tn__price_open(split_pricer *pricer, split_model *model, split_region *region,
                         uint32_t first, tn_error *error);
/* After the region was extended. */
void tn__price_extend(split_pricer *pricer);
/* Bytes that live throughout the region whatever its parts are: no number of parts needs less.
 * tn__split_across was called for its last operator. Cost: O(operands). */
uint64_t tn__price_floor(const split_pricer *pricer);
/* The price of the region as it is long now. Each `index` is of one number of parts. Errors:
 * E_NO_MEMORY. Cost: O(operands of the region), and once for each operator and number of parts
 * O(operands x parts). */
tn_status tn__price(split_pricer *pricer, uint32_t index, const uint32_t *parts, split_price *price,
                    tn_error *error);

/* --- price_table.c: what price.c makes of it --- */

/* One of the parts that are looked at. */
typedef struct price_part {
    const split_pricer *pricer;
    price_table *table;
    const uint32_t *part; /* by cut */
    price_tensor *tensors;
    price_step *steps;
} price_part;
price_part tn__price_part(const split_pricer *pricer, price_table *table, uint32_t seen);
/* A number of parts of which no operator is counted. Errors: E_NO_MEMORY. */
tn_status tn__price_make_table(split_pricer *pricer, const uint32_t *parts, price_table **made,
                               tn_error *error);
/* Counts all operators of the region. */
void tn__price_catch_up(split_pricer *pricer, price_table *table);
/* Whether elements along an axis follow each other in one piece of memory. */
bool tn__price_is_piece(const tn_tensor *tensor, uint32_t axis);

static inline const tn_op *tn__price_op(const split_pricer *pricer, uint32_t at) {
    return tn_graph_op(pricer->region->graph, pricer->region->ops[at].id);
}
static inline const tn_tensor *tn__price_whole(const split_pricer *pricer, uint32_t tensor) {
    return tn_graph_tensor(pricer->region->graph, pricer->region->tensors[tensor].id);
}

#endif
