/* kit.h - small models and runs of them for tests of the trainer, by the public calls alone. */
#ifndef TN_TESTS_TRAINER_KIT_H
#define TN_TESTS_TRAINER_KIT_H

#include <tenure/train.h>
#include "support.h"

#include <glob.h>
#include <unistd.h>

#include "../../examples/training/net.h"
#include "base/base.h"

/* --- a folder that goes when the test does --- */

static char kit_folder[] = "/tmp/tenure-trainer-XXXXXX";

static inline int kit_enter(void **state) {
    (void)state;
    return mkdtemp(kit_folder) == NULL;
}

static inline const char *kit_path(const char *name) {
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", kit_folder, name);
    return path;
}

static inline size_t kit_count(const char *pattern) {
    glob_t found;
    size_t count = glob(kit_path(pattern), 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static inline int kit_leave(void **state) {
    glob_t found;
    (void)state;
    if (glob(kit_path("*"), 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
    return rmdir(kit_folder);
}

/* --- runs --- */

typedef struct kit_run {
    net *n;
    tn_train_options train;
    tn_session_options session;
    tn_trainer_options options;
    tn_trainer *trainer;
    tn_error error;
} kit_run;

#define kit_must(run, call)                                                                        \
    do {                                                                                           \
        tn_status kit_status = (call);                                                             \
        if (kit_status != TN_OK)                                                                   \
            fail_msg("%s: %s: %s: %s", #call, tn_status_name(kit_status), (run)->error.where,      \
                     (run)->error.message);                                                        \
    } while (0)

/* Contents of inputs follow from the number of the batch; labels are small class numbers. */
static inline tn_status kit_fill(void *self, bool held_out, uint64_t number, tn_array *samples,
                                 tn_array *labels, tn_error *error) {
    tn__random random = {.state = 2 * number + held_out};
    (void)self;
    (void)error;
    for (uint64_t i = 0; i < samples->bytes / sizeof(float); i++)
        ((float *)samples->data)[i] = (float)tn__random_below(&random, 2000) / 1000 - 1;
    for (uint64_t i = 0; labels != NULL && i < labels->bytes / sizeof(int64_t); i++)
        ((int64_t *)labels->data)[i] = (int64_t)tn__random_below(&random, 3);
    return TN_OK;
}

/* An opened net, and options to train it. */
static inline void kit_begin(kit_run *run, uint64_t seed) {
    *run = (kit_run){.n = calloc(1, sizeof(net)),
                     .train = TN_TRAIN_OPTIONS_INIT,
                     .session = TN_SESSION_OPTIONS_INIT,
                     .options = TN_TRAINER_OPTIONS_INIT};
    assert_non_null(run->n);
    net_open(run->n, seed);
    run->session.read = net_read;
    run->session.self = run->n;
    run->session.plain = true;
    run->options.fill = kit_fill;
    run->options.steps = 10;
}

static inline tn_status kit_open(kit_run *run) {
    run->options.train = &run->train;
    run->options.session = &run->session;
    return tn_trainer_open(run->n->graph, &run->options, &run->trainer, &run->error);
}

static inline void kit_end(kit_run *run) {
    tn_trainer_destroy(run->trainer);
    net_close(run->n);
    free(run->n);
}

/* Four samples of five numbers to scores of three classes, with a normalisation, whose running
 * statistics are kept, too. */
static inline void kit_classes(kit_run *run, uint64_t seed) {
    kit_begin(run, seed);
    tn_tensor_id x = net_input(run->n, TN_FLOAT32, NET_SHAPE(4, 5));
    tn_tensor_id y = net_dense(run->n, x, 5, 6);
    y = net_unary(run->n, "Relu", net_batch_norm(run->n, y, 6));
    if (net_finish(run->n, x, net_dense(run->n, y, 6, 3)) != TN_OK)
        fail_msg("%s", run->n->error.message);
}

/* Parameters of random ranks and extents; the loss is a number times the sum of all squares. */
static inline void kit_tensors(kit_run *run, uint64_t shape_seed, uint64_t seed) {
    tn__random random = {.state = shape_seed};
    tn_tensor_id sum = TN_NONE;
    kit_begin(run, seed);
    tn_tensor_id x = net_input(run->n, TN_FLOAT32, 0, NULL);
    for (uint64_t i = tn__random_below(&random, 6) + 1; i > 0; i--) {
        int64_t shape[4];
        uint32_t rank = (uint32_t)tn__random_below(&random, 5);
        for (uint32_t d = 0; d < rank; d++) shape[d] = 1 + (int64_t)tn__random_below(&random, 4);
        tn_tensor_id p = net_param(run->n, "block.p", 0, 1, rank, shape);
        tn_tensor_id squares = net_binary(run->n, "Mul", p, p);
        tn_tensor_id one = net_op(run->n, (tn_op_spec){.type = "ReduceSum",
                                                       NET_INPUTS(squares),
                                                       NET_ATTRS(NET_INT("keepdims", 0))});
        sum = sum == TN_NONE ? one : net_binary(run->n, "Add", sum, one);
    }
    if (net_finish(run->n, x, net_binary(run->n, "Mul", sum, x)) != TN_OK)
        fail_msg("%s", run->n->error.message);
    run->train.loss = TN_LOSS_OUTPUT;
    run->train.optimizer = (tn_optimizer)tn__random_below(&random, TN_OPTIMIZER_NONE);
    run->train.dynamic_loss_scale = tn__random_below(&random, 2);
    run->train.micro_batches = 1 + (uint32_t)tn__random_below(&random, 2);
}

#endif
