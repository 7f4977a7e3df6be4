/* script.c - makes the script of a plan, and finds the position in it after a surprise. */
#include "memory/pool/script.h"

#include "base/sorted.h"

static uint64_t script_three(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t z = (a ^ a >> 31) * 0xbf58476d1ce4e5b9u + b;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u + c;
    return z ^ z >> 27;
}

static uint64_t script_key_at(const tn__script *script, uint32_t i) {
    return tn__script_key(script->lines[i].size, script->lines[i].stream);
}

static bool script_fill(const tn_context *context, tn__script *script, const tn__lives *lives) {
    uint32_t count = script->count;
    for (uint32_t i = 0; i < count; i++) {
        const tn__pool_life *life = &lives->items[i];
        tn__line *line = &script->lines[i];
        *line = (tn__line){.size = life->size, .offset = life->offset, .stream = life->stream};
        if (life->length == 0) continue;
        line->length = life->length;
        line->from = tn__slots_at(&script->slots, life->offset);
        line->to = tn__slots_at(&script->slots, life->offset + life->size);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key =
            script_three(script_key_at(script, (i + count - 2) % count),
                         script_key_at(script, (i + count - 1) % count), script_key_at(script, i));
        script->threes[i] = (tn__sort_item){.key = key, .id = i};
    }
    return tn__sort_items(context, script->threes, count);
}

bool tn__script_open(const tn_context *context, tn__script *script, const tn__lives *lives,
                     tn__sort_item *edges, size_t edge_count) {
    *script = (tn__script){.zones = lives->zones, .base = lives->base};
    memcpy(script->borders, lives->borders, sizeof script->borders);
    memcpy(script->streams, lives->streams, sizeof script->streams);
    for (uint32_t i = 0; i < lives->count; i++) {
        const tn__pool_life *life = &lives->items[i];
        if (life->length == 0) continue;
        edges[edge_count++].key = life->offset;
        edges[edge_count++].key = life->offset + life->size;
    }
    if (!tn__slots_open(context, &script->slots, edges, edge_count)) {
        *script = (tn__script){0}; /* zones > 0 means that there is a plan */
        return false;
    }
    script->count = lives->count;
    script->lines = tn__alloc_array(context, script->count, sizeof *script->lines);
    script->threes = tn__alloc_array(context, script->count, sizeof *script->threes);
    script->soon = tn__alloc_array(context, tn__slots_words(&script->slots), sizeof *script->soon);
    bool done = script->lines != NULL && script->threes != NULL && script->soon != NULL &&
                script_fill(context, script, lives);
    if (!done) tn__script_close(context, script);
    return done;
}

void tn__script_close(const tn_context *context, tn__script *script) {
    tn__free(context, script->lines, script->count * sizeof *script->lines);
    tn__free(context, script->threes, script->count * sizeof *script->threes);
    tn__free(context, script->soon, tn__slots_words(&script->slots) * sizeof *script->soon);
    tn__slots_close(context, &script->slots);
    *script = (tn__script){0};
}

static bool script_is(const tn__line *line, uint64_t size, uint32_t stream) {
    return line->size == size && line->stream == stream;
}

/* The next line ahead that ends these three requests; `count`: none. */
static uint32_t script_find(const tn__script *script, uint64_t three) {
    uint32_t low = (uint32_t)tn__sorted_find(script->threes, script->count, three), first;
    for (first = low; low < script->count && script->threes[low].key == three; low++)
        if (script->threes[low].id >= script->next) return script->threes[low].id;
    bool any = first < script->count && script->threes[first].key == three;
    return any ? script->threes[first].id : script->count;
}

const tn__line *tn__script_search(tn__script *script, uint64_t size, uint32_t stream) {
    uint32_t at = script->next + 1 < script->count ? script->next + 1 : 0;
    if (!script_is(&script->lines[at], size, stream))
        at = script_find(script, script_three(script->recent[1], script->recent[0],
                                              tn__script_key(size, stream)));
    if (at == script->count || !script_is(&script->lines[at], size, stream)) return NULL;
    if (at < script->next || at + 1 == script->count) script->rounds++;
    script->next = at + 1 < script->count ? at + 1 : 0;
    return &script->lines[at];
}

const uint64_t *tn__script_soon(tn__script *script, uint32_t ahead) {
    tn__slots slots = script->slots;
    memcpy(script->soon, slots.taken, tn__slots_words(&slots) * sizeof *script->soon);
    slots.taken = script->soon;
    if (ahead > script->count) ahead = script->count;
    for (uint32_t i = 0; i < ahead; i++) {
        const tn__line *line = &script->lines[(script->next + i) % script->count];
        if (line->from != line->to) tn__slots_take(&slots, line->from, line->to);
    }
    return script->soon;
}
