/* test_again.c - programs in which operators run again, all that may or so that a step keeps to a
 * budget: the same bits.
 */
#include "drawn.h"

static void who_runs_twice_gives_the_same_bits(void **state) {
    (void)state;
    static left expected, got;
    uint32_t by_other = 0;
    for (uint64_t seed = 1; seed <= 18; seed++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.optimizer = (tn_optimizer)(seed % TN_OPTIMIZER_NONE);
        options.micro_batches = seed % 5 == 0 ? 2 : 1;
        setting how = {.library = seed % 3 != 0,
                       .formats = seed % 4 != 0,
                       .fused = seed / 2 % 2 == 1,
                       .threads = seed % 4 == 1 ? 2 : 1,
                       .poison = seed % 2 == 0,
                       .statics = (tn_static_place)(seed % 3)};
        train(seed, &options, &how, &expected);
        how.twice = true;
        train(seed, &options, &how, &got);
        same(&expected, &got, "run twice", seed);
        by_other += got.by_other;
        how.pool = how.statics == TN_STATIC_APART ? "bfc" : NULL;
        train(seed, &options, &how, &got);
        same(&expected, &got, "run twice, in a pool", seed);
    }
    assert_true(by_other > 18);
}

static void who_keeps_to_a_budget_gives_the_same_bits(void **state) {
    (void)state;
    static const double shares[] = {0.95, 0.9, 0.8, 0.7};
    static left expected, got;
    uint32_t fitted = 0, again = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.optimizer = (tn_optimizer)(seed % TN_OPTIMIZER_NONE);
        options.fuse_update = seed % 2 != 0;
        options.micro_batches = seed % 5 == 0 ? 2 : 1;
        setting how = {.library = seed % 3 != 0,
                       .formats = seed % 4 != 0,
                       .fused = seed / 2 % 2 == 1,
                       .threads = seed % 4 == 1 ? 2 : 1,
                       .poison = seed % 2 == 0,
                       .statics = (tn_static_place)(seed % 3)};
        train(seed, &options, &how, &expected);
        how.fit = shares[seed % 4];
        train(seed, &options, &how, &got);
        same(&expected, &got, "within a budget", seed);
        fitted += got.peak < expected.peak;
        again += got.again > 0;
    }
    if (fitted < 6 || again < 3) fail_msg("of 12 %u fit, %u by running again", fitted, again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_runs_twice_gives_the_same_bits),
        cmocka_unit_test(who_keeps_to_a_budget_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
