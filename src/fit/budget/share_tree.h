/* share_tree.h - bytes in use at every step, and the values that are idle at a step.
 *
 * Both are segment trees over the steps. The first one finds the step with the most bytes while
 * bytes are added to ranges of steps. In the second one, each idle value is stored in the O(log
 * steps) nodes that cover its idle interval, so that all values idle at a step are on the path
 * above that step. Each node keeps its values in a heap, smallest key first. Cost: O(log steps) for
 * every operation except the set-up.
 */
#ifndef TN_BUDGET_SHARE_TREE_H
#define TN_BUDGET_SHARE_TREE_H

#include "base/range_tree.h"

typedef struct tn__share_entry {
    double key;
    uint32_t body;
} tn__share_entry;

typedef struct tn__share_tree {
    tn__range_tree bytes;    /* at every step */
    uint32_t width;          /* leaves: a power of two */
    uint32_t *first, *count; /* [2 width] the heap of a node, in `entries` */
    tn__share_entry *entries;
} tn__share_tree;

/* Allocates the tree for `steps` steps. False: out of memory. */
bool tn__share_tree_room(tn__share_tree *tree, uint32_t steps, tn__arena *arena);
/* Calls a function for the nodes that cover [first, last). */
void tn__share_tree_each(const tn__share_tree *tree, uint32_t first, uint32_t last,
                         void (*node)(void *self, uint32_t at), void *self);
/* Allocates the heaps; `count` of every node is the room that its heap needs. Counts are 0
 * afterwards. */
bool tn__share_tree_heaps(tn__share_tree *tree, tn__arena *arena);
void tn__share_tree_push(tn__share_tree *tree, uint32_t node, tn__share_entry entry);
/* Removes the smallest entry of all nodes above a step. False: there is no entry. */
bool tn__share_tree_pop(tn__share_tree *tree, uint32_t step, uint32_t *node,
                        tn__share_entry *entry);

#endif
