/* resume.c - trained, killed at any moment and started again: it ends with the same bits.
 *
 *     resume [CHECKPOINT [DATA [STEPS]]]
 *
 * DATA is what tn_data_load knows: fashion-mnist (Debian's package dataset-fashion-mnist), or other
 * pictures of 28 x 28 in ten sorts.
 */
#define TENURE_EXPERIMENTAL
#include "net.h"

static net n; /* with what went wrong, whoever it was */

static void must(tn_status status) {
    if (status == TN_OK) return;
    fprintf(stderr, "%s: %s\n", n.error.where, n.error.message);
    exit(tn_status_exit_code(status));
}

static bool show(void *self, const tn_trainer_state *at) {
    (void)self;
    if (at->done % 100 == 0)
        printf("step %llu  loss %.4f\n", (unsigned long long)at->done, at->mean_loss);
    return true; /* false would stop it here, with a checkpoint */
}

int main(int count, char **words) {
    tn_data *data;
    tn_trainer *trainer;
    tn_trainer_score score;
    tn_train_options train = {.struct_size = sizeof train, .optimizer = TN_OPTIMIZER_ADAM};
    tn_session_options session = {.struct_size = sizeof session, .read = net_read, .self = &n};
    tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;

    net_open(&n, 1); /* two layers; net_read has what they begin with */
    tn_tensor_id x = net_input(&n, TN_FLOAT32, NET_SHAPE(64, 28 * 28));
    tn_tensor_id y = net_unary(&n, "Relu", net_dense(&n, x, 28 * 28, 100));
    must(net_finish(&n, x, net_dense(&n, y, 100, 10)));

    must(tn_data_load(count > 2 ? words[2] : "fashion-mnist", NULL, &data, &n.error));
    options.train = &train;
    options.session = &session;
    options.data = data;
    options.steps = count > 3 ? strtoull(words[3], NULL, 10) : 2000;
    options.checkpoint = count > 1 ? words[1] : "resume.ck"; /* every 100 steps, and in the end */
    options.go_on = true;                                    /* from there, where there is one */
    options.step = show;
    must(tn_trainer_open(n.graph, &options, &trainer, &n.error));
    must(tn_trainer_run(trainer, &n.error));
    must(tn_trainer_test(trainer, &score, &n.error));
    printf("%.2f %% of what was held out are right\n", 100 * score.accuracy);

    tn_trainer_destroy(trainer);
    tn_data_destroy(data);
    net_close(&n);
    return 0;
}
