/* sort.c - sorts items by keys of 64 bits, in time linear in their number.
 *
 * It is a radix sort that begins with the lowest digit; each pass keeps the order of equal digits.
 * The smallest key is subtracted first, and the number of passes depends on the range that remains.
 * So steps of a trace, or offsets of an arena, need two or three passes. Few items are sorted by
 * insertion. Cost: O(count) for each pass of 11 bits; while it runs, twice the memory of the items.
 */
#include "base/base.h"

#define SORT_FEW 48u
#define SORT_DIGIT_MAX 11u

static void sort_few(tn__sort_item *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        tn__sort_item item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

static void sort_pass(const tn__sort_item *from, tn__sort_item *to, size_t count, uint64_t least,
                      uint32_t shift, uint32_t width) {
    size_t place[(size_t)1 << SORT_DIGIT_MAX] = {0}, sum = 0;
    uint64_t mask = ((uint64_t)1 << width) - 1;
    for (size_t i = 0; i < count; i++) place[(from[i].key - least) >> shift & mask]++;
    for (size_t digit = 0; digit <= mask; digit++) {
        size_t here = place[digit];
        place[digit] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++) to[place[(from[i].key - least) >> shift & mask]++] = from[i];
}

bool tn__sort_items(const tn_context *context, tn__sort_item *items, size_t count) {
    uint64_t least = UINT64_MAX, most = 0;
    bool rises = true;
    for (size_t i = 0; i < count; i++) {
        if (items[i].key < least) least = items[i].key;
        if (items[i].key > most) most = items[i].key;
        rises = rises && (i == 0 || items[i - 1].key <= items[i].key);
    }
    if (rises) return true;
    if (count <= SORT_FEW) {
        sort_few(items, count);
        return true;
    }
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(most - least);
    uint32_t digit = count < 4096 ? 8 : SORT_DIGIT_MAX, passes = (bits + digit - 1) / digit;
    uint32_t width = (bits + passes - 1) / passes;
    tn__sort_item *spare = tn__alloc(context, count * sizeof *spare);
    if (spare == NULL) return false;
    tn__sort_item *from = items, *to = spare;
    for (uint32_t pass = 0; pass < passes; pass++) {
        sort_pass(from, to, count, least, pass * width, width);
        tn__sort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) memcpy(items, from, count * sizeof *items);
    tn__free(context, spare, count * sizeof *spare);
    return true;
}
