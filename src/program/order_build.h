/* order_build.h - a model of order.h under construction: shared by order_model.c and
 * order_items.c. */
#ifndef TN_PROGRAM_ORDER_BUILD_H
#define TN_PROGRAM_ORDER_BUILD_H

#include "program/order.h"

typedef struct tn__order_tensor {
    tn_tensor_id id;
    uint32_t maker; /* node; ORDER_NONE */
    uint32_t root;  /* the tensor that owns its memory */
    uint64_t delta, lo, hi, bytes;
    bool fixed; /* static, or from outside the block: it has no item */
    bool whole, kept, there;
    uint32_t first_item, last_item; /* items that hold its bytes */
} tn__order_tensor;

typedef struct tn__order_pair {
    uint32_t a, b;
} tn__order_pair;

typedef struct tn__order_pairs {
    tn__order_pair *data;
    size_t count, room;
} tn__order_pairs;

typedef struct tn__order_build {
    const tn_order_task *task;
    tn__order_model *model;
    tn_error *error;
    const tn_graph *graph;
    const tn_context *context;
    tn__order_tensor *tensors; /* by id */
    uint32_t tensor_count;
    tn__order_pairs reads; /* (node, tensor id), by node */
    tn__order_pairs uses;  /* (item, node) */
    tn__order_pairs edges; /* (before, after) */
    tn__order_pairs ids;   /* (tensor id, number) */
    tn__order_pairs ops;   /* (operator, node) */
    tn_block_id *blocks;   /* stack of nested blocks */
    size_t block_room;
    uint8_t *changes; /* [nodes] 1: writes into input 0; 2: writes into a tensor that its blocks
                       * read */
} tn__order_build;

/* order_model.c */
tn_status tn__order_add(tn__order_build *build, tn__order_pairs *pairs, uint32_t a, uint32_t b);
void tn__order_normalise(tn__order_pairs *pairs); /* sorts and removes duplicates */
tn__order_tensor *tn__order_tensor_of(const tn__order_build *build, tn_tensor_id id);

/* order_items.c: the items and their users; then the edges between nodes, and the takes of each
 * node. */
tn_status tn__order_items(tn__order_build *build);
tn_status tn__order_edges(tn__order_build *build);
tn_status tn__order_takes(tn__order_build *build);

#endif
