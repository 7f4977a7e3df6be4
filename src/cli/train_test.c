/* train_test.c - how good a trained model is, and whether reuse changed anything. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train.h"

typedef struct test_sums {
    double loss; /* nats, over labels */
    uint64_t right, seen;
} test_sums;

/* Scores of one sample or place after another, against their labels. */
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
        if (label < classes) /* it counts as wrong elsewhere */
            sums->loss += log(sum) + (double)at[best * inner] - (double)at[label * inner];
    }
    sums->seen += label_count;
}

/* The samples of the batch that begins at `first`; the last one is filled up with its first sample,
 * not counted. How many are real. */
static uint32_t test_choose(cli_train *train, uint64_t first, uint64_t stride, uint64_t last) {
    uint32_t real = 0;
    for (uint32_t i = 0; i < train->batch; i++) {
        bool there = first + i * stride < last;
        train->numbers[i] = there ? first + i * stride : first;
        real += there;
    }
    return real;
}

static tn_status test_batches(cli_train *train, const cli_session *session, cli_arrays *arrays,
                              tn_error *error) {
    const cli_set *set = &train->data.test;
    test_sums sums = {0};
    uint64_t stride = train->data.text ? train->window : 1;
    uint64_t last = set->count;
    if (train->data.text) last = set->count > train->window ? set->count - train->window : 0;
    tn_array *samples = &train->arrays.inputs[train->sample_at];
    tn_array *labels = &train->arrays.inputs[train->labels_at];
    for (uint64_t first = 0; first < last; first += train->batch * stride) {
        uint32_t real = test_choose(train, first, stride, last);
        cli_batch_fill(&train->data, set, train->numbers, (uint32_t)train->batch, samples, labels);
        cli_arrays_reset(session->graph, arrays);
        TN_TRY(tn_engine_run(session->engine, samples, 1, arrays->outputs, arrays->output_count,
                             error));
        test_judge(&arrays->outputs[0], labels, real * train->window, &sums);
    }
    train->has_test = sums.seen > 0;
    if (!train->has_test) return TN_OK;
    train->test_accuracy = (double)sums.right / (double)sums.seen;
    train->test_loss = sums.loss / (double)sums.seen;
    return TN_OK;
}

tn_status cli_train_test(cli_train *train, tn_error *error) {
    const tn_block *block = tn_graph_block(train->input.graph, 0);
    if (train->data.test.count == 0 || train->training.options.loss != TN_LOSS_CROSS_ENTROPY ||
        tn_graph_tensor(train->input.graph, block->outputs[0])->dtype != TN_FLOAT32)
        return TN_OK;
    cli_arrays arrays = {0};
    cli_session session = {.input = &train->input,
                           .trained = &train->session,
                           .contents = train->session.contents, /* and what is not trained */
                           .kept = train->session.kept,
                           .choices = train->session.choices,
                           .plain = train->session.plain};
    cli_train_show_test(train);
    tn_status status = cli_session_plan(&session, error);
    if (status == TN_OK) status = cli_session_open(&session, error);
    if (status == TN_OK) status = cli_arrays_outputs(session.graph, &arrays, error);
    if (status == TN_OK) status = test_batches(train, &session, &arrays, error);
    cli_arrays_release(&arrays);
    cli_session_close(&session);
    cli_train_show_end(train);
    return status;
}

static tn_status test_compare(const cli_train *train, tn_tensor_id id, tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(train->session.graph, id);
    uint8_t *both = calloc(2, tensor->bytes + 1);
    if (both == NULL) return tn__no_memory(error, "a comparison");
    tn_status status = tn_engine_get_static(train->session.engine, id, both, tensor->bytes, error);
    if (status == TN_OK)
        status = tn_engine_get_static(train->naive.engine, id, both + tensor->bytes, tensor->bytes,
                                      error);
    if (status == TN_OK && memcmp(both, both + tensor->bytes, tensor->bytes) != 0)
        status =
            tn__fail(error, TN_E_CONFLICT,
                     "'%.80s' differs from what training without reuse gives; please report it",
                     tensor->name);
    free(both);
    return status;
}

tn_status cli_train_compare(cli_train *train, tn_error *error) {
    for (uint32_t i = 0; train->session.check && i < train->kept_count; i++)
        TN_TRY(test_compare(train, train->kept[i], error));
    return TN_OK;
}
