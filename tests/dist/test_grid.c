/* test_grid.c - ranks by axes: numbers and places, groups, words. */
#include "support.h"

#include <tenure/dist.h>

#include "base/base.h"

static tn_grid grid_of(uint32_t data, uint32_t tensor, uint32_t pipeline) {
    return (tn_grid){.data = data, .tensor = tensor, .pipeline = pipeline, .interleave = 1};
}

static uint32_t along(tn_place place, uint32_t axis) {
    return axis == TN_GRID_TENSOR ? place.tensor
           : axis == TN_GRID_DATA ? place.data
                                  : place.pipeline;
}

/* Whether two ranks are in one group of an axis, by what that means. */
static bool together(const tn_grid *grid, uint32_t axis, uint32_t a, uint32_t b) {
    tn_place x = tn_grid_place(grid, a), y = tn_grid_place(grid, b);
    for (uint32_t other = 0; other < TN_GRID_AXES; other++)
        if (other != axis && along(x, other) != along(y, other)) return false;
    return true;
}

static uint32_t members(const tn_grid *grid, uint32_t axis, uint32_t rank) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < tn_grid_ranks(grid); r++) count += together(grid, axis, rank, r);
    return count;
}

static void a_rank_has_one_place_and_a_group_one_number(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        tn_grid grid = grid_of(1 + i % 4, 1 + i / 4 % 4, 1 + i / 16);
        uint32_t ranks = tn_grid_ranks(&grid), past = tn_grid_group(&grid, TN_GRID_AXES, 0);
        assert_int_equal(ranks, grid.data * grid.tensor * grid.pipeline);
        for (uint32_t a = 0; a < ranks; a++) {
            tn_place at = tn_grid_place(&grid, a);
            assert_int_equal(tn_grid_rank(&grid, at), a);
            assert_true(at.data < grid.data && at.tensor < grid.tensor);
            assert_true(at.pipeline < grid.pipeline);
            for (uint32_t k = 0; k < ranks * TN_GRID_AXES * TN_GRID_AXES; k++) {
                uint32_t b = k / TN_GRID_AXES / TN_GRID_AXES, x = k % TN_GRID_AXES;
                uint32_t y = k / TN_GRID_AXES % TN_GRID_AXES;
                uint32_t one = tn_grid_group(&grid, (tn_grid_axis)x, a);
                uint32_t other = tn_grid_group(&grid, (tn_grid_axis)y, b);
                bool all = members(&grid, x, a) == ranks && members(&grid, y, b) == ranks;
                assert_true(one < past);
                assert_int_equal(one == 0, members(&grid, x, a) == ranks);
                assert_int_equal(one == other, all || (x == y && together(&grid, x, a, b)));
            }
        }
    }
}

static void neighbours_share_a_layer_and_stages_are_far(void **state) {
    (void)state;
    tn_grid grid = grid_of(2, 2, 2);
    for (uint32_t r = 0; r < 8; r++) {
        tn_place at = tn_grid_place(&grid, r);
        assert_int_equal(at.tensor, r & 1);
        assert_int_equal(at.data, r >> 1 & 1);
        assert_int_equal(at.pipeline, r >> 2);
    }
}

/* --- groups --- */

static tn_status sums(void *self, tn_world *world, tn_error *error) {
    const tn_grid *grid = self;
    const tn_exchange *to = tn_world_exchange(world);
    TN_TRY(tn_world_grid(world, grid, error));
    for (uint32_t axis = 0; axis < TN_GRID_AXES; axis++) {
        int64_t sum = INT64_C(1) << to->rank, expected = 0;
        uint32_t group = tn_grid_group(grid, (tn_grid_axis)axis, to->rank), mine = 99;
        for (uint32_t r = 0; r < to->ranks; r++)
            if (together(grid, axis, to->rank, r)) expected += INT64_C(1) << r;
        (void)to->members(to->self, group, &mine);
        if (mine != along(tn_grid_place(grid, to->rank), axis))
            TN_FAIL(error, TN_E_INTERNAL, "member %u", mine);
        TN_TRY(to->reduce(to->self, group, &sum, 1, TN_INT64, TN_REDUCTION_SUM, error));
        if (sum != expected) TN_FAIL(error, TN_E_INTERNAL, "axis %u: %lld", axis, (long long)sum);
    }
    return TN_OK;
}

static tn_status run(tn_grid grid, uint32_t ranks, tn_error *error) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    options.driver = "threads";
    options.ranks = ranks;
    return tn_world_run(&options, sums, &grid, error);
}

static void who_is_in_a_group_adds_up_and_nobody_else(void **state) {
    (void)state;
    tn_error error = {0};
    static const uint32_t sizes[][3] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 2}, {2, 2, 2}, {2, 1, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tn_grid grid = grid_of(sizes[i][0], sizes[i][1], sizes[i][2]);
        if (run(grid, tn_grid_ranks(&grid), &error) != TN_OK) fail_msg("%s", error.message);
    }
    assert_int_equal(run(grid_of(2, 1, 2), 3, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "4 ranks, and there are 3"));
}

/* --- words --- */

static void words_are_read_in_any_order_and_others_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",         "data",           "data=",
                                      "data=0",   "data=x",         "data=2,",
                                      ",data=2",  "data=2 ",        "data=-1",
                                      "layers=2", "data=1048577",   "data=2,data=2",
                                      "data=+1",  "data=1e3",       "data=99999999999999999999",
                                      "Data=2",   "data=2;tensor=2"};
    tn_grid grid = grid_of(9, 9, 9);
    tn_error error = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (tn_grid_parse(bad[i], &grid, &error) != TN_E_INVALID) fail_msg("'%s'", bad[i]);
        assert_int_equal(grid.data, 9);
    }
    assert_int_equal(tn_grid_parse("data=1048576,tensor=1048576,pipeline=1048576", &grid, &error),
                     TN_E_INVALID);
    assert_int_equal(tn_grid_parse("pipeline=4,interleave=2,data=3", &grid, &error), TN_OK);
    assert_true(grid.pipeline == 4 && grid.interleave == 2 && grid.data == 3 && grid.tensor == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_has_one_place_and_a_group_one_number),
        cmocka_unit_test(neighbours_share_a_layer_and_stages_are_far),
        cmocka_unit_test(who_is_in_a_group_adds_up_and_nobody_else),
        cmocka_unit_test(words_are_read_in_any_order_and_others_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
