/* live_tree.h - a tree of buffers by the first and last step of their live ranges; it finds the
 * first buffer, in a given order, that is live only within [s, e). Most queries take O(log n). */
#ifndef TN_PLAN_SKYLINE_LIVE_TREE_H
#define TN_PLAN_SKYLINE_LIVE_TREE_H

#include "plan/frame/planner.h"

#define TN__LIVE_TREE_NONE UINT32_MAX

/* the live range of a buffer, with the buffer's rank in the given order */
typedef struct tn__skyline_life {
    /* first and last step; rank in the given order, or TN__LIVE_TREE_NONE if the buffer was
     * removed */
    uint32_t first, last, rank;
} tn__skyline_life;

typedef struct tn__live_tree_node {
    uint32_t best; /* least rank of a buffer in the subtree */
    uint32_t first_min, first_max, last_min, last_max;
} tn__live_tree_node;

/* A k-d tree of live ranges; leaf i holds ranges[begin[i]] to ranges[begin[i + 1] - 1]. Buffers are
 * numbered by their index in `ids`. */
typedef struct tn__live_tree {
    tn_context context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count], the index in `bodies` of the buffer with each number */
    uint32_t count, leaf_count;
    tn__live_tree_node *nodes; /* [2 * leaf_count], the nodes of the tree; node 1 is the root */
    /* [2 * leaf_count], the smallest size of a buffer in the node's subtree; removed buffers
     * count */
    uint64_t *least;
    tn__skyline_life *ranges; /* [count] */
    uint32_t *begin;          /* [leaf_count + 1], the first live range of each leaf */
    /* [count], the number of the buffer that each element of `ranges` belongs to */
    uint32_t *number;
    uint32_t *life_of; /* [count], the index in `ranges` of the buffer with each number */
    uint32_t *leaf_of; /* [count], the leaf that holds the buffer with each number */
} tn__live_tree;

/* The buffers of which a tree is made. All memory that this struct points to must outlive the
 * tree. */
typedef struct tn__live_tree_input {
    const tn_context *context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count] */
    uint32_t count;
    tn_run *run; /* the run that says whether to continue; NULL: always continue */
} tn__live_tree_input;

typedef struct tn__live_tree_box { /* inclusive */
    uint32_t first_min, first_max, last_min, last_max;
    uint64_t room; /* the largest size of a buffer that the query may find; 0: any size */
} tn__live_tree_box;

/* Makes the tree. False if memory is exhausted or the run must stop. The caller calls
 * tn__live_tree_release also after a failure. Cost: O(n log n). */
bool tn__live_tree_create(tn__live_tree *tree, const tn__live_tree_input *input);
void tn__live_tree_release(tn__live_tree *tree);
/* Puts all live ranges back into the tree; order[] lists the buffers' numbers by rank. Cost:
 * O(n). */
void tn__live_tree_reset(tn__live_tree *tree, const uint32_t *order);
void tn__live_tree_remove(tn__live_tree *tree, uint32_t number);
/* Searches the buffers with first and last step in the box, and returns the least rank among them
 * if it is below `best`, else `best`. */
uint32_t tn__live_tree_find(const tn__live_tree *tree, tn__live_tree_box box, uint32_t best);

static inline const tn__skyline_life *tn__live_tree_at(const tn__live_tree *tree, uint32_t number) {
    return &tree->ranges[tree->life_of[number]];
}

#endif
