/* test_problem.c - what may enter a problem, and the normal form of pieces, cell by cell. */
#include "count.h"
#include "kit.h"

static void each_nonsense_is_refused_with_its_body(void **state) {
    (void)state;
    const tn_body wrong[] = {
        {.name = "x", .size = 8, .first = 3, .last = 3},
        {.name = "x", .size = 8, .first = 4, .last = 3},
        {.name = "x", .size = 8, .last = 1, .alignment = 3},
        {.name = "x", .size = 8, .last = 1, .bank = 1},
        {.name = "x", .size = UINT64_MAX, .last = 1},
        {.name = "x", .size = 8, .last = 1, .alignment = 8, .flags = TN_BODY_PINNED, .offset = 4},
        {.name = "x", .size = 8, .last = 1, .flags = TN_BODY_PINNED, .offset = UINT64_MAX - 4},
        {.name = "x", .size = 8, .pieces = (tn_piece[]){{.last = 1, .hi = 9}}, .piece_count = 1},
        {.name = "x",
         .size = 8,
         .pieces = (tn_piece[]){{.last = 1, .lo = 4, .hi = 4}},
         .piece_count = 1},
        {.name = "x",
         .size = 8,
         .pieces = (tn_piece[]){{.first = 1, .last = 1, .hi = 4}},
         .piece_count = 1},
    };
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tn_body_id id = 77;
        assert_int_equal(tn_problem_add(problem, &wrong[i], &id, &failure), TN_E_INVALID);
        assert_non_null(strstr(failure.where, "'x'"));
        assert_int_equal(id, 77);
    }
    assert_int_equal(tn_problem_count(problem), 0);
    tn_problem_destroy(problem);
}

static void more_bytes_at_once_than_addresses_are_refused(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout = {0};
    uint64_t bound;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (int i = 0; i < 4; i++)
        assert_ok(
            tn_problem_add(problem, &(tn_body){.size = 1ull << 61, .last = 1}, NULL, &failure));
    assert_int_equal(tn_plan(problem, NULL, &layout, &failure), TN_E_INVALID);
    assert_null(layout.offset);
    for (int i = 0; i < 8; i++)
        assert_ok(
            tn_problem_add(problem, &(tn_body){.size = 1ull << 61, .last = 1}, NULL, &failure));
    assert_ok(tn_problem_lower_bound(problem, 0, &bound, NULL, &failure));
    assert_true(bound == UINT64_MAX);
    tn_problem_destroy(problem);
}

static void the_largest_sizes_are_planned(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (int64_t i = 0; i < 3; i++) /* each takes all the addresses, one after the other */
        assert_ok(tn_problem_add(
            problem,
            &(tn_body){.size = INT64_MAX, .first = INT64_MAX - 3 + i, .last = INT64_MAX - 2 + i},
            NULL, &failure));
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_true(layout.peak == INT64_MAX && layout.verdict == TN_VERDICT_OPTIMAL);
    tn_layout_release(&layout);
    assert_true(tn_problem_naive(problem) == UINT64_MAX);
    options.planner = "naive"; /* three times as much is no address */
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_STOPPED);
    assert_non_null(strstr(failure.message, "2^63"));
    tn_problem_destroy(problem);
}

/* Pieces cover exactly the cells (step, byte) that were asked for, none twice, in order. */
static void pieces_become_disjoint_and_cover_the_same_cells(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(3000, 300); seed++) {
        tn__random random = {.state = seed};
        tn_piece pieces[8];
        uint8_t asked[20][20] = {{0}}, covered[20][20] = {{0}};
        uint32_t count = 1 + (uint32_t)kit_below(&random, 8);
        for (uint32_t i = 0; i < count; i++) {
            pieces[i] = kit_piece(&random, 12, 10);
            for (int64_t t = pieces[i].first; t < pieces[i].last; t++)
                for (uint64_t b = pieces[i].lo; b < pieces[i].hi; b++) asked[t + 3][b] = 1;
        }
        tn_problem *problem;
        assert_ok(tn_problem_create(NULL, &problem, &failure));
        tn_body body = {.size = 12, .pieces = pieces, .piece_count = count};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        const tn_body *made = tn_problem_body(problem, 0);
        for (uint32_t i = 0; i < made->piece_count; i++) {
            const tn_piece *piece = &made->pieces[i];
            for (int64_t t = piece->first; t < piece->last; t++)
                for (uint64_t b = piece->lo; b < piece->hi; b++) covered[t + 3][b]++;
            assert_true(i == 0 || piece->first > piece[-1].first ||
                        (piece->first == piece[-1].first && piece->lo > piece[-1].lo));
            assert_true(made->first <= piece->first && piece->last <= made->last);
        }
        if (memcmp(asked, covered, sizeof asked) != 0)
            fail_msg("seed %llu\n", (unsigned long long)seed);
        tn_problem_destroy(problem);
    }
}

/* Level bars crossed by upright ones fall into far more rectangles than there were bars. */
static void bars_that_cross_become_a_grid(void **state) {
    (void)state;
    enum { BARS = 60 };
    tn_piece pieces[2 * BARS];
    for (uint32_t i = 0; i < BARS; i++) {
        pieces[2 * i] = (tn_piece){.first = 0, .last = 1000, .lo = 2 * i, .hi = 2 * i + 1};
        pieces[2 * i + 1] = (tn_piece){.first = 2 * i + 1, .last = 2 * i + 2, .hi = 2 * BARS};
    }
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    tn_body body = {.size = 2 * BARS, .pieces = pieces, .piece_count = 2 * BARS};
    assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    assert_int_equal(tn_problem_body(problem, 0)->piece_count, BARS * (BARS + 1) + BARS);
    tn_problem_destroy(problem);
}

static void pins_that_meet_leave_no_layout(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout = {0};
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint64_t i = 0; i < 3; i++) { /* 0 and 1 touch, 1 and 2 share byte 15 */
        tn_body body = {.size = 8, .last = 2, .flags = TN_BODY_PINNED, .offset = 8 * i - i / 2};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        assert_int_equal(tn_plan(problem, NULL, &layout, &failure),
                         i < 2 ? TN_OK : TN_E_INFEASIBLE);
        if (i < 2) tn_layout_release(&layout);
    }
    assert_null(layout.offset);
    assert_non_null(strstr(failure.message, "body 1 and body 2"));
    assert_non_null(strstr(failure.message, "[15, 16)"));
    tn_problem_destroy(problem);
}

static void a_pinned_body_of_no_bytes_raises_nothing(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    tn_body far = {.last = 2, .flags = TN_BODY_PINNED, .offset = 1000};
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_add(problem, &far, NULL, &failure));
    assert_ok(tn_problem_add(problem, &(tn_body){.size = 8, .last = 2}, NULL, &failure));
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_true(layout.peak == 8 && layout.offset[0] == 1000);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void the_default_alignment_reaches_bodies_that_gave_none(void **state) {
    (void)state;
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_add(problem, &(tn_body){.size = 1, .last = 1}, NULL, &failure));
    assert_ok(
        tn_problem_add(problem, &(tn_body){.size = 1, .last = 1, .alignment = 8}, NULL, &failure));
    assert_ok(tn_problem_set_alignment(problem, 32, &failure));
    assert_int_equal(tn_problem_body(problem, 0)->alignment, 32);
    assert_int_equal(tn_problem_body(problem, 1)->alignment, 8);
    assert_int_equal(tn_problem_naive(problem), 40);
    assert_int_equal(tn_problem_set_alignment(problem, 24, &failure), TN_E_INVALID);
    tn_problem_destroy(problem);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_nonsense_is_refused_with_its_body),
        cmocka_unit_test(more_bytes_at_once_than_addresses_are_refused),
        cmocka_unit_test(the_largest_sizes_are_planned),
        cmocka_unit_test(bars_that_cross_become_a_grid),
        cmocka_unit_test(pins_that_meet_leave_no_layout),
        cmocka_unit_test(a_pinned_body_of_no_bytes_raises_nothing),
        cmocka_unit_test(pieces_become_disjoint_and_cover_the_same_cells),
        cmocka_unit_test(the_default_alignment_reaches_bodies_that_gave_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
