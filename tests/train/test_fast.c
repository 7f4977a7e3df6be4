/* test_fast.c - training with oneDNN, with channels last and with fused operators: what plain loops
 * compute on the graph as it was made, within rounding; and the same bits in planned memory as in
 * memory of its own.
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

/* A linear layer on [batch, time, width], its weights [out, in] as exporters leave them. */
static tn_tensor_id linear(net *n, tn_tensor_id x, int64_t in, int64_t out) {
    double spread = 1 / sqrt((double)in);
    tn_tensor_id w = net_param(n, "w", spread, NET_SHAPE(out, in));
    net_attr_ints(n, "perm", 2, (const int64_t[]){1, 0});
    tn_tensor_id y = net_op(n, "MatMul", NET_LIST(x, net_op(n, "Transpose", NET_LIST(w))));
    return net_op(n, "Add", NET_LIST(net_param(n, "b", spread, NET_SHAPE(out)), y));
}

static tn_tensor_id heads(net *n, tn_tensor_id x, const int64_t *perm) {
    x = net_op(n, "Reshape", NET_LIST(x, net_ints(n, 4, (const int64_t[]){2, 5, 3, 4})));
    net_attr_ints(n, "perm", 4, perm);
    return net_op(n, "Transpose", NET_LIST(x));
}

static tn_tensor_id number(net *n, double value) {
    tn_tensor_id id;
    tn_tensor_spec spec = {.name = "k",
                           .dtype = n->dtype,
                           .kind = TN_KIND_CONSTANT,
                           .value = {.count = 1, .floats = &value}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    return id;
}

static tn_tensor_id norm(net *n, tn_tensor_id x) {
    tn_tensor_id scale = net_given(n, "ln.scale", TN_KIND_PARAMETER, 1, 0.3, NET_SHAPE(12));
    return net_op(n, "LayerNormalization",
                  NET_LIST(x, scale, net_param(n, "ln.bias", 0.3, NET_SHAPE(12))));
}

static tn_tensor_id dropout(net *n, tn_tensor_id x) {
    return net_op(n, "Dropout", NET_LIST(x, number(n, 0.25)));
}

/* A block of a transformer: 3 heads of 4 over 5 places. */
static void attention(net *n, uint64_t seed) {
    static const int64_t row[] = {0, 2, 1, 3}, column[] = {0, 2, 3, 1};
    int64_t perm[] = {0, 2, 1, 3};
    net_open(n, TN_FLOAT32, seed);
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(2, 5, 12)), y = norm(n, x);
    tn_tensor_id q = heads(n, linear(n, y, 12, 12), row), v = heads(n, linear(n, y, 12, 12), row);
    tn_tensor_id k = heads(n, linear(n, y, 12, 12), column);
    tn_tensor_id mask = net_given(n, "mask", TN_KIND_PARAMETER, -2, 2, NET_SHAPE(5, 5));
    y = net_op(n, "Mul", NET_LIST(net_op(n, "MatMul", NET_LIST(q, k)), number(n, 0.5)));
    y = net_op(n, "Softmax", NET_LIST(net_op(n, "Add", NET_LIST(y, mask))));
    y = net_op(n, "MatMul", NET_LIST(y, v));
    net_attr_ints(n, "perm", 4, perm);
    y = net_op(n, "Transpose", NET_LIST(y));
    y = net_op(n, "Reshape", NET_LIST(y, net_ints(n, 3, (const int64_t[]){2, 5, 12})));
    x = net_op(n, "Add", NET_LIST(x, dropout(n, linear(n, y, 12, 12))));
    y = net_op(n, "Gelu", NET_LIST(linear(n, norm(n, x), 12, 24)));
    x = net_op(n, "Add", NET_LIST(dropout(n, linear(n, y, 24, 12)), x));
    net_output(n, linear(n, x, 12, 5));
}

typedef struct values { /* losses, then all that stays between steps */
    double numbers[20000];
    size_t count;
    uint32_t reorders, transposes;
} values;

static void (*build)(net *n, uint64_t seed);

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
    build(&n, 7);
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
    for (tn_op_id id = 0; id < tn_graph_op_count(s.graph); id++) {
        const char *type = tn_graph_op(s.graph, id)->type;
        to->reorders += strcmp(type, "Reorder") == 0;
        to->transposes += strcmp(type, "Transpose") == 0;
    }
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
    build = residual;
    train(&(setting){0}, &expected);
    compare(&(setting){.formats = true, .poison = true}, 1e-4, "plain loops, channels last");
    compare(&(setting){.library = true, .poison = true}, 1e-4, "oneDNN");
    compare(&(setting){.library = true, .formats = true, .poison = true}, 1e-4,
            "oneDNN, channels last");
    /* The image going in; the pooled vector going out, and its gradient. */
    assert_in_range(got.reorders, 1, 6);
}

static void fused_training_follows_plain_loops(void **state) {
    (void)state;
    build = residual;
    train(&(setting){0}, &expected);
    compare(&(setting){.fused = true, .poison = true}, 1e-4, "plain loops");
    compare(&(setting){.fused = true, .formats = true, .library = true, .poison = true}, 1e-4,
            "oneDNN");
    build = attention;
    train(&(setting){0}, &expected);
    assert_true(expected.transposes > 20);
    compare(&(setting){.fused = true, .poison = true}, 1e-4, "attention, plain loops");
    compare(&(setting){.library = true, .poison = true}, 1e-4, "attention, oneDNN");
    compare(&(setting){.fused = true, .library = true, .poison = true}, 1e-4,
            "attention, fused, oneDNN");
    assert_int_equal(got.transposes, 0);
}

static void fast_training_in_planned_memory_gives_the_same_bits(void **state) {
    (void)state;
    build = residual;
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

static void fused_training_in_planned_memory_gives_the_same_bits(void **state) {
    (void)state;
    for (int which = 0; which < 4; which++) {
        const bool library = which % 2 == 1;
        build = which < 2 ? attention : residual;
        setting how = {.library = library, .formats = true, .fused = true, .naive = true};
        train(&how, &expected);
        how.naive = false;
        compare(&how, 0, "planned");
        how.poison = true;
        how.order = "memory";
        compare(&how, 0, "another order");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_training_follows_plain_loops),
        cmocka_unit_test(fused_training_follows_plain_loops),
        cmocka_unit_test(fast_training_in_planned_memory_gives_the_same_bits),
        cmocka_unit_test(fused_training_in_planned_memory_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
