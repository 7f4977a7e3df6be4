/* test_networks.c - networks of the examples, trained by every policy in less memory than they
 * take: the same losses and parameters, bit for bit, never more bytes than the budget, nothing
 * written where nothing lives.
 */
#include "../../examples/eager/networks.h"
#include "../support.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual_cnn_trains), cmocka_unit_test(unet_trains),
        cmocka_unit_test(transformer_trains),  cmocka_unit_test(lstm_trains),
        cmocka_unit_test(tree_lstm_trains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
