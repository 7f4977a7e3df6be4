/* range_tree.h - segment trees over an array of numbers: add to a range and find a maximum in
 * O(log), for example the bytes in use at every step.
 *
 * The tree is an array: node 1 is the root, node i has the children 2i and 2i + 1, and leaf k is
 * node width + k. Additions are not pushed down to the leaves: a node keeps the maximum below it
 * and the sum of the additions to all of its leaves, and a query adds up the sums of the ancestors.
 * The caller provides the memory, so nothing here can fail. Sums must fit in 63 bits.
 */
#ifndef TN_BASE_RANGE_TREE_H
#define TN_BASE_RANGE_TREE_H

#include "base/base.h"

/* --- numbers that change --- */

typedef struct tn__range_tree {
    uint32_t width; /* leaves: a power of two */
    int64_t *most;  /* [2 width] the maximum below a node, including its own `added` */
    int64_t *added; /* [2 width] added to all leaves below a node */
} tn__range_tree;

#define TN__RANGE_TREE_NONE UINT32_MAX

/* How many int64_t a tree of so many leaves needs; SIZE_MAX: too many. At most 2^30 leaves. */
size_t tn__range_tree_room(uint32_t leaves);
/* Makes a tree of zeros in `memory` [tn__range_tree_room(leaves)], which the caller keeps. Cost:
 * O(leaves). */
void tn__range_tree_init(tn__range_tree *tree, uint32_t leaves, int64_t *memory);
/* Computes the maximums after the caller has set leaves of a new tree, most[width + k]. Cost:
 * O(leaves). */
void tn__range_tree_sum_up(tn__range_tree *tree);

/* Adds to the leaves [first, last); does nothing if first >= last. */
void tn__range_tree_add(tn__range_tree *tree, uint32_t first, uint32_t last, int64_t value);
/* The maximum of the leaves [first, last); INT64_MIN if the range is empty. */
int64_t tn__range_tree_most(const tn__range_tree *tree, uint32_t first, uint32_t last);
/* The maximum of all leaves. Cost: O(1). */
static inline int64_t tn__range_tree_peak(const tn__range_tree *tree) { return tree->most[1]; }
/* The first leaf that has the maximum. */
uint32_t tn__range_tree_top(const tn__range_tree *tree);
/* The first leaf above `limit`; TN__RANGE_TREE_NONE if no leaf is. */
uint32_t tn__range_tree_above(const tn__range_tree *tree, int64_t limit);
/* Set and read `size` leaves (a power of two) from `first` (a multiple of it). Cost: O(size +
 * log). */
void tn__range_tree_set(tn__range_tree *tree, uint32_t first, uint32_t size, const int64_t *values);
void tn__range_tree_get(const tn__range_tree *tree, uint32_t first, uint32_t size, int64_t *values);

/* --- numbers that stay: a tree of maximums in an array tree[2 * leaves] --- */

/* Computes the inner nodes from the leaves, tree[leaves + k]. tree[1] is the maximum of all leaves.
 * Cost: O(leaves). */
void tn__range_max_init(uint64_t *tree, uint32_t leaves);
/* The maximum of the leaves [first, last); 0 if the range is empty. */
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
