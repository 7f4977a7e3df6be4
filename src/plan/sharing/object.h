/* object.h - the interface of a strategy for shared objects, and the functions that strategies use.
 *
 * A strategy is one file in objects/ that fills in one tn_object_strategy, plus one line in
 * objects.def. It gives every record an object. All other work (refusal, order, limits, bounds and
 * verification) is done around it by objects.c and is the same for all strategies.
 */
#ifndef TN_PLAN_SHARING_OBJECT_H
#define TN_PLAN_SHARING_OBJECT_H

#include <tenure/objects.h>

#include "base/base.h"

enum { /* kinds of sizes that a strategy supports, and a constraint that it honours */
       TN_OBJECTS_BYTES = 1u << TN_SIZE_BYTES,
       TN_OBJECTS_VECTORS = 1u << TN_SIZE_VECTOR2 | 1u << TN_SIZE_VECTOR3,
       TN_OBJECTS_SHAPES = 1u << TN_SIZE_BHWC,
       TN_OBJECTS_ALL_KINDS = TN_OBJECTS_BYTES | TN_OBJECTS_VECTORS | TN_OBJECTS_SHAPES,
       TN_OBJECTS_REALLOCATION = 1u << 8,
};

typedef struct tn_object_run tn_object_run;

typedef struct tn_object_strategy {
    const char *name;    /* the name that users type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or other program that the idea comes from */
    uint32_t features;   /* TN_OBJECTS_* */
    tn_status (*solve)(tn_object_run *run);
} tn_object_strategy;

/* A call in progress. Records come by first step, ties in the caller's order. */
struct tn_object_run {
    const tn_object_record *records; /* [count] */
    const uint32_t *original;        /* [count], the caller's number of a record */
    const uint64_t *bulk;            /* [count], bytes or elements of a record */
    uint32_t count;
    tn_size_kind kind;
    const tn_edges *reallocation; /* caller's numbers; NULL: none */
    /* the answer, for the strategy to fill */
    uint32_t *object;                   /* [count]; UINT32_MAX: none yet */
    uint64_t (*size)[TN_SIZE_RANK_MAX]; /* [count], the first object_count are in use */
    uint64_t *object_bulk;              /* [count], bytes or elements of an object */
    uint32_t object_count;
    /* for the frame */
    const tn_object_strategy *strategy;
    const tn_context *context;
    uint64_t work, work_limit; /* work_limit 0: no limit */
    double deadline_s;         /* 0: never */
    tn__arena scratch;
    tn_error *error;
};

uint32_t tn__size_rank(tn_size_kind kind);

/* Gives record `id` a new object of its own size; returns the object. */
uint32_t tn__object_new(tn_object_run *run, uint32_t id);
/* Puts the record into an object, which grows to hold it if sizes are bytes. */
void tn__object_join(tn_object_run *run, uint32_t id, uint32_t object);
/* Whether the reallocation graph lets `next` follow `before` in an object. */
bool tn__object_may_follow(const tn_object_run *run, uint32_t before, uint32_t next);

/* Counts units of work; E_STOPPED if a limit (work, time, cancel) is reached. A unit is about a
 * thousand steps of an inner loop. */
tn_status tn__object_work(tn_object_run *run, uint64_t units);
/* Zeroed scratch until the end of the run; NULL when memory is out. */
void *tn__object_scratch(tn_object_run *run, size_t count, size_t item);

/* Runs another strategy in a run of its own, and takes its answer over if it is the first or its
 * total is lower. `work_limit` 0: all that is left. Returns E_STOPPED of the other run only if
 * `needed`. */
tn_status tn__object_try(tn_object_run *run, const tn_object_strategy *strategy,
                         uint64_t work_limit, bool needed);

/* For sizes in bytes. rank[i]: one less than the largest number of records that are live at once
 * and at least as large as record i, that is, the last k with a positional maximum of at least its
 * size. O(n log n). */
tn_status tn__object_positions(tn_object_run *run, uint32_t *rank);
/* Records ordered by the best-ranked step of their lives, then larger first, then by number;
 * steps rank by their live bytes. O(n log n). */
tn_status tn__object_by_breadth(tn_object_run *run, uint32_t *order);

/* Records that hold objects, by the step of their end, then by object: a heap on `last`. */
typedef struct tn__object_heap {
    struct object_heap_item {
        int64_t last;
        uint32_t object;
    } * items;
    uint32_t count;
} tn__object_heap;
bool tn__object_heap_init(tn_object_run *run, tn__object_heap *heap);
void tn__object_heap_push(tn__object_heap *heap, int64_t last, uint32_t object);
/* Pops into *object an object whose record ended at or before `now`; false if there is none. */
bool tn__object_heap_pop(tn__object_heap *heap, int64_t now, uint32_t *object);

/* The records of each object, in order of time; for strategies that do not go in time order. */
typedef struct tn__object_lives tn__object_lives;
tn__object_lives *tn__object_lives_create(tn_object_run *run); /* NULL: no memory */
/* Steps between the record's life and the nearest one in the object; UINT64_MAX if they overlap. */
uint64_t tn__object_lives_distance(const tn__object_lives *lives, uint32_t object, uint32_t id);
/* Adds the record's life; false when memory is out. */
bool tn__object_lives_add(tn__object_lives *lives, uint32_t object, uint32_t id);

/* The registry. */
const tn_object_strategy *tn__object_strategy_at(uint32_t index);
const tn_object_strategy *tn__object_strategy_find(const char *name); /* NULL: none */

/* tn_objects_plan with a strategy that need not be in the registry; used by the tests. */
tn_status tn__objects_plan_with(const tn_object_strategy *strategy, const tn_object_record *records,
                                uint32_t count, const tn_objects_options *options,
                                tn_objects *objects, tn_error *error);

#endif
