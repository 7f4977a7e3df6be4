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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(the_loss_falls_with_every_optimizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
