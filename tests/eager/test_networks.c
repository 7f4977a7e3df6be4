/* test_networks.c - networks of the examples, trained by every policy in less memory than they
 * take: the same losses and parameters, bit for bit, never more bytes than the budget, nothing
 * written where nothing lives.
 */
#include "../../examples/eager/networks.h"
#include "../support.h"

#include <unistd.h>

#define STEPS 3
#define FLOATS 65536u

typedef struct outcome {
    float losses[STEPS];
    float *parameters;
    tn_eager_counts counts;
} outcome;

static void parameters_of(net *n, float *numbers) {
    for (uint32_t i = 0; i < n->parameter_count; i++) {
        tn_eager_about about;
        if (!net_ok(n, tn_eager_describe(n->eager, n->parameters[i], &about, &n->error))) return;
        net_ok(n, tn_eager_get(n->eager, n->parameters[i], numbers, about.bytes, &n->error));
        numbers += about.bytes / sizeof *numbers;
    }
}

static outcome train(const network *which, const char *policy, uint64_t budget) {
    outcome made = {.parameters = calloc(FLOATS, sizeof(float))};
    static net n;
    static network_state state;
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.policy = policy;
    options.budget = budget;
    options.poison = true;
    net_open(&n, &options, 1);
    which->make(&n, &state, 2);
    net_optimizer(&n, TN_OPTIMIZER_SGD);
    for (int s = 0; s < STEPS; s++)
        made.losses[s] = net_train(&n, which->loss(&n, &state), which->rate);
    parameters_of(&n, made.parameters);
    if (n.status == TN_OK) n.status = tn_eager_check(n.eager, &n.error);
    if (n.status != TN_OK)
        fail_msg("%s, %s in %llu bytes: %s: %s", which->name, policy == NULL ? "plain" : policy,
                 (unsigned long long)budget, n.error.where, n.error.message);
    tn_eager_count(n.eager, &made.counts);
    net_close(&n);
    return made;
}

/* By which share of its plain peak every policy gets each network. */
static void trains_the_same_in_less(const char *name, double share) {
    const network *which = networks;
    while (strcmp(which->name, name) != 0) which++;
    outcome want = train(which, NULL, 64 << 20);
    assert_int_equal(want.counts.evict.remade_ops, 0);
    uint64_t budget = (uint64_t)(share * (double)want.counts.evict.peak_bytes);
    for (uint32_t p = 0; p < tn_evict_policy_count(); p++) {
        outcome got = train(which, tn_evict_policy_name(p), budget);
        if (memcmp(got.losses, want.losses, sizeof got.losses) != 0 ||
            memcmp(got.parameters, want.parameters, FLOATS * sizeof(float)) != 0)
            fail_msg("%s by %s in %llu bytes: other bits", name, tn_evict_policy_name(p),
                     (unsigned long long)budget);
        assert_true(got.counts.evict.peak_bytes <= budget);
        assert_true(got.counts.evict.drop_count + got.counts.evict.swap_count > 0);
        printf("%s at %.2f by %s: %llu of %llu bytes, %llu operators and %llu again\n", name, share,
               tn_evict_policy_name(p), (unsigned long long)got.counts.evict.peak_bytes,
               (unsigned long long)budget, (unsigned long long)got.counts.evict.plain_ops,
               (unsigned long long)got.counts.evict.remade_ops);
        free(got.parameters);
    }
    free(want.parameters);
}

static void residual_cnn_trains(void **state) {
    (void)state;
    trains_the_same_in_less("residual_cnn", 0.7);
    trains_the_same_in_less("residual_cnn", 0.35);
}

static void unet_trains(void **state) {
    (void)state;
    trains_the_same_in_less("unet", 0.7);
}

static void transformer_trains(void **state) {
    (void)state;
    trains_the_same_in_less("transformer", 0.7);
    trains_the_same_in_less("transformer", 0.5);
}

static void lstm_trains(void **state) {
    (void)state;
    trains_the_same_in_less("lstm", 0.8);
}

static void tree_lstm_trains(void **state) {
    (void)state;
    trains_the_same_in_less("tree_lstm", 0.7);
    trains_the_same_in_less("tree_lstm", 0.5);
}

/* The log of two steps, read again. */
static tn_evict_log *log_of(const network *which, tn_eager_counts *counts) {
    static net n;
    static network_state state;
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    tn_evict_log *log = NULL;
    char path[] = "/tmp/eager-log-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    options.budget = 64 << 20;
    options.record = true;
    net_open(&n, &options, 1);
    which->make(&n, &state, 2);
    net_optimizer(&n, TN_OPTIMIZER_ADAM);
    for (int s = 0; s < 2; s++) (void)net_train(&n, which->loss(&n, &state), which->rate);
    net_ok(&n, tn_eager_log(n.eager, path, &n.error));
    net_ok(&n, tn_evict_log_load(NULL, path, &log, &n.error));
    tn_eager_count(n.eager, counts);
    if (n.status != TN_OK) fail_msg("%s: %s: %s", which->name, n.error.where, n.error.message);
    net_close(&n);
    remove(path);
    return log;
}

/* As many operators and bytes as the run had, but for places at multiples of 64 and values that
 * were kept as there was room; by bytes alone it ends in that with nothing made again. */
static void a_log_is_the_run(void **state) {
    (void)state;
    for (size_t k = 0; k < NETWORK_COUNT; k++) {
        tn_eager_counts counts;
        tn_evict_log *log = log_of(&networks[k], &counts);
        tn_evict_options options = TN_EVICT_OPTIONS_INIT;
        tn_evict_outcome end;
        tn_error error;
        assert_int_equal(tn_evict_plain_peak(log, &options.budget, &error), TN_OK);
        printf("%s: %llu bytes, the log has %llu\n", networks[k].name,
               (unsigned long long)counts.evict.peak_bytes, (unsigned long long)options.budget);
        assert_true(options.budget <= counts.evict.peak_bytes);
        assert_true((double)options.budget > 0.9 * (double)counts.evict.peak_bytes);
        assert_int_equal(tn_evict_simulate(log, &options, &end, &error), TN_OK);
        assert_int_equal(end.end, TN_EVICT_DONE);
        assert_int_equal(end.counts.remade_ops, 0);
        tn_evict_log_destroy(log);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual_cnn_trains), cmocka_unit_test(unet_trains),
        cmocka_unit_test(transformer_trains),  cmocka_unit_test(lstm_trains),
        cmocka_unit_test(tree_lstm_trains),    cmocka_unit_test(a_log_is_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
