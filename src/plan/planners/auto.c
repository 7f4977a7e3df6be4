/* auto.c - a good plan at once, a better one while time lasts, the proof when there is one.
 *
 * What suits depends on the number of bodies and on whether the caller set a limit:
 *
 *   up to AUTO_GREEDY bodies   the quick planners side by side; together they cost less than
 *                              reading a model from a disk
 *   up to AUTO_NEAR meetings   the same of more bodies, where few of them live at once; the first
 *                              of them is mended (`slide`) before the others are asked
 *   up to AUTO_CREST_NEAR      `crest`, which plans what is crowded first
 *   any number                 `uncut`, for what was cut from one; `scale`, whose plans cost
 *                              O(n log n): a short one where the quick planners were good already,
 *                              its own measure beyond them; `slide` for what they leave too high
 *   up to AUTO_SEARCH bodies   `exact`, a small fixed amount of work: on real networks the bound is
 *                              nearly always reachable, in as many steps as there are bodies;
 *                              what is left to win has to be a millionth of the whole
 *   with a limit               what is left of it goes to `exact` as long as it can take the
 *                              problem, to `scale` beyond
 *
 * So it is never worse than a quick planner wherever those are cheap, and begins where they end.
 * Whatever reaches the lower bound, or the capacity that was asked for, ends it.
 * Cost: without a limit below 1 s up to AUTO_SEARCH bodies, seconds for 10^6 and where nearly every
 * step is full.
 */
#include "plan/frame/peers.h"
#include "plan/skyline/uncut.h"

#define AUTO_GREEDY 4096u
#define AUTO_SEARCH 1500u
#define AUTO_SEARCH_MAX 8192u   /* that `exact` can take */
#define AUTO_SEARCH_WORK 20000u /* nodes: the same plan whatever the clock says */
#define AUTO_SEARCH_WORTH 20    /* bytes to be won, of 2 to the power of it: else not worth that */
#define AUTO_SCALE_WORK 50u     /* placements per body, where others have been */
#define AUTO_FIRST_WORK 4u      /* placements per body: a few plans, which often do */
#define AUTO_NEAR 60000000u     /* pairs of bodies that live together: some seconds for a planner */
#define AUTO_CREST_NEAR 200000000u /* the same: one second for a plan */
#define AUTO_CREST_WORK 150u       /* placements per body */
#define AUTO_PUT_WORK 400000u      /* to put together what was cut: half a second, ... */
#define AUTO_PUT_WORK_EACH 20u     /* ... and that for each body, where there is a limit */
#define AUTO_PUT_AGAIN 4u          /* times that, after all others, where every step is full */
#define AUTO_SLIDE_NEAR 300u       /* the same for each body, beyond which windows are too wide */
#define AUTO_SLIDE_WORK 2000000u   /* nodes and placements: some seconds */

static bool auto_is_done(const tn_run *run) {
    if (tn__run_best(run) <= tn__run_lower_bound(run)) return true;
    return tn__run_has_capacity(run) && tn__run_best(run) <= tn__run_capacity(run);
}

static tn_status auto_ask(tn_run *run, const char *name, uint64_t work_limit) {
    const tn_planner *planner = tn__planner_find(name);
    if (auto_is_done(run) || planner == NULL) return TN_OK;
    tn_status status = tn__run_portfolio(run, &planner, 1, work_limit);
    bool own = status == TN_E_STOPPED && work_limit > 0; /* it came to its limit with no plan */
    return own && tn__run_goes_on(run) ? TN_OK : status;
}

/* Pairs of bodies that live together: what planners take who look at all neighbours of each. */
static uint64_t auto_count_near(tn_run *run) {
    uint32_t n = tn__run_count(run);
    uint64_t *degree = tn__run_scratch(run, n, sizeof *degree), sum = 0;
    if (degree == NULL || tn__run_has_streams(run) || !tn__peers_degrees(run, degree))
        return UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) sum += degree[i];
    return sum;
}

static tn_status auto_slide(tn_run *run, uint64_t near) {
    uint64_t n = tn__run_count(run);
    bool plain = (tn__run_needs(run) & (TN_PLANS_PIECES | TN_PLANS_STREAMS)) == 0;
    if (near > AUTO_SLIDE_NEAR * n || !plain) return TN_OK;
    return auto_ask(run, "slide", AUTO_SLIDE_WORK + 2 * n);
}

static tn_status auto_crest(tn_run *run, uint64_t near) {
    if (near > AUTO_CREST_NEAR || (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT))
        return TN_OK;
    return auto_ask(run, "crest", (uint64_t)AUTO_CREST_WORK * tn__run_count(run));
}

/* The quick planners; of many bodies a few plans of `scale`, then one of them, which may do. */
static tn_status auto_quick(tn_run *run, uint64_t near) {
    uint32_t n = tn__run_count(run);
    if (n > AUTO_GREEDY) {
        TN_TRY(auto_ask(run, "scale", (uint64_t)AUTO_FIRST_WORK * n));
        if (near > AUTO_NEAR || near > (uint64_t)AUTO_SLIDE_NEAR * n) return auto_crest(run, near);
        TN_TRY(auto_ask(run, "greedy-by-size", 0));
        TN_TRY(auto_slide(run, near));
        TN_TRY(auto_crest(run, near));
    }
    return auto_is_done(run) ? TN_OK : tn__run_quick_portfolio(run);
}

static bool auto_is_near(const tn_run *run) {
    uint64_t left = tn__run_best(run) - tn__run_lower_bound(run);
    return left < tn__run_best(run) >> AUTO_SEARCH_WORTH && !tn__run_has_capacity(run);
}

static tn_status auto_solve(tn_run *run) {
    uint32_t n = tn__run_count(run);
    bool greedy = n <= AUTO_GREEDY, limited = tn__run_is_limited(run);
    bool plain = !(tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT);
    bool full = plain && tn__uncut_is_full(run);
    uint64_t put_work = AUTO_PUT_WORK + (uint64_t)AUTO_PUT_WORK_EACH * n;
    if (full) TN_TRY(auto_ask(run, "uncut", put_work)); /* before any other takes the time */
    uint64_t near = n > AUTO_SEARCH ? auto_count_near(run) : 0;
    TN_TRY(auto_quick(run, near));
    if (greedy && !full) TN_TRY(auto_crest(run, near));
    if (plain && !(full && limited))
        TN_TRY(auto_ask(run, "uncut", limited ? put_work : full ? AUTO_PUT_AGAIN * put_work : 0));
    if (!limited || n <= AUTO_SEARCH_MAX) /* else it has the rest of the time in one piece */
        TN_TRY(auto_ask(run, "scale", greedy || limited ? (uint64_t)AUTO_SCALE_WORK * n : 0));
    if (n > AUTO_SEARCH) TN_TRY(auto_slide(run, near));
    if (limited) return auto_ask(run, n <= AUTO_SEARCH_MAX ? "exact" : "scale", 0);
    if (n > AUTO_SEARCH || auto_is_near(run)) return TN_OK;
    return auto_ask(run, "exact", AUTO_SEARCH_WORK);
}

const tn_planner tn__planner_auto = {
    .name = "auto",
    .summary = "what suits the size and the time there is (the default)",
    .source = "portfolio",
    .features = TN_PLANS_ALL,
    .solve = auto_solve,
};
