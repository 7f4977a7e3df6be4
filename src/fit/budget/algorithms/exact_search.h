/* exact_search.h - complete search for recomputation: it finds the cheapest schedule, or proves
 * that none exists.
 *
 * A state is the set of live values and the set of jobs that have run; a step runs one job. Values
 * are evicted at the step that needs their memory, because an earlier eviction gains nothing. Only
 * as many values are evicted as necessary, because a state with more live values can continue in
 * every way in which a state with fewer can. A value without future readers does not count as live.
 */
#ifndef TN_ALGORITHMS_EXACT_SEARCH_H
#define TN_ALGORITHMS_EXACT_SEARCH_H

#include "fit/budget/algorithms/states.h"
#include "fit/budget/pass.h"

/* limits for the number of jobs, and for the number of values: EXACT_MOST is the number of elements
 * of a set, EXACT_WORDS the number of its 64-bit words */
enum { EXACT_WORDS = 8, EXACT_MOST = 64 * EXACT_WORDS };
#define EXACT_NEVER (UINT64_MAX / 4) /* a cost that means "impossible" */

typedef struct exact_job {
    /* sets of values that the first run of the job reads and makes */
    uint64_t in[EXACT_WORDS], out[EXACT_WORDS];
    /* sets of values that a repeat of the job reads and makes */
    uint64_t recompute_in[EXACT_WORDS], recompute_out[EXACT_WORDS];
    uint64_t after[EXACT_WORDS], limits[EXACT_WORDS]; /* jobs */
    /* sets of jobs with a first run that certainly comes before (`before`) or after (`behind`) the
     * first run of this job */
    uint64_t before[EXACT_WORDS], behind[EXACT_WORDS];
    bool repeats;
} exact_job;

/* A group of values that one job makes and that may be evicted during the first run of another job.
 * `cost` is the cost of one repeat of the job that makes them. */
typedef struct exact_item {
    uint32_t job;
    /* bytes of the group, and cost of repeating its maker; EXACT_NEVER: it cannot be recomputed, so
     * the values must stay live */
    uint64_t bytes, cost;
} exact_item;
typedef struct exact_neck {
    /* bytes that are live during the first run of the job in any case: its operands, held values,
     * and values that cannot be recomputed */
    uint64_t bytes;
    /* range of the groups that may be evicted during this job's first run, the cheapest per byte
     * first */
    uint32_t first, count;
} exact_neck;

typedef struct exact_model {
    const tn__dag *dag;
    bool keeps_order;
    uint32_t run_allow;
    uint32_t value_words, job_words;
    exact_job *jobs;
    uint64_t held[EXACT_WORDS], stay[EXACT_WORDS], given[EXACT_WORDS];
    uint32_t *by_size; /* [values] the numbers of all values, in descending order of size */
    exact_neck *necks; /* [jobs] */
    exact_item *items;
} exact_model;

/* Reads a schedule graph as sets of bits. Errors: E_STOPPED (more than EXACT_MOST jobs or values),
 * E_NO_MEMORY. */
tn_status tn__exact_model(tn__pass_run *run, bool keeps_order, exact_model *model);
/* Returns a lower bound on the peak: some action of every schedule needs at least this many
 * bytes. */
uint64_t tn__exact_least_bytes(const exact_model *model);

/* --- search --- */

typedef struct exact_search {
    tn__pass_run *run;
    const exact_model *model;
    tn__states states;
    uint64_t budget;
    uint64_t ceiling; /* only schedules with a lower cost of repeats are searched for */
    /* least cost of the paths that were left out because they are not below the ceiling;
     * UINT64_MAX: no path was left out */
    uint64_t above;
    uint64_t floor; /* a proved lower bound on the cost of repeats */
} exact_search;

/* Adds the cheapest schedule to `schedule`; search->floor becomes the cost of its repeats. Errors:
 * E_INFEASIBLE (no schedule costs less than the ceiling; with the ceiling EXACT_NEVER, no schedule
 * exists), E_STOPPED, E_NO_MEMORY. */
tn_status tn__exact_search(exact_search *search, tn__schedule *schedule);

#endif
