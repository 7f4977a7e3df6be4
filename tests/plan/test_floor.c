/* test_floor.c - the default is never worse than a simple planner, on every family of problems;
 * packings that were cut from one rectangle are put together again.
 *
 *     test_plan_floor [SEED]    families from this seed on
 */
#include "count.h"
#include "kit.h"

#include "bench/kit/generate.h"
#include "plan/frame/planner.h"

static uint64_t first_seed = 11;

static tn_problem *make(const char *kind, const generate_wish *wish, uint64_t *optimum) {
    tn_problem *problem;
    assert_ok(generate_find(kind)->make(wish, &problem, optimum, &failure));
    return problem;
}

static uint64_t height(const tn_problem *problem, const char *planner) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout layout;
    options.planner = planner;
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    uint64_t peak = layout.peak;
    tn_layout_release(&layout);
    return peak;
}

/* Neither `auto` nor `fast` ends above any planner that is quick, or simple: as other tools do. */
static void expect_floor(const char *kind, const generate_wish *wish) {
    static const char *const ours[] = {"fast", "auto"};
    uint64_t optimum, best = UINT64_MAX;
    const char *who = "";
    tn_problem *problem = make(kind, wish, &optimum);
    bool plain = strcmp(kind, "windows") != 0 && wish->windows == 0;
    for (uint32_t p = 0; p < tn_planner_count(); p++) {
        const tn_planner *planner = tn__planner_at(p);
        bool models = plain || (planner->features & TN_PLANS_PIECES);
        if (!(planner->features & (TN_PLANS_QUICKLY | TN_PLANS_SIMPLY)) || !models) continue;
        uint64_t peak = height(problem, planner->name);
        if (peak >= best) continue;
        best = peak;
        who = planner->name;
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        uint64_t peak = height(problem, ours[i]);
        if (peak > best)
            fail_msg("%s, %u buffers, seed %llu: %s %llu, %s %llu\n", kind, wish->count,
                     (unsigned long long)wish->seed, ours[i], (unsigned long long)peak, who,
                     (unsigned long long)best);
    }
    tn_problem_destroy(problem);
}

static void the_default_is_never_worse_than_a_simple_planner(void **state) {
    (void)state;
    for (uint32_t i = 0; i < generate_kind_count; i++)
        for (uint64_t seed = first_seed; seed < first_seed + case_count(2, 1); seed++)
            expect_floor(generate_kinds[i].name,
                         &(generate_wish){.count = seed % 2 ? 1000 : 5000, .seed = seed});
}

/* Small, crowded, aligned, alive in part: where not even much search ends at the bound. */
static void nor_where_bounds_are_far(void **state) {
    (void)state;
    for (uint32_t i = 0; i < generate_kind_count; i++)
        for (uint64_t seed = first_seed; seed < first_seed + case_count(3, 1); seed++)
            expect_floor(generate_kinds[i].name,
                         &(generate_wish){.count = 10 + 60 * (uint32_t)(seed % 4),
                                          .steps = seed % 2 ? 0 : 30,
                                          .seed = seed,
                                          .windows = seed % 3 ? 0 : 60,
                                          .alignment_max = 256});
}

static void nor_where_many_live_a_few_at_a_time(void **state) {
    (void)state;
    const uint32_t count = case_count(50000, 10000);
    expect_floor("short", &(generate_wish){.count = count, .seed = first_seed});
    expect_floor("power", &(generate_wish){.count = count, .seed = first_seed});
}

/* Where `colouring` was lower than what the default was made of before it asked it. */
static void nor_where_pieces_are_aligned(void **state) {
    (void)state;
    for (uint64_t seed = 21; seed <= 24; seed += 3)
        expect_floor("windows",
                     &(generate_wish){.count = 2500, .seed = seed, .alignment_max = 4096});
}

/* A perfect packing of which nobody can tell what was cut from what: every step of twenty is
 * crowded with sizes that agree by chance. Who looks for cuts comes to its own limit; the others go
 * on. */
static void nor_where_every_step_is_full_and_nothing_fits(void **state) {
    (void)state;
    static const uint32_t counts[] = {1400, 5000, 9000};
    for (uint32_t i = 0; i < case_count(sizeof counts / sizeof *counts, 0);
         i++) { /* half a minute each */
        generate_wish wish = {.count = counts[i], .steps = 20, .seed = 3};
        uint64_t optimum;
        tn_problem *problem = make("cuts", &wish, &optimum);
        if (height(problem, "guillotine") == optimum) fail_msg("%u cuts are solved\n", counts[i]);
        tn_problem_destroy(problem);
        expect_floor("cuts", &wish);
    }
}

/* Who plans small problems by the thousand waits for none of them: what `auto` looks for beyond
 * `fast` grows with the bodies. Some of these have no plan at their bound. */
static void small_problems_are_not_searched_for_long(void **state) {
    (void)state;
    static const uint32_t counts[] = {5, 15, 30, 60};
    uint32_t searched = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint32_t count = counts[seed % 4];
        generate_wish wish = {.count = count, .seed = seed, .alignment_max = seed % 8 < 4 ? 0 : 64};
        uint64_t optimum;
        tn_problem *problem = make("windows", &wish, &optimum);
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout draft, found;
        options.planner = "fast";
        assert_ok(tn_plan(problem, &options, &draft, &failure));
        assert_ok(tn_plan(problem, NULL, &found, &failure));
        assert_true(found.peak <= draft.peak && found.work >= draft.work);
        searched += found.work > draft.work;
        if (found.work - draft.work > (uint64_t)12000 * count)
            fail_msg("seed %llu, %u bodies: %llu units more\n", (unsigned long long)seed, count,
                     (unsigned long long)(found.work - draft.work));
        tn_layout_release(&draft);
        tn_layout_release(&found);
        tn_problem_destroy(problem);
    }
    if (searched < 3) fail_msg("%u of 40 are searched\n", searched);
}

/* A limit that comes while one crowded step is looked at: there is a layout, and hardly more work
 * than the limit was done. */
static void a_limit_holds_within_a_crowded_step(void **state) {
    (void)state;
    static const char *const planners[] = {"guillotine", "fast", "auto"};
    generate_wish wish = {.count = 6000, .steps = 4, .seed = 5};
    uint64_t optimum;
    tn_problem *problem = make("cuts", &wish, &optimum);
    for (size_t p = 0; p < sizeof planners / sizeof *planners; p++) {
        for (uint64_t limit = 1; limit <= 10000; limit *= 100) {
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout layout;
            options.planner = planners[p];
            options.work_limit = limit;
            assert_ok(tn_plan(problem, &options, &layout, &failure));
            if (layout.work > limit + 40000)
                fail_msg("%s: %llu units, the limit is %llu\n", planners[p],
                         (unsigned long long)layout.work, (unsigned long long)limit);
            tn_layout_release(&layout);
        }
    }
    tn_problem_destroy(problem);
}

/* Whether the plan is as high as the rectangle was; one 50th above at most. */
static uint32_t put_together(const char *kind, uint32_t count, uint64_t seed) {
    uint64_t optimum;
    tn_problem *problem = make(kind, &(generate_wish){.count = count, .seed = seed}, &optimum);
    uint64_t peak = height(problem, "guillotine");
    if (peak > optimum + optimum / 50)
        fail_msg("%u %s, seed %llu: %llu of %llu\n", count, kind, (unsigned long long)seed,
                 (unsigned long long)peak, (unsigned long long)optimum);
    tn_problem_destroy(problem);
    return peak == optimum;
}

/* The height of the rectangle, where sizes tell it; where many agree by chance, a little above. */
static void what_was_cut_from_one_is_put_together(void **state) {
    (void)state;
    const uint32_t seeds = case_count(20, 3);
    uint32_t solved = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        solved += put_together("cuts", 1000, seed);
        assert_true(put_together("pinwheel", 3000, seed));
    }
    if (solved + 1 < seeds) fail_msg("%u of %u cuts are solved\n", solved, seeds);
    for (uint64_t seed = 1; seed <= case_count(4, 1); seed++) put_together("cuts", 5000, seed);
    assert_true(put_together("tiling", case_count(50000, 10000), 1));
    assert_true(put_together("pinwheel", case_count(50000, 10000), 1));
}

/* However much work is allowed, as no limit that anybody would reach. */
static void nor_is_much_work_too_much(void **state) {
    (void)state;
    uint64_t optimum;
    tn_problem *problem = make("cuts", &(generate_wish){.count = 1000, .seed = 1}, &optimum);
    for (uint64_t limit = 1000000; limit < UINT64_MAX / 1000; limit *= 1000) {
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        options.planner = "guillotine";
        options.work_limit = limit;
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        assert_int_equal(layout.peak, optimum);
        tn_layout_release(&layout);
    }
    tn_problem_destroy(problem);
}

/* How far above its bound a planner may end, for some seeds: one part of so many. */
static void ends_near_its_bound(const char *family, uint32_t count, uint32_t steps,
                                const char *planner, uint64_t seeds, uint64_t part) {
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        uint64_t optimum, bound;
        generate_wish wish = {.count = count, .steps = steps, .seed = seed};
        tn_problem *problem = make(family, &wish, &optimum);
        assert_ok(tn_problem_lower_bound(problem, 0, &bound, NULL, &failure));
        uint64_t peak = height(problem, planner);
        if (peak > bound + bound / part)
            fail_msg("%s, seed %llu: %llu, the bound is %llu\n", family, (unsigned long long)seed,
                     (unsigned long long)peak, (unsigned long long)bound);
        tn_problem_destroy(problem);
    }
}

/* Lives of 1 to 50 steps: windows of time mended one by one end at the bound. */
static void short_lives_end_at_their_bound(void **state) {
    (void)state;
    ends_near_its_bound("short", 30000, 0, "auto", case_count(3, 1), 500);
}

/* Few that live long among many: what lives at the crowded steps must lie there without a gap. */
static void what_is_crowded_is_planned_first(void **state) {
    (void)state;
    ends_near_its_bound("long", 10000, 0, "peak-first", case_count(4, 1), 1000);
}

/* Hundreds of short lives at once: one order does not suit all the steps that are crowded. */
static void humps_are_planned_each_by_itself(void **state) {
    (void)state;
    ends_near_its_bound("short", 20000, 2000, "peak-first", case_count(3, 1), 50);
}

typedef struct telling {
    uint64_t best, bound;
    uint32_t rises; /* of what is called the best */
} telling;

static void hear(void *self, const char *phase, uint64_t best, uint64_t bound) {
    telling *told = self;
    (void)phase;
    if (best == UINT64_MAX) return;
    told->rises += best > told->best;
    told->best = best;
    if (bound > told->bound) told->bound = bound;
}

static bool go_on(void *self, const char *phase, uint64_t done, uint64_t total) {
    (void)self, (void)phase, (void)done, (void)total;
    return true;
}

/* Planners that plan windows of time by themselves tell nothing of these. */
static void what_is_told_on_the_way_is_of_the_whole(void **state) {
    (void)state;
    uint64_t optimum;
    telling told = {.best = UINT64_MAX};
    tn_context context = TN_CONTEXT_INIT;
    context.self = &told;
    context.progress = go_on;
    context.found = hear;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.context = &context;
    tn_layout layout;
    tn_problem *problem = make(
        "short", &(generate_wish){.count = 10000, .steps = 1000, .seed = first_seed}, &optimum);
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    assert_int_equal(told.rises, 0);
    assert_true(told.best != UINT64_MAX && told.best >= layout.peak);
    assert_true(told.bound <= layout.lower_bound);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

int main(int count, char **arguments) {
    if (count > 1) first_seed = strtoull(arguments[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_never_worse_than_a_simple_planner),
        cmocka_unit_test(nor_where_bounds_are_far),
        cmocka_unit_test(nor_where_many_live_a_few_at_a_time),
        cmocka_unit_test(nor_where_pieces_are_aligned),
        cmocka_unit_test(nor_where_every_step_is_full_and_nothing_fits),
        cmocka_unit_test(small_problems_are_not_searched_for_long),
        cmocka_unit_test(a_limit_holds_within_a_crowded_step),
        cmocka_unit_test(what_was_cut_from_one_is_put_together),
        cmocka_unit_test(nor_is_much_work_too_much),
        cmocka_unit_test(short_lives_end_at_their_bound),
        cmocka_unit_test(what_is_crowded_is_planned_first),
        cmocka_unit_test(humps_are_planned_each_by_itself),
        cmocka_unit_test(what_is_told_on_the_way_is_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
