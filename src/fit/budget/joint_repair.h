/* joint_repair.h - brings a line that is above the budget within it, by recomputing values. */
#ifndef TN_BUDGET_JOINT_REPAIR_H
#define TN_BUDGET_JOINT_REPAIR_H

#include "fit/budget/bound.h"
#include "fit/budget/joint_line.h"

#define REPAIR_CHAIN 512u /* jobs of a chain; a bound on the work of one look */

/* Weights for the choice of a victim; the searches randomise them. */
typedef struct tn__repair_taste {
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

bool tn__repair_room(tn__repair *repair, tn__line *line, uint64_t budget, tn__arena *arena);
/* Evicts values until the line is within budget. False: it failed, or cost_limit was reached; the
 * line keeps the insertions so far. */
bool tn__repair_run(tn__repair *repair);
/* Whether `bytes` more bytes at the keys first ... last are within the budget. */
bool tn__repair_fits(const tn__repair *repair, uint32_t first, uint32_t last, uint64_t bytes);
bool tn__repair_may_run(const tn__repair *repair, uint32_t job, uint32_t key); /* according to its
                                                                                * limits */
bool tn__repair_may_take(const tn__repair *repair, uint32_t node);
/* Removes a run if the line stays within budget. */
bool tn__repair_spare(tn__repair *repair, uint32_t node);
/* Removes all repeats that are not needed, the most expensive first. False: out of memory. */
bool tn__repair_trim(tn__repair *repair);
/* Removes a run, and the repeats that only served it. */
void tn__repair_drop(tn__repair *repair, uint32_t node);

#endif
