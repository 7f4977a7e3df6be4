/* peak_first.c - plans the bodies at the crowded steps (the peak set) first, then the others around
 * them.
 *
 * At a few steps nearly every byte of the lower bound is in use; there bodies must lie without a
 * gap, while other steps have slack. A planner that takes all bodies at once spends its time on the
 * slack. So the bodies that are live at a step with a load above a share of the highest load are
 * planned alone by `scale`. On real networks these are a tenth of the bodies, and `scale` reaches
 * their bound in milliseconds. Humps of the crest that share no step are planned separately,
 * because one order seldom suits all of them. The other bodies take the lowest remaining holes, in
 * order of the load at their steps, then of the length of their lives. A body that ends above the
 * bound joins the crest in the next turn. If that does not help, another share is tried, and then
 * more work for `scale`.
 *
 * Windows, pins and streams are left to `scale`.
 * Cost:   O(bodies x those that live at the same time) a turn, half a second for 10^8 pairs; 60
 *         bytes a body.
 * Source: ours; the blame is that of squeaky wheel optimisation (Joslin, Clements 1999).
 */
#include "plan/frame/peers.h"
#include "plan/skyline/recipes.h"

/* turns with one share; after these, the plan is usually too high elsewhere each time */
#define PEAK_TURNS 4u
#define PEAK_PAIRS 128u    /* pairs of simultaneous bodies that cost as much as one placement */
#define PEAK_REST 4u       /* at least 1/4 of the bodies must be outside the crest */
#define PEAK_WORK 50u      /* placements of `scale` for each body of the crest, at first ... */
#define PEAK_MORE 4u       /* ... and this factor more in each round */
#define PEAK_ROUNDS 1u     /* rounds over all shares without a limit ... */
#define PEAK_ROUNDS_MAX 4u /* ... and with a limit */

/* Shares of the highest load, in 1/4096. */
static const uint32_t peak_shares[] = {3584, 3840, 3072, 4032};
#define PEAK_SHARES ((uint32_t)(sizeof peak_shares / sizeof *peak_shares))

typedef struct peak_state {
    tn_run *run;
    tn__recipes recipes;
    bool *is_crest;        /* [count] */
    uint32_t *ids;         /* [peak_count], bodies of the crest, grouped by hump */
    tn__part_body *bodies; /* [peak_count], the same */
    uint32_t peak_count;
    uint32_t *hump;                 /* [steps + 1], the hump of each step */
    uint32_t *hump_end, hump_count; /* [hump_count], ends in ids; room for count + 1 */
    uint64_t *offset, *key;         /* [count] */
    uint64_t work;                  /* placements of `scale` per body */
    uint64_t fill_work;             /* units of work to place the others */
    bool kept;                      /* a plan was kept */
} peak_state;

/* A height that is sufficient. */
static uint64_t peak_goal(tn_run *run) {
    uint64_t bound = tn__run_lower_bound(run), capacity = tn__run_capacity(run);
    return tn__run_has_capacity(run) && capacity > bound ? capacity : bound;
}

static int peak_longer_first(const tn_run_body *a, const tn_run_body *b) {
    uint32_t x = a->last - a->first, y = b->last - b->first;
    if (x != y) return x > y ? -1 : 1;
    return (a->size < b->size) - (a->size > b->size);
}

static tn_status peak_prepare(peak_state *crest) {
    tn_run *run = crest->run;
    uint32_t n = tn__run_count(run);
    crest->is_crest = tn__run_scratch(run, n, sizeof *crest->is_crest);
    crest->ids = tn__run_scratch(run, n, sizeof *crest->ids);
    crest->bodies = tn__run_scratch(run, n, sizeof *crest->bodies);
    crest->offset = tn__run_scratch(run, n, sizeof *crest->offset);
    crest->key = tn__run_scratch(run, n, sizeof *crest->key);
    crest->hump = tn__run_scratch(run, (size_t)tn__run_time_count(run) + 1, sizeof *crest->hump);
    crest->hump_end = tn__run_scratch(run, (size_t)n + 1, sizeof *crest->hump_end);
    if (!crest->is_crest || !crest->ids || !crest->bodies || !crest->offset || !crest->key ||
        !crest->hump || !crest->hump_end)
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) crest->ids[i] = i;
    if (!tn__recipes_prepare(run, crest->ids, n, &crest->recipes)) return TN_E_NO_MEMORY;
    if (!tn__peers_degrees(run, crest->key)) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        crest->fill_work += crest->key[i] / PEAK_PAIRS;
        crest->key[i] = UINT32_MAX - crest->recipes.load[i];
    }
    return TN_OK;
}

static bool peak_has(const peak_state *crest, uint32_t body) {
    return crest->is_crest[body] && tn__run_bodies(crest->run)[body].size > 0;
}

/* Finds the hump of each step: steps that no live range of the crest crosses divide the humps. */
static void peak_find_humps(peak_state *crest) {
    const tn_run_body *bodies = tn__run_bodies(crest->run);
    uint32_t times = tn__run_time_count(crest->run), live = 0, *change = crest->hump;
    memset(change, 0, ((size_t)times + 1) * sizeof *change);
    for (uint32_t i = 0; i < tn__run_count(crest->run); i++) {
        if (!peak_has(crest, i)) continue;
        change[bodies[i].first]++; /* modulo 2^32: the sums are right */
        change[bodies[i].last]--;
    }
    crest->hump_count = 0;
    for (uint32_t t = 0; t <= times; t++) {
        uint32_t before = live;
        live += change[t];
        crest->hump[t] = crest->hump_count;
        crest->hump_count += before > 0 && live == 0; /* no live range crosses: a new hump begins */
    }
}

/* Bodies of the crest by hump: counting sort. */
static void peak_gather(peak_state *crest) {
    const tn_run_body *bodies = tn__run_bodies(crest->run);
    uint32_t *end = crest->hump_end, n = tn__run_count(crest->run);
    peak_find_humps(crest);
    memset(end, 0, ((size_t)crest->hump_count + 1) * sizeof *end);
    for (uint32_t i = 0; i < n; i++)
        if (peak_has(crest, i)) end[crest->hump[bodies[i].first] + 1]++;
    for (uint32_t h = 0; h < crest->hump_count; h++) end[h + 1] += end[h];
    crest->peak_count = end[crest->hump_count];
    for (uint32_t i = 0; i < n; i++) {
        if (!peak_has(crest, i)) continue;
        uint32_t at = end[crest->hump[bodies[i].first]]++;
        crest->ids[at] = i;
        crest->bodies[at] = (tn__part_body){.size = bodies[i].size,
                                            .alignment = bodies[i].alignment,
                                            .first = bodies[i].first,
                                            .last = bodies[i].last,
                                            .pin = TN__FREE};
    }
}

/* Plans the humps of the crest into offset[]; returns the height of the crest, or of the first hump
 * that is too high. */
static tn_status peak_plan(peak_state *crest, uint64_t *peak) {
    tn_run *run = crest->run;
    peak_gather(crest);
    *peak = 0;
    tn__part part = {.planner = tn__planner_find("scale"), .capacity = peak_goal(run)};
    for (uint32_t h = 0, from = 0; part.planner != NULL && h < crest->hump_count; h++) {
        uint64_t height;
        part.bodies = crest->bodies + from;
        part.count = crest->hump_end[h] - from;
        part.work_limit = tn__mul_sat(crest->work, part.count);
        TN_TRY(tn__run_part(run, &part, crest->offset + from, &height));
        from = crest->hump_end[h];
        if (height > *peak) *peak = height;
        if (*peak >= tn__run_best(run)) return TN_OK;
    }
    return TN_OK;
}

/* Places the other bodies around the crest. */
static tn_status peak_fill(peak_state *crest) {
    tn_run *run = crest->run;
    const uint32_t *order;
    uint32_t count;
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (tn__run_placed(run, i)) tn__run_unplace(run, i);
    for (uint32_t i = 0; i < crest->peak_count; i++)
        tn__run_place(run, crest->ids[i], crest->offset[i]);
    TN_TRY(tn__run_order_by_key(run, crest->key, peak_longer_first, &order, &count));
    TN_TRY(tn__run_greedy_all(run, order, count, tn__choose_lowest));
    TN_TRY(tn__run_keep(run));
    crest->kept = true;
    return tn__run_work(run, crest->fill_work);
}

/* Adds bodies that end too high to the crest; returns the number of bodies added. */
static uint32_t peak_blame(peak_state *crest) {
    tn_run *run = crest->run;
    uint64_t goal = peak_goal(run);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        uint64_t end = tn__run_offset(run, i) + tn__run_bodies(run)[i].size;
        if (end <= goal || crest->is_crest[i]) continue;
        crest->is_crest[i] = true;
        count++;
    }
    return count;
}

static tn_status peak_share(peak_state *crest, uint32_t share) {
    tn_run *run = crest->run;
    uint32_t n = tn__run_count(run), count = 0;
    for (uint32_t i = 0; i < n; i++) {
        crest->is_crest[i] = crest->recipes.load[i] >= share;
        count += crest->is_crest[i];
    }
    /* nearly all bodies: `scale` plans them as well */
    if (count > n - n / PEAK_REST) return TN_OK;
    for (uint32_t turn = 0; turn < PEAK_TURNS && !tn__run_is_done(run); turn++) {
        uint64_t peak;
        TN_TRY(peak_plan(crest, &peak));
        if (peak >= tn__run_best(run)) return TN_OK; /* already too high without the other bodies */
        TN_TRY(peak_fill(crest));
        if (peak_blame(crest) == 0) return TN_OK;
    }
    return TN_OK;
}

static tn_status peak_solve(tn_run *run) {
    peak_state crest = {.run = run, .work = PEAK_WORK};
    uint32_t rounds = tn__run_is_limited(run) ? PEAK_ROUNDS_MAX : PEAK_ROUNDS;
    if (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT) return tn__run_as(run, "scale");
    TN_TRY(peak_prepare(&crest));
    for (uint32_t round = 0; round < rounds; round++, crest.work *= PEAK_MORE)
        for (uint32_t i = 0; i < PEAK_SHARES && !tn__run_is_done(run); i++)
            TN_TRY(peak_share(&crest, peak_shares[i]));
    /* every share takes nearly all bodies, so there is nothing to plan around them */
    return crest.kept ? TN_OK : tn__run_as(run, "scale");
}

const tn_planner tn__planner_peak_first = {
    .name = "peak-first",
    .summary = "plans the buffers that are live near the peak first, then the others around them",
    .source = "ours; squeaky wheel (Joslin 1999)",
    .features = TN_PLANS_ALL,
    .solve = peak_solve,
};
