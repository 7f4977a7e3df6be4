/* test_rate.c - learning rates against closed formulas, and what every schedule promises. */
#include "support.h"

#include <math.h>

#include <tenure/train.h>

#define PI 3.14159265358979323846

static void assert_near(double got, double wanted) {
    if (!(fabs(got - wanted) <= 1e-12 * (1 + fabs(wanted))))
        fail_msg("%.17g instead of %.17g", got, wanted);
}

static double at(tn_schedule schedule, uint64_t warmup, uint64_t total, uint64_t done) {
    return tn_rate_at(&(tn_rate){0.25, schedule, warmup, total}, done);
}

static void rates_are_those_of_the_formulas(void **state) {
    (void)state;
    for (uint64_t total = 1; total < 60; total++)
        for (uint64_t warmup = 0; warmup < total; warmup += 7)
            for (uint64_t done = warmup; done < total; done++) {
                double left = (double)(total - done) / (double)(total - warmup);
                double half_angle = PI / 2 * (1 - left); /* 1 + cos 2a = 2 cos^2 a */
                assert_near(at(TN_SCHEDULE_CONSTANT, warmup, total, done), 0.25);
                assert_near(at(TN_SCHEDULE_LINEAR, warmup, total, done), 0.25 * left);
                assert_near(at(TN_SCHEDULE_COSINE, warmup, total, done),
                            0.25 * cos(half_angle) * cos(half_angle));
            }
}

static void warmup_rises_by_the_same_to_the_rate(void **state) {
    (void)state;
    for (uint32_t schedule = 0; schedule < TN_SCHEDULE_COUNT; schedule++)
        for (uint64_t warmup = 1; warmup < 40; warmup++) {
            for (uint64_t done = 0; done < warmup; done++)
                assert_near(at((tn_schedule)schedule, warmup, 100, done),
                            0.25 * (double)(done + 1) / (double)(warmup + 1));
            assert_near(at((tn_schedule)schedule, warmup, 100, warmup), 0.25);
        }
}

static void no_rate_rises_behind_the_warmup_or_falls_below_zero(void **state) {
    (void)state;
    for (uint32_t schedule = 0; schedule < TN_SCHEDULE_COUNT; schedule++) {
        double before = 0.25;
        for (uint64_t done = 10; done < 500; done++) {
            double now = at((tn_schedule)schedule, 10, 500, done);
            assert_true(now >= 0 && now <= before);
            before = now;
        }
    }
}

static void schedules_are_found_by_their_names(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TN_SCHEDULE_COUNT; i++) {
        assert_int_equal(tn_schedule_find(tn_schedule_name((tn_schedule)i)), i);
        assert_non_null(tn_schedule_summary((tn_schedule)i));
    }
    assert_int_equal(tn_schedule_find("steep"), TN_SCHEDULE_COUNT);
    assert_null(tn_schedule_name(TN_SCHEDULE_COUNT));
    assert_null(tn_schedule_summary(TN_SCHEDULE_COUNT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_the_formulas),
        cmocka_unit_test(warmup_rises_by_the_same_to_the_rate),
        cmocka_unit_test(no_rate_rises_behind_the_warmup_or_falls_below_zero),
        cmocka_unit_test(schedules_are_found_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
