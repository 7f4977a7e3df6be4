/* share_tree.h - the bytes in use at every step, and what is idle there.
 *
 * Both are trees of halves over the steps. Of the first the largest step is asked again and again,
 * while bytes are added to stretches. In the second, bodies hang in the few nodes that make up the
 * stretch in which they are idle, so that all that are idle at a step hang above it; each node has
 * them in a heap, least key first. Costs: O(log steps) for all but the set-up; O(log steps) nodes a
 * body.
 */
#ifndef TN_BUDGET_SHARE_TREE_H
#define TN_BUDGET_SHARE_TREE_H

#include "base/base.h"

typedef struct tn__share_entry {
    double key;
    uint32_t body;
} tn__share_entry;

typedef struct tn__share_tree {
    uint32_t width;          /* leaves: a power of two */
    int64_t *most;           /* [2 width] below a node, with what is added there */
    int64_t *added;          /* [2 width] to all below a node */
    uint32_t *first, *count; /* [2 width] the heap of a node, in `entries` */
    tn__share_entry *entries;
} tn__share_tree;

/* Room for so many steps. Errors: E_NO_MEMORY. */
bool tn__share_tree_room(tn__share_tree *tree, uint32_t steps, tn__arena *arena);
/* Bytes to the steps [first, last). */
void tn__share_tree_add(tn__share_tree *tree, uint32_t first, uint32_t last, int64_t bytes);
/* The first step with most bytes. */
uint32_t tn__share_tree_top(const tn__share_tree *tree, int64_t *bytes);

/* Calls for the nodes that make up [first, last). */
void tn__share_tree_each(const tn__share_tree *tree, uint32_t first, uint32_t last,
                         void (*node)(void *self, uint32_t at), void *self);
/* After `count` of every node says how much room its heap needs. Counts are 0 then. */
bool tn__share_tree_heaps(tn__share_tree *tree, tn__arena *arena);
void tn__share_tree_push(tn__share_tree *tree, uint32_t node, tn__share_entry entry);
/* Takes the least of all that hang above a step. False: nothing does. */
bool tn__share_tree_pop(tn__share_tree *tree, uint32_t step, uint32_t *node,
                        tn__share_entry *entry);

#endif
