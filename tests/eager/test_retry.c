/* test_retry.c - a command that failed for want of memory has changed nothing: tried again, the
 * run ends with the bits of one that never failed. Every request for memory of the host fails in
 * turn, copies of what was swapped among them; every place of the arena is missing at some budget;
 * the arena itself is missing.
 *
 * The step writes into what lies at fixed places in three ways: running statistics, which the
 * first half of an operator changes before the second asks for room; a parameter and its momentum
 * by the optimizer; a parameter that is set.
 */
#include "kit.h"

#define ROWS 16
#define COLUMNS 16
#define STEPS 2
#define BALLOONS 6u
#define RUNNING 2u /* what BatchNormTrain changes */
#define TRAINED 4u

typedef struct player {
    tn_eager *eager;
    tn_eager_optimizer *optimizer;
    tn_handle trained[TRAINED], running[RUNNING], balloons[BALLOONS];
    tn_handle made[32];
    uint32_t made_count, balloon_count;
    uint64_t failures;
    bool is_over; /* nothing could be given up any more */
} player;

typedef struct outcome {
    float losses[STEPS], trained[TRAINED][COLUMNS * COLUMNS], running[RUNNING][COLUMNS];
} outcome;

/* Whether a command that ended so is to be tried again. */
static bool again(player *p, tn_status status) {
    if (status == TN_OK || p->is_over) return false;
    if (status != TN_E_NO_MEMORY && status != TN_E_EXHAUSTED)
        fail_msg("%s: %s", failure.where, failure.message);
    p->failures++;
    if (status == TN_E_EXHAUSTED) {
        p->is_over = p->balloon_count == 0;
        if (!p->is_over) check(tn_eager_del(p->eager, p->balloons[--p->balloon_count], &failure));
    }
    if (p->eager != NULL) {
        tn_error broken;
        if (tn_eager_check(p->eager, &broken) != TN_OK) fail_msg("%s", broken.message);
    }
    return !p->is_over;
}
#define RETRY(p, call)                                                                             \
    do {                                                                                           \
        if ((p)->is_over) break;                                                                   \
    } while (again(p, call))

static tn_handle put(player *p, tn_kind kind, uint64_t seed, uint32_t rank, const int64_t *shape) {
    float numbers[COLUMNS * COLUMNS];
    tn_handle handle = TN_HANDLE_NONE;
    tn__random random = {.state = seed};
    for (uint32_t i = 0; i < COLUMNS * COLUMNS; i++)
        numbers[i] = (float)tn__random_below(&random, 2001) / 2000 - 0.5f;
    const tn_eager_data data = {
        .dtype = TN_FLOAT32, .kind = kind, .rank = rank, .shape = shape, .data = numbers};
    RETRY(p, tn_eager_put(p->eager, &data, &handle, &failure));
    return handle;
}

static tn_handle kept(player *p, tn_handle handle) { return p->made[p->made_count++] = handle; }

static void forget(player *p) {
    while (p->made_count > 0) check(tn_eager_del(p->eager, p->made[--p->made_count], &failure));
}

static tn_handle op(player *p, const char *type, uint32_t count, const tn_handle *inputs,
                    uint32_t output_count) {
    const bool own = type[0] == '.';
    tn_handle outputs[5] = {TN_HANDLE_NONE};
    const tn_eager_call call = {.type = type + own,
                                .domain = own ? "tenure" : "",
                                .inputs = inputs,
                                .input_count = count,
                                .output_count = output_count};
    RETRY(p, tn_eager_apply(p->eager, &call, outputs, &failure));
    for (uint32_t k = 1; k < output_count; k++)
        if (!p->is_over) check(tn_eager_del(p->eager, outputs[k], &failure));
    return kept(p, outputs[0]);
}

static void get(player *p, tn_handle handle, float *numbers, uint64_t count) {
    RETRY(p, tn_eager_get(p->eager, handle, numbers, count * sizeof *numbers, &failure));
}

static tn_handle forward(player *p, tn_handle x, tn_handle y, tn_handle noise) {
    tn_handle h = op(p, "MatMul", LIST(x, p->trained[0]), 1);
    for (uint32_t l = 0; l < 3; l++) {
        h = op(p, ".BatchNormTrain",
               LIST(h, p->trained[1], p->trained[2], p->running[0], p->running[1]), 5);
        h = op(p, "Mul", LIST(h, noise), 1);
        h = op(p, "Tanh", LIST(h), 1);
        h = op(p, "MatMul", LIST(h, p->trained[3]), 1);
    }
    return op(p, ".MeanSquared", LIST(h, y), 1);
}

/* A tape that fails is empty, so the step begins anew, with the statistics that it found. */
static void step(player *p, float *loss, uint64_t seed) {
    float running[RUNNING][COLUMNS];
    tn_handle gradients[TRAINED] = {TN_HANDLE_NONE}, x, y, noise;
    x = put(p, TN_KIND_INPUT, seed, SHAPE(ROWS, COLUMNS));
    y = put(p, TN_KIND_INPUT, seed + 1, SHAPE(ROWS, COLUMNS));
    noise = op(p, "RandomUniformLike", LIST(x), 1);
    p->made_count--;
    for (uint32_t i = 0; i < RUNNING; i++) get(p, p->running[i], running[i], COLUMNS);
    for (tn_status status = TN_E_NO_MEMORY; status != TN_OK && !p->is_over;) {
        tn_handle found = forward(p, x, y, noise);
        get(p, found, loss, 1);
        if (p->is_over) break;
        status = tn_eager_backward(p->eager, found, p->trained, TRAINED, gradients, &failure);
        forget(p);
        bool anew = again(p, status);
        for (uint32_t i = 0; anew && i < RUNNING; i++)
            RETRY(p,
                  tn_eager_set(p->eager, p->running[i], running[i], sizeof running[i], &failure));
    }
    forget(p);
    kept(p, x), kept(p, y), kept(p, noise);
    RETRY(p, tn_eager_optimizer_step(p->optimizer, gradients, 0.1, &failure));
    forget(p);
}

static void begin(player *p, const tn_eager_options *options) {
    RETRY(p, tn_eager_create(options, &p->eager, &failure));
    for (uint32_t i = 0; i < RUNNING; i++)
        p->running[i] = put(p, TN_KIND_OPTIMIZER_STATE, 90 + i, SHAPE(COLUMNS));
    p->trained[0] = put(p, TN_KIND_PARAMETER, 1, SHAPE(COLUMNS, COLUMNS));
    p->trained[1] = put(p, TN_KIND_PARAMETER, 2, SHAPE(COLUMNS));
    p->trained[2] = put(p, TN_KIND_PARAMETER, 3, SHAPE(COLUMNS));
    p->trained[3] = put(p, TN_KIND_PARAMETER, 4, SHAPE(COLUMNS, COLUMNS));
    for (uint32_t i = 0; i < BALLOONS && !p->is_over; i++) {
        tn_handle balloon = put(p, TN_KIND_INPUT, 5, SHAPE(COLUMNS, COLUMNS));
        p->balloons[p->balloon_count++] = balloon;
    }
    tn_eager_optimizer_options momentum = TN_EAGER_OPTIMIZER_OPTIONS_INIT;
    momentum.optimizer = TN_OPTIMIZER_MOMENTUM;
    RETRY(p, tn_eager_optimizer_create(p->eager, &momentum, p->trained, TRAINED, &p->optimizer,
                                       &failure));
}

static uint64_t copies; /* to the host, in all runs */

typedef struct decider {
    const char *policy;
    double link; /* to the host, bytes a second; 0: there is none */
} decider;
static const decider deciders[] = {{"live", 0}, {"dtr", 0}, {"hybrid", 1e11}};
#define DECIDERS (sizeof deciders / sizeof *deciders)

static tn_device *open_device(uint64_t capacity, double link) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device;
    options.capacity = capacity;
    options.link_bytes_per_s = link;
    check(tn_device_create(&options, &device, &failure));
    return device;
}

static uint64_t allocated(tn_device *device) {
    tn_device_usage usage;
    tn_device_measure(device, &usage);
    return usage.allocated;
}

/* True: the run came to its end. */
static bool run(const tn_context *context, const decider *by, uint64_t budget, outcome *made,
                uint64_t *failures) {
    player p = {0};
    const float shift[COLUMNS] = {0.25f};
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.context = context;
    options.policy = by->policy;
    options.budget = budget;
    options.device = by->link > 0 ? open_device(0, by->link) : NULL;
    options.plain = options.poison = options.model_costs = options.record = true;
    memset(made, 0, sizeof *made);
    begin(&p, &options);
    for (uint32_t s = 0; s < STEPS && !p.is_over; s++) step(&p, &made->losses[s], 10 + 2 * s);
    RETRY(&p, tn_eager_set(p.eager, p.trained[2], shift, sizeof shift, &failure));
    for (uint32_t i = 0; i < TRAINED; i++)
        get(&p, p.trained[i], made->trained[i], i % 3 == 0 ? COLUMNS * COLUMNS : COLUMNS);
    for (uint32_t i = 0; i < RUNNING; i++) get(&p, p.running[i], made->running[i], COLUMNS);
    *failures += p.failures;
    tn_eager_optimizer_destroy(p.optimizer);
    if (p.eager != NULL) copies += kit_count(p.eager).evict.swap_count;
    tn_eager_destroy(p.eager);
    if (options.device != NULL) assert_int_equal(allocated(options.device), 0);
    tn_device_destroy(options.device);
    return !p.is_over;
}

static void compare(const outcome *got, const outcome *want, const decider *by, uint64_t number) {
    if (memcmp(got, want, sizeof *got) != 0)
        fail_msg("%s%s, %llu: other bits", by->policy, by->link > 0 ? " with a link" : "",
                 (unsigned long long)number);
}

static void every_request_may_fail_and_be_made_again(void **state) {
    (void)state;
    outcome want, got;
    uint64_t none = 0, failures = 0;
    assert_true(run(NULL, deciders, 1 << 20, &want, &none));
    assert_int_equal(none, 0);
    for (size_t p = 0; p < DECIDERS; p++)
        for (uint64_t fail_at = 1, requests = fail_at; fail_at <= requests; fail_at++) {
            faulty memory = {.fail_at = fail_at};
            tn_context context = faulty_context(&memory);
            assert_true(run(&context, &deciders[p], 24 << 10, &got, &failures));
            compare(&got, &want, &deciders[p], fail_at);
            assert_int_equal(memory.held, 0);
            requests = memory.requests;
        }
    printf("%llu failures, %llu copies\n", (unsigned long long)failures,
           (unsigned long long)copies);
    assert_true(failures > 500 && copies > 500);
}

/* Balloons are given up one by one where there is no room. */
static void every_place_may_be_missing(void **state) {
    (void)state;
    outcome want, got;
    uint64_t none = 0, failures = 0, done = 0, runs = 0;
    assert_true(run(NULL, deciders, 1 << 20, &want, &none));
    for (size_t p = 0; p < DECIDERS; p++)
        for (uint64_t budget = 6 << 10; budget < 24 << 10; budget += 192, runs++) {
            bool is_done = run(NULL, &deciders[p], budget, &got, &failures);
            if (is_done) compare(&got, &want, &deciders[p], budget);
            done += is_done;
        }
    printf("%llu failures, %llu runs of %llu done\n", (unsigned long long)failures,
           (unsigned long long)done, (unsigned long long)runs);
    assert_true(failures > 500 && done > runs / 2);
}

/* The arena is the only block that is asked of a device. */
static void the_arena_may_be_missing(void **state) {
    (void)state;
    outcome want, got;
    uint64_t none = 0;
    assert_true(run(NULL, deciders, 1 << 20, &want, &none));
    tn_device *device = open_device(1 << 20, 0);
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    tn_address other;
    check(tn_device_alloc(device, 1000 << 10, &other, &failure));
    for (uint64_t budget = 64; budget <= 1 << 20; budget += 8 << 10) {
        faulty memory = {0};
        const tn_context context = faulty_context(&memory);
        tn_eager *eager = NULL;
        options.context = &context;
        options.device = device;
        options.budget = budget;
        tn_status status = tn_eager_create(&options, &eager, &failure);
        assert_int_equal(status, budget <= 24 << 10 ? TN_OK : TN_E_EXHAUSTED);
        assert_true((eager != NULL) == (status == TN_OK));
        tn_eager_destroy(eager);
        assert_int_equal(memory.held, 0);
        assert_int_equal(allocated(device), 1000 << 10);
    }
    tn_device_free(device, other);
    tn_device_destroy(device);
    options = (tn_eager_options)TN_EAGER_OPTIONS_INIT;
    options.budget = UINT64_C(1) << 60; /* more than any machine maps */
    tn_eager *eager = NULL;
    tn_status status = tn_eager_create(&options, &eager, &failure);
    assert_true(status == TN_E_EXHAUSTED || status == TN_E_NO_MEMORY);
    assert_null(eager);
    assert_true(run(NULL, deciders, 24 << 10, &got, &none)); /* nothing of it is left */
    compare(&got, &want, deciders, 24 << 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_may_fail_and_be_made_again),
        cmocka_unit_test(every_place_may_be_missing),
        cmocka_unit_test(the_arena_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
