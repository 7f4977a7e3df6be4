/* test_scale.c - what `scale` is made of: skylines, floors, orders; and plans of thousands. */
#include "kit.h"

#include "bench/kit/generate.h"
#include "plan/drop.h"
#include "plan/recipes.h"
#include "plan/skyline.h"

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
    for (uint64_t seed = 1; seed <= 300; seed++) {
        tn__random random = {.state = seed};
        strip_fill(&all, &random);
        tn__skyline *skyline =
            tn__skyline_create(&context, all.bodies, all.pieces, all.times, all.ids, all.count);
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
    for (uint64_t seed = 1; seed <= 100; seed++) {
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
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tn__random random = {.state = seed};
        uint64_t bound = seed % 2 == 0 ? 50 : UINT64_MAX;
        for (uint32_t i = 0; i < 3000; i++) {
            key[i] = kit_below(&random, bound);
            order[i] = i;
        }
        tn__recipes_sort(key, order, spare, 3000);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_skyline_is_valid_and_leaves_no_body_hanging),
        cmocka_unit_test(a_floor_is_the_highest_top_of_the_steps_asked_for),
        cmocka_unit_test(a_sort_by_key_keeps_equal_keys_in_order),
        cmocka_unit_test(plans_of_a_thousand_with_windows_and_alignments_are_valid),
        cmocka_unit_test(tilings_whose_cuts_share_no_step_are_solved),
        cmocka_unit_test(a_training_trace_is_planned_at_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
