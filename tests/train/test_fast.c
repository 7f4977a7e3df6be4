/* test_fast.c - training with oneDNN and with channels last: what plain loops compute on the order
 * of the file, within rounding; and the same bits in planned memory as in memory of its own.
 */
#include "steps.h"

static void layer(net *n, tn_tensor_id *x, int64_t in, int64_t out) {
    tn_tensor_id y = net_conv(n, *x, in, out, 3, 1, true);
    *x = net_op(n, "Relu", NET_LIST(net_batch_norm(n, y, out)));
}

static tn_tensor_id pool(net *n, const char *type, tn_tensor_id x) {
    static const int64_t kernel[] = {3, 3}, strides[] = {2, 2}, pads[] = {1, 1, 1, 1};
    net_attr_ints(n, "kernel_shape", 2, kernel);
    net_attr_ints(n, "strides", 2, strides);
    net_attr_ints(n, "pads", 4, pads);
    return net_op(n, type, NET_LIST(x));
}

/* Residual blocks with pools and a stride, convolutions with and without bias. */
static void residual(net *n, uint64_t seed) {
    net_open(n, TN_FLOAT32, seed);
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(4, 3, 12, 12));
    layer(n, &x, 3, 16);
    x = pool(n, "MaxPool", x);
    tn_tensor_id y = x;
    layer(n, &y, 16, 16);
    y = net_batch_norm(n, net_conv(n, y, 16, 16, 3, 1, false), 16);
    x = net_op(n, "Relu", NET_LIST(net_op(n, "Add", NET_LIST(x, y))));
    x = pool(n, "AveragePool", x);
    x = net_op(n, "GlobalAveragePool", NET_LIST(x));
    x = net_op(n, "Flatten", NET_LIST(x));
    net_output(n, net_dense(n, net_op(n, "Relu", NET_LIST(net_dense(n, x, 16, 9))), 9, 5));
}

typedef struct values { /* losses, then all that stays between steps */
    double numbers[20000];
    size_t count;
    uint32_t reorders;
} values;

static void keep(steps *s, tn_tensor_id id, values *to) {
    uint64_t count;
    if (id == TN_NONE) return;
    double *numbers = steps_static(s, id, &count);
    assert_true(to->count + count < sizeof to->numbers / sizeof *to->numbers);
    memcpy(to->numbers + to->count, numbers, count * sizeof *numbers);
    to->count += count;
    free(numbers);
}

static void train(const setting *how, values *to) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    steps s;
    options.optimizer = TN_OPTIMIZER_MOMENTUM;
    options.fuse_update = true;
    residual(&n, 7);
    steps_open(&s, &n, &options, how);
    double *labels = steps_draw_labels(&s, 5);
    *to = (values){0};
    for (s.step = 0; s.step < 4; s.step++) to->numbers[to->count++] = steps_run(&s);
    for (uint32_t i = 0; i < s.training.parameter_count; i++) {
        keep(&s, s.training.parameters[i].parameter, to);
        keep(&s, s.training.parameters[i].state[0], to);
    }
    for (uint32_t i = 0; i < s.training.statistic_count; i++)
        keep(&s, s.training.statistics[i], to);
    for (tn_op_id id = 0; id < tn_graph_op_count(s.training.graph); id++)
        to->reorders += strcmp(tn_graph_op(s.training.graph, id)->type, "Reorder") == 0;
    free(labels);
    steps_close(&s);
    net_close(&n);
}

static values expected, got;

static void compare(const setting *how, double tolerance, const char *what) {
    train(how, &got);
    assert_int_equal(got.count, expected.count);
    for (size_t i = 0; i < got.count; i++) {
        double size = fabs(expected.numbers[i]) > 1 ? fabs(expected.numbers[i]) : 1;
        if (!(fabs(got.numbers[i] - expected.numbers[i]) <= tolerance * size))
            fail_msg("%s: number %zu is %.9g, not %.9g", what, i, got.numbers[i],
                     expected.numbers[i]);
    }
}

static void fast_training_follows_plain_loops(void **state) {
    (void)state;
    train(&(setting){0}, &expected);
    compare(&(setting){.formats = true, .poison = true}, 1e-4, "plain loops, channels last");
    compare(&(setting){.library = true, .poison = true}, 1e-4, "oneDNN");
    compare(&(setting){.library = true, .formats = true, .poison = true}, 1e-4,
            "oneDNN, channels last");
    /* The image going in; the pooled vector going out, and its gradient. */
    assert_in_range(got.reorders, 1, 6);
}

static void fast_training_in_planned_memory_gives_the_same_bits(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        train(&(setting){.library = true, .formats = true, .threads = threads, .naive = true},
              &expected);
        compare(&(setting){.library = true, .formats = true, .threads = threads}, 0, "planned");
        compare(&(setting){.library = true, .formats = true, .threads = threads, .order = "memory"},
                0, "another order");
        compare(&(setting){.library = true, .formats = true, .threads = threads, .poison = true}, 0,
                "poison");
        compare(&(setting){.library = true, .formats = true, .threads = threads, .pool = "bfc"}, 0,
                "a pool");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_training_follows_plain_loops),
        cmocka_unit_test(fast_training_in_planned_memory_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
