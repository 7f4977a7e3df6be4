/* schedule_graph.h - the schedule graph: a program as passes see it, a directed acyclic graph
 * (`dag`) of jobs that run and values that occupy memory.
 *
 *     job      an operator that runs: its cost, the values that it reads and makes
 *     value    the memory of a tensor and of its views: bytes, its maker, its readers
 *     schedule a list of actions: when jobs run (also repeatedly), and when values are copied
 *
 * Live ranges follow from the list; a schedule contains no releases. A value is live from a
 * definition to the last read before its next definition, or before the end of the list. A later
 * run of a job is a repeat: it makes all of its outputs again, and outputs without a reader end
 * when it ends. Values that exist from the start are live during the first action, even if no job
 * reads them.
 *
 * Costs are integers of one unit: picoseconds, or the unit of a problem file. Bytes are counted as
 * the occupancy counts them (aligned). Memory that always exists (weights) is `fixed_bytes`.
 */
#ifndef TN_SCHEDULE_SCHEDULE_GRAPH_H
#define TN_SCHEDULE_SCHEDULE_GRAPH_H

#include <tenure/graph.h>

#include "base/lists.h"

enum {                             /* tn__dag_value.flags */
       TN__VALUE_HELD = 1u << 0,   /* never evicted, copied or encoded, because something else
                                   * needs it; live from its definition, or the start, to the end */
       TN__VALUE_KEPT = 1u << 1,   /* live at the end: an output */
       TN__VALUE_COPIES = 1u << 2, /* may be copied by OUT and IN */
       TN__VALUE_RULED = 1u << 3   /* a rule of the user decides about it: never encoded */
};

typedef struct tn__dag_value {
    uint64_t bytes;
    uint32_t maker;      /* job; TN_NONE: exists from the start, and cannot be recomputed */
    tn_tensor_id tensor; /* the tensor that owns the memory; TN_NONE: a problem without a graph */
    uint32_t flags;      /* TN__VALUE_* */
} tn__dag_value;

enum {                           /* tn__job.flags */
       TN__JOB_REPEATS = 1u << 0 /* may be repeated */
};

typedef struct tn__job {
    tn_op_id op;    /* TN_NONE: a problem without a graph, or communication between ranks */
    uint32_t flags; /* TN__JOB_* */
    uint64_t cost;  /* cost of the first run */
    uint64_t recompute_cost; /* cost of a repeat */
    uint64_t scratch;        /* bytes while it runs */
    /* Into operands: values, each once. A repeat reads and makes other values where the operator
     * has a repeat form (tn_op_again): it may need fewer inputs, and makes fewer outputs. */
    uint32_t input_first, input_count, output_first, output_count;
    uint32_t recompute_input_first, recompute_input_count, recompute_output_first,
        recompute_output_count;
    uint32_t after_first, after_count; /* into others: jobs that must run before this one for a
                                        * reason other than a value; ascending */
    uint32_t limit_first, limit_count; /* into others: jobs that overwrite an input or a source
                                        * of this one; every run of this job, first or repeated,
                                        * comes before the first of them */
    uint32_t inplace; /* an input of the same size that gives its memory to the first output if
                       * its live range ends here; TN_NONE: the output has its own memory */
} tn__job;

/* Jobs stand in program order, which is a valid order of execution. */
typedef struct tn__dag {
    const tn__job *jobs;         /* [job_count] */
    const tn__dag_value *values; /* [value_count] */
    const uint32_t *operands, *others;
    tn__lists
        reads; /* [values] the jobs with a first run that reads it: with `maker`, all accesses of
                        * a schedule that runs each job once, in the order of the list */
    tn__lists readers; /* [values] the jobs that read it, in a first run or a repeat */
    uint32_t job_count, value_count;
    uint64_t fixed_bytes; /* always occupied; not included in any of the sums below */
    uint64_t cost;        /* sum over all jobs, each run once; saturating */
    bool is_ordered;      /* first runs keep the order of the list */
} tn__dag;

typedef enum tn__action_kind {
    TN__RUN,    /* a job */
    TN__OUT,    /* copies a value to the host, after the runs that precede it in the list */
    TN__SETTLE, /* later runs wait until that copy is done; the value's memory ends here */
    TN__IN,     /* copies the value back; its memory begins here, and its readers wait for the
                 * copy */
    TN__ENCODE, /* makes the encoded form; the value's memory ends here, or after the readers
                 * that follow before it is decoded */
    TN__DECODE  /* makes the value from its encoded form, which ends with the last DECODE */
} tn__action_kind;

typedef struct tn__action {
    uint8_t kind;   /* tn__action_kind */
    uint8_t codec;  /* ENCODE, DECODE: tn_codec */
    uint32_t what;  /* RUN: job; else value */
    uint64_t bytes; /* ENCODE: size of the encoded form */
} tn__action;

typedef struct tn__schedule {
    tn_context context;
    tn__action *actions; /* [count] */
    size_t room;
    uint32_t count;
} tn__schedule;
void tn__schedule_init(tn__schedule *schedule, const tn_context *context);
void tn__schedule_release(tn__schedule *schedule);
/* Errors: E_NO_MEMORY; E_EXHAUSTED (more actions than 2^31). */
tn_status tn__schedule_add(tn__schedule *schedule, tn__action action, tn_error *error);
tn_status tn__schedule_copy(tn__schedule *to, const tn__schedule *from, tn_error *error);
/* Adds each job once, in the given order. Errors as tn__schedule_add. */
tn_status tn__schedule_plain(const tn__dag *dag, tn__schedule *schedule, tn_error *error);
/* The peak of that schedule. Errors: those of tn__replay_schedule. */
tn_status tn__dag_plain_peak(const tn__dag *dag, const tn_context *context, uint64_t *peak,
                             tn_error *error);

typedef struct tn__replay {
    uint64_t peak;        /* highest bytes during an action, without fixed_bytes; saturating */
    uint32_t peak_action; /* the first action with these bytes */
    uint64_t cost;        /* sum over all runs, without copies and codecs; saturating */
    uint64_t out_bytes, in_bytes; /* copied over the host link */
    uint64_t host_peak;           /* highest bytes on the host; a copy stays from its OUT to its
                                   * last IN */
} tn__replay;

/* The judge of schedules. It checks that a schedule is valid and measures the memory and the cost.
 * A schedule is valid if each job runs at least once, every input is live when it is read, only
 * repeatable jobs are repeated, orders and limits are kept, copies and codecs come in pairs, and
 * outputs are live at the end. The judge shares no code with the passes.
 *
 * profile   NULL, or [schedule->count] the bytes during each action
 * Errors: E_INVALID with the action and the reason; E_NO_MEMORY. Cost: O(actions + operands).
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

/* The last job with a first run that reads or makes a value; TN_NONE: no such job. */
static inline uint32_t tn__dag_last(const tn__dag *dag, uint32_t value) {
    uint32_t last = tn__lists_last(&dag->reads, value);
    return last != TN_NONE ? last : dag->values[value].maker;
}

/* --- building a schedule graph ---------------------------------------------------------------- */

/* A job of a schedule graph under construction, with lists of its own; tn__dag_make copies them
 * into the shared lists. */
typedef struct tn__dag_job {
    tn__job job; /* the positions of lists in it are not read */
    const uint32_t *inputs, *outputs, *recompute_inputs, *recompute_outputs, *after, *limits;
} tn__dag_job;
/* jobs [job_count] and values [value_count]; readers and makers are computed. The counts of lists
 * are those in `job`. recompute_inputs NULL: a repeat reads the same values as the first run.
 * Everything is copied into `arena`. Errors: E_INVALID (an operand that is not a value, is made
 * twice, is read before it is made, or is made only by repeats; an in-place value that is not an
 * input or has another size), E_NO_MEMORY. Cost: O(jobs + operands). */
tn_status tn__dag_make(tn__arena *arena, const tn__dag_job *jobs, uint32_t job_count,
                       const tn__dag_value *values, uint32_t value_count, tn__dag *dag,
                       tn_error *error);

#endif
