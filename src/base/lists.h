/* lists.h - for each of several keys a list of ascending numbers: the steps that use a tensor, the
 * jobs that read a value, the buffers that begin at a step.
 *
 * All lists follow each other in one array, so they need only one allocation, and each list is
 * found in O(1). They cannot be changed after they are made.
 */
#ifndef TN_BASE_LISTS_H
#define TN_BASE_LISTS_H

#include "base/base.h"

typedef struct tn__lists {
    uint32_t *first; /* [keys + 1] the list of key k: items[first[k]] ... items[first[k + 1] - 1] */
    uint32_t *items; /* NULL while the items are counted */
    /* [keys] the last item that was added to the list, while the lists are made */
    uint32_t *newest;
} tn__lists;

/* Makes the lists of `keys` keys in an arena. `fill` must call tn__lists_add for every item, with
 * the items of each key in ascending order. It is called twice, first to count the items and then
 * to store them, so both calls must add the same items. Returns false if memory is exhausted, or
 * the items are too many for 32 bits. Cost: O(keys + items). */
bool tn__lists_make(tn__lists *lists, uint32_t keys, tn__arena *arena,
                    void (*fill)(void *self, tn__lists *lists), void *self);

/* Adds an item to the list of a key. Does nothing if it already is the last item of the list. */
void tn__lists_add(tn__lists *lists, uint32_t key, uint32_t item);

uint32_t tn__lists_count(const tn__lists *lists, uint32_t key);
/* Returns the last item of a key; UINT32_MAX (TN_NONE) if its list is empty. */
uint32_t tn__lists_last(const tn__lists *lists, uint32_t key);
/* Returns the index in `items` of the first item of a key that is above `item`; first[key + 1] if
 * no item is. Cost: O(log items). */
uint32_t tn__lists_after(const tn__lists *lists, uint32_t key, uint32_t item);

#endif
