/* perfect_packing.h - joins buffers into larger blocks if they match without a gap. */
#ifndef TN_PLAN_SKYLINE_PERFECT_PACKING_H
#define TN_PLAN_SKYLINE_PERFECT_PACKING_H

#include "plan/frame/planner.h"

#define TN__PACKING_NONE UINT32_MAX

/* A buffer, or several that lie together and fill a rectangle of time and bytes completely. */
typedef struct tn__packing_block {
    uint64_t size;
    /* distance in bytes from the parent's lowest byte to this block's lowest byte */
    uint64_t delta;
    uint32_t first, last;
    uint32_t parent; /* the block that contains this one; NONE: this block is separate, or unused */
    /* links in the lists of separate blocks by first step and by last step */
    uint32_t next_start, previous_start, next_end, previous_end;
    /* first_part: the first of the blocks that this block contains; next_part: the next block in
     * the same parent */
    uint32_t first_part, next_part;
    uint32_t place; /* index of this block in `standing`, if it is separate */
} tn__packing_block;

/* Blocks 0 ... body_count - 1 are the buffers; blocks with higher numbers are made and taken
 * apart. */
typedef struct tn__packing {
    tn_run *run;
    tn__packing_block *blocks; /* the buffers, then the blocks with parts */
    uint32_t *standing;        /* [standing_count], the separate blocks */
    uint32_t body_count, standing_count;
    uint64_t effort; /* number of sums computed and blocks visited so far */
    struct tn__packing_state *state;
} tn__packing;

/* Makes a separate block of each buffer of `ids` [count], which must consist of one whole piece.
 * Uses scratch memory of the run, and memory that tn__packing_release frees; call that after a
 * failure too. Cost: O(n). */
tn_status tn__packing_create(tn_run *run, const uint32_t *ids, uint32_t count,
                             tn__packing *packing);
void tn__packing_release(tn__packing *packing);

/* Joins separate blocks that match. `turn` decides the order in which steps are visited: if sizes
 * agree by chance, another order may avoid wrong joins. Returns E_STOPPED if the run must stop.
 * Cost: O(n log n) if few buffers begin at a step. */
tn_status tn__packing_join(tn__packing *packing, uint32_t turn);
/* Repairs the packing: takes blocks apart, joins them differently, and keeps results with at most
 * as many blocks. Ends if the number of blocks has not fallen for a while, or if packing->effort
 * exceeds `effort`. Returns E_STOPPED if the run must stop. */
tn_status tn__packing_mend(tn__packing *packing, uint64_t effort);
/* Takes all blocks apart. */
void tn__packing_reset(tn__packing *packing);

/* Whether nearly all bytes of the lower bound are in use at nearly every step, as in a perfect
 * packing; false also if memory is exhausted. Cost: O(n). */
bool tn__packing_is_full(tn_run *run);

#endif
