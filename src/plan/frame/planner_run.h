/* planner_run.h - one call of one planner on one bank: data that plan.c prepares and planner.c
 * uses.
 */
#ifndef TN_PLAN_FRAME_PLANNER_RUN_H
#define TN_PLAN_FRAME_PLANNER_RUN_H

#include "plan/frame/planner.h"
#include "plan/problem/problem.h"

/* A range of bytes, or of starts that a placed piece forbids: [first, last). */
typedef struct tn__blocked {
    uint64_t first, last;
} tn__blocked;

#define TN__CLASSES 17u /* length classes: 2^0, 2^2, ... 2^31 steps and more */

/* A placed body, reduced to the data that a search for holes needs. */
typedef struct tn__placed_entry {
    /* bytes of its only piece; with several pieces it is empty, at the body's offset */
    tn__blocked bytes;
    uint32_t first, last, id;
} tn__placed_entry;

typedef struct tn__placed_bucket {
    uint32_t count;  /* number of bodies that were put into the bucket; */
    uint32_t sorted; /* the first `sorted` of them are sorted by bytes; */
    uint32_t gone;   /* `gone` of them were unplaced since */
} tn__placed_bucket;

/* Bytes [lo, hi) of a body of the run that must not share bytes with bytes [other_lo, other_hi) of
 * another one (a separation), or that pay `cost` if they do. For plain bodies these are all bytes;
 * for groups those of a member. */
typedef struct tn__beside {
    uint32_t other;
    uint64_t cost;
    uint64_t lo, hi, other_lo, other_hi;
} tn__beside;

/* Lists of tn__beside: those of body i are [begin[i], begin[i + 1]). Each pair is in two lists. */
typedef struct tn__besides {
    size_t *begin; /* [count + 1]; NULL: no pairs */
    tn__beside *items;
    size_t item_count;
} tn__besides;

/* judge.c: the waits or the time of placements (tn_layout_waits). */
typedef struct tn__judge tn__judge;

/* Shared by all runs of a call; nothing here changes while they run. */
typedef struct tn__prepared_bank {
    const tn_problem *problem;
    const tn__wholes *wholes;
    const tn_plan_options *options;
    tn_context context;
    tn_body_id *ids; /* [count], the problem's number of each body of a run; for groups, the root */
    uint64_t *pins;  /* [count], TN__FREE if the planner decides */
    int64_t *times;  /* [time_count], the real time of each compressed one */
    const int64_t **begins, **ends; /* [piece_count], clocks [streams]; NULL: one stream */
    tn_run_body *bodies;            /* [count] */
    tn_run_piece *pieces;
    uint32_t count, piece_count, time_count;
    uint32_t *by_first; /* [count], bodies by (first, number) */
    uint32_t *until;    /* [time_count + 1], number of bodies that begin before the time */
    /* Lengths of lives in classes: class c holds up to 2^shift steps, the last class all others. A
     * bucket holds the bodies of one class that begin within 2^shift steps; those of class c are
     * [class_begin[c], class_begin[c + 1]). */
    uint32_t class_count, shift[TN__CLASSES], class_begin[TN__CLASSES + 1];
    uint32_t *buckets; /* [class_begin[class_count] + 1], number of bodies on all buckets before */
    uint64_t lower_bound, capacity;
    bool has_capacity;
    uint32_t streams;
    uint32_t needs; /* TN_PLANS_* that a planner must honour */
    size_t clock_room;
    tn__besides apart, costs; /* separations; reuse costs of pairs that may share bytes */
    tn__byte_range *reserved; /* [reserved_count], sorted and merged */
    uint32_t reserved_count;
    size_t reserved_room;
    tn__judge *judge;  /* with it, the cost of a placement is its value; NULL: its reuse cost */
    bool by_cost;      /* runs minimise the reuse cost within the capacity, not the peak */
    double deadline_s; /* tn__clock_s when time is up; 0: never */
} tn__prepared_bank;

/* Fills the arrays of `prepared` with the bodies of one bank; problem, wholes, options, context,
 * capacity and deadline must be set. The caller releases it on failure too. */
tn_status tn__prepare(tn__prepared_bank *prepared, tn_bank_id which, tn_error *error);
/* The lowest start from `offset` on, aligned, that keeps `body` out of the reserved ranges.
 * Saturates. */
uint64_t tn__prepared_above_reserved(const tn__prepared_bank *prepared, const tn_run_body *body,
                                     uint64_t offset);
/* The cost of a placement of the bank, offset[count]: its reuse cost, or its value by the judge.
 * Saturates. */
uint64_t tn__prepared_cost(const tn__prepared_bank *prepared, const uint64_t *offset);
void tn__prepared_release(tn__prepared_bank *prepared);
/* tn__lower_bound of the bank, in O(n) if no alignment costs a byte. */
tn_status tn__prepared_bound(const tn__prepared_bank *prepared, tn_bank_id which, uint64_t *bytes,
                             int64_t *step, tn_error *error);

/* Live bytes at the fullest step; they are the bound unless an alignment or a pin raises it. */
tn_status tn__prepared_live_bytes(const tn__prepared_bank *prepared, uint64_t *bytes, int64_t *step,
                                  tn_error *error);
/* Makes by_first, until and buckets from the bodies; false: no memory. */
bool tn__prepared_index(tn__prepared_bank *prepared);
/* The bucket of a body. */
uint32_t tn__prepared_bucket(const tn__prepared_bank *prepared, const tn_run_body *body);

/* Makes a valid layout in linear time: offset[count]. E_STOPPED if the caller wants to stop, or if
 * it would end beyond 2^63 - 1 bytes. */
tn_status tn__first_layout(const tn__prepared_bank *prepared, uint64_t *offset, uint64_t *peak,
                           tn_error *error);

/* One call of tn_plan. */
typedef struct tn__call {
    const tn_planner *planner;
    const tn_problem *problem;
    tn__wholes wholes;
    tn_plan_options options;
    double start_s;
    tn_layout layout;
    bool *planned;    /* [bank_count], whether the bodies of a bank have their offsets already */
    tn__judge *judge; /* NULL: the objective needs none */
    bool least_time;  /* the choice of banks is proved to be the best */
    tn_error *error;
} tn__call;

uint64_t tn__call_capacity(const tn__call *call, tn_bank_id which); /* UINT64_MAX: none */
/* A tn__prepared_bank with everything set that comes from the call. */
tn__prepared_bank tn__call_prepared(const tn__call *call, tn_bank_id which);
/* Refuses a problem if the planner does not model a constraint in `needs`. */
tn_status tn__call_refuse(const tn__call *call, uint32_t needs);

tn_status tn__judge_create(const tn__call *call, tn__judge **judge, tn_error *error);
void tn__judge_destroy(tn__judge *judge, const tn_context *context); /* NULL is fine */
/* Bodies that need waits if they share bytes, with the number of these waits: the reuse costs by
 * which a search finds its way. */
const tn_pair *tn__judge_pairs(const tn__judge *judge, size_t *count);
/* For placements of this bank from now on. */
void tn__judge_bind(tn__judge *judge, const tn__prepared_bank *prepared);
/* The objective for the placement offset[count]. */
uint64_t tn__judge_value(tn__judge *judge, const uint64_t *offset);
double tn__judge_unit(const tn__judge *judge); /* a typical change of the value */
/* No placement has a lower value. must_share: in every placement some pair shares bytes. */
uint64_t tn__judge_bound(tn__judge *judge, bool must_share);
uint64_t tn__judge_units(const tn__judge *judge); /* of work, for one value */

/* banks.c: sets layout.bank of every body that may choose. Banks that it had to plan for that have
 * their offsets and `planned` set. */
tn_status tn__choose_banks(tn__call *call);

struct tn_run {
    const tn__prepared_bank *prepared;
    const tn_planner *planner;
    tn_error *error;
    uint64_t *offset;          /* [count] */
    uint8_t *placed;           /* [count] */
    tn__placed_bucket *bucket; /* [buckets] */
    tn__placed_entry *entries; /* [count], those of each bucket together */
    uint32_t *order;           /* [count], scratch of tn__run_order */
    uint32_t *near;            /* [count], scratch of tn__run_holes and tn__run_near */
    tn__blocked *blocked, *merged;
    size_t blocked_room, merged_room, hole_room;
    tn_hole *holes;
    uint64_t *best; /* [count], offsets of the best placement kept */
    uint64_t best_peak;
    uint64_t best_cost; /* of that placement, in a run by cost */
    uint64_t lower_bound;
    uint64_t cost_bound;
    uint64_t work, work_limit, next_look; /* next_look: work at which the clock is read again */
    uint64_t unseen;                      /* bodies checked since then */
    uint32_t threads;
    tn_run *outer;                 /* the run that made this one, or NULL */
    const atomic_bool *outer_stop; /* set by it when this run is no longer needed; or NULL */
    bool other_thread;             /* not the caller's thread: no progress reports from here */
    atomic_bool stop;
    bool timed_out, out_of_work;
    bool cancelled; /* the caller wished to stop */
    bool too_high;  /* a body was placed with its end beyond TN__PLAN_HEIGHT_MAX */
    tn__arena scratch;
};

tn_status tn__run_create(tn_run *run, const tn__prepared_bank *prepared, const tn_planner *planner,
                         tn_error *error);
void tn__run_release(tn_run *run);
/* Solves, keeps the final placement too, and returns OK if there is any placement, even after
 * E_STOPPED from a limit. */
tn_status tn__run_solve(tn_run *run);
/* The same; if a limit left the planner without any layout, the first layout is kept, from `first`
 * [count] if that is given (NULL: not made yet). */
tn_status tn__run_answer(tn_run *run, const uint64_t *first);
/* Whether the best placement of `run` is better than that of `than`. */
bool tn__run_is_better(const tn_run *run, const tn_run *than);
/* Whether the best placement is proved to be optimal. */
bool tn__run_is_proved(const tn_run *run);

#endif
