/* drawn.h - networks drawn at random with all that a step of training may have, trained for three
 * steps: the numbers that they leave, to be compared bit by bit.
 */
#ifndef TN_TESTS_TRAIN_DRAWN_H
#define TN_TESTS_TRAIN_DRAWN_H

#include "steps.h"

/* --- networks --- */

/* An image of so many channels, made of those there are: what recomputation meets in networks. */
static inline tn_tensor_id draw_layer(net *n, tn_tensor_id *made, uint32_t count,
                                      int64_t channels) {
    static const char *const each[] = {"Relu", "Sigmoid", "Tanh", "Softplus", "Elu", "Neg"};
    static const int64_t kernel[] = {3, 3}, ones[] = {1, 1, 1, 1};
    tn_tensor_id x = made[tn__random_below(&n->random, count)];
    tn_tensor_id y = made[count - 1 - tn__random_below(&n->random, count < 4 ? count : 4)];
    switch (tn__random_below(&n->random, 9)) {
    case 0:
    case 1:
        return net_op(n, each[tn__random_below(&n->random, 6)], NET_LIST(y));
    case 2:
        return net_batch_norm(n, net_conv(n, y, channels, channels, 3, 1, false), channels);
    case 3:
        return net_conv(n, y, channels, channels, 1, 1, true);
    case 4:
        return net_op(n, "Relu", NET_LIST(net_batch_norm(n, y, channels)));
    case 5:
        return net_op(n, "Add", NET_LIST(x, y));
    case 6:
        net_attr_int(n, "axis", 1);
        return net_conv(n, net_op(n, "Concat", NET_LIST(x, y)), 2 * channels, channels, 1, 1, true);
    case 7:
        net_attr_ints(n, "kernel_shape", 2, kernel);
        net_attr_ints(n, "pads", 4, ones);
        return net_op(n, "MaxPool", NET_LIST(y));
    default: {
        static const int64_t lines[] = {0, 0, -1}, image[] = {0, 0, 6, 6};
        tn_tensor_id flat = net_op(n, "Reshape", NET_LIST(y, net_ints(n, 3, lines)));
        net_attr_int(n, "axis", 2);
        flat = net_op(n, "Softmax", NET_LIST(flat));
        flat = net_op(n, "Dropout", NET_LIST(flat));
        return net_op(n, "Reshape", NET_LIST(flat, net_ints(n, 4, image)));
    }
    }
}

static inline void draw_net(net *n, uint64_t seed) {
    const int64_t channels = 4;
    tn_tensor_id made[32];
    uint32_t count = 1;
    net_open(n, TN_FLOAT32, seed);
    made[0] = net_conv(n, net_input(n, "x", NET_SHAPE(3, 2, 6, 6)), 2, channels, 3, 1, true);
    for (uint32_t layers = 6 + (uint32_t)tn__random_below(&n->random, 14); layers > 0; layers--) {
        made[count] = draw_layer(n, made, count, channels);
        count++;
    }
    tn_tensor_id sum = made[count - 1];
    for (uint32_t i = 0; i + 1 < count; i += 5) sum = net_op(n, "Add", NET_LIST(sum, made[i]));
    tn_tensor_id x = net_op(n, "GlobalAveragePool", NET_LIST(sum));
    net_output(n, net_dense(n, net_op(n, "Flatten", NET_LIST(x)), channels, 3));
}

/* --- what a run leaves --- */

typedef struct left {
    double numbers[8000];
    size_t count;
    tn_recompute_report report;
    uint64_t peak;     /* of the plan */
    uint32_t bits;     /* operators that read a mask that was kept */
    uint32_t by_other; /* of those that run twice */
    uint32_t again;    /* operators that run again, to fit */
} left;

static inline void keep(steps *s, tn_tensor_id id, left *to) {
    uint64_t count;
    if (id == TN_NONE) return;
    double *numbers = steps_static(s, id, &count);
    assert_true(to->count + count < sizeof to->numbers / sizeof *to->numbers);
    memcpy(to->numbers + to->count, numbers, count * sizeof *numbers);
    to->count += count;
    free(numbers);
}

static inline void train(uint64_t seed, const tn_train_options *options, const setting *how,
                         left *to) {
    uint32_t micro = options->micro_batches > 1 ? options->micro_batches : 1;
    net n;
    steps s;
    draw_net(&n, seed);
    steps_open(&s, &n, options, how);
    double *labels = steps_draw_labels(&s, 3);
    memset(to, 0, sizeof *to);
    for (s.step = 0; s.step < 3; s.step++)
        for (s.micro = 0; s.micro < micro; s.micro++) to->numbers[to->count++] = steps_run(&s);
    for (uint32_t i = 0; i < s.training.parameter_count; i++) {
        keep(&s, s.training.parameters[i].parameter, to);
        keep(&s, s.training.parameters[i].state[0], to);
    }
    for (uint32_t i = 0; i < s.training.statistic_count; i++)
        keep(&s, s.training.statistics[i], to);
    tn_engine_usage usage;
    tn_engine_measure(s.engine, &usage);
    if (!how->naive && how->pool == NULL) assert_int_equal(usage.measured_peak, usage.planned_peak);
    if (how->recompute > 0) to->report = *tn_setup_recomputed(s.setup);
    to->by_other = s.by_other;
    for (uint32_t i = 0; i < tn_program_count(tn_setup_program(s.setup)); i++)
        to->again += tn_program_instructions(tn_setup_program(s.setup))[i].again;
    to->peak = tn_setup_layout(s.setup)->peak;
    for (tn_op_id id = 0; id < tn_graph_op_count(s.graph); id++)
        to->bits += strcmp(tn_graph_op(s.graph, id)->type, "DropoutBits") == 0;
    free(labels);
    steps_close(&s);
    net_close(&n);
}

static inline void same(const left *expected, const left *got, const char *what, uint64_t seed) {
    assert_int_equal(expected->count, got->count);
    for (size_t i = 0; i < got->count; i++)
        if (memcmp(&got->numbers[i], &expected->numbers[i], sizeof(double)) != 0)
            fail_msg("%s, seed %llu: number %zu is %.9g, not %.9g", what, (unsigned long long)seed,
                     i, got->numbers[i], expected->numbers[i]);
}

#endif
