/* reallocation.c - finds which vertex of a graph may take over the memory of which other vertex, in
 * any order of execution that the dependencies allow.
 *
 * Vertex y may follow x if all readers of x come strictly before y in every order: y can be reached
 * from each reader and is not a reader itself. A vertex without readers is an output: no vertex may
 * take over its memory, but it may take over the memory of others. The relation is made symmetric,
 * because either of the two may be the earlier one.
 *
 * Cost: O(V (V + E)) time, V^2 bits.
 * Source: TensorFlow Lite, GPU delegate, reallocation graphs; SOMAS's reuse matrix has the same
 * condition (MindSpore, MLSys 2023).
 */
#include <tenure/objects.h>

#include "base/base.h"

typedef struct reallocation_state {
    const tn_edges *uses;
    uint32_t count;
    size_t words; /* number of words of 64 bits in a row */
    /* [count] rows of bits: the vertices that can be reached from each vertex, without the vertex
     * itself */
    uint64_t *after;
    /* [count] rows of bits, the result: the vertices whose memory each vertex may take over */
    uint64_t *may;
    uint32_t *queue;
} reallocation_state;

static bool reallocation_has(const uint64_t *row, uint32_t v) { return row[v / 64] >> v % 64 & 1; }

static void reallocation_walk(reallocation_state *walk, uint32_t start) {
    uint64_t *row = walk->after + start * walk->words;
    uint32_t head = 0, tail = 0;
    walk->queue[tail++] = start;
    while (head < tail) {
        uint32_t v = walk->queue[head++];
        for (uint32_t i = walk->uses->begin[v]; i < walk->uses->begin[v + 1]; i++) {
            uint32_t to = walk->uses->target[i];
            if (to == start || reallocation_has(row, to)) continue;
            row[to / 64] |= 1ull << to % 64;
            walk->queue[tail++] = to;
        }
    }
}

static void reallocation_mark(reallocation_state *walk, uint32_t x) {
    const tn_edges *uses = walk->uses;
    if (uses->begin[x] == uses->begin[x + 1]) return;
    for (uint32_t y = 0; y < walk->count; y++) {
        /* a vertex that lies on a cycle reaches itself, but it cannot take over its own memory */
        bool all = y != x;
        for (uint32_t i = uses->begin[x]; all && i < uses->begin[x + 1]; i++)
            all = reallocation_has(walk->after + uses->target[i] * walk->words, y);
        if (!all) continue;
        walk->may[x * walk->words + y / 64] |= 1ull << y % 64;
        walk->may[y * walk->words + x / 64] |= 1ull << x % 64;
    }
}

static tn_status reallocation_lists(const reallocation_state *walk, const tn_context *context,
                                    tn_edges *edges, tn_error *error) {
    size_t total = 0, rows = walk->count * walk->words;
    for (size_t i = 0; i < rows; i++) total += (size_t)__builtin_popcountll(walk->may[i]);
    if (total >= UINT32_MAX) TN_FAIL(error, TN_E_INVALID, "the reallocation graph is too large");
    uint32_t *begin = tn__alloc_array(context, (size_t)walk->count + 1, sizeof *begin);
    uint32_t *target = tn__alloc_array(context, total, sizeof *target);
    if (begin == NULL || target == NULL) {
        tn__free(context, begin, ((size_t)walk->count + 1) * sizeof *begin);
        tn__free(context, target, total * sizeof *target);
        return tn__no_memory(error, "a reallocation graph");
    }
    uint32_t at = 0;
    for (uint32_t v = 0; v < walk->count; v++) {
        for (uint32_t to = 0; to < walk->count; to++)
            if (reallocation_has(walk->may + v * walk->words, to)) target[at++] = to;
        begin[v + 1] = at;
    }
    *edges = (tn_edges){.vertex_count = walk->count, .begin = begin, .target = target};
    return TN_OK;
}

tn_status tn_reallocation_graph(const tn_edges *uses, const tn_context *context, tn_edges *graph,
                                tn_error *error) {
    reallocation_state walk = {.uses = uses, .count = uses->vertex_count};
    for (uint32_t v = 0; v < walk.count; v++)
        if (uses->begin[v] > uses->begin[v + 1])
            TN_FAIL(error, TN_E_INVALID, "the lists of the graph overlap at vertex %u", v);
    for (uint32_t i = 0; walk.count > 0 && i < uses->begin[walk.count]; i++)
        if (uses->target[i] >= walk.count)
            TN_FAIL(error, TN_E_INVALID, "the graph leads to vertex %u, which there is not",
                    uses->target[i]);
    tn_context own = tn__context(context);
    walk.words = ((size_t)walk.count + 63) / 64;
    size_t rows = walk.count * walk.words;
    tn__arena arena;
    tn__arena_init(&arena, &own);
    walk.after = tn__arena_array(&arena, rows, sizeof *walk.after);
    walk.may = tn__arena_array(&arena, rows, sizeof *walk.may);
    walk.queue = tn__arena_array(&arena, walk.count, sizeof *walk.queue);
    tn_status status = TN_OK;
    if (walk.after == NULL || walk.may == NULL || walk.queue == NULL)
        status = tn__no_memory(error, "a reallocation graph");
    for (uint32_t v = 0; v < walk.count && status == TN_OK; v++) reallocation_walk(&walk, v);
    for (uint32_t v = 0; v < walk.count && status == TN_OK; v++) reallocation_mark(&walk, v);
    if (status == TN_OK) status = reallocation_lists(&walk, &own, graph, error);
    tn__arena_release(&arena);
    return status;
}

void tn_edges_release(const tn_context *context, tn_edges *edges) {
    if (edges == NULL || edges->begin == NULL) return;
    tn_context own = tn__context(context);
    size_t count = edges->begin[edges->vertex_count];
    tn__free(&own, (void *)(uintptr_t)edges->target, count * sizeof *edges->target);
    tn__free(&own, (void *)(uintptr_t)edges->begin,
             ((size_t)edges->vertex_count + 1) * sizeof *edges->begin);
    *edges = (tn_edges){0};
}
