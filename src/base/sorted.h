/* sorted.h - binary search in items that tn__sort_items has sorted. */
#ifndef TN_BASE_SORTED_H
#define TN_BASE_SORTED_H

#include "base/base.h"

/* Returns the index of the first item with a key of at least `key`; `count` if there is no such
 * item. Cost: O(log count). */
static inline size_t tn__sorted_find(const tn__sort_item *items, size_t count, uint64_t key) {
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (items[middle].key < key)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Returns the number of the interval that contains `at`: the index of the last of the ascending
 * edges that is not above it, or 0. Cost: O(log count). */
static inline size_t tn__sorted_interval(const uint64_t *edges, size_t count, uint64_t at) {
    size_t low = 0;
    while (count - low > 1) {
        size_t middle = low + (count - low) / 2;
        if (edges[middle] <= at)
            low = middle;
        else
            count = middle;
    }
    return low;
}

#endif
