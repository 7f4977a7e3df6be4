/* test_bound.c - lower bounds are never above what trying everything finds, for works of all shapes
 * and with all that a job may ask for; where there is room for everything they say nothing. */
#include "count.h"
#include "kit_judge.h"

#include "fit/budget/bound.h"

static uint64_t bound_peak(kit *k) {
    tn__schedule schedule;
    tn__schedule_init(&schedule, &k->context);
    for (uint32_t j = 0; j < k->dag.job_count; j++)
        assert_ok(tn__schedule_add(&schedule, (tn__action){.kind = TN__RUN, .what = j}, &failure));
    uint64_t peak = kit_judge(&k->dag, &schedule).peak;
    tn__schedule_release(&schedule);
    return peak;
}

typedef struct bound_sums {
    uint32_t cases, extra, tight, proved, infeasible;
} bound_sums;

static void check_bound(kit *k, uint64_t seed, uint64_t budget, uint32_t allow, bound_sums *sums) {
    const tn_pass ordering = {.features = TN__PASS_RECOMPUTES | TN__PASS_ORDERS};
    tn__pass_run run;
    tn__arena arena;
    kit_run_begin(&run, &arena, k, &ordering, budget, allow);
    tn_status status = tn__bound_raise(&run, UINT32_MAX);
    uint64_t optimum = kit_optimum(&k->dag, budget, (run.allow & TN__ALLOW_ORDER) != 0);
    bool infeasible = status == TN_E_INFEASIBLE;
    if (run.bound > optimum || (infeasible && optimum != UINT64_MAX) ||
        (!infeasible && status != TN_OK))
        fail_msg("seed %" PRIu64 ", budget %" PRIu64 ": status %d, bound %" PRIu64
                 " above the optimum %" PRIu64 "\n",
                 seed, budget, status, run.bound, optimum);
    if (run.least_bytes > 0 && run.least_bytes <= budget)
        assert_true(kit_optimum(&k->dag, run.least_bytes - 1, true) == UINT64_MAX);
    bool has_extra = optimum != UINT64_MAX && optimum > k->dag.cost;
    sums->cases++;
    sums->extra += has_extra;
    sums->tight += has_extra && run.bound == optimum;
    sums->infeasible += optimum == UINT64_MAX;
    sums->proved += infeasible;
    kit_run_end(&run);
}

static void bounds_are_never_above_the_optimum(void **state) {
    (void)state;
    bound_sums sums = {0};
    for (uint64_t seed = 1; seed <= case_count(1200, 120); seed++) {
        kit *k = seed % 2 == 0 ? kit_random_nodes(seed, 9) : kit_random_spiced(seed, 7);
        kit_finish(k, seed);
        uint64_t peak = bound_peak(k);
        for (uint64_t part = 9; part <= 12 && kit_is_tiny(&k->dag); part++)
            check_bound(k, seed, peak * part / 13,
                        TN__ALLOW_RECOMPUTE | (part % 2 == 0 ? TN__ALLOW_ORDER : 0), &sums);
        kit_free(k);
    }
    print_message("%u cases: %u take more time than once each, the bound is that of %u; %u are "
                  "infeasible, %u by the bound\n",
                  sums.cases, sums.extra, sums.tight, sums.infeasible, sums.proved);
    assert_true(sums.tight > sums.extra / 4 && sums.proved > 0);
}

static void a_budget_for_everything_has_no_extra_time(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const tn_pass ordering = {.features = TN__PASS_RECOMPUTES};
        tn__pass_run run;
        tn__arena arena;
        kit *k = kit_random_spiced(seed, 30);
        kit_finish(k, seed);
        kit_run_begin(&run, &arena, k, &ordering, bound_peak(k), TN__ALLOW_RECOMPUTE);
        assert_ok(tn__bound_raise(&run, UINT32_MAX));
        assert_int_equal(run.bound, k->dag.cost);
        kit_run_end(&run);
        kit_free(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_never_above_the_optimum),
        cmocka_unit_test(a_budget_for_everything_has_no_extra_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
