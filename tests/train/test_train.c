/* test_train.c - whole steps: gradients of small networks against finite differences in double, and
 * losses that fall with every optimizer.
 */
#include "steps.h"

static tn_tensor_id mlp(net *n) {
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(6, 5));
    x = net_op(n, "Relu", NET_LIST(net_dense(n, x, 5, 7)));
    tn_tensor_id y = net_dense(n, x, 7, 7);
    x = net_op(n, "Relu", NET_LIST(net_op(n, "Add", NET_LIST(x, y))));
    return net_dense(n, x, 7, 4);
}

static tn_tensor_id cnn(net *n) {
    static const int64_t two[] = {2, 2}, three[] = {3, 3}, pads[] = {1, 1, 1, 1};
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(3, 2, 9, 8));
    x = net_batch_norm(n, net_conv(n, x, 2, 4, 3, 1, false), 4);
    x = net_op(n, "Relu", NET_LIST(x));
    net_attr_ints(n, "kernel_shape", 2, three);
    net_attr_ints(n, "strides", 2, two);
    net_attr_ints(n, "pads", 4, pads);
    x = net_op(n, "MaxPool", NET_LIST(x));
    tn_tensor_id y = net_batch_norm(n, net_conv(n, x, 4, 4, 3, 1, true), 4);
    x = net_op(n, "Relu", NET_LIST(net_op(n, "Add", NET_LIST(x, y))));
    x = net_conv(n, x, 4, 6, 3, 2, true);
    net_attr_ints(n, "kernel_shape", 2, two);
    net_attr_ints(n, "pads", 4, pads);
    x = net_op(n, "AveragePool", NET_LIST(x));
    x = net_op(n, "GlobalAveragePool", NET_LIST(x));
    net_attr_int(n, "axis", 1);
    x = net_op(n, "Flatten", NET_LIST(x));
    return net_dense(n, x, 6, 4);
}

static void gradients_are_those_of_finite_differences(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        net n;
        net_open(&n, TN_FLOAT64, seed);
        net_output(&n, mlp(&n));
        steps_check_net(&n, TN_LOSS_CROSS_ENTROPY, 4, "mlp", seed);
        net_close(&n);
        net_open(&n, TN_FLOAT64, seed);
        net_output(&n, cnn(&n));
        steps_check_net(&n, TN_LOSS_CROSS_ENTROPY, 4, "cnn", seed);
        net_close(&n);
        net_open(&n, TN_FLOAT64, seed);
        net_output(&n, mlp(&n));
        steps_check_net(&n, TN_LOSS_MEAN_SQUARED, 4, "mlp, mean squared", seed);
        net_close(&n);
    }
}

static void the_loss_falls_with_every_optimizer(void **state) {
    (void)state;
    for (int k = 0; k < TN_OPTIMIZER_NONE; k++) {
        const setting plain = {.poison = true};
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        net n;
        steps s;
        net_open(&n, TN_FLOAT32, 7);
        net_output(&n, cnn(&n));
        options.optimizer = (tn_optimizer)k;
        steps_open(&s, &n, &options, &plain);
        double *labels = steps_draw_labels(&s, 4), first = steps_run(&s), last = first;
        for (s.step = 1; s.step < 60; s.step++) last = steps_run(&s);
        if (!(last < 0.7 * first))
            fail_msg("%s: from %g to %g", tn_optimizer_name(options.optimizer), first, last);
        free(labels);
        steps_close(&s);
        net_close(&n);
    }
}

/* Dropout: the share is right, what stays is scaled, the backward pass has the same mask, and the
 * next step another one. */
static void dropout_draws_one_mask_a_step(void **state) {
    (void)state;
    const setting plain = {.poison = true};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    double before[4000];
    net n;
    steps s;
    net_open(&n, TN_FLOAT64, 1);
    tn_tensor_id w = net_param(&n, "w", 1, NET_SHAPE(40, 100));
    for (int i = 0; i < 4000; i++) n.contents[w][i] = 1;
    net_attr_float(&n, "ratio", 0.3);
    n.version = 10;
    net_output(&n, net_op(&n, "Dropout", NET_LIST(w)));
    options.loss = TN_LOSS_MEAN_SQUARED;
    options.optimizer = TN_OPTIMIZER_NONE;
    options.keep_outputs = true;
    steps_open(&s, &n, &options, &plain);
    double *labels = steps_draw_labels(&s, 1);
    for (s.step = 0; s.step < 2; s.step++) {
        uint32_t dropped = 0, same = 0;
        steps_run(&s);
        const double *y = steps_output(&s, tn_graph_block(n.graph, 0)->outputs[0])->data;
        const double *dw = steps_output(&s, s.training.parameters[0].gradient)->data;
        for (int i = 0; i < 4000; i++) {
            bool drops = y[i] == 0;
            dropped += drops;
            assert_true(drops || fabs(y[i] - 1 / 0.7) < 1e-12);
            double expected = drops ? 0 : 2 * (y[i] - labels[i]) / 4000 / 0.7;
            assert_true(fabs(dw[i] - expected) < 1e-12);
            same += s.step == 1 && before[i] == y[i];
            before[i] = y[i];
        }
        assert_true(dropped > 1050 && dropped < 1350);
        assert_true(same < 2600); /* 0.58 by chance */
    }
    free(labels);
    steps_close(&s);
    net_close(&n);
}

/* Every allocation fails once: nothing leaks, nothing is handed out. */
static void running_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training = {0};
    tn_status status = TN_E_NO_MEMORY;
    tn_error error;
    net n;
    net_open(&n, TN_FLOAT32, 2);
    tn_graph_destroy(n.graph);
    assert_int_equal(tn_graph_create(&context, &n.graph, &error), TN_OK);
    net_output(&n, cnn(&n));
    size_t before = memory.held;
    options.optimizer = TN_OPTIMIZER_ADAM;
    options.fuse_update = true;
    options.micro_batches = 2;
    for (uint64_t at = 1; status != TN_OK; at++) {
        memory.requests = 0;
        memory.fail_at = at;
        status = tn_train(n.graph, &options, &training, &error);
        memory.fail_at = 0;
        if (status == TN_OK) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(memory.held, before);
        assert_null(training.graph);
    }
    tn_training_release(&training);
    assert_int_equal(memory.held, before);
    net_close(&n);
    assert_int_equal(memory.held, 0);
}

static void what_cannot_be_trained_is_refused(void **state) {
    (void)state;
    static const char *const nobody[] = {"no such *"}, *const all[] = {"*"};
    const setting plain = {0};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    tn_error error;
    steps s;
    net n;
    net_open(&n, TN_FLOAT32, 2);
    net_output(&n, net_op(&n, "Relu", NET_LIST(mlp(&n))));
    options.freeze = nobody;
    options.freeze_count = 1;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "no such *"));
    options.freeze = all;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_INVALID);
    options.freeze_count = 0;
    options.output = 1;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_INVALID);
    options.output = 0;
    options.momentum = 1.5;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_INVALID);
    options.momentum = 0;
    options.loss = TN_LOSS_OUTPUT;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_INVALID);
    options.loss = TN_LOSS_CROSS_ENTROPY;
    steps_open(&s, &n, &options, &plain);
    double labels[] = {0, 1, 2, 3, 4, 0}; /* there are 4 classes */
    s.labels = labels;
    assert_int_equal(steps_try(&s), TN_E_INVALID);
    assert_non_null(strstr(s.error.message, "label 4 is class 4"));
    steps_close(&s);
    net_close(&n);
    net_open(&n, TN_FLOAT32, 2);
    tn_tensor_id w = net_param(&n, "w", 1, NET_SHAPE(3, 3));
    net_output(&n, net_op(&n, "Det", NET_LIST(w)));
    options.loss = TN_LOSS_OUTPUT;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.where, "Det"));
    net_close(&n);
}

static void losses_and_optimizers_are_found_by_the_names_that_they_tell(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TN_LOSS_COUNT; i++) {
        assert_int_equal(tn_loss_find(tn_loss_name((tn_loss)i)), i);
        assert_true(strlen(tn_loss_summary((tn_loss)i)) > 0);
    }
    for (uint32_t i = 0; i < TN_OPTIMIZER_COUNT; i++) {
        assert_int_equal(tn_optimizer_find(tn_optimizer_name((tn_optimizer)i)), i);
        assert_true(strlen(tn_optimizer_summary((tn_optimizer)i)) > 0);
    }
    assert_int_equal(tn_loss_find("none of them"), TN_LOSS_COUNT);
    assert_int_equal(tn_optimizer_find(""), TN_OPTIMIZER_COUNT);
    assert_null(tn_loss_name(TN_LOSS_COUNT));
    assert_null(tn_optimizer_summary(TN_OPTIMIZER_COUNT));
}

/* Without options, and with options that name no optimizer, a step is that of --optimizer adam. */
static void the_default_is_the_command_s(void **state) {
    (void)state;
    const tn_train_options unnamed = TN_TRAIN_OPTIONS_INIT, *options[] = {NULL, &unnamed};
    for (int k = 0; k < 2; k++) {
        tn_training training;
        tn_error error;
        net n;
        net_open(&n, TN_FLOAT32, 3);
        net_output(&n, mlp(&n));
        assert_int_equal(tn_train(n.graph, options[k], &training, &error), TN_OK);
        assert_true(training.parameter_count > 0);
        for (uint32_t p = 0; p < training.parameter_count; p++)
            assert_int_not_equal(training.parameters[p].state[1], TN_NONE);
        tn_training_release(&training);
        net_close(&n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_the_command_s),
        cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(the_loss_falls_with_every_optimizer),
        cmocka_unit_test(dropout_draws_one_mask_a_step),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
        cmocka_unit_test(what_cannot_be_trained_is_refused),
        cmocka_unit_test(losses_and_optimizers_are_found_by_the_names_that_they_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
