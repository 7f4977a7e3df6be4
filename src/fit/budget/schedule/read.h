/* read.h - the state of the translation from a program to jobs and values. read.c, which describes
 * the translation, and read_messages.c share it. */
#ifndef TN_SCHEDULE_READ_H
#define TN_SCHEDULE_READ_H

#include "fit/budget/schedule/lower.h"

/* a growing list of numbers; the lists of all jobs follow each other in it */
typedef struct tn__read_list {
    uint32_t *items;
    size_t count, room;
} tn__read_list;

/* indices in tn__read_state.lists at which the lists of a job begin */
typedef struct tn__read_job {
    size_t inputs, outputs, recompute_inputs, recompute_outputs, after, limits;
} tn__read_job;

typedef struct tn__read_state {
    tn__dag_map *map;
    const tn_graph *graph;
    const tn_costs *costs;
    const tn_context *context;
    const tn_instruction *instructions;
    tn__arena *arena, scratch;
    bool *owns; /* [tensors] the tensor has memory of its own, according to the occupancy */
    /* [tensors] the tensor over which this one is written, according to the occupancy; TN_NONE: it
     * is not written over another */
    tn_tensor_id *over;
    /* [tensors] for a root, the last operator that makes a view smaller than the root; TN_NONE: no
     * such operator yet */
    tn_op_id *last_part;
    /* [values] the value can be neither recomputed nor copied, so it stays live until its last
     * read */
    bool *stays;
    /* [operators] first instruction in the operator's blocks; TN_NONE: it has no blocks */
    uint32_t *begin;
    tn_occupancy *occupancy; /* the liveness analysis of the program */
    tn__dag_job *jobs;
    tn__read_job *places;
    tn__dag_value *values;
    uint32_t job_count, value_count;
    uint64_t slack; /* the largest padding of a value or of scratch */
    /* [values or jobs] number of the last list that contains the item, to find duplicates */
    uint32_t *stamp;
    uint32_t stamps;
    /* [tensors] for a root (a tensor that owns memory), the last job of the current walk that
     * writes into it; TN_NONE: no job */
    uint32_t *changer;
    /* [tensors] the job that makes this view; TN_NONE: the view is applied directly before its
     * readers */
    uint32_t *pinned;
    tn__read_list lists, reads;
    /* The following fields are for the program of one of several ranks; for other programs they are
     * NULL or false. */
    bool communicates; /* the program communicates with other ranks */
    /* [operators] the operator waits for another stream, or another stream waits for it, so it is a
     * job even if it is a view */
    bool *marked;
    /* [tensors] the tensor is defined more than once, for example because it is received again from
     * another rank */
    bool *several;
    /* [steps] head of the list of messages that are known to be complete at this step; TN_NONE: no
     * message */
    uint32_t *due;
    /* head of the list of messages of which no step knows that they are complete; TN_NONE: there is
     * no such message */
    uint32_t never;
    /* [steps] for a message, the next one in its list, `due` or `never`; TN_NONE: this is the
     * last */
    uint32_t *next_due;
    /* [2 * steps] for each message, the two values that may not be evicted until it is complete;
     * TN_NONE: no value */
    uint32_t *held;
    tn_error *error;
} tn__read_state;

static inline tn_status tn__read_no_memory(const tn__read_state *s) {
    return tn__no_memory(s->error, "a program's jobs");
}

static inline bool tn__read_is_static(const tn__read_state *s, tn_tensor_id id) {
    return tn_tensor_is_static(tn_graph_tensor(s->graph, id));
}

/* Returns the tensor that has an output of an operator in its memory, if the output is a view of an
 * input; otherwise TN_NONE. */
static inline tn_tensor_id tn__read_view(const tn__read_state *s, tn_op_id id, uint32_t output) {
    tn_tensor_id tensor = tn_graph_op(s->graph, id)->outputs[output];
    if (tensor == TN_NONE || s->owns[tensor]) return TN_NONE;
    return tn_op_view(s->graph, id, output).source;
}

/* Adds a value for a tensor with memory of its own (read.c). */
tn_status tn__read_new_value(tn__read_state *s, tn_tensor_id id);

/* Lists of jobs: tn__read_begin_list begins a new list, and tn__read_add appends `item` to it
 * unless it is TN_NONE or the list contains it already. */
size_t tn__read_begin_list(tn__read_state *s);
tn_status tn__read_add(tn__read_state *s, uint32_t item, uint32_t *count);
/* Adds a tensor to those that the current job reads. */
tn_status tn__read_note(tn__read_state *s, tn_tensor_id id);

/* Reads the communication of a program that is one of several ranks (read_messages.c). Does nothing
 * for other programs. */
tn_status tn__read_messages(tn__read_state *s);
/* Adds one job for the consecutive instructions from `step` on that run no operator. *next: the
 * first instruction after them. */
tn_status tn__read_message_job(tn__read_state *s, uint32_t step, uint32_t *next);
/* Appends values to the inputs of the current job: the values of messages that are known to be
 * complete at one of the steps from `first` to `last` - 1, as long as the values are numbered below
 * `below`. */
tn_status tn__read_held(tn__read_state *s, uint32_t first, uint32_t last, uint32_t below,
                        uint32_t *count);
/* Whether an instruction belongs to the job of an operator whose result the ranks combine
 * (read.c). */
bool tn__read_is_combined(const tn__read_state *s, uint32_t step);
/* Must be called after all jobs are added: ends the use of each value by messages at the job that
 * knows the message to be complete. */
void tn__read_messages_end(tn__read_state *s);

#endif
