/* test_mixed.c - mixed precision: what is of 16 bits and what is not, that memory changes no bit of
 * a step, and that training goes where it goes in float32. How near gradients are to PyTorch's is
 * compare_torch.py's to say, how kernels round tests/kernels/test_dnnl_train.c's.
 */
#include "steps.h"

static void residual(net *n, uint64_t seed) {
    net_open(n, TN_FLOAT32, seed);
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(4, 3, 8, 8));
    x = net_op(n, "Relu", NET_LIST(net_batch_norm(n, net_conv(n, x, 3, 8, 3, 1, false), 8)));
    tn_tensor_id y = net_batch_norm(n, net_conv(n, x, 8, 8, 3, 1, true), 8);
    x = net_op(n, "Relu", NET_LIST(net_op(n, "Add", NET_LIST(x, y))));
    int64_t window[] = {2, 2};
    net_attr_ints(n, "kernel_shape", 2, window);
    net_attr_ints(n, "strides", 2, window);
    x = net_op(n, "MaxPool", NET_LIST(x));
    x = net_op(n, "Flatten", NET_LIST(net_op(n, "GlobalAveragePool", NET_LIST(x))));
    net_output(n, net_dense(n, net_op(n, "Relu", NET_LIST(net_dense(n, x, 8, 16))), 16, 5));
}

/* Words, a normalisation in small steps, a product, one table for words and scores. */
static void words(net *n, uint64_t seed) {
    net_open(n, TN_FLOAT32, seed);
    int64_t perm[] = {1, 0}, axes[] = {-1};
    tn_tensor_id x = net_numbers(n, "x", 11, NET_SHAPE(4, 6));
    tn_tensor_id table = net_param(n, "table", 0.5, NET_SHAPE(11, 8));
    tn_tensor_id h = net_op(n, "Gather", NET_LIST(table, x));
    h = net_op(n, "Add", NET_LIST(h, net_param(n, "places", 0.5, NET_SHAPE(6, 8))));
    net_attr_ints(n, "axes", 1, axes);
    n->version = 13;
    tn_tensor_id less = net_op(n, "Sub", NET_LIST(h, net_op(n, "ReduceMean", NET_LIST(h))));
    net_attr_ints(n, "axes", 1, axes);
    double number = 2;
    tn_tensor_spec spec = {
        .dtype = TN_FLOAT32, .kind = TN_KIND_CONSTANT, .value = {.count = 1, .floats = &number}};
    tn_tensor_id two;
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &two, &n->error));
    tn_tensor_id variance =
        net_op(n, "ReduceMean", NET_LIST(net_op(n, "Pow", NET_LIST(less, two))));
    h = net_op(n, "Div", NET_LIST(less, net_op(n, "Sqrt", NET_LIST(variance))));
    h = net_op(n, "MatMul", NET_LIST(h, net_param(n, "w", 0.5, NET_SHAPE(8, 8))));
    h = net_op(n, "Tanh", NET_LIST(h));
    net_attr_ints(n, "perm", 2, perm);
    net_output(n, net_op(n, "MatMul", NET_LIST(h, net_op(n, "Transpose", NET_LIST(table)))));
}

typedef void (*builder)(net *n, uint64_t seed);

/* --- types --- */

static const tn_tensor *only_input(const steps *s, const char *type, uint32_t index) {
    for (tn_op_id id = 0; id < tn_graph_op_count(s->graph); id++) {
        const tn_op *op = tn_graph_op(s->graph, id);
        if (strcmp(op->type, type) == 0) return tn_graph_tensor(s->graph, op->inputs[index]);
    }
    fail_msg("no %s", type);
    return NULL;
}

static void check_types(const steps *s, tn_dtype dtype) {
    const tn_graph *graph = s->graph;
    static const char *const low[] = {"Conv", "ConvGradWeights", "ConvTranspose", "Gemm", "MatMul",
                                      "Relu", "ReluGrad"};
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        for (size_t k = 0; k < sizeof low / sizeof *low; k++)
            for (uint32_t i = 0; strcmp(op->type, low[k]) == 0 && i < op->input_count; i++)
                assert_int_equal(tn_graph_tensor(graph, op->inputs[i])->dtype, dtype);
    }
    for (uint32_t i = 0; i < s->training.parameter_count; i++) {
        const tn_trained *trained = &s->training.parameters[i];
        assert_int_equal(tn_graph_tensor(graph, trained->parameter)->dtype, TN_FLOAT32);
        for (uint32_t k = 0; k < 2; k++)
            assert_int_equal(tn_graph_tensor(graph, trained->state[k])->dtype, TN_FLOAT32);
    }
    assert_int_equal(tn_graph_tensor(graph, s->training.loss)->dtype, TN_FLOAT32);
}

static void parameters_and_statistics_stay_in_float32(void **state) {
    (void)state;
    const setting plain = {0};
    for (tn_dtype dtype = TN_FLOAT16;; dtype = TN_BFLOAT16) {
        net n;
        steps s;
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.optimizer = TN_OPTIMIZER_ADAM;
        options.dtype = dtype;
        residual(&n, 5);
        steps_open(&s, &n, &options, &plain);
        check_types(&s, dtype);
        assert_int_equal(only_input(&s, "BatchNormTrain", 0)->dtype, dtype);
        for (uint32_t i = 1; i < 5; i++)
            assert_int_equal(only_input(&s, "BatchNormTrain", i)->dtype, TN_FLOAT32);
        for (uint32_t i = 2; i < 5; i++)
            assert_int_equal(only_input(&s, "BatchNormGrad", i)->dtype, TN_FLOAT32);
        assert_int_equal(only_input(&s, "AdamStep", 1)->dtype, dtype); /* a gradient as it came */
        steps_close(&s);
        net_close(&n);
        words(&n, 5);
        steps_open(&s, &n, &options, &plain);
        check_types(&s, dtype);
        assert_int_equal(only_input(&s, "Gather", 0)->dtype, TN_FLOAT32); /* rows, not the table */
        assert_int_equal(only_input(&s, "Pow", 0)->dtype, TN_FLOAT32);
        assert_int_equal(only_input(&s, "Sqrt", 0)->dtype, TN_FLOAT32);
        assert_int_equal(only_input(&s, "CrossEntropy", 0)->dtype, dtype);
        steps_close(&s);
        net_close(&n);
        if (dtype == TN_BFLOAT16) break;
    }
}

/* --- bits --- */

typedef struct bits {
    double values[8000];
    size_t count;
} bits;

static void train(builder build, const tn_train_options *options, const setting *how,
                  uint32_t updates, bits *to) {
    net n;
    steps s;
    build(&n, 3);
    steps_open(&s, &n, options, how);
    s.rate = 0.02;
    double *labels = steps_draw_labels(&s, 5);
    uint32_t micro = options->micro_batches > 1 ? options->micro_batches : 1;
    to->count = 0;
    for (s.step = 0; s.step < updates; s.step++)
        for (s.micro = 0; s.micro < micro; s.micro++) to->values[to->count++] = steps_run(&s);
    for (uint32_t i = 0; i < s.training.parameter_count; i++) {
        uint64_t count;
        double *values = steps_static(&s, s.training.parameters[i].parameter, &count);
        assert_true(to->count + count < sizeof to->values / sizeof *to->values);
        memcpy(to->values + to->count, values, count * sizeof *values);
        to->count += count;
        free(values);
    }
    tn_engine_usage usage;
    tn_engine_measure(s.engine, &usage);
    if (how->pool == NULL) assert_int_equal(usage.measured_peak, usage.planned_peak);
    free(labels);
    steps_close(&s);
    net_close(&n);
}

static void memory_changes_no_bit(void **state) {
    (void)state;
    static const setting settings[] = {{.poison = true},
                                       {.order = "auto", .poison = true},
                                       {.statics = TN_STATIC_ARENA, .poison = true},
                                       {.pool = "best-fit", .poison = true}};
    static const builder builders[] = {residual, words};
    static bits expected, got;
    for (uint32_t k = 0; k < 16; k++) {
        setting how = {.naive = true, .library = k & 1, .formats = k & 1};
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.dtype = k & 2 ? TN_FLOAT16 : TN_BFLOAT16;
        options.optimizer = k & 4 ? TN_OPTIMIZER_ADAM : TN_OPTIMIZER_MOMENTUM;
        options.micro_batches = k & 4 ? 2 : 1;
        options.dynamic_loss_scale = (k & 6) == 6; /* then not with fuse_update */
        train(builders[k >> 3], &options, &how, 3, &expected);
        for (size_t i = 0; i < 4 * (sizeof settings / sizeof *settings); i++) {
            how = settings[i / 4];
            how.library = how.formats = k & 1;
            options.fuse_update = i & 1 && !options.dynamic_loss_scale;
            how.recompute = i & 2 ? 0.2 : 0;
            train(builders[k >> 3], &options, &how, 3, &got);
            assert_int_equal(got.count, expected.count);
            for (size_t at = 0; at < got.count; at++)
                if (memcmp(&got.values[at], &expected.values[at], sizeof(double)) != 0)
                    fail_msg("case %u, setting %zu: number %zu is %.9g, not %.9g", k, i, at,
                             got.values[at], expected.values[at]);
        }
    }
}

/* --- where it goes --- */

static void losses_follow_those_of_float32(void **state) {
    (void)state;
    static const builder builders[] = {residual, words};
    static bits expected, got;
    for (uint32_t k = 0; k < 4; k++) {
        const setting how = {.library = k & 1};
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.optimizer = TN_OPTIMIZER_MOMENTUM;
        train(builders[k >> 1], &options, &how, 40, &expected);
        for (uint32_t low = 0; low < 2; low++) {
            double allowed = low ? 0.01 : 0.04; /* of the first loss */
            options.dtype = low ? TN_FLOAT16 : TN_BFLOAT16;
            train(builders[k >> 1], &options, &how, 40, &got);
            for (uint32_t i = 0; i < 40; i++)
                if (!(fabs(got.values[i] - expected.values[i]) <= allowed * expected.values[0]))
                    fail_msg("case %u, %s: loss %u is %.6g, in float32 %.6g", k,
                             tn_dtype_name(options.dtype), i, got.values[i], expected.values[i]);
            assert_true(got.values[39] < 0.9 * got.values[0]);
        }
    }
}

/* --- the scale of the loss --- */

/* Everything that an update writes. */
static void collect(steps *s, bits *to) {
    to->count = 0;
    for (uint32_t i = 0; i < s->training.parameter_count; i++) {
        const tn_trained *trained = &s->training.parameters[i];
        const tn_tensor_id ids[] = {trained->parameter, trained->state[0], trained->state[1]};
        for (uint32_t k = 0; k < 3; k++) {
            uint64_t count;
            if (ids[k] == TN_NONE) continue;
            double *values = steps_static(s, ids[k], &count);
            memcpy(to->values + to->count, values, count * sizeof *values);
            to->count += count;
            free(values);
        }
    }
}

/* Counters may begin anywhere: a checkpoint says so. */
static void counters_of_a_loss_scale_do_not_overflow(void **state) {
    (void)state;
    static const struct {
        int64_t before[3], after[3];
    } all[] = {
        {{0, INT64_MAX, INT64_MAX}, {-1, 0, INT64_MAX}},    /* skipped */
        {{-20, INT64_MAX, INT64_MAX}, {-19, 0, INT64_MAX}}, /* good */
        {{INT64_MIN, INT64_MIN, INT64_MIN}, {INT64_MIN, INT64_MIN + 1, INT64_MIN}},
        {{INT64_MAX, INT64_MIN, INT64_MIN}, {INT64_MAX - 1, 0, INT64_MIN + 1}},
    };
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    const setting how = {.poison = true};
    net n;
    steps s;
    options.optimizer = TN_OPTIMIZER_SGD; /* Adam refuses a negative number of steps */
    options.dtype = TN_FLOAT16;
    options.dynamic_loss_scale = true;
    options.loss_scale = 0x1p26; /* too large for float16 */
    residual(&n, 9);
    steps_open(&s, &n, &options, &how);
    double *labels = steps_draw_labels(&s, 5);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t found[3];
        steps_ok(&s, tn_engine_set_static(s.engine, s.training.loss_scale, all[i].before,
                                          sizeof found, &s.error));
        steps_run(&s);
        steps_ok(&s, tn_engine_get_static(s.engine, s.training.loss_scale, found, sizeof found,
                                          &s.error));
        for (int k = 0; k < 3; k++) assert_int_equal(found[k], all[i].after[k]);
    }
    free(labels);
    steps_close(&s);
    net_close(&n);
}

static void a_skipped_step_changes_no_bit(void **state) {
    (void)state;
    static bits before, after;
    for (uint32_t k = 0; k < 4; k++) {
        const setting how = {.poison = true, .library = k & 1};
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        net n;
        steps s;
        options.dtype = TN_FLOAT16;
        options.optimizer = k & 1 ? TN_OPTIMIZER_ADAM : TN_OPTIMIZER_MOMENTUM;
        options.dynamic_loss_scale = true;
        options.loss_scale = 0x1p26; /* too large for float16: the first steps must be skipped */
        options.micro_batches = k & 2 ? 2 : 1;
        residual(&n, 9);
        steps_open(&s, &n, &options, &how);
        double *labels = steps_draw_labels(&s, 5), skipped = 0;
        uint64_t count;
        for (s.step = 0; s.step < 24; s.step++) {
            collect(&s, &before);
            for (s.micro = 0; s.micro < options.micro_batches; s.micro++) steps_run(&s);
            collect(&s, &after);
            double *scale = steps_static(&s, s.training.loss_scale, &count);
            bool same = memcmp(before.values, after.values, before.count * sizeof(double)) == 0;
            assert_int_equal(count, 3);
            assert_int_equal(same, scale[2] != skipped);
            assert_true(scale[0] == -scale[2]);
            skipped = scale[2];
            free(scale);
        }
        assert_true(skipped >= 2 && skipped < 24);
        for (size_t i = 0; i < after.count; i++) assert_true(isfinite(after.values[i]));
        free(labels);
        steps_close(&s);
        net_close(&n);
    }
}

static void a_scale_doubles_after_good_steps(void **state) {
    (void)state;
    const setting plain = {0};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    steps s;
    uint64_t count;
    options.optimizer = TN_OPTIMIZER_SGD;
    options.dynamic_loss_scale = true;
    net_open(&n, TN_FLOAT32, 4);
    net_output(&n, net_dense(&n, net_input(&n, "x", NET_SHAPE(2, 3)), 3, 4));
    steps_open(&s, &n, &options, &plain);
    double *labels = steps_draw_labels(&s, 4);
    for (uint32_t run = 1; run <= 4001; run++) {
        steps_run(&s);
        if (run % 1000 > 1) continue;
        double *scale = steps_static(&s, s.training.loss_scale, &count);
        assert_true(scale[0] == run / 2000 && scale[1] == run % 2000 && scale[2] == 0);
        free(scale);
    }
    free(labels);
    steps_close(&s);
    net_close(&n);
}

/* The loss is 1e-9 times a mean, so its gradients are too small for float16. */
static void tiny(net *n, uint64_t seed) {
    double number = 1e-9;
    tn_tensor_spec spec = {
        .dtype = TN_FLOAT32, .kind = TN_KIND_CONSTANT, .value = {.count = 1, .floats = &number}};
    tn_tensor_id factor;
    net_open(n, TN_FLOAT32, seed);
    n->version = 13;
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &factor, &n->error));
    tn_tensor_id y =
        net_op(n, "Tanh", NET_LIST(net_dense(n, net_input(n, "x", NET_SHAPE(4, 6)), 6, 5)));
    net_attr_int(n, "keepdims", 0);
    tn_tensor_id mean = net_op(n, "ReduceMean", NET_LIST(y));
    net_output(n, net_op(n, "Mul", NET_LIST(mean, factor)));
}

static void train_tiny(const tn_train_options *options, bits *before, bits *after) {
    const setting plain = {.poison = true};
    net n;
    steps s;
    tiny(&n, 6);
    steps_open(&s, &n, options, &plain);
    s.rate = 1e8;
    collect(&s, before);
    steps_run(&s);
    collect(&s, after);
    steps_close(&s);
    net_close(&n);
}

static void a_scale_keeps_gradients_that_float16_loses(void **state) {
    (void)state;
    static bits before, expected, got;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    options.loss = TN_LOSS_OUTPUT;
    options.optimizer = TN_OPTIMIZER_SGD;
    train_tiny(&options, &before, &expected);
    options.dtype = TN_FLOAT16;
    train_tiny(&options, &before, &got);
    assert_memory_equal(before.values, got.values, before.count * sizeof(double));
    for (uint32_t k = 0; k < 2; k++) {
        double most = 0;
        options.dynamic_loss_scale = k;
        options.loss_scale = k ? 0 : 0x1p20;
        train_tiny(&options, &before, &got);
        for (size_t i = 0; i < got.count; i++)
            if (fabs(expected.values[i] - before.values[i]) > most)
                most = fabs(expected.values[i] - before.values[i]);
        assert_true(most > 1e-3);
        for (size_t i = 0; i < got.count; i++)
            if (!(fabs(got.values[i] - expected.values[i]) <= 0.01 * most))
                fail_msg("scale %u: number %zu is %.9g, in float32 %.9g", k, i, got.values[i],
                         expected.values[i]);
    }
}

static void what_a_scale_does_not_go_with_is_refused(void **state) {
    (void)state;
    net n;
    tn_training training;
    tn_error error;
    residual(&n, 1);
    for (uint32_t k = 0; k < 4; k++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.dynamic_loss_scale = true;
        options.fuse_update = k == 0;
        if (k == 1) options.optimizer = TN_OPTIMIZER_NONE;
        if (k == 2) options.loss_scale = 1e30;
        if (k == 3) options.loss_scale = 1e-9;
        assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_INVALID);
    }
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_and_statistics_stay_in_float32),
        cmocka_unit_test(memory_changes_no_bit),
        cmocka_unit_test(losses_follow_those_of_float32),
        cmocka_unit_test(a_skipped_step_changes_no_bit),
        cmocka_unit_test(counters_of_a_loss_scale_do_not_overflow),
        cmocka_unit_test(a_scale_doubles_after_good_steps),
        cmocka_unit_test(a_scale_keeps_gradients_that_float16_loses),
        cmocka_unit_test(what_a_scale_does_not_go_with_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
