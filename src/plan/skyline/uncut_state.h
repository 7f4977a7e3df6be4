/* uncut_state.h - state shared by the parts of uncut.c: steps that wait, lists at a step, the
 * journal.
 */
#ifndef TN_PLAN_SKYLINE_UNCUT_STATE_H
#define TN_PLAN_SKYLINE_UNCUT_STATE_H

#include "plan/skyline/uncut.h"

#define TN__UNCUT_LEVELS 7u /* levels of permitted matches */
#define TN__UNCUT_PARTS 3u  /* blocks of one life in a sum that may match */

typedef struct tn__uncut_sum { /* blocks of one life that end (or begin) at the step */
    uint64_t size;
    uint32_t place, count; /* into members */
    bool whole;            /* all blocks that share the life */
} tn__uncut_sum;

typedef struct tn__uncut_side { /* blocks that end at a step, or blocks that begin there */
    tn__uncut_sum *sums;
    tn__sort_item *order; /* by size */
    size_t sum_room, order_room;
    uint32_t count;
} tn__uncut_side;

typedef struct tn__uncut_queue { /* queue of steps */
    uint32_t *steps;
    size_t head, count, room; /* [head, count) wait */
} tn__uncut_queue;

typedef struct tn__uncut_deed { /* a change of a block, for undoing it */
    uint32_t id, parent;        /* JOINED with it; LEFT it; NONE: the block itself was made */
    uint64_t delta;
    bool left;
} tn__uncut_deed;

struct tn__uncut_state {
    uint32_t *starts, *ends; /* [time_count], lists of separate blocks */
    uint8_t *clean;          /* [time_count], levels at which no more matches exist */
    tn__uncut_queue waiting[TN__UNCUT_LEVELS];
    tn__uncut_side below, above; /* for a step: blocks that end, blocks that begin */
    uint32_t *members;           /* blocks in sums */
    size_t member_count, member_room;
    tn__sort_item *line; /* [line_room], blocks of a step by their other end */
    size_t line_room;
    uint32_t *unused; /* [unused_count], blocks that are taken apart */
    uint32_t unused_count, used;
    tn__uncut_deed *journal;
    size_t journal_count, journal_room;
    bool notes; /* the journal is kept */
    tn__random random;
    uint32_t skip;   /* one match in `skip` is skipped; 0: none */
    uint64_t unseen; /* sums since the last check of the clock */
    bool out_of_memory;
};

/* Makes a block whose parts are still to be added. */
uint32_t tn__uncut_new(tn__uncut *uncut, uint64_t size, uint32_t first, uint32_t last);
/* The block becomes part of `parent`, `delta` bytes above its floor. */
void tn__uncut_put(tn__uncut *uncut, uint32_t id, uint32_t parent, uint64_t delta);

/* uncut_sums.c: returns whether blocks were joined at the step; uses sums of up to `most` blocks,
 * and of all that share a life. `alone`: only if no third sum matches. */
bool tn__uncut_sums(tn__uncut *uncut, uint32_t time, uint32_t most, bool alone);
void tn__uncut_release_sums(tn__uncut *uncut);
/* line[] = blocks of a list by their other end; *count is their number. */
bool tn__uncut_line(tn__uncut *uncut, uint32_t time, bool ending, size_t *count);
/* uncut_wheels.c: the same for five blocks in a wheel. */
bool tn__uncut_wheel(tn__uncut *uncut, uint32_t time);

#endif
