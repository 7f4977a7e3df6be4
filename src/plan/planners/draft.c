/* draft.c - a good plan at once: what `auto` begins with.
 *
 * For who plans by the hundred and has to compare: the same plan as `auto`'s wherever that does not
 * search for longer. What suits depends on the number of bodies and on whether there is a limit:
 *
 *   up to DRAFT_GREEDY bodies   the quick planners side by side; together they cost less than
 *                               reading a model from a disk
 *   up to DRAFT_NEAR meetings   the same of more bodies, where few of them live at once; the first
 *                               of them is mended (`slide`) before the others are asked. Beyond,
 *                               `time-order` and `ggml`, where they take no more than the bodies
 *   up to DRAFT_CREST_NEAR      `crest`, which plans what is crowded first
 *   any number                  `uncut`, for what was cut from one; `scale`, whose plans cost
 *                               O(n log n): a short one where the quick planners were good already,
 *                               its own measure beyond them; `slide` for what they leave too high
 *   up to DRAFT_SIMPLE_NEAR     the planners after other tools that are some greedy passes; each
 *                               gives up at the first body that ends as high as what there is
 *   up to DRAFT_SEARCH bodies   `exact`, a small fixed amount of work: on real networks the bound
 *                               is nearly always reachable, in as many steps as there are bodies;
 *                               what is left to win has to be a millionth of the whole. Not within
 *                               a limit: who sets one goes on, and decides with what
 *
 * So it is never worse than a quick or simple planner wherever those are cheap, and begins where
 * they end.
 * Whatever reaches the lower bound, or the capacity that was asked for, ends it.
 * Cost: without a limit below 1 s up to DRAFT_SEARCH bodies, seconds for 10^6 and where nearly
 * every step is full.
 */
#include "plan/frame/peers.h"
#include "plan/skyline/uncut.h"

#define DRAFT_GREEDY 4096u
#define DRAFT_SEARCH 1500u
#define DRAFT_LATER 8192u        /* beyond them a limit leaves `scale` its time in one piece */
#define DRAFT_SEARCH_WORK 20000u /* nodes: the same plan whatever the clock says */
#define DRAFT_SEARCH_WORTH 20    /* bytes to be won, of 2 to the power of it: else not worth that */
#define DRAFT_SCALE_WORK 50u     /* placements per body, where others have been */
#define DRAFT_FIRST_WORK 4u      /* placements per body: a few plans, which often do */
#define DRAFT_NEAR 60000000u /* pairs of bodies that live together: some seconds for a planner */
#define DRAFT_SIMPLE_NEAR 60000000u /* the same: 18 passes, of which few are made to their end */
#define DRAFT_CREST_NEAR 200000000u /* the same: one second for a plan */
#define DRAFT_CREST_WORK 150u       /* placements per body */
#define DRAFT_PUT_WORK 400000u      /* to put together what was cut: half a second, ... */
#define DRAFT_PUT_WORK_EACH 20u     /* ... and that for each body, where there is a limit */
#define DRAFT_PUT_AGAIN 4u          /* times that, after all others, where every step is full */
#define DRAFT_SLIDE_NEAR 300u       /* the same for each body, beyond which windows are too wide */
#define DRAFT_SLIDE_WORK 2000000u   /* nodes and placements: some seconds */

/* Pairs of bodies that live together: what planners take who look at all neighbours of each. */
static uint64_t draft_count_near(tn_run *run) {
    uint32_t n = tn__run_count(run);
    uint64_t *degree = tn__run_scratch(run, n, sizeof *degree), sum = 0;
    if (degree == NULL || tn__run_has_streams(run) || !tn__peers_degrees(run, degree))
        return UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) sum += degree[i];
    return sum;
}

/* Whether few live at once, so that what is too high can be mended in windows of time. */
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

/* The quick planners; of many bodies one of them, mended, where few live at once: that often does.
 * Else, and within a limit, a few plans of `scale` come first. */
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
    if (full) TN_TRY(tn__run_ask(run, "uncut", put_work)); /* before any other takes the time */
    uint64_t near = n > DRAFT_SEARCH ? draft_count_near(run) : 0;
    TN_TRY(draft_quick(run, near, full));
    if (greedy && !full) TN_TRY(draft_crest(run, near));
    if (plain && !(full && limited))
        TN_TRY(tn__run_ask(run, "uncut",
                           limited ? put_work
                           : full  ? DRAFT_PUT_AGAIN * put_work
                                   : 0));
    if (!limited || n <= DRAFT_LATER) /* else it has the rest of the time in one piece */
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
