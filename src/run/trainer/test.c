/* test.c - scores a trained model on the test samples. */
#include <math.h>

#include "run/trainer/trainer.h"

typedef struct test_sums {
    double loss; /* nats, over labels */
    uint64_t right, seen;
} test_sums;

/* Compares the scores of each sample or position with its label. */
static void test_judge(const tn_array *scores, const tn_array *labels, uint64_t label_count,
                       test_sums *sums) {
    uint32_t axis = tn_loss_axis(scores->rank, scores->shape);
    uint64_t classes = (uint64_t)scores->shape[axis], inner = 1;
    for (uint32_t d = axis + 1; d < scores->rank; d++) inner *= (uint64_t)scores->shape[d];
    const float *values = scores->data;
    for (uint64_t i = 0; i < label_count; i++) {
        const float *at = values + (i / inner) * classes * inner + i % inner;
        uint64_t best = 0, label = (uint64_t)((const int64_t *)labels->data)[i];
        double sum = 0;
        for (uint64_t c = 1; c < classes; c++)
            if (at[c * inner] > at[best * inner]) best = c;
        for (uint64_t c = 0; c < classes; c++)
            sum += exp((double)at[c * inner] - (double)at[best * inner]);
        sums->right += best == label;
        if (label < classes) /* out of range: counts as wrong elsewhere */
            sums->loss += log(sum) + (double)at[best * inner] - (double)at[label * inner];
    }
    sums->seen += label_count;
}

static uint64_t test_count(const tn_trainer *trainer) {
    if (!trainer->scored || trainer->rounds[0].samples == TN_NONE ||
        trainer->rounds[0].labels == TN_NONE)
        return 0;
    return trainer->batches != NULL ? tn_batches_test_count(trainer->batches)
                                    : trainer->options.test_batches;
}

bool tn_trainer_tests(const tn_trainer *trainer) { return test_count(trainer) > 0; }

/* *real: how many of its samples are not padding. */
static tn_status test_fill(tn_trainer *trainer, uint64_t number, uint64_t *real, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    tn_array *samples = &trainer->inputs[trainer->rounds[0].samples];
    tn_array *labels = &trainer->inputs[trainer->rounds[0].labels];
    *real = trainer->state.batch;
    if (trainer->batches == NULL)
        return options->fill(options->self, true, number, samples, labels, error);
    *real = tn_batches_fill_test(trainer->batches, number, samples, labels);
    return TN_OK;
}

static tn_status test_batches(tn_trainer *trainer, const tn_graph *graph, tn_engine *engine,
                              tn_array *outputs, test_sums *sums, tn_error *error) {
    uint32_t output_count = tn_graph_block(graph, 0)->output_count;
    for (uint64_t number = 0; number < test_count(trainer); number++) {
        uint64_t real;
        TN_TRY(test_fill(trainer, number, &real, error));
        tn__trainer_reset(graph, outputs);
        TN_TRY(tn_engine_run(engine, &trainer->inputs[trainer->rounds[0].samples], 1, outputs,
                             output_count, error));
        test_judge(&outputs[trainer->output], &trainer->inputs[trainer->rounds[0].labels],
                   real * trainer->state.labels, sums);
    }
    return TN_OK;
}

tn_status tn_trainer_test_on(tn_trainer *trainer, const tn_graph *graph, tn_engine *engine,
                             tn_trainer_score *score, tn_error *error) {
    tn__arena arena;
    tn_array *outputs;
    test_sums sums = {0};
    tn__arena_init(&arena, &trainer->context);
    tn_status status = tn__trainer_outputs(&arena, graph, &outputs, error);
    if (status == TN_OK) status = test_batches(trainer, graph, engine, outputs, &sums, error);
    tn__arena_release(&arena);
    if (status != TN_OK) return status;
    *score = (tn_trainer_score){.labels = sums.seen};
    if (sums.seen == 0) return TN_OK;
    score->accuracy = (double)sums.right / (double)sums.seen;
    score->loss = sums.loss / (double)sums.seen;
    return TN_OK;
}
