/* test_scale.c - what `scale` is made of: skylines, floors, orders; and plans of thousands. */
#include "count.h"
#include "kit.h"

#include <time.h>

#include "bench/kit/generate.h"
#include "plan/skyline/drop.h"
#include "plan/skyline/weighted_orders.h"
#include "plan/skyline/skyline.h"

#define MANY 400u

typedef struct strip { /* plain bodies over a short time */
    tn_run_body bodies[MANY];
    tn_run_piece pieces[MANY];
    uint32_t ids[MANY], order[MANY];
    uint64_t offsets[MANY];
    uint32_t count, times;
} strip;

static void strip_fill(strip *made, tn__random *random) {
    made->count = 1 + (uint32_t)kit_below(random, MANY);
    made->times = 2 + (uint32_t)kit_below(random, 60);
    for (uint32_t i = 0; i < made->count; i++) {
        uint32_t first = (uint32_t)kit_below(random, made->times - 1);
        uint32_t last = first + 1 + (uint32_t)kit_below(random, made->times - 1 - first);
        uint64_t size = 1 + kit_below(random, 100);
        made->bodies[i] = (tn_run_body){size, 1, first, last, i, 1};
        made->pieces[i] = (tn_run_piece){first, last, 0, size};
        made->ids[i] = made->order[i] = i;
    }
    for (uint32_t i = made->count; i > 1; i--) { /* any order */
        uint32_t other = (uint32_t)kit_below(random, i), swap = made->order[other];
        made->order[other] = made->order[i - 1];
        made->order[i - 1] = swap;
    }
}

static bool strip_meet(const strip *all, uint32_t a, uint32_t b) {
    return all->bodies[a].first < all->bodies[b].last && all->bodies[b].first < all->bodies[a].last;
}

static bool go_on(void *self, uint32_t placed) {
    *(uint32_t *)self += placed;
    return true;
}

static void a_skyline_is_valid_and_leaves_no_body_hanging(void **state) {
    static strip all;
    tn_context context = tn__context(NULL);
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn__random random = {.state = seed};
        strip_fill(&all, &random);
        tn__skyline *skyline = tn__skyline_create(
            &(tn__live_tree_input){&context, all.bodies, all.ids, all.count, NULL}, all.pieces,
            all.times);
        assert_non_null(skyline);
        for (uint32_t fit = TN__SKYLINE_ANY; fit <= TN__SKYLINE_ROWS_RANKED; fit++) {
            uint32_t placed = 0;
            uint64_t peak, top = 0;
            tn__skyline_rule rule = {(tn__skyline_fit)fit, 0};
            assert_true(tn__skyline_fill(skyline, all.order, rule, UINT64_MAX,
                                         (tn__skyline_poll){go_on, &placed}, all.offsets, &peak));
            assert_int_equal(placed, all.count);
            for (uint32_t a = 0; a < all.count; a++) {
                bool lies = all.offsets[a] == 0;
                uint64_t end = all.offsets[a] + all.bodies[a].size;
                top = end > top ? end : top;
                for (uint32_t b = 0; b < all.count; b++) {
                    if (a == b || !strip_meet(&all, a, b)) continue;
                    uint64_t below = all.offsets[b] + all.bodies[b].size;
                    lies = lies || below == all.offsets[a];
                    if (below > all.offsets[a] && all.offsets[b] < end)
                        fail_msg("seed %llu: %u and %u meet\n", (unsigned long long)seed, a, b);
                }
                if (!lies) fail_msg("seed %llu: %u hangs\n", (unsigned long long)seed, a);
            }
            assert_int_equal(peak, top);
        }
        tn__skyline_destroy(skyline);
    }
}

static void a_floor_is_the_highest_top_of_the_steps_asked_for(void **state) {
    tn_context context = tn__context(NULL);
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(100, 10); seed++) {
        tn__random random = {.state = seed};
        uint64_t floors[64] = {0};
        uint32_t times = 1 + (uint32_t)kit_below(&random, 64);
        tn__drop *drop = tn__drop_create(&context, times);
        assert_non_null(drop);
        for (int i = 0; i < 200; i++) {
            uint32_t first = (uint32_t)kit_below(&random, times);
            uint32_t last = first + 1 + (uint32_t)kit_below(&random, times - first);
            tn_run_piece piece = {first, last, kit_below(&random, 3), 3 + kit_below(&random, 9)};
            tn_run_body body = {piece.hi, 1u << kit_below(&random, 3), first, last, 0, 1};
            uint64_t floor = 0;
            for (uint32_t t = first; t < last; t++) floor = floors[t] > floor ? floors[t] : floor;
            uint64_t expected = floor > piece.lo ? floor - piece.lo : 0;
            while (expected % body.alignment != 0) expected++;
            assert_int_equal(tn__drop_offset(drop, &body, &piece), expected);
            tn__drop_raise(drop, &body, &piece, expected);
            for (uint32_t t = first; t < last; t++) floors[t] = expected + piece.hi;
        }
        tn__drop_destroy(drop);
    }
}

static void a_sort_by_key_keeps_equal_keys_in_order(void **state) {
    static uint64_t key[3000];
    static uint32_t order[3000], spare[3000];
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(20, 4); seed++) {
        tn__random random = {.state = seed};
        uint64_t bound = seed % 2 == 0 ? 50 : UINT64_MAX;
        for (uint32_t i = 0; i < 3000; i++) {
            key[i] = kit_below(&random, bound);
            order[i] = i;
        }
        tn__weighted_orders_sort(key, order, spare, 3000);
        for (uint32_t i = 1; i < 3000; i++) {
            assert_true(key[order[i - 1]] <= key[order[i]]);
            if (key[order[i - 1]] == key[order[i]]) assert_true(order[i - 1] < order[i]);
        }
    }
}

static void plan_generated(const char *kind, const generate_wish *wish, const char *planner,
                           uint64_t *optimum, tn_layout *layout) {
    tn_problem *problem;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.planner = planner;
    options.work_limit = 40 * (uint64_t)wish->count;
    assert_ok(generate_find(kind)->make(wish, &problem, optimum, &failure));
    assert_ok(tn_plan(problem, &options, layout, &failure));
    if (!kit_is_valid(problem, layout->offset))
        fail_msg("%s, seed %llu: not valid\n", kind, (unsigned long long)wish->seed);
    tn_problem_destroy(problem);
}

static void plans_of_a_thousand_with_windows_and_alignments_are_valid(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        generate_wish wish = {.count = 1000, .seed = seed};
        wish.alignment_max = seed % 2 == 0 ? 64 : 0;
        wish.windows = seed % 3 == 0 ? 0 : 30;
        for (uint32_t i = 0; i < generate_kind_count; i++) {
            uint64_t optimum;
            tn_layout layout;
            plan_generated(generate_kinds[i].name, &wish, "scale", &optimum, &layout);
            tn_layout_release(&layout);
        }
    }
}

static void tilings_whose_cuts_share_no_step_are_solved(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        generate_wish wish = {.count = 2000, .seed = seed, .steps = 1u << 24};
        uint64_t optimum;
        tn_layout layout;
        plan_generated("tiling", &wish, "scale", &optimum, &layout);
        assert_int_equal(layout.peak, optimum);
        assert_int_equal(layout.verdict, TN_VERDICT_OPTIMAL);
        tn_layout_release(&layout);
    }
}

static void a_training_trace_is_planned_at_its_bound(void **state) {
    (void)state;
    generate_wish wish = {.count = 3000, .seed = 5};
    uint64_t optimum;
    tn_layout layout;
    plan_generated("training", &wish, "scale", &optimum, &layout);
    assert_true(layout.peak <= layout.lower_bound + layout.lower_bound / 500);
    tn_layout_release(&layout);
}

/* The highest pin comes first: who looks for the next one from the start again takes pins^2 a body.
 * Minutes then, a second now. */
static void pins_on_top_of_each_other_are_gone_round_at_once(void **state) {
    (void)state;
    enum { PINS = 3000, BODIES = 20000 };
    tn__random random = {.state = 1};
    tn_problem *problem;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout layout;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t i = 0; i < PINS + BODIES; i++) {
        tn_body body = {.size = 9 + tn__random_below(&random, 90),
                        .first = (int64_t)tn__random_below(&random, 999)};
        body.last = body.first + 1;
        if (i < PINS)
            body = (tn_body){.size = 8,
                             .last = 1000,
                             .flags = TN_BODY_PINNED,
                             .offset = 8 * (uint64_t)(PINS - 1 - i)};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    options.planner = "scale";
    options.work_limit = BODIES; /* one plan */
    clock_t start = clock();
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    assert_true((clock() - start) / CLOCKS_PER_SEC < 20);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* Pieces are sorted, so those that end before need not be gone through again and again. */
static void bodies_of_many_pieces_are_planned_in_little_time(void **state) {
    (void)state;
    enum { BODIES = 60, PIECES = 3000 };
    static const char *const names[] = {"greedy-by-size", "exact"};
    static tn_piece pieces[PIECES];
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t i = 0; i < BODIES; i++) {
        tn_body body = {.size = 32, .pieces = pieces, .piece_count = PIECES};
        for (uint32_t k = 0; k < PIECES; k++)
            pieces[k] = (tn_piece){.first = 2 * k + i % 2,
                                   .last = 2 * k + i % 2 + 1,
                                   .lo = k % 3,
                                   .hi = 5 + (7 * k + i) % 20};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    for (uint32_t which = 0; which < 2; which++) {
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        options.planner = names[which];
        options.work_limit = 2000;
        clock_t start = clock();
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        assert_true((clock() - start) / CLOCKS_PER_SEC < 10);
        tn_layout_release(&layout);
    }
    tn_problem_destroy(problem);
}

/* `auto` is never worse than the simplest planner within the same limit. */
static void limits_never_end_above_greedy_by_size(void **state) {
    (void)state;
    enum { BODIES = 6000 };
    static const char *const kinds[] = {"windows", "training"};
    uint32_t tried = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const generate_kind *kind = generate_find(kinds[k]);
        generate_wish wish = {.count = BODIES, .seed = 3};
        tn_problem *problem;
        assert_non_null(kind);
        uint64_t optimum;
        assert_ok(kind->make(&wish, &problem, &optimum, &failure));
        for (uint64_t factor = 1; factor <= 4; factor *= 2) {
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout simple, best;
            options.work_limit = factor * (tn_problem_count(problem) + 1);
            options.planner = "greedy-by-size";
            assert_ok(tn_plan(problem, &options, &simple, &failure));
            options.planner = "auto";
            assert_ok(tn_plan(problem, &options, &best, &failure));
            if (best.peak > simple.peak)
                fail_msg("%s, limit %llu: %llu bytes, greedy-by-size %llu", kinds[k],
                         (unsigned long long)options.work_limit, (unsigned long long)best.peak,
                         (unsigned long long)simple.peak);
            tn_layout_release(&simple);
            tn_layout_release(&best);
            tried++;
        }
        tn_problem_destroy(problem);
    }
    assert_true(tried == 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_skyline_is_valid_and_leaves_no_body_hanging),
        cmocka_unit_test(a_floor_is_the_highest_top_of_the_steps_asked_for),
        cmocka_unit_test(a_sort_by_key_keeps_equal_keys_in_order),
        cmocka_unit_test(plans_of_a_thousand_with_windows_and_alignments_are_valid),
        cmocka_unit_test(tilings_whose_cuts_share_no_step_are_solved),
        cmocka_unit_test(a_training_trace_is_planned_at_its_bound),
        cmocka_unit_test(pins_on_top_of_each_other_are_gone_round_at_once),
        cmocka_unit_test(bodies_of_many_pieces_are_planned_in_little_time),
        cmocka_unit_test(limits_never_end_above_greedy_by_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
