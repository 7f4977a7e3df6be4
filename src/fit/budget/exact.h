/* exact.h - complete search for recomputation: data shared by the exact_*.c files.
 *
 * A state is the set of live values and the set of jobs that have run. A step runs one job. Values
 * to evict are chosen at that step and not earlier, because an earlier eviction gains nothing. Only
 * as many values are evicted as necessary, because a state with more live values can do everything
 * that the other state can. Values without future readers are never live.
 *
 *     exact_model.c    a work as sets of bits
 *     exact_bound.c    a lower bound on the remaining cost of a state
 *     exact_states.c   states, each stored once, and the queue of states to visit
 *     exact_search.c   A*: the cheapest path, or a proof that no path exists
 */
#ifndef TN_BUDGET_EXACT_H
#define TN_BUDGET_EXACT_H

#include "base/table.h"
#include "fit/budget/pass.h"

enum { EXACT_WORDS = 8, EXACT_MOST = 64 * EXACT_WORDS }; /* jobs, and values */
enum { EXACT_STRIDE = 2 * EXACT_WORDS + 1 };             /* most words of a state's key */
#define EXACT_NEVER (UINT64_MAX / 4)                     /* a cost that means impossible */

static inline bool exact_has(const uint64_t *set, uint32_t i) {
    return set[i / 64] >> (i % 64) & 1;
}
static inline void exact_add(uint64_t *set, uint32_t i) { set[i / 64] |= (uint64_t)1 << (i % 64); }
static inline void exact_remove(uint64_t *set, uint32_t i) {
    set[i / 64] &= ~((uint64_t)1 << (i % 64));
}
static inline bool exact_inside(const uint64_t *a, const uint64_t *b, uint32_t words) {
    for (uint32_t w = 0; w < words; w++)
        if (a[w] & ~b[w]) return false;
    return true;
}
static inline bool exact_meet(const uint64_t *a, const uint64_t *b, uint32_t words) {
    for (uint32_t w = 0; w < words; w++)
        if (a[w] & b[w]) return true;
    return false;
}
/* for (i in set) */
#define EXACT_EACH(i, set, words)                                                                  \
    for (uint32_t i##_w = 0, i; i##_w < (words); i##_w++)                                          \
        for (uint64_t i##_left = (set)[i##_w];                                                     \
             i##_left != 0 && (i = i##_w * 64 + (uint32_t)__builtin_ctzll(i##_left), true);        \
             i##_left &= i##_left - 1)

typedef struct exact_job {
    uint64_t in[EXACT_WORDS], out[EXACT_WORDS];             /* values, of its first run */
    uint64_t again_in[EXACT_WORDS], again_out[EXACT_WORDS]; /* of a repeat */
    uint64_t after[EXACT_WORDS], limits[EXACT_WORDS];       /* jobs */
    uint64_t before[EXACT_WORDS], behind[EXACT_WORDS];      /* jobs that always have their first
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
    const tn__work *work;
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
/* Bytes that some act needs in every schedule: a lower bound on the peak. */
uint64_t tn__exact_least_bytes(const exact_model *model);
static inline uint64_t exact_bytes(const exact_model *model, const uint64_t *values) {
    uint64_t sum = 0;
    EXACT_EACH(v, values, model->value_words) sum += model->work->values[v].bytes;
    return sum;
}
static inline bool exact_may_repeat(const exact_model *model, const uint64_t *ran, uint32_t job) {
    const exact_job *it = &model->jobs[job];
    return it->repeats && !exact_meet(it->limits, ran, model->job_words);
}
/* Values that may be read in future, or must be live at the end. */
void tn__exact_useful(const exact_model *model, const uint64_t *ran, uint64_t *useful);
/* The useful values of this state on paths that end below the ceiling; other live values need not
 * stay. *above is lowered to the least cost that was left out. */
void tn__exact_wanted(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                      uint64_t cost, uint64_t ceiling, uint64_t *wanted, uint64_t *above);
/* A lower bound on the cost of repeats from this state to the end; EXACT_NEVER or more: the end
 * cannot be reached. */
uint64_t tn__exact_bound(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                         uint64_t budget);

/* --- states --- */

typedef struct exact_queued {
    uint64_t cost; /* from the start to the state, plus the lower bound to the end */
    uint32_t progress, state;
    uint64_t from_start; /* at the time when it was queued */
} exact_queued;

typedef struct exact_states {
    tn_context context;
    uint32_t stride; /* words of a key: jobs that ran, live values, and the job of a
                      * half-finished step */
    uint64_t *keys;  /* [count * stride] */
    uint64_t *costs, *bounds;
    uint32_t *parents, *by; /* previous state, and the job that led here */
    size_t key_room, cost_room, bound_room, parent_room, by_room;
    uint32_t count;
    tn__table table; /* states by key */
    exact_queued *queue;
    size_t queued, queue_room;
} exact_states;

void tn__exact_states_init(exact_states *states, const tn_context *context, uint32_t stride);
void tn__exact_states_release(exact_states *states);
/* The index of the state with this key; *is_new: it was added. TN_NONE: out of memory, or too many
 * states. */
uint32_t tn__exact_state(exact_states *states, const uint64_t *key, bool *is_new);
bool tn__exact_push(exact_states *states, exact_queued what); /* false: out of memory */
exact_queued tn__exact_pop(exact_states *states);             /* the cheapest; on ties the one
                                                               * that progressed furthest */

/* --- search --- */

typedef struct exact_search {
    tn__pass_run *run;
    const exact_model *model;
    exact_states states;
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
