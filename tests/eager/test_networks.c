/* test_networks.c - networks of the examples, trained by every policy in less memory than they
 * take: the same losses and parameters, bit for bit, never more bytes than the budget, nothing
 * written where nothing lives.
 *
 *     build/tests/test_eager_networks SECONDS [SIZE]   by hand: all policies at all shares, each
 *                                                      for so long at most
 */
#include <tenure/eager.h>
#include "../../examples/eager/networks.h"
#include "../support.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 2
#define FLOATS 65536u
#define USUAL_SIZE 2

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

/* Who decides what goes, and over which link copies go to the host. */
typedef struct decider {
    const char *policy; /* NULL: nothing has to go */
    double link;        /* bytes a second; 0: there is none */
} decider;

static int64_t size = USUAL_SIZE;
static unsigned seconds; /* by hand: of a run; else 0, and those that take minutes are left out */

static tn_device *open_device(decider by) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device;
    tn_error error;
    options.link_bytes_per_s = by.link;
    assert_int_equal(tn_device_create(&options, &device, &error), TN_OK);
    return device;
}

/* Trains within a budget. False: that is full, which is told. */
static bool train(const network *which, decider by, uint64_t budget, outcome *made,
                  tn_evict_least *least) {
    static net n;
    static network_state state;
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.policy = by.policy;
    options.budget = budget;
    options.poison = options.model_costs = true;
    options.find_least = least != NULL;
    options.device = open_device(by);
    *made = (outcome){.parameters = calloc(FLOATS, sizeof(float))};
    net_open(&n, &options, 1);
    which->make(&n, &state, size);
    net_optimizer(&n, TN_OPTIMIZER_SGD);
    for (int s = 0; s < STEPS; s++)
        made->losses[s] = net_train(&n, which->loss(&n, &state), which->rate);
    bool is_full = n.status == TN_E_EXHAUSTED;
    if (is_full) n.status = TN_OK;
    if (!is_full) parameters_of(&n, made->parameters);
    if (n.status == TN_OK) n.status = tn_eager_check(n.eager, &n.error);
    if (n.status != TN_OK)
        fail_msg("%s, %s in %llu bytes: %s: %s", which->name,
                 by.policy == NULL ? "plain" : by.policy, (unsigned long long)budget, n.error.where,
                 n.error.message);
    tn_eager_count(n.eager, &made->counts);
    if (least != NULL) {
        tn_eager_least(n.eager, least); /* its name lives as long as the interpreter */
        snprintf(made->bound_by, sizeof made->bound_by, "%s", least->name);
        least->name = made->bound_by;
    }
    net_close(&n);
    tn_device_destroy(options.device);
    assert_true(made->counts.evict.peak_bytes <= budget);
    return !is_full;
}

static void compare(const network *which, const char *policy, const outcome *got,
                    const outcome *want) {
    if (memcmp(got->losses, want->losses, sizeof got->losses) != 0 ||
        memcmp(got->parameters, want->parameters, FLOATS * sizeof(float)) != 0)
        fail_msg("%s by %s: other bits", which->name, policy);
}

typedef struct wanted { /* of a network in all the memory that it takes */
    const network *which;
    outcome plain;
    tn_evict_least least;
    double done; /* our own policy gets to the end down to this share, at the usual size */
} wanted;

/* The same bits, or the budget is full; it always is below what no budget can do without. */
static void trains_by(const wanted *want, decider by, double share) {
    uint64_t budget = (uint64_t)(share * (double)want->plain.counts.evict.peak_bytes);
    outcome got;
    bool fits = train(want->which, by, budget, &got, NULL);
    const tn_evict_counts *counts = &got.counts.evict;
    if (fits) compare(want->which, by.policy, &got, &want->plain);
    assert_true(!fits || budget >= want->least.bytes || counts->swap_count > 0);
    bool is_known = size == USUAL_SIZE && strcmp(by.policy, "live") == 0;
    if (is_known && share >= want->done) assert_true(fits);
    printf(fits ? " %s%s %.2f" : " %s%s full", by.policy, by.link > 0 ? " with a link" : "",
           (double)counts->remade_ops / (double)counts->plain_ops);
    if (by.link > 0) printf(" and %llu copies", (unsigned long long)counts->swap_count);
    if (by.link > 0 && share < 0.6 && fits) assert_true(counts->swap_count > 0);
    free(got.parameters);
}

/* In a child, which is ended when it takes too long. */
static void trains_limited(const wanted *want, decider by, double share) {
    fflush(stdout);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {seconds, seconds + 1};
        if (setrlimit(RLIMIT_CPU, &limit) != 0) abort();
        trains_by(want, by, share);
        fflush(stdout);
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
        printf(" %s%s more than %u s", by.policy, by.link > 0 ? " with a link" : "", seconds);
    else
        assert_int_equal(status, 0);
}

/* Every policy in a share of the plain peak: in half and less those that do not take minutes. */
static void trains_in(const wanted *want, double share) {
    printf("%s at %.2f:", want->which->name, share);
    for (uint32_t p = 0; p <= tn_evict_policy_count(); p++) {
        decider by = {.policy = "hybrid", .link = 2e9};
        if (p < tn_evict_policy_count()) by = (decider){.policy = tn_evict_policy_name(p)};
        bool is_quick = strcmp(by.policy, "live") == 0 || strcmp(by.policy, "hybrid") == 0;
        if (seconds > 0)
            trains_limited(want, by, share);
        else if (by.link > 0 ? share == 0.5 : share > 0.6 || is_quick)
            trains_by(want, by, share);
    }
    printf(" operators again\n");
}

static void trains(const char *name, double done) {
    static const double shares[] = {1.0, 0.7, 0.5, 0.35};
    wanted want = {.which = networks, .done = done};
    while (strcmp(want.which->name, name) != 0) want.which++;
    assert_true(train(want.which, (decider){0}, (uint64_t)size << 25, &want.plain, &want.least));
    assert_int_equal(want.plain.counts.evict.remade_ops, 0);
    uint64_t peak = want.plain.counts.evict.peak_bytes;
    const tn_evict_least *least = &want.least;
    printf(
        "%s takes %llu bytes, and cannot do in less than %.3f of that: %llu at fixed places, %llu "
        "that nothing makes again, %llu for %s\n",
        name, (unsigned long long)peak, (double)least->bytes / (double)peak,
        (unsigned long long)least->pinned, (unsigned long long)least->held,
        (unsigned long long)least->working, least->name);
    assert_int_equal(least->bytes, least->pinned + least->held + least->working);
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) trains_in(&want, shares[s]);
    free(want.plain.parameters);
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

int main(int count, char **words) {
    if (count > 1) seconds = (unsigned)atoi(words[1]);
    if (count > 2) size = atoi(words[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual_cnn_trains), cmocka_unit_test(unet_trains),
        cmocka_unit_test(transformer_trains),  cmocka_unit_test(lstm_trains),
        cmocka_unit_test(tree_lstm_trains),    cmocka_unit_test(a_log_is_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
