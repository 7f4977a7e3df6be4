/* object_equality.c - lets buffers share an object only if they have equal sizes.
 *
 * Use it if an object can hold only one shape. Records come in order of time. A record takes a free
 * object of its size: with sizes as numbers or shapes, the object freed last (a stack for each
 * size); with sizes as vectors, the one with the lowest number, because TensorFlow Lite scans a
 * list.
 *
 * Cost: O(n log n); with vectors O(n x objects).
 * Source: TensorFlow Lite, GPU delegate, EQUALITY (both variants).
 */
#include "plan/sharing/object.h"

typedef struct equality_sized {
    uint64_t size[TN_SIZE_RANK_MAX];
    uint32_t id;
} equality_sized;

static int equality_order(const void *a, const void *b) {
    const equality_sized *x = a, *y = b;
    for (uint32_t k = 0; k < TN_SIZE_RANK_MAX; k++)
        if (x->size[k] != y->size[k]) return x->size[k] < y->size[k] ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Returns a class number for each record, such that records have equal classes exactly if their
 * sizes are equal. NULL if memory is exhausted. */
static uint32_t *equality_classes(tn_object_run *run) {
    equality_sized *sized = tn__object_scratch(run, run->count, sizeof *sized);
    uint32_t *class = tn__object_scratch(run, run->count, sizeof *class);
    if (sized == NULL || class == NULL) return NULL;
    for (uint32_t i = 0; i < run->count; i++) {
        sized[i].id = i;
        memcpy(sized[i].size, run->records[i].size, tn__size_rank(run->kind) * sizeof(uint64_t));
    }
    qsort(sized, run->count, sizeof *sized, equality_order);
    for (uint32_t i = 0, number = 0; i < run->count; i++) {
        if (i > 0 && memcmp(sized[i].size, sized[i - 1].size, sizeof sized[i].size) != 0) number++;
        class[sized[i].id] = number;
    }
    return class;
}

static tn_status equality_stacks(tn_object_run *run, const uint32_t *class) {
    tn__object_heap in_use;
    /* [class], 1 plus the number of the free object on top of the class's stack; 0: the stack is
     * empty */
    uint32_t *top = tn__object_scratch(run, run->count, sizeof *top);
    uint32_t *below = tn__object_scratch(run, run->count, sizeof *below);
    uint32_t *class_of = tn__object_scratch(run, run->count, sizeof *class_of); /* [object] */
    if (!top || !below || !class_of || !tn__object_heap_init(run, &in_use)) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t object;
        TN_TRY(tn__object_work(run, 1));
        while (tn__object_heap_pop(&in_use, run->records[i].first, &object)) {
            below[object] = top[class_of[object]];
            top[class_of[object]] = object + 1;
        }
        if (top[class[i]] != 0) {
            object = top[class[i]] - 1;
            top[class[i]] = below[object];
            tn__object_join(run, i, object);
        } else {
            object = tn__object_new(run, i);
            class_of[object] = class[i];
        }
        tn__object_heap_push(&in_use, run->records[i].last, object);
    }
    return TN_OK;
}

static tn_status equality_scan(tn_object_run *run, const uint32_t *class) {
    int64_t *free_at = tn__object_scratch(run, run->count, sizeof *free_at); /* [object] */
    uint32_t *class_of = tn__object_scratch(run, run->count, sizeof *class_of);
    if (free_at == NULL || class_of == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t object = 0;
        TN_TRY(tn__object_work(run, 1 + run->object_count / 1024));
        while (object < run->object_count &&
               (free_at[object] > run->records[i].first || class_of[object] != class[i]))
            object++;
        if (object < run->object_count)
            tn__object_join(run, i, object);
        else
            class_of[tn__object_new(run, i)] = class[i];
        free_at[object] = run->records[i].last;
    }
    return TN_OK;
}

static tn_status equality_solve(tn_object_run *run) {
    const uint32_t *class = equality_classes(run);
    if (class == NULL) return TN_E_NO_MEMORY;
    bool stacks = run->kind == TN_SIZE_BYTES || run->kind == TN_SIZE_BHWC;
    return stacks ? equality_stacks(run, class) : equality_scan(run, class);
}

const tn_object_strategy tn__object_equality = {
    .name = "equality",
    .summary = "only buffers of equal size share an object",
    .source = "TensorFlow Lite GPU delegate",
    .features = TN_OBJECTS_ALL_KINDS,
    .solve = equality_solve,
};
