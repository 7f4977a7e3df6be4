/* task.h - what the four examples have in common: arguments, data, and what they print. */
#ifndef TRAINING_TASK_H
#define TRAINING_TASK_H

#include "net.h"

typedef struct task {
    const char *label;  /* what the loss is a mean over: "byte" */
    const char *prefix; /* of the word of the command line, for tn_data_load: "text:" */
    uint32_t steps, threads;
    double rate;
    uint64_t seed;
    tn_data *data;
    /* NULL: batches of the data as they are. As in tn_trainer_options; its self is the task */
    tn_status (*fill)(void *task, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error);
    uint64_t test_batches; /* of `fill` */
    double shown;          /* sum of the losses that the next line is the mean of */
    uint64_t shown_at;
} task;

/* [WORD] [--steps N] [--threads N] [--seed N]. 0, or the exit status when there are no data. */
static inline int task_begin(task *t, int count, char **words) {
    char what[1024];
    const char *other = "";
    tn_error error;
    for (int i = 1; i < count; i++) {
        uint32_t *number = strcmp(words[i], "--steps") == 0     ? &t->steps
                           : strcmp(words[i], "--threads") == 0 ? &t->threads
                                                                : NULL;
        if (number != NULL && i + 1 < count)
            *number = (uint32_t)strtoul(words[++i], NULL, 10);
        else if (strcmp(words[i], "--seed") == 0 && i + 1 < count)
            t->seed = strtoull(words[++i], NULL, 10);
        else
            other = words[i];
    }
    snprintf(what, sizeof what, "%s%s%s", t->prefix, *other != '\0' ? ":" : "", other);
    if (tn_data_load(what, NULL, &t->data, &error) == TN_OK) return 0;
    fprintf(stderr, "%s: %s\n", error.where, error.message);
    return *other == '\0' && error.status == TN_E_IO ? 77 : 2; /* no data set is on this machine */
}

/* Ten lines in all. */
static inline bool task_show(void *self, const tn_trainer_state *at) {
    task *t = (task *)self;
    t->shown += at->loss;
    if (at->done * 10 / at->total == (at->done - 1) * 10 / at->total) return true;
    printf("step %6llu  loss %.4f  %.1f s\n", (unsigned long long)at->done,
           t->shown / (double)(at->done - t->shown_at), at->seconds);
    fflush(stdout);
    t->shown_at = at->done;
    t->shown = 0;
    return true;
}

static inline tn_status task_train(task *t, net *n, tn_trainer *trainer) {
    tn_engine_usage usage = {0};
    tn_trainer_score score = {0};
    tn_engine_measure(tn_trainer_engine(trainer), &usage);
    printf("%u parameters, arena %llu bytes, static memory %llu bytes\n",
           tn_trainer_training(trainer)->parameter_count, (unsigned long long)usage.arena,
           (unsigned long long)usage.static_bytes);
    tn_status status = tn_trainer_run(trainer, &n->error);
    if (status == TN_OK) status = tn_trainer_test(trainer, &score, &n->error);
    if (status == TN_OK)
        printf("held out: %llu %ss, loss %.4f nats, %.2f %% right\n",
               (unsigned long long)score.labels, t->label, score.loss, 100 * score.accuracy);
    return status;
}

/* Trains a finished net with Adam and says how good it is then: the exit status. Closes both. */
static inline int task_end(task *t, net *n) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_session_options session = TN_SESSION_OPTIONS_INIT;
    tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;
    tn_trainer *trainer = NULL;
    train.optimizer = TN_OPTIMIZER_ADAM;
    train.fuse_update = true; /* gradients do not wait for each other */
    session.read = net_read;
    session.self = n;
    session.threads = t->threads;
    session.order = "auto";
    options.train = &train;
    options.session = &session;
    options.data = t->fill == NULL ? t->data : NULL;
    options.fill = t->fill;
    options.test_batches = t->test_batches;
    options.steps = t->steps;
    options.rate = t->rate;
    options.seed = t->seed;
    options.step = task_show;
    options.self = t;
    tn_status status = n->status;
    if (status == TN_OK) status = tn_trainer_open(n->graph, &options, &trainer, &n->error);
    if (status == TN_OK) status = task_train(t, n, trainer);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", n->error.where, n->error.message);
    tn_trainer_destroy(trainer);
    tn_data_destroy(t->data);
    net_close(n);
    return tn_status_exit_code(status);
}

#endif
