/* object_greedy_in_order.c - gives each buffer, in order of time, the free object nearest to its
 * size.
 *
 * Sizes as numbers: a buffer takes the smallest sufficient free object, unless the largest object
 * that is too small is strictly nearer; that object then grows. Free objects are kept sorted by
 * (size, number). With a reallocation graph the whole pool is scanned, and an object counts only if
 * the buffer may follow the last buffer in it. Sizes as vectors: objects never grow, so an object
 * must cover the buffer in every extent; the least difference in elements wins, and among equal
 * ones the object freed first. The strategy is fast but does not look ahead: large buffers that
 * come late make objects grow.
 *
 * Cost: O(n log n + n x free objects moved); O(n x free objects) with a graph or vectors.
 * Source: TensorFlow Lite, GPU delegate, GREEDY_IN_ORDER (its three variants).
 */
#include "plan/sharing/object.h"

typedef struct in_order_free {
    uint64_t bulk;
    uint32_t object;
} in_order_free;

typedef struct in_order {
    tn_object_run *run;
    /* free objects; with sizes as numbers sorted by (bulk, object), with vectors in the order of
     * freeing */
    in_order_free *pool;
    uint32_t count;
    uint32_t *last_record; /* [object] */
    tn__object_heap in_use;
} in_order;

/* Returns how many free objects of the pool, which are sorted by size and then by number, come
 * before the size `bulk` and the number `object`. */
static uint32_t in_order_find(const in_order *state, uint64_t bulk, uint32_t object) {
    uint32_t low = 0, high = state->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const in_order_free *there = &state->pool[middle];
        if (there->bulk < bulk || (there->bulk == bulk && there->object < object))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void in_order_release(in_order *state, uint32_t object) {
    uint64_t bulk = state->run->object_bulk[object];
    bool sorted = state->run->kind == TN_SIZE_BYTES;
    uint32_t at = sorted ? in_order_find(state, bulk, object) : state->count;
    memmove(state->pool + at + 1, state->pool + at, (state->count - at) * sizeof *state->pool);
    state->pool[at] = (in_order_free){bulk, object};
    state->count++;
}

static uint32_t in_order_take(in_order *state, uint32_t at) {
    uint32_t object = state->pool[at].object;
    state->count--;
    memmove(state->pool + at, state->pool + at + 1, (state->count - at) * sizeof *state->pool);
    return object;
}

/* Finds the free object whose size is nearest to that of record `id`. Returns an index into the
 * pool; UINT32_MAX: no free object is possible. */
static uint32_t in_order_nearest(const in_order *state, uint32_t id) {
    uint64_t size = state->run->bulk[id];
    if (state->count == 0) return UINT32_MAX;
    uint32_t at = in_order_find(state, size, 0);
    if (at == state->count) return at - 1;
    if (at > 0 && size - state->pool[at - 1].bulk < state->pool[at].bulk - size) return at - 1;
    return at;
}

static bool in_order_covers(const tn_object_run *run, uint32_t object, uint32_t id) {
    /* an object that is too small may be taken, because it grows if sizes are in bytes */
    if (run->kind == TN_SIZE_BYTES) return true;
    for (uint32_t k = 0; k < tn__size_rank(run->kind); k++)
        if (run->size[object][k] < run->records[id].size[k]) return false;
    return true;
}

static uint32_t in_order_scan(const in_order *state, uint32_t id) {
    const tn_object_run *run = state->run;
    uint64_t size = run->bulk[id], least = UINT64_MAX;
    uint32_t best = UINT32_MAX;
    for (uint32_t at = 0; at < state->count; at++) {
        uint64_t there = state->pool[at].bulk;
        uint64_t difference = there > size ? there - size : size - there;
        uint32_t object = state->pool[at].object;
        if (difference >= least || !in_order_covers(run, object, id) ||
            !tn__object_may_follow(run, state->last_record[object], id))
            continue;
        least = difference;
        best = at;
    }
    return best;
}

static tn_status in_order_solve(tn_object_run *run) {
    in_order state = {.run = run};
    bool scans = run->kind != TN_SIZE_BYTES || run->reallocation != NULL;
    state.pool = tn__object_scratch(run, run->count, sizeof *state.pool);
    state.last_record = tn__object_scratch(run, run->count, sizeof *state.last_record);
    if (!state.pool || !state.last_record || !tn__object_heap_init(run, &state.in_use))
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t object;
        while (tn__object_heap_pop(&state.in_use, run->records[i].first, &object)) {
            in_order_release(&state, object);
            TN_TRY(tn__object_work(run, state.count / 1024));
        }
        TN_TRY(tn__object_work(run, 1 + state.count / 1024));
        uint32_t at = scans ? in_order_scan(&state, i) : in_order_nearest(&state, i);
        if (at == UINT32_MAX) {
            object = tn__object_new(run, i);
        } else {
            object = in_order_take(&state, at);
            tn__object_join(run, i, object);
        }
        state.last_record[object] = i;
        tn__object_heap_push(&state.in_use, run->records[i].last, object);
    }
    return TN_OK;
}

const tn_object_strategy tn__object_greedy_in_order = {
    .name = "greedy-in-order",
    .summary = "in order of time, each in the free object nearest in size",
    .source = "TensorFlow Lite GPU delegate",
    .features = TN_OBJECTS_BYTES | TN_OBJECTS_VECTORS | TN_OBJECTS_REALLOCATION,
    .solve = in_order_solve,
};
