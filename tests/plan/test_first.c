/* test_first.c - the layout that is there when a limit leaves a planner no time for one. */
#include "count.h"
#include "kit.h"

#include "plan/frame/planner.h"
#include "plan/frame/planner_run.h"

/* Never places anything; a limit ends it. */
static tn_status idle_solve(tn_run *run) {
    for (;;) TN_TRY(tn__run_work(run, 1));
}

static const tn_planner idle = {.name = "idle",
                                .summary = "does nothing",
                                .source = "test",
                                .features = TN_PLANS_ALL,
                                .solve = idle_solve};

static void expect_valid(const tn_problem *problem, const tn_layout *layout, uint64_t seed) {
    if (!kit_is_valid(problem, layout->offset) || layout->peak < layout->lower_bound)
        fail_msg("seed %llu: not valid\n", (unsigned long long)seed);
    for (uint32_t i = 0; i < layout->body_count; i++) {
        const tn_body *body = tn_problem_body(problem, i);
        if (body->size > 0)
            assert_true(layout->offset[i] + body->size <= layout->bank_peak[body->bank]);
    }
}

static void the_first_layout_is_valid_whatever_the_constraints(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
        unsigned what = (unsigned)(seed % (KIT_ALL + 1));
        tn_problem *problem = kit_random(seed, 1 + (uint32_t)(seed % 60), 50, 12, what);
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        options.work_limit = 1 + seed % 9;
        if (seed % 2 == 0) options.timeout_s = 1e-9;
        assert_ok(tn__plan_with(&idle, problem, &options, &layout, &failure));
        expect_valid(problem, &layout, seed);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

static void every_planner_has_a_layout_when_there_is_no_time(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_planner_count(); p++) {
        for (uint64_t seed = 1; seed <= case_count(40, 6); seed++) {
            tn_problem *problem = kit_random(seed, 300, 500, 200, 0);
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout layout;
            options.planner = tn_planner_name(p);
            if (seed % 2 == 0)
                options.work_limit = 1;
            else
                options.timeout_s = 1e-9;
            if (tn_plan(problem, &options, &layout, &failure) != TN_OK)
                fail_msg("%s, seed %llu: %s\n", options.planner, (unsigned long long)seed,
                         failure.message);
            expect_valid(problem, &layout, seed);
            assert_true(seed % 2 == 0 || layout.timed_out || layout.seconds < 1);
            tn_layout_release(&layout);
            tn_problem_destroy(problem);
        }
    }
}

/* What lives at once shares nothing, what does not may: holes are found again. */
static void the_first_layout_uses_memory_again(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(20, 4); seed++) {
        tn__random random = {.state = seed};
        tn_problem *problem;
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        assert_ok(tn_problem_create(NULL, &problem, &failure));
        for (int i = 0; i < 3000; i++) {
            tn_body body = {.size = 64 * (1 + kit_below(&random, 1000)),
                            .first = (int64_t)kit_below(&random, 3000)};
            body.last = body.first + 1 + (int64_t)kit_below(&random, 50);
            assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        }
        options.work_limit = 1;
        assert_ok(tn__plan_with(&idle, problem, &options, &layout, &failure));
        if (layout.peak > layout.lower_bound + layout.lower_bound / 3)
            fail_msg("seed %llu: %llu bytes, the bound is %llu\n", (unsigned long long)seed,
                     (unsigned long long)layout.peak, (unsigned long long)layout.lower_bound);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

static bool no(void *self, const char *stage, uint64_t done, uint64_t total) {
    (void)self, (void)stage, (void)done, (void)total;
    return false;
}

/* Who cancels wants no answer; one that is there already is given. */
static void a_cancelled_call_without_a_layout_is_stopped(void **state) {
    (void)state;
    tn_context context = TN_CONTEXT_INIT;
    context.progress = no;
    tn_problem *problem = kit_random(3, 300, 500, 200, 0);
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout layout = {0};
    options.context = &context;
    assert_int_equal(tn__plan_with(&idle, problem, &options, &layout, &failure), TN_E_STOPPED);
    assert_null(layout.offset);
    tn_problem_destroy(problem);
}

/* The sort that ranks steps and the one of the reference agree, equal keys in order. */
static void many_items_are_sorted_as_few_are(void **state) {
    (void)state;
    static tn__sort_item items[5000];
    for (uint64_t seed = 1; seed <= case_count(200, 20); seed++) {
        tn__random random = {.state = seed};
        size_t count = 1 + (size_t)kit_below(&random, seed % 2 == 0 ? 60 : 5000);
        uint64_t bound = seed % 3 == 0 ? UINT64_MAX : 1ull << seed % 60;
        for (uint32_t i = 0; i < count; i++)
            items[i] = (tn__sort_item){kit_below(&random, bound) + seed, i};
        assert_true(tn__sort_items(NULL, items, count));
        for (size_t i = 1; i < count; i++) {
            assert_true(items[i - 1].key <= items[i].key);
            if (items[i - 1].key == items[i].key) assert_true(items[i - 1].id < items[i].id);
        }
    }
}

/* --- pools: the tightest hole of what lives --- */

static int by_first(const tn_run_body *a, const tn_run_body *b) {
    return (a->first > b->first) - (a->first < b->first);
}

/* Of equal holes the last; the open end only if there is no other. */
static uint64_t choose_last_tightest(const tn_hole *holes, uint32_t count) {
    uint32_t best = count - 1;
    for (uint32_t i = 0; i + 1 < count; i++)
        if (best == count - 1 ||
            holes[i].last - holes[i].first <= holes[best].last - holes[best].first)
            best = i;
    return holes[best].first;
}

/* By the definition: all neighbours of each body are looked at. */
static tn_status pool_solve(tn_run *run, tn_run_choose choose) {
    const uint32_t *order;
    uint32_t count;
    TN_TRY(tn__run_order(run, by_first, &order, &count));
    return tn__run_greedy(run, order, count, choose);
}
static tn_status pool_lowest(tn_run *run) { return pool_solve(run, tn__choose_tightest); }
static tn_status pool_last(tn_run *run) { return pool_solve(run, choose_last_tightest); }

static void expect_pool(const tn_problem *problem, const char *name, const tn_planner *planner,
                        uint64_t seed) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout found, wanted;
    options.planner = name;
    assert_ok(tn_plan(problem, &options, &found, &failure));
    assert_ok(tn__plan_with(planner, problem, NULL, &wanted, &failure));
    for (uint32_t i = 0; i < found.body_count; i++)
        if (found.offset[i] != wanted.offset[i])
            fail_msg("%s, seed %llu: body %u at %llu, not at %llu\n", name,
                     (unsigned long long)seed, i, (unsigned long long)found.offset[i],
                     (unsigned long long)wanted.offset[i]);
    tn_layout_release(&found);
    tn_layout_release(&wanted);
}

/* Few sizes, so that many holes are equal; alignments that sizes keep, and some that they do not.
 */
static void pools_take_the_tightest_hole(void **state) {
    (void)state;
    const tn_planner lowest = {
        .name = "lowest", .features = TN_PLANS_ALL, .source = "test", .solve = pool_lowest};
    const tn_planner last = {
        .name = "last", .features = TN_PLANS_ALL, .source = "test", .solve = pool_last};
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn__random random = {.state = seed};
        tn_problem *problem;
        assert_ok(tn_problem_create(NULL, &problem, &failure));
        uint64_t unit = seed % 3 == 0 ? 1 : 64, steps = 20 + kit_below(&random, 400);
        for (uint64_t i = 20 + kit_below(&random, 400); i > 0; i--) {
            tn_body body = {.size = unit * (1 + kit_below(&random, 30)),
                            .alignment = 1ull << kit_below(&random, 7),
                            .first = (int64_t)kit_below(&random, steps)};
            body.last = body.first + 1 + (int64_t)kit_below(&random, steps / 4);
            assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        }
        expect_pool(problem, "time-order", &lowest, seed);
        expect_pool(problem, "ggml", &last, seed);
        tn_problem_destroy(problem);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_layout_is_valid_whatever_the_constraints),
        cmocka_unit_test(every_planner_has_a_layout_when_there_is_no_time),
        cmocka_unit_test(the_first_layout_uses_memory_again),
        cmocka_unit_test(a_cancelled_call_without_a_layout_is_stopped),
        cmocka_unit_test(many_items_are_sorted_as_few_are),
        cmocka_unit_test(pools_take_the_tightest_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
