/* nets.h - small networks and samples for tests of several ranks. */
#ifndef TN_TESTS_DIST_NETS_H
#define TN_TESTS_DIST_NETS_H

#include <tenure/train.h>
#include "trainer/kit.h"

/* A net without statistics of the batch: what those do depends on how it is divided. */
static inline void make_net(kit_run *run, uint64_t seed, int64_t batch) {
    tn__random random = {.state = seed};
    kit_begin(run, seed);
    int64_t wide = 3 + (int64_t)tn__random_below(&random, 30);
    tn_tensor_id x = net_input(run->n, TN_FLOAT32, NET_SHAPE(batch, 5)), y = x;
    int64_t from = 5;
    for (uint64_t i = tn__random_below(&random, 4) + 1; i > 0; i--) {
        tn_tensor_id z = net_unary(run->n, "Tanh", net_dense(run->n, y, from, wide));
        y = from == wide ? net_binary(run->n, "Add", y, z) : z;
        from = wide;
    }
    if (net_finish(run->n, x, net_dense(run->n, y, from, 3)) != TN_OK)
        fail_msg("%s", run->n->error.message);
    run->train.optimizer = (tn_optimizer)tn__random_below(&random, TN_OPTIMIZER_NONE);
    run->train.fuse_update = tn__random_below(&random, 2);
    run->train.micro_batches = 1 + (uint32_t)tn__random_below(&random, 2);
    run->train.dynamic_loss_scale = !run->train.fuse_update && tn__random_below(&random, 2);
    run->session.order = tn__random_below(&random, 2) ? "memory" : NULL;
    run->session.poison = tn__random_below(&random, 2);
    run->options.rate = 1e-2;
    run->options.steps = 5;
    run->options.seed = seed;
}

/* Samples of the whole batch, one behind the other; a rank takes those of its part. */
typedef struct samples {
    tn_data *data;
    float x[96 * 5];
    int64_t y[96];
} samples;

static inline void make_samples(samples *made, uint64_t seed) {
    tn__random random = {.state = seed + 1};
    tn_error error;
    for (uint32_t i = 0; i < 96 * 5; i++)
        made->x[i] = (float)tn__random_below(&random, 2000) / 1000 - 1;
    for (uint32_t i = 0; i < 96; i++) made->y[i] = (int64_t)tn__random_below(&random, 3);
    tn_samples train = {
        .samples = {.data = made->x,
                    .bytes = sizeof made->x,
                    .dtype = TN_FLOAT32,
                    .rank = 2,
                    .shape = {96, 5}},
        .labels = {
            .data = made->y, .bytes = sizeof made->y, .dtype = TN_INT64, .rank = 1, .shape = {96}}};
    assert_int_equal(tn_data_create(&train, NULL, NULL, &made->data, &error), TN_OK);
}

#endif
