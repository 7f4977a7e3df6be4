/* gaps.h - idle intervals ("gaps") of values between two accesses, the decision for each (keep,
 * swap, recompute, encode), and the schedule that follows from the decisions.
 *
 *     RUN a   .   .   OUT a  RUN leave  SETTLE a   .   .   IN a   .   .  RUN back
 *     [------------- a ----------------]                   [------ a -----------
 *
 * Jobs run in the order of the work. A gap of a value lies between two consecutive accesses in that
 * order (tn__work.reads) with other jobs between them; the run that makes the value counts as an
 * access.
 */
#ifndef TN_BUDGET_GAPS_H
#define TN_BUDGET_GAPS_H

#include <tenure/instruction.h>

#include "fit/budget/pass.h"
#include "program/clock.h"

typedef enum tn__gap_how { TN__GAP_KEEP, TN__GAP_SWAP, TN__GAP_AGAIN, TN__GAP_CODE } tn__gap_how;

typedef struct tn__gap {
    uint32_t value;
    uint32_t leave, back; /* jobs */
    tn__gap_how how;
    bool early;       /* SWAP: the copy starts together with `leave` instead of after it */
    uint32_t settle;  /* SWAP: compute waits for the copy before this job: leave < settle <= back */
    uint32_t trigger; /* SWAP: the copy back may start from this job on: settle <= trigger <=
                       * back */
    tn_codec codec;   /* CODE: the same in all gaps of the value */
    uint64_t bytes;   /* CODE: size of the encoded form */
} tn__gap;

typedef struct tn__gaps {
    tn__pass_run *run;
    tn__gap *list; /* [count] by value, then time */
    uint32_t count;
    uint32_t *first;        /* [values + 1] into list */
    uint64_t *starts;       /* [jobs + 1] start time of each job in a run without waits */
    tn__sort_item *by_back; /* [count] gaps sorted by their end */
    uint32_t *by_job;       /* [jobs + 1] heads of the lists in `chained` */
    uint32_t *chained;      /* [gaps] lists of gaps by job, while a schedule is built */
    uint8_t *state;         /* [values] state while a schedule is built */
    uint32_t *stack, *made;
    const bool *drops; /* NULL, or [values] these intermediates do not stay, in spite of
                        * again_first */
    const bool *stays; /* NULL, or [values] these are never recomputed: as sources they stay live */
    bool again_first;  /* values recomputed as intermediates stay live if a later job reads them */
} tn__gaps;

/* Finds all gaps of values that are not held, without decisions. The result lies in run->arena.
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs + operands). */
tn_status tn__gaps_find(tn__pass_run *run, tn__gaps *gaps);
/* Builds the schedule of the decisions. A value to be recomputed has its evicted sources recomputed
 * first.
 * possible  out: false if a value cannot be restored; the schedule is then unusable
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs + operands + repeated jobs). */
tn_status tn__gaps_schedule(tn__gaps *gaps, tn__schedule *schedule, bool *possible);
/* The cost of recomputing a value before its gap ends, including all sources that are not live at
 * that time; UINT64_MAX: it cannot be recomputed. Cost: O(repeated jobs). */
uint64_t tn__gaps_again_cost(tn__gaps *gaps, uint32_t gap);

/* Finds the turn, the job at which most bytes are idle: in training, the end of the forward pass.
 * Errors: E_NO_MEMORY. Cost: O(jobs + gaps). */
tn_status tn__gaps_turn(const tn__gaps *gaps, uint32_t *turn);

/* Times for copying the gap's value to the host, and back. */
static inline uint64_t tn__gaps_out(const tn__gaps *gaps, const tn__gap *gap) {
    return tn__lane_bytes(gaps->run->work->values[gap->value].bytes, gaps->run->out_rate);
}
static inline uint64_t tn__gaps_in(const tn__gaps *gaps, const tn__gap *gap) {
    return tn__lane_bytes(gaps->run->work->values[gap->value].bytes, gaps->run->in_rate);
}
/* Writes "swap 'name', 1024 bytes: " to run->explain, if the caller asked for explanations. */
void tn__gaps_explain(const tn__gaps *gaps, uint32_t gap, const char *what, const char *why);

#endif
