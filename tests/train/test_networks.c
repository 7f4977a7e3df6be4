/* test_networks.c - the networks of examples/training, by the public calls alone: with each
 * optimizer and each switch, training in the planned arena gives the bits of training with memory
 * of its own for every tensor, finds no poison disturbed, and uses the planned peak to the byte.
 */
#include <tenure/train.h>
#include "support.h"

#include "../../examples/training/networks.h"

#define STEPS 3

static const char *const networks[] = {"residual CNN", "U-Net", "transformer", "LSTM"};
#define NETWORKS (sizeof networks / sizeof *networks)

/* Small, but with every layer of the large one. */
static void build(net *n, size_t network, uint64_t seed) {
    const transformer_size small = {
        .batch = 3, .time = 6, .width = 8, .heads = 2, .depth = 2, .words = 11};
    net_open(n, seed);
    tn_status status = network == 0   ? residual_cnn(n, 3, 12, 4, 5)
                       : network == 1 ? unet(n, 2, 8, 4, 3)
                       : network == 2 ? transformer(n, &small)
                                      : lstm(n, 3, 5, 8, 11);
    if (status != TN_OK)
        fail_msg("%s: %s: %s", networks[network], n->error.where, n->error.message);
}

/* --- one side of a comparison --- */

typedef struct side {
    uint64_t classes;
    bool same; /* one batch again and again */
    tn_trainer *trainer;
    tn_error error;
} side;

static void must(const side *t, tn_status status, const char *what) {
    if (status != TN_OK)
        fail_msg("%s: %s: %s: %s", what, tn_status_name(status), t->error.where, t->error.message);
}

/* --- the switches --- */

typedef struct switches {
    const char *name;
    tn_train_options train;
    tn_session_options session;
} switches;

/* clang-format off */
#define TRAIN(...)   .train = {.struct_size = sizeof(tn_train_options), __VA_ARGS__}
#define SESSION(...) .session = {.struct_size = sizeof(tn_session_options), __VA_ARGS__}
static const switches modes[] = {
    {"plain loops",   TRAIN(.loss_scale = 1), SESSION(.plain = true)},
    {"oneDNN",        TRAIN(.loss_scale = 1), SESSION(.no_rewrite = true)},
    {"channels last", TRAIN(.loss_scale = 1), SESSION(.threads = 1)},
    {"two threads",   TRAIN(.loss_scale = 1), SESSION(.threads = 2)},
    {"order auto",    TRAIN(.loss_scale = 1), SESSION(.order = "auto")},
    {"fused update",  TRAIN(.fuse_update = true), SESSION(.threads = 1)},
    {"recompute",     TRAIN(.loss_scale = 1), SESSION(.recompute = 0.3)},
    {"one block",     TRAIN(.fuse_update = true), SESSION(.statics = TN_STATIC_ARENA)},
    {"micro-batches", TRAIN(.micro_batches = 3), SESSION(.threads = 1)},
    {"frozen",        TRAIN(.freeze_count = 1), SESSION(.threads = 1)},
    {"bfloat16",      TRAIN(.dtype = TN_BFLOAT16), SESSION(.threads = 1)},
    {"float16",       TRAIN(.dtype = TN_FLOAT16, .loss_scale = 64), SESSION(.plain = true)},
    {"adapting",      TRAIN(.dtype = TN_FLOAT16, .dynamic_loss_scale = true),
                      SESSION(.threads = 1)},
    {"all, bfloat16", TRAIN(.fuse_update = true, .dtype = TN_BFLOAT16),
                      SESSION(.order = "auto", .recompute = 5)},
    {"all",           TRAIN(.fuse_update = true, .micro_batches = 2),
                      SESSION(.order = "auto", .recompute = 5)},
};
/* clang-format on */
#define MODES (sizeof modes / sizeof *modes)

/* --- steps --- */

/* Samples and labels that follow from the number of the run. */
static tn_status fill(void *self, bool held_out, uint64_t run, tn_array *samples, tn_array *labels,
                      tn_error *error) {
    const side *t = self;
    uint64_t state = t->same ? 1 : run + 1;
    (void)held_out;
    (void)error;
    for (uint64_t i = 0; i < samples->bytes / (tn_dtype_bits(samples->dtype) / 8); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (samples->dtype == TN_INT64)
            ((int64_t *)samples->data)[i] = (int64_t)((state >> 33) % t->classes);
        else
            ((float *)samples->data)[i] = (float)(state >> 40) / 8388608.0f - 1;
    }
    for (uint64_t i = 0; i < labels->bytes / sizeof(int64_t); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ((int64_t *)labels->data)[i] = (int64_t)((state >> 33) % t->classes);
    }
    return TN_OK;
}

static void open_trainer(side *t, net *n, size_t network, tn_trainer_options options,
                         const tn_train_options *train, tn_session_options session,
                         const char *what) {
    t->classes = network == 0 ? 5 : network == 1 ? 3 : 11;
    session.read = net_read;
    session.self = n;
    options.struct_size = sizeof options;
    options.train = train;
    options.session = &session;
    options.fill = fill;
    options.self = t;
    must(t, tn_trainer_open(n->graph, &options, &t->trainer, &t->error), what);
}

static void open_side(side *t, net *n, size_t network, const switches *mode, tn_optimizer optimizer,
                      bool naive) {
    static const char *const kernels[] = {"kernel.*"}, *const embeddings[] = {"embedding.*"};
    bool pictures = tn_graph_tensor(n->graph, n->input)->dtype == TN_FLOAT32;
    tn_train_options train = mode->train;
    tn_session_options session = mode->session;
    train.optimizer = optimizer;
    if (train.freeze_count > 0) train.freeze = pictures ? kernels : embeddings;
    session.naive = naive;
    session.poison = !naive;
    open_trainer(t, n, network, (tn_trainer_options){.rate = 0.01, .steps = STEPS}, &train, session,
                 mode->name);
}

static void compare_static(side *a, side *b, tn_tensor_id id, const char *what) {
    if (id == TN_NONE) return;
    const tn_tensor *tensor = tn_graph_tensor(tn_trainer_training(a->trainer)->graph, id);
    uint8_t *bytes = calloc(2, tensor->bytes + 1);
    tn_engine *engines[] = {tn_trainer_engine(a->trainer), tn_trainer_engine(b->trainer)};
    assert_non_null(bytes);
    for (int k = 0; k < 2; k++)
        must(a,
             tn_engine_get_static(engines[k], id, bytes + (size_t)k * tensor->bytes, tensor->bytes,
                                  &a->error),
             what);
    if (memcmp(bytes, bytes + tensor->bytes, tensor->bytes) != 0)
        fail_msg("%s: '%s' differs", what, tensor->name);
    free(bytes);
}

static void compare_all(side *a, side *b, const char *what) {
    const tn_training *training = tn_trainer_training(a->trainer);
    for (uint32_t i = 0; i < training->parameter_count; i++) {
        const tn_trained *trained = &training->parameters[i];
        compare_static(a, b, trained->parameter, what);
        compare_static(a, b, trained->state[0], what);
        compare_static(a, b, trained->state[1], what);
        compare_static(a, b, trained->sum, what);
    }
    compare_static(a, b, training->loss_scale, what);
    for (uint32_t i = 0; i < training->statistic_count; i++)
        compare_static(a, b, training->statistics[i], what);
}

static void check(size_t network, const switches *mode, tn_optimizer optimizer) {
    char what[200];
    snprintf(what, sizeof what, "%s, %s, %s", networks[network], tn_optimizer_name(optimizer),
             mode->name);
    net *n = calloc(1, sizeof *n);
    side planned = {0}, naive = {0};
    tn_engine_usage usage, without;
    assert_non_null(n);
    build(n, network, 5);
    open_side(&planned, n, network, mode, optimizer, false);
    open_side(&naive, n, network, mode, optimizer, true);
    for (uint32_t step = 0; step < STEPS; step++) {
        must(&planned, tn_trainer_step(planned.trainer, &planned.error), what);
        must(&naive, tn_trainer_step(naive.trainer, &naive.error), what);
        double a = tn_trainer_at(planned.trainer)->loss, b = tn_trainer_at(naive.trainer)->loss;
        if (memcmp(&a, &b, sizeof a) != 0)
            fail_msg("%s: loss %u is %.9g, without reuse %.9g", what, step, a, b);
        assert_true(isfinite(a));
    }
    compare_all(&planned, &naive, what);
    tn_engine_measure(tn_trainer_engine(planned.trainer), &usage);
    tn_engine_measure(tn_trainer_engine(naive.trainer), &without);
    if (usage.measured_peak != usage.planned_peak || usage.arena != usage.planned_peak)
        fail_msg("%s: planned %llu bytes, taken %llu, used %llu", what,
                 (unsigned long long)usage.planned_peak, (unsigned long long)usage.arena,
                 (unsigned long long)usage.measured_peak);
    assert_true(usage.planned_peak < without.planned_peak); /* or nothing was compared */
    tn_trainer_destroy(planned.trainer);
    tn_trainer_destroy(naive.trainer);
    net_close(n);
    free(n);
}

static void every_switch_gives_the_bits_of_training_without_reuse(void **state) {
    (void)state;
    for (size_t network = 0; network < NETWORKS; network++)
        for (size_t m = 0; m < MODES; m++) check(network, &modes[m], TN_OPTIMIZER_ADAM);
}

static void every_optimizer_gives_the_bits_of_training_without_reuse(void **state) {
    (void)state;
    for (size_t network = 0; network < NETWORKS; network++)
        for (int optimizer = 0; optimizer < TN_OPTIMIZER_NONE; optimizer++) {
            check(network, &modes[0], (tn_optimizer)optimizer);
            check(network, &modes[2], (tn_optimizer)optimizer);
            check(network, &modes[MODES - 1], (tn_optimizer)optimizer);
        }
}

/* One batch again and again is learnt by heart. */
static void every_network_learns(void **state) {
    (void)state;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_session_options session = TN_SESSION_OPTIONS_INIT;
    train.optimizer = TN_OPTIMIZER_ADAM;
    for (size_t network = 0; network < NETWORKS; network++) {
        net *n = calloc(1, sizeof *n);
        side t = {.same = true};
        assert_non_null(n);
        build(n, network, 6);
        open_trainer(&t, n, network, (tn_trainer_options){.rate = 0.01, .steps = 80}, &train,
                     session, networks[network]);
        must(&t, tn_trainer_step(t.trainer, &t.error), networks[network]);
        double first = tn_trainer_at(t.trainer)->loss;
        must(&t, tn_trainer_run(t.trainer, &t.error), networks[network]);
        double last = tn_trainer_at(t.trainer)->loss;
        if (!(last < first / 2)) fail_msg("%s: from %g to %g", networks[network], first, last);
        tn_trainer_destroy(t.trainer);
        net_close(n);
        free(n);
    }
}

/* The model in inference has the loss and the right answers of the training graph on the same batch
 * (where no normalisation is another one in training). */
static void a_test_agrees_with_the_loss(void **state) {
    (void)state;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_session_options session = TN_SESSION_OPTIONS_INIT;
    train.optimizer = TN_OPTIMIZER_SGD;
    for (size_t network = 2; network < NETWORKS; network++) {
        net *n = calloc(1, sizeof *n);
        side t = {.same = true};
        tn_trainer_score score = {0};
        const tn_trainer_options still = {.rate = -1, .steps = 1, .test_batches = 1};
        assert_non_null(n);
        build(n, network, 7);
        open_trainer(&t, n, network, still, &train, session, networks[network]);
        must(&t, tn_trainer_run(t.trainer, &t.error), networks[network]);
        must(&t, tn_trainer_test(t.trainer, &score, &t.error), networks[network]);
        const tn_trainer_state *at = tn_trainer_at(t.trainer);
        assert_true(fabs(score.loss - at->loss) < 1e-5 * fabs(at->loss));
        assert_true(fabs(score.accuracy * (double)score.labels - (double)at->correct) < 1e-6);
        tn_trainer_destroy(t.trainer);
        net_close(n);
        free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_switch_gives_the_bits_of_training_without_reuse),
        cmocka_unit_test(every_optimizer_gives_the_bits_of_training_without_reuse),
        cmocka_unit_test(every_network_learns),
        cmocka_unit_test(a_test_agrees_with_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
