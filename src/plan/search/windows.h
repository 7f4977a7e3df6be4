/* windows.h - decides whether the bodies in a few slots fit, which gives a bound for the whole
 * problem. */
#ifndef TN_PLAN_SEARCH_WINDOWS_H
#define TN_PLAN_SEARCH_WINDOWS_H

#include "plan/search/search.h"

/* Asks tn__search_decide about the bodies in slots [from, to), cut off at both ends. NONE is a
 * proof for all of `input` if it is complete; FOUND says nothing about other slots. *nodes: number
 * of nodes visited. NO_MEMORY if the part cannot be set up.
 * Cost: O(bodies + their conflicts), and the search.
 */
tn__search_outcome tn__window_decide(const tn_context *context, const tn__search_input *input,
                                     uint32_t from, uint32_t to, tn__search_order order,
                                     uint64_t capacity, uint64_t node_limit, tn__search_poll poll,
                                     uint64_t *nodes);

#endif
