/* idle.h - idle intervals of values between two accesses, the decision for each (keep, swap,
 * recompute, encode), the encoded forms that a value may take meanwhile, and the schedule that
 * follows from the decisions.
 *
 *     RUN a   .   .   OUT a  RUN leave  SETTLE a   .   .   IN a   .   .  RUN back
 *     [------------- a ----------------]                   [------ a -----------
 *
 * Jobs run in the order of the schedule graph. An idle interval of a value lies between two
 * consecutive accesses in that order (tn__dag.reads) with other jobs between them; the run that
 * makes the value counts as an access.
 */
#ifndef TN_ALGORITHMS_IDLE_H
#define TN_ALGORITHMS_IDLE_H

#include <tenure/program.h>

#include "fit/budget/pass.h"
#include "program/clock.h"

typedef enum tn__idle_how {
    TN__IDLE_KEEP,
    TN__IDLE_SWAP,
    TN__IDLE_RECOMPUTE,
    TN__IDLE_CODE
} tn__idle_how;

typedef struct tn__idle {
    uint32_t value;
    uint32_t leave, back; /* jobs */
    tn__idle_how how;
    bool early;       /* SWAP: the copy starts together with `leave` instead of after it */
    uint32_t settle;  /* SWAP: compute waits for the copy before this job: leave < settle <= back */
    uint32_t trigger; /* SWAP: the copy back may start from this job on: settle <= trigger <=
                       * back */
    tn_codec codec;   /* CODE: the same in all idle intervals of the value */
    uint64_t bytes;   /* CODE: size of the encoded form */
} tn__idle;

typedef struct tn__idles {
    tn__pass_run *run;
    tn__idle *list; /* [count] by value, then time */
    uint32_t count;
    uint32_t *first;        /* [values + 1] into list */
    uint64_t *starts;       /* [jobs + 1] start time of each job in a run without waits */
    tn__sort_item *by_back; /* [count] idle intervals sorted by their end */
    uint32_t *by_job;       /* [jobs + 1] heads of the lists in `chained` */
    uint32_t
        *chained;   /* [idle intervals] lists of idle intervals by job, while a schedule is built */
    uint8_t *state; /* [values] state while a schedule is built */
    uint32_t *stack, *made;
    const bool *drops; /* NULL, or [values] these intermediates do not stay, in spite of
                        * recompute_first */
    const bool *stays; /* NULL, or [values] these are never recomputed: as sources they stay live */
    bool
        recompute_first; /* values recomputed as intermediates stay live if a later job reads them */
} tn__idles;

/* Finds all idle intervals of values that are not held, without decisions. The result lies in
 * run->arena. Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs + operands). */
tn_status tn__idles_find(tn__pass_run *run, tn__idles *gaps);
/* Builds the schedule of the decisions. A value to be recomputed has its evicted sources recomputed
 * first.
 * possible  out: false if a value cannot be restored; the schedule is then unusable
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs + operands + repeated jobs). */
tn_status tn__idles_schedule(tn__idles *gaps, tn__schedule *schedule, bool *possible);
/* The cost of recomputing a value before its idle interval ends, including all sources that are not
 * live at that time; UINT64_MAX: it cannot be recomputed. Cost: O(repeated jobs). */
uint64_t tn__idles_recompute_cost(tn__idles *gaps, uint32_t gap);

/* Finds the turn, the job at which most bytes are idle: in training, the end of the forward pass.
 * Errors: E_NO_MEMORY. Cost: O(jobs + idle intervals). */
tn_status tn__idles_turn(const tn__idles *gaps, uint32_t *turn);

/* Times for copying the idle interval's value to the host, and back. */
static inline uint64_t tn__idles_out(const tn__idles *gaps, const tn__idle *gap) {
    return tn__lane_bytes(gaps->run->dag->values[gap->value].bytes, gaps->run->out_rate);
}
static inline uint64_t tn__idles_in(const tn__idles *gaps, const tn__idle *gap) {
    return tn__lane_bytes(gaps->run->dag->values[gap->value].bytes, gaps->run->in_rate);
}
/* Writes "swap 'name', 1024 bytes: " to run->explain, if the caller asked for explanations. */
void tn__idles_explain(const tn__idles *gaps, uint32_t gap, const char *what, const char *why);

/* --- encoded forms ---------------------------------------------------------------------------- */

typedef struct tn__code {
    tn_codec codec; /* NONE: the value has no encoded form */
    uint64_t bytes; /* size of the encoded form */
} tn__code;

typedef struct tn__codes {
    const tn__pass_run *run;
    const tn__idles *gaps;
    uint32_t *bits_from; /* [values] first idle interval from which on sign bits suffice; TN_NONE */
    uint64_t *rows;      /* [values] size as sparse rows of its nonzero elements; 0: sparse rows
                          * are not smaller */
    tn_codec lossy;      /* codec for all other values; NONE: they are not encoded */
} tn__codes;

#define TN__LOSSY_COUNT 3
extern const tn_codec tn__lossy[TN__LOSSY_COUNT]; /* the least lossy first */

/* Finds the lossless forms of every value; `lossy` is set to NONE. The result lies in run->arena;
 * run and idle intervals must outlive it. Errors: E_NO_MEMORY. Cost: O(values + readers). */
tn_status tn__codes_find(tn__codes *codes, const tn__pass_run *run, const tn__idles *gaps);
/* The form of a value that is encoded at this idle interval and stays encoded until its last
 * reader. */
tn__code tn__codes_of(const tn__codes *codes, uint32_t gap);
/* Whether the caller allows this codec. A lossy codec needs permission for losses. */
bool tn__codes_allow(const tn__pass_run *run, tn_codec codec);

#endif
