/* holders.c - lists the holders of memory: now, at the peak, and when an allocation failed.
 *
 * A moment is identified by the number of the last allocation before it. Its holders are the blocks
 * in use that were allocated by then, and such blocks that were freed since, which are kept in a
 * list. A new peak empties its list, so the list is at most as long as the number of blocks that
 * were live at that moment. The cost is O(1) per operation, and nothing is copied while memory
 * grows.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/heap.h"
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

/* --- the largest holders, in a heap with the smallest of them on top --- */

typedef struct holders_list {
    const tn_pool *pool;
    tn_holder *items;
    uint32_t count, room;
} holders_list;

static bool holders_after(const tn_holder *a, const tn_holder *b) {
    if (a->allocated != b->allocated) return a->allocated < b->allocated;
    return a->birth > b->birth;
}
TN__HEAP(holders_heap, tn_holder, holders_after)

static void holders_offer(holders_list *list, const tn__holder_record *record) {
    tn_holder holder = {.label = list->pool->labels[record->tag],
                        .requested = record->requested,
                        .allocated = record->allocated,
                        .birth = record->birth,
                        .stream = record->stream};
    if (list->count < list->room)
        holders_heap_push(list->items, list->count++, holder);
    else if (list->room > 0 && holders_after(&list->items[0], &holder))
        holders_heap_sink(list->items, list->count, 0, holder);
}

/* Sorts the list by heap sort: the last block in order is on top of the heap, so the list is filled
 * from the end. */
static void holders_sort(holders_list *list) {
    for (uint32_t count = list->count; count > 1; count--)
        list->items[count - 1] = holders_heap_pop(list->items, count);
}

static uint32_t holders_collect(const tn_pool *pool, uint64_t stamp, const tn__mark *mark,
                                tn_holder *holders, uint32_t room) {
    holders_list list = {.pool = pool, .items = holders, .room = room};
    uint32_t found = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        const tn__chunk *chunk = &pool->chunks[i];
        if (chunk->state != TN__CHUNK_USED || chunk->birth > stamp) continue;
        holders_offer(&list, &(tn__holder_record){chunk->requested, chunk->size, chunk->birth,
                                                  chunk->tag, chunk->lane});
        found++;
    }
    for (size_t i = 0; mark != NULL && i < mark->left_count; i++, found++)
        holders_offer(&list, &mark->left[i]);
    holders_sort(&list);
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

/* --- reporting an allocation that does not fit --- */

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
                    pool->technique->name, request->size, pool->limit - pool->usage.allocated,
                    pool->limit, tn__pool_largest_free(pool), names);
}
