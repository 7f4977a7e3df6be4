/* bound.h - lower bounds that hold for every schedule: on memory, and on time within a budget. */
#ifndef TN_BUDGET_BOUND_H
#define TN_BUDGET_BOUND_H

#include "fit/budget/pass.h"

/* A lower bound on the peak of every schedule, in any order and with any repeats. With `alone` (no
 * copies, no codecs), a value that cannot be recomputed counts until its last read. Cost:
 * O(operands of makers of inputs). */
uint64_t tn__bound_bytes(const tn__work *work, bool alone);

/* Bytes of operands and scratch of a first run; an output that may take an input's memory is
 * assumed to take it. */
uint64_t tn__bound_of_job(const tn__work *work, uint32_t job);
bool tn__bound_in(const uint32_t *list, uint32_t count, uint32_t value);

/* Raises run->bound and run->least_bytes as far as about `effort` looks can prove.
 * Errors: E_INFEASIBLE (no schedule that the run allows is within its budget), E_NO_MEMORY,
 * E_STOPPED.
 */
tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort);

enum { TN__BOUND_MOMENTS = 64 };

/* For a few jobs at which memory is short, considered one at a time: the values that are best kept
 * during the job's first run, if jobs run in the order of the list. */
typedef struct tn__bound_advice {
    uint32_t count;
    uint32_t jobs[TN__BOUND_MOMENTS]; /* [count] ascending */
    int8_t *rows[TN__BOUND_MOMENTS];  /* [values] 1: live at that job; -1: recomputed after it;
                                       * 0: neither, or unknown */
} tn__bound_advice;
/* Errors: E_NO_MEMORY, E_STOPPED. Cost: as tn__bound_raise. */
tn_status tn__bound_advise(tn__pass_run *run, uint64_t effort, tn__bound_advice *advice);

/* The bytes needed at each job's first run without repeats, in any order (`is_ordered`: in the
 * order of the list); 0 for jobs that the effort, in looks, did not cover. NULL: out of memory. */
uint64_t *tn__bound_profile(const tn__work *work, bool is_ordered, uint64_t effort,
                            tn__arena *arena, const tn_context *context);

/* --- minimum cut between a source and a sink ------------------------------------------------ */

#define TN__FLOW_MOST ((int64_t)1 << 60) /* capacity of an arc that is never cut */

typedef struct tn__bound_flow {
    uint32_t *first;              /* [nodes] first arc; `next` links the others */
    uint32_t *to, *next;          /* [arcs]; arcs i and i ^ 1 are the two directions of one arc */
    int64_t *left, *full;         /* [arcs] */
    uint32_t *level, *at, *queue; /* [nodes] */
    uint32_t node_count, arc_count, arc_room;
    uint64_t effort; /* arcs visited so far */
} tn__bound_flow;
bool tn__flow_room(tn__bound_flow *flow, uint32_t nodes, uint32_t arcs, tn__arena *arena);
void tn__flow_clear(tn__bound_flow *flow);
/* Returns the arc's index, for `full`. */
uint32_t tn__flow_arc(tn__bound_flow *flow, uint32_t from, uint32_t to, int64_t capacity);
/* The capacity of a minimum cut; afterwards, nodes on the source's side have a `level` other than
 * TN_NONE. -1: the total effort exceeded `most_effort`. */
int64_t tn__flow_cut(tn__bound_flow *flow, uint32_t source, uint32_t sink, uint64_t most_effort);

#endif
