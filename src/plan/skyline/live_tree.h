/* live_tree.h - bodies by the first and last step of their live ranges; finds "the first in an
 * order among those that live within [s, e)" in O(log n) most of the time. */
#ifndef TN_PLAN_SKYLINE_LIVE_TREE_H
#define TN_PLAN_SKYLINE_LIVE_TREE_H

#include "plan/frame/planner.h"

#define TN__LIVE_TREE_NONE UINT32_MAX

typedef struct tn__skyline_life { /* a body in the order of the leaves */
    uint32_t first, last, rank;   /* rank NONE: removed */
} tn__skyline_life;

typedef struct tn__live_tree_node {
    uint32_t best; /* least rank */
    uint32_t first_min, first_max, last_min, last_max;
} tn__live_tree_node;

/* A k-d tree; leaf i holds the live ranges [begin[i], begin[i + 1]). */
typedef struct tn__live_tree {
    tn_context context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count], numbers to bodies */
    uint32_t count, leaf_count;
    tn__live_tree_node *nodes; /* [2 * leaf_count], 1 is the root */
    uint64_t *least;           /* [2 * leaf_count], the smallest size, removed or not */
    tn__skyline_life *ranges;  /* [count] */
    uint32_t *begin;           /* [leaf_count + 1] */
    uint32_t *number;          /* [count], the body of a live range */
    uint32_t *life_of;         /* [count], the live range of a body */
    uint32_t *leaf_of;         /* [count], the leaf of a number */
} tn__live_tree;

/* The bodies to sort; all of this must outlive the tree. */
typedef struct tn__live_tree_input {
    const tn_context *context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count] */
    uint32_t count;
    tn_run *run; /* asked whether to continue; NULL: always */
} tn__live_tree_input;

typedef struct tn__live_tree_box { /* inclusive */
    uint32_t first_min, first_max, last_min, last_max;
    uint64_t room; /* the largest size allowed; 0: any */
} tn__live_tree_box;

/* False: no memory, or the run is to stop. The caller uses tn__live_tree_release also after a
 * failure. Cost: O(n log n). */
bool tn__live_tree_create(tn__live_tree *tree, const tn__live_tree_input *input);
void tn__live_tree_release(tn__live_tree *tree);
/* Puts all live ranges back; order[] are numbers, first come first. O(n). */
void tn__live_tree_reset(tn__live_tree *tree, const uint32_t *order);
void tn__live_tree_remove(tn__live_tree *tree, uint32_t number);
/* The least rank below `best` in the box, else `best`. */
uint32_t tn__live_tree_find(const tn__live_tree *tree, tn__live_tree_box box, uint32_t best);

static inline const tn__skyline_life *tn__live_tree_at(const tn__live_tree *tree, uint32_t number) {
    return &tree->ranges[tree->life_of[number]];
}

#endif
