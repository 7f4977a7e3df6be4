/* objects_parts.c - functions that strategies share: heaps over time, live ranges in objects, ranks
 * of records.
 *
 * The positional maximum m[k] is the largest (k + 1)-th size of the records that are live at one
 * step, over all steps. It is computed without a list per step: m[k] >= s means that at some step
 * at least k + 1 records of size s or more are live at once. So records are added to a tree over
 * time, largest first; whenever the maximum number of records at a step grows, the size of the
 * added record is the next maximum.
 */
#include "plan/sharing/object.h"

#include "base/heap.h"
#include "base/range_tree.h"
#include "plan/problem/problem.h"

/* --- a heap of records, by last step, then by object --- */

bool tn__object_heap_init(tn_object_run *run, tn__object_heap *heap) {
    *heap = (tn__object_heap){.items = tn__object_scratch(run, run->count, sizeof *heap->items)};
    return heap->items != NULL;
}

static bool objects_sooner(const struct object_heap_item *a, const struct object_heap_item *b) {
    return a->last != b->last ? a->last < b->last : a->object < b->object;
}

TN__HEAP(objects_queue, struct object_heap_item, objects_sooner)

void tn__object_heap_push(tn__object_heap *heap, int64_t last, uint32_t object) {
    objects_queue_push(heap->items, heap->count++, (struct object_heap_item){last, object});
}

bool tn__object_heap_pop(tn__object_heap *heap, int64_t now, uint32_t *object) {
    if (heap->count == 0 || heap->items[0].last > now) return false;
    *object = objects_queue_pop(heap->items, heap->count--).object;
    return true;
}

/* --- live ranges in objects: for each object the numbers of its records, ascending --- */

struct tn__object_lives {
    tn_object_run *run;
    struct object_life_list {
        uint32_t *ids;
        uint32_t count, room;
    } * lists; /* [run->count], one list for each object */
};

tn__object_lives *tn__object_lives_create(tn_object_run *run) {
    tn__object_lives *lives = tn__object_scratch(run, 1, sizeof *lives);
    if (lives == NULL) return NULL;
    lives->run = run;
    lives->lists = tn__object_scratch(run, run->count, sizeof *lives->lists);
    return lives->lists != NULL ? lives : NULL;
}

static uint32_t objects_lives_find(const struct object_life_list *list, uint32_t id) {
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t tn__object_lives_distance(const tn__object_lives *lives, uint32_t object, uint32_t id) {
    const struct object_life_list *list = &lives->lists[object];
    const tn_object_record *records = lives->run->records, *mine = &records[id];
    uint32_t at = objects_lives_find(list, id);
    uint64_t distance = UINT64_MAX;
    if (at < list->count) {
        const tn_object_record *after = &records[list->ids[at]];
        if (after->first < mine->last) return UINT64_MAX;
        distance = (uint64_t)after->first - (uint64_t)mine->last;
    }
    if (at > 0) {
        const tn_object_record *before = &records[list->ids[at - 1]];
        if (before->last > mine->first) return UINT64_MAX;
        uint64_t gap = (uint64_t)mine->first - (uint64_t)before->last;
        if (gap < distance) distance = gap;
    }
    return distance;
}

bool tn__object_lives_add(tn__object_lives *lives, uint32_t object, uint32_t id) {
    struct object_life_list *list = &lives->lists[object];
    if (list->count == list->room) {
        uint32_t room = list->room > 0 ? 2 * list->room : 4;
        uint32_t *ids = tn__object_scratch(lives->run, room, sizeof *ids);
        if (ids == NULL) return false;
        if (list->count > 0) memcpy(ids, list->ids, list->count * sizeof *ids);
        /* when a list grows, its old array stays in the arena until the run ends, which at most
         * doubles the memory of the lists */
        list->ids = ids;
        list->room = room;
    }
    uint32_t at = objects_lives_find(list, id);
    memmove(list->ids + at + 1, list->ids + at, (list->count - at) * sizeof *list->ids);
    list->ids[at] = id;
    list->count++;
    return true;
}

/* --- time as slots between event times --- */

typedef struct objects_slots {
    /* [count], each record is live in the slots [first, last) between event times */
    uint32_t *first, *last;
    uint32_t slot_count;
} objects_slots;

static bool objects_slots_init(tn__arena *arena, const tn_object_record *records, uint32_t count,
                               objects_slots *slots) {
    int64_t *times = tn__arena_array(arena, 2 * (size_t)count + 1, sizeof *times);
    slots->first = tn__arena_array(arena, count, sizeof *slots->first);
    slots->last = tn__arena_array(arena, count, sizeof *slots->last);
    if (times == NULL || slots->first == NULL || slots->last == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        times[2 * (size_t)i] = records[i].first;
        times[2 * (size_t)i + 1] = records[i].last;
    }
    qsort(times, 2 * (size_t)count, sizeof *times, tn__time_order);
    uint32_t distinct = 0;
    for (size_t i = 0; i < 2 * (size_t)count; i++)
        if (i == 0 || times[i] != times[i - 1]) times[distinct++] = times[i];
    for (uint32_t i = 0; i < count; i++) {
        slots->first[i] = tn__time_rank(times, distinct, records[i].first);
        slots->last[i] = tn__time_rank(times, distinct, records[i].last);
    }
    slots->slot_count = distinct;
    return true;
}

/* --- positional maximums --- */

typedef struct objects_sized {
    uint64_t bulk;
    uint32_t id;
} objects_sized;

static int objects_larger_first(const void *a, const void *b) {
    const objects_sized *x = a, *y = b;
    if (x->bulk != y->bulk) return x->bulk > y->bulk ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Stores the positional maximums in `maximums` and the positions of records in `position`; either
 * may be NULL. *found: the number of maximums. */
static bool objects_measure(tn__arena *arena, const tn_object_record *records, objects_sized *sized,
                            uint32_t count, uint64_t *maximums, uint32_t *position,
                            uint32_t *found) {
    objects_slots slots;
    tn__range_tree tree; /* number of records that are live at each slot */
    uint32_t most = 0;
    *found = 0;
    if (count == 0) return true;
    if (!objects_slots_init(arena, records, count, &slots)) return false;
    int64_t *memory = tn__arena_array(arena, tn__range_tree_room(slots.slot_count), sizeof *memory);
    if (memory == NULL) return false;
    tn__range_tree_init(&tree, slots.slot_count, memory);
    qsort(sized, count, sizeof *sized, objects_larger_first);
    for (uint32_t i = 0, same = 0; i < count; i++) {
        uint32_t id = sized[i].id;
        tn__range_tree_add(&tree, slots.first[id], slots.last[id], 1);
        most = (uint32_t)tn__range_tree_peak(&tree);
        for (; *found < most; (*found)++)
            if (maximums != NULL) maximums[*found] = sized[i].bulk;
        if (i + 1 < count && sized[i + 1].bulk == sized[i].bulk) continue;
        for (; same <= i; same++)
            if (position != NULL) position[sized[same].id] = most - 1;
    }
    return true;
}

static uint64_t objects_bulk_of(const tn_object_record *record, tn_size_kind kind) {
    uint64_t bulk = 1;
    for (uint32_t k = 0; k < tn__size_rank(kind); k++) bulk = tn__mul_sat(bulk, record->size[k]);
    return bulk;
}

tn_status tn_objects_maximums(const tn_object_record *records, uint32_t count, tn_size_kind kind,
                              const tn_context *context, uint64_t *maximums, uint32_t *found,
                              tn_error *error) {
    if ((uint32_t)kind > TN_SIZE_BHWC) TN_FAIL(error, TN_E_INVALID, "no such kind of size");
    for (uint32_t i = 0; i < count; i++)
        if (records[i].first >= records[i].last)
            TN_FAIL(error, TN_E_INVALID, "record %u has an empty life", i);
    tn_context own = tn__context(context);
    tn__arena arena;
    uint32_t number;
    tn__arena_init(&arena, &own);
    objects_sized *sized = tn__arena_array(&arena, count, sizeof *sized);
    for (uint32_t i = 0; sized != NULL && i < count; i++)
        sized[i] = (objects_sized){objects_bulk_of(&records[i], kind), i};
    bool done =
        sized != NULL && objects_measure(&arena, records, sized, count, maximums, NULL, &number);
    tn__arena_release(&arena);
    if (!done) return tn__no_memory(error, "positional maximums");
    *found = number;
    return TN_OK;
}

void tn_objects_profile(const tn_object_record *records, uint32_t count, tn_size_kind kind,
                        int64_t step, uint32_t *profile, uint32_t *found) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (records[i].first > step || records[i].last <= step) continue;
        uint64_t bulk = objects_bulk_of(&records[i], kind);
        uint32_t at = live++;
        for (; at > 0 && objects_bulk_of(&records[profile[at - 1]], kind) < bulk; at--)
            profile[at] = profile[at - 1];
        profile[at] = i;
    }
    *found = live;
}

tn_status tn__object_positions(tn_object_run *run, uint32_t *position) {
    uint32_t found;
    objects_sized *sized = tn__object_scratch(run, run->count, sizeof *sized);
    if (sized == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < run->count; i++) sized[i] = (objects_sized){run->bulk[i], i};
    return objects_measure(&run->scratch, run->records, sized, run->count, NULL, position, &found)
               ? TN_OK
               : TN_E_NO_MEMORY;
}

/* --- by breadth --- */

typedef struct objects_ranked {
    uint32_t rank; /* rank of the best-ranked slot in the record's live range */
    uint32_t id;
    uint64_t bulk;
} objects_ranked;

static int objects_ranked_order(const void *a, const void *b) {
    const objects_ranked *x = a, *y = b;
    if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
    if (x->bulk != y->bulk) return x->bulk > y->bulk ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Ranks the slots between event times by live bytes: more bytes rank higher, and of equal slots the
 * earlier one. Returns a tree of maximums with the ranks as leaves; NULL if memory is exhausted. */
static uint64_t *objects_rank_slots(tn_object_run *run, const objects_slots *slots) {
    uint32_t n = slots->slot_count;
    objects_sized *breadth = tn__object_scratch(run, n, sizeof *breadth);
    uint64_t *tree = tn__object_scratch(run, 2 * (size_t)n, sizeof *tree);
    if (breadth == NULL || tree == NULL) return NULL;
    for (uint32_t i = 0; i < run->count; i++) {
        breadth[slots->first[i]].bulk += run->bulk[i];
        /* a negative change wraps modulo 2^64, so the sum of changes is right */
        breadth[slots->last[i]].bulk -= run->bulk[i];
    }
    for (uint32_t slot = 0; slot < n; slot++) {
        breadth[slot].id = slot;
        if (slot > 0) breadth[slot].bulk += breadth[slot - 1].bulk;
    }
    qsort(breadth, n, sizeof *breadth, objects_larger_first);
    for (uint32_t rank = 0; rank < n; rank++) tree[n + breadth[rank].id] = n - rank;
    tn__range_max_init(tree, n);
    return tree;
}

tn_status tn__object_by_breadth(tn_object_run *run, uint32_t *order) {
    objects_slots slots;
    objects_ranked *ranked = tn__object_scratch(run, run->count, sizeof *ranked);
    if (ranked == NULL || !objects_slots_init(&run->scratch, run->records, run->count, &slots))
        return TN_E_NO_MEMORY;
    const uint64_t *tree = objects_rank_slots(run, &slots);
    if (tree == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < run->count; i++) {
        uint64_t rank = tn__range_max(tree, slots.slot_count, slots.first[i], slots.last[i]);
        ranked[i] = (objects_ranked){(uint32_t)rank, i, run->bulk[i]};
    }
    qsort(ranked, run->count, sizeof *ranked, objects_ranked_order);
    for (uint32_t i = 0; i < run->count; i++) order[i] = ranked[i].id;
    return TN_OK;
}
