/* cliques.h - a lower bound of the reuse cost from sets of bodies that do not fit side by side. */
#ifndef TN_PLAN_SEARCH_CLIQUES_H
#define TN_PLAN_SEARCH_CLIQUES_H

#include "plan/frame/planner.h"

#define TN__CLIQUE_BODIES 2048u /* the search keeps a table of all pairs */
#define TN__CLIQUE_HARD UINT64_MAX

/* A pair of plain bodies that must not share bytes (TN__CLIQUE_HARD), or that pays `cost`. The
 * costs of a pair that is given several times add up. */
typedef struct tn__clique_pair {
    uint32_t a, b;
    uint64_t cost;
} tn__clique_pair;

typedef struct tn__cliques {
    const tn_run_body *bodies; /* [count] */
    uint32_t count;
    const tn__clique_pair *pairs; /* [pair_count] */
    size_t pair_count;
    uint64_t usable;   /* bytes of the memory */
    uint32_t attempts; /* sets that are tried; each is a unit of work */
    uint64_t seed;
} tn__cliques;

/* Raises *bound to a proved lower bound of the cost. E_STOPPED, E_NO_MEMORY as the run says. */
tn_status tn__clique_bound(tn_run *run, const tn__cliques *given, uint64_t *bound);

#endif
