/* perfect_packing.h - joins bodies to larger ones if they fit without a gap. */
#ifndef TN_PLAN_SKYLINE_PERFECT_PACKING_H
#define TN_PLAN_SKYLINE_PERFECT_PACKING_H

#include "plan/frame/planner.h"

#define TN__PACKING_NONE UINT32_MAX

/* A body, or several that lie together: a completely filled rectangle of time and bytes. */
typedef struct tn__packing_block {
    uint64_t size;
    uint64_t delta; /* its bytes above the parent's */
    uint32_t first, last;
    uint32_t parent; /* the block that it is part of; NONE: it is separate, or unused */
    uint32_t next_start, previous_start, next_end, previous_end; /* lists of separate blocks */
    uint32_t first_part, next_part;                              /* the blocks that it is made of */
    uint32_t place;                                              /* in `standing` */
} tn__packing_block;

/* Blocks 0 ... body_count - 1 are the bodies; later ones come and go. */
typedef struct tn__packing {
    tn_run *run;
    tn__packing_block *blocks; /* [2 * body_count] */
    uint32_t *standing;        /* [standing_count], separate blocks */
    uint32_t body_count, standing_count;
    uint64_t effort; /* sums computed so far; about 10^8 take a second */
    struct tn__packing_state *state;
} tn__packing;

/* Makes blocks of the bodies `ids` [count] of one whole piece each, all separate. The memory is
 * scratch of the run, and memory that tn__packing_release frees; call that on failure too. O(n). */
tn_status tn__packing_create(tn_run *run, const uint32_t *ids, uint32_t count,
                             tn__packing *packing);
void tn__packing_release(tn__packing *packing);

/* Joins separate blocks that fit. `turn` decides the order in which steps are visited: if sizes
 * agree by chance, another order may avoid the wrong joins. E_STOPPED if the run is to stop.
 * Cost: O(n log n) if few bodies begin at a step.
 */
tn_status tn__packing_join(tn__packing *packing, uint32_t turn);
/* Takes blocks apart and joins them otherwise, and keeps results with as many blocks or fewer. It
 * ends if the number has not fallen for a while, or at `effort` sums. E_STOPPED as above. */
tn_status tn__packing_mend(tn__packing *packing, uint64_t effort);
/* Takes all blocks apart. */
void tn__packing_reset(tn__packing *packing);

/* Whether nearly every byte of the bound is in use at nearly every step: a perfect packing, or
 * almost. O(n). */
bool tn__packing_is_full(tn_run *run);

#endif
