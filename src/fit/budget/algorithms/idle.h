/* idle.h - idle intervals of values, the decision for each of them (keep, swap, recompute, encode),
 * the encoded forms that a value may have meanwhile, and the schedule that follows from the
 * decisions.
 *
 * An idle interval of a value lies between two consecutive accesses, by the jobs `leave` and
 * `back`, with other jobs between them. Accesses are in the order of the schedule graph
 * (tn__dag.reads), in which jobs run; the run that makes the value is an access, too. This is a
 * swapped value a, with its two live ranges:
 *
 *     RUN a   .   .   OUT a  RUN leave  SETTLE a   .   .   IN a   .   .  RUN back
 *     [------------- a ----------------]                   [------ a -----------
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
    /* for a swapped value: its copy to the host starts together with the job `leave`, instead of
     * after it */
    bool early;
    /* for a swapped value: the job before which compute waits until the copy to the host is done;
     * leave < settle <= back */
    uint32_t settle;
    /* for a swapped value: the first job at which the copy back may start; settle <= trigger <=
     * back */
    uint32_t trigger;
    /* for an encoded value: its codec, which is the same for all idle intervals of the value */
    tn_codec codec;
    uint64_t bytes; /* for an encoded value: bytes of the encoded form */
} tn__idle;

typedef struct tn__idles {
    tn__pass_run *run;
    tn__idle *list; /* [count] the idle intervals, sorted by value, then by time */
    uint32_t count;
    uint32_t *first;  /* [values + 1] index in `list` of the value's first idle interval */
    uint64_t *starts; /* [jobs + 1] time at which each job starts if no job waits for copies */
    tn__sort_item *by_back; /* [count] idle intervals in the order in which they end */
    /* [3 (jobs + 2)] heads of the three lists of idle intervals of each job, which `chained` links;
     * used while a schedule is built */
    uint32_t *by_job;
    /* [3 for each idle interval] next element of the list in `by_job`; used while a schedule is
     * built */
    uint32_t *chained;
    uint8_t *state; /* [values] flags of the value while a schedule is built */
    uint32_t *stack, *made;
    /* NULL, or [values] a value that is evicted again after it was recomputed as a source, even
     * with recompute_first */
    const bool *drops;
    /* NULL, or [values] values that are never recomputed; if a repeat reads them, they stay live
     * until then */
    const bool *stays;
    /* a value that is recomputed as a source of another stays live if a later job reads it */
    bool recompute_first;
} tn__idles;

/* Finds all idle intervals of values that are not held, with the decision KEEP. The memory of the
 * result belongs to run->arena. Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs +
 * operands). */
tn_status tn__idles_find(tn__pass_run *run, tn__idles *gaps);
/* Builds the schedule that follows from the decisions about all idle intervals. Before a value is
 * recomputed, its evicted sources are recomputed.
 * possible  out: false if a value cannot be restored; the schedule is then unusable
 * Errors: E_NO_MEMORY, those of tn__pass_work. Cost: O(jobs + operands + repeated jobs). */
tn_status tn__idles_schedule(tn__idles *gaps, tn__schedule *schedule, bool *possible);
/* Returns the cost of recomputing a value at the end of its idle interval, including all sources
 * that are not live at that time; UINT64_MAX if it cannot be recomputed. Cost: O(repeated jobs). */
uint64_t tn__idles_recompute_cost(tn__idles *gaps, uint32_t gap);

/* Finds the turn: the job during which idle values have the most bytes. In training this is the end
 * of the forward pass. Errors: E_NO_MEMORY. Cost: O(jobs + idle intervals). */
tn_status tn__idles_turn(const tn__idles *gaps, uint32_t *turn);

/* The times to copy the value of an idle interval to the host (out) and back (in), in the unit of
 * costs. */
static inline uint64_t tn__idles_out(const tn__idles *gaps, const tn__idle *gap) {
    return tn__lane_bytes(gaps->run->dag->values[gap->value].bytes, gaps->run->out_rate);
}
static inline uint64_t tn__idles_in(const tn__idles *gaps, const tn__idle *gap) {
    return tn__lane_bytes(gaps->run->dag->values[gap->value].bytes, gaps->run->in_rate);
}
/* Appends a line such as "capuchin: swap 'name', 1024 bytes, from job 3 to 7: " followed by `why`
 * to run->explain, if the caller asked for explanations. */
void tn__idles_explain(const tn__idles *gaps, uint32_t gap, const char *what, const char *why);

/* --- encoded forms ---------------------------------------------------------------------------- */

typedef struct tn__code {
    tn_codec codec; /* codec of the encoded form; TN_CODEC_NONE: the value has no encoded form */
    uint64_t bytes; /* bytes of the encoded form */
} tn__code;

typedef struct tn__codes {
    const tn__pass_run *run;
    const tn__idles *gaps;
    /* [values] the first idle interval of the value after which all readers need only signs, so
     * that one bit per element suffices; TN_NONE: no such interval */
    uint32_t *bits_from;
    /* [values] bytes of the value as sparse rows of its nonzero elements; 0: sparse rows are not
     * smaller */
    uint64_t *rows;
    /* the codec for all values without a lossless form; TN_CODEC_NONE: they are not encoded */
    tn_codec lossy;
} tn__codes;

#define TN__LOSSY_COUNT 3
/* the lossy codecs, in ascending order of the loss */
extern const tn_codec tn__lossy[TN__LOSSY_COUNT];

/* Finds the lossless forms of every value, and sets `lossy` to TN_CODEC_NONE. The memory of the
 * result belongs to run->arena; `run` and `gaps` must exist as long as the result. Errors:
 * E_NO_MEMORY. Cost: O(values + readers). */
tn_status tn__codes_find(tn__codes *codes, const tn__pass_run *run, const tn__idles *gaps);
/* Returns the form of a value that is encoded in this idle interval and stays encoded until its
 * last reader. */
tn__code tn__codes_of(const tn__codes *codes, uint32_t gap);
/* Whether the caller allows this codec. A lossy codec also needs TN__ALLOW_LOSSY. */
bool tn__codes_allow(const tn__pass_run *run, tn_codec codec);

#endif
