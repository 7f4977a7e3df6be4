/* work.h - a program as passes see it: jobs that run, values that take memory.
 *
 *     job      an operator that runs: what it costs, the values that it reads and makes
 *     value    memory of a tensor and of its views: bytes, who makes it, who reads it
 *     schedule a list of acts, which says when jobs run, also again, and what is copied when
 *
 * Lives follow from the list, nobody writes releases: a value is there from a definition to the
 * last read before its next definition, or before the end of the list. A job that runs again makes
 * all of its outputs again; what nobody reads of them is gone when the job has ended. What was
 * there from the start is there while the first act is done, also if nobody reads it.
 *
 * Costs are integers of one unit: picoseconds, or whatever a problem says. Bytes are as the
 * occupancy counts them (aligned). Memory that is always there (weights) is `fixed_bytes`.
 */
#ifndef TN_BUDGET_WORK_H
#define TN_BUDGET_WORK_H

#include <tenure/graph.h>

#include "base/base.h"

enum {                            /* tn__value.flags */
       TN__VALUE_HELD = 1u << 0,  /* never given up, copied or encoded: something else needs it; it
                                   * is there from its definition, or the start, to the end */
       TN__VALUE_KEPT = 1u << 1,  /* is there at the end: an output */
       TN__VALUE_COPIES = 1u << 2 /* may be OUT and IN */
};

typedef struct tn__value {
    uint64_t bytes;
    uint32_t maker;      /* job; TN_NONE: there from the start, and cannot be made again */
    tn_tensor_id tensor; /* the one that owns the memory; TN_NONE: of a problem without graph */
    uint32_t flags;      /* TN__VALUE_* */
    uint32_t
        reader_first; /* into readers: jobs, ascending, each once, also those that read it only */
    uint32_t reader_count; /* when they run again (tn__job.again_first) */
} tn__value;

enum {                           /* tn__job.flags */
       TN__JOB_REPEATS = 1u << 0 /* may run again */
};

typedef struct tn__job {
    tn_op_id op;         /* TN_NONE: of a problem without graph, or what a rank says to others */
    uint32_t flags;      /* TN__JOB_* */
    uint64_t cost;       /* of its first run */
    uint64_t again_cost; /* of another */
    uint64_t scratch;    /* bytes while it runs */
    /* Into operands: values, each once. Again it reads and makes others where the operator has a
     * repeat form (tn_op_again): it may need fewer inputs, and makes fewer outputs */
    uint32_t input_first, input_count, output_first, output_count;
    uint32_t again_input_first, again_input_count, again_output_first, again_output_count;
    uint32_t after_first, after_count; /* into others: jobs that have run before this one does, for
                                        * another reason than a value; ascending */
    uint32_t limit_first, limit_count; /* into others: jobs that write what this one reads or is
                                        * made of: it runs, also again, before the first of them */
    uint32_t inplace; /* an input whose memory the first output takes if the input's life ends here;
                       * TN_NONE. As large as the output */
} tn__job;

/* Jobs are in an order in which they may run, which is the order of the program. */
typedef struct tn__work {
    const tn__job *jobs;     /* [job_count] */
    const tn__value *values; /* [value_count] */
    const uint32_t *operands, *readers, *others;
    uint32_t job_count, value_count;
    uint64_t fixed_bytes; /* there all the time; not in any of the sums below */
    uint64_t cost;        /* of all jobs once; saturating */
    bool is_ordered;      /* first runs keep the order of the list */
} tn__work;

typedef enum tn__act_kind {
    TN__RUN,    /* a job */
    TN__OUT,    /* a value goes to the host: behind what runs before it in the list */
    TN__SETTLE, /* whoever runs next waits until that copy is done: the value's memory ends here */
    TN__IN,     /* it comes back: memory from here on; who reads it waits for the copy */
    TN__ENCODE, /* its encoded form is made; the value's memory ends here, or with the readers that
                 * come before it is decoded */
    TN__DECODE  /* made of its encoded form, which ends with the last of these */
} tn__act_kind;

typedef struct tn__act {
    uint8_t kind;   /* tn__act_kind */
    uint8_t codec;  /* ENCODE, DECODE: tn_codec */
    uint32_t what;  /* RUN: job; else value */
    uint64_t bytes; /* ENCODE: of the encoded form */
} tn__act;

typedef struct tn__schedule {
    tn_context context;
    tn__act *acts; /* [count] */
    size_t room;
    uint32_t count;
} tn__schedule;
void tn__schedule_init(tn__schedule *schedule, const tn_context *context);
void tn__schedule_release(tn__schedule *schedule);
/* Errors: E_NO_MEMORY; E_EXHAUSTED (more acts than 2^31). */
tn_status tn__schedule_add(tn__schedule *schedule, tn__act act, tn_error *error);
tn_status tn__schedule_copy(tn__schedule *to, const tn__schedule *from, tn_error *error);

typedef struct tn__replay {
    uint64_t peak;                /* bytes at the worst act, without fixed_bytes; saturating */
    uint32_t peak_act;            /* the first where it is so */
    uint64_t cost;                /* of all runs, without copies and codecs; saturating */
    uint64_t out_bytes, in_bytes; /* over the link */
    uint64_t host_peak;           /* bytes on the host: from OUT to the last IN of it */
} tn__replay;

/* The judge of schedules: whether one may be run (each job at least once, what it reads is there,
 * jobs run again only where they may, orders and limits kept, copies and codecs in pairs, outputs
 * there at the end) and what it needs. It shares nothing with passes.
 *
 * profile   NULL or [schedule->count] bytes while each act is done
 * Errors: E_INVALID with the act and why; E_NO_MEMORY. Cost: O(acts + operands). */
tn_status tn__replay_schedule(const tn__work *work, const tn__schedule *schedule,
                              tn__replay *replay, uint64_t *profile, tn_error *error);

static inline const uint32_t *tn__job_inputs(const tn__work *work, uint32_t job, bool again,
                                             uint32_t *count) {
    const tn__job *it = &work->jobs[job];
    *count = again ? it->again_input_count : it->input_count;
    return work->operands + (again ? it->again_input_first : it->input_first);
}
static inline const uint32_t *tn__job_outputs(const tn__work *work, uint32_t job, bool again,
                                              uint32_t *count) {
    const tn__job *it = &work->jobs[job];
    *count = again ? it->again_output_count : it->output_count;
    return work->operands + (again ? it->again_output_first : it->output_first);
}

/* --- making one ------------------------------------------------------------------------------ */

/* A work in the making: jobs in order, with lists of their own; `tn__work_end` lays it out flat. */
typedef struct tn__work_job {
    tn__job job; /* lists of it are not read */
    const uint32_t *inputs, *outputs, *again_inputs, *again_outputs, *after, *limits;
} tn__work_job;
/* jobs [job_count] and values [value_count] (their readers and makers are found); counts of lists
 * are those in `job`; again_inputs NULL: as the first time. All is copied into `arena`.
 * Errors: E_INVALID (an operand that is no value, made twice, read before it is made, made only
 * again; in place of what is no input or has another size), E_NO_MEMORY.
 * Cost: O(jobs + operands). */
tn_status tn__work_make(tn__arena *arena, const tn__work_job *jobs, uint32_t job_count,
                        const tn__value *values, uint32_t value_count, tn__work *work,
                        tn_error *error);

#endif
