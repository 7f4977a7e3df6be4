/* test_uses.c - tn_plan_uses, judged pair by pair: two tensors that are both live in some step
 * share no byte, and all bytes lie in the arena. */
#include "kit.h"

#include "../count.h"

enum { TENSORS = 12, USES = 40, STEPS = 16 };

static bool is_live(const tn_use *uses, uint32_t count, uint32_t tensor, uint32_t step) {
    bool before = false, after = false;
    for (uint32_t k = 0; k < count; k++)
        if (uses[k].tensor == tensor) {
            before |= uses[k].step <= step;
            after |= uses[k].step >= step;
        }
    return before && after;
}

static void live_tensors_share_no_byte(void **state) {
    (void)state;
    tn__random random = {.state = 20};
    for (uint32_t trial = 0; trial < case_count(500, 20); trial++) {
        uint64_t sizes[TENSORS], offsets[TENSORS], arena = 0;
        tn_use uses[USES];
        for (uint32_t i = 0; i < TENSORS; i++) sizes[i] = kit_below(&random, 1000);
        for (uint32_t k = 0; k < USES; k++)
            uses[k] = (tn_use){(uint32_t)kit_below(&random, STEPS),
                               (uint32_t)kit_below(&random, TENSORS)};
        uint32_t count = 1 + (uint32_t)kit_below(&random, USES);
        assert_ok(tn_plan_uses(sizes, TENSORS, uses, count, NULL, offsets, &arena, &failure));
        for (uint32_t step = 0; step < STEPS; step++) {
            uint64_t live = 0;
            for (uint32_t a = 0; a < TENSORS; a++) {
                if (!is_live(uses, count, a, step)) continue;
                live += sizes[a];
                assert_true(offsets[a] % 64 == 0 && offsets[a] + sizes[a] <= arena);
                for (uint32_t b = 0; b < a; b++)
                    if (is_live(uses, count, b, step))
                        assert_true(offsets[a] + sizes[a] <= offsets[b] ||
                                    offsets[b] + sizes[b] <= offsets[a]);
            }
            assert_true(live <= arena);
        }
    }
}

static void bad_uses_are_refused(void **state) {
    (void)state;
    const uint64_t sizes[] = {64, 64};
    uint64_t offsets[2], arena;
    const tn_use odd[] = {{0, 0}, {1, 2}}, late[] = {{UINT32_MAX, 0}}, both[] = {{0, 0}, {0, 1}};
    assert_int_equal(tn_plan_uses(sizes, 2, odd, 2, NULL, offsets, &arena, &failure), TN_E_INVALID);
    assert_int_equal(tn_plan_uses(sizes, 2, late, 1, NULL, offsets, &arena, &failure),
                     TN_E_INVALID);
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.capacity = 127;
    assert_int_equal(tn_plan_uses(sizes, 2, both, 2, &options, offsets, &arena, &failure),
                     TN_E_INFEASIBLE);
    options.capacity = 128;
    assert_ok(tn_plan_uses(sizes, 2, both, 2, &options, offsets, &arena, &failure));
    assert_int_equal(arena, 128);
    assert_ok(tn_plan_uses(NULL, 0, NULL, 0, NULL, offsets, &arena, &failure));
    assert_int_equal(arena, 0);
}

static void memory_that_runs_out_is_an_error_and_is_given_back(void **state) {
    (void)state;
    const uint64_t sizes[] = {100, 200, 300};
    const tn_use uses[] = {{0, 0}, {1, 0}, {1, 1}, {2, 1}, {2, 2}};
    uint64_t offsets[3], arena;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status == TN_E_NO_MEMORY; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        options.context = &context;
        status = tn_plan_uses(sizes, 3, uses, 5, &options, offsets, &arena, &failure);
        assert_int_equal(memory.held, 0);
    }
    assert_int_equal(status, TN_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_tensors_share_no_byte),
        cmocka_unit_test(bad_uses_are_refused),
        cmocka_unit_test(memory_that_runs_out_is_an_error_and_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
