/* live_tree.h - a tree of buffers by the first and last step of their live ranges; it finds the
 * first buffer, in a given order, that is live only within [s, e). Most queries take O(log n). */
#ifndef TN_PLAN_SKYLINE_LIVE_TREE_H
#define TN_PLAN_SKYLINE_LIVE_TREE_H

#include "plan/frame/planner.h"

#define TN__LIVE_TREE_NONE UINT32_MAX

/* the live range of a buffer; ranges are stored in the order of the leaves */
typedef struct tn__skyline_life {
    uint32_t first, last, rank; /* rank TN__LIVE_TREE_NONE: the buffer was removed */
} tn__skyline_life;

typedef struct tn__live_tree_node {
    uint32_t best; /* least rank below the node */
    uint32_t first_min, first_max, last_min, last_max;
} tn__live_tree_node;

/* A k-d tree; leaf i holds ranges[begin[i]] to ranges[begin[i + 1] - 1]. */
typedef struct tn__live_tree {
    tn_context context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count], the buffer of each number */
    uint32_t count, leaf_count;
    tn__live_tree_node *nodes; /* [2 * leaf_count], node 1 is the root */
    /* [2 * leaf_count], the smallest size in the node, including removed buffers */
    uint64_t *least;
    tn__skyline_life *ranges; /* [count] */
    uint32_t *begin;          /* [leaf_count + 1] */
    uint32_t *number;         /* [count], the number of the buffer of each live range */
    uint32_t *life_of;        /* [count], the index in `ranges` of each number */
    uint32_t *leaf_of;        /* [count], the leaf of each number */
} tn__live_tree;

/* The buffers to sort. All memory that it points to must outlive the tree. */
typedef struct tn__live_tree_input {
    const tn_context *context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count] */
    uint32_t count;
    tn_run *run; /* the run that says whether to continue; NULL: always continue */
} tn__live_tree_input;

typedef struct tn__live_tree_box { /* inclusive */
    uint32_t first_min, first_max, last_min, last_max;
    uint64_t room; /* the largest size allowed; 0: any size */
} tn__live_tree_box;

/* Makes the tree. False if memory is out or the run must stop. The caller calls
 * tn__live_tree_release also after a failure. Cost: O(n log n). */
bool tn__live_tree_create(tn__live_tree *tree, const tn__live_tree_input *input);
void tn__live_tree_release(tn__live_tree *tree);
/* Puts all live ranges back into the tree; order[] lists the numbers by rank. Cost: O(n). */
void tn__live_tree_reset(tn__live_tree *tree, const uint32_t *order);
void tn__live_tree_remove(tn__live_tree *tree, uint32_t number);
/* Returns the least rank of a live range in the box if it is below `best`, else `best`. */
uint32_t tn__live_tree_find(const tn__live_tree *tree, tn__live_tree_box box, uint32_t best);

static inline const tn__skyline_life *tn__live_tree_at(const tn__live_tree *tree, uint32_t number) {
    return &tree->ranges[tree->life_of[number]];
}

#endif
