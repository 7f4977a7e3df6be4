/* planner.h - the interface of a planner, and the functions that planners are written with.
 *
 * A planner is one file in planners/ that fills in one tn_planner, plus one line in planners.def.
 * It decides the order of bodies and the hole that each one takes. All other work (banks, pins,
 * alignment, pieces, limits, bounds, verification) is done around it by plan.c and is the same for
 * all planners. The frame splits a problem by bank, so a planner sees one bank. Bodies that are
 * tied together reach it as one body, whose pieces are the union of theirs.
 */
#ifndef TN_PLAN_FRAME_PLANNER_H
#define TN_PLAN_FRAME_PLANNER_H

#include <stdatomic.h>

#include <tenure/plan.h>

#include "base/base.h"

enum { /* constraints that `solve` honours; a problem with any other is refused */
       TN_PLANS_ALIGNMENT = 1u << 0,
       TN_PLANS_PINS = 1u << 1,
       TN_PLANS_PIECES = 1u << 2,    /* bodies of several pieces, or of a window below their size */
       TN_PLANS_STREAMS = 1u << 3,   /* pieces meet by clocks: ask tn__run_pieces_meet, or place
                                      only into holes of tn__run_holes */
       TN_PLANS_ALL = (1u << 4) - 1, /* all constraints of single bodies */
       /* separations and reserved ranges: place only at starts within holes of tn__run_holes */
       TN_PLANS_APART = 1u << 4,
       TN_PLANS_BY_COST = 1u << 5, /* minimises the reuse cost in a run by cost */
       TN_PLANS_QUICKLY = 1u << 8, /* near-linear in practice: it belongs to auto's portfolio */
       TN_PLANS_SIMPLY = 1u << 9,  /* a few greedy passes: `auto` runs it if those are cheap */
};

/* A call in progress, for one bank. Planners read the public part and call tn__run_*. Bodies are
 * numbered 0 ... count-1 within the run, in the problem's order; pinned ones are placed already. */
typedef struct tn_run tn_run;

/* One body as planners see it. Times are compressed to 0 ... time_count (ranks of the event
 * times), so that flat arrays over time are possible. */
typedef struct tn_run_body {
    uint64_t size, alignment;
    uint32_t first, last;              /* hull, compressed time */
    uint32_t piece_first, piece_count; /* into tn__run_pieces; compressed time */
} tn_run_body;
typedef struct tn_run_piece {
    uint32_t first, last;
    uint64_t lo, hi;
} tn_run_piece;

typedef struct tn_planner {
    const char *name;    /* the name that users type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or other program that the idea comes from */
    uint32_t features;   /* TN_PLANS_* */
    tn_status (*solve)(tn_run *run);
} tn_planner;

uint32_t tn__run_count(const tn_run *run);
const tn_run_body *tn__run_bodies(const tn_run *run); /* [count] */
const tn_run_piece *tn__run_pieces(const tn_run *run);
/* Whether two pieces (indices into tn__run_pieces) may not share bytes: they overlap in time, or no
 * order between them is known. For problems with streams, this is the only correct test. */
bool tn__run_pieces_meet(const tn_run *run, uint32_t piece_a, uint32_t piece_b);
uint32_t tn__run_time_count(const tn_run *run);
uint64_t tn__run_span(const tn_run *run, uint32_t body); /* steps from first to last, saturating */
bool tn__run_pinned(const tn_run *run, uint32_t body);
uint64_t tn__run_capacity(const tn_run *run);    /* UINT64_MAX: none */
uint64_t tn__run_lower_bound(const tn_run *run); /* peak of live bytes */
uint64_t tn__run_seed(const tn_run *run);
/* by work or time: use all of it; otherwise end without a limit */
bool tn__run_is_limited(const tn_run *run);
uint32_t tn__run_needs(const tn_run *run);   /* TN_PLANS_*: the constraints of the problem */
bool tn__run_has_streams(const tn_run *run); /* overlap in time is not decided by intervals */
/* Whether the run minimises the reuse cost within its capacity, not the peak. */
bool tn__run_by_cost(const tn_run *run);
bool tn__run_has_capacity(const tn_run *run); /* the caller asks "does it fit?", not "how small?" */
uint32_t tn__run_threads(const tn_run *run);
const tn_context *tn__run_context(const tn_run *run);

/* The bodies that are still free, ordered by `compare` (qsort's meaning), ties by number, so that
 * every run of every C library agrees. Cost: O(n log n). */
typedef int (*tn_run_compare)(const tn_run_body *a, const tn_run_body *b);
tn_status tn__run_order(tn_run *run, tn_run_compare compare, const uint32_t **order,
                        uint32_t *count);
/* The same, by ascending key[body] first. */
tn_status tn__run_order_by_key(tn_run *run, const uint64_t *key, tn_run_compare then,
                               const uint32_t **order, uint32_t *count);
int tn__larger_first(const tn_run_body *a, const tn_run_body *b); /* size, then length of life */

/* A range of offsets at which a body may start. The last one has no end. */
typedef struct tn_hole {
    uint64_t first; /* aligned for the body: the lowest start */
    uint64_t last;  /* aligned: the highest start; UINT64_MAX in the last hole */
} tn_hole;

/* The holes that the placed bodies leave for `body`, lowest first; never empty. Valid until the
 * next call. Counts one unit of work; E_STOPPED if a limit (work, time, cancel) is reached. Cost:
 * O(placed bodies that overlap it in time, log). */
tn_status tn__run_holes(tn_run *run, uint32_t body, const tn_hole **holes, uint32_t *count);

/* Places the free bodies in `order`, each in the hole that `choose` picks. Most greedy planners are
 * an order and one of these choices. Gives up, with OK, at the first body that ends no lower than
 * the best placement kept: the bodies after it stay unplaced. */
typedef uint64_t (*tn_run_choose)(const tn_hole *holes, uint32_t count);
tn_status tn__run_greedy(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose);
tn_status tn__run_greedy_all(tn_run *run, const uint32_t *order, uint32_t count,
                             tn_run_choose choose); /* the same without giving up */
uint64_t tn__choose_lowest(const tn_hole *holes, uint32_t count);
uint64_t tn__choose_tightest(const tn_hole *holes, uint32_t count); /* ties: the lowest */

/* Simulates a pool that serves requests as they come: bodies in order of time, ties by number, each
 * in the tightest hole among the live bodies; among equal holes the lowest, or the last. Keeps the
 * layout without placing bodies. Only if tn__run_replays allows it: no pins, pieces or streams, and
 * all sizes are multiples of all alignments. One unit of work per body. Cost: O(n log n). */
bool tn__run_replays(const tn_run *run);
tn_status tn__run_replay(tn_run *run, bool last);

/* A body that would end beyond 2^63 - 1 is not placed there; the run ends with E_STOPPED. */
void tn__run_place(tn_run *run, uint32_t body, uint64_t offset);
void tn__run_unplace(tn_run *run, uint32_t body); /* not for pinned bodies */
bool tn__run_placed(const tn_run *run, uint32_t body);
uint64_t tn__run_offset(const tn_run *run, uint32_t body); /* placed bodies only */

/* For anytime planners: keeps the present complete placement if its peak is the lowest so far; in a
 * run by cost, if it exceeds the capacity least, then has the least cost, then the lowest peak. The
 * best one kept is the result, also if a limit then stops the run. `solve` need not call it if it
 * ends with every body placed. */
tn_status tn__run_keep(tn_run *run);
/* The same for offsets [count] that were not placed one by one. */
void tn__run_keep_offsets(tn_run *run, const uint64_t *offsets);
/* Reports a proof by the planner that no placement has a peak below `bytes`. */
void tn__run_raise_bound(tn_run *run, uint64_t bytes);

/* Reports a proof that no placement within the capacity has a reuse cost below `cost`. */
void tn__run_raise_cost_bound(tn_run *run, uint64_t cost);
uint64_t tn__run_cost_bound(const tn_run *run);
uint64_t tn__run_best_cost(const tn_run *run); /* of the best placement kept, in a run by cost */

/* the best placement reaches the bound, or fits the capacity; in a run by cost: its cost reaches
 * the bound of the cost */
bool tn__run_is_done(const tn_run *run);
uint64_t tn__run_best(const tn_run *run); /* peak of the best placement kept; UINT64_MAX: none */
const uint64_t *tn__run_best_offsets(const tn_run *run); /* [count], if a placement was kept */

/* Counts units of work that were not counted by tn__run_holes. E_STOPPED as there. */
tn_status tn__run_work(tn_run *run, uint64_t units);
uint64_t tn__run_work_left(const tn_run *run); /* UINT64_MAX: no limit */
uint64_t tn__run_work_done(const tn_run *run);
/* Checks the clock and whether the caller wants to cancel, without counting work. From the thread
 * of the run. */
bool tn__run_goes_on(tn_run *run);
/* The same for helping threads: it only reads known state. */
bool tn__run_is_over(const tn_run *run);

/* Scratch that lives until the end of the run; NULL when memory is out. */
void *tn__run_scratch(tn_run *run, size_t count, size_t item);

/* Runs other planners on the same bank, each in a run of its own, on as many threads as the caller
 * allows, and keeps the best placement: lowest peak, ties to the first. One that reaches the lower
 * bound ends the portfolio. The rest of the run's work limit, or `work_limit` if that is less (0:
 * no limit), is divided evenly, so that the answer never depends on the threads. Planners that
 * cannot take the problem's constraints are skipped. */
tn_status tn__run_portfolio(tn_run *run, const tn_planner *const *planners, uint32_t count,
                            uint64_t work_limit);
/* Runs one planner of the registry, by name. */
tn_status tn__run_as(tn_run *run, const char *planner);
/* The same unless the run is done, with at most `work_limit` work (0: all that is left). If the
 * planner reaches that limit without a plan, the run goes on. */
tn_status tn__run_ask(tn_run *run, const char *planner, uint64_t work_limit);
/* The same with all planners of the registry that say TN_PLANS_QUICKLY, in parallel ... */
tn_status tn__run_quick_portfolio(tn_run *run);
/* ... or TN_PLANS_SIMPLY, one by one: the best plan so far lets most of them give up soon. */
tn_status tn__run_simple_planners(tn_run *run);
/* fast.c: runs the planner of that name within this run. */
tn_status tn__run_fast(tn_run *run);

/* reuse_cost.c: its search with a longer complete search, for `exact` in a run by cost, or with
 * separations or reserved ranges. */
tn_status tn__reuse_exact(tn_run *run);

/* A smaller problem: bodies of one whole piece, in the run's compressed times. */
#define TN__FREE UINT64_MAX /* not pinned */
typedef struct tn__subproblem_body {
    uint64_t size, alignment;
    uint32_t first, last;
    uint64_t pin; /* offset; TN__FREE: the planner chooses it */
} tn__subproblem_body;
typedef struct tn__subproblem {
    const tn__subproblem_body *bodies; /* [count] */
    uint32_t count;
    const tn_planner *planner;
    uint64_t capacity;   /* a sufficient peak; UINT64_MAX: as low as possible */
    uint64_t work_limit; /* counts as work of the run */
} tn__subproblem;
/* Fills in offset[count]; *peak UINT64_MAX: no layout was found. */
tn_status tn__run_part(tn_run *run, const tn__subproblem *part, uint64_t *offset, uint64_t *peak);

/* The placed bodies that overlap [first, last) by their hulls, in any order; valid until the next
 * call of this or of tn__run_holes. */
uint32_t tn__run_near(tn_run *run, uint32_t first, uint32_t last, const uint32_t **ids);

/* The registry. */
const tn_planner *tn__planner_at(uint32_t index);
const tn_planner *tn__planner_find(const char *name); /* NULL: no planner of that name */

/* tn_plan with a planner that need not be in the registry; used by the tests. */
tn_status tn__plan_with(const tn_planner *planner, const tn_problem *problem,
                        const tn_plan_options *options, tn_layout *layout, tn_error *error);

#endif
