/* test_networks.c - networks of the examples, trained by every policy in less memory than they
 * take: the same losses and parameters, bit for bit, never more bytes than the budget, nothing
 * written where nothing lives.
 */
#include "../../examples/eager/networks.h"
#include "../support.h"

#include <unistd.h>

#define STEPS 2
#define FLOATS 65536u

typedef struct outcome {
    float losses[STEPS];
    float *parameters;
    tn_eager_counts counts;
    char bound_by[64];
} outcome;

static void parameters_of(net *n, float *numbers) {
    for (uint32_t i = 0; i < n->parameter_count; i++) {
        tn_eager_about about;
        if (!net_ok(n, tn_eager_describe(n->eager, n->parameters[i], &about, &n->error))) return;
        net_ok(n, tn_eager_get(n->eager, n->parameters[i], numbers, about.bytes, &n->error));
        numbers += about.bytes / sizeof *numbers;
    }
}

/* Trains by a policy, or plainly. False: the budget is full, which is told. */
static bool train(const network *which, const char *policy, uint64_t budget, outcome *made,
                  tn_evict_least *least) {
    static net n;
    static network_state state;
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.policy = policy;
    options.budget = budget;
    options.poison = options.model_costs = true;
    options.find_least = least != NULL;
    *made = (outcome){.parameters = calloc(FLOATS, sizeof(float))};
    net_open(&n, &options, 1);
    which->make(&n, &state, 2);
    net_optimizer(&n, TN_OPTIMIZER_SGD);
    for (int s = 0; s < STEPS; s++)
        made->losses[s] = net_train(&n, which->loss(&n, &state), which->rate);
    bool is_full = n.status == TN_E_EXHAUSTED;
    if (is_full) n.status = TN_OK;
    if (!is_full) parameters_of(&n, made->parameters);
    if (n.status == TN_OK) n.status = tn_eager_check(n.eager, &n.error);
    if (n.status != TN_OK)
        fail_msg("%s, %s in %llu bytes: %s: %s", which->name, policy == NULL ? "plain" : policy,
                 (unsigned long long)budget, n.error.where, n.error.message);
    tn_eager_count(n.eager, &made->counts);
    if (least != NULL) {
        tn_eager_least(n.eager, least); /* its name lives as long as the interpreter */
        snprintf(made->bound_by, sizeof made->bound_by, "%s", least->name);
        least->name = made->bound_by;
    }
    net_close(&n);
    assert_true(made->counts.evict.peak_bytes <= budget);
    return !is_full;
}

static void compare(const network *which, const char *policy, const outcome *got,
                    const outcome *want) {
    if (memcmp(got->losses, want->losses, sizeof got->losses) != 0 ||
        memcmp(got->parameters, want->parameters, FLOATS * sizeof(float)) != 0)
        fail_msg("%s by %s: other bits", which->name, policy);
}

/* Every policy in a share of the plain peak (in half and less those that do not take minutes): the
 * same bits, or the budget is full; it always is below what no budget can do without, and never is
 * for our own policy down to `done`. */
static void trains_in(const network *which, double share, double done, const outcome *want,
                      const tn_evict_least *least) {
    uint64_t budget = (uint64_t)(share * (double)want->counts.evict.peak_bytes);
    printf("%s at %.2f:", which->name, share);
    for (uint32_t p = 0; p < tn_evict_policy_count(); p++) {
        const char *policy = tn_evict_policy_name(p);
        outcome got;
        if (share < 0.6 && strcmp(policy, "live") != 0 && strcmp(policy, "hybrid") != 0) continue;
        bool fits = train(which, policy, budget, &got, NULL);
        if (fits) compare(which, policy, &got, want);
        assert_true(!fits || budget >= least->bytes);
        if (strcmp(policy, "live") == 0 && share >= done) assert_true(fits);
        printf(fits ? " %s %.2f" : " %s full", policy,
               (double)got.counts.evict.remade_ops / (double)got.counts.evict.plain_ops);
        free(got.parameters);
    }
    printf(" operators again\n");
}

static void trains(const char *name, double done) {
    static const double shares[] = {1.0, 0.7, 0.5, 0.35};
    const network *which = networks;
    while (strcmp(which->name, name) != 0) which++;
    outcome want;
    tn_evict_least least;
    assert_true(train(which, NULL, 64 << 20, &want, &least));
    assert_int_equal(want.counts.evict.remade_ops, 0);
    uint64_t peak = want.counts.evict.peak_bytes;
    printf(
        "%s takes %llu bytes, and cannot do in less than %.3f of that: %llu at fixed places, %llu "
        "that nothing makes again, %llu for %s\n",
        name, (unsigned long long)peak, (double)least.bytes / (double)peak,
        (unsigned long long)least.pinned, (unsigned long long)least.held,
        (unsigned long long)least.working, least.name);
    assert_int_equal(least.bytes, least.pinned + least.held + least.working);
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++)
        trains_in(which, shares[s], done, &want, &least);
    free(want.parameters);
}

static void residual_cnn_trains(void **state) {
    (void)state;
    trains("residual_cnn", 0.35);
}

static void unet_trains(void **state) {
    (void)state;
    trains("unet", 0.5); /* 0.35 is below what it can do in */
}

static void transformer_trains(void **state) {
    (void)state;
    trains("transformer", 0.35);
}

static void lstm_trains(void **state) {
    (void)state;
    trains("lstm", 0.35);
}

static void tree_lstm_trains(void **state) {
    (void)state;
    trains("tree_lstm", 0.35);
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
