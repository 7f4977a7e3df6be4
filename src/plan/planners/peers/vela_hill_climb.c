/* vela_hill_climb.c - improves an order of buffers by exchanges around the highest buffer.
 *
 * The first order is by urgency (the most live bytes at any step of the buffer's live range), then
 * by length, then by begin. Every buffer goes to its lowest place. The candidates for an exchange
 * are the buffers that determine the place of the highest buffer, the bottleneck: itself, its
 * neighbours in time, and for each of these the chain of buffers on which it lies. Two of their
 * turns in the order are exchanged, sometimes with a turn of a candidate that is no neighbour.
 * After 50 attempts without success, the neighbours of candidates take part too, and two pairs are
 * exchanged. A placement is given up as soon as it is higher than the best one; an equally good one
 * is kept. The search ends at the bound of live bytes, or 500 attempts after the last gain. As long
 * as a requested capacity is not met, it ends after 99,999 attempts instead.
 *
 * Cost: an attempt is one greedy placement and O(n x chains); for small problems, such as
 * scratchpads.
 * Source: Arm Ethos-U Vela, hill-climb allocator (2020-2023).
 */
#include "base/range_tree.h"
#include "plan/frame/peers.h"

/* these three limits have the values that Vela uses: attempts, attempts without gain, and attempts
 * before exchanges become larger */
#define VELA_ATTEMPTS 99999u
#define VELA_PATIENCE 500u
#define VELA_STUCK 50u

typedef struct vela {
    tn_run *run;
    const tn_run_body *bodies;
    /* order: buffers in the order of their placement; turn[body]: the buffer's index in `order` */
    uint32_t *order, *turn;
    uint32_t *best_order;
    uint32_t count;
    uint8_t *marked; /* [body] */
    /* candidates for an exchange: the buffers that determine the place of the highest buffer (the
     * bottleneck) */
    uint32_t *chosen;
    uint32_t chosen_count;
    /* candidates whose live ranges do not overlap that of the bottleneck, the highest buffer */
    uint32_t *far;
    uint32_t far_count;
    tn__random random;
} vela;

/* Places buffers in order; *peak is UINT64_MAX if the placement was given up because it exceeded
 * `limit`. */
static tn_status vela_place(vela *search, uint64_t limit, uint64_t *peak, uint32_t *bottleneck) {
    tn__peers_clear(search->run);
    *peak = 0;
    for (uint32_t i = 0; i < search->count; i++) {
        const tn_hole *holes;
        uint32_t count, id = search->order[i];
        TN_TRY(tn__run_holes(search->run, id, &holes, &count));
        uint64_t end = tn__add_sat(holes[0].first, search->bodies[id].size);
        tn__run_place(search->run, id, holes[0].first);
        if (end > *peak) {
            *peak = end;
            *bottleneck = id;
        }
        if (*peak <= limit) continue;
        *peak = UINT64_MAX;
        return TN_OK;
    }
    return TN_OK;
}

/* Finds a buffer on which `id` lies: one that was placed before `id`, is live at the same time, and
 * ends, rounded up to the alignment, at the offset of `id`. UINT32_MAX: no such buffer exists, as
 * at offset 0. */
static uint32_t vela_below(const vela *search, uint32_t id) {
    uint64_t offset = tn__run_offset(search->run, id), mask = search->bodies[id].alignment - 1;
    for (uint32_t i = 0; offset > 0 && i < search->turn[id]; i++) {
        uint32_t other = search->order[i];
        uint64_t end = tn__run_offset(search->run, other) + search->bodies[other].size;
        if (((end + mask) & ~mask) == offset &&
            tn__peers_meet(&search->bodies[other], &search->bodies[id]))
            return other;
    }
    return UINT32_MAX;
}

/* Marks `id` and the chain of buffers on which it lies as candidates, down to a buffer that is
 * already marked. Returns the work: the buffers placed before each of them, with which it was
 * compared. */
static uint64_t vela_mark_chain(vela *search, uint32_t id) {
    uint64_t steps = 0;
    while (id != UINT32_MAX && !search->marked[id]) {
        search->marked[id] = 1;
        search->chosen[search->chosen_count++] = id;
        steps += search->turn[id];
        id = vela_below(search, id);
    }
    return steps;
}

static tn_status vela_choose(vela *search, uint32_t bottleneck) {
    uint64_t steps = search->count;
    search->chosen_count = search->far_count = 0;
    memset(search->marked, 0, tn__run_count(search->run));
    steps += vela_mark_chain(search, bottleneck);
    for (uint32_t i = 0; i < search->count; i++)
        if (tn__peers_meet(&search->bodies[search->order[i]], &search->bodies[bottleneck]))
            steps += vela_mark_chain(search, search->order[i]);
    for (uint32_t i = 0; i < search->chosen_count; i++)
        if (!tn__peers_meet(&search->bodies[search->chosen[i]], &search->bodies[bottleneck]))
            search->far[search->far_count++] = search->chosen[i];
    return tn__run_work(search->run, 1 + steps / 1024);
}

static void vela_exchange(vela *search, uint32_t a, uint32_t b) {
    uint32_t turn = search->turn[a];
    search->turn[a] = search->turn[b];
    search->turn[b] = turn;
    search->order[search->turn[a]] = a;
    search->order[search->turn[b]] = b;
}

static uint32_t vela_draw(vela *search, const uint32_t *from, uint32_t count) {
    return from[tn__random_below(&search->random, count)];
}

static void vela_change(vela *search, uint32_t bottleneck, bool stuck) {
    bool outside = search->far_count > 0 && tn__random_below(&search->random, 100) < 30;
    uint32_t a = outside ? vela_draw(search, search->far, search->far_count)
                         : vela_draw(search, search->chosen, search->chosen_count);
    uint32_t b = vela_draw(search, search->chosen, search->chosen_count);
    if (a == b) b = bottleneck;
    vela_exchange(search, a, b);
    if (!stuck || search->far_count == 0) return;
    uint32_t far = vela_draw(search, search->far, search->far_count), near = far;
    uint64_t met = 0;
    /* chooses at random one of the buffers that overlap `far` in time */
    for (uint32_t i = 0; i < search->count; i++)
        if (tn__peers_meet(&search->bodies[search->order[i]], &search->bodies[far]) &&
            tn__random_below(&search->random, ++met) == 0)
            near = search->order[i];
    vela_exchange(search, near, vela_draw(search, search->chosen, search->chosen_count));
}

static bool vela_is_done(const vela *search, uint32_t attempt, uint32_t last_gain) {
    uint64_t best = tn__run_best(search->run);
    if (best <= tn__run_lower_bound(search->run)) return true;
    bool fits = best <= tn__run_capacity(search->run);
    return fits ? attempt - last_gain > VELA_PATIENCE : attempt >= VELA_ATTEMPTS;
}

static tn_status vela_search(vela *search) {
    uint32_t bottleneck = 0, last_gain = 0;
    uint64_t best;
    size_t bytes = search->count * sizeof *search->order;
    TN_TRY(vela_place(search, UINT64_MAX, &best, &bottleneck));
    TN_TRY(tn__run_keep(search->run));
    memcpy(search->best_order, search->order, bytes);
    for (uint32_t attempt = 1; !vela_is_done(search, attempt, last_gain); attempt++) {
        uint64_t peak;
        uint32_t highest = bottleneck;
        TN_TRY(vela_choose(search, bottleneck));
        vela_change(search, bottleneck, attempt - last_gain > VELA_STUCK);
        TN_TRY(vela_place(search, best, &peak, &highest));
        if (peak < best) last_gain = attempt;
        if (peak <= best) {
            TN_TRY(tn__run_keep(search->run));
            memcpy(search->best_order, search->order, bytes);
            best = peak;
            bottleneck = highest;
            continue;
        }
        /* continues from the best order of buffers found so far */
        memcpy(search->order, search->best_order, bytes);
        for (uint32_t i = 0; i < search->count; i++) search->turn[search->order[i]] = i;
        TN_TRY(vela_place(search, UINT64_MAX, &best, &bottleneck));
    }
    return TN_OK;
}

/* Computes urgency[body], the most live bytes at any step of its live range, with a tree of
 * maxima. */
static bool vela_urgency(tn_run *run, uint64_t *urgency) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t n = tn__run_count(run), slots = tn__run_time_count(run);
    uint64_t *tree = tn__run_scratch(run, 2 * (size_t)slots + 2, sizeof *tree),
             *live = tree + slots;
    if (tree == NULL) return false;
    for (uint32_t i = 0; i < n; i++) {
        live[bodies[i].first] += bodies[i].size;
        /* a negative change wraps modulo 2^64, so the sums of changes are right */
        live[bodies[i].last] -= bodies[i].size;
    }
    for (uint32_t t = 1; t < slots; t++) live[t] += live[t - 1];
    tn__range_max_init(tree, slots);
    for (uint32_t i = 0; i < n; i++)
        urgency[i] = tn__range_max(tree, slots, bodies[i].first, bodies[i].last);
    return true;
}

static tn_status vela_hill_climb_solve(tn_run *run) {
    vela search = {.run = run, .bodies = tn__run_bodies(run), .random = {tn__run_seed(run) + 1}};
    uint32_t n = tn__run_count(run);
    tn__peers_key *keys = tn__peers_keys(run, &search.count);
    uint64_t *urgency = tn__run_scratch(run, n, sizeof *urgency);
    search.turn = tn__run_scratch(run, n, sizeof *search.turn);
    search.best_order = tn__run_scratch(run, n, sizeof *search.best_order);
    search.marked = tn__run_scratch(run, n, sizeof *search.marked);
    search.chosen = tn__run_scratch(run, n, sizeof *search.chosen);
    search.far = tn__run_scratch(run, n, sizeof *search.far);
    if (!keys || !urgency || !search.turn || !search.best_order || !search.marked ||
        !search.chosen || !search.far || !vela_urgency(run, urgency))
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < search.count; i++) {
        uint32_t id = keys[i].id;
        keys[i].key[0] = urgency[id];
        keys[i].key[1] = tn__run_span(run, id);
        keys[i].key[2] = ~(uint64_t)search.bodies[id].first;
    }
    search.order = tn__peers_order(run, keys, search.count);
    if (search.order == NULL) return TN_E_NO_MEMORY;
    if (search.count == 0) return TN_OK;
    for (uint32_t i = 0; i < search.count; i++) search.turn[search.order[i]] = i;
    return vela_search(&search);
}

const tn_planner tn__planner_vela_hill_climb = {
    .name = "vela-hill-climb",
    .summary = "Vela: hill climbing on the order of buffers around the highest one",
    .source = "Arm Ethos-U Vela",
    .features = TN_PLANS_ALL | TN_PLANS_APART,
    .solve = vela_hill_climb_solve,
};
