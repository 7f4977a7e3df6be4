/* capuchin.h - functions shared by the modes of the pass capuchin; passes/capuchin.c describes
 * their order. */
#ifndef TN_BUDGET_CAPUCHIN_H
#define TN_BUDGET_CAPUCHIN_H

#include "fit/budget/gaps.h"

/* capuchin_passive.c: swapping on demand. If a job does not find room, the least recently accessed
 * values are copied to the host at once; evicted inputs are copied back at once.
 * possible  out: false if a job still does not find room
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs values). */
tn_status tn__capuchin_passive(tn__gaps *gaps, tn__schedule *schedule, bool *possible);

/* capuchin_clock.c: both directions of the link, on the time axis of a run without waits. */
typedef struct tn__capuchin_clock {
    tn__gaps *gaps;
    uint32_t window_last;   /* the last job at which keeping everything is above the budget */
    uint64_t *lead;         /* [gaps] extra time by which the copy back starts earlier */
    uint32_t *settle_by;    /* [gaps] compute waits for the copy out at this job at the latest */
    uint32_t *trigger_from; /* [gaps] the copy back is requested at this job at the earliest */
    tn__sort_item *order;   /* [swap_count] swapped gaps by `leave` */
    tn__sort_item *returns; /* [swap_count] swapped gaps by `back` */
    uint64_t *busy;         /* [swap_count] end of each copy out, in `order` */
    uint64_t *due;          /* [swap_count] latest start of each copy back, in `returns` */
    uint32_t swap_count;
} tn__capuchin_clock;
/* Allocates the clock in the arena of the run. Errors: E_NO_MEMORY. */
tn_status tn__capuchin_clock_make(tn__capuchin_clock *clock, tn__gaps *gaps);
/* Capuchin's FT (free time) of a gap that is not swapped, given the queues of the swapped gaps.
 * Positive: the time between the two copies. Negative: the time that compute would wait. */
int64_t tn__capuchin_ft(const tn__capuchin_clock *clock, uint32_t gap);
/* Sets `settle` and `trigger` of all swapped gaps. Errors: E_NO_MEMORY. Cost: O(gaps + jobs). */
tn_status tn__capuchin_place(tn__capuchin_clock *clock);

#endif
