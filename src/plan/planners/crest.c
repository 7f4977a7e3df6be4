/* crest.c - what lives where memory is scarce is planned alone, then the rest around it.
 *
 * At a few steps nearly every byte of the lower bound is in use; there bodies must lie without a
 * gap, while all around is slack. A planner that takes all bodies at once spends its time on the
 * slack. So those that live at a step whose load is above a share of the highest are planned by
 * `scale` as if they were all: on real networks a tenth of the bodies, whose bound is reached in
 * milliseconds. Humps of the crest that share no step are planned each by itself: one order seldom
 * suits all of them. The others take the lowest holes that are left, the more crowded their steps
 * the earlier, then the longer their lives. Who ends above the bound belongs to the crest in the
 * next turn; where that does not help, another share is tried, and then more work for `scale`.
 *
 * Windows, pins and streams are left to `scale`.
 * Cost:   O(bodies x those that live at the same time) a turn, half a second for 10^8 pairs; 60
 *         bytes a body.
 * Source: ours; the blame is that of squeaky wheel optimisation (Joslin, Clements 1999).
 */
#include "plan/frame/peers.h"
#include "plan/skyline/recipes.h"

#define CREST_TURNS 4u      /* with one share, at most; then it ends too high elsewhere each time */
#define CREST_PAIRS 128u    /* of bodies at the same time that take as long as a placement */
#define CREST_REST 4u       /* one body of so many at least is not of the crest */
#define CREST_WORK 50u      /* placements of `scale` for each body of the crest, at first ... */
#define CREST_MORE 4u       /* ... then so many times that */
#define CREST_ROUNDS 1u     /* of all shares, where no limit says how long to go on ... */
#define CREST_ROUNDS_MAX 4u /* ... and with one */

/* Of 4,096, the load of a step with the highest. */
static const uint32_t crest_shares[] = {3584, 3840, 3072, 4032};
#define CREST_SHARES ((uint32_t)(sizeof crest_shares / sizeof *crest_shares))

typedef struct crest_state {
    tn_run *run;
    tn__recipes recipes;
    bool *is_crest;        /* [count] */
    uint32_t *ids;         /* [crest_count], bodies of the crest, those of a hump together */
    tn__part_body *bodies; /* [crest_count], the same */
    uint32_t crest_count;
    uint32_t *hump;                 /* [steps + 1], which hump a step is of */
    uint32_t *hump_end, hump_count; /* [hump_count], in ids; room for count + 1 */
    uint64_t *offset, *key;         /* [count] */
    uint64_t work;                  /* of `scale`, for each body */
    uint64_t fill_work;             /* units that the others take */
    bool kept;                      /* there is a plan */
} crest_state;

/* The height that would do. */
static uint64_t crest_goal(tn_run *run) {
    uint64_t bound = tn__run_lower_bound(run), capacity = tn__run_capacity(run);
    return tn__run_has_capacity(run) && capacity > bound ? capacity : bound;
}

static int crest_longer_first(const tn_run_body *a, const tn_run_body *b) {
    uint32_t x = a->last - a->first, y = b->last - b->first;
    if (x != y) return x > y ? -1 : 1;
    return (a->size < b->size) - (a->size > b->size);
}

static tn_status crest_prepare(crest_state *crest) {
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
        crest->fill_work += crest->key[i] / CREST_PAIRS;
        crest->key[i] = UINT32_MAX - crest->recipes.load[i];
    }
    return TN_OK;
}

static bool crest_has(const crest_state *crest, uint32_t body) {
    return crest->is_crest[body] && tn__run_bodies(crest->run)[body].size > 0;
}

/* Which hump each step is of: steps that no body of the crest lives across divide them. */
static void crest_find_humps(crest_state *crest) {
    const tn_run_body *bodies = tn__run_bodies(crest->run);
    uint32_t times = tn__run_time_count(crest->run), live = 0, *change = crest->hump;
    memset(change, 0, ((size_t)times + 1) * sizeof *change);
    for (uint32_t i = 0; i < tn__run_count(crest->run); i++) {
        if (!crest_has(crest, i)) continue;
        change[bodies[i].first]++; /* modulo 2^32: the sums are right */
        change[bodies[i].last]--;
    }
    crest->hump_count = 0;
    for (uint32_t t = 0; t <= times; t++) {
        uint32_t before = live;
        live += change[t];
        crest->hump[t] = crest->hump_count;
        crest->hump_count += before > 0 && live == 0; /* nobody begins where that ends: hump[t] */
    }
}

/* Bodies of the crest by hump: counting sort. */
static void crest_gather(crest_state *crest) {
    const tn_run_body *bodies = tn__run_bodies(crest->run);
    uint32_t *end = crest->hump_end, n = tn__run_count(crest->run);
    crest_find_humps(crest);
    memset(end, 0, ((size_t)crest->hump_count + 1) * sizeof *end);
    for (uint32_t i = 0; i < n; i++)
        if (crest_has(crest, i)) end[crest->hump[bodies[i].first] + 1]++;
    for (uint32_t h = 0; h < crest->hump_count; h++) end[h + 1] += end[h];
    crest->crest_count = end[crest->hump_count];
    for (uint32_t i = 0; i < n; i++) {
        if (!crest_has(crest, i)) continue;
        uint32_t at = end[crest->hump[bodies[i].first]]++;
        crest->ids[at] = i;
        crest->bodies[at] = (tn__part_body){.size = bodies[i].size,
                                            .alignment = bodies[i].alignment,
                                            .first = bodies[i].first,
                                            .last = bodies[i].last,
                                            .pin = TN__FREE};
    }
}

/* The crest by itself, into offset[] of its bodies in turn; its height, or that of a hump that is
 * of no use. */
static tn_status crest_plan(crest_state *crest, uint64_t *peak) {
    tn_run *run = crest->run;
    crest_gather(crest);
    *peak = 0;
    tn__part part = {.planner = tn__planner_find("scale"), .capacity = crest_goal(run)};
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

/* The others around it. */
static tn_status crest_fill(crest_state *crest) {
    tn_run *run = crest->run;
    const uint32_t *order;
    uint32_t count;
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (tn__run_placed(run, i)) tn__run_unplace(run, i);
    for (uint32_t i = 0; i < crest->crest_count; i++)
        tn__run_place(run, crest->ids[i], crest->offset[i]);
    TN_TRY(tn__run_order_by_key(run, crest->key, crest_longer_first, &order, &count));
    TN_TRY(tn__run_greedy_all(run, order, count, tn__choose_lowest));
    TN_TRY(tn__run_keep(run));
    crest->kept = true;
    return tn__run_work(run, crest->fill_work);
}

/* Who ends too high becomes part of the crest; how many others are there now. */
static uint32_t crest_blame(crest_state *crest) {
    tn_run *run = crest->run;
    uint64_t goal = crest_goal(run);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        uint64_t end = tn__run_offset(run, i) + tn__run_bodies(run)[i].size;
        if (end <= goal || crest->is_crest[i]) continue;
        crest->is_crest[i] = true;
        count++;
    }
    return count;
}

static tn_status crest_share(crest_state *crest, uint32_t share) {
    tn_run *run = crest->run;
    uint32_t n = tn__run_count(run), count = 0;
    for (uint32_t i = 0; i < n; i++) {
        crest->is_crest[i] = crest->recipes.load[i] >= share;
        count += crest->is_crest[i];
    }
    if (count > n - n / CREST_REST) return TN_OK; /* it is all: `scale` does that */
    for (uint32_t turn = 0; turn < CREST_TURNS && !tn__run_is_done(run); turn++) {
        uint64_t peak;
        TN_TRY(crest_plan(crest, &peak));
        if (peak >= tn__run_best(run)) return TN_OK; /* no use for what is around it */
        TN_TRY(crest_fill(crest));
        if (crest_blame(crest) == 0) return TN_OK;
    }
    return TN_OK;
}

static tn_status crest_solve(tn_run *run) {
    crest_state crest = {.run = run, .work = CREST_WORK};
    uint32_t rounds = tn__run_is_limited(run) ? CREST_ROUNDS_MAX : CREST_ROUNDS;
    if (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT) return tn__run_as(run, "scale");
    TN_TRY(crest_prepare(&crest));
    for (uint32_t round = 0; round < rounds; round++, crest.work *= CREST_MORE)
        for (uint32_t i = 0; i < CREST_SHARES && !tn__run_is_done(run); i++)
            TN_TRY(crest_share(&crest, crest_shares[i]));
    /* every share takes in nearly all bodies: there is no rest to plan around them */
    return crest.kept ? TN_OK : tn__run_as(run, "scale");
}

const tn_planner tn__planner_crest = {
    .name = "crest",
    .summary = "what lives where memory is scarce is planned alone, the rest around it",
    .source = "ours; squeaky wheel (Joslin 1999)",
    .features = TN_PLANS_ALL,
    .solve = crest_solve,
};
