/* planner_run.h - one call of one planner on one bank: the data that plan.c prepares and that
 * planner.c uses. */
#ifndef TN_PLAN_FRAME_PLANNER_RUN_H
#define TN_PLAN_FRAME_PLANNER_RUN_H

#include "plan/frame/planner.h"
#include "plan/problem/problem.h"

/* A range [first, last) of bytes, or of starts that a placed piece forbids. */
typedef struct tn__blocked {
    uint64_t first, last;
} tn__blocked;

/* largest number of classes of live-range lengths; the lengths of a class are up to four times
 * those of the class before it */
#define TN__CLASSES 17u

/* A placed buffer, reduced to the data that the search for holes needs. */
typedef struct tn__placed_entry {
    /* bytes of the buffer's only piece; for a buffer of several pieces, an empty range at its
     * offset */
    tn__blocked bytes;
    uint32_t first, last, id;
} tn__placed_entry;

typedef struct tn__placed_bucket {
    uint32_t count;  /* number of entries that were put into the bucket */
    uint32_t sorted; /* the first `sorted` entries are sorted by their first byte */
    uint32_t gone;   /* number of entries that belong to buffers which were unplaced later */
} tn__placed_bucket;

/* A constraint between two buffers of the run: bytes [lo, hi) of one must not share memory with
 * bytes [other_lo, other_hi) of the other (a separation), or sharing adds `cost`. For plain buffers
 * these ranges cover all bytes; for groups, they are the bytes of one member. */
typedef struct tn__beside {
    uint32_t other;
    uint64_t cost;
    uint64_t lo, hi, other_lo, other_hi;
} tn__beside;

/* Lists of constraints with other buffers: those of buffer i are items begin[i] to begin[i + 1] -
 * 1. Each pair is in the lists of both buffers. */
typedef struct tn__besides {
    /* [count + 1], index in `items` of each buffer's list; NULL: there are no pairs */
    size_t *begin;
    tn__beside *items;
    size_t item_count;
} tn__besides;

/* Computes the waits or the time of placements (judge.c, tn_layout_waits). */
typedef struct tn__judge tn__judge;

/* Data shared by all runs of a call. Nothing here changes while they run. */
typedef struct tn__prepared_bank {
    const tn_problem *problem;
    const tn__wholes *wholes;
    const tn_plan_options *options;
    tn_context context;
    /* [count], the problem's number of each buffer of the run; for a group, the number of its
     * root */
    tn_body_id *ids;
    uint64_t *pins; /* [count], offsets of pinned buffers; TN__FREE if the planner decides */
    int64_t *times; /* [time_count], the real time of each compressed time */
    /* [piece_count], clocks [streams] of the begin and end of each piece; NULL: one stream */
    const int64_t **begins, **ends;
    tn_run_body *bodies; /* [count] */
    tn_run_piece *pieces;
    uint32_t count, piece_count, time_count;
    uint32_t *by_first; /* [count], buffers sorted by (first, number) */
    uint32_t *until;    /* [time_count + 1], number of buffers that begin before each time */
    /* Classes of live-range lengths: class c holds lengths of up to 2^shift[c] steps, the last
     * class all others. A bucket holds the buffers of one class that begin within the same
     * 2^shift[c] steps. The buckets of class c are class_begin[c] to class_begin[c + 1] - 1. */
    uint32_t class_count, shift[TN__CLASSES], class_begin[TN__CLASSES + 1];
    /* [class_begin[class_count] + 1], total number of buffers in all buckets before each one */
    uint32_t *buckets;
    uint64_t lower_bound, capacity;
    bool has_capacity;
    uint32_t streams;
    uint32_t needs; /* TN_PLANS_*: the constraints that a planner must honour */
    size_t clock_room;
    /* apart: separations; costs: reuse costs of pairs that may share bytes */
    tn__besides apart, costs;
    /* the exclusions between the bank's buffers, by their numbers in the problem (`ids`); NULL:
     * there are none */
    const tn__exclusions *exclusions;
    tn__byte_range *reserved; /* [reserved_count], the reserved ranges, sorted and merged */
    uint32_t reserved_count;
    size_t reserved_room;
    /* if it is set, the cost of a placement is the judge's value; NULL: the cost is the reuse
     * cost */
    tn__judge *judge;
    /* whether runs minimise the reuse cost within the capacity, instead of the peak */
    bool by_cost;
    double deadline_s; /* value of tn__clock_s at which time is up; 0: no limit */
} tn__prepared_bank;

/* Fills the arrays of `prepared` with the buffers of one bank. The caller sets problem, wholes,
 * options, context, capacity and deadline before, and releases `prepared` also after a failure. */
tn_status tn__prepare(tn__prepared_bank *prepared, tn_bank_id which, tn_error *error);
/* The lowest aligned start, at or above `offset`, at which `body` overlaps no reserved range.
 * Saturates. */
uint64_t tn__prepared_above_reserved(const tn__prepared_bank *prepared, const tn_run_body *body,
                                     uint64_t offset);
/* The cost of a placement offset[count] of the bank: its reuse cost, or its value by the judge.
 * Saturates. */
uint64_t tn__prepared_cost(const tn__prepared_bank *prepared, const uint64_t *offset);
void tn__prepared_release(tn__prepared_bank *prepared);
/* Whether two buffers of the run are never live at the same time, so that they may share bytes. */
static inline bool tn__prepared_excluded(const tn__prepared_bank *prepared, uint32_t a,
                                         uint32_t b) {
    return prepared->exclusions != NULL &&
           tn__excluded(prepared->exclusions, prepared->ids[a], prepared->ids[b]);
}
/* Computes tn__lower_bound of the bank, in O(n) if no alignment costs a byte. */
tn_status tn__prepared_bound(const tn__prepared_bank *prepared, tn_bank_id which, uint64_t *bytes,
                             int64_t *step, tn_error *error);

/* Computes the live bytes at the fullest step. The lower bound (tn__prepared_bound) may be higher:
 * alignments, pins, reserved ranges and the size of a single buffer raise it. */
tn_status tn__prepared_live_bytes(const tn__prepared_bank *prepared, uint64_t *bytes, int64_t *step,
                                  tn_error *error);
/* Makes by_first, until and buckets from the buffers; false if memory is exhausted. */
bool tn__prepared_index(tn__prepared_bank *prepared);
/* The number of the bucket that a buffer belongs to. */
uint32_t tn__prepared_bucket(const tn__prepared_bank *prepared, const tn_run_body *body);

/* Makes a valid layout offset[count] in linear time. Returns E_STOPPED if the caller wants to stop,
 * or if the layout would end beyond 2^63 - 1 bytes. */
tn_status tn__first_layout(const tn__prepared_bank *prepared, uint64_t *offset, uint64_t *peak,
                           tn_error *error);

/* the state of one call of tn_plan */
typedef struct tn__call {
    const tn_planner *planner;
    const tn_problem *problem;
    tn__wholes wholes;
    tn_plan_options options;
    double start_s;
    tn_layout layout;
    bool *planned;    /* [bank_count], whether the buffers of a bank already have their offsets */
    tn__judge *judge; /* computes waits or time of placements; NULL: the objective needs neither */
    bool least_time;  /* the choice of banks is proved to be optimal */
    tn_error *error;
} tn__call;

/* Returns the capacity within which a bank is planned; UINT64_MAX: no limit. */
uint64_t tn__call_capacity(const tn__call *call, tn_bank_id which);
/* Returns a tn__prepared_bank with everything set that comes from the call. */
tn__prepared_bank tn__call_prepared(const tn__call *call, tn_bank_id which);
/* Refuses a problem if the planner does not model a constraint in `needs`. */
tn_status tn__call_refuse(const tn__call *call, uint32_t needs);

tn_status tn__judge_create(const tn__call *call, tn__judge **judge, tn_error *error);
/* does nothing if `judge` is NULL */
void tn__judge_destroy(tn__judge *judge, const tn_context *context);
/* The pairs of buffers that need waits if they share bytes, with the number of these waits as reuse
 * cost. A search uses them as a guide. */
const tn_pair *tn__judge_pairs(const tn__judge *judge, size_t *count);
/* From this call on, the judge computes values of placements of this bank. */
void tn__judge_bind(tn__judge *judge, const tn__prepared_bank *prepared);
/* Returns the value of the objective (waits or time) for the placement offset[count]. */
uint64_t tn__judge_value(tn__judge *judge, const uint64_t *offset);
/* a typical difference between the judge's values of two placements */
double tn__judge_unit(const tn__judge *judge);
/* A lower bound of the value of every placement. must_share: in every placement, at least one pair
 * of buffers of tn__judge_pairs shares bytes. */
uint64_t tn__judge_bound(tn__judge *judge, bool must_share);
uint64_t tn__judge_units(const tn__judge *judge); /* units of work to compute one value */

/* Sets layout.bank of every buffer that several banks may hold (banks.c). For banks that it had to
 * plan for the choice, it also sets the offsets and `planned`. */
tn_status tn__choose_banks(tn__call *call);

struct tn_run {
    const tn__prepared_bank *prepared;
    const tn_planner *planner;
    tn_error *error;
    uint64_t *offset;          /* [count] */
    uint8_t *placed;           /* [count] */
    tn__placed_bucket *bucket; /* [buckets] */
    /* [count], the placed buffers, those of each bucket next to each other */
    tn__placed_entry *entries;
    uint32_t *order; /* [count], scratch memory of tn__run_order */
    uint32_t *near;  /* [count], scratch memory of tn__run_holes and tn__run_near */
    tn__blocked *blocked, *merged;
    size_t blocked_room, merged_room, hole_room;
    tn_hole *holes;
    uint64_t *best; /* [count], offsets of the best placement kept */
    uint64_t best_peak;
    uint64_t best_cost; /* reuse cost of the best placement, in a run that minimises it */
    uint64_t lower_bound;
    uint64_t cost_bound;
    /* next_look: amount of work at which the clock is read again */
    uint64_t work, work_limit, next_look;
    uint64_t unseen; /* number of buffers examined since the clock was read */
    uint32_t threads;
    tn_run *outer; /* the run that made this one; NULL: none */
    /* set by the outer run when this run is no longer needed; may be NULL */
    const atomic_bool *outer_stop;
    bool other_thread; /* the run is not on the caller's thread and must not report progress */
    atomic_bool stop;
    bool timed_out, out_of_work;
    bool cancelled; /* the caller asked to stop */
    bool too_high;  /* a buffer would have ended beyond TN__PLAN_HEIGHT_MAX */
    tn__arena scratch;
};

tn_status tn__run_create(tn_run *run, const tn__prepared_bank *prepared, const tn_planner *planner,
                         tn_error *error);
void tn__run_release(tn_run *run);
/* Calls the planner and also keeps its final placement. Returns OK if there is any placement, even
 * after E_STOPPED from a limit. */
tn_status tn__run_solve(tn_run *run);
/* Works like tn__run_solve, but if a limit left the planner without any layout, the first layout is
 * kept. `first` [count] is that layout; NULL: it is not made yet. */
tn_status tn__run_answer(tn_run *run, const uint64_t *first);
/* Whether the best placement of `run` is better than that of run `than`. */
bool tn__run_is_better(const tn_run *run, const tn_run *than);
/* Whether the best placement of the run is proved to be optimal. */
bool tn__run_is_proved(const tn_run *run);

#endif
