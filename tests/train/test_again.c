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

/* A chain of normalisations is small when they run again. */
static void running_out_of_memory_while_fitting_leaves_nothing(void **state) {
    (void)state;
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_setup_options how = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    tn_costs_model model = {sizeof model, NULL, 80e9, 10e9};
    tn_setup *base = NULL, *fitted = NULL;
    tn_costs *costs = NULL;
    tn_training training;
    tn_error error;
    net n;
    net_open(&n, TN_FLOAT32, 5);
    tn_tensor_id x = net_conv(&n, net_input(&n, "x", NET_SHAPE(2, 2, 6, 6)), 2, 4, 3, 1, true);
    for (int i = 0; i < 3; i++) x = net_op(&n, "Relu", NET_LIST(net_batch_norm(&n, x, 4)));
    x = net_op(&n, "Flatten", NET_LIST(net_op(&n, "GlobalAveragePool", NET_LIST(x))));
    net_output(&n, net_dense(&n, x, 4, 3));
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_OK);
    kernels.plain = true;
    how.context = &context;
    how.kernels = &kernels;
    how.fit = &fit;
    assert_int_equal(tn_setup_create(training.graph, &how, &base, &error), TN_OK);
    assert_int_equal(tn_costs_create_model(training.graph, &model, &costs, &error), TN_OK);
    how.costs = costs;
    fit.budget = tn_setup_need(base).total - 1;
    fit.work_limit = 20000;
    size_t held = memory.held;
    tn_status status = TN_E_NO_MEMORY;
    uint32_t failures = 0;
    for (uint64_t at = 1; status != TN_OK; at += 1 + at / 16) {
        memory.requests = 0;
        memory.fail_at = at;
        status = tn_setup_from(base, TN_SETUP_FIT, &how, &fitted, &error);
        memory.fail_at = 0;
        if (status == TN_OK) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(memory.held, held);
        failures++;
    }
    assert_true(failures > 20);
    assert_non_null(tn_setup_fitted(fitted));
    tn_setup_destroy(base);
    tn_setup_destroy(fitted);
    assert_int_equal(memory.held, 0);
    tn_costs_destroy(costs);
    tn_training_release(&training);
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_runs_twice_gives_the_same_bits),
        cmocka_unit_test(who_keeps_to_a_budget_gives_the_same_bits),
        cmocka_unit_test(running_out_of_memory_while_fitting_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
