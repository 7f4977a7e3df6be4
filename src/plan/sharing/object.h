/* object.h - the interface of a strategy for shared objects, and the functions that strategies use.
 *
 * A strategy is one file objects/object_NAME.c that fills in one tn_object_strategy, plus one line
 * in objects.def. It gives every record an object. All other work (refusal, order, limits, bounds
 * and verification) is done by shared_objects.c and is the same for all strategies.
 */
#ifndef TN_PLAN_SHARING_OBJECT_H
#define TN_PLAN_SHARING_OBJECT_H

#include <tenure/objects.h>

#include "base/base.h"

enum { /* the kinds of sizes that a strategy supports, and whether it honours reallocation graphs */
       TN_OBJECTS_BYTES = 1u << TN_SIZE_BYTES,
       TN_OBJECTS_VECTORS = 1u << TN_SIZE_VECTOR2 | 1u << TN_SIZE_VECTOR3,
       TN_OBJECTS_SHAPES = 1u << TN_SIZE_BHWC,
       TN_OBJECTS_ALL_KINDS = TN_OBJECTS_BYTES | TN_OBJECTS_VECTORS | TN_OBJECTS_SHAPES,
       TN_OBJECTS_REALLOCATION = 1u << 8,
};

typedef struct tn_object_run tn_object_run;

typedef struct tn_object_strategy {
    const char *name;    /* the name that users type, matching [a-z0-9-]+ */
    const char *summary; /* one line for --help, without a full stop */
    const char *source;  /* paper, book or other program from which the idea comes */
    uint32_t features;   /* TN_OBJECTS_*: the abilities of the strategy */
    tn_status (*solve)(tn_object_run *run);
} tn_object_strategy;

/* A call in progress. Records are sorted by first step; ties are in the caller's order. */
struct tn_object_run {
    const tn_object_record *records; /* [count] */
    const uint32_t *original;        /* [count], the number of each record in the caller's order */
    /* [count], size of each record as one number: bytes, or elements of a vector or shape */
    const uint64_t *bulk;
    uint32_t count;
    tn_size_kind kind;
    /* which record may follow which, in the caller's numbers; NULL: any record */
    const tn_edges *reallocation;
    /* [count], the result: the number of each record's object; UINT32_MAX: no object yet */
    uint32_t *object;
    /* [count], size of each object; the first object_count are in use */
    uint64_t (*size)[TN_SIZE_RANK_MAX];
    uint64_t *object_bulk; /* [count], size of each object as one number: bytes, or elements */
    uint32_t object_count;
    /* the following fields are used only by shared_objects.c and the functions below */
    const tn_object_strategy *strategy;
    const tn_context *context;
    uint64_t work, work_limit; /* units of work done, and their limit; work_limit 0: no limit */
    double deadline_s;         /* value of tn__clock_s at which time is up; 0: no limit */
    tn__arena scratch;
    tn_error *error;
};

uint32_t tn__size_rank(tn_size_kind kind);

/* Gives record `id` a new object of the record's size; returns the object's number. */
uint32_t tn__object_new(tn_object_run *run, uint32_t id);
/* Adds the record to an object, which grows to hold it if sizes are bytes. */
void tn__object_join(tn_object_run *run, uint32_t id, uint32_t object);
/* Whether the reallocation graph allows record `next` to use the object after record `before`; true
 * if there is no graph. */
bool tn__object_may_follow(const tn_object_run *run, uint32_t before, uint32_t next);

/* Counts units of work; returns E_STOPPED if a limit (work, time, cancel) is reached. A unit is
 * about a thousand steps of an inner loop. */
tn_status tn__object_work(tn_object_run *run, uint64_t units);
/* Allocates zeroed memory that is released at the end of the run; NULL if memory is exhausted. */
void *tn__object_scratch(tn_object_run *run, size_t count, size_t item);

/* Runs another strategy in a run of its own, and takes over its result if it is the first or has a
 * lower total. `work_limit` 0 means all the work that is left. E_STOPPED of the other run is
 * returned only if `needed`. */
tn_status tn__object_try(tn_object_run *run, const tn_object_strategy *strategy,
                         uint64_t work_limit, bool needed);

/* Computes rank[i] of each record: one less than the largest number of records that are live at one
 * step and at least as large as record i. Sizes must be in bytes. Cost: O(n log n). */
tn_status tn__object_positions(tn_object_run *run, uint32_t *rank);
/* Orders records by breadth: first those that are live at the step with the most live bytes, then
 * those at the next one, and so on; records of one step by size, largest first, then by number.
 * Cost: O(n log n). */
tn_status tn__object_by_breadth(tn_object_run *run, uint32_t *order);

/* A heap of records that hold objects, sorted by the end of their live ranges (`last`), then by
 * object. */
typedef struct tn__object_heap {
    struct object_heap_item {
        int64_t last;
        uint32_t object;
    } * items;
    uint32_t count;
} tn__object_heap;
bool tn__object_heap_init(tn_object_run *run, tn__object_heap *heap);
void tn__object_heap_push(tn__object_heap *heap, int64_t last, uint32_t object);
/* Removes a record whose live range ended at or before `now` from the heap and stores its object in
 * *object; returns false if no record has ended. */
bool tn__object_heap_pop(tn__object_heap *heap, int64_t now, uint32_t *object);

/* The live ranges of the records in each object, in order of time; for strategies that do not visit
 * records in order of time. */
typedef struct tn__object_lives tn__object_lives;
/* Makes empty lists for all objects; returns NULL if memory is exhausted. */
tn__object_lives *tn__object_lives_create(tn_object_run *run);
/* The steps between the record's live range and the nearest one in the object; UINT64_MAX if they
 * overlap. */
uint64_t tn__object_lives_distance(const tn__object_lives *lives, uint32_t object, uint32_t id);
/* Adds the record's live range to the object; false if memory is exhausted. */
bool tn__object_lives_add(tn__object_lives *lives, uint32_t object, uint32_t id);

/* The registry of strategies. */
const tn_object_strategy *tn__object_strategy_at(uint32_t index);
/* Finds a strategy by name; returns NULL if no strategy has that name. */
const tn_object_strategy *tn__object_strategy_find(const char *name);

/* tn_objects_plan with a strategy that need not be in the registry; used by the tests. */
tn_status tn__objects_plan_with(const tn_object_strategy *strategy, const tn_object_record *records,
                                uint32_t count, const tn_objects_options *options,
                                tn_objects *objects, tn_error *error);

#endif
