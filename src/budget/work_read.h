/* work_read.h - a program on its way to jobs and values; work_read.c says how. */
#ifndef TN_BUDGET_WORK_READ_H
#define TN_BUDGET_WORK_READ_H

#include "budget/map.h"

typedef struct tn__read_list { /* of all jobs, one behind the other */
    uint32_t *items;
    size_t count, room;
} tn__read_list;

typedef struct tn__read_job { /* its lists, into tn__read_state.lists */
    size_t inputs, outputs, again_inputs, again_outputs, after, limits;
} tn__read_job;

typedef struct tn__read_state {
    tn__work_map *map;
    const tn_graph *graph;
    const tn_costs *costs;
    const tn_context *context;
    const tn_instruction *instructions;
    tn__arena *arena, scratch;
    bool *owns;          /* [tensors] memory of its own, by the occupancy */
    tn_tensor_id *over;  /* [tensors] whose memory it takes in place, by the occupancy; TN_NONE */
    tn_op_id *last_part; /* [tensors] of a root; TN_NONE */
    bool *stays;         /* [values] cannot be had again, nor copied */
    uint32_t *begin;     /* [operators] first instruction of its blocks; TN_NONE: none */
    tn_occupancy *occupancy; /* of the program */
    tn__work_job *jobs;
    tn__read_job *places;
    tn__value *values;
    uint32_t job_count, value_count;
    uint32_t *stamp; /* [values or jobs] 1 + the list that has it already */
    uint32_t stamps;
    uint32_t *changer; /* [tensors] job that writes into this root, on the way */
    uint32_t *pinned;  /* [tensors] job that makes this view; TN_NONE: it is taken where needed */
    tn__read_list lists, reads;
    /* Of a program of one of several ranks; else NULL. */
    bool talks;     /* it is one */
    bool *marked;   /* [operators] waits for another stream, or is waited for: a job of its own */
    bool *several;  /* [tensors] defined more than once, as what comes from others anew */
    uint32_t *due;  /* [steps] the first message that is known to be over there; TN_NONE */
    uint32_t never; /* of those of which nobody knows; TN_NONE */
    uint32_t *next_due; /* [steps] of a message, the next one; TN_NONE */
    uint32_t *held;     /* [2 steps] values that a message holds until then; TN_NONE */
    tn_error *error;
} tn__read_state;

static inline tn_status tn__read_no_memory(const tn__read_state *s) {
    return tn__no_memory(s->error, "a program's jobs");
}

static inline bool tn__read_is_static(const tn__read_state *s, tn_tensor_id id) {
    return tn_tensor_is_static(tn_graph_tensor(s->graph, id));
}

/* Whether an operator's output lies in what it reads. */
static inline tn_tensor_id tn__read_view(const tn__read_state *s, tn_op_id id, uint32_t output) {
    tn_tensor_id tensor = tn_graph_op(s->graph, id)->outputs[output];
    if (tensor == TN_NONE || s->owns[tensor]) return TN_NONE;
    return tn_op_view(s->graph, id, output).source;
}

/* work_read.c: memory of its own. */
tn_status tn__read_new_value(tn__read_state *s, tn_tensor_id id);

/* work_job.c: the job of an operator, whose instruction is at `step`. */
tn_status tn__read_job_of(tn__read_state *s, tn_op_id op, uint32_t step);
/* Lists of jobs: `item` is added to the one in hand, which begins with tn__read_begin_list, unless
 * it is there already or TN_NONE. */
size_t tn__read_begin_list(tn__read_state *s);
tn_status tn__read_add(tn__read_state *s, uint32_t item, uint32_t *count);
/* A tensor that the job in hand reads. */
tn_status tn__read_note(tn__read_state *s, tn_tensor_id id);
/* When all jobs are there: which come before others for another reason than a value. */
tn_status tn__read_orders(tn__read_state *s);

/* work_talk.c: what there is to know of a program of one of several ranks; nothing of others. */
tn_status tn__read_talks(tn__read_state *s);
/* The job of the instructions from `step` on that run no operator. *next: behind them. */
tn_status tn__read_talk(tn__read_state *s, uint32_t step, uint32_t *next);
/* Adds to the inputs in hand what messages hold that are known to be over at one of the steps. */
tn_status tn__read_held(tn__read_state *s, uint32_t first, uint32_t last, uint32_t below,
                        uint32_t *count);
/* When all jobs are there. */
void tn__read_talks_end(tn__read_state *s);

#endif
