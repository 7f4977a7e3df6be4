/* holders.c - lists the holders of memory: now, at the peak, and when an allocation failed.
 *
 * A moment is identified by the number of the last allocation before it. Its holders are the blocks
 * in use that were allocated by then, and such blocks that were freed since, which are kept in a
 * list. A new peak empties its list, so the list is at most as long as the number of blocks that
 * were live at its moment. The cost is O(1) per operation, without a copy while memory grows.
 */
#include <inttypes.h>
#include <stdio.h>

#include "memory/pool/technique.h"

bool tn__holders_grow(tn_pool *pool) {
    size_t need = (size_t)pool->usage.block_count + 1;
    tn__mark *marks[] = {&pool->peak, &pool->failed};
    for (size_t i = 0; i < 2; i++)
        if (!tn__reserve(&pool->context, &marks[i]->left, &marks[i]->left_room, need,
                         sizeof *marks[i]->left))
            return false;
    return true;
}

void tn__holders_mark(tn_pool *pool, tn__mark *mark) {
    mark->stamp = pool->usage.alloc_count;
    mark->left_count = 0;
}

static void holders_leave(tn__mark *mark, const tn__chunk *chunk) {
    if (chunk->birth > mark->stamp) return;
    tn_assert(mark->left_count < mark->left_room);
    mark->left[mark->left_count++] =
        (tn__holder_record){chunk->requested, chunk->size, chunk->birth, chunk->tag, chunk->lane};
}

void tn__holders_leave(tn_pool *pool, const tn__chunk *chunk) {
    holders_leave(&pool->peak, chunk);
    holders_leave(&pool->failed, chunk);
}

void tn__holders_release(tn_pool *pool) {
    tn__mark *marks[] = {&pool->peak, &pool->failed};
    for (size_t i = 0; i < 2; i++)
        tn__free(&pool->context, marks[i]->left, marks[i]->left_room * sizeof *marks[i]->left);
}

/* --- the largest few: a heap with the least of them on top --- */

typedef struct holders_heap {
    const tn_pool *pool;
    tn_holder *items;
    uint32_t count, room;
} holders_heap;

static bool holders_before(const tn_holder *a, const tn_holder *b) {
    if (a->allocated != b->allocated) return a->allocated > b->allocated;
    return a->birth < b->birth;
}

static void holders_sink(holders_heap *heap, uint32_t at, uint32_t count) {
    tn_holder moved = heap->items[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && holders_before(&heap->items[child], &heap->items[child + 1]))
            child++;
        if (!holders_before(&moved, &heap->items[child])) break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = moved;
}

static void holders_offer(holders_heap *heap, const tn__holder_record *record) {
    tn_holder holder = {.label = heap->pool->labels[record->tag],
                        .requested = record->requested,
                        .allocated = record->allocated,
                        .birth = record->birth,
                        .stream = record->stream};
    if (heap->count < heap->room) {
        uint32_t at = heap->count++;
        for (; at > 0 && holders_before(&heap->items[(at - 1) / 2], &holder); at = (at - 1) / 2)
            heap->items[at] = heap->items[(at - 1) / 2];
        heap->items[at] = holder;
    } else if (heap->room > 0 && holders_before(&holder, &heap->items[0])) {
        heap->items[0] = holder;
        holders_sink(heap, 0, heap->count);
    }
}

/* Sorts the heap: the last block in order is on top, so blocks are taken off from the end. */
static void holders_sort(holders_heap *heap) {
    for (uint32_t count = heap->count; count > 1; count--) {
        tn_holder last = heap->items[0];
        heap->items[0] = heap->items[count - 1];
        heap->items[count - 1] = last;
        holders_sink(heap, 0, count - 1);
    }
}

static uint32_t holders_collect(const tn_pool *pool, uint64_t stamp, const tn__mark *mark,
                                tn_holder *holders, uint32_t room) {
    holders_heap heap = {.pool = pool, .items = holders, .room = room};
    uint32_t found = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        const tn__chunk *chunk = &pool->chunks[i];
        if (chunk->state != TN__CHUNK_USED || chunk->birth > stamp) continue;
        holders_offer(&heap, &(tn__holder_record){chunk->requested, chunk->size, chunk->birth,
                                                  chunk->tag, chunk->lane});
        found++;
    }
    for (size_t i = 0; mark != NULL && i < mark->left_count; i++, found++)
        holders_offer(&heap, &mark->left[i]);
    holders_sort(&heap);
    return found;
}

uint32_t tn_pool_holders(tn_pool *pool, tn_holders_when when, tn_holder *holders, uint32_t room) {
    pthread_mutex_lock(&pool->lock);
    const tn__mark *mark = when == TN_HOLDERS_PEAK     ? &pool->peak
                           : when == TN_HOLDERS_FAILED ? &pool->failed
                                                       : NULL;
    uint64_t stamp = mark == NULL ? pool->usage.alloc_count : mark->stamp;
    uint32_t found = holders_collect(pool, stamp, mark, holders, room);
    pthread_mutex_unlock(&pool->lock);
    return found;
}

/* --- report of an allocation that does not fit --- */

tn_status tn__holders_exhausted(tn_pool *pool, const tn_pool_request *request, tn_error *error) {
    enum { NAMED = 3 };
    tn_holder holders[NAMED];
    char names[240] = "";
    size_t used = 0;
    if (error == NULL) return TN_E_EXHAUSTED;
    uint32_t found = holders_collect(pool, UINT64_MAX, NULL, holders, NAMED);
    for (uint32_t i = 0; i < found && i < NAMED; i++) {
        const tn_pool_label *label = &holders[i].label;
        int wrote = snprintf(names + used, sizeof names - used, "%s '%.40s'%s%.16s %" PRIu64,
                             i == 0 ? "; most is held by" : ",",
                             label->name[0] != '\0' ? label->name : "(no name)",
                             label->kind[0] != '\0' ? " " : "", label->kind, holders[i].allocated);
        if (wrote < 0 || (size_t)wrote >= sizeof names - used) break;
        used += (size_t)wrote;
    }
    return tn__fail(error, TN_E_EXHAUSTED,
                    "pool %s: %" PRIu64 " bytes do not fit; %" PRIu64 " of %" PRIu64
                    " are free, %" PRIu64 " in one piece%s",
                    pool->technique->name, request->size, pool->capacity - pool->usage.allocated,
                    pool->capacity, tn__pool_largest_free(pool), names);
}
