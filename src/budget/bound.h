/* bound.h - what no schedule can do without: bytes, and time within a budget. */
#ifndef TN_BUDGET_BOUND_H
#define TN_BUDGET_BOUND_H

#include "budget/pass.h"

/* No schedule has a lower peak, in any order and whatever runs again. Without copies and codecs
 * (`alone`) what cannot be made again counts wherever it is still read. Cost: O(operands of
 * makers of inputs). */
uint64_t tn__bound_bytes(const tn__work *work, bool alone);

/* Operands and scratch of a first run; an output that may take an input's memory does. */
uint64_t tn__bound_of_job(const tn__work *work, uint32_t job);
bool tn__bound_in(const uint32_t *list, uint32_t count, uint32_t value);

/* Raises run->bound and run->least_bytes by what can be proved with so many looks, about.
 * Errors: E_INFEASIBLE (no schedule of what the run allows is within its budget), E_NO_MEMORY,
 * E_STOPPED.
 */
tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort);

enum { TN__BOUND_MOMENTS = 64 };

/* What is best kept where memory is short, by itself: of each value at the first runs of a few
 * jobs, when they run in the order of the list. */
typedef struct tn__bound_advice {
    uint32_t count;
    uint32_t jobs[TN__BOUND_MOMENTS]; /* [count] ascending */
    int8_t *rows[TN__BOUND_MOMENTS];  /* [values] 1: there meanwhile; -1: made again behind it; 0:
                                       * neither, or not known */
} tn__bound_advice;
/* Errors: E_NO_MEMORY, E_STOPPED. Cost: as tn__bound_raise. */
tn_status tn__bound_advise(tn__pass_run *run, uint64_t effort, tn__bound_advice *advice);

/* Bytes across each job's first run where everything is kept, whatever the order (`is_ordered`: in
 * the order of the list); 0 of those for which the effort, in looks, did not reach. NULL: no
 * memory. */
uint64_t *tn__bound_profile(const tn__work *work, bool is_ordered, uint64_t effort,
                            tn__arena *arena, const tn_context *context);

/* --- the least cut between a source and a sink ------------------------------------------------ */

#define TN__FLOW_MOST ((int64_t)1 << 60) /* of an arc that is never cut */

typedef struct tn__flow {
    uint32_t *first;              /* [nodes] arcs, linked by `next` */
    uint32_t *to, *next;          /* [arcs]; arc i and i ^ 1 are the two ways of one */
    int64_t *left, *full;         /* [arcs] */
    uint32_t *level, *at, *queue; /* [nodes] */
    uint32_t node_count, arc_count, arc_room;
    uint64_t effort; /* arcs looked at so far */
} tn__flow;
bool tn__flow_room(tn__flow *flow, uint32_t nodes, uint32_t arcs, tn__arena *arena);
void tn__flow_clear(tn__flow *flow);
/* Returns the arc's number, for `full`. */
uint32_t tn__flow_arc(tn__flow *flow, uint32_t from, uint32_t to, int64_t capacity);
/* Capacities of the least cut; afterwards `level` is not TN_NONE for those on the source's side.
 * -1: it took more than so much effort in all. */
int64_t tn__flow_cut(tn__flow *flow, uint32_t source, uint32_t sink, uint64_t most_effort);

#endif
