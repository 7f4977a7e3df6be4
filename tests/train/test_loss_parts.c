/* test_loss_parts.c - a step whose last product and loss run in parts, beside the same one whole:
 * loss, answers, and every gradient; and what it holds.
 */
#include "count.h"
#include "steps.h"

typedef struct head { /* scores of random nets */
    uint32_t rank;
    int64_t shape[4];
    uint32_t axis; /* of classes */
    bool soft;     /* a softmax behind them, which the loss contains */
} head;

static int64_t draw(net *n, int64_t least, int64_t most) {
    return least + (int64_t)tn__random_below(&n->random, (uint64_t)(most - least + 1));
}

/* A table, a hidden layer, scores; or images, two convolutions. */
static head head_build(net *n) {
    head made = {.rank = (uint32_t)draw(n, 2, 4), .soft = draw(n, 0, 2) == 0};
    int64_t classes = draw(n, 2, 9), wide = draw(n, 1, 7);
    made.axis = made.rank == 4 ? 1 : made.rank - 1;
    for (uint32_t d = 0; d < made.rank; d++) made.shape[d] = draw(n, 2, 7);
    int64_t shape[4];
    memcpy(shape, made.shape, sizeof shape);
    shape[made.axis] = wide;
    tn_tensor_id x = net_input(n, "x", made.rank, shape);
    if (made.rank == 4) {
        x = net_op(n, "Relu", NET_LIST(net_conv(n, x, wide, wide, 3, 1, true)));
        x = net_conv(n, x, wide, classes, 1, 1, draw(n, 0, 1) == 0);
    } else {
        x = net_op(n, "Tanh",
                   NET_LIST(net_op(n, "MatMul",
                                   NET_LIST(x, net_param(n, "hidden", 1, NET_SHAPE(wide, wide))))));
        x = net_op(n, "MatMul", NET_LIST(x, net_param(n, "head", 1, NET_SHAPE(wide, classes))));
        if (draw(n, 0, 1) == 0)
            x = net_op(n, "Add", NET_LIST(x, net_param(n, "bias", 1, NET_SHAPE(classes))));
    }
    made.shape[made.axis] = classes;
    if (made.soft) {
        net_attr_int(n, "axis", made.axis);
        x = net_op(n, "Softmax", NET_LIST(x));
    }
    net_output(n, x);
    return made;
}

static void compare(const steps *whole, const steps *parts, tn_tensor_id a, tn_tensor_id b,
                    double tolerance, const char *what, uint64_t seed) {
    const tn_array *x = steps_output(whole, a), *y = steps_output(parts, b);
    double most = 1e-3;
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->bytes, y->bytes);
    uint64_t count = x->bytes * 8 / tn_dtype_bits(x->dtype);
    for (uint64_t i = 0; i < count; i++) most = fmax(most, fabs(steps_get(x->dtype, x->data, i)));
    for (uint64_t i = 0; i < count; i++) {
        double one = steps_get(x->dtype, x->data, i), two = steps_get(y->dtype, y->data, i);
        if (!(fabs(one - two) <= tolerance * most))
            fail_msg("seed %llu: %s [%llu] is %.17g whole, %.17g in parts",
                     (unsigned long long)seed, what, (unsigned long long)i, one, two);
    }
}

static void check(uint64_t seed) {
    net n;
    steps whole, parts;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    setting how = {.poison = true};
    bool wide = seed % 2 == 0;
    net_open(&n, wide ? TN_FLOAT64 : TN_FLOAT32, seed);
    head made = head_build(&n);
    how.library = how.fused = !wide && seed % 4 == 1;
    how.formats = how.library && draw(&n, 0, 1) == 0;
    options.loss = made.soft || draw(&n, 0, 2) > 0 ? TN_LOSS_CROSS_ENTROPY : TN_LOSS_MEAN_SQUARED;
    options.optimizer = TN_OPTIMIZER_NONE;
    options.keep_outputs = !made.soft && draw(&n, 0, 3) == 0;
    options.dtype = !wide && draw(&n, 0, 3) == 0 ? TN_BFLOAT16 : TN_UNDEFINED;
    if (options.dtype == TN_BFLOAT16) how.fused = how.formats = false;
    uint64_t classes = (uint64_t)made.shape[made.axis];
    steps_open(&whole, &n, &options, &how);
    options.loss_parts = (uint32_t)draw(&n, 2, 60);
    steps_open(&parts, &n, &options, &how);
    double *labels = steps_draw_labels(&whole, (int64_t)classes);
    parts.labels = labels;
    steps_run(&whole);
    steps_run(&parts);
    double tolerance = wide ? 1e-12 : options.dtype == TN_BFLOAT16 ? 3e-2 : 2e-5;
    compare(&whole, &parts, whole.training.loss, parts.training.loss, tolerance, "loss", seed);
    if (options.loss == TN_LOSS_CROSS_ENTROPY)
        compare(&whole, &parts, whole.training.correct, parts.training.correct, 0, "correct", seed);
    assert_int_equal(whole.training.parameter_count, parts.training.parameter_count);
    for (uint32_t p = 0; p < whole.training.parameter_count; p++) {
        const tn_trained *a = &whole.training.parameters[p], *b = &parts.training.parameters[p];
        assert_int_equal(a->parameter, b->parameter);
        compare(&whole, &parts, a->gradient, b->gradient, tolerance,
                tn_graph_tensor(n.graph, a->parameter)->name, seed);
    }
    tn_tensor_id y = tn_graph_block(n.graph, 0)->outputs[0];
    if (options.keep_outputs) compare(&whole, &parts, y, y, tolerance, "output", seed);
    free(labels);
    steps_close(&whole);
    steps_close(&parts);
    net_close(&n);
}

static void parts_give_what_the_whole_gives(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(120, 12); seed++) check(seed);
}

/* A text of 4 x 32 words, 5,000 different ones: scores are most of what a step holds. */
static void words(net *n) {
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(4, 32, 8));
    tn_tensor_id w = net_param(n, "w", 0.5, NET_SHAPE(8, 8));
    tn_tensor_id last = net_param(n, "head", 0.5, NET_SHAPE(8, 5000));
    x = net_op(n, "Tanh", NET_LIST(net_op(n, "MatMul", NET_LIST(x, w))));
    net_output(n, net_op(n, "MatMul", NET_LIST(x, last)));
}

/* Of a 64th of the scores, and gradients of the head that are added up, no more is there. */
static void scores_exist_in_parts_alone(void **state) {
    (void)state;
    const setting how = {.fused = true, .library = true};
    uint64_t arena[2];
    for (uint32_t k = 0; k < 2; k++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        net n;
        steps s;
        options.loss_parts = k == 0 ? 0 : 64;
        net_open(&n, TN_FLOAT32, 3);
        words(&n);
        steps_open(&s, &n, &options, &how);
        arena[k] = tn_setup_need(s.setup).arena;
        steps_close(&s);
        net_close(&n);
    }
    const uint64_t scores = 4 * 32 * 5000 * 4, weights = 8 * 5000 * 4;
    assert_true(arena[0] >= scores + weights);
    assert_true(arena[1] <= scores / 64 + 2 * weights + scores / 16);
}

/* Every way of updating ends with the same parameters. */
static void updates_are_the_same(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        double *ends[2];
        uint64_t count = 0;
        for (uint32_t i = 0; i < 2; i++) {
            const setting how = {.poison = true, .fused = true, .library = true};
            tn_train_options options = TN_TRAIN_OPTIONS_INIT;
            net n;
            steps s;
            options.optimizer = TN_OPTIMIZER_MOMENTUM;
            options.fuse_update = k == 1;
            options.micro_batches = k == 2 ? 2 : 1;
            options.dynamic_loss_scale = k == 3;
            options.loss_parts = i == 0 ? 1 : 7;
            net_open(&n, TN_FLOAT32, 5);
            words(&n);
            steps_open(&s, &n, &options, &how);
            double *labels = steps_draw_labels(&s, 5000);
            for (s.step = 0; s.step < 4; s.step++)
                for (s.micro = 0; s.micro < (int64_t)options.micro_batches; s.micro++)
                    steps_run(&s);
            ends[i] = steps_static(&s, s.training.parameters[1].parameter, &count);
            free(labels);
            steps_close(&s);
            net_close(&n);
        }
        for (uint64_t i = 0; i < count; i++)
            if (!(fabs(ends[0][i] - ends[1][i]) <= 1e-5))
                fail_msg("way %u: parameter [%llu] is %.9g whole, %.9g in parts", k,
                         (unsigned long long)i, ends[0][i], ends[1][i]);
        free(ends[0]);
        free(ends[1]);
    }
}

static void refuse(net *n, tn_train_options *options, tn_status expected, const char *why) {
    tn_training training = {0};
    tn_error error;
    tn_status status = tn_train(n->graph, options, &training, &error);
    if (status != expected || strstr(error.message, why) == NULL)
        fail_msg("%s: %s", tn_status_name(status), status == TN_OK ? "" : error.message);
}

static void what_cannot_be_cut_is_refused(void **state) {
    (void)state;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    net n;
    net_open(&n, TN_FLOAT32, 1);
    words(&n);
    net_ok(&n, tn_graph_infer(n.graph, &n.error));
    options.loss_parts = 5000;
    refuse(&n, &options, TN_E_INVALID, "at most 4096");
    options.loss_parts = 4;
    options.pipeline_parts = 2;
    refuse(&n, &options, TN_E_UNSUPPORTED, "ranks share the model");
    net_close(&n);

    options.pipeline_parts = 0; /* scores of which each reads the whole batch */
    net_open(&n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(6, 5)),
                 w = net_param(&n, "w", 1, NET_SHAPE(5, 3));
    x = net_op(&n, "MatMul", NET_LIST(x, w));
    net_attr_int(&n, "axis", 0);
    net_output(&n, net_op(&n, "Softmax", NET_LIST(x)));
    net_ok(&n, tn_graph_infer(n.graph, &n.error));
    refuse(&n, &options, TN_E_UNSUPPORTED, "product that could be cut");
    net_close(&n);

    net_open(&n, TN_FLOAT32, 1);
    x = net_input(&n, "x", NET_SHAPE(6, 5));
    w = net_param(&n, "w", 1, NET_SHAPE(5, 3));
    net_attr_int(&n, "keepdims", 0);
    net_output(&n, net_op(&n, "ReduceMean", NET_LIST(net_op(&n, "MatMul", NET_LIST(x, w)))));
    net_ok(&n, tn_graph_infer(n.graph, &n.error));
    options.loss = TN_LOSS_OUTPUT;
    refuse(&n, &options, TN_E_UNSUPPORTED, "own output is the loss");
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_give_what_the_whole_gives),
        cmocka_unit_test(scores_exist_in_parts_alone),
        cmocka_unit_test(updates_are_the_same),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
