/* states.h - the states of a best-first search: each stored once, and a queue of those to visit.
 *
 * A state is a key of a fixed number of words. The search that uses it gives the key its meaning
 * (exact_search.c, chain.c).
 */
#ifndef TN_ALGORITHMS_STATES_H
#define TN_ALGORITHMS_STATES_H

#include <tenure/graph.h>

#include "base/table.h"

typedef struct tn__state_queued {
    uint64_t cost; /* from the start to the state, plus the lower bound to the end */
    uint32_t progress, state;
    uint64_t from_start; /* at the time when it was queued */
} tn__state_queued;

typedef struct tn__states {
    tn_context context;
    uint32_t stride; /* words of a key: jobs that ran, live values, and the job of a
                      * half-finished step */
    uint64_t *keys;  /* [count * stride] */
    uint64_t *costs, *bounds;
    uint32_t *parents, *by; /* previous state, and the job that led here */
    size_t key_room, cost_room, bound_room, parent_room, by_room;
    uint32_t count;
    tn__table table; /* states by key */
    tn__state_queued *queue;
    size_t queued, queue_room;
} tn__states;

void tn__states_init(tn__states *states, const tn_context *context, uint32_t stride);
void tn__states_release(tn__states *states);
/* The index of the state with this key; *is_new: it was added. TN_NONE: out of memory, or too many
 * states. */
uint32_t tn__states_find(tn__states *states, const uint64_t *key, bool *is_new);
bool tn__states_push(tn__states *states, tn__state_queued what); /* false: out of memory */
tn__state_queued tn__states_pop(tn__states *states);             /* the cheapest; on ties the one
                                                               * that progressed furthest */

#endif
