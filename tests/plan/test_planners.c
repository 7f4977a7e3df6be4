/* test_planners.c - what holds for every planner; `test_planners NAME` tests one (its file's name).
 *
 * Judged by kit.h, which shares nothing with planners or verifier.
 */
#include "count.h"
#include "kit.h"

#include "plan/frame/planner.h"
#include "plan/frame/planner_run.h"

static const char *only;

static bool is_wanted(uint32_t index) {
    char file[64];
    const char *name = tn_planner_name(index);
    size_t i = 0;
    for (; name[i] != '\0' && i + 1 < sizeof file; i++) file[i] = name[i] == '-' ? '_' : name[i];
    file[i] = '\0';
    return only == NULL || strcmp(only, file) == 0;
}

static tn_plan_options options_for(uint32_t planner) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.planner = tn_planner_name(planner);
    if (!(tn__planner_at(planner)->features & TN_PLANS_QUICKLY)) options.work_limit = 6000;
    return options;
}

/* Plans unless the planner refuses the constraints; then the refusal must say so. */
static bool plans(const tn_problem *problem, const tn_plan_options *options, tn_layout *layout,
                  uint64_t seed) {
    tn_status status = tn_plan(problem, options, layout, &failure);
    if (status == TN_E_UNSUPPORTED) {
        assert_non_null(strstr(failure.message, options->planner));
        return false;
    }
    if (status != TN_OK)
        fail_msg("%s, seed %llu: %s\n", options->planner, (unsigned long long)seed,
                 failure.message);
    return true;
}

static void every_layout_is_valid_and_between_bound_and_sum(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_planner_count(); p++) {
        tn_plan_options options = options_for(p);
        for (uint64_t seed = 1; seed <= case_count(600, 100) && is_wanted(p); seed++) {
            unsigned what = (unsigned)(seed % (KIT_ALL + 1));
            tn_problem *problem = kit_random(seed, 1 + (uint32_t)(seed % 40), 50, 12, what);
            tn_layout layout;
            if (plans(problem, &options, &layout, seed)) {
                if (!kit_is_valid(problem, layout.offset) || layout.peak < layout.lower_bound)
                    fail_msg("%s, seed %llu: not valid\n", options.planner,
                             (unsigned long long)seed);
                for (uint32_t i = 0; i < layout.body_count; i++) {
                    const tn_body *body = tn_problem_body(problem, i);
                    if (body->size > 0)
                        assert_true(layout.offset[i] + body->size <= layout.bank_peak[body->bank]);
                }
                if (!(what & (KIT_PINS | KIT_ALIGNMENTS)) &&
                    strcmp(options.planner, "two-ended") != 0)
                    assert_true(layout.peak <= tn_problem_naive(problem));
                assert_int_equal(layout.verdict == TN_VERDICT_OPTIMAL,
                                 layout.peak == layout.lower_bound);
                tn_layout_release(&layout);
            }
            tn_problem_destroy(problem);
        }
    }
}

static void the_same_input_gives_the_same_bytes_with_any_threads(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_planner_count(); p++) {
        for (uint64_t seed = 1; seed <= case_count(40, 6) && is_wanted(p); seed++) {
            tn_problem *problem = kit_random(seed, 60, 500, 30, KIT_ALIGNMENTS | KIT_PIECES);
            tn_layout layouts[3];
            for (uint32_t i = 0; i < 3; i++) {
                tn_plan_options options = options_for(p);
                options.threads = i + 1;
                if (seed % 3 > 0) options.work_limit = 100 * (seed % 3) * 60;
                assert_true(plans(problem, &options, &layouts[i], seed));
                assert_int_equal(layouts[0].peak, layouts[i].peak);
                assert_int_equal(layouts[0].work, layouts[i].work);
                assert_memory_equal(layouts[0].offset, layouts[i].offset, 60 * sizeof(uint64_t));
            }
            for (uint32_t i = 0; i < 3; i++) tn_layout_release(&layouts[i]);
            tn_problem_destroy(problem);
        }
    }
}

static void a_capacity_below_the_bound_is_infeasible_and_above_it_is_kept(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_planner_count(); p++) {
        for (uint64_t seed = 1; seed <= case_count(60, 10) && is_wanted(p); seed++) {
            tn_problem *problem = kit_random(seed, 20, 50, 10, 0);
            tn_plan_options options = options_for(p);
            tn_layout layout, kept = {0};
            assert_true(plans(problem, &options, &layout, seed));
            options.capacity = layout.lower_bound - 1;
            if (options.capacity > 0)
                assert_int_equal(tn_plan(problem, &options, &kept, &failure), TN_E_INFEASIBLE);
            assert_null(kept.offset);
            options.capacity = layout.peak;
            assert_ok(tn_plan(problem, &options, &kept, &failure));
            assert_true(kept.peak <= layout.peak);
            tn_layout_release(&kept);
            tn_layout_release(&layout);
            tn_problem_destroy(problem);
        }
    }
}

/* Fail allocation 1, 2, 3, ... until the call gets through: nothing leaks, nothing is written. */
static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_planner_count(); p++) {
        if (!is_wanted(p)) continue;
        tn_problem *problem = kit_random(5, 30, 50, 10, KIT_ALIGNMENTS | KIT_PIECES);
        tn_status status = TN_E_NO_MEMORY;
        for (uint64_t fail_at = 1; status != TN_OK && fail_at < 5000; fail_at++) {
            faulty memory = {.fail_at = fail_at};
            tn_context context = faulty_context(&memory);
            tn_plan_options options = options_for(p);
            tn_layout layout = {0};
            options.context = &context;
            options.threads = 2;
            status = tn_plan(problem, &options, &layout, &failure);
            assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
            assert_int_equal(memory.held, 0);
            assert_true(status == TN_OK || layout.offset == NULL);
            tn_layout_release(&layout);
        }
        assert_int_equal(status, TN_OK);
        tn_problem_destroy(problem);
    }
}

static void add_epoch(tn_problem *problem, uint64_t seed, uint32_t count, int64_t begin) {
    tn__random random = {.state = seed};
    for (uint32_t i = 0; i < count; i++) {
        int64_t first = begin + (int64_t)kit_below(&random, 20000);
        tn_body body = {.size = 1 + kit_below(&random, 1000),
                        .first = first,
                        .last = first + 1 + (int64_t)kit_below(&random, 40)};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
}

static bool may_start(const tn_run *run, uint32_t id, uint64_t start) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const tn_run_piece *pieces = tn__run_pieces(run);
    for (uint32_t other = 0; other < tn__run_count(run); other++) {
        if (!tn__run_placed(run, other)) continue;
        uint64_t there = tn__run_offset(run, other);
        for (uint32_t a = bodies[id].piece_first, i = 0; i < bodies[id].piece_count; i++, a++)
            for (uint32_t b = bodies[other].piece_first, k = 0; k < bodies[other].piece_count;
                 k++, b++)
                if (tn__run_pieces_meet(run, a, b) && start + pieces[a].lo < there + pieces[b].hi &&
                    there + pieces[b].lo < start + pieces[a].hi)
                    return false;
    }
    return true;
}

static void expect_near(tn_run *run, uint32_t first, uint32_t last) {
    static uint8_t told[4096];
    const tn_run_body *bodies = tn__run_bodies(run);
    const uint32_t *near;
    uint32_t count = tn__run_near(run, first, last, &near);
    memset(told, 0, sizeof told);
    for (uint32_t i = 0; i < count; i++) told[near[i]]++;
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        assert_int_equal(told[i], tn__run_placed(run, i) && bodies[i].first < last &&
                                      bodies[i].last > first);
}

/* Puts bodies anywhere and takes them back; who is near and where holes are is asked in between. */
static tn_status to_and_fro(tn_run *run) {
    tn__random random = {.state = tn__run_count(run)};
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t times = tn__run_time_count(run), n = tn__run_count(run);
    for (uint32_t turn = 0; turn < 6 * n; turn++) {
        uint32_t id = (uint32_t)kit_below(&random, n);
        uint64_t mask = bodies[id].alignment - 1;
        if (tn__run_placed(run, id)) {
            if (kit_below(&random, 4) != 0 || turn > 5 * n) tn__run_unplace(run, id);
        } else {
            tn__run_place(run, id, kit_below(&random, 2000) & ~mask);
        }
        if (kit_below(&random, 40) != 0 || tn__run_placed(run, id)) continue;
        uint32_t first = (uint32_t)kit_below(&random, times - 1); /* times are 0 to times - 1 */
        expect_near(run, first, first + 1 + (uint32_t)kit_below(&random, times - 1 - first));
        const tn_hole *holes;
        uint32_t count;
        assert_ok(tn__run_holes(run, id, &holes, &count));
        for (uint64_t tries = 0; tries < 20; tries++) {
            uint64_t start = kit_below(&random, 2500) & ~mask;
            bool free = false;
            for (uint32_t h = 0; h < count; h++)
                free = free || (holes[h].first <= start && start <= holes[h].last);
            assert_int_equal(free, may_start(run, id, start));
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (tn__run_placed(run, i)) tn__run_unplace(run, i);
    for (uint32_t i = 0; i < n; i++) tn__run_place(run, i, 4096 * (uint64_t)i);
    return TN_OK;
}

/* However long lives are, and wherever they begin. */
static void who_was_placed_and_taken_back_is_found_or_not(void **state) {
    (void)state;
    static const tn_planner judge = {.name = "judge", .features = ~0u, .solve = to_and_fro};
    static const int64_t steps[] = {8, 300, 4000};
    if (only != NULL && strcmp(only, "auto") != 0) return;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        unsigned what = (seed % 2 ? KIT_PIECES : 0) | (seed % 3 ? KIT_ALIGNMENTS : 0);
        tn_problem *problem = kit_random(seed, seed % 4 ? 400 : 60, 50, steps[seed % 3], what);
        for (uint32_t i = 0; i < 600; i++) { /* most lives are short */
            tn__random random = {.state = 600 * seed + i};
            int64_t first = (int64_t)kit_below(&random, (uint64_t)steps[seed % 3]);
            tn_body body = {.size = 1 + kit_below(&random, 50),
                            .first = first,
                            .last = first + 1 + (int64_t)kit_below(&random, 12)};
            assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        }
        tn_layout layout;
        assert_ok(tn__plan_with(&judge, problem, NULL, &layout, &failure));
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

/* Bodies of another epoch never meet, so with them or without, a greedy planner must put the first
 * ones at the same places. */
static void few_and_many_bodies_are_placed_alike(void **state) {
    (void)state;
    static const char *const greedy[] = {"greedy-by-size", "best-fit", "time-order",
                                         "greedy-by-breadth"};
    for (size_t p = 0; p < 4; p++) {
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_problem *few, *many;
        tn_layout alone, together;
        options.planner = greedy[p];
        if (only != NULL && strcmp(only, "auto") != 0) return;
        assert_ok(tn_problem_create(NULL, &few, &failure));
        assert_ok(tn_problem_create(NULL, &many, &failure));
        add_epoch(few, 11, 20000, 0);
        add_epoch(many, 11, 20000, 0);
        add_epoch(many, 12, 15000, 1000000);
        assert_ok(tn_plan(few, &options, &alone, &failure));
        assert_ok(tn_plan(many, &options, &together, &failure));
        assert_memory_equal(alone.offset, together.offset, 20000 * sizeof(uint64_t));
        tn_layout_release(&alone);
        tn_layout_release(&together);
        tn_problem_destroy(few);
        tn_problem_destroy(many);
    }
}

/* --- saboteurs: a judge that cannot say no proves nothing --- */

static tn_status all_at_zero(tn_run *run) {
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (!tn__run_placed(run, i)) tn__run_place(run, i, 0);
    return TN_OK;
}
static tn_status one_left_out(tn_run *run) {
    for (uint32_t i = 1; i < tn__run_count(run); i++)
        if (!tn__run_placed(run, i)) tn__run_place(run, i, 1000 * i);
    return TN_OK;
}
static tn_status off_alignment(tn_run *run) {
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (!tn__run_placed(run, i)) tn__run_place(run, i, 4096 * i + 1);
    return TN_OK;
}
static tn_status boasting(tn_run *run) {
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (!tn__run_placed(run, i)) tn__run_place(run, i, 4096 * i);
    tn__run_raise_bound(run, UINT64_MAX / 4);
    return TN_OK;
}

static void no_saboteur_gets_a_layout_out(void **state) {
    (void)state;
    static tn_status (*const solves[])(tn_run *) = {all_at_zero, one_left_out, off_alignment,
                                                    boasting};
    if (only != NULL && strcmp(only, "naive") != 0) return;
    for (size_t i = 0; i < sizeof solves / sizeof *solves; i++) {
        tn_planner saboteur = {.name = "saboteur", .features = ~0u, .solve = solves[i]};
        tn_problem *problem;
        tn_layout layout = {0};
        assert_ok(tn_problem_create(NULL, &problem, &failure));
        assert_ok(tn_problem_set_alignment(problem, 64, &failure));
        for (int k = 0; k < 3; k++)
            assert_ok(tn_problem_add(problem, &(tn_body){.size = 100, .last = 5}, NULL, &failure));
        assert_int_equal(tn__plan_with(&saboteur, problem, NULL, &layout, &failure), TN_E_INTERNAL);
        assert_null(layout.offset);
        tn_problem_destroy(problem);
    }
}

static void a_planner_is_never_given_what_it_does_not_model(void **state) {
    (void)state;
    tn_planner plain = {.name = "plain", .features = 0, .solve = all_at_zero};
    for (unsigned what = 1; what <= KIT_STREAMS; what *= 2) {
        if (what == KIT_BANKS) continue; /* those are the frame's own work */
        tn_problem *problem = kit_random(3, 40, 50, 10, what);
        tn_layout layout = {0};
        assert_int_equal(tn__plan_with(&plain, problem, NULL, &layout, &failure), TN_E_UNSUPPORTED);
        tn_problem_destroy(problem);
    }
}

int main(int count, char **arguments) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_valid_and_between_bound_and_sum),
        cmocka_unit_test(the_same_input_gives_the_same_bytes_with_any_threads),
        cmocka_unit_test(a_capacity_below_the_bound_is_infeasible_and_above_it_is_kept),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(who_was_placed_and_taken_back_is_found_or_not),
        cmocka_unit_test(few_and_many_bodies_are_placed_alike),
        cmocka_unit_test(no_saboteur_gets_a_layout_out),
        cmocka_unit_test(a_planner_is_never_given_what_it_does_not_model),
    };
    only = count > 1 ? arguments[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
