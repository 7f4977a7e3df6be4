/* recorded.c - cuts the range of a plan into slots, searches for free slots, and finds the position
 * in a recorded iteration after an unexpected request (recorded.h). */
#include "memory/pool/recorded.h"

#include "base/sorted.h"

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
    uint32_t low = 0, high = slots->count; /* bisection; edges[low] <= offset holds throughout */
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

/* --- matching requests with the recorded iteration --- */

static uint64_t recorded_three(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t z = (a ^ a >> 31) * 0xbf58476d1ce4e5b9u + b;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u + c;
    return z ^ z >> 27;
}

static uint64_t recorded_key_at(const tn__recorded *recorded, uint32_t i) {
    return tn__recorded_key(recorded->lines[i].size, recorded->lines[i].stream);
}

static bool recorded_fill(const tn_context *context, tn__recorded *recorded,
                          const tn__live_ranges *lives) {
    uint32_t count = recorded->count;
    for (uint32_t i = 0; i < count; i++) {
        const tn__pool_life *life = &lives->items[i];
        tn__expected *line = &recorded->lines[i];
        *line = (tn__expected){.size = life->size, .offset = life->offset, .stream = life->stream};
        if (life->length == 0) continue;
        line->length = life->length;
        line->from = tn__slots_at(&recorded->slots, life->offset);
        line->to = tn__slots_at(&recorded->slots, life->offset + life->size);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key = recorded_three(recorded_key_at(recorded, (i + count - 2) % count),
                                      recorded_key_at(recorded, (i + count - 1) % count),
                                      recorded_key_at(recorded, i));
        recorded->threes[i] = (tn__sort_item){.key = key, .id = i};
    }
    return tn__sort_items(context, recorded->threes, count);
}

bool tn__recorded_open(const tn_context *context, tn__recorded *recorded,
                       const tn__live_ranges *lives, tn__sort_item *edges, size_t edge_count) {
    *recorded = (tn__recorded){.zones = lives->zones, .base = lives->base};
    memcpy(recorded->borders, lives->borders, sizeof recorded->borders);
    memcpy(recorded->streams, lives->streams, sizeof recorded->streams);
    for (uint32_t i = 0; i < lives->count; i++) {
        const tn__pool_life *life = &lives->items[i];
        if (life->length == 0) continue;
        edges[edge_count++].key = life->offset;
        edges[edge_count++].key = life->offset + life->size;
    }
    if (!tn__slots_open(context, &recorded->slots, edges, edge_count)) {
        *recorded = (tn__recorded){0}; /* marks that no plan exists: zones = 0 */
        return false;
    }
    recorded->count = lives->count;
    recorded->lines = tn__alloc_array(context, recorded->count, sizeof *recorded->lines);
    recorded->threes = tn__alloc_array(context, recorded->count, sizeof *recorded->threes);
    recorded->soon =
        tn__alloc_array(context, tn__slots_words(&recorded->slots), sizeof *recorded->soon);
    bool done = recorded->lines != NULL && recorded->threes != NULL && recorded->soon != NULL &&
                recorded_fill(context, recorded, lives);
    if (!done) tn__recorded_close(context, recorded);
    return done;
}

void tn__recorded_close(const tn_context *context, tn__recorded *recorded) {
    tn__free(context, recorded->lines, recorded->count * sizeof *recorded->lines);
    tn__free(context, recorded->threes, recorded->count * sizeof *recorded->threes);
    tn__free(context, recorded->soon, tn__slots_words(&recorded->slots) * sizeof *recorded->soon);
    tn__slots_close(context, &recorded->slots);
    *recorded = (tn__recorded){0};
}

static bool recorded_is(const tn__expected *line, uint64_t size, uint32_t stream) {
    return line->size == size && line->stream == stream;
}

/* Finds the line of the recorded iteration at which these three requests end: the first such line
 * at or after the current position, else the first one of the iteration. Returns `count` if no such
 * line exists. */
static uint32_t recorded_find(const tn__recorded *recorded, uint64_t three) {
    uint32_t low = (uint32_t)tn__sorted_find(recorded->threes, recorded->count, three), first;
    for (first = low; low < recorded->count && recorded->threes[low].key == three; low++)
        if (recorded->threes[low].id >= recorded->next) return recorded->threes[low].id;
    bool any = first < recorded->count && recorded->threes[first].key == three;
    return any ? recorded->threes[first].id : recorded->count;
}

const tn__expected *tn__recorded_search(tn__recorded *recorded, uint64_t size, uint32_t stream) {
    uint32_t at = recorded->next + 1 < recorded->count ? recorded->next + 1 : 0;
    if (!recorded_is(&recorded->lines[at], size, stream))
        at = recorded_find(recorded, recorded_three(recorded->recent[1], recorded->recent[0],
                                                    tn__recorded_key(size, stream)));
    if (at == recorded->count || !recorded_is(&recorded->lines[at], size, stream)) return NULL;
    if (at < recorded->next || at + 1 == recorded->count) recorded->rounds++;
    recorded->next = at + 1 < recorded->count ? at + 1 : 0;
    return &recorded->lines[at];
}

const uint64_t *tn__recorded_soon(tn__recorded *recorded, uint32_t ahead) {
    tn__slots slots = recorded->slots;
    memcpy(recorded->soon, slots.taken, tn__slots_words(&slots) * sizeof *recorded->soon);
    slots.taken = recorded->soon;
    if (ahead > recorded->count) ahead = recorded->count;
    for (uint32_t i = 0; i < ahead; i++) {
        const tn__expected *line = &recorded->lines[(recorded->next + i) % recorded->count];
        if (line->from != line->to) tn__slots_take(&slots, line->from, line->to);
    }
    return recorded->soon;
}
