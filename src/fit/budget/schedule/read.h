/* read.h - the state of the translation from a program to jobs and values, shared by read.c, which
 * describes the steps, and read_messages.c. */
#ifndef TN_SCHEDULE_READ_H
#define TN_SCHEDULE_READ_H

#include "fit/budget/schedule/lower.h"

typedef struct tn__read_list { /* the lists of all jobs, one after the other */
    uint32_t *items;
    size_t count, room;
} tn__read_list;

typedef struct tn__read_job { /* where its lists begin, in tn__read_state.lists */
    size_t inputs, outputs, recompute_inputs, recompute_outputs, after, limits;
} tn__read_job;

typedef struct tn__read_state {
    tn__dag_map *map;
    const tn_graph *graph;
    const tn_costs *costs;
    const tn_context *context;
    const tn_instruction *instructions;
    tn__arena *arena, scratch;
    bool *owns;              /* [tensors] has memory of its own, according to the occupancy */
    tn_tensor_id *over;      /* [tensors] the tensor that gives it its memory in place, according
                              * to the occupancy; TN_NONE */
    tn_op_id *last_part;     /* [tensors] last partial view of a root; TN_NONE */
    bool *stays;             /* [values] can be neither recomputed nor copied */
    uint32_t *begin;         /* [operators] first instruction of its blocks; TN_NONE: it has no
                              * blocks */
    tn_occupancy *occupancy; /* liveness analysis of the program */
    tn__dag_job *jobs;
    tn__read_job *places;
    tn__dag_value *values;
    uint32_t job_count, value_count;
    uint32_t *stamp; /* [values or jobs] 1 + the last list that contains it */
    uint32_t stamps;
    uint32_t *changer; /* [tensors] the latest job so far that writes into this root */
    uint32_t *pinned;  /* [tensors] job that makes this view; TN_NONE: the view is applied at its
                        * readers */
    tn__read_list lists, reads;
    /* For the program of one rank among several; NULL otherwise. */
    bool communicates; /* the program is one of these */
    bool *marked;      /* [operators] waits for another stream, or is waited for, and therefore is a
                     * job of its own */
    bool *several;     /* [tensors] defined more than once, for example received again from another
                     * rank */
    uint32_t *due;     /* [steps] the first message that is known to be complete at this step;
                     * TN_NONE */
    uint32_t never;    /* first message with an end that is never known; TN_NONE */
    uint32_t *next_due; /* [steps] next message in the same list; TN_NONE */
    uint32_t *held;     /* [2 steps] values that a message holds until it is complete; TN_NONE */
    tn_error *error;
} tn__read_state;

static inline tn_status tn__read_no_memory(const tn__read_state *s) {
    return tn__no_memory(s->error, "a program's jobs");
}

static inline bool tn__read_is_static(const tn__read_state *s, tn_tensor_id id) {
    return tn_tensor_is_static(tn_graph_tensor(s->graph, id));
}

/* The tensor in which an operator's output lies if the output is a view of an input; TN_NONE
 * otherwise. */
static inline tn_tensor_id tn__read_view(const tn__read_state *s, tn_op_id id, uint32_t output) {
    tn_tensor_id tensor = tn_graph_op(s->graph, id)->outputs[output];
    if (tensor == TN_NONE || s->owns[tensor]) return TN_NONE;
    return tn_op_view(s->graph, id, output).source;
}

/* read.c: adds a value for a tensor with memory of its own. */
tn_status tn__read_new_value(tn__read_state *s, tn_tensor_id id);

/* Lists of jobs: tn__read_begin_list begins the current list, and tn__read_add appends `item`
 * unless the list contains it already or it is TN_NONE. */
size_t tn__read_begin_list(tn__read_state *s);
tn_status tn__read_add(tn__read_state *s, uint32_t item, uint32_t *count);
/* Notes a tensor that the current job reads. */
tn_status tn__read_note(tn__read_state *s, tn_tensor_id id);

/* read_messages.c: reads the communication of a program that is one of several ranks; does nothing
 * for other programs. */
tn_status tn__read_messages(tn__read_state *s);
/* Adds the job of the instructions from `step` on that run no operator. *next: the first
 * instruction after them. */
tn_status tn__read_message_job(tn__read_state *s, uint32_t step, uint32_t *next);
/* Appends to the current inputs the values held by messages that are known to be complete at one of
 * the steps. */
tn_status tn__read_held(tn__read_state *s, uint32_t first, uint32_t last, uint32_t below,
                        uint32_t *count);
/* Called after all jobs are added. */
void tn__read_messages_end(tn__read_state *s);

#endif
