/* script.h - the requests of an iteration in their order, each with its place, and where we are.
 *
 * A request that is not the next one is looked for: is it the one after, the next having been left
 * out? Or were the last three requests, this one included, anywhere three in a row? The nearest
 * ahead counts. Else it is an extra one and nothing moves: what comes next is still expected next.
 * To be wrong here costs a place in the plan and nothing else: the slots know what is free.
 *
 * Cost: O(1) while all is as expected, else O(log n); 64 bytes a request.
 */
#ifndef TN_POOL_SCRIPT_H
#define TN_POOL_SCRIPT_H

#include "pool/lives.h"
#include "pool/slots.h"

typedef struct tn__line {
    uint64_t size, offset;
    uint32_t stream;
    uint32_t from, to; /* slots; none: it is expected, and has no place in the plan */
    uint32_t length;   /* requests that its block lives for */
} tn__line;

typedef struct tn__script {
    tn__line *lines;       /* [count] */
    tn__sort_item *threes; /* [count]: hash of a line and the two before it, ascending */
    uint32_t count, next;
    uint64_t recent[2]; /* keys of the last two requests, the latest first */
    uint64_t rounds;    /* how often the end was passed */
    tn__slots slots;
    uint64_t *soon;                        /* of tn__script_soon */
    uint64_t base, borders[TN__ZONES_MAX]; /* of zones: where the first begins, where each ends */
    uint32_t streams[TN__ZONES_MAX];
    uint32_t zones;
} tn__script;

/* `edges` [edge_count]: where slots are to be cut besides, with room for two for each life behind
 * them. False: no memory. */
bool tn__script_open(const tn_context *context, tn__script *script, const tn__lives *lives,
                     tn__sort_item *edges, size_t edge_count);
void tn__script_close(const tn_context *context, tn__script *script);
/* As tn__script_match, of a request that is not the next one. */
const tn__line *tn__script_search(tn__script *script, uint64_t size, uint32_t stream);
/* The slots that the lines of the next `ahead` requests will ask for, and those that are held: bits
 * as of the slots, good until the next call. Cost: O(ahead + slots). */
const uint64_t *tn__script_soon(tn__script *script, uint32_t ahead);

static inline uint64_t tn__script_key(uint64_t size, uint32_t stream) {
    uint64_t z = (size ^ (uint64_t)stream << 32) * 0x9e3779b97f4a7c15u;
    return z ^ z >> 32;
}

/* The line that the request is; NULL: it is a surprise. */
static inline const tn__line *tn__script_match(tn__script *script, uint64_t size, uint32_t stream) {
    const tn__line *line = &script->lines[script->next];
    if (line->size == size && line->stream == stream) {
        if (++script->next == script->count) {
            script->next = 0;
            script->rounds++;
        }
    } else {
        line = tn__script_search(script, size, stream);
    }
    script->recent[1] = script->recent[0];
    script->recent[0] = tn__script_key(size, stream);
    return line;
}

/* The zone that has the byte; `zones`: none. */
static inline uint32_t tn__script_zone(const tn__script *script, uint64_t offset) {
    uint32_t zone = 0;
    if (offset < script->base) return script->zones;
    while (zone < script->zones && script->borders[zone] <= offset) zone++;
    return zone;
}

#endif
