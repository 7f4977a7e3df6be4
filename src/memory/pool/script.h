/* script.h - the expected requests of an iteration in order, each with its place, and the current
 * position.
 *
 * If a request is not the expected one, the script is searched. Is it the one after, so that one
 * was left out? Or do the last three requests, including this one, stand in a row anywhere? The
 * nearest match ahead counts. Otherwise it is an additional request and the position stays. A wrong
 * guess costs only a place in the plan: the slots know which bytes are free.
 *
 * Cost: O(1) if the request is expected, else O(log n); 64 bytes per request.
 */
#ifndef TN_POOL_SCRIPT_H
#define TN_POOL_SCRIPT_H

#include "memory/pool/lives.h"
#include "memory/pool/slots.h"

typedef struct tn__line {
    uint64_t size, offset;
    uint32_t stream;
    uint32_t from, to; /* slots; empty: it is expected, but has no place in the plan */
    uint32_t length;   /* number of requests for which its block lives */
} tn__line;

typedef struct tn__script {
    tn__line *lines;       /* [count] */
    tn__sort_item *threes; /* [count] hash of a line and the two before it, ascending */
    uint32_t count, next;
    uint64_t recent[2]; /* keys of the last two requests, the latest first */
    uint64_t rounds;    /* number of completed rounds */
    tn__slots slots;
    uint64_t *soon;                        /* result of tn__script_soon */
    uint64_t base, borders[TN__ZONES_MAX]; /* start of the first zone, end of each zone */
    uint32_t streams[TN__ZONES_MAX];
    uint32_t zones;
} tn__script;

/* `edges` [edge_count]: additional edges for slots, in an array with room for two more per live
 * range. False: no memory. */
bool tn__script_open(const tn_context *context, tn__script *script, const tn__lives *lives,
                     tn__sort_item *edges, size_t edge_count);
void tn__script_close(const tn_context *context, tn__script *script);
/* Like tn__script_match, for a request that is not the expected one. */
const tn__line *tn__script_search(tn__script *script, uint64_t size, uint32_t stream);
/* The slots that the next `ahead` requests will need, and those that are taken, as bits; valid
 * until the next call. Cost: O(ahead + slots). */
const uint64_t *tn__script_soon(tn__script *script, uint32_t ahead);

static inline uint64_t tn__script_key(uint64_t size, uint32_t stream) {
    uint64_t z = (size ^ (uint64_t)stream << 32) * 0x9e3779b97f4a7c15u;
    return z ^ z >> 32;
}

/* The line of a request; NULL: it is a surprise. */
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

/* The zone that contains the byte; `zones`: none. */
static inline uint32_t tn__script_zone(const tn__script *script, uint64_t offset) {
    uint32_t zone = 0;
    if (offset < script->base) return script->zones;
    while (zone < script->zones && script->borders[zone] <= offset) zone++;
    return zone;
}

#endif
