/* range_tree.h - segment trees over an array of numbers. They add to a range of numbers, and find
 * the maximum of a range, in O(log n). An example is the number of bytes in use at every step.
 *
 * The tree is an array: node 1 is the root, node i has the children 2i and 2i + 1, and leaf k is
 * node width + k. Additions are not passed down to the leaves: a node has the maximum of its
 * leaves, and the sum of the additions to all of them; a query adds the sums of the ancestors. The
 * caller provides the memory, so no function here can fail. Sums must fit in 63 bits.
 */
#ifndef TN_BASE_RANGE_TREE_H
#define TN_BASE_RANGE_TREE_H

#include "base/base.h"

/* --- a tree of numbers that change --- */

typedef struct tn__range_tree {
    uint32_t width; /* number of leaves, a power of two */
    /* [2 * width] maximum of the leaves below a node, including the node's `added` but not those of
     * its ancestors */
    int64_t *most;
    int64_t *added; /* [2 * width] sum that was added to all leaves below a node */
} tn__range_tree;

#define TN__RANGE_TREE_NONE UINT32_MAX

/* Returns the number of int64_t that a tree with this many leaves needs; SIZE_MAX if there are more
 * than 2^30 leaves. */
size_t tn__range_tree_room(uint32_t leaves);
/* Makes a tree of zeros in `memory` [tn__range_tree_room(leaves)], which the caller keeps. Cost:
 * O(leaves). */
void tn__range_tree_init(tn__range_tree *tree, uint32_t leaves, int64_t *memory);
/* Computes the maximums of a new tree after the caller has set its leaves, most[width + k]. Cost:
 * O(leaves). */
void tn__range_tree_sum_up(tn__range_tree *tree);

/* Adds `value` to the leaves [first, last). Does nothing if first >= last. */
void tn__range_tree_add(tn__range_tree *tree, uint32_t first, uint32_t last, int64_t value);
/* Returns the maximum of the leaves [first, last); INT64_MIN if the range is empty. */
int64_t tn__range_tree_most(const tn__range_tree *tree, uint32_t first, uint32_t last);
/* Returns the maximum of all leaves. Cost: O(1). */
static inline int64_t tn__range_tree_peak(const tn__range_tree *tree) { return tree->most[1]; }
/* Returns the first leaf that has the maximum of all leaves. */
uint32_t tn__range_tree_top(const tn__range_tree *tree);
/* Returns the first leaf that is above `limit`; TN__RANGE_TREE_NONE if no leaf is. */
uint32_t tn__range_tree_above(const tn__range_tree *tree, int64_t limit);
/* Set and read `size` leaves from `first` on. `size` must be a power of two, and `first` a multiple
 * of it. Cost: O(size + log leaves). */
void tn__range_tree_set(tn__range_tree *tree, uint32_t first, uint32_t size, const int64_t *values);
void tn__range_tree_get(const tn__range_tree *tree, uint32_t first, uint32_t size, int64_t *values);

/* --- a tree of maximums of numbers that do not change, in an array tree[2 * leaves] --- */

/* Computes the inner nodes of a tree of maximums from its leaves, tree[leaves + k]. Then tree[1] is
 * the maximum of all leaves. Cost: O(leaves). */
void tn__range_max_init(uint64_t *tree, uint32_t leaves);
/* Returns the maximum of the leaves [first, last) of a tree of maximums; 0 if the range is
 * empty. */
static inline uint64_t tn__range_max(const uint64_t *tree, uint32_t leaves, uint32_t first,
                                     uint32_t last) {
    uint64_t most = 0;
    for (size_t low = (size_t)first + leaves, high = (size_t)last + leaves; low < high;
         low /= 2, high /= 2) {
        if (low % 2 == 1) {
            most = tree[low] > most ? tree[low] : most;
            low++;
        }
        if (high % 2 == 1) {
            high--;
            most = tree[high] > most ? tree[high] : most;
        }
    }
    return most;
}

#endif
