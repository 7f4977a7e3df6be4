/* task.h - what the four examples have in common: arguments, the loop, what they print. */
#ifndef TRAINING_TASK_H
#define TRAINING_TASK_H

#include <time.h>

#include "trainer.h"

typedef struct task {
    const char *label; /* what the loss is a mean over: "byte" */
    uint32_t steps, threads, test_batches;
    float rate;
    uint64_t seed;
    /* Puts a batch into samples and labels: one drawn to train on, or number `batch` of those held
     * out. */
    void (*fill)(struct task *task, uint64_t batch, bool held_out, tn_array *samples,
                 tn_array *labels);
    const void *data; /* of `fill` */
    uint64_t random;  /* its state */
} task;

/* [--steps N] [--threads N] [--seed N]; the word that is no option, or NULL. */
static inline const char *task_arguments(task *t, int count, char **words) {
    const char *other = NULL;
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
    t->random = t->seed * 0x9e3779b97f4a7c15u + 1;
    return other;
}

static inline double task_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline tn_status task_steps(task *t, trainer *trainer) {
    double start = task_clock(), mean = 0;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < t->steps; i++) {
        float loss;
        t->fill(t, i, false, trainer_samples(trainer), trainer_labels(trainer));
        tn_status status = trainer_run(trainer, t->rate, 0, &loss);
        if (status != TN_OK) return status;
        trainer->step++;
        mean += (double)loss;
        if ((uint64_t)(i + 1) * 10 / t->steps == (uint64_t)i * 10 / t->steps) continue;
        printf("step %6u  loss %.4f  %.1f s\n", i + 1, mean / (i + 1 - shown),
               task_clock() - start);
        fflush(stdout);
        shown = i + 1;
        mean = 0;
    }
    return TN_OK;
}

static inline tn_status task_test(task *t, trainer *trainer) {
    trainer_score score = {0};
    tn_session *model = NULL;
    tn_status status = trainer_open_model(trainer, &model);
    tn_array *labels = trainer_labels(trainer); /* its memory, for labels of the same size */
    for (uint32_t i = 0; i < t->test_batches && status == TN_OK; i++) {
        t->fill(t, i, true, tn_session_array(model, trainer->n->input), labels);
        status = tn_session_run(model, &trainer->error);
        if (status == TN_OK)
            trainer_judge(tn_session_array(model, trainer->n->output),
                          (const int64_t *)labels->data, labels->bytes / sizeof(int64_t), &score);
    }
    tn_session_close(model);
    if (status == TN_OK)
        printf("held out: %llu %ss, loss %.4f nats, %.2f %% right\n",
               (unsigned long long)score.count, t->label, score.loss, 100 * score.accuracy);
    return status;
}

/* Trains a finished net with Adam and says how good it is then: the exit status. */
static inline int task_run(task *t, net *n) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    trainer trainer = {0};
    tn_engine_usage usage = {0};
    train.optimizer = TN_OPTIMIZER_ADAM;
    train.fuse_update = true; /* gradients do not wait for each other */
    options.threads = t->threads;
    options.order = "auto";
    tn_status status = n->status;
    if (status != TN_OK) trainer.error = n->error;
    if (status == TN_OK) status = trainer_open(&trainer, n, &train, &options);
    if (status == TN_OK) {
        tn_engine_measure(tn_session_engine(trainer.session), &usage);
        printf("%u parameters, arena %llu bytes, static memory %llu bytes\n",
               trainer.training.parameter_count, (unsigned long long)usage.arena,
               (unsigned long long)usage.static_bytes);
        status = task_steps(t, &trainer);
    }
    if (status == TN_OK) status = task_test(t, &trainer);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", trainer.error.where, trainer.error.message);
    trainer_close(&trainer);
    return tn_status_exit_code(status);
}

#endif
