/* tvm_hill_climb.c - improves an order of buffers by exchanging buffers that lie below the highest
 * one.
 *
 * It begins with the order of `tvm-by-size`, but every buffer goes to the lowest hole. Each attempt
 * chooses one of the highest buffers. Conflicting buffers placed before it may be the reason for
 * its offset (first level), and so may the conflicting buffers of those (second level). One buffer
 * of the first level exchanges places in the order with one of the second (three times in four) or
 * of the first. A lower peak is kept; a higher one sometimes, with falling probability. The search
 * ends at the bound of live bytes or after 500 attempts.
 *
 * Cost: 500 x (one greedy placement + n x first level).
 * Source: TVM, unified static memory planner, hill_climb.
 */
#include "plan/frame/peers.h"

#define HILL_ATTEMPTS 500u /* number of attempts; the same as in TVM */

typedef struct hill {
    tn_run *run;
    const tn_run_body *bodies;
    /* order: buffers in the order of their placement; turn[body]: the buffer's index in `order` */
    uint32_t *order, *turn;
    uint32_t count;
    uint32_t *first_level, *second_level;
    uint32_t first_count, second_count;
    tn__random random;
} hill;

static uint64_t hill_peak(const hill *climb, uint32_t *highest, uint64_t lot) {
    uint64_t peak = 0;
    uint32_t equals = 0;
    for (uint32_t i = 0; i < climb->count; i++) {
        uint32_t id = climb->order[i];
        uint64_t end = tn__run_offset(climb->run, id) + climb->bodies[id].size;
        if (end > peak) equals = 0;
        if (end >= peak) { /* chooses one of the highest buffers at random */
            peak = end;
            if (lot % ++equals == 0) *highest = id;
        }
    }
    return peak;
}

static tn_status hill_levels(hill *climb, uint32_t highest) {
    const tn_run_body *bodies = climb->bodies;
    uint32_t turn = climb->turn[highest];
    climb->first_count = climb->second_count = 0;
    for (uint32_t i = 0; i < turn; i++)
        if (tn__peers_meet(&bodies[climb->order[i]], &bodies[highest]))
            climb->first_level[climb->first_count++] = climb->order[i];
    for (uint32_t i = 0; i < turn; i++) {
        uint32_t id = climb->order[i];
        /* a buffer of the first level can lie on `id` only if it comes after `id` in the order */
        for (uint32_t k = climb->first_count; k-- > 0;) {
            uint32_t below = climb->first_level[k];
            if (climb->turn[below] <= i) break;
            if (!tn__peers_meet(&bodies[id], &bodies[below])) continue;
            climb->second_level[climb->second_count++] = id;
            break;
        }
    }
    return tn__run_work(climb->run, 1 + ((uint64_t)turn * (1 + climb->first_count)) / 1024);
}

static void hill_exchange(hill *climb, uint32_t a, uint32_t b) {
    uint32_t turn = climb->turn[a];
    climb->turn[a] = climb->turn[b];
    climb->turn[b] = turn;
    climb->order[climb->turn[a]] = a;
    climb->order[climb->turn[b]] = b;
}

static uint32_t hill_draw(hill *climb, const uint32_t *from, uint32_t count) {
    return from[tn__random_below(&climb->random, count)];
}

/* Whether to accept a new peak: always if it is lower; else at random, with a probability of 50 %
 * of its relative distance from the bound, divided by the number of the attempt. */
static bool hill_accepts(hill *climb, uint64_t peak, uint64_t before, uint32_t attempt) {
    if (peak < before) return true;
    double distance = (double)(peak - tn__run_lower_bound(climb->run)) / (double)peak;
    double percent = 50 * distance / attempt;
    return (double)tn__random_below(&climb->random, 100) < percent;
}

static tn_status hill_climb(hill *climb) {
    uint32_t highest = 0;
    TN_TRY(tn__peers_try(climb->run, climb->order, climb->count, tn__choose_lowest));
    uint64_t peak = hill_peak(climb, &highest, 0);
    for (uint32_t attempt = 1; attempt <= HILL_ATTEMPTS; attempt++) {
        if (tn__run_best(climb->run) <= tn__run_lower_bound(climb->run)) break;
        TN_TRY(hill_levels(climb, highest));
        /* no conflicting buffer was placed before the highest one, so it already lies as low as
         * possible, and no exchange lowers it */
        if (climb->first_count == 0) break;
        uint32_t a = hill_draw(climb, climb->first_level, climb->first_count);
        bool far = climb->second_count > 0 && tn__random_below(&climb->random, 4) > 0;
        uint32_t b = far ? hill_draw(climb, climb->second_level, climb->second_count)
                         : hill_draw(climb, climb->first_level, climb->first_count);
        hill_exchange(climb, a, b);
        TN_TRY(tn__peers_try(climb->run, climb->order, climb->count, tn__choose_lowest));
        uint32_t now_highest = 0;
        uint64_t now = hill_peak(climb, &now_highest, tn__random_next(&climb->random));
        if (hill_accepts(climb, now, peak, attempt)) {
            peak = now;
            highest = now_highest;
        } else {
            hill_exchange(climb, a, b);
        }
    }
    return TN_OK;
}

static tn_status tvm_hill_climb_solve(tn_run *run) {
    hill climb = {.run = run, .bodies = tn__run_bodies(run), .random = {tn__run_seed(run)}};
    tn__peers_key *keys = tn__peers_keys(run, &climb.count);
    uint32_t n = tn__run_count(run);
    uint64_t *degree = tn__run_scratch(run, n, sizeof *degree);
    climb.turn = tn__run_scratch(run, n, sizeof *climb.turn);
    climb.first_level = tn__run_scratch(run, n, sizeof *climb.first_level);
    climb.second_level = tn__run_scratch(run, n, sizeof *climb.second_level);
    if (!keys || !degree || !climb.turn || !climb.first_level || !climb.second_level ||
        !tn__peers_degrees(run, degree))
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < climb.count; i++) {
        uint32_t id = keys[i].id;
        keys[i] = (tn__peers_key){{climb.bodies[id].size, degree[id], id}, id};
    }
    climb.order = tn__peers_order(run, keys, climb.count);
    if (climb.order == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < climb.count; i++) climb.turn[climb.order[i]] = i;
    return hill_climb(&climb);
}

const tn_planner tn__planner_tvm_hill_climb = {
    .name = "tvm-hill-climb",
    .summary = "TVM: hill climbing on the order of buffers, 500 attempts",
    .source = "TVM USMP",
    .features = TN_PLANS_ALL | TN_PLANS_APART,
    .solve = tvm_hill_climb_solve,
};
