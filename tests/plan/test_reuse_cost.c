/* Separations, reserved ranges and reuse costs: the model, its files, the verifier and the planners
 * are compared with a search over all offsets of small random problems. */
#include "kit.h"

#include <inttypes.h>
#include <unistd.h>

#include "../count.h"
#include "plan/io/io.h"

enum { BODIES_MAX = 6, CAPACITY_MAX = 12 };

/* --- brute force: all offsets of all bodies, by the definition alone --- */

typedef struct brute {
    const tn_problem *problem;
    uint64_t offset[BODIES_MAX];
    uint64_t capacity[2];
    uint64_t least; /* UINT64_MAX: no layout fits */
} brute;

static bool brute_shares(const brute *all, tn_body_id a, tn_body_id b) {
    const tn_body *x = tn_problem_body(all->problem, a), *y = tn_problem_body(all->problem, b);
    if (x->bank != y->bank) return false;
    for (uint64_t byte = all->offset[a]; byte < all->offset[a] + x->size; byte++)
        if (byte >= all->offset[b] && byte < all->offset[b] + y->size) return true;
    return false;
}

static bool brute_is_separated(const brute *all, tn_body_id a, tn_body_id b) {
    uint32_t count;
    const tn_pair *pairs = tn_problem_separations(all->problem, &count);
    for (uint32_t i = 0; i < count; i++)
        if (pairs[i].a == a && pairs[i].b == b) return true;
    return false;
}

/* Whether body `id` may lie at its offset, given the bodies before it. */
static bool brute_fits(const brute *all, tn_body_id id) {
    const tn_body *body = tn_problem_body(all->problem, id);
    uint64_t first = all->offset[id], last = first + body->size;
    uint32_t count;
    const tn_reserved *reserved = tn_problem_reserved(all->problem, &count);
    if (first % body->alignment != 0 || (body->size > 0 && last > all->capacity[body->bank]))
        return false; /* a body without bytes needs no capacity */
    if ((body->flags & TN_BODY_PINNED) && first != body->offset) return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t byte = first; byte < last; byte++)
            if (reserved[i].bank == body->bank && byte >= reserved[i].first &&
                byte < reserved[i].last)
                return false;
    for (tn_body_id other = 0; other < id; other++) {
        const tn_body *theirs = tn_problem_body(all->problem, other);
        bool meet = theirs->first < body->last && body->first < theirs->last;
        if (!brute_shares(all, other, id)) continue;
        if (meet || brute_is_separated(all, other, id)) return false;
    }
    return true;
}

static uint64_t brute_cost(const brute *all, tn_body_id count) {
    uint32_t pair_count;
    const tn_pair *pairs = tn_problem_reuse_costs(all->problem, &pair_count);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < pair_count; i++)
        if (pairs[i].b < count && brute_shares(all, pairs[i].a, pairs[i].b)) sum += pairs[i].cost;
    return sum;
}

static void brute_search(brute *all, tn_body_id id) {
    if (brute_cost(all, id) >= all->least) return;
    if (id == tn_problem_count(all->problem)) {
        all->least = brute_cost(all, id);
        return;
    }
    for (uint64_t offset = 0; offset <= CAPACITY_MAX; offset++) {
        all->offset[id] = offset;
        if (brute_fits(all, id)) brute_search(all, id + 1);
    }
}

/* --- random problems --- */

static tn_problem *random_problem(uint64_t seed, uint64_t capacity[2]) {
    tn__random random = {.state = seed};
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    uint32_t banks = kit_below(&random, 4) == 0 ? 2 : 1;
    for (tn_bank_id bank = 0; bank < 2; bank++)
        capacity[bank] = 4 + kit_below(&random, CAPACITY_MAX - 3);
    for (tn_bank_id bank = 0; bank < banks; bank++)
        assert_ok(tn_problem_set_bank(
            problem, bank, &(tn_bank){.name = bank ? "b" : "a", .capacity = capacity[bank]},
            &failure));
    uint32_t count = 2 + (uint32_t)kit_below(&random, BODIES_MAX - 1);
    bool aligned = kit_below(&random, 3) == 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t first = (int64_t)kit_below(&random, 6);
        tn_body body = {.size = kit_below(&random, 12) == 0 ? 0 : 1 + kit_below(&random, 4),
                        .first = first,
                        .last = first + 1 + (int64_t)kit_below(&random, 3),
                        .bank = (tn_bank_id)kit_below(&random, banks)};
        if (aligned) body.alignment = 1ull << kit_below(&random, 3);
        if (kit_below(&random, 16) == 0) {
            body.flags = TN_BODY_PINNED;
            body.offset = kit_below(&random, 3) * (aligned ? body.alignment : 1);
        }
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    for (tn_body_id b = 1; b < count; b++)
        for (tn_body_id a = 0; a < b; a++) {
            uint64_t kind = kit_below(&random, 8);
            if (kind == 0) assert_ok(tn_problem_keep_apart(problem, b, a, &failure));
            for (uint64_t times = kind < 5 ? 1 + kit_below(&random, 2) : 0; times > 0; times--)
                assert_ok(
                    tn_problem_add_reuse_cost(problem, a, b, kit_below(&random, 4), &failure));
        }
    for (uint64_t ranges = kit_below(&random, 3); ranges > 0; ranges--) {
        uint64_t first = kit_below(&random, CAPACITY_MAX);
        assert_ok(tn_problem_reserve(problem, (tn_bank_id)kit_below(&random, banks), first,
                                     first + kit_below(&random, 3), &failure));
    }
    return problem;
}

/* The least cost of every small problem is that of brute force, and is proved. */
static void costs_are_least(void **state) {
    (void)state;
    uint32_t feasible = 0, paid = 0, infeasible = 0, count = case_count(10000, 200);
    for (uint64_t seed = 1; seed <= count; seed++) {
        brute all = {.least = UINT64_MAX};
        tn_problem *problem = random_problem(seed, all.capacity);
        all.problem = problem;
        brute_search(&all, 0);
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        options.objective = TN_OBJECTIVE_PAIRS;
        options.planner = seed % 2 == 0 ? "exact" : "auto";
        tn_status status = tn_plan(problem, &options, &layout, &failure);
        if (all.least == UINT64_MAX) {
            infeasible++;
            if (status != TN_E_INFEASIBLE)
                fail_msg("seed %" PRIu64 ": status %d, nothing fits: %s", seed, status,
                         failure.message);
        } else {
            if (status != TN_OK) fail_msg("seed %" PRIu64 ": %s", seed, failure.message);
            feasible++;
            paid += all.least > 0;
            if (layout.reuse_cost != all.least)
                fail_msg("seed %" PRIu64 ": cost %" PRIu64 ", the least is %" PRIu64, seed,
                         layout.reuse_cost, all.least);
            if (layout.verdict != TN_VERDICT_OPTIMAL || layout.reuse_cost_bound != all.least)
                fail_msg("seed %" PRIu64 ": the cost %" PRIu64 " is not proved", seed, all.least);
            tn_layout_release(&layout);
        }
        tn_problem_destroy(problem);
    }
    assert_true(feasible > count / 4 && paid > count / 20 && infeasible > count / 50);
}

/* --- every planner respects separations and reserved ranges, or refuses them --- */

static tn_problem *larger_problem(uint64_t seed, unsigned what) {
    tn__random random = {.state = seed ^ 0x5eed};
    tn_problem *problem = kit_random(seed, 12, 9, 12, what);
    uint32_t count = tn_problem_count(problem);
    for (int i = 0; i < 14; i++) {
        tn_body_id a = (tn_body_id)kit_below(&random, count);
        tn_body_id b = (tn_body_id)kit_below(&random, count);
        if (a == b) continue;
        (void)!tn_problem_keep_apart(problem, a, b, &failure); /* tied bodies are refused */
        assert_ok(tn_problem_add_reuse_cost(problem, a, b, 1 + kit_below(&random, 3), &failure));
    }
    if (!(what & KIT_PINS))
        for (int i = 0; i < 3; i++) {
            uint64_t first = kit_below(&random, 60);
            assert_ok(
                tn_problem_reserve(problem, 0, first, first + kit_below(&random, 9), &failure));
        }
    return problem;
}

/* tn_plan returns E_INTERNAL if the verifier refuses a planner's layout. */
static void planners_keep_bodies_apart(void **state) {
    (void)state;
    static const unsigned kinds[] = {0,        KIT_ALIGNMENTS, KIT_PIECES,
                                     KIT_TIES, KIT_STREAMS,    KIT_ALL & ~(unsigned)KIT_PINS,
                                     KIT_ALL};
    uint32_t planned = 0, refused = 0, count = case_count(42, 14);
    for (uint64_t seed = 1; seed <= count; seed++) {
        tn_problem *problem = larger_problem(seed, kinds[seed % 7]);
        for (uint32_t i = 0; i < tn_planner_count(); i++) {
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout layout;
            options.planner = tn_planner_name(i);
            options.work_limit = 2000;
            tn_status status = tn_plan(problem, &options, &layout, &failure);
            if (status == TN_OK) {
                planned++;
                tn_layout_release(&layout);
            } else if (status == TN_E_UNSUPPORTED) {
                refused++;
            } else if (status != TN_E_INFEASIBLE) {
                fail_msg("seed %" PRIu64 ", %s: %s", seed, options.planner, failure.message);
            }
        }
        tn_problem_destroy(problem);
    }
    assert_true(planned > 10 * count && refused > 0);
}

/* Within a capacity, with pieces, ties and streams, the cost is at most that of each greedy
 * planner that fits. */
static void costs_are_at_most_those_of_greedy_planners(void **state) {
    (void)state;
    static const unsigned kinds[] = {0, KIT_ALIGNMENTS, KIT_PIECES, KIT_TIES, KIT_STREAMS};
    static const char *const greedy[] = {"greedy-by-size", "best-fit", "time-order", "xla",
                                         "tflm-greedy"};
    for (uint64_t seed = 1; seed <= case_count(20, 5); seed++) {
        tn_problem *problem = larger_problem(seed, kinds[seed % 5]);
        tn_layout found[5], layout;
        uint64_t capacity = 0;
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        for (int i = 0; i < 5; i++) {
            options.planner = greedy[i];
            assert_ok(tn_plan(problem, &options, &found[i], &failure));
            if (found[i].peak > capacity) capacity = found[i].peak;
        }
        options.planner = "auto";
        options.objective = TN_OBJECTIVE_PAIRS;
        options.work_limit = 30000;
        options.capacity = capacity;
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        assert_true(layout.peak <= capacity);
        for (int i = 0; i < 5; i++) {
            assert_true(layout.reuse_cost <= found[i].reuse_cost);
            tn_layout_release(&found[i]);
        }
        uint64_t again = layout.reuse_cost;
        tn_layout_release(&layout);
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        assert_int_equal(layout.reuse_cost, again); /* the same work limit, the same answer */
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

/* --- saboteurs --- */

static tn_problem *three_bodies(void) {
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_set_bank(problem, 0, &(tn_bank){.name = "m", .capacity = 16}, &failure));
    for (int64_t i = 0; i < 3; i++)
        assert_ok(tn_problem_add(problem, &(tn_body){.size = 4, .first = i, .last = i + 1}, NULL,
                                 &failure));
    assert_ok(tn_problem_keep_apart(problem, 1, 0, &failure));
    assert_ok(tn_problem_reserve(problem, 0, 8, 10, &failure));
    assert_ok(tn_problem_add_reuse_cost(problem, 0, 2, 5, &failure));
    assert_ok(tn_problem_add_reuse_cost(problem, 2, 0, 2, &failure));
    return problem;
}

static void saboteurs_are_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t offset[3];
        enum tn_conflict_reason reason;
        uint64_t lo, hi, cost;
    } cases[] = {
        {{0, 4, 0}, TN_CONFLICT_NONE, 0, 0, 7},     {{0, 4, 4}, TN_CONFLICT_NONE, 0, 0, 0},
        {{0, 3, 10}, TN_CONFLICT_APART, 3, 4, 0},   {{0, 0, 0}, TN_CONFLICT_APART, 0, 4, 7},
        {{0, 5, 0}, TN_CONFLICT_RESERVED, 8, 9, 7}, {{0, 4, 9}, TN_CONFLICT_RESERVED, 9, 10, 0},
        {{0, 10, 1}, TN_CONFLICT_NONE, 0, 0, 7},    {{10, 0, 7}, TN_CONFLICT_RESERVED, 8, 10, 7},
    };
    tn_problem *problem = three_bodies();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_layout layout;
        tn_conflict conflict;
        assert_ok(tn_layout_from_offsets(problem, cases[i].offset, &layout, &failure));
        assert_int_equal(layout.reuse_cost, cases[i].cost);
        tn_status status = tn_layout_verify(problem, &layout, &conflict, &failure);
        assert_int_equal(status, cases[i].reason == TN_CONFLICT_NONE ? TN_OK : TN_E_CONFLICT);
        assert_int_equal(conflict.reason, cases[i].reason);
        assert_int_equal(conflict.lo, cases[i].lo);
        assert_int_equal(conflict.hi, cases[i].hi);
        if (status == TN_OK) { /* a lie about the cost */
            layout.reuse_cost++;
            assert_int_equal(tn_layout_verify(problem, &layout, &conflict, &failure),
                             TN_E_CONFLICT);
            assert_int_equal(conflict.reason, TN_CONFLICT_COST);
        }
        tn_layout_release(&layout);
    }
    tn_problem_destroy(problem);
}

/* --- mistakes --- */

static void bad_pairs_are_refused(void **state) {
    (void)state;
    tn_problem *problem = three_bodies();
    assert_int_equal(tn_problem_keep_apart(problem, 1, 1, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_keep_apart(problem, 0, 3, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_add_reuse_cost(problem, 2, 2, 1, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_add_reuse_cost(problem, 7, 0, 1, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_add_reuse_cost(problem, 1, 0, UINT64_MAX, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_reserve(problem, 1, 0, 1, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_reserve(problem, 0, 2, 1, &failure), TN_E_INVALID);
    assert_ok(tn_problem_reserve(problem, 0, 1, 1, &failure)); /* no bytes: no effect */
    uint32_t count;
    tn_problem_reserved(problem, &count);
    assert_int_equal(count, 1);
    tn_problem_destroy(problem);
}

static void sums_of_costs_saturate(void **state) {
    (void)state;
    tn_problem *problem = three_bodies();
    tn_layout layout;
    for (int i = 0; i < 3; i++)
        assert_ok(tn_problem_add_reuse_cost(problem, 0, 2, INT64_MAX, &failure));
    assert_ok(tn_layout_from_offsets(problem, (const uint64_t[]){0, 4, 1}, &layout, &failure));
    assert_true(layout.reuse_cost == UINT64_MAX);
    tn_layout_release(&layout);
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.objective = TN_OBJECTIVE_PAIRS;
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    assert_int_equal(layout.reuse_cost, 0);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void costs_without_a_capacity_are_refused(void **state) {
    (void)state;
    tn_problem *problem = three_bodies();
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout layout;
    options.objective = TN_OBJECTIVE_PAIRS;
    assert_ok(tn_problem_set_bank(problem, 0, &(tn_bank){.name = "m"}, &failure));
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_INVALID);
    options.capacity = 16;
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    tn_layout_release(&layout);
    options.planner = "greedy-by-size";
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_UNSUPPORTED);
    tn_problem_destroy(problem);
}

static void pins_that_break_a_separation_are_infeasible(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (int64_t i = 0; i < 2; i++)
        assert_ok(tn_problem_add(
            problem, &(tn_body){.size = 4, .first = i, .last = i + 1, .flags = TN_BODY_PINNED},
            NULL, &failure));
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    tn_layout_release(&layout);
    assert_ok(tn_problem_keep_apart(problem, 0, 1, &failure));
    assert_int_equal(tn_plan(problem, NULL, &layout, &failure), TN_E_INFEASIBLE);
    tn_problem_destroy(problem);
    problem = three_bodies();
    assert_ok(tn_problem_add(problem,
                             &(tn_body){.size = 1, .last = 1, .offset = 9, .flags = TN_BODY_PINNED},
                             NULL, &failure));
    assert_int_equal(tn_plan(problem, NULL, &layout, &failure), TN_E_INFEASIBLE);
    tn_problem_destroy(problem);
}

/* A buffer of 0 bytes may be pinned beyond the capacity: the costs are searched all the same. */
static void pins_without_bytes_need_no_capacity(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.objective = TN_OBJECTIVE_PAIRS;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_set_bank(problem, 0, &(tn_bank){.name = "a", .capacity = 2}, &failure));
    for (int64_t i = 0; i < 2; i++)
        assert_ok(tn_problem_add(problem, &(tn_body){.size = 1, .first = i, .last = i + 1}, NULL,
                                 &failure));
    assert_ok(tn_problem_add(
        problem, &(tn_body){.first = 0, .last = 2, .offset = 9, .flags = TN_BODY_PINNED}, NULL,
        &failure));
    assert_ok(tn_problem_add_reuse_cost(problem, 0, 1, 5, &failure));
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    assert_int_equal(layout.reuse_cost, 0);
    assert_int_equal(layout.verdict, TN_VERDICT_OPTIMAL);
    assert_int_equal(layout.offset[2], 9);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* Reserved bytes below the bound raise it: 3 bodies of 4 live at once, bytes [8, 10) reserved. */
static void bounds_count_reserved_bytes(void **state) {
    (void)state;
    tn_problem *problem;
    uint64_t bound;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (int i = 0; i < 3; i++)
        assert_ok(tn_problem_add(problem, &(tn_body){.size = 4, .last = 1}, NULL, &failure));
    assert_ok(tn_problem_reserve(problem, 0, 8, 10, &failure));
    assert_ok(tn_problem_reserve(problem, 0, 14, 20, &failure)); /* begins at the bound */
    assert_ok(tn_problem_lower_bound(problem, 0, &bound, NULL, &failure));
    assert_int_equal(bound, 14);
    tn_problem_destroy(problem);
}

/* --- files --- */

static tn_problem *load(const char *name, const char *text, tn_status expected) {
    tn_problem *problem = NULL;
    tn_status status =
        tn_problem_load_memory(name, text, strlen(text), NULL, &problem, NULL, &failure);
    if (status != expected) fail_msg("%s: status %d: %s", text, status, failure.message);
    return problem;
}

static void assert_same_pairs(const tn_problem *a, const tn_problem *b) {
    uint32_t x, y;
    const tn_pair *pairs[2] = {tn_problem_separations(a, &x), tn_problem_separations(b, &y)};
    assert_int_equal(x, y);
    for (uint32_t i = 0; i < x; i++) {
        assert_int_equal(pairs[0][i].a, pairs[1][i].a);
        assert_int_equal(pairs[0][i].b, pairs[1][i].b);
    }
    pairs[0] = tn_problem_reuse_costs(a, &x);
    pairs[1] = tn_problem_reuse_costs(b, &y);
    uint64_t sums[2] = {0, 0};
    for (uint32_t i = 0; i < x; i++) sums[0] += pairs[0][i].cost * (1 + pairs[0][i].a);
    for (uint32_t i = 0; i < y; i++) sums[1] += pairs[1][i].cost * (1 + pairs[1][i].a);
    assert_int_equal(x, y);
    assert_int_equal(sums[0], sums[1]);
    const tn_reserved *ranges[2] = {tn_problem_reserved(a, &x), tn_problem_reserved(b, &y)};
    assert_int_equal(x, y);
    for (uint32_t i = 0; i < x; i++) {
        assert_int_equal(ranges[0][i].bank, ranges[1][i].bank);
        assert_int_equal(ranges[0][i].first, ranges[1][i].first);
        assert_int_equal(ranges[0][i].last, ranges[1][i].last);
    }
}

static void csv_is_read_and_written(void **state) {
    (void)state;
    tn_problem *problem = load("p.csv",
                               "id,lower,upper,size,apart,costs,reserved\n"
                               "a,0,1,4,c b,c:5,8-10\n"
                               "b,1,2,4,,a,\n"
                               "c,2,3,4,,,\n",
                               TN_OK);
    uint32_t count;
    const tn_pair *pairs = tn_problem_separations(problem, &count);
    assert_int_equal(count, 2);
    assert_int_equal(pairs[0].b, 2);
    pairs = tn_problem_reuse_costs(problem, &count);
    assert_int_equal(count, 2);
    assert_int_equal(pairs[0].cost, 5);
    assert_int_equal(pairs[1].cost, 1);
    assert_int_equal(pairs[1].a, 0);
    char path[] = "/tmp/tenure-reuse-XXXXXX.csv";
    int file = mkstemps(path, 4);
    assert_true(file >= 0);
    close(file);
    tn_layout layout;
    assert_ok(tn_layout_from_offsets(problem, (const uint64_t[]){0, 4, 4}, &layout, &failure));
    for (int with = 0; with < 2; with++) {
        tn_problem *again;
        uint64_t *offsets;
        assert_ok(tn_problem_save_csv(problem, with ? &layout : NULL, path, &failure));
        assert_ok(tn_problem_load(path, NULL, &again, &offsets, &failure));
        assert_same_pairs(problem, again);
        tn_offsets_release(NULL, offsets, 3);
        tn_problem_destroy(again);
    }
    unlink(path);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void csv_mistakes_are_named(void **state) {
    (void)state;
    static const char *const bad[] = {"a,0,1,4,z,,\n",    "a,0,1,4,a,,\n",
                                      "a,0,1,4,,a,\n",    "a,0,1,4,,z:2,\n",
                                      "a,0,1,4,,z,\n",    "a,0,1,4,,b:-1,\n",
                                      "a,0,1,4,,b:x,\n",  "a,0,1,4,,b:9223372036854775808,\n",
                                      "a,0,1,4,,:1,\n",   "a,0,1,4,,,5\n",
                                      "a,0,1,4,,,5-4\n",  "a,0,1,4,,,-1-4\n",
                                      "a,0,1,4,,,1-2x\n", "a,0,1,4,,,1-9223372036854775808\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text, "id,lower,upper,size,apart,costs,reserved\nb,0,1,4,,,\n%s",
                 bad[i]);
        load("p.csv", text, TN_E_INVALID);
        assert_non_null(strstr(failure.where, "p.csv:3"));
    }
}

#ifndef TENURE_MINIMAL
static void json_is_read(void **state) {
    (void)state;
    static const char buffers[] =
        "\"pools\": [{\"capacity\": 16, \"reserved\": [[8, 10]]}], \"buffers\": ["
        "{\"size\": 4, \"first\": 0, \"last_excl\": 1}, {\"size\": 4, \"first\": 1, "
        "\"last_excl\": 2}, {\"size\": 4, \"first\": 2, \"last_excl\": 3}]";
    static const char *const bad[] = {"\"apart\": 3",
                                      "\"apart\": [[0]]",
                                      "\"apart\": [[0, 0]]",
                                      "\"apart\": [[0, 3]]",
                                      "\"apart\": [[-1, 0]]",
                                      "\"apart\": [[0, 4294967297]]",
                                      "\"apart\": [[0, 1.5]]",
                                      "\"reuse_costs\": [[0, 1]]",
                                      "\"reuse_costs\": [[0, 1, -1]]",
                                      "\"reuse_costs\": [[1, 1, 1]]",
                                      "\"reuse_costs\": [[0, 9, 1]]",
                                      "\"reuse_costs\": {}"};
    char text[600];
    snprintf(text, sizeof text,
             "{\"format\": \"mem-plan\", \"version\": 2, %s, \"apart\": [[0, 1]], "
             "\"reuse_costs\": [[2, 0, 5], [0, 2, 2]]}",
             buffers);
    tn_problem *problem = load("p.json", text, TN_OK), *same = three_bodies();
    assert_same_pairs(same, problem);
    tn_problem_destroy(problem);
    tn_problem_destroy(same);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "{\"format\": \"mem-plan\", \"version\": 2, %s, %s}", buffers,
                 bad[i]);
        load("p.json", text, TN_E_INVALID);
    }
    snprintf(text, sizeof text, "{\"format\": \"mem-plan\", \"version\": 4, %s}", buffers);
    load("p.json", text, TN_E_INVALID);
}

#define DSA_POOL "{\"id\": 7, \"capacity\": 16, \"reserved_ranges\": [{\"begin\": 8, \"end\": 10}]}"
#define DSA_BUFFER(id, from, to)                                                                   \
    "{\"id\": " #id ", \"size\": 4, \"alignment\": 1, \"allowed_pools\": [7], "                    \
    "\"live_intervals\": [{\"lower\": " #from ", \"upper\": " #to "}]}"
#define DSA_BUFFERS DSA_BUFFER(-5, 0, 1) ", " DSA_BUFFER(40, 1, 2) ", " DSA_BUFFER(1, 2, 3)
#define DSA(pools, buffers, constraints, penalties)                                                \
    "{\"schema_version\": 1, \"profile\": \"dsa_rp_v1\", \"problem\": {\"pools\": [" pools         \
    "], \"buffers\": [" buffers "], \"constraints\": {" constraints                                \
    "}, \"cost_model\": {\"reuse_penalties\": [" penalties "]}}}"

static void dsa_problems_are_read_and_answered(void **state) {
    (void)state;
    tn_problem *problem =
        load("p.json",
             DSA(DSA_POOL, DSA_BUFFERS,
                 "\"separations\": [{\"first\": 40, \"second\": -5, \"reasons\": [\"x\"]}], "
                 "\"colocations\": []",
                 "{\"first\": -5, \"second\": 1, \"cost\": 5}, {\"first\": 1, \"second\": -5, "
                 "\"cost\": 2, \"reason\": \"y\"}"),
             TN_OK);
    tn_problem *same = three_bodies();
    assert_same_pairs(same, problem);
    assert_int_equal(tn_problem_bank(problem, 0)->capacity, 16);
    tn_layout layout;
    char path[] = "/tmp/tenure-reuse-XXXXXX.json", text[400];
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    assert_ok(tn_layout_from_offsets(problem, (const uint64_t[]){0, 4, 10}, &layout, &failure));
    assert_ok(tn__problem_save_dsa(problem, &layout, path, &failure));
    FILE *written = fopen(path, "r");
    assert_non_null(written);
    text[fread(text, 1, sizeof text - 1, written)] = '\0';
    fclose(written);
    assert_non_null(strstr(text, "\"placements\":["));
    assert_non_null(strstr(text, "{\"buffer\":-5,\"pool\":7,\"offset\":0}"));
    assert_non_null(strstr(text, "{\"buffer\":40,\"pool\":7,\"offset\":4}"));
    assert_non_null(strstr(text, "{\"buffer\":1,\"pool\":7,\"offset\":10}"));
    unlink(path);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    tn_problem_destroy(same);
}

static void dsa_mistakes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tn_status status;
    } bad[] = {
        {"{\"schema_version\": 2, \"problem\": {}}", TN_E_UNSUPPORTED},
        {"{\"schema_version\": 1}", TN_E_INVALID},
        {"{\"schema_version\": 1, \"problem\": []}", TN_E_INVALID},
        {DSA("", "", "", ""), TN_E_INVALID},                     /* no pool */
        {DSA(DSA_POOL ", " DSA_POOL, "", "", ""), TN_E_INVALID}, /* equal ids */
        {DSA("{\"id\": 7, \"capacity\": 0}", "", "", ""), TN_E_INVALID},
        {DSA("{\"id\": 7, \"capacity\": -1}", "", "", ""), TN_E_INVALID},
        {DSA("{\"id\": 7, \"capacity\": \"16\"}", "", "", ""), TN_E_INVALID},
        {DSA("{\"id\": 7, \"reserved_ranges\": [{\"begin\": 3, \"end\": 2}]}", "", "", ""),
         TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFER(1, 0, 1) ", " DSA_BUFFER(1, 0, 1), "", ""), TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFER(1, 1, 1), "", ""), TN_E_INVALID},      /* an empty life */
        {DSA("{\"id\": 6}", DSA_BUFFER(1, 0, 1), "", ""), TN_E_INVALID}, /* unknown pool */
        {DSA(DSA_POOL, "{\"id\": 1, \"size\": 0}", "", ""), TN_E_INVALID},
        {DSA(DSA_POOL, "{\"id\": 1, \"size\": 9223372036854775808}", "", ""), TN_E_INVALID},
        {DSA(DSA_POOL ", {\"id\": 8}",
             "{\"id\": 1, \"size\": 1, \"allowed_pools\": [7, 8], \"live_intervals\": [{\"lower\": "
             "0, \"upper\": 1}]}",
             "", ""),
         TN_E_UNSUPPORTED},
        {DSA(DSA_POOL, DSA_BUFFERS, "\"colocations\": [{\"first\": 1, \"second\": 2}]", ""),
         TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFERS, "\"new_rule\": [1]", ""), TN_E_UNSUPPORTED},
        {DSA(DSA_POOL, DSA_BUFFERS, "\"separations\": [{\"first\": 1, \"second\": 1}]", ""),
         TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFERS, "\"separations\": [{\"first\": 1, \"second\": 2}]", ""),
         TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFERS, "", "{\"first\": 1, \"second\": 40}"), TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFERS, "", "{\"first\": 1, \"second\": 40, \"cost\": -1}"),
         TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFERS, "", "{\"first\": 40, \"second\": 40, \"cost\": 1}"),
         TN_E_INVALID},
        {DSA(DSA_POOL, DSA_BUFFERS, "", "7"), TN_E_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        load("p.json", bad[i].text, bad[i].status);
}
#endif

/* --- memory that runs out --- */

static void loads_and_plans_without_memory(const char *name, const char *text) {
    tn_status status = TN_E_NO_MEMORY;
    uint64_t fail_at = 1;
    for (; status == TN_E_NO_MEMORY && fail_at < 5000; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_problem *problem = NULL;
        tn_layout layout;
        tn__text csv;
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        options.context = &context;
        options.objective = TN_OBJECTIVE_PAIRS;
        options.capacity = 16;
        options.work_limit = 400;
        status =
            tn_problem_load_memory(name, text, strlen(text), &context, &problem, NULL, &failure);
        if (status == TN_OK) status = tn_plan(problem, &options, &layout, &failure);
        if (status == TN_OK) {
            tn__text_init(&csv, &context);
            status = tn__csv_render(problem, &layout, &csv, &failure);
            if (status == TN_OK && csv.failed) status = TN_E_NO_MEMORY;
            tn__text_release(&csv);
            tn_layout_release(&layout);
        }
        tn_problem_destroy(problem);
        assert_int_equal(memory.held, 0);
    }
    assert_ok(status);
    assert_true(fail_at > 30);
}

static void nothing_leaks_when_memory_runs_out(void **state) {
    (void)state;
    loads_and_plans_without_memory("p.csv", "id,lower,upper,size,apart,costs,reserved\n"
                                            "a,0,1,4,c b,c:5,8-10\nb,1,2,4,,a d:2,\nc,2,3,4,,,\n"
                                            "d,1,3,4,,a c,\n");
#ifndef TENURE_MINIMAL
    loads_and_plans_without_memory(
        "p.json", DSA(DSA_POOL, DSA_BUFFERS, "\"separations\": [{\"first\": 40, \"second\": -5}]",
                      "{\"first\": -5, \"second\": 1, \"cost\": 5}, {\"first\": 1, \"second\": 40, "
                      "\"cost\": 2}"));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_least),
        cmocka_unit_test(planners_keep_bodies_apart),
        cmocka_unit_test(costs_are_at_most_those_of_greedy_planners),
        cmocka_unit_test(saboteurs_are_refused),
        cmocka_unit_test(bad_pairs_are_refused),
        cmocka_unit_test(sums_of_costs_saturate),
        cmocka_unit_test(costs_without_a_capacity_are_refused),
        cmocka_unit_test(pins_that_break_a_separation_are_infeasible),
        cmocka_unit_test(pins_without_bytes_need_no_capacity),
        cmocka_unit_test(bounds_count_reserved_bytes),
        cmocka_unit_test(csv_is_read_and_written),
        cmocka_unit_test(csv_mistakes_are_named),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
#ifndef TENURE_MINIMAL
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(dsa_problems_are_read_and_answered),
        cmocka_unit_test(dsa_mistakes_are_refused),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
