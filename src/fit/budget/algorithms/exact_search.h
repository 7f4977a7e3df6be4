/* exact_search.h - complete search for recomputation: the cheapest schedule, or a proof that none
 * exists.
 *
 * A state is the set of live values and the set of jobs that have run. A step runs one job. Values
 * to evict are chosen at that step and not earlier, because an earlier eviction gains nothing. Only
 * as many values are evicted as necessary, because a state with more live values can do everything
 * that the other state can. Values without future readers are never live.
 */
#ifndef TN_ALGORITHMS_EXACT_SEARCH_H
#define TN_ALGORITHMS_EXACT_SEARCH_H

#include "fit/budget/algorithms/states.h"
#include "fit/budget/pass.h"

enum { EXACT_WORDS = 8, EXACT_MOST = 64 * EXACT_WORDS }; /* jobs, and values */
#define EXACT_NEVER (UINT64_MAX / 4)                     /* a cost that means impossible */

typedef struct exact_job {
    uint64_t in[EXACT_WORDS], out[EXACT_WORDS];                     /* values, of its first run */
    uint64_t recompute_in[EXACT_WORDS], recompute_out[EXACT_WORDS]; /* of a repeat */
    uint64_t after[EXACT_WORDS], limits[EXACT_WORDS];               /* jobs */
    uint64_t before[EXACT_WORDS], behind[EXACT_WORDS]; /* jobs that always have their first
                                                             * run before its own, or after it */
    bool repeats;
} exact_job;

/* One value to consider at the first run of a job: it may be absent at this cost. */
typedef struct exact_item {
    uint32_t job;
    uint64_t bytes, cost; /* EXACT_NEVER: must be live */
} exact_item;
typedef struct exact_neck {
    uint64_t bytes;        /* bytes of the job itself, of held values, and of values that cannot
                            * be recomputed */
    uint32_t first, count; /* items, cheapest per byte first */
} exact_neck;

typedef struct exact_model {
    const tn__dag *dag;
    bool keeps_order;
    uint32_t run_allow;
    uint32_t value_words, job_words;
    exact_job *jobs;
    uint64_t held[EXACT_WORDS], stay[EXACT_WORDS], given[EXACT_WORDS];
    uint32_t *by_size; /* [values] largest first */
    exact_neck *necks; /* [jobs] */
    exact_item *items;
} exact_model;

/* Errors: E_STOPPED (more than EXACT_MOST jobs or values), E_NO_MEMORY. */
tn_status tn__exact_model(tn__pass_run *run, bool keeps_order, exact_model *model);
/* Bytes that some action needs in every schedule: a lower bound on the peak. */
uint64_t tn__exact_least_bytes(const exact_model *model);

/* --- search --- */

typedef struct exact_search {
    tn__pass_run *run;
    const exact_model *model;
    tn__states states;
    uint64_t budget;
    uint64_t ceiling; /* only cheaper schedules are searched for */
    uint64_t above;   /* least cost that was left out because it was not below the ceiling;
                       * UINT64_MAX: none was left out */
    uint64_t floor;   /* proved: repeats cost at least this much */
} exact_search;

/* Adds the cheapest schedule to `schedule`; its extra cost is in search->floor. Errors:
 * E_INFEASIBLE (none below the ceiling; with EXACT_NEVER: none at all), E_STOPPED, E_NO_MEMORY. */
tn_status tn__exact_search(exact_search *search, tn__schedule *schedule);

#endif
