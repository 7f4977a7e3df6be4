/* test_memory.c - training steps in planned memory: bit for bit what they are when every tensor has
 * memory of its own, in every order and pool, with gradients that are summed over micro-batches and
 * updates that come as soon as they can.
 */
#include "steps.h"

static void block(net *n, tn_tensor_id *x, int64_t channels) {
    tn_tensor_id y = net_op(
        n, "Relu",
        NET_LIST(net_batch_norm(n, net_conv(n, *x, channels, channels, 3, 1, false), channels)));
    y = net_batch_norm(n, net_conv(n, y, channels, channels, 3, 1, false), channels);
    *x = net_op(n, "Relu", NET_LIST(net_op(n, "Add", NET_LIST(*x, y))));
}

static void residual(net *n, uint64_t seed) {
    net_open(n, TN_FLOAT32, seed);
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(4, 3, 8, 8));
    x = net_op(n, "Relu", NET_LIST(net_batch_norm(n, net_conv(n, x, 3, 6, 3, 1, false), 6)));
    block(n, &x, 6);
    block(n, &x, 6);
    x = net_op(n, "GlobalAveragePool", NET_LIST(x));
    x = net_op(n, "Flatten", NET_LIST(x));
    net_output(n, net_dense(n, net_op(n, "Relu", NET_LIST(net_dense(n, x, 6, 9))), 9, 5));
}

/* Everything that a run changes, one behind the other. */
typedef struct bits {
    double values[20000];
    size_t count;
} bits;

static void collect_one(steps *s, tn_tensor_id id, bits *to) {
    uint64_t count;
    if (id == TN_NONE) return;
    double *values = steps_static(s, id, &count);
    assert_true(to->count + count < sizeof to->values / sizeof *to->values);
    memcpy(to->values + to->count, values, count * sizeof *values);
    to->count += count;
    free(values);
}

static void train(const tn_train_options *options, const setting *how, uint32_t updates, bits *to) {
    net n;
    steps s;
    residual(&n, 3);
    steps_open(&s, &n, options, how);
    double *labels = steps_draw_labels(&s, 5);
    uint32_t micro = options->micro_batches > 1 ? options->micro_batches : 1;
    to->count = 0;
    for (s.step = 0; s.step < updates; s.step++)
        for (s.micro = 0; s.micro < micro; s.micro++) to->values[to->count++] = steps_run(&s);
    for (uint32_t i = 0; i < s.training.parameter_count; i++) {
        const tn_trained *p = &s.training.parameters[i];
        collect_one(&s, p->parameter, to);
        collect_one(&s, p->state[0], to);
        collect_one(&s, p->state[1], to);
    }
    for (uint32_t i = 0; i < s.training.statistic_count; i++)
        collect_one(&s, s.training.statistics[i], to);
    tn_engine_usage usage;
    tn_engine_measure(s.engine, &usage);
    if (how->pool == NULL) assert_int_equal(usage.measured_peak, usage.planned_peak);
    free(labels);
    steps_close(&s);
    net_close(&n);
}

static void compare(const tn_train_options *options, const setting *how, const bits *expected,
                    const char *what) {
    static bits got;
    train(options, how, 4, &got);
    assert_int_equal(got.count, expected->count);
    for (size_t i = 0; i < got.count; i++)
        if (memcmp(&got.values[i], &expected->values[i], sizeof(double)) != 0)
            fail_msg("%s, optimizer %s, order %s, pool %s: number %zu is %.9g, not %.9g", what,
                     tn_optimizer_name(options->optimizer), how->order ? how->order : "file",
                     how->pool ? how->pool : "none", i, got.values[i], expected->values[i]);
}

static void every_memory_gives_the_same_bits(void **state) {
    (void)state;
    static const setting settings[] = {
        {.poison = true},
        {.order = "memory", .poison = true},
        {.order = "auto", .poison = true},
        {.planner = "greedy-by-size", .poison = true},
        {.statics = TN_STATIC_ARENA, .poison = true},
        {.statics = TN_STATIC_FIRST, .poison = true},
        {.pool = "best-fit", .poison = true},
        {.pool = "bfc"},
    };
    static bits expected;
    for (int k = 0; k < TN_OPTIMIZER_NONE; k++)
        for (uint32_t micro = 1; micro <= 2; micro++) {
            const setting naive = {.naive = true};
            tn_train_options options = TN_TRAIN_OPTIONS_INIT;
            options.optimizer = (tn_optimizer)k;
            options.micro_batches = micro;
            options.weight_decay = 0.01;
            train(&options, &naive, 4, &expected);
            for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
                compare(&options, &settings[i], &expected, "updates at the end");
                options.fuse_update = true;
                compare(&options, &settings[i], &expected, "updates at once");
                setting again = settings[i];
                again.recompute = 1;
                again.cheap = true;
                compare(&options, &again, &expected, "recomputed, updates at once");
                options.fuse_update = false;
                compare(&options, &again, &expected, "recomputed");
            }
        }
}

/* Arena of a graph by the default planner. */
static uint64_t arena(net *n, const tn_train_options *options, double recompute) {
    const setting how = {.recompute = recompute, .cheap = true};
    steps s;
    steps_open(&s, n, options, &how);
    uint64_t peak = tn_setup_layout(s.setup)->peak;
    steps_close(&s);
    return peak;
}

static void frozen_layers_and_recomputation_save_memory(void **state) {
    (void)state;
    static const char *const early[] = {"conv.w", "bn.*"};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    residual(&n, 1);
    uint64_t all = arena(&n, &options, 0);
    options.fuse_update = true;
    uint64_t fused = arena(&n, &options, 0);
    assert_true(fused <= all);
    options.fuse_update = false;
    uint64_t again = arena(&n, &options, 1);
    if (!(4 * again < 3 * all))
        fail_msg("%llu bytes, recomputed %llu", (unsigned long long)all, (unsigned long long)again);
    options.freeze = early;
    options.freeze_count = 2;
    uint64_t frozen = arena(&n, &options, 0);
    assert_true(2 * frozen < all);
    net_close(&n);
}

/* Two halves of a batch in one after the other give the gradients of the whole (without batch
 * normalisation, whose statistics differ). */
static void micro_batches_sum_up_to_the_batch(void **state) {
    (void)state;
    const setting plain = {.poison = true};
    double sums[2][64], losses[2] = {0, 0}, labels[] = {1, 0, 2, 2, 0, 1};
    for (int halves = 0; halves < 2; halves++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        int64_t rows = halves ? 3 : 6;
        net n;
        steps s;
        net_open(&n, TN_FLOAT64, 5);
        tn_tensor_id x = net_input(&n, "x", NET_SHAPE(rows, 4));
        tn_tensor_id w = net_param(&n, "w", 0.5, NET_SHAPE(4, 3));
        tn__random fixed = {.state = 11};
        double whole[24];
        for (int i = 0; i < 24; i++) whole[i] = (double)tn__random_below(&fixed, 100) / 50 - 1;
        for (int i = 0; i < 12; i++) n.contents[w][i] = (double)i / 12 - 0.4;
        net_output(&n, net_op(&n, "MatMul", NET_LIST(x, w)));
        options.micro_batches = halves ? 2 : 1;
        options.optimizer = TN_OPTIMIZER_SGD;
        options.loss_scale = 64;
        steps_open(&s, &n, &options, &plain);
        for (s.micro = 0; s.micro < 1 + halves; s.micro++) {
            memcpy(n.contents[x], whole + s.micro * 12, (size_t)rows * 4 * sizeof(double));
            s.labels = labels + s.micro * 3;
            losses[halves] += steps_run(&s) / (1 + halves);
        }
        uint64_t count;
        double *values = steps_static(&s, w, &count);
        memcpy(sums[halves], values, count * sizeof *values);
        free(values);
        steps_close(&s);
        net_close(&n);
    }
    assert_true(fabs(losses[0] - losses[1]) < 1e-12);
    for (int i = 0; i < 12; i++) assert_true(fabs(sums[0][i] - sums[1][i]) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_memory_gives_the_same_bits),
        cmocka_unit_test(frozen_layers_and_recomputation_save_memory),
        cmocka_unit_test(micro_batches_sum_up_to_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
