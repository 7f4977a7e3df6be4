/* exact.h - the complete search for recomputation: what its parts share.
 *
 * A state is who is there and which jobs have run. A step runs one job; who has to go for it is
 * decided then and not before (dropping earlier gains nothing), and no more goes than must (who
 * keeps more can do all that the other can). What nobody will ever read is never there.
 *
 *     exact_model.c    a work as sets of bits
 *     exact_bound.c    what a state costs at least from here on
 *     exact_states.c   states, each once, and the queue of those to look at
 *     exact_search.c   A*: the cheapest way through, or that there is none
 */
#ifndef TN_BUDGET_EXACT_H
#define TN_BUDGET_EXACT_H

#include "budget/pass.h"

enum { EXACT_WORDS = 8, EXACT_MOST = 64 * EXACT_WORDS }; /* jobs, values */
enum { EXACT_STRIDE = 2 * EXACT_WORDS + 1 };             /* of a state's key, at most */
#define EXACT_NEVER (UINT64_MAX / 4)                     /* as a cost: cannot be */

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
    uint64_t again_in[EXACT_WORDS], again_out[EXACT_WORDS]; /* of another */
    uint64_t after[EXACT_WORDS], limits[EXACT_WORDS];       /* jobs */
    uint64_t before[EXACT_WORDS], behind[EXACT_WORDS];      /* jobs that run first before it does,
                                                             * and after it, in any order */
    bool repeats;
} exact_job;

/* What is looked at when a job runs first: who may be absent then, and what that costs. */
typedef struct exact_item {
    uint32_t job;
    uint64_t bytes, cost; /* EXACT_NEVER: must be there */
} exact_item;
typedef struct exact_neck {
    uint64_t bytes; /* of the job itself, of what is held, and of what cannot be made again */
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
/* Bytes that some act needs in any schedule: a first bound on the peak. */
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
/* Values that may be read in future, or are to stay. */
void tn__exact_useful(const exact_model *model, const uint64_t *ran, uint64_t *useful);
/* The same of this state, as far as it may come to its end below the ceiling: who else is there
 * need not be. *above is lowered to the least that was left out. */
void tn__exact_wanted(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                      uint64_t cost, uint64_t ceiling, uint64_t *wanted, uint64_t *above);
/* What jobs run again cost at least from this state to the end; EXACT_NEVER or more: there is no
 * way. */
uint64_t tn__exact_bound(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                         uint64_t budget);

/* --- states --- */

typedef struct exact_queued {
    uint64_t cost; /* from the start, and at least to the end */
    uint32_t progress, state;
    uint64_t from_start; /* as it was when it was queued */
} exact_queued;

typedef struct exact_states {
    tn_context context;
    uint32_t stride; /* words of a key: jobs that ran, values there, and of half a step which */
    uint64_t *keys;  /* [count * stride] */
    uint64_t *costs, *bounds;
    uint32_t *parents, *by; /* the job that led here */
    size_t key_room, cost_room, bound_room, parent_room, by_room;
    uint32_t count;
    uint32_t *slots; /* [slot_count] a power of two */
    size_t slot_count;
    exact_queued *queue;
    size_t queued, queue_room;
} exact_states;

void tn__exact_states_init(exact_states *states, const tn_context *context, uint32_t stride);
void tn__exact_states_release(exact_states *states);
/* The state of this key; *is_new when it was not there. TN_NONE: no memory, or too many. */
uint32_t tn__exact_state(exact_states *states, const uint64_t *key, bool *is_new);
bool tn__exact_push(exact_states *states, exact_queued what); /* false: no memory */
exact_queued tn__exact_pop(exact_states *states);             /* the cheapest; then the furthest */

/* --- search --- */

typedef struct exact_search {
    tn__pass_run *run;
    const exact_model *model;
    exact_states states;
    uint64_t budget;
    uint64_t ceiling; /* what costs as much is not looked for */
    uint64_t above;   /* the least that was left out as it was not below the ceiling; UINT64_MAX:
                       * nothing was */
    uint64_t floor;   /* proved: what runs again costs at least so much */
} exact_search;

/* The cheapest schedule, which is added to `schedule`; its extra cost in search->floor.
 * Errors: E_INFEASIBLE (none below the ceiling; of EXACT_NEVER: none at all), E_STOPPED,
 * E_NO_MEMORY. */
tn_status tn__exact_search(exact_search *search, tn__schedule *schedule);

#endif
