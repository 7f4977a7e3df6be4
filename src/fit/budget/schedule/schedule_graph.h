/* schedule_graph.h - the schedule graph: a program as passes see it, a directed acyclic graph
 * (`dag`) of jobs that run and values that occupy memory.
 *
 *     job      an operator that runs: its cost, the values that it reads and makes
 *     value    the memory of a tensor and of its views: bytes, the job that makes it, its readers
 *     schedule a list of actions: when jobs run (also repeatedly), and when values are copied
 *
 * Live ranges follow from the list of actions; a schedule contains no releases. A value is live
 * from a definition to the last read before its next definition, or before the end of the list. A
 * later run of a job is a repeat: it makes all outputs of the job again, and an output without a
 * reader is live only while the repeat runs. Values that exist from the start are live during the
 * first action, even if no job reads them.
 *
 * Costs are integers in one unit: picoseconds, or the unit of a problem file. Bytes are counted as
 * the occupancy counts them (aligned). Memory that always exists (weights) is `fixed_bytes`.
 */
#ifndef TN_SCHEDULE_SCHEDULE_GRAPH_H
#define TN_SCHEDULE_SCHEDULE_GRAPH_H

#include <tenure/graph.h>

#include "base/lists.h"

enum { /* flags of a value: tn__dag_value.flags */
       /* the value is never evicted, copied or encoded, because something outside the schedule
        * needs it; it is live from its definition, or the start, to the end */
       TN__VALUE_HELD = 1u << 0,
       TN__VALUE_KEPT = 1u << 1,   /* the value is an output, live at the end */
       TN__VALUE_COPIES = 1u << 2, /* the value may be copied to the host and back (OUT and IN) */
       /* a rule of the user decides about the value, so it is never encoded */
       TN__VALUE_RULED = 1u << 3
};

typedef struct tn__dag_value {
    uint64_t bytes;
    /* the job that makes the value; TN_NONE: the value exists from the start, and cannot be
     * recomputed */
    uint32_t maker;
    /* the tensor that owns the value's memory; TN_NONE: a problem without a graph */
    tn_tensor_id tensor;
    uint32_t flags; /* TN__VALUE_*: flags of the value */
    uint32_t pad;   /* the part of `bytes` that is padding up to the alignment */
} tn__dag_value;

enum {                            /* flags of a job: tn__job.flags */
       TN__JOB_REPEATS = 1u << 0, /* the job may be repeated */
       /* Only a rule of the user may repeat the job, because ranks communicate after it: rules are
        * the same on all ranks, and the choices of a pass may not be. Passes never see the flag */
       TN__JOB_BY_RULE = 1u << 1
};

typedef struct tn__job {
    /* the operator that the job runs; TN_NONE: a problem without a graph, or communication between
     * ranks */
    tn_op_id op;
    uint32_t flags;          /* TN__JOB_*: flags of the job */
    uint64_t cost;           /* cost of the first run */
    uint64_t recompute_cost; /* cost of a repeat */
    uint64_t scratch;        /* bytes of temporary memory while the job runs */
    /* Ranges in `operands` of values, each value once. A repeat reads and makes other values if the
     * operator has a repeat form (tn_op_form_of): it may need fewer inputs, and makes fewer
     * outputs. */
    uint32_t input_first, input_count, output_first, output_count;
    uint32_t recompute_input_first, recompute_input_count, recompute_output_first,
        recompute_output_count;
    /* range in `others` of the jobs that must run before this one for a reason other than a value,
     * in ascending order */
    uint32_t after_first, after_count;
    /* range in `others` of the jobs that overwrite an input of this job, or its source; every run
     * of this job, first or repeated, comes before the first of them */
    uint32_t limit_first, limit_count;
    /* an input as large as the first output, which takes over its memory if its live range ends
     * here; TN_NONE: the output has memory of its own */
    uint32_t inplace;
    uint32_t pad; /* the largest padding of a buffer of `scratch` */
} tn__job;

/* A schedule graph. Its jobs are in program order, which is a valid order of execution. */
typedef struct tn__dag {
    const tn__job *jobs;         /* [job_count] all jobs */
    const tn__dag_value *values; /* [value_count] all values */
    const uint32_t *operands, *others;
    /* [values] the jobs with a first run that reads the value. Together with `maker` these are all
     * accesses of a schedule that runs each job once, in the order of the list */
    tn__lists reads;
    tn__lists readers; /* [values] the jobs that read the value, in a first run or in a repeat */
    uint32_t job_count, value_count;
    /* bytes that are always occupied (weights); no other sum of bytes in a schedule includes
     * them */
    uint64_t fixed_bytes;
    /* Sizes are multiples of the alignment. The topmost buffer of a layout needs no padding, so a
     * layout may be smaller than the live bytes, by at most this number */
    uint64_t slack;
    uint64_t cost;   /* sum of the costs of all jobs, each run once; saturating */
    bool is_ordered; /* first runs must keep the order of the list */
} tn__dag;

typedef enum tn__action_kind {
    TN__RUN, /* the action runs a job */
    /* the action starts a copy of a value to the host, after the runs that precede it in the
     * list */
    TN__OUT,
    /* the action makes later runs wait until the value's copy to the host is done; the value's
     * memory ends here */
    TN__SETTLE,
    /* the action copies a value back; the value's memory begins here, and its readers wait for the
     * copy */
    TN__IN,
    /* the action makes the encoded form of a value; the value's memory ends here, or after the
     * readers that follow before it is decoded */
    TN__ENCODE,
    /* the action makes a value from its encoded form; the form ends with its last DECODE */
    TN__DECODE
} tn__action_kind;

typedef struct tn__action {
    uint8_t kind;   /* kind of the action, a tn__action_kind */
    uint8_t codec;  /* for ENCODE and DECODE: the tn_codec */
    uint32_t what;  /* for RUN the job, otherwise the value */
    uint64_t bytes; /* for ENCODE: bytes of the encoded form */
} tn__action;

typedef struct tn__schedule {
    tn_context context;
    tn__action *actions; /* [count] */
    size_t room;
    uint32_t count;
} tn__schedule;
void tn__schedule_init(tn__schedule *schedule, const tn_context *context);
void tn__schedule_release(tn__schedule *schedule);
/* Appends an action. Errors: E_NO_MEMORY; E_EXHAUSTED (more than 2^31 actions). */
tn_status tn__schedule_add(tn__schedule *schedule, tn__action action, tn_error *error);
tn_status tn__schedule_copy(tn__schedule *to, const tn__schedule *from, tn_error *error);
/* Appends one run of each job, in program order. Errors: those of tn__schedule_add. */
tn_status tn__schedule_plain(const tn__dag *dag, tn__schedule *schedule, tn_error *error);
/* Computes the peak of the schedule that runs each job once, in program order. Errors: those of
 * tn__replay_schedule. */
tn_status tn__dag_plain_peak(const tn__dag *dag, const tn_context *context, uint64_t *peak,
                             tn_error *error);

typedef struct tn__replay {
    uint64_t peak; /* largest sum of live bytes during an action, without fixed_bytes; saturating */
    uint32_t peak_action; /* the first action during which the live bytes equal `peak` */
    uint64_t cost;        /* sum of the costs of all runs, without copies and codecs; saturating */
    uint64_t out_bytes, in_bytes; /* bytes copied over the host link to the host, and back */
    /* largest sum of bytes on the host; a copy stays there from its OUT to its last IN */
    uint64_t host_peak;
} tn__replay;

/* The judge of schedules: checks that a schedule is valid, and measures its memory and cost. A
 * schedule is valid if each job runs at least once, every input is live when it is read, only
 * repeatable jobs are repeated, ordering constraints and limits are kept, copies and codecs come in
 * pairs, and outputs are live at the end. The judge shares no code with the passes.
 *
 * profile   NULL, or [schedule->count] the bytes during each action
 * Errors: E_INVALID with the action and the reason; E_NO_MEMORY.
 * Cost: O(actions + operands).
 */
tn_status tn__replay_schedule(const tn__dag *dag, const tn__schedule *schedule, tn__replay *replay,
                              uint64_t *profile, tn_error *error);

static inline const uint32_t *tn__job_inputs(const tn__dag *dag, uint32_t job, bool recompute,
                                             uint32_t *count) {
    const tn__job *it = &dag->jobs[job];
    *count = recompute ? it->recompute_input_count : it->input_count;
    return dag->operands + (recompute ? it->recompute_input_first : it->input_first);
}
static inline const uint32_t *tn__job_outputs(const tn__dag *dag, uint32_t job, bool recompute,
                                              uint32_t *count) {
    const tn__job *it = &dag->jobs[job];
    *count = recompute ? it->recompute_output_count : it->output_count;
    return dag->operands + (recompute ? it->recompute_output_first : it->output_first);
}

/* Returns the last job with a first run that reads a value, or else the job that makes it; TN_NONE
 * if there is no such job. */
static inline uint32_t tn__dag_last(const tn__dag *dag, uint32_t value) {
    uint32_t last = tn__lists_last(&dag->reads, value);
    return last != TN_NONE ? last : dag->values[value].maker;
}

/* --- building a schedule graph ---------------------------------------------------------------- */

/* A job of a schedule graph that is being built, with lists of its own, which tn__dag_make copies
 * into the arrays of the graph. */
typedef struct tn__dag_job {
    tn__job job; /* the lengths of its lists are used, but not the places of the lists */
    const uint32_t *inputs, *outputs, *recompute_inputs, *recompute_outputs, *after, *limits;
} tn__dag_job;
/* Makes a schedule graph from `jobs` [job_count] and `values` [value_count]; it computes readers
 * and makers. The lengths of the lists of a job are those in its `job`. If recompute_inputs is
 * NULL, a repeat reads the inputs of the first run. Everything is copied into `arena`. Errors:
 * E_INVALID (an operand that is not a value, is made twice, is read before it is made, or is made
 * only by repeats; an output written over a value that is no input or has another size),
 * E_UNSUPPORTED (all values together have more than 2^61 bytes), E_NO_MEMORY. Cost: O(jobs +
 * operands). */
tn_status tn__dag_make(tn__arena *arena, const tn__dag_job *jobs, uint32_t job_count,
                       const tn__dag_value *values, uint32_t value_count, tn__dag *dag,
                       tn_error *error);

#endif
