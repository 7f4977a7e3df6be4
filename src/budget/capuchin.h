/* capuchin.h - what the modes of the pass capuchin share (passes/capuchin.c says how they follow
 * each other). */
#ifndef TN_BUDGET_CAPUCHIN_H
#define TN_BUDGET_CAPUCHIN_H

#include "budget/gaps.h"

/* capuchin_passive.c: swaps on demand. Where a job finds no room, what was accessed least lately
 * goes to the host there and then; what it reads and is not there comes back there and then.
 * possible  out: false where there is no room for a job even so
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs values). */
tn_status tn__capuchin_passive(tn__gaps *gaps, tn__schedule *schedule, bool *possible);

/* capuchin_clock.c: both directions of the link, on the clock of a run that waits for nothing. */
typedef struct tn__capuchin_clock {
    tn__gaps *gaps;
    uint32_t window_last;   /* the last job at which keeping everything is above the budget */
    uint64_t *lead;         /* [gaps] time that a copy back is asked for ahead of it */
    uint32_t *settle_by;    /* [gaps] compute waits for the copy out at this job at the latest */
    uint32_t *trigger_from; /* [gaps] and asks for it back not before this one */
    tn__sort_item *order;   /* [swap_count] what is swapped, by leaving */
    tn__sort_item *returns; /* the same by coming back */
    uint64_t *busy;         /* [swap_count] until when the link out is, in `order` */
    uint64_t *due;          /* [swap_count] when the copy back has to begin, in `returns` */
    uint32_t swap_count;
} tn__capuchin_clock;
/* In the arena of the run. Errors: E_NO_MEMORY. */
tn_status tn__capuchin_clock_make(tn__capuchin_clock *clock, tn__gaps *gaps);
/* FT of a gap that is not swapped, with the queues of those that are: above 0, so long nothing of
 * it is on its way; below, so long compute waits. */
int64_t tn__capuchin_ft(const tn__capuchin_clock *clock, uint32_t gap);
/* `settle` and `trigger` of all that is swapped. Errors: E_NO_MEMORY. Cost: O(gaps + jobs). */
tn_status tn__capuchin_place(tn__capuchin_clock *clock);

#endif
