/* bound.h - what no schedule can do without: bytes, and time within a budget. */
#ifndef TN_BUDGET_BOUND_H
#define TN_BUDGET_BOUND_H

#include "budget/pass.h"

/* No schedule has a lower peak, in any order and whatever runs again. Without copies and codecs
 * (`alone`) what cannot be made again counts wherever it is still read. Cost: O(operands of
 * makers of inputs). */
uint64_t tn__bound_bytes(const tn__work *work, bool alone);

/* Raises run->bound and run->least_bytes by what can be proved with so many looks, about. Errors:
 * E_INFEASIBLE (no schedule of what the run allows is within its budget), E_NO_MEMORY, E_STOPPED.
 */
tn_status tn__bound_raise(tn__pass_run *run, uint64_t effort);

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
