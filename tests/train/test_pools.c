/* test_pools.c - maximum pools that keep which of each window won, against those whose gradient
 * looks for it in what they read: every gradient has the same bits, of random windows, with ties,
 * NaNs and infinities; and nobody keeps what a Relu gave to such a pool alone.
 *
 * The sign of a gradient of 0 is not asked for: oneDNN's gradient of Relu makes -0 of a negative
 * one that it drops, and a pool that comes behind it adds that to 0.
 */
#include "steps.h"

#define POOLS 120

static int64_t draw(net *n, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&n->random, (uint64_t)(last - first + 1));
}

/* A window that meets its input everywhere: paddings are smaller than it. */
static tn_tensor_id pool(net *n, tn_tensor_id x, uint32_t spatial, const int64_t *extents) {
    static const char *const automatic[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    int64_t kernel[3], strides[3], dilations[3], pads[6];
    bool wide = draw(n, 0, 3) == 0;
    for (uint32_t d = 0; d < spatial; d++) {
        kernel[d] = draw(n, 1, wide ? 5 : 3);
        dilations[d] = draw(n, 0, 4) == 0 && 2 * (kernel[d] - 1) < extents[d] ? 2 : 1;
        strides[d] = draw(n, 1, 3);
        pads[d] = draw(n, 0, kernel[d] / 2);
        pads[spatial + d] = draw(n, 0, kernel[d] / 2);
    }
    net_attr_ints(n, "kernel_shape", spatial, kernel);
    net_attr_ints(n, "strides", spatial, strides);
    net_attr_ints(n, "dilations", spatial, dilations);
    if (draw(n, 0, 2) == 0) {
        net_attr_string(n, "auto_pad", automatic[draw(n, 0, 2)]);
    } else {
        net_attr_ints(n, "pads", 2 * spatial, pads);
        net_attr_int(n, "ceil_mode", draw(n, 0, 1));
    }
    return net_op(n, "MaxPool", NET_LIST(x));
}

/* Few numbers, so that many are equal; some of them none. */
static void draw_contents(net *n, tn_tensor_id id, bool odd) {
    static const double others[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0};
    for (uint64_t i = 0; i < n->counts[id]; i++) {
        n->contents[id][i] = (double)draw(n, -4, 4) / 4;
        if (odd && draw(n, 0, 9) == 0) n->contents[id][i] = others[draw(n, 0, 3)];
    }
}

/* sum(w * pool(p)), where p is a parameter, or what an activation makes of one: so the gradient of
 * p is where the pool's goes, and that of w is what the pool gave. */
static void build(net *n, uint64_t seed, const char **middle) {
    static const char *const each[] = {"", "Relu", "Relu", "Sigmoid", "Neg"};
    net_open(n, TN_FLOAT32, seed);
    n->version = (uint32_t)draw(n, 12, 21);
    uint32_t spatial = (uint32_t)draw(n, 1, 3);
    int64_t shape[5] = {draw(n, 1, 2), draw(n, 1, 20)};
    for (uint32_t d = 0; d < spatial; d++) shape[2 + d] = draw(n, 5, 10);
    tn_tensor_id p = net_param(n, "p", 1, spatial + 2, shape), x = p;
    draw_contents(n, p, seed % 3 == 0);
    *middle = each[draw(n, 0, 4)];
    if (**middle != '\0') x = net_op(n, *middle, NET_LIST(x));
    tn_tensor_id y = pool(n, x, spatial, shape + 2);
    net_ok(n, tn_graph_infer(n->graph, &n->error));
    const tn_tensor *made = tn_graph_tensor(n->graph, y);
    tn_tensor_id w = net_param(n, "w", 1, made->rank, made->shape);
    y = net_op(n, "Mul", NET_LIST(y, w));
    net_attr_int(n, "keepdims", 0);
    net_output(n, net_op(n, "ReduceSum", NET_LIST(y)));
}

typedef struct found {
    void *bytes[2]; /* of the gradients of p and w */
    uint64_t sizes[2];
    uint32_t maps, looked; /* gradients of pools, by how they find what won */
    bool keeps;            /* somebody reads in the backward pass what the pool read */
} found;

static void count_ops(const tn_graph *graph, found *to) {
    tn_tensor_id read = TN_NONE;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        to->maps += strcmp(op->type, "MaxPoolMapGrad") == 0;
        to->looked += strcmp(op->type, "MaxPoolGrad") == 0;
        if (strncmp(op->type, "MaxPool", 7) == 0 && strstr(op->type, "Grad") == NULL)
            read = op->inputs[0];
        for (uint32_t i = 0; i < op->input_count; i++)
            if (strstr(op->type, "Grad") != NULL && op->inputs[i] == read && read != TN_NONE)
                to->keeps = true;
    }
}

static void run(uint64_t seed, bool keep, const setting *how, const char **middle, found *to) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    steps s;
    options.loss = TN_LOSS_OUTPUT;
    options.optimizer = TN_OPTIMIZER_NONE;
    options.keep_pool_inputs = keep;
    build(&n, seed, middle);
    steps_open(&s, &n, &options, how);
    memset(to, 0, sizeof *to);
    count_ops(s.training.graph, to);
    steps_run(&s);
    assert_int_equal(s.training.parameter_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const tn_array *array = steps_output(&s, s.training.parameters[i].gradient);
        to->sizes[i] = array->bytes;
        to->bytes[i] = malloc(array->bytes);
        memcpy(to->bytes[i], array->data, array->bytes);
        for (uint64_t k = 0; i == 0 && k < array->bytes / sizeof(float); k++)
            ((float *)to->bytes[i])[k] += 0.0f;
    }
    steps_close(&s);
    net_close(&n);
}

static void check_pool(uint64_t seed) {
    const setting how = {.poison = true, .library = seed % 2 == 0, .threads = 1};
    const char *middle;
    found plain, map;
    run(seed, true, &how, &middle, &plain);
    run(seed, false, &how, &middle, &map);
    assert_int_equal(plain.looked, 1);
    assert_int_equal(plain.maps, 0);
    assert_int_equal(map.looked, 0);
    assert_int_equal(map.maps, 1);
    /* Sigmoid's gradient reads what it gave; of Relu and of what comes from elsewhere nothing is */
    if (map.keeps != (strcmp(middle, "Sigmoid") == 0))
        fail_msg("seed %llu: what '%s' gave to the pool is%s kept", (unsigned long long)seed,
                 middle, map.keeps ? "" : " not");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(plain.sizes[i], map.sizes[i]);
        if (memcmp(plain.bytes[i], map.bytes[i], map.sizes[i]) != 0)
            fail_msg("seed %llu, behind '%s': the gradient of %s has other bits",
                     (unsigned long long)seed, middle, i == 0 ? "what was pooled" : "the factors");
        free(plain.bytes[i]);
        free(map.bytes[i]);
    }
}

static void gradients_have_the_same_bits(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= POOLS; seed++) check_pool(seed);
}

/* A map has an entry of 4 bits for windows of up to 16 taps, else of 8; beyond 256 there is none.
 */
static void maps_are_as_small_as_they_say(void **state) {
    static const struct {
        int64_t kernel;
        uint64_t bytes; /* of 3 x 5 x 9 x 9 outputs; 0: no map */
    } cases[] = {{2, 608}, {4, 608}, {5, 1215}, {16, 1215}, {17, 0}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t extent = 8 + cases[c].kernel, kernel[] = {cases[c].kernel, cases[c].kernel};
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        tn_training training;
        net n;
        uint64_t bytes = 0;
        net_open(&n, TN_FLOAT32, 1);
        options.loss = TN_LOSS_OUTPUT;
        options.optimizer = TN_OPTIMIZER_NONE;
        tn_tensor_id x = net_param(&n, "p", 1, NET_SHAPE(3, 5, extent, extent));
        net_attr_ints(&n, "kernel_shape", 2, kernel);
        x = net_op(&n, "MaxPool", NET_LIST(x));
        net_attr_int(&n, "keepdims", 0);
        net_output(&n, net_op(&n, "ReduceSum", NET_LIST(x)));
        net_ok(&n, tn_train(n.graph, &options, &training, &n.error));
        for (tn_op_id id = 0; id < tn_graph_op_count(training.graph); id++) {
            const tn_op *op = tn_graph_op(training.graph, id);
            if (strcmp(op->type, "MaxPoolTrain") == 0)
                bytes = tn_graph_tensor(training.graph, op->outputs[1])->bytes;
        }
        assert_int_equal(bytes, cases[c].bytes);
        tn_training_release(&training);
        net_close(&n);
    }
}

/* Where others need what the pool reads, a map would only be more. */
static void pools_beside_others_keep_no_map(void **state) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    net n;
    found seen = {0};
    (void)state;
    net_open(&n, TN_FLOAT32, 1);
    options.optimizer = TN_OPTIMIZER_SGD;
    tn_tensor_id x = net_conv(&n, net_input(&n, "x", NET_SHAPE(2, 3, 8, 8)), 3, 4, 3, 1, true);
    x = net_op(&n, "Relu", NET_LIST(x));
    net_attr_ints(&n, "kernel_shape", 2, (const int64_t[]){3, 3});
    net_attr_ints(&n, "pads", 4, (const int64_t[]){1, 1, 1, 1});
    tn_tensor_id y = net_op(&n, "MaxPool", NET_LIST(x));
    x = net_op(&n, "Add", NET_LIST(y, net_conv(&n, x, 4, 4, 3, 1, true)));
    x = net_op(&n, "Flatten", NET_LIST(net_op(&n, "GlobalAveragePool", NET_LIST(x))));
    net_output(&n, net_dense(&n, x, 4, 3));
    net_ok(&n, tn_train(n.graph, &options, &training, &n.error));
    count_ops(training.graph, &seen);
    assert_int_equal(seen.maps, 0);
    assert_int_equal(seen.looked, 1);
    tn_training_release(&training);
    net_close(&n);
}

/* Whole steps, with convolutions on channels that lie last and everything fused: losses and
 * parameters, and less memory. */
static double *train(bool keep, const setting *how, uint64_t *count, uint64_t *peak) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    steps s;
    double *left = calloc(40000, sizeof *left);
    options.optimizer = TN_OPTIMIZER_MOMENTUM;
    options.keep_pool_inputs = keep;
    net_open(&n, TN_FLOAT32, 3);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(4, 3, 20, 20));
    for (int64_t c = 0; c < 3; c++) {
        x = net_conv(&n, x, c == 0 ? 3 : 16, 16, 3, 1, c != 1);
        if (c == 1) x = net_batch_norm(&n, x, 16);
        x = net_op(&n, "Relu", NET_LIST(x));
        net_attr_ints(&n, "kernel_shape", 2, (const int64_t[]){3, 3});
        net_attr_ints(&n, "strides", 2, (const int64_t[]){2, 2});
        x = net_op(&n, "MaxPool", NET_LIST(x));
    }
    net_output(&n, net_dense(&n, net_op(&n, "Flatten", NET_LIST(x)), 16, 5));
    steps_open(&s, &n, &options, how);
    double *labels = steps_draw_labels(&s, 5);
    *count = 0;
    for (s.step = 0; s.step < 4; s.step++) left[(*count)++] = steps_run(&s);
    for (uint32_t i = 0; i < s.training.parameter_count; i++) {
        uint64_t numbers;
        double *values = steps_static(&s, s.training.parameters[i].parameter, &numbers);
        assert_true(*count + numbers <= 40000);
        memcpy(left + *count, values, numbers * sizeof *values);
        *count += numbers;
        free(values);
    }
    *peak = tn_setup_layout(s.setup)->peak;
    free(labels);
    steps_close(&s);
    net_close(&n);
    return left;
}

static void steps_have_the_same_bits_in_less_memory(void **state) {
    static const setting settings[] = {
        {.poison = true},
        {.poison = true, .library = true, .threads = 1},
        {.poison = true, .library = true, .formats = true, .fused = true, .threads = 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        uint64_t count, other, before, after;
        double *plain = train(true, &settings[i], &count, &before);
        double *map = train(false, &settings[i], &other, &after);
        assert_int_equal(count, other);
        assert_memory_equal(plain, map, count * sizeof *plain);
        if (after >= before)
            fail_msg("setting %zu: %llu bytes with maps, %llu without", i,
                     (unsigned long long)after, (unsigned long long)before);
        free(plain);
        free(map);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_have_the_same_bits),
        cmocka_unit_test(maps_are_as_small_as_they_say),
        cmocka_unit_test(pools_beside_others_keep_no_map),
        cmocka_unit_test(steps_have_the_same_bits_in_less_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
