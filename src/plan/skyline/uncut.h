/* uncut.h - puts bodies together to larger ones where they fit without a gap. */
#ifndef TN_PLAN_SKYLINE_UNCUT_H
#define TN_PLAN_SKYLINE_UNCUT_H

#include "plan/frame/planner.h"

#define TN__UNCUT_NONE UINT32_MAX

/* A body, or several that lie together: a rectangle of time and bytes that is filled completely. */
typedef struct tn__uncut_block {
    uint64_t size;
    uint32_t first, last;
    uint32_t parent; /* the block that it is part of; NONE: it stands by itself */
    uint64_t delta;  /* its bytes above the parent's */
    uint32_t next_start, previous_start, next_end, previous_end; /* of those that stand */
} tn__uncut_block;

typedef struct tn__uncut {
    tn__uncut_block *blocks; /* [count]; the first body_count are the bodies */
    uint32_t body_count, count;
} tn__uncut;

/* Blocks of the bodies `ids` [count] of one whole piece each; memory is the run's scratch. Steps
 * are visited in an order that `turn` decides: where sizes agree by chance, another one may see
 * through it. E_STOPPED when the run is to stop. Cost: O(n log n) where few bodies begin at a step.
 */
tn_status tn__uncut_make(tn_run *run, const uint32_t *ids, uint32_t count, uint32_t turn,
                         tn__uncut *uncut);

#endif
