/* uncut_state.h - what the parts of uncut.c share: steps that wait, lists at a step, the journal.
 */
#ifndef TN_PLAN_SKYLINE_UNCUT_STATE_H
#define TN_PLAN_SKYLINE_UNCUT_STATE_H

#include "plan/skyline/uncut.h"

#define TN__UNCUT_LEVELS 7u /* of what is allowed to agree */
#define TN__UNCUT_PARTS 3u  /* of a life, in sums that may agree with one another */

typedef struct tn__uncut_sum { /* blocks of one life that end (or begin) at the step */
    uint64_t size;
    uint32_t place, count; /* into members */
    bool whole;            /* all that share the life */
} tn__uncut_sum;

typedef struct tn__uncut_side { /* those that end at a step, or those that begin there */
    tn__uncut_sum *sums;
    tn__sort_item *order; /* by size */
    size_t sum_room, order_room;
    uint32_t count;
} tn__uncut_side;

typedef struct tn__uncut_queue { /* steps, first in first out */
    uint32_t *steps;
    size_t head, count, room; /* [head, count) wait */
} tn__uncut_queue;

typedef struct tn__uncut_deed { /* what was done to a block, for taking it back */
    uint32_t id, parent;        /* JOINED with it; LEFT it; NONE: the block itself was made */
    uint64_t delta;
    bool left;
} tn__uncut_deed;

struct tn__uncut_state {
    uint32_t *starts, *ends; /* [time_count], lists of those that stand */
    uint8_t *clean;          /* [time_count], levels at which nothing more is found */
    tn__uncut_queue waiting[TN__UNCUT_LEVELS];
    tn__uncut_side below, above; /* of a step: that end, that begin */
    uint32_t *members;           /* of sums */
    size_t member_count, member_room;
    tn__sort_item *line; /* [line_room], those of a step by their other end */
    size_t line_room;
    uint32_t *unused; /* [unused_count], blocks that are taken apart */
    uint32_t unused_count, used;
    tn__uncut_deed *journal;
    size_t journal_count, journal_room;
    bool notes; /* the journal is kept */
    tn__random random;
    uint32_t skip;   /* one match of so many is passed over; 0: none */
    uint64_t unseen; /* sums since the clock was read */
    bool out_of_memory;
};

/* A block that is filled by parts yet to be joined. */
uint32_t tn__uncut_new(tn__uncut *uncut, uint64_t size, uint32_t first, uint32_t last);
/* The block becomes part of `parent`, `delta` bytes above its floor. */
void tn__uncut_put(tn__uncut *uncut, uint32_t id, uint32_t parent, uint64_t delta);

/* uncut_sums.c: whether something was put together at the step; sums of up to `most` blocks, and of
 * all that share a life. `alone`: only where no third sum agrees. */
bool tn__uncut_sums(tn__uncut *uncut, uint32_t time, uint32_t most, bool alone);
void tn__uncut_release_sums(tn__uncut *uncut);
/* line[] = those of a list by their other end; how many. */
bool tn__uncut_line(tn__uncut *uncut, uint32_t time, bool ending, size_t *count);
/* uncut_wheels.c: the same for five that lie in a wheel. */
bool tn__uncut_wheel(tn__uncut *uncut, uint32_t time);

#endif
