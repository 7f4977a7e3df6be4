/* lives.h - bodies by the first and last step of their lives; finds "the first in an order among
 * those that live within [s, e)" in O(log n) most of the time. */
#ifndef TN_PLAN_SKYLINE_LIVES_H
#define TN_PLAN_SKYLINE_LIVES_H

#include "plan/frame/planner.h"

#define TN__LIVES_NONE UINT32_MAX

typedef struct tn__skyline_life { /* a body in the order of the leaves */
    uint32_t first, last, rank;   /* rank NONE: removed */
} tn__skyline_life;

typedef struct tn__lives_node {
    uint32_t best; /* least rank */
    uint32_t first_min, first_max, last_min, last_max;
} tn__lives_node;

/* A k-d tree; leaf i holds lives [begin[i], begin[i + 1]). */
typedef struct tn__lives {
    tn_context context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count], numbers to bodies */
    uint32_t count, leaf_count;
    tn__lives_node *nodes;   /* [2 * leaf_count], 1 is the root */
    uint64_t *least;         /* [2 * leaf_count], the smallest size, removed or not */
    tn__skyline_life *lives; /* [count] */
    uint32_t *begin;         /* [leaf_count + 1] */
    uint32_t *number;        /* [count], the body of a life */
    uint32_t *life_of;       /* [count], the life of a body */
    uint32_t *leaf_of;       /* [count], the leaf of a number */
} tn__lives;

/* The bodies to sort; all of this must outlive the tree. */
typedef struct tn__lives_input {
    const tn_context *context;
    const tn_run_body *bodies;
    const uint32_t *ids; /* [count] */
    uint32_t count;
    tn_run *run; /* asked whether to continue; NULL: always */
} tn__lives_input;

typedef struct tn__lives_box { /* inclusive */
    uint32_t first_min, first_max, last_min, last_max;
    uint64_t room; /* the largest size allowed; 0: any */
} tn__lives_box;

/* False: no memory, or the run is to stop. The caller uses tn__lives_release also after a failure.
 * Cost: O(n log n). */
bool tn__lives_create(tn__lives *lives, const tn__lives_input *input);
void tn__lives_release(tn__lives *lives);
/* Puts all lives back; order[] are numbers, first come first. O(n). */
void tn__lives_reset(tn__lives *lives, const uint32_t *order);
void tn__lives_remove(tn__lives *lives, uint32_t number);
/* The least rank below `best` in the box, else `best`. */
uint32_t tn__lives_find(const tn__lives *lives, tn__lives_box box, uint32_t best);

static inline const tn__skyline_life *tn__lives_at(const tn__lives *lives, uint32_t number) {
    return &lives->lives[lives->life_of[number]];
}

#endif
