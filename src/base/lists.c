/* lists.c - makes the lists of lists.h: first counts the items, then stores them. Cost: O(keys +
 * items). */
#include "base/lists.h"

/* `fill` is called twice. After the first call, first[k + 2] is the number of items of key k. After
 * these numbers are summed, first[k + 1] is the begin of the list of key k, which the second call
 * moves to its end. */
bool tn__lists_make(tn__lists *lists, uint32_t keys, tn__arena *arena,
                    void (*fill)(void *self, tn__lists *lists), void *self) {
    uint64_t total = 0;
    *lists = (tn__lists){.first = tn__arena_array(arena, (size_t)keys + 2, sizeof *lists->first),
                         .newest = tn__arena_array(arena, (size_t)keys + 1, sizeof *lists->newest)};
    if (lists->first == NULL || lists->newest == NULL) return false;
    memset(lists->newest, 0xff, keys * sizeof *lists->newest);
    fill(self, lists);
    for (uint32_t k = 0; k < keys; k++) {
        total += lists->first[k + 2];
        if (total >= UINT32_MAX) return false;
        lists->first[k + 2] = (uint32_t)total;
    }
    lists->items = tn__arena_array(arena, (size_t)total + 1, sizeof *lists->items);
    if (lists->items == NULL) return false;
    memset(lists->newest, 0xff, keys * sizeof *lists->newest);
    fill(self, lists);
    return true;
}

uint32_t tn__lists_after(const tn__lists *lists, uint32_t key, uint32_t item) {
    uint32_t low = lists->first[key], high = lists->first[key + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lists->items[middle] > item)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void tn__lists_add(tn__lists *lists, uint32_t key, uint32_t item) {
    if (lists->newest[key] == item) return;
    lists->newest[key] = item;
    if (lists->items == NULL)
        lists->first[key + 2]++;
    else
        lists->items[lists->first[key + 1]++] = item;
}

uint32_t tn__lists_count(const tn__lists *lists, uint32_t key) {
    return lists->first[key + 1] - lists->first[key];
}

uint32_t tn__lists_last(const tn__lists *lists, uint32_t key) {
    return tn__lists_count(lists, key) > 0 ? lists->items[lists->first[key + 1] - 1] : UINT32_MAX;
}
