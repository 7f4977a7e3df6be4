/* gaps.h - what passes that swap, encode and compute again decide: what becomes of a value between
 * two accesses; and the schedule that follows from it.
 *
 *     RUN a   .   .   OUT a  RUN leave  SETTLE a   .   .   IN a   .   .  RUN back
 *     [------------- a ----------------]                   [------ a -----------
 *
 * Jobs run in the order of the work. The gap of a value is the time between two accesses in that
 * order, its making among them, with other jobs between.
 */
#ifndef TN_BUDGET_GAPS_H
#define TN_BUDGET_GAPS_H

#include <tenure/instruction.h>

#include "budget/pass.h"
#include "program/clock.h"

typedef enum tn__gap_how { TN__GAP_KEEP, TN__GAP_SWAP, TN__GAP_AGAIN, TN__GAP_CODE } tn__gap_how;

typedef struct tn__gap {
    uint32_t value;
    uint32_t leave, back; /* jobs */
    tn__gap_how how;
    bool early;       /* SWAP: the copy starts with `leave`, not behind it */
    uint32_t settle;  /* SWAP: compute waits for the copy before this job: leave < settle <= back */
    uint32_t trigger; /* SWAP: it comes back from before this job on: settle <= trigger <= back */
    tn_codec codec;   /* CODE: the same in all gaps of the value */
    uint64_t bytes;   /* CODE: of the encoded form */
} tn__gap;

typedef struct tn__gaps {
    tn__pass_run *run;
    tn__gap *list; /* [count] by value, then time */
    uint32_t count;
    uint32_t *first;        /* [values + 1] into list */
    uint32_t *last;         /* [values] the last job that accesses it; TN_NONE: none does */
    uint64_t *starts;       /* [jobs + 1] when each starts if nothing is waited for */
    tn__sort_item *by_back; /* [count] gaps by where they end */
    uint32_t *by_job;       /* [jobs + 1] and ... */
    uint32_t *chained;      /* [gaps] lists of gaps at a job, while a schedule is made */
    uint8_t *state;         /* [values] the same */
    uint32_t *stack, *made;
    bool again_first; /* what is made again on the way stays if it is yet to be read */
} tn__gaps;

/* All gaps of values that are not held, with nothing decided. In run->arena. Errors: E_NO_MEMORY,
 * those of tn__pass_work. Cost: O(jobs + operands). */
tn_status tn__gaps_find(tn__pass_run *run, tn__gaps *gaps);
/* The schedule of what is decided. What is to be computed again has its sources made again as far
 * as they are gone.
 * possible  out: false where something cannot be had again; the schedule is then of no use
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs + operands + what runs again). */
tn_status tn__gaps_schedule(tn__gaps *gaps, tn__schedule *schedule, bool *possible);
/* What it costs to make a value again before its gap ends, with all its sources that are then not
 * there; UINT64_MAX: it cannot be. Cost: O(what runs again). */
uint64_t tn__gaps_again_cost(tn__gaps *gaps, uint32_t gap);

/* Time of a copy of its value to the host, and back. */
static inline uint64_t tn__gaps_out(const tn__gaps *gaps, const tn__gap *gap) {
    return tn__lane_bytes(gaps->run->work->values[gap->value].bytes, gaps->run->out_rate);
}
static inline uint64_t tn__gaps_in(const tn__gaps *gaps, const tn__gap *gap) {
    return tn__lane_bytes(gaps->run->work->values[gap->value].bytes, gaps->run->in_rate);
}
/* "swap 'name', 1024 bytes: " to run->explain, if somebody asked. */
void tn__gaps_explain(const tn__gaps *gaps, uint32_t gap, const char *what, const char *why);

#endif
