/* fast.c - makes a good plan at once; `auto` begins with it.
 *
 * Use it to make and compare hundreds of plans: the plan is the same as that of `auto`, unless
 * `auto` searches for longer. The planners that run depend on the number of buffers, on the number
 * of pairs of simultaneously live buffers, and on whether there is a limit:
 *
 *   up to FAST_GREEDY buffers   the quick planners side by side; together they take less time
 *                               than reading a model from a disk
 *   up to FAST_NEAR pairs       the quick planners for more buffers, if few are live at once; the
 *                               plan of the first one is repaired (`window-search`) before the
 *                               others run. With more pairs, `time-order` and `ggml` run if
 *                               their cost is linear in the number of buffers
 *   up to FAST_PEAK_NEAR pairs  `peak-first`, which plans crowded steps first
 *   any number                  `guillotine`, for packings cut from one block; `scale`, at a cost
 *                               of O(n log n): a short run if the quick planners have run, else
 *                               its full run; `window-search`, which lowers the buffers that
 *                               still lie too high
 *   up to FAST_SIMPLE_NEAR pairs  planners modelled on other tools that make a few greedy passes;
 *                               each gives up at the first buffer that ends as high as the best
 *                               plan
 *   up to FAST_SEARCH buffers   `exact`, with a small fixed amount of work, if the gap to the
 *                               bound is at least a millionth: on real networks the bound is
 *                               nearly always reachable in one step per buffer. Not if there is
 *                               a limit, because the caller's own search follows then
 *
 * If there is a limit, greedy by size runs before all of these if it can be done in time, because
 * the limit may leave no time for more. Only `guillotine` runs before it, with little work, if
 * nearly every step is full.
 *
 * So the plan is never worse than that of a quick or simple planner, if running those is cheap. A
 * plan that reaches the lower bound, or fits the requested capacity, ends the run.
 *
 * Cost: without a limit below 1 s up to FAST_SEARCH buffers; seconds for 10^6 buffers, or if nearly
 * every step is full.
 */
#include "plan/frame/peers.h"
#include "plan/frame/planner_run.h"
#include "plan/skyline/perfect_packing.h"

#define FAST_GREEDY 4096u
#define FAST_SEARCH 1500u
/* limit of buffers: with more, and with a limit of time or work, `scale` runs later, with all the
 * time that is left */
#define FAST_LATER 8192u
/* nodes of `exact`: a fixed number, so that the plan does not depend on the clock */
#define FAST_SEARCH_WORK 20000u
/* `exact` runs only if at least 1/2^20 of the plan's bytes lie above the lower bound */
#define FAST_SEARCH_WORTH 20
/* number of placements that `scale` makes per buffer, if other planners have run before */
#define FAST_SCALE_WORK 50u
/* number of placements that the first run of `scale` makes per buffer: a few plans, which are often
 * sufficient */
#define FAST_FIRST_WORK 4u
/* limit of pairs of simultaneously live buffers up to which the quick planners run, each for some
 * seconds */
#define FAST_NEAR 60000000u
/* limit of pairs of simultaneously live buffers up to which the simple planners run; most of their
 * greedy passes give up early */
#define FAST_SIMPLE_NEAR 60000000u
/* limit of pairs of simultaneously live buffers up to which `peak-first` runs: about one second for
 * a plan */
#define FAST_PEAK_NEAR 200000000u
#define FAST_CREST_WORK 150u /* number of placements that `peak-first` makes per buffer */
/* limit of the work of `guillotine`, about half a second, without the part that grows with the
 * buffers */
#define FAST_PUT_WORK 400000u
/* number of units that each buffer adds to the limit of the work of `guillotine` */
#define FAST_PUT_WORK_EACH 20u
/* limit of the work of `guillotine` before greedy by size runs, without the part that grows with
 * the buffers: sufficient for packings without chance matches, and a small part of the time that
 * greedy by size takes */
#define FAST_PUT_FIRST 1000u
/* number of buffers for each further unit of this limit */
#define FAST_PUT_FIRST_EACH 8u
/* factor by which the work of `guillotine` grows when it runs again after the quick planners, if
 * nearly every step is full */
#define FAST_PUT_AGAIN 4u
#define FAST_SIMPLEST_LOOK 4096u /* number of buffers between two checks of the clock */
/* greedy by size may give up only after this fraction of the time */
#define FAST_SIMPLEST_SURE 0.05
/* buffers per second, more than any machine can place, for an early estimate of the time of greedy
 * by size */
#define FAST_SIMPLEST_RATE 3e6
/* number of pairs of simultaneously live buffers per buffer above which windows of time contain too
 * many buffers for `window-search` */
#define FAST_SLIDE_NEAR 300u
#define FAST_SLIDE_WORK 2000000u /* work of `window-search` in nodes and placements: some seconds */

/* Counts the pairs of simultaneously live buffers, which determine the cost of planners that check
 * all neighbours of each buffer. */
static uint64_t fast_count_near(tn_run *run) {
    uint32_t n = tn__run_count(run);
    uint64_t *degree = tn__run_scratch(run, n, sizeof *degree), sum = 0;
    if (degree == NULL || tn__run_has_streams(run) || !tn__peers_degrees(run, degree))
        return UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) sum += degree[i];
    return sum;
}

/* Whether few buffers are live at once, so that `window-search` can repair the plan in windows of
 * time. */
static bool fast_is_thin(tn_run *run, uint64_t near) {
    bool plain = (tn__run_needs(run) & (TN_PLANS_PIECES | TN_PLANS_STREAMS)) == 0;
    return plain && near <= (uint64_t)FAST_SLIDE_NEAR * tn__run_count(run);
}

static tn_status fast_slide(tn_run *run, uint64_t near) {
    if (!fast_is_thin(run, near)) return TN_OK;
    return tn__run_ask(run, "window-search", FAST_SLIDE_WORK + 2 * (uint64_t)tn__run_count(run));
}

static tn_status fast_crest(tn_run *run, uint64_t near) {
    if (near > FAST_PEAK_NEAR || (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT)) return TN_OK;
    return tn__run_ask(run, "peak-first", (uint64_t)FAST_CREST_WORK * tn__run_count(run));
}

/* Plans greedily by size, as greedy_by_size.c does. Gives up early if it cannot be done in time:
 * buffers that are placed later have more neighbours, so each of the remaining buffers takes at
 * least as long as the last half (or more) of those placed so far, on average. */
static tn_status fast_simplest_solve(tn_run *run) {
    double deadline_s = run->prepared->deadline_s;
    const uint32_t *order;
    uint32_t count, early = 0, middle = 0; /* numbers of buffers placed when times were noted */
    TN_TRY(tn__run_order(run, tn__larger_first, &order, &count));
    double started_s = tn__clock_s(), span_s = deadline_s - started_s;
    double early_s = started_s, middle_s = started_s;
    for (uint32_t i = 0; i < count; i++) {
        const tn_hole *holes;
        uint32_t hole_count;
        TN_TRY(tn__run_holes(run, order[i], &holes, &hole_count));
        tn__run_place(run, order[i], tn__choose_lowest(holes, hole_count));
        if (deadline_s == 0 || i % FAST_SIMPLEST_LOOK != FAST_SIMPLEST_LOOK - 1) continue;
        double now_s = tn__clock_s(), used_s = now_s - started_s;
        if (i + 1 >= 2 * middle) {
            early = middle, early_s = middle_s;
            middle = i + 1, middle_s = now_s;
        }
        double each_s = (now_s - early_s) / (i + 1 - early);
        if (used_s > FAST_SIMPLEST_SURE * span_s && used_s + each_s * (count - i - 1) > span_s)
            TN_FAIL(run->error, TN_E_STOPPED, "the time limit does not suffice");
    }
    return TN_OK;
}

static const tn_planner fast_simplest_planner = {
    .name = "greedy-by-size", .features = TN_PLANS_ALL, .solve = fast_simplest_solve};

/* With a limit, runs the simplest planner first and keeps its plan: `auto` is then never worse than
 * that planner within an equal limit. */
static tn_status fast_simplest(tn_run *run) {
    const tn_planner *planner = &fast_simplest_planner;
    double deadline_s = run->prepared->deadline_s;
    uint32_t n = tn__run_count(run);
    if (n <= FAST_GREEDY || !tn__run_is_limited(run) || tn__run_work_left(run) < n) return TN_OK;
    if (deadline_s != 0 && n > FAST_SIMPLEST_RATE * (deadline_s - tn__clock_s())) return TN_OK;
    tn_status status = tn__run_portfolio(run, &planner, 1, 0);
    return status == TN_E_STOPPED && tn__run_goes_on(run) ? TN_OK : status;
}

/* Runs the quick planners. For many buffers of which few are live at once, it runs one of them and
 * repairs its plan, which is often sufficient. Otherwise, or with a limit, a few plans of `scale`
 * come first. */
static tn_status fast_quick(tn_run *run, uint64_t near, bool full) {
    uint32_t n = tn__run_count(run);
    if (n > FAST_GREEDY) {
        bool is_near = near <= FAST_NEAR;
        bool mends = is_near && !full && !tn__run_is_limited(run) && fast_is_thin(run, near);
        if (mends) {
            TN_TRY(tn__run_ask(run, "greedy-by-size", 0));
            TN_TRY(fast_slide(run, near));
        }
        TN_TRY(tn__run_ask(run, "scale", (uint64_t)FAST_FIRST_WORK * n));
        if (!is_near && tn__run_replays(run)) {
            TN_TRY(tn__run_ask(run, "time-order", 0));
            TN_TRY(tn__run_ask(run, "ggml", 0));
        }
        if (!is_near) return fast_crest(run, near);
        if (!mends) {
            TN_TRY(tn__run_ask(run, "greedy-by-size", 0));
            TN_TRY(fast_slide(run, near));
        }
        TN_TRY(fast_crest(run, near));
    }
    return tn__run_is_done(run) ? TN_OK : tn__run_quick_portfolio(run);
}

static bool fast_is_near(const tn_run *run) {
    uint64_t left = tn__run_best(run) - tn__run_lower_bound(run);
    return left < tn__run_best(run) >> FAST_SEARCH_WORTH && !tn__run_has_capacity(run);
}

tn_status tn__run_fast(tn_run *run) {
    uint32_t n = tn__run_count(run);
    bool greedy = n <= FAST_GREEDY, limited = tn__run_is_limited(run);
    bool plain = !(tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT);
    bool full = plain && tn__packing_is_full(run);
    uint64_t put_work = FAST_PUT_WORK + (uint64_t)FAST_PUT_WORK_EACH * n;
    if (full && limited && !greedy && tn__run_work_left(run) >= n)
        TN_TRY(tn__run_ask(run, "guillotine", FAST_PUT_FIRST + n / FAST_PUT_FIRST_EACH));
    if (tn__run_is_done(run)) return TN_OK;
    TN_TRY(fast_simplest(run));
    if (tn__run_is_done(run)) return TN_OK;
    /* `guillotine` runs before the other planners use up the time, because it suits packings with
     * full steps */
    if (full) TN_TRY(tn__run_ask(run, "guillotine", put_work));
    uint64_t near = n > FAST_SEARCH ? fast_count_near(run) : 0;
    TN_TRY(fast_quick(run, near, full));
    if (greedy && !full) TN_TRY(fast_crest(run, near));
    if (plain && !(full && limited))
        TN_TRY(tn__run_ask(run, "guillotine",
                           limited ? put_work
                           : full  ? FAST_PUT_AGAIN * put_work
                                   : 0));
    /* With more buffers and a limit, `auto` runs `scale` later, with all the time that is left. */
    if (!limited || n <= FAST_LATER)
        TN_TRY(tn__run_ask(run, "scale", greedy || limited ? (uint64_t)FAST_SCALE_WORK * n : 0));
    if (n > FAST_SEARCH) TN_TRY(fast_slide(run, near));
    if (near <= FAST_SIMPLE_NEAR) TN_TRY(tn__run_simple_planners(run));
    if (limited || n > FAST_SEARCH || fast_is_near(run)) return TN_OK;
    return tn__run_ask(run, "exact", FAST_SEARCH_WORK);
}

const tn_planner tn__planner_fast = {
    .name = "fast",
    .summary = "a good plan without a search; auto starts with it",
    .source = "portfolio",
    .features = TN_PLANS_ALL,
    .solve = tn__run_fast,
};
