/* train.h - a training run, in the steps in which `tenure train` goes through it.
 *
 * One session runs the graph of a step again and again; its parameters, statistics and optimizer
 * state are all that stays between steps, so a checkpoint of them and the number of the step is the
 * whole run. The order of samples follows from the seed and the step alone.
 */
#ifndef TN_CLI_TRAIN_H
#define TN_CLI_TRAIN_H

#include <stdio.h>

#include "base/base.h"
#include "cli/checkpoint.h"
#include "cli/data.h"
#include "cli/open_model.h"

#define CLI_BATCH_USUAL 64 /* of a model with a symbolic batch */
#define CLI_TRAIN_SEEN 50u /* steps that the loss shown is the mean of */

typedef struct cli_train {
    cli_input input;
    cli_training training;
    cli_session session, naive; /* naive: with --check */
    const char *data_path, *checkpoint, *resume, *log_path;
    uint64_t batch, epochs, steps, every;
    double rate;     /* --lr */
    uint32_t fall;   /* --lr-schedule, train_steps.c */
    uint64_t warmup; /* steps in which the rate rises */
    bool json;
    /* what was made: train_open.c */
    cli_data data;
    cli_arrays arrays;
    uint32_t sample_at, labels_at, rate_at, step_at, micro_at; /* among inputs */
    uint32_t loss_at, correct_at;                              /* among outputs */
    tn_tensor_id samples;                                      /* the input that data fills */
    uint32_t micro;                                            /* runs of an update */
    uint64_t window;                                           /* labels of a sample */
    uint64_t per_epoch, total; /* batches of an epoch; updates when it is done */
    uint64_t *numbers;         /* [batch] samples of a batch */
    uint32_t *order, order_epoch;
    tn_tensor_id *kept; /* what a checkpoint holds */
    cli_role *roles;    /* [kept_count] */
    uint32_t kept_count;
    /* where it is: train_steps.c */
    uint64_t first, done; /* updates: when this process began, and now */
    int signal;           /* that stopped it between two updates; 0: none did */
    double start, seconds;
    double engine_seconds;      /* of them in the engine, the one without reuse apart */
    uint64_t saved, save_bytes; /* checkpoints written; bytes of one */
    double save_seconds;        /* for all of them */
    double loss, accuracy;      /* means of the last steps */
    FILE *log;                  /* NULL: none */
    /* train_test.c */
    double test_accuracy, test_loss; /* nats */
    bool has_test;
} cli_train;

/* train_open.c: data, model, plan, engines, arrays; and where it stood, when it is resumed. */
tn_status cli_train_open(cli_train *train, tn_error *error);
tn_status cli_train_save(cli_train *train, tn_error *error); /* the checkpoint */
void cli_train_close(cli_train *train);

/* train_steps.c: all updates that are left, with checkpoints. SIGINT and SIGTERM stop it behind an
 * update, with a checkpoint; train->signal tells which. */
tn_status cli_train_all(cli_train *train, tn_error *error);
bool cli_train_set_schedule(cli_train *train, const char *name); /* false: there is no such */

/* train_test.c: the model as it is now, in inference, on the samples that were held out. */
tn_status cli_train_test(cli_train *train, tn_error *error);
/* With --check: every bit of what was trained against the engine without reuse. */
tn_status cli_train_compare(cli_train *train, tn_error *error);

/* train_tell.c */
void cli_train_show(const cli_train *train); /* on a terminal: the line that is written over */
void cli_train_show_test(const cli_train *train);
void cli_train_show_end(const cli_train *train);
void cli_train_print_stopped(const cli_train *train);
tn_status cli_train_end_log(const cli_train *train, tn_error *error);
void cli_train_print(const cli_train *train);

#endif
