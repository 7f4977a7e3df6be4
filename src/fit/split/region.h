/* region.h - a region is a sequence of operators that run in tiles: a part of each tensor at a
 * time. This header has its axes and the elements of each tile.
 *
 *   region.c   operators that run in tiles, the axes of their tensors, the elements of each tile
 *   emit.c     the operators for the tiles
 *   trace.c    the origin of each new operator and tensor
 *   price.c    memory and cost of a graph without tiles, and of a region without building its graph
 *   skip.c     tensors that are recomputed, so that they need not stay live during regions
 *   search.c   the choice of regions and of recomputed tensors
 */
#ifndef TN_SPLIT_REGION_H
#define TN_SPLIT_REGION_H

#include <tenure/rewrite.h>

#include "base/lists.h"
#include "graph/tiles/split.h"

/* A tensor that operators of a region read or make. The first `made_count` tensors of a region are
 * those that operators of its window make. */
typedef struct split_tensor {
    tn_tensor_id id;
    /* the axis of the tensor that each cut divides; TN_NONE: not known yet, or not divided */
    uint32_t axis[TN_SPLIT_AXES];
    /* position in the window of the operator that makes the tensor; TN_NONE: made outside of the
     * region */
    uint32_t maker;
    uint32_t last; /* position of the tensor's last reader that runs in tiles */
    bool touched;  /* an operator of the region reads or makes the tensor */
    bool read;     /* an operator that runs in tiles reads the tensor */
    /* an operator of the region needs the whole tensor, or the tensor is made outside */
    bool whole;
    bool after; /* the tensor is read after the region */
} split_tensor;

typedef struct split_op {
    tn_op_id id;
    bool parts; /* the operator runs in tiles; otherwise it runs whole, before the first tile */
    /* the operator computes nothing while the graph runs, because its result was folded */
    bool idle;
} split_op;

typedef struct split_span {
    int64_t first, last;
} split_span;

typedef struct split_order split_order;

/* A window of consecutive operators that ends with the last operator of the region. The region
 * begins with this last operator alone and is extended to the front, operator by operator.
 * Extending the region does not change earlier decisions, because they depend only on later
 * operators. */
typedef struct split_region {
    const tn_graph *graph;
    const split_order *order;
    uint32_t axis_count; /* number of axes that are cut, 1 or 2 */
    uint32_t axes[TN_SPLIT_AXES], parts[TN_SPLIT_AXES];
    bool keep, slices;
    split_op *ops; /* [op_count] the operators of the window, in the order of the graph */
    uint32_t op_count;
    uint32_t begin; /* the region consists of the operators [begin, op_count) */
    /* [tensor_count] the tensors that operators of the region read or make */
    split_tensor *tensors;
    uint32_t tensor_count, made_count;
    /* [cuts][tiles of the cut][made tensors] the elements along the tensor's axis that a tile has
     * for its readers; if elements are kept, also those for later tiles */
    split_span *need[TN_SPLIT_AXES];
    /* [cuts][tiles of the cut][made tensors] the elements that the operator computes; the others
     * were kept from earlier tiles */
    split_span *made[TN_SPLIT_AXES];
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
/* Whether the graph is one of TensorFlow Lite, where channels are the last axis and the runtime
 * joins only few tensors at a time. */
static inline bool tn__split_is_tflite(const split_region *region) {
    const tn_op *last = tn_graph_op(region->graph, region->ops[region->op_count - 1].id);
    return strcmp(last->domain, "tflite") == 0;
}
/* Whether a tensor exists only in tiles. */
static inline bool tn__split_is_cut(const split_region *region, uint32_t tensor) {
    const split_tensor *at = &region->tensors[tensor];
    return at->maker != TN_NONE && region->ops[at->maker].parts;
}

#define SPLIT_KNOWN 6u /* number of axes of an operator's result for which answers are stored */

/* Data about the order of a graph that all of its regions share. A place is a position in this
 * order. */
struct split_order {
    const tn_graph *graph;
    const tn_op_id *ops; /* [op_count] the operators of block 0, the main block */
    uint32_t op_count;
    /* [operators of the graph] place of the operator; TN_NONE: it is in another block */
    uint32_t *place;
    /* [tensors] place of the last reader; op_count: the caller or another block reads the tensor;
     * TN_NONE: nothing reads it */
    uint32_t *last;
    /* [tensors] 1 + index of the tensor in the current region; 0: it is not in the region */
    uint32_t *local;
    /* [operators][SPLIT_KNOWN] whether the operator can be cut along each axis, as far as known */
    uint8_t *known;
    struct split_law *laws; /* laws of operators for their inputs (region.c) */
    size_t *first_law;      /* [operators] index of the operator's first law in `laws` */
};

static inline uint32_t tn__split_local(const split_region *region, tn_tensor_id id) {
    return region->order->local[id] - 1;
}

/* Reads the order of a graph. Arrays belong to `arena`. */
tn_status tn__split_order(const tn_graph *graph, tn__arena *arena, split_order *order,
                          tn_error *error);
/* Does what tn__op_split does, mostly from stored answers. */
bool tn__split_ask(const split_order *order, tn_op_id op, tn__tile *part, uint32_t input,
                   tn__need *need);

/* Reads a region from place `first` to place `last` of the order. The caller must end it with
 * tn__split_end, even after an error. Errors: E_INVALID (the region cannot be cut in this way),
 * E_NO_MEMORY. Cost: O(operands). */
tn_status tn__split_begin(const split_order *order, const tn_split_region *asked, uint32_t first,
                          uint32_t last, split_region *region, tn_error *error);
/* Begins a region that consists of the operator at place `last` alone, with a window that begins at
 * place `first`. The caller must end it with tn__split_end, even after an error. Errors: those of
 * tn__split_begin. */
tn_status tn__split_open(const split_order *order, const tn_split_region *asked, uint32_t first,
                         uint32_t last, split_region *region, tn_error *error);
/* Extends the region by the operator before it. Errors: E_INVALID: no longer region can be cut in
 * this way. Cost: O(operands of the operator). */
tn_status tn__split_extend(split_region *region);
void tn__split_end(split_region *region);
/* Computes the elements of all tiles. Errors: E_INVALID, E_NO_MEMORY. Cost: O(operands * tiles). */
tn_status tn__split_ranges(split_region *region);
/* Computes the elements of all tiles for one operator that runs in tiles. All later operators must
 * have been visited; `need` and `made` are allocated, and zero at first. Errors: E_INVALID. Cost:
 * O(operands of the operator * tiles). */
tn_status tn__split_ranges_op(split_region *region, uint32_t at);
/* Finds the elements of one input that a tile of an operator needs along one cut. *whole becomes
 * the range of output 0 that the tile computes; the rule may enlarge it. */
bool tn__split_part_need(const split_region *region, uint32_t op, uint32_t input, uint32_t cut,
                         uint32_t part, tn__tile *whole, tn__need *need);
/* Returns the index in the region of the first output of an operator in tiles. */
uint32_t tn__split_result(const split_region *region, uint32_t op);

#endif
