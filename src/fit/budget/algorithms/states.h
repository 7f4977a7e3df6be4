/* states.h - the states of a best-first search (A*): a set that stores each state once, and a queue
 * of the states to visit.
 *
 * A state is identified by a key of a fixed number of 64-bit words. The search that uses it defines
 * their meaning (exact_search.c, chain.c).
 */
#ifndef TN_ALGORITHMS_STATES_H
#define TN_ALGORITHMS_STATES_H

#include <tenure/graph.h>

#include "base/table.h"

typedef struct tn__state_queued {
    /* cost of the path from the start to the state, plus a lower bound on the cost from there to
     * the end */
    uint64_t cost;
    uint32_t progress, state;
    /* cost of the path from the start to the state when this entry was queued; if the state was
     * reached more cheaply since, the entry is outdated */
    uint64_t from_start;
} tn__state_queued;

typedef struct tn__states {
    tn_context context;
    uint32_t stride; /* number of 64-bit words in a key */
    uint64_t *keys;  /* [count * stride] the keys of all states */
    uint64_t *costs, *bounds;
    /* [count] the previous state on the cheapest path, and the job that leads from it to this
     * state */
    uint32_t *parents, *by;
    size_t key_room, cost_room, bound_room, parent_room, by_room;
    uint32_t count;
    tn__table table; /* finds a state by its key */
    tn__state_queued *queue;
    size_t queued, queue_room;
} tn__states;

void tn__states_init(tn__states *states, const tn_context *context, uint32_t stride);
void tn__states_release(tn__states *states);
/* Returns the index of the state with this key, and adds the state if it is new (*is_new). TN_NONE:
 * memory is exhausted, or there are too many states. */
uint32_t tn__states_find(tn__states *states, const uint64_t *key, bool *is_new);
/* Adds an entry to the queue. Returns false if memory is exhausted. */
bool tn__states_push(tn__states *states, tn__state_queued what);
/* Removes and returns the entry with the lowest cost; among equal costs, the one with the most
 * progress; among equal progress, the state found last. */
tn__state_queued tn__states_pop(tn__states *states);

#endif
