/* test_recurrent.c - backward through time: gradients of LSTM, GRU and RNN by input, weights,
 * biases and states, in one and both directions, against finite differences in double.
 */
#include "steps.h"

/* All outputs of a cell count: squares of each, added up. */
static void check(const char *type, int64_t gates, uint32_t outputs, const char *direction,
                  bool states, const char *activation, uint64_t seed) {
    net n;
    net_open(&n, TN_FLOAT64, seed);
    int64_t d = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    int64_t length = 1 + (int64_t)tn__random_below(&n.random, 4), batch = 2, in = 3;
    int64_t hidden = 1 + (int64_t)tn__random_below(&n.random, 70);
    tn_tensor_id inputs[7] = {net_param(&n, "x", 1, NET_SHAPE(length, batch, in)),
                              net_param(&n, "w", 0.6, NET_SHAPE(d, gates * hidden, in)),
                              net_param(&n, "r", 0.3, NET_SHAPE(d, gates * hidden, hidden)),
                              net_param(&n, "b", 0.5, NET_SHAPE(d, 2 * gates * hidden)),
                              TN_NONE,
                              TN_NONE,
                              TN_NONE};
    if (states) inputs[5] = net_param(&n, "h0", 1, NET_SHAPE(d, batch, hidden));
    if (states) inputs[6] = net_param(&n, "c0", 1, NET_SHAPE(d, batch, hidden));
    tn_tensor_id y[3];
    net_attr_int(&n, "hidden_size", hidden);
    net_attr_string(&n, "direction", direction);
    net_attr_int(&n, "linear_before_reset", 1);
    if (strcmp(type, "GRU") != 0) n.attr_count--;
    const char *both[] = {activation, activation};
    if (activation != NULL)
        n.attrs[n.attr_count++] = (tn_attr){
            .name = "activations", .type = TN_ATTR_STRINGS, .count = (uint32_t)d, .strings = both};
    net_ops(&n, type, outputs == 3 ? 7 : 6, inputs, outputs, y);
    for (uint32_t k = 0; k < outputs; k++) {
        const int64_t flat[] = {-1};
        y[k] = net_op(&n, "Reshape", NET_LIST(y[k], net_ints(&n, 1, flat)));
    }
    /* [steps, d, batch, hidden] and [d, batch, hidden] against weights of their own */
    tn_tensor_id sum = TN_NONE;
    for (uint32_t k = 0; k < outputs; k++) {
        int64_t count = d * batch * hidden * (k == 0 ? length : 1);
        const int64_t row[] = {1, -1};
        tn_tensor_id flat = net_op(&n, "Reshape", NET_LIST(y[k], net_ints(&n, 2, row)));
        tn_tensor_id part =
            net_op(&n, "MatMul", NET_LIST(flat, net_param(&n, "sum", 1, NET_SHAPE(count, 1))));
        sum = sum == TN_NONE ? part : net_op(&n, "Add", NET_LIST(sum, part));
    }
    net_output(&n, sum);
    steps_check_net(&n, TN_LOSS_OUTPUT, 0, type, seed);
    net_close(&n);
}

static void cells_go_backwards(const char *type, int64_t gates, uint32_t outputs) {
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    for (uint64_t seed = 1; seed <= 2; seed++)
        for (int k = 0; k < 3; k++)
            check(type, gates, outputs, directions[k], seed == 1, NULL, seed * 10 + (uint64_t)k);
}

static void lstm_goes_backwards(void **state) {
    (void)state;
    cells_go_backwards("LSTM", 4, 3);
}
static void gru_goes_backwards(void **state) {
    (void)state;
    cells_go_backwards("GRU", 3, 2);
}
static void rnn_goes_backwards(void **state) {
    (void)state;
    cells_go_backwards("RNN", 1, 2);
    check("RNN", 1, 2, "bidirectional", true, "Relu", 7);
}

/* What has no gradient says so. */
static void other_cells_are_refused(void **state) {
    (void)state;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_training training;
    tn_error error;
    tn_tensor_id y;
    net n;
    net_open(&n, TN_FLOAT32, 1);
    tn_tensor_id inputs[] = {net_param(&n, "x", 1, NET_SHAPE(2, 1, 3)),
                             net_param(&n, "w", 1, NET_SHAPE(1, 12, 3)),
                             net_param(&n, "r", 1, NET_SHAPE(1, 12, 4))};
    net_attr_int(&n, "hidden_size", 4);
    net_ops(&n, "GRU", 3, inputs, 1, &y);
    net_output(&n, y);
    options.loss = TN_LOSS_MEAN_SQUARED;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "linear_before_reset"));
    assert_non_null(strstr(error.where, "GRU_0"));
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstm_goes_backwards),
        cmocka_unit_test(gru_goes_backwards),
        cmocka_unit_test(rnn_goes_backwards),
        cmocka_unit_test(other_cells_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
