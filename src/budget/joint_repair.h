/* joint_repair.h - from a line that takes too much to one within the budget, by running again. */
#ifndef TN_BUDGET_JOINT_REPAIR_H
#define TN_BUDGET_JOINT_REPAIR_H

#include "budget/bound.h"
#include "budget/joint_line.h"

#define REPAIR_CHAIN 512u /* jobs of a chain, a bound on the work of one look */

/* How a victim is chosen; randomised by those who search. */
typedef struct tn__repair_taste {
    float reach; /* power of the steps for which it is idle */
    float bulk;  /* power of its bytes */
    bool hopes;  /* an input stays behind the node that takes too much, room or not: that is mended
                  * when it is its turn */
    bool whole;  /* all its bytes count, not only those that are too many */
    uint32_t
        lengthen;  /* an input stays where it takes so many times less than the victim; 0: never */
    float noise;   /* logarithms of keys are raised by up to so much */
    float advised; /* keys are raised by so much of what stays by advice, and lowered of the rest */
} tn__repair_taste;

typedef struct tn__repair {
    tn__line *line;
    const tn__work *work;
    uint64_t budget;
    tn__random random;
    tn__repair_taste taste;
    uint64_t effort; /* looks at jobs and values so far */
    uint64_t cost_limit;
    const tn__bound_advice *advice; /* NULL: none */
    /* scratch */
    bool *can;                /* [values] may be made again by its maker */
    float *cost_of, *bulk_of; /* [values] logarithms of its maker's cost, of its bytes */
    uint32_t *banned;         /* [values] not given up while it is `ban` */
    uint32_t *seen;           /* [jobs] in the plan of this stamp */
    uint32_t *chain;          /* [REPAIR_CHAIN] jobs of a plan */
    uint32_t *best_chain;
    struct repair_idle *idle; /* [values] */
    uint32_t *place;          /* [values] in idle, or TN_NONE */
    uint32_t idle_count, at;  /* node that `idle` belongs to; TN_NONE */
    const int8_t *row;        /* of the advice, for the node that takes too much; NULL */
    uint32_t here;            /* key of the node that takes too much */
    int64_t takes;            /* bytes there */
    uint32_t ban, stamp, chain_count, best_count;
    double lost;    /* bytes of what stays longer for a plan */
    uint64_t stays; /* of these, what fits as the victim is gone */
} tn__repair;

bool tn__repair_room(tn__repair *repair, tn__line *line, uint64_t budget, tn__arena *arena);
/* Gives up values until the line is within budget. False: it could not, or cost_limit came first;
 * the line has what was put in so far. */
bool tn__repair_run(tn__repair *repair);
/* Whether so many bytes more are within the budget at the keys first ... last. */
bool tn__repair_fits(const tn__repair *repair, uint32_t first, uint32_t last, uint64_t bytes);
bool tn__repair_may_run(const tn__repair *repair, uint32_t job, uint32_t key); /* by its limits */
bool tn__repair_may_take(const tn__repair *repair, uint32_t node);
/* Takes a run out where the line stays within budget. */
bool tn__repair_spare(tn__repair *repair, uint32_t node);
/* Takes out all runs again that are not needed, the dearest first. False: out of memory. */
bool tn__repair_trim(tn__repair *repair);
/* Takes out a run, and those that were for it alone. */
void tn__repair_drop(tn__repair *repair, uint32_t node);

#endif
