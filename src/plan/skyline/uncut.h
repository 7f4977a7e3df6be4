/* uncut.h - puts bodies together to larger ones where they fit without a gap. */
#ifndef TN_PLAN_SKYLINE_UNCUT_H
#define TN_PLAN_SKYLINE_UNCUT_H

#include "plan/frame/planner.h"

#define TN__UNCUT_NONE UINT32_MAX

/* A body, or several that lie together: a rectangle of time and bytes that is filled completely. */
typedef struct tn__uncut_block {
    uint64_t size;
    uint64_t delta; /* its bytes above the parent's */
    uint32_t first, last;
    uint32_t parent; /* the block that it is part of; NONE: it stands by itself, or is not used */
    uint32_t next_start, previous_start, next_end, previous_end; /* of those that stand */
    uint32_t first_part, next_part;                              /* what it is made of */
    uint32_t place;                                              /* in `standing` */
} tn__uncut_block;

/* Blocks 0 ... body_count - 1 are the bodies; those behind come and go. */
typedef struct tn__uncut {
    tn_run *run;
    tn__uncut_block *blocks; /* [2 * body_count] */
    uint32_t *standing;      /* [standing_count], blocks that stand by themselves */
    uint32_t body_count, standing_count;
    uint64_t effort; /* sums looked at so far; some 10^8 take a second */
    struct tn__uncut_state *state;
} tn__uncut;

/* Blocks of the bodies `ids` [count] of one whole piece each, all of them apart. Memory is the
 * run's scratch and what tn__uncut_release gives back, which is called on failure, too. O(n). */
tn_status tn__uncut_create(tn_run *run, const uint32_t *ids, uint32_t count, tn__uncut *uncut);
void tn__uncut_release(tn__uncut *uncut);

/* Puts together what fits, from what stands. Steps are visited in an order that `turn` decides:
 * where sizes agree by chance, another one may see through it. E_STOPPED when the run is to stop.
 * Cost: O(n log n) where few bodies begin at a step. */
tn_status tn__uncut_join(tn__uncut *uncut, uint32_t turn);
/* Takes blocks apart and puts them together otherwise, as long as fewer are left or as many; ends
 * where none became fewer for a while, or when `effort` is what it was raised to. E_STOPPED as
 * above. */
tn_status tn__uncut_mend(tn__uncut *uncut, uint64_t effort);
/* Takes all of it apart. */
void tn__uncut_reset(tn__uncut *uncut);

/* Hardly a step at which a byte of the bound is not in use: a perfect packing, or nearly. O(n). */
bool tn__uncut_is_full(tn_run *run);

#endif
