/* region.h - a region that is to run in parts: its axes, and the elements of each part.
 *
 *   region.c   operators that run in parts, the axes of their tensors, the elements of each part
 *   emit.c     operators for the parts
 *   trace.c    origin of each new operator and tensor
 *   price.c    memory and cost of the unsplit graph, and of a region without building it
 *   skip.c     tensors that are recomputed, so that regions need not keep them
 *   search.c   choice of regions and of recomputed tensors
 */
#ifndef TN_SPLIT_REGION_H
#define TN_SPLIT_REGION_H

#include <tenure/rewrite.h>

#include "base/lists.h"
#include "graph/tiles/split.h"

/* A tensor that operators of a region read or make. The first `made_count` tensors of a region are
 * results of the operators of its window. */
typedef struct split_tensor {
    tn_tensor_id id;
    uint32_t axis[TN_SPLIT_AXES]; /* axis of each cut; TN_NONE: not known yet, or not cut */
    uint32_t maker;               /* operator of the region, by place; TN_NONE: made outside */
    uint32_t last;                /* place of its last reader in the region that runs in parts */
    bool touched;                 /* an operator of the region reads or makes it */
    bool read;                    /* by an operator that runs in parts */
    bool whole; /* an operator of the region needs the whole tensor, or it is made outside */
    bool after; /* it is read after the region */
} split_tensor;

typedef struct split_op {
    tn_op_id id;
    bool parts; /* runs in parts; otherwise whole, before the first part */
    bool idle;  /* computes nothing while the graph runs (folded) */
} split_op;

typedef struct split_span {
    int64_t first, last;
} split_span;

typedef struct split_order split_order;

/* A window of operators of the order, up to the last one of the region. The region is the tail of
 * its window: it begins with the last operator alone and is extended to the front, operator by
 * operator. Extending the region does not change earlier decisions, because they depend only on
 * later operators. */
typedef struct split_region {
    const tn_graph *graph;
    const split_order *order;
    uint32_t axis_count; /* number of axes that are cut */
    uint32_t axes[TN_SPLIT_AXES], parts[TN_SPLIT_AXES];
    bool keep, slices;
    split_op *ops; /* [op_count] of the window, in the order of the graph */
    uint32_t op_count;
    uint32_t begin;        /* operators [begin, op_count) are the region */
    split_tensor *tensors; /* [tensor_count] */
    uint32_t tensor_count, made_count;
    /* by cut, part and result of the window: elements along the tensor's axis */
    split_span *need[TN_SPLIT_AXES]; /* elements that its readers need, or more if more were
                                      * computed */
    split_span *made[TN_SPLIT_AXES]; /* the elements that the operator computes; the others are
                                      * kept */
    tn__arena arena;
    tn_error *error;
} split_region;

static inline split_span *tn__split_need(const split_region *region, uint32_t cut, uint32_t part,
                                         uint32_t tensor) {
    return &region->need[cut][(size_t)part * region->made_count + tensor];
}
static inline split_span *tn__split_made(const split_region *region, uint32_t cut, uint32_t part,
                                         uint32_t tensor) {
    return &region->made[cut][(size_t)part * region->made_count + tensor];
}
/* Whether the graph is of TensorFlow Lite: channels are last, and the runtime joins few tensors at
 * once. */
static inline bool tn__split_is_tflite(const split_region *region) {
    const tn_op *last = tn_graph_op(region->graph, region->ops[region->op_count - 1].id);
    return strcmp(last->domain, "tflite") == 0;
}
/* Whether a tensor exists only in parts. */
static inline bool tn__split_is_cut(const split_region *region, uint32_t tensor) {
    const split_tensor *at = &region->tensors[tensor];
    return at->maker != TN_NONE && region->ops[at->maker].parts;
}

#define SPLIT_KNOWN 6u /* number of axes of an operator's result with stored answers */

/* Facts about the order of a graph, shared by all of its regions. */
struct split_order {
    const tn_graph *graph;
    const tn_op_id *ops; /* [op_count] of block 0 */
    uint32_t op_count;
    uint32_t *place;        /* [operators of the graph]; TN_NONE: in another block */
    uint32_t *last;         /* [tensors] place of the last reader; op_count: the caller or
                             * another block; TN_NONE: no reader */
    uint32_t *local;        /* [tensors] index in the current region + 1; 0: not in it */
    uint8_t *known;         /* [operators][SPLIT_KNOWN] stored answers for its axes */
    struct split_law *laws; /* region.c */
    size_t *first_law;      /* [operators] the first of its laws */
};

static inline uint32_t tn__split_local(const split_region *region, tn_tensor_id id) {
    return region->order->local[id] - 1;
}

/* Arrays are in `arena`. */
tn_status tn__split_order(const tn_graph *graph, tn__arena *arena, split_order *order,
                          tn_error *error);
/* As tn__op_split, from stored answers for the operator. */
bool tn__split_ask(const split_order *order, tn_op_id op, tn__tile *part, uint32_t input,
                   tn__need *need);

/* Reads a region from place `first` to place `last` of the order. The caller ends it, also after an
 * error. Errors: E_INVALID (this cut is not possible), E_NO_MEMORY. Cost: O(operands). */
tn_status tn__split_begin(const split_order *order, const tn_split_region *asked, uint32_t first,
                          uint32_t last, split_region *region, tn_error *error);
/* The same for the last operator alone, with a window from place `first` on. */
tn_status tn__split_open(const split_order *order, const tn_split_region *asked, uint32_t first,
                         uint32_t last, split_region *region, tn_error *error);
/* Adds the operator before the region to it. Errors: E_INVALID: no longer region can be cut like
 * this. Cost: O(operands of the operator). */
tn_status tn__split_extend(split_region *region);
void tn__split_end(split_region *region);
/* Elements of all parts. Errors: E_INVALID, E_NO_MEMORY. Cost: O(operands x parts). */
tn_status tn__split_ranges(split_region *region);
/* The same for one operator that runs in parts, after all later ones; `need` and `made` exist and
 * are zero at first. Errors: E_INVALID. Cost: O(operands of the operator x parts). */
tn_status tn__split_ranges_op(split_region *region, uint32_t at);
/* The elements that a part of an operator needs of one of its inputs along one cut; the part is the
 * range of output 0 that is computed, or more. */
bool tn__split_part_need(const split_region *region, uint32_t op, uint32_t input, uint32_t cut,
                         uint32_t part, tn__tile *whole, tn__need *need);
/* Local tensor index of the first output of an operator that is cut. */
uint32_t tn__split_result(const split_region *region, uint32_t op);

#endif
