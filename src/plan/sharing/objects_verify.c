/* objects_verify.c - verifies assignments of records to objects; shares no code with the
 * strategies.
 *
 * The records of an object, sorted by time, must not overlap, so comparing neighbours is
 * sufficient.
 *
 * Cost: O(n log n) time, O(n) memory.
 */
#include <tenure/objects.h>

#include "base/base.h"

#include <inttypes.h>

typedef struct objects_life {
    uint32_t object, id;
    int64_t first, last;
} objects_life;

static int objects_life_order(const void *a, const void *b) {
    const objects_life *x = a, *y = b;
    if (x->object != y->object) return x->object < y->object ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Whether an object is large enough for a record. Sizes in bytes: at least as large. Vectors: at
 * least as large in every extent. Shapes: equal. */
static bool objects_holds(const tn_objects *objects, uint32_t object, const uint64_t *size) {
    uint32_t rank = (uint32_t)objects->kind + 1;
    for (uint32_t k = 0; k < rank; k++) {
        uint64_t there = objects->size[object][k];
        if (there < size[k] || (objects->kind == TN_SIZE_BHWC && there != size[k])) return false;
    }
    return true;
}

static tn_status objects_verify_each(const tn_object_record *records, const tn_objects *objects,
                                     tn_error *error) {
    uint64_t total = 0;
    bool known = true;
    for (uint32_t i = 0; i < objects->record_count; i++) {
        uint32_t object = objects->object[i];
        if (object >= objects->object_count)
            TN_FAIL(error, TN_E_CONFLICT, "record %u has object %u, but there are %u", i, object,
                    objects->object_count);
        if (!objects_holds(objects, object, records[i].size))
            TN_FAIL(error, TN_E_CONFLICT, "object %u does not hold record %u", object, i);
    }
    for (uint32_t i = 0; i < objects->object_count; i++) {
        uint64_t bulk = 1;
        for (uint32_t k = 0; k <= (uint32_t)objects->kind; k++)
            known = known && tn__mul(bulk, objects->size[i][k], &bulk);
        known = known && tn__add(total, bulk, &total);
    }
    if (!known || total != objects->total)
        TN_FAIL(error, TN_E_CONFLICT, "the objects are not %" PRIu64 " in sum", objects->total);
    return TN_OK;
}

static bool objects_listed(const tn_edges *edges, uint32_t from, uint32_t to) {
    for (uint32_t i = edges->begin[from]; i < edges->begin[from + 1]; i++)
        if (edges->target[i] == to) return true;
    return false;
}

tn_status tn_objects_verify(const tn_object_record *records, uint32_t count,
                            const tn_edges *reallocation, const tn_objects *objects,
                            tn_error *error) {
    if (objects->record_count != count || (uint32_t)objects->kind > TN_SIZE_BHWC)
        TN_FAIL(error, TN_E_CONFLICT, "the assignment is for %u records, there are %u",
                objects->record_count, count);
    TN_TRY(objects_verify_each(records, objects, error));
    objects_life *lives = calloc((size_t)count + 1, sizeof *lives);
    if (lives == NULL) return tn__no_memory(error, "the verifier of objects");
    for (uint32_t i = 0; i < count; i++)
        lives[i] = (objects_life){objects->object[i], i, records[i].first, records[i].last};
    qsort(lives, count, sizeof *lives, objects_life_order);
    tn_status status = TN_OK;
    for (uint32_t i = 1; i < count && status == TN_OK; i++) {
        const objects_life *before = &lives[i - 1], *life = &lives[i];
        if (before->object != life->object) continue;
        if (before->last > life->first)
            status =
                tn__fail(error, TN_E_CONFLICT, "records %u and %u share object %u at step %" PRId64,
                         before->id, life->id, life->object, life->first);
        else if (reallocation != NULL && !objects_listed(reallocation, before->id, life->id))
            status = tn__fail(error, TN_E_CONFLICT,
                              "record %u follows record %u in object %u, which the reallocation "
                              "graph does not allow",
                              life->id, before->id, life->object);
    }
    free(lives);
    return status;
}
