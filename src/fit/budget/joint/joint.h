/* joint.h - the three searches of the pass `joint` (for schedules with repeats; with copies and
 * repeats; with encoded values in addition), and the repair that they share: it recomputes values
 * until a schedule is within the budget. */
#ifndef TN_JOINT_JOINT_H
#define TN_JOINT_JOINT_H

#include "fit/budget/bound.h"
#include "fit/budget/joint/editable.h"
#include "fit/budget/pass.h"

/* limit for the number of jobs in a chain of repeats, which limits the cost of planning one */
#define REPAIR_CHAIN 512u

/* --- repair ----------------------------------------------------------------------------------- */

/* Weights for the choice of the value to evict (the victim); the searches choose them at random. */
typedef struct tn__repair_weights {
    /* exponent, in the key of a value to evict, of the number of steps for which the value is
     * idle */
    float reach;
    float bulk; /* exponent, in the key of a value to evict, of the value's bytes */
    /* an input of a repeat that would only stay live after the node above the budget is kept live
     * even if it does not fit there; a later step of the repair then evicts the excess */
    bool hopes;
    /* true: all bytes of the value to evict count in its key; false: those above the excess count
     * little */
    bool whole;
    /* an input of a repeat is kept live, instead of recomputed, if it has fewer bytes than the
     * evicted value divided by this number; 0: never for this reason */
    uint32_t lengthen;
    /* upper limit of the random amount that is added to the logarithm of each value's key */
    float noise;
    /* amount that is added to the keys of values that the advice (bound.h) wants to keep, and
     * subtracted from those that it wants to recompute */
    float advised;
} tn__repair_weights;

typedef struct tn__repair {
    tn__editable *edit;
    const tn__dag *dag;
    uint64_t budget;
    tn__random random;
    tn__repair_weights weights;
    uint64_t effort; /* number of looks at jobs and values so far */
    uint64_t cost_limit;
    /* advice (bound.h) on the values that are best kept or recomputed; NULL: no advice */
    const tn__bound_advice *advice;
    /* scratch */
    bool *can; /* [values] the value can be recomputed: the job that makes it may be repeated */
    /* [values] logarithms of the cost of the job that makes the value, and of its bytes */
    float *cost_of, *bulk_of;
    uint32_t *banned; /* [values] a value is not evicted while its element equals `ban` */
    uint32_t *seen;   /* [jobs] number of the last plan (chain of repeats) that contains the job */
    uint32_t *chain;  /* [REPAIR_CHAIN] jobs of the chain of repeats that is being planned */
    uint32_t *best_chain;
    struct repair_idle *idle; /* [values] */
    uint32_t *place; /* [values] index of the value in the list `idle`; TN_NONE: it is not idle */
    /* number of idle values; the node for which `idle` was computed (TN_NONE: no node) */
    uint32_t idle_count, at;
    const int8_t *row; /* the advice for the node that is above the budget; NULL: no advice */
    uint32_t here;     /* key (position in the schedule) of the node that is above the budget */
    int64_t takes;     /* bytes at the node that is above the budget */
    uint32_t ban, stamp, chain_count, best_count;
    /* bytes of the values that stay live longer because of the planned chain of repeats */
    double lost;
    /* bytes of inputs that stay live longer, and fit into the budget only because the chosen value
     * is evicted */
    uint64_t stays;
} tn__repair;

bool tn__repair_room(tn__repair *repair, tn__editable *edit, uint64_t budget, tn__arena *arena);
/* Evicts values until the schedule is within the budget. Returns false if that is impossible, takes
 * too many rounds, or lets the cost exceed cost_limit; repeats that were inserted until then stay
 * in the schedule. */
bool tn__repair_run(tn__repair *repair);
bool tn__repair_may_take(const tn__repair *repair, uint32_t node);
/* Removes a repeat, unless live bytes would then rise above the budget. Returns whether it was
 * removed. */
bool tn__repair_spare(tn__repair *repair, uint32_t node);
/* Removes all repeats that are not needed, the most expensive first. Returns false if memory is
 * exhausted. */
bool tn__repair_trim(tn__repair *repair);
/* Removes a repeat, and the repeats that were needed only for it. */
void tn__repair_drop(tn__repair *repair, uint32_t node);

/* --- the searches of the pass `joint` --------------------------------------------------------- */

/* Searches for schedules with repeats, and offers the best one to the run. effort: approximate
 * number of looks at jobs and values after which the search ends. Errors: E_STOPPED (a limit
 * stopped the search; the best schedule so far was offered), E_NO_MEMORY. */
tn_status tn__joint_search(tn__pass_run *run, uint64_t effort);

/* Searches for schedules with repeats and with copies to the host, and offers them to the run,
 * which must have a host link. effort: approximate number of looks at jobs and values. Errors:
 * E_STOPPED (a limit stopped the search), E_NO_MEMORY. */
tn_status tn__joint_swap(tn__pass_run *run, uint64_t effort);

/* Searches for schedules with encoded values, repeats and copies, and offers them to the run, which
 * must have a graph. effort: approximate number of looks at jobs and values. Errors: E_STOPPED (a
 * limit stopped the search), E_NO_MEMORY. */
tn_status tn__joint_code(tn__pass_run *run, uint64_t effort);

#endif
