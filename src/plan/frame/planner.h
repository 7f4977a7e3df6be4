/* planner.h - the interface of a planner, and the functions that planners are written with.
 *
 * A planner is one file in a folder of planners/ that fills in one tn_planner, plus one line in
 * planners.def. It decides the order in which buffers are placed and the hole that each one takes.
 * All other work (banks, pins, alignment, pieces, limits, bounds, verification) is done by plan.c
 * and is the same for all planners. Each bank is planned separately, so a planner sees the buffers
 * of one bank. Buffers that are tied together appear as one buffer, which has the union of their
 * pieces.
 */
#ifndef TN_PLAN_FRAME_PLANNER_H
#define TN_PLAN_FRAME_PLANNER_H

#include <stdatomic.h>

#include <tenure/plan.h>

#include "base/base.h"

enum { /* flags of a planner: constraints that `solve` honours (others are refused); properties */
       TN_PLANS_ALIGNMENT = 1u << 0,
       TN_PLANS_PINS = 1u << 1,
       /* the planner places buffers of several pieces, and of a piece that does not cover all bytes
        * of the buffer */
       TN_PLANS_PIECES = 1u << 2,
       /* the planner honours clocks: it asks tn__run_pieces_meet whether pieces conflict, or places
        * only into holes of tn__run_holes */
       TN_PLANS_STREAMS = 1u << 3,
       TN_PLANS_ALL = (1u << 4) - 1, /* all constraints on single buffers: the four flags above */
       /* the planner obeys separations and reserved ranges, and does not rely on buffers with
        * overlapping live ranges being disjoint (exclusions): it places only at starts within holes
        * of tn__run_holes */
       TN_PLANS_APART = 1u << 4,
       /* the planner minimises the reuse cost, if the run asks for it */
       TN_PLANS_BY_COST = 1u << 5,
       /* the planner takes near-linear time in practice: it is a member of the quick portfolio of
        * `auto` */
       TN_PLANS_QUICKLY = 1u << 8,
       /* the planner makes a few greedy passes: `auto` runs it if such passes are cheap for the
        * problem */
       TN_PLANS_SIMPLY = 1u << 9,
};

/* A call in progress, for one bank. Planners read the public part and call tn__run_*. Buffers are
 * numbered 0 ... count-1 within the run, in the problem's order; pinned buffers are placed from the
 * start. */
typedef struct tn_run tn_run;

/* One buffer as planners see it. Times are compressed to 0 ... time_count (ranks of the event
 * times), so that flat arrays over time are possible. */
typedef struct tn_run_body {
    uint64_t size, alignment;
    uint32_t first, last; /* hull of the live range, in compressed time */
    /* range of the buffer's pieces in tn__run_pieces; their times are compressed */
    uint32_t piece_first, piece_count;
} tn_run_body;
typedef struct tn_run_piece {
    uint32_t first, last;
    uint64_t lo, hi;
} tn_run_piece;

typedef struct tn_planner {
    const char *name;    /* the name that users type, matching [a-z0-9-]+ */
    const char *summary; /* one line for --help, without a full stop */
    const char *source;  /* paper, book or other program from which the idea comes */
    uint32_t features;   /* TN_PLANS_*: constraints and properties */
    tn_status (*solve)(tn_run *run);
} tn_planner;

uint32_t tn__run_count(const tn_run *run);
const tn_run_body *tn__run_bodies(const tn_run *run); /* [count] */
const tn_run_piece *tn__run_pieces(const tn_run *run);
/* Whether two pieces (indices into tn__run_pieces) may not share bytes: they overlap in time, or no
 * order between them is known. For problems with streams, this is the only correct test. */
bool tn__run_pieces_meet(const tn_run *run, uint32_t piece_a, uint32_t piece_b);
uint32_t tn__run_time_count(const tn_run *run);
/* Returns the length of the buffer's live range in steps, from the first to the last. Saturates. */
uint64_t tn__run_span(const tn_run *run, uint32_t body);
bool tn__run_pinned(const tn_run *run, uint32_t body);
/* Returns the capacity of the run in bytes; UINT64_MAX: no limit. */
uint64_t tn__run_capacity(const tn_run *run);
/* Returns the lower bound of the peak that is proved so far. */
uint64_t tn__run_lower_bound(const tn_run *run);
uint64_t tn__run_seed(const tn_run *run);
/* Whether a limit on work or time is set. If it is, the planner uses all of it, else it ends by
 * itself. */
bool tn__run_is_limited(const tn_run *run);
uint32_t tn__run_needs(const tn_run *run); /* TN_PLANS_*: the constraints of the problem */
/* Whether there are several streams, so that intervals of time do not decide if buffers overlap. */
bool tn__run_has_streams(const tn_run *run);
/* Whether the run minimises the reuse cost within its capacity, not the peak. */
bool tn__run_by_cost(const tn_run *run);
/* Whether the caller asks for any plan within a capacity, not for the lowest peak. */
bool tn__run_has_capacity(const tn_run *run);
uint32_t tn__run_threads(const tn_run *run);
const tn_context *tn__run_context(const tn_run *run);

/* The buffers that are not placed yet, sorted by `compare` (which returns what qsort expects);
 * pinned ones are placed from the beginning. Ties are sorted by number, so that the order is the
 * same with every C library. Cost: O(n log n). */
typedef int (*tn_run_compare)(const tn_run_body *a, const tn_run_body *b);
tn_status tn__run_order(tn_run *run, tn_run_compare compare, const uint32_t **order,
                        uint32_t *count);
/* The buffers that are not placed yet, sorted by ascending key[body], then by `then`, then by
 * number. */
tn_status tn__run_order_by_key(tn_run *run, const uint64_t *key, tn_run_compare then,
                               const uint32_t **order, uint32_t *count);
/* compares buffers for sorting: the larger one first, of equal sizes the longer live range */
int tn__larger_first(const tn_run_body *a, const tn_run_body *b);

/* A range of offsets at which a buffer may start. The last one has no end. */
typedef struct tn_hole {
    uint64_t first; /* the lowest start, aligned for the buffer */
    uint64_t last;  /* the highest start, aligned for the buffer; UINT64_MAX in the last hole */
} tn_hole;

/* Finds the holes that the placed buffers leave for `body`, lowest first. There is always at least
 * one. The result is valid until the next call. Counts one unit of work and returns E_STOPPED if a
 * limit (work, time, cancel) is reached. Cost: linear in the placed buffers that overlap `body` in
 * time, times a logarithm. */
tn_status tn__run_holes(tn_run *run, uint32_t body, const tn_hole **holes, uint32_t *count);

/* Places the buffers of `order`, each in the hole that `choose` picks. Most greedy planners consist
 * of an order and a choice. At the first buffer that ends no lower than the best placement kept, it
 * gives up and returns OK; that buffer's successors stay unplaced. */
typedef uint64_t (*tn_run_choose)(const tn_hole *holes, uint32_t count);
tn_status tn__run_greedy(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose);
tn_status tn__run_greedy_all(tn_run *run, const uint32_t *order, uint32_t count,
                             /* works like tn__run_greedy, but always places all buffers */
                             tn_run_choose choose);
uint64_t tn__choose_lowest(const tn_hole *holes, uint32_t count);
/* Chooses the smallest hole, and of equally small ones the lowest. */
uint64_t tn__choose_tightest(const tn_hole *holes, uint32_t count);

/* Simulates a pool that serves requests as they come: buffers in order of time, ties by number,
 * each in the smallest sufficient hole among the live buffers. Of equal holes, the lowest or the
 * last is taken. Keeps the layout without placing buffers. Allowed only if tn__run_replays returns
 * true: the problem has no constraint except alignment, and all sizes are multiples of all
 * alignments. Counts one unit of work per buffer. Cost: O(n log n). */
bool tn__run_replays(const tn_run *run);
tn_status tn__run_replay(tn_run *run, bool last);

/* Places a buffer. If it would end beyond 2^63 - 1, it is not placed and the run ends with
 * E_STOPPED. */
void tn__run_place(tn_run *run, uint32_t body, uint64_t offset);
/* removes a placed buffer, which must not be pinned */
void tn__run_unplace(tn_run *run, uint32_t body);
bool tn__run_placed(const tn_run *run, uint32_t body);
uint64_t tn__run_offset(const tn_run *run, uint32_t body); /* the offset of a placed buffer */

/* For planners that improve a placement step by step: keeps the present complete placement if its
 * peak is the lowest so far. In a run that minimises reuse cost, it is kept if it exceeds the
 * capacity less, then if its cost is lower, then if its peak is lower. The best placement kept is
 * the result of the run, also if a limit stops the run later. `solve` need not call this function
 * if it ends with every buffer placed. */
tn_status tn__run_keep(tn_run *run);
/* Works like tn__run_keep for offsets[count] that were computed without tn__run_place. */
void tn__run_keep_offsets(tn_run *run, const uint64_t *offsets);
/* Reports a proof by the planner that no placement has a peak below `bytes`. */
void tn__run_raise_bound(tn_run *run, uint64_t bytes);

/* Reports a proof that no placement within the capacity has a reuse cost below `cost`. */
void tn__run_raise_cost_bound(tn_run *run, uint64_t cost);
uint64_t tn__run_cost_bound(const tn_run *run);
/* reuse cost of the best placement kept, in a run that minimises it */
uint64_t tn__run_best_cost(const tn_run *run);

/* Whether the best placement reaches the lower bound, or fits the capacity. In a run that minimises
 * reuse cost: whether its cost reaches the bound of the cost. */
bool tn__run_is_done(const tn_run *run);
/* peak of the best placement kept; UINT64_MAX if none was kept */
uint64_t tn__run_best(const tn_run *run);
/* [count], offsets of the best placement kept; valid if a placement was kept */
const uint64_t *tn__run_best_offsets(const tn_run *run);

/* Counts units of work that tn__run_holes did not count. Returns E_STOPPED if a limit is
 * reached. */
tn_status tn__run_work(tn_run *run, uint64_t units);
/* Returns the number of units of work that the run may still do; UINT64_MAX: no limit. */
uint64_t tn__run_work_left(const tn_run *run);
uint64_t tn__run_work_done(const tn_run *run);
/* Checks the clock and whether the caller wants to cancel, without counting work. Call it only from
 * the thread of the run. */
bool tn__run_goes_on(tn_run *run);
/* Whether the run must end, for helping threads: unlike tn__run_goes_on, it only reads known
 * state. */
bool tn__run_is_over(const tn_run *run);

/* Allocates memory that is released at the end of the run; NULL if memory is exhausted. */
void *tn__run_scratch(tn_run *run, size_t count, size_t item);

/* Runs other planners on the same bank, each in a run of its own, on as many threads as the caller
 * allows. Keeps the placement with the lowest peak; of equal ones that of the first planner. A
 * planner that reaches the lower bound ends the portfolio. The work that the run has left, or
 * `work_limit` if that is less (0: no limit), is divided evenly, so that the result never depends
 * on the number of threads. Planners that do not support the problem's constraints are skipped. */
tn_status tn__run_portfolio(tn_run *run, const tn_planner *const *planners, uint32_t count,
                            uint64_t work_limit);
/* Runs one planner of the registry, by name. */
tn_status tn__run_as(tn_run *run, const char *planner);
/* Works like tn__run_as with at most `work_limit` units of work (0: all that is left), unless the
 * run is done already. If the planner reaches that limit without a plan, the run continues. */
tn_status tn__run_ask(tn_run *run, const char *planner, uint64_t work_limit);
/* Runs all planners of the registry with the flag TN_PLANS_QUICKLY, in parallel. */
tn_status tn__run_quick_portfolio(tn_run *run);
/* Runs all planners of the registry with the flag TN_PLANS_SIMPLY, one after the other, because the
 * best plan so far makes most of them give up early. */
tn_status tn__run_simple_planners(tn_run *run);
/* Runs the planner `fast` within this run (fast.c). */
tn_status tn__run_fast(tn_run *run);

/* Runs the search of reuse_cost.c with a longer complete search; `exact` uses it in a run that
 * minimises reuse cost, or with separations, exclusions or reserved ranges. */
tn_status tn__reuse_exact(tn_run *run);

/* A smaller problem: buffers of one piece that covers all their bytes, in the run's compressed
 * times. */
#define TN__FREE UINT64_MAX /* the value of `pin` for a buffer that is not pinned */
typedef struct tn__subproblem_body {
    uint64_t size, alignment;
    uint32_t first, last;
    uint64_t pin; /* offset; TN__FREE: the planner chooses it */
} tn__subproblem_body;
typedef struct tn__subproblem {
    const tn__subproblem_body *bodies; /* [count] */
    uint32_t count;
    const tn_planner *planner;
    uint64_t capacity;   /* a sufficient peak; UINT64_MAX: find the lowest peak */
    uint64_t work_limit; /* limit of work, which is counted as work of the run */
} tn__subproblem;
/* Solves a smaller problem and fills in offset[count]. *peak is UINT64_MAX if no layout was
 * found. */
tn_status tn__run_part(tn_run *run, const tn__subproblem *part, uint64_t *offset, uint64_t *peak);

/* Finds the placed buffers with live ranges that overlap [first, last), in any order. The result is
 * valid until the next call of tn__run_near or of tn__run_holes. */
uint32_t tn__run_near(tn_run *run, uint32_t first, uint32_t last, const uint32_t **ids);

/* The registry of planners. */
const tn_planner *tn__planner_at(uint32_t index);
/* Finds a planner by name; returns NULL if no planner has that name. */
const tn_planner *tn__planner_find(const char *name);

/* tn_plan with a planner that need not be in the registry; used by the tests. */
tn_status tn__plan_with(const tn_planner *planner, const tn_problem *problem,
                        const tn_plan_options *options, tn_layout *layout, tn_error *error);

#endif
