/* joint.h - the pass `joint`: its three searches (for schedules with repeats, with copies and
 * repeats, and with encoded forms in addition), and the repair that they share, which brings a
 * schedule within the budget by recomputing values.
 */
#ifndef TN_JOINT_JOINT_H
#define TN_JOINT_JOINT_H

#include "fit/budget/bound.h"
#include "fit/budget/joint/editable.h"
#include "fit/budget/pass.h"

#define REPAIR_CHAIN 512u /* jobs of a chain; a bound on the work of one look */

/* --- repair ----------------------------------------------------------------------------------- */

/* Weights for the choice of a victim; the searches randomise them. */
typedef struct tn__repair_weights {
    float reach;       /* exponent of the number of steps for which it is idle */
    float bulk;        /* exponent of its bytes */
    bool hopes;        /* an input may stay live past the node that is above the budget even
                        * without room; the excess is repaired in its turn */
    bool whole;        /* all its bytes count, not only the excess */
    uint32_t lengthen; /* an input stays live if it is this many times smaller than the victim;
                        * 0: never */
    float noise;       /* upper limit of the noise added to the logarithms of keys */
    float advised;     /* amount added to the keys of values that the advice keeps, and
                        * subtracted from those that it recomputes */
} tn__repair_weights;

typedef struct tn__repair {
    tn__editable *edit;
    const tn__dag *dag;
    uint64_t budget;
    tn__random random;
    tn__repair_weights weights;
    uint64_t effort; /* looks at jobs and values so far */
    uint64_t cost_limit;
    const tn__bound_advice *advice; /* NULL: none */
    /* scratch */
    bool *can;                /* [values] its maker can recompute it */
    float *cost_of, *bulk_of; /* [values] logarithms of its maker's cost, and of its bytes */
    uint32_t *banned;         /* [values] not evicted while this equals `ban` */
    uint32_t *seen;           /* [jobs] stamp of the last plan that contains it */
    uint32_t *chain;          /* [REPAIR_CHAIN] jobs of a plan */
    uint32_t *best_chain;
    struct repair_idle *idle; /* [values] */
    uint32_t *place;          /* [values] in idle, or TN_NONE */
    uint32_t idle_count, at;  /* node that `idle` belongs to; TN_NONE */
    const int8_t *row;        /* row of the advice for the node that is above the budget; NULL */
    uint32_t here;            /* key of the node that is above the budget */
    int64_t takes;            /* bytes there */
    uint32_t ban, stamp, chain_count, best_count;
    double lost;    /* bytes of the values that stay live longer for a plan */
    uint64_t stays; /* the part of them that fits once the victim is evicted */
} tn__repair;

bool tn__repair_room(tn__repair *repair, tn__editable *edit, uint64_t budget, tn__arena *arena);
/* Evicts values until the schedule is within budget. False: it failed, or cost_limit was reached;
 * the schedule keeps the insertions so far. */
bool tn__repair_run(tn__repair *repair);
bool tn__repair_may_take(const tn__repair *repair, uint32_t node);
/* Removes a run if the schedule stays within budget. */
bool tn__repair_spare(tn__repair *repair, uint32_t node);
/* Removes all repeats that are not needed, the most expensive first. False: out of memory. */
bool tn__repair_trim(tn__repair *repair);
/* Removes a run, and the repeats that only served it. */
void tn__repair_drop(tn__repair *repair, uint32_t node);

/* --- the searches of the pass `joint` --------------------------------------------------------- */

/* Offers the best schedule of runs that it finds to run->best. effort: approximate number of looks
 * at jobs and values, after which the search ends. Errors: E_STOPPED (a limit stopped the search;
 * the schedules found so far have been offered), E_NO_MEMORY. */
tn_status tn__joint_search(tn__pass_run *run, uint64_t effort);

/* Offers schedules of runs and copies to run->best, which must have a host link. effort:
 * approximate number of looks. Errors: E_STOPPED (a limit stopped the search), E_NO_MEMORY. */
tn_status tn__joint_swap(tn__pass_run *run, uint64_t effort);

/* Offers schedules to run->best, which must have a graph. effort: approximate number of looks.
 * Errors: E_STOPPED (a limit stopped the search), E_NO_MEMORY. */
tn_status tn__joint_code(tn__pass_run *run, uint64_t effort);

#endif
