/* draft.c - makes a good plan at once; `auto` begins with it.
 *
 * Use it to make and compare hundreds of plans: the plan is the same as that of `auto`, unless
 * `auto` searches for longer. The planners that are tried depend on the number of bodies and on
 * whether there is a limit:
 *
 *   up to DRAFT_GREEDY bodies   the quick planners side by side; together they cost less than
 *                               reading a model from a disk
 *   up to DRAFT_NEAR pairs      the same for more bodies, if few are live at once; the plan of the
 *                               first planner is repaired (`slide`) before the others run. Beyond,
 *                               `time-order` and `ggml`, if their cost is linear in the bodies
 *   up to DRAFT_CREST_NEAR      `crest`, which plans crowded steps first
 *   any number                  `uncut`, for packings cut from one block; `scale`, at a cost of
 *                               O(n log n): a short run if the quick planners were good already,
 *                               its full run beyond them; `slide` repairs what is still too high
 *   up to DRAFT_SIMPLE_NEAR     planners modelled on other tools that are a few greedy passes; each
 *                               gives up at the first body that ends as high as the best plan
 *   up to DRAFT_SEARCH bodies   `exact`, a small fixed amount of work: on real networks the bound
 *                               is nearly always reachable, in one step per body;
 *                               it runs if a millionth of the bytes can be gained. Not within a
 *                               limit: the caller's own search follows then
 *
 * So it is never worse than a quick or simple planner if those are cheap. A plan that reaches the
 * lower bound, or fits the requested capacity, ends it.
 * Cost: without a limit below 1 s up to DRAFT_SEARCH bodies, seconds for 10^6 bodies and if nearly
 * every step is full.
 */
#include "plan/frame/peers.h"
#include "plan/skyline/uncut.h"

#define DRAFT_GREEDY 4096u
#define DRAFT_SEARCH 1500u
/* above this number of bodies, a limit leaves `scale` its time in one piece */
#define DRAFT_LATER 8192u
/* nodes: a fixed number, so that the plan does not depend on the clock */
#define DRAFT_SEARCH_WORK 20000u
#define DRAFT_SEARCH_WORTH 20 /* `exact` runs if at least 1/2^20 of the bytes could be gained */
#define DRAFT_SCALE_WORK 50u  /* placements per body, after other planners */
#define DRAFT_FIRST_WORK 4u   /* placements per body: a few plans, which are often sufficient */
#define DRAFT_NEAR 60000000u  /* pairs of simultaneous bodies: some seconds per planner */
#define DRAFT_SIMPLE_NEAR 60000000u /* the same: 18 passes, most of which give up early */
#define DRAFT_CREST_NEAR 200000000u /* the same: one second for a plan */
#define DRAFT_CREST_WORK 150u       /* placements per body */
#define DRAFT_PUT_WORK 400000u      /* work of `uncut`: half a second, ... */
#define DRAFT_PUT_WORK_EACH 20u     /* ... or this for each body, if there is a limit */
/* factor of work after all other planners, if every step is full */
#define DRAFT_PUT_AGAIN 4u
#define DRAFT_SLIDE_NEAR 300u     /* pairs per body above which windows are too wide */
#define DRAFT_SLIDE_WORK 2000000u /* nodes and placements: some seconds */

/* Counts the pairs of simultaneous bodies: the cost of planners that check all neighbours of each
 * body. */
static uint64_t draft_count_near(tn_run *run) {
    uint32_t n = tn__run_count(run);
    uint64_t *degree = tn__run_scratch(run, n, sizeof *degree), sum = 0;
    if (degree == NULL || tn__run_has_streams(run) || !tn__peers_degrees(run, degree))
        return UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) sum += degree[i];
    return sum;
}

/* Whether few bodies are live at once, so that the plan can be repaired in windows of time. */
static bool draft_is_thin(tn_run *run, uint64_t near) {
    bool plain = (tn__run_needs(run) & (TN_PLANS_PIECES | TN_PLANS_STREAMS)) == 0;
    return plain && near <= (uint64_t)DRAFT_SLIDE_NEAR * tn__run_count(run);
}

static tn_status draft_slide(tn_run *run, uint64_t near) {
    if (!draft_is_thin(run, near)) return TN_OK;
    return tn__run_ask(run, "slide", DRAFT_SLIDE_WORK + 2 * (uint64_t)tn__run_count(run));
}

static tn_status draft_crest(tn_run *run, uint64_t near) {
    if (near > DRAFT_CREST_NEAR || (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT))
        return TN_OK;
    return tn__run_ask(run, "crest", (uint64_t)DRAFT_CREST_WORK * tn__run_count(run));
}

/* Runs the quick planners. For many bodies, if few are live at once, it runs one of them and
 * repairs its plan, which is often sufficient. Else, and within a limit, a few plans of `scale`
 * come first. */
static tn_status draft_quick(tn_run *run, uint64_t near, bool full) {
    uint32_t n = tn__run_count(run);
    if (n > DRAFT_GREEDY) {
        bool is_near = near <= DRAFT_NEAR;
        bool mends = is_near && !full && !tn__run_is_limited(run) && draft_is_thin(run, near);
        if (mends) {
            TN_TRY(tn__run_ask(run, "greedy-by-size", 0));
            TN_TRY(draft_slide(run, near));
        }
        TN_TRY(tn__run_ask(run, "scale", (uint64_t)DRAFT_FIRST_WORK * n));
        if (!is_near && tn__run_replays(run)) {
            TN_TRY(tn__run_ask(run, "time-order", 0));
            TN_TRY(tn__run_ask(run, "ggml", 0));
        }
        if (!is_near) return draft_crest(run, near);
        if (!mends) {
            TN_TRY(tn__run_ask(run, "greedy-by-size", 0));
            TN_TRY(draft_slide(run, near));
        }
        TN_TRY(draft_crest(run, near));
    }
    return tn__run_is_done(run) ? TN_OK : tn__run_quick_portfolio(run);
}

static bool draft_is_near(const tn_run *run) {
    uint64_t left = tn__run_best(run) - tn__run_lower_bound(run);
    return left < tn__run_best(run) >> DRAFT_SEARCH_WORTH && !tn__run_has_capacity(run);
}

tn_status tn__run_draft(tn_run *run) {
    uint32_t n = tn__run_count(run);
    bool greedy = n <= DRAFT_GREEDY, limited = tn__run_is_limited(run);
    bool plain = !(tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT);
    bool full = plain && tn__uncut_is_full(run);
    uint64_t put_work = DRAFT_PUT_WORK + (uint64_t)DRAFT_PUT_WORK_EACH * n;
    if (full) TN_TRY(tn__run_ask(run, "uncut", put_work)); /* before other planners use the time */
    uint64_t near = n > DRAFT_SEARCH ? draft_count_near(run) : 0;
    TN_TRY(draft_quick(run, near, full));
    if (greedy && !full) TN_TRY(draft_crest(run, near));
    if (plain && !(full && limited))
        TN_TRY(tn__run_ask(run, "uncut",
                           limited ? put_work
                           : full  ? DRAFT_PUT_AGAIN * put_work
                                   : 0));
    if (!limited || n <= DRAFT_LATER) /* otherwise it gets the rest of the time in one piece */
        TN_TRY(tn__run_ask(run, "scale", greedy || limited ? (uint64_t)DRAFT_SCALE_WORK * n : 0));
    if (n > DRAFT_SEARCH) TN_TRY(draft_slide(run, near));
    if (near <= DRAFT_SIMPLE_NEAR) TN_TRY(tn__run_simple_planners(run));
    if (limited || n > DRAFT_SEARCH || draft_is_near(run)) return TN_OK;
    return tn__run_ask(run, "exact", DRAFT_SEARCH_WORK);
}

const tn_planner tn__planner_draft = {
    .name = "draft",
    .summary = "a good plan at once: what auto does before it searches",
    .source = "portfolio",
    .features = TN_PLANS_ALL,
    .solve = tn__run_draft,
};
