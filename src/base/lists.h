/* lists.h - a list of ascending numbers for each of several keys: the steps that use a tensor, the
 * jobs that read a value, the buffers that begin at a step.
 *
 * All lists lie one after the other in one array, so they take one allocation and are found in
 * O(1). They cannot be changed after they are made.
 */
#ifndef TN_BASE_LISTS_H
#define TN_BASE_LISTS_H

#include "base/base.h"

typedef struct tn__lists {
    uint32_t *first; /* [keys + 1] the list of key k: items[first[k]] ... items[first[k + 1] - 1] */
    uint32_t *items; /* NULL while the items are counted */
    uint32_t *newest; /* [keys] the last item so far, while the lists are made */
} tn__lists;

/* Makes the lists of `keys` keys in an arena. `fill` calls tn__lists_add for every item, the items
 * of a key in ascending order. It is called twice and must add the same items both times: the
 * first call counts. False: out of memory, or 2^32 items. Cost: O(keys + items). */
bool tn__lists_make(tn__lists *lists, uint32_t keys, tn__arena *arena,
                    void (*fill)(void *self, tn__lists *lists), void *self);

/* Does nothing if the item is the last one of the key already. */
void tn__lists_add(tn__lists *lists, uint32_t key, uint32_t item);

uint32_t tn__lists_count(const tn__lists *lists, uint32_t key);
/* The last item of a key; UINT32_MAX (TN_NONE): its list is empty. */
uint32_t tn__lists_last(const tn__lists *lists, uint32_t key);
/* The position in `items` of the first item of a key above `item`; first[key + 1]: all items are at
 * most `item`. Cost: O(log items). */
uint32_t tn__lists_after(const tn__lists *lists, uint32_t key, uint32_t item);

#endif
