/* test_clock.c - clocks of ranks: one that all have is not shifted by anything; others come
 * together within what a message takes. */
#include "support.h"

#include <math.h>

#include "run/dist/world.h"

static double clock_of(void *self) { return tn__clock_s() + *(const double *)self; }

static tn_status one_rank(void *self, tn_world *world, tn_error *error) {
    const double *apart_s = self; /* of the clocks of two ranks that follow each other */
    double own = *apart_s * tn_world_rank(world), shift, real;
    tn_world_rates rates;
    TN_TRY(tn__world_clock(world, clock_of, &own, &shift, error));
    TN_TRY(tn_world_clock(world, &real, error));
    TN_TRY(tn_world_measure_link(world, &rates, error));
    bool right = *apart_s == 0 ? shift == 0 : fabs(shift + own) < 1;
    if (!right || real != 0)
        return tn__fail(error, TN_E_INTERNAL, "rank %u is %g s off, and shifted by %g and %g",
                        tn_world_rank(world), own, shift, real);
    if (!(rates.latency_s >= 0) || !(rates.bytes_per_s >= 0) ||
        (tn_world_ranks(world) == 1) != (rates.latency_s == 0))
        return tn__fail(error, TN_E_INTERNAL, "%g s, %g bytes a second", rates.latency_s,
                        rates.bytes_per_s);
    tn_world_same same[] = {{"rate", 0}, {"latency", 0}};
    memcpy(&same[0].hash, &rates.bytes_per_s, sizeof same[0].hash);
    memcpy(&same[1].hash, &rates.latency_s, sizeof same[1].hash);
    return tn_world_compare(world, same, 2, error);
}

static void clocks_come_together(void **state) {
    (void)state;
    for (uint32_t ranks = 1; ranks <= 5; ranks++)
        for (int way = 0; way < 3; way++) {
            static const double aparts[] = {0, 1e3, -86400.5};
            double apart_s = aparts[way];
            tn_world_options options = TN_WORLD_OPTIONS_INIT;
            tn_error error = {0};
            options.driver = "threads";
            options.ranks = ranks;
            tn_status status = tn_world_run(&options, one_rank, &apart_s, &error);
            if (status != TN_OK) print_error("%u ranks: %s\n", ranks, error.message);
            assert_int_equal(status, TN_OK);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(clocks_come_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
