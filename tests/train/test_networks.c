/* test_networks.c - the networks of examples/training, by the public calls alone: with each
 * optimizer and each switch, training in the planned arena gives the bits of training with memory
 * of its own for every tensor, finds no poison disturbed, and uses the planned peak to the byte.
 */
#include "support.h"

#include "../../examples/training/networks.h"
#include "../../examples/training/trainer.h"

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

static void must(const trainer *t, tn_status status, const char *what) {
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
static void fill(trainer *t, uint64_t run, int64_t classes) {
    tn_array *samples = trainer_samples(t), *labels = trainer_labels(t);
    uint64_t state = run + 1;
    for (uint64_t i = 0; i < samples->bytes / (tn_dtype_bits(samples->dtype) / 8); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (samples->dtype == TN_INT64)
            ((int64_t *)samples->data)[i] = (int64_t)(state >> 33) % classes;
        else
            ((float *)samples->data)[i] = (float)(state >> 40) / 8388608.0f - 1;
    }
    for (uint64_t i = 0; i < labels->bytes / sizeof(int64_t); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ((int64_t *)labels->data)[i] = (int64_t)(state >> 33) % classes;
    }
}

static void open_side(trainer *t, net *n, const switches *mode, tn_optimizer optimizer,
                      bool naive) {
    static const char *const kernels[] = {"kernel.*"}, *const embeddings[] = {"embedding.*"};
    bool pictures = tn_graph_tensor(n->graph, n->input)->dtype == TN_FLOAT32;
    tn_train_options train = mode->train;
    tn_session_options session = mode->session;
    train.optimizer = optimizer;
    if (train.freeze_count > 0) train.freeze = pictures ? kernels : embeddings;
    session.naive = naive;
    session.poison = !naive;
    must(t, trainer_open(t, n, &train, &session), mode->name);
}

static void compare_static(trainer *a, trainer *b, tn_tensor_id id, const char *what) {
    if (id == TN_NONE) return;
    const tn_tensor *tensor = tn_graph_tensor(a->training.graph, id);
    uint8_t *bytes = calloc(2, tensor->bytes + 1);
    tn_engine *engines[] = {tn_session_engine(a->session), tn_session_engine(b->session)};
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

static void compare_all(trainer *a, trainer *b, const char *what) {
    for (uint32_t i = 0; i < a->training.parameter_count; i++) {
        const tn_trained *trained = &a->training.parameters[i];
        compare_static(a, b, trained->parameter, what);
        compare_static(a, b, trained->state[0], what);
        compare_static(a, b, trained->state[1], what);
        compare_static(a, b, trained->sum, what);
    }
    compare_static(a, b, a->training.loss_scale, what);
    for (uint32_t i = 0; i < a->training.statistic_count; i++)
        compare_static(a, b, a->training.statistics[i], what);
}

static void check(size_t network, const switches *mode, tn_optimizer optimizer) {
    char what[200];
    snprintf(what, sizeof what, "%s, %s, %s", networks[network], tn_optimizer_name(optimizer),
             mode->name);
    net *n = calloc(1, sizeof *n);
    trainer planned, naive;
    uint32_t micro = mode->train.micro_batches > 0 ? mode->train.micro_batches : 1;
    tn_engine_usage usage, without;
    assert_non_null(n);
    build(n, network, 5);
    open_side(&planned, n, mode, optimizer, false);
    open_side(&naive, n, mode, optimizer, true);
    for (uint32_t run = 0; run < STEPS * micro; run++) {
        float a, b;
        planned.step = naive.step = run / micro;
        fill(&planned, run, network == 0 ? 5 : network == 1 ? 3 : 11);
        fill(&naive, run, network == 0 ? 5 : network == 1 ? 3 : 11);
        must(&planned, trainer_run(&planned, 0.01f, run % micro, &a), what);
        must(&naive, trainer_run(&naive, 0.01f, run % micro, &b), what);
        if (memcmp(&a, &b, sizeof a) != 0)
            fail_msg("%s: loss %u is %.9g, without reuse %.9g", what, run, (double)a, (double)b);
        assert_true(isfinite(a));
    }
    compare_all(&planned, &naive, what);
    tn_engine_measure(tn_session_engine(planned.session), &usage);
    tn_engine_measure(tn_session_engine(naive.session), &without);
    if (usage.measured_peak != usage.planned_peak || usage.arena != usage.planned_peak)
        fail_msg("%s: planned %llu bytes, taken %llu, used %llu", what,
                 (unsigned long long)usage.planned_peak, (unsigned long long)usage.arena,
                 (unsigned long long)usage.measured_peak);
    assert_true(usage.planned_peak < without.planned_peak); /* or nothing was compared */
    trainer_close(&planned);
    trainer_close(&naive);
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
    train.optimizer = TN_OPTIMIZER_ADAM;
    for (size_t network = 0; network < NETWORKS; network++) {
        net *n = calloc(1, sizeof *n);
        trainer t;
        float first = 0, last = 0;
        assert_non_null(n);
        build(n, network, 6);
        must(&t, trainer_open(&t, n, &train, NULL), networks[network]);
        fill(&t, 1, network == 0 ? 5 : network == 1 ? 3 : 11);
        for (t.step = 0; t.step < 80; t.step++)
            must(&t, trainer_run(&t, 0.01f, 0, t.step == 0 ? &first : &last), networks[network]);
        if (!(last < first / 2))
            fail_msg("%s: from %g to %g", networks[network], (double)first, (double)last);
        trainer_close(&t);
        net_close(n);
        free(n);
    }
}

/* The model in inference, judged by trainer_judge, has the loss and the right answers of the
 * training graph on the same batch (where no normalisation is another one in training). */
static void the_judge_agrees_with_the_loss(void **state) {
    (void)state;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    train.optimizer = TN_OPTIMIZER_SGD;
    for (size_t network = 2; network < NETWORKS; network++) {
        net *n = calloc(1, sizeof *n);
        trainer t;
        trainer_score score = {0};
        tn_session *model;
        float loss;
        assert_non_null(n);
        build(n, network, 7);
        must(&t, trainer_open(&t, n, &train, NULL), networks[network]);
        fill(&t, 3, 11);
        must(&t, trainer_run(&t, 0, 0, &loss), networks[network]); /* a rate of 0 changes nothing */
        must(&t, trainer_open_model(&t, &model), networks[network]);
        memcpy(tn_session_array(model, n->input)->data, trainer_samples(&t)->data,
               trainer_samples(&t)->bytes);
        must(&t, tn_session_run(model, &t.error), networks[network]);
        const tn_array *labels = trainer_labels(&t);
        uint64_t count = labels->bytes / sizeof(int64_t);
        trainer_judge(tn_session_array(model, n->output), (const int64_t *)labels->data, count,
                      &score);
        int64_t correct;
        memcpy(&correct, tn_session_array(t.session, t.training.correct)->data, sizeof correct);
        assert_true(fabs(score.loss - (double)loss) < 1e-5 * fabs((double)loss));
        assert_true(fabs(score.accuracy * (double)count - (double)correct) < 1e-6);
        tn_session_close(model);
        trainer_close(&t);
        net_close(n);
        free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_switch_gives_the_bits_of_training_without_reuse),
        cmocka_unit_test(every_optimizer_gives_the_bits_of_training_without_reuse),
        cmocka_unit_test(every_network_learns),
        cmocka_unit_test(the_judge_agrees_with_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
