/* slots.c - cuts a range into slots, and searches for room among them. */
#include "memory/pool/slots.h"

bool tn__slots_open(const tn_context *context, tn__slots *slots, tn__sort_item *edges,
                    size_t count) {
    tn_assert(count > 0 && count < UINT32_MAX);
    if (!tn__sort_items(context, edges, count)) return false;
    uint32_t distinct = 1;
    for (size_t i = 1; i < count; i++) distinct += edges[i].key != edges[i - 1].key;
    slots->count = distinct - 1;
    slots->edges = tn__alloc_array(context, distinct, sizeof *slots->edges);
    slots->taken = tn__alloc_array(context, tn__slots_words(slots), sizeof *slots->taken);
    if (slots->edges == NULL || slots->taken == NULL) {
        tn__slots_close(context, slots);
        return false;
    }
    uint32_t at = 0;
    slots->edges[0] = edges[0].key;
    for (size_t i = 1; i < count; i++)
        if (edges[i].key != edges[i - 1].key) slots->edges[++at] = edges[i].key;
    return true;
}

void tn__slots_close(const tn_context *context, tn__slots *slots) {
    size_t distinct = (size_t)slots->count + 1;
    tn__free(context, slots->edges, distinct * sizeof *slots->edges);
    tn__free(context, slots->taken, tn__slots_words(slots) * sizeof *slots->taken);
    *slots = (tn__slots){0};
}

uint32_t tn__slots_at(const tn__slots *slots, uint64_t offset) {
    uint32_t low = 0, high = slots->count; /* edges[low] <= offset */
    if (offset >= slots->edges[high]) return high;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (slots->edges[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool slots_has(const uint64_t *taken, uint32_t slot) {
    return (taken[slot / 64] >> slot % 64 & 1) != 0;
}

bool tn__slots_hole(const tn__slots *slots, const uint64_t *taken, uint32_t *from, uint32_t *to,
                    const tn__want *want, uint64_t *offset) {
    uint64_t best = UINT64_MAX;
    for (uint32_t at = *from, end; at < *to; at = end + 1) {
        for (end = at; end < *to && !slots_has(taken, end);) end++;
        uint64_t begin = slots->edges[at], size = slots->edges[end] - begin;
        uint64_t start = (begin + want->alignment - 1) & ~(want->alignment - 1);
        if (size >= best || start - begin > size || size - (start - begin) < want->size) continue;
        best = size;
        *offset = start;
    }
    if (best == UINT64_MAX) return false;
    *from = tn__slots_at(slots, *offset);
    *to = tn__slots_at(slots, *offset + want->size - 1) + 1;
    return true;
}
