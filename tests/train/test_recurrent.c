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

/* --- cells that are taken apart --- */

static const char *const curves[] = {"Affine",   "Elu",        "HardSigmoid",    "LeakyRelu",
                                     "Relu",     "ScaledTanh", "Sigmoid",        "Softplus",
                                     "Softsign", "Tanh",       "ThresholdedRelu"};

static uint32_t draw(net *n, uint32_t count) {
    return (uint32_t)tn__random_below(&n->random, count);
}

/* Whatever the operator may be given, drawn: lengths, peepholes, activations with values, clipping,
 * coupled gates, batch first, the reset gate on either side. All outputs count. */
static tn_tensor_id unusual_cell(net *n, const char *type, int64_t gates, uint32_t outputs) {
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    const uint32_t direction = draw(n, 3), each = gates == 4 ? 3 : gates == 3 ? 2 : 1;
    const bool first = draw(n, 2) != 0;
    int64_t d = direction == 2 ? 2 : 1, length = 1 + draw(n, 4), batch = 1 + draw(n, 3), in = 2;
    int64_t hidden = 1 + draw(n, 3);
    const int64_t x[] = {first ? batch : length, first ? length : batch, in};
    const int64_t state[] = {first ? batch : d, first ? d : batch, hidden};
    tn_tensor_id inputs[8] = {net_param(n, "x", 1, 3, x),
                              net_param(n, "w", 0.6, NET_SHAPE(d, gates * hidden, in)),
                              net_param(n, "r", 0.5, NET_SHAPE(d, gates * hidden, hidden)),
                              TN_NONE,
                              TN_NONE,
                              TN_NONE,
                              TN_NONE,
                              TN_NONE};
    if (draw(n, 2)) inputs[3] = net_param(n, "b", 0.5, NET_SHAPE(d, 2 * gates * hidden));
    if (draw(n, 2)) {
        tn_dtype dtype = n->dtype;
        n->dtype = TN_INT32;
        inputs[4] = net_given(n, "lengths", TN_KIND_INPUT, 0, 1, NET_SHAPE(batch));
        n->dtype = dtype;
        for (int64_t k = 0; k < batch; k++)
            n->contents[inputs[4]][k] = 1 + draw(n, (uint32_t)length);
    }
    if (draw(n, 2)) inputs[5] = net_param(n, "h0", 1, 3, state);
    if (gates == 4 && draw(n, 2)) inputs[6] = net_param(n, "c0", 1, 3, state);
    if (gates == 4 && draw(n, 2)) inputs[7] = net_param(n, "p", 0.5, NET_SHAPE(d, 3 * hidden));
    net_attr_int(n, "hidden_size", hidden);
    net_attr_string(n, "direction", directions[direction]);
    net_attr_int(n, "layout", first);
    if (draw(n, 3) == 0) net_attr_float(n, "clip", 0.7);
    if (gates == 4) net_attr_int(n, "input_forget", draw(n, 2));
    if (gates == 3) net_attr_int(n, "linear_before_reset", draw(n, 2));
    const char *names[6];
    static const double alphas[] = {0.6, 0.8, 0.9, 0.7, 0.5, 0.4}, betas[] = {0.4, 0.6, 0.5};
    for (uint32_t k = 0; k < each * (uint32_t)d; k++) names[k] = curves[draw(n, 11)];
    if (draw(n, 2))
        n->attrs[n->attr_count++] = (tn_attr){.name = "activations",
                                              .type = TN_ATTR_STRINGS,
                                              .count = each * (uint32_t)d,
                                              .strings = names};
    n->attrs[n->attr_count++] = (tn_attr){.name = "activation_alpha",
                                          .type = TN_ATTR_FLOATS,
                                          .count = 1 + draw(n, 6),
                                          .floats = alphas};
    n->attrs[n->attr_count++] = (tn_attr){.name = "activation_beta",
                                          .type = TN_ATTR_FLOATS,
                                          .count = 1 + draw(n, 3),
                                          .floats = betas};
    tn_tensor_id y[3], sum = TN_NONE;
    net_ops(n, type, gates == 4 ? 8 : 6, inputs, outputs, y);
    for (uint32_t k = 0; k < outputs; k++) {
        const int64_t row[] = {1, -1}, count = d * batch * hidden * (k == 0 ? length : 1);
        tn_tensor_id flat = net_op(n, "Reshape", NET_LIST(y[k], net_ints(n, 2, row)));
        tn_tensor_id part =
            net_op(n, "MatMul", NET_LIST(flat, net_param(n, "sum", 1, NET_SHAPE(count, 1))));
        sum = sum == TN_NONE ? part : net_op(n, "Add", NET_LIST(sum, part));
    }
    return sum;
}

static bool has(const net *n, const char *name) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(n->graph); id++)
        if (strcmp(tn_graph_tensor(n->graph, id)->name, name) == 0) return true;
    return false;
}
static bool has_type(const tn_graph *graph, const char *type) {
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        if (strcmp(tn_graph_op(graph, id)->type, type) == 0) return true;
    return false;
}

/* The steps compute what the operator does, and their gradients are those of differences. */
static void cells_are_taken_apart(void **state) {
    static const struct {
        const char *type;
        int64_t gates;
        uint32_t outputs;
    } all[] = {{"LSTM", 4, 3}, {"GRU", 3, 2}, {"RNN", 1, 2}};
    uint32_t apart = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 15; seed++)
        for (size_t i = 0; i < 3; i++) {
            const setting plain = {.poison = true};
            tn_train_options options = TN_TRAIN_OPTIONS_INIT;
            steps s;
            net n;
            net_open(&n, TN_FLOAT64, seed);
            n.version = 22;
            net_output(&n, unusual_cell(&n, all[i].type, all[i].gates, all[i].outputs));
            steps_check_net(&n, TN_LOSS_OUTPUT, 0, all[i].type, seed);
            double loss[2];
            options.loss = TN_LOSS_OUTPUT;
            options.optimizer = TN_OPTIMIZER_NONE;
            for (uint32_t k = 0; k < 2;
                 k++) { /* then with the cell frozen: as the operator it is */
                const char *const frozen[] = {"x", "w", "r", "b", "h0", "c0", "p"};
                const char *present[7];
                options.freeze = present;
                options.freeze_count = 0;
                for (uint32_t f = 0; f < 7 && k == 1; f++)
                    if (has(&n, frozen[f])) present[options.freeze_count++] = frozen[f];
                steps_open(&s, &n, &options, &plain);
                apart += k == 0 && !has_type(s.graph, all[i].type);
                if (k == 1) assert_true(has_type(s.graph, all[i].type));
                loss[k] = steps_run(&s);
                steps_close(&s);
            }
            if (!(fabs(loss[0] - loss[1]) <= 1e-12 * (1 + fabs(loss[1]))))
                fail_msg("%s, seed %llu: %.17g step by step, %.17g at once", all[i].type,
                         (unsigned long long)seed, loss[0], loss[1]);
            net_close(&n);
        }
    assert_true(apart > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstm_goes_backwards),
        cmocka_unit_test(gru_goes_backwards),
        cmocka_unit_test(rnn_goes_backwards),
        cmocka_unit_test(cells_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
