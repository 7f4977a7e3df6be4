/* train.h - `tenure train`: options in, a trainer of the library, words out.
 *
 * What a run is, is told in tenure/trainer.h. Here are its options, the session that it runs in,
 * the signals that stop it, and what is shown and written while it goes on.
 */
#ifndef TN_CLI_TRAIN_H
#define TN_CLI_TRAIN_H

#include <stdio.h>

#include <tenure/timeline.h>

#include "cli/open_model.h"
#include "cli/ranks.h"

#define CLI_BATCH_USUAL 64 /* of a model with a symbolic batch */

typedef struct cli_rank {               /* how a rank got on */
    uint64_t planned, measured;         /* peaks of its arena */
    uint64_t statics;                   /* beside that: parameters, and what else stays */
    uint64_t messages, bytes;           /* that it sent; */
    uint64_t step_messages, step_bytes; /* of these in steps and checkpoints, not to begin with */
    uint64_t direct_bytes;              /* of these to one rank, as to another stage */
    double talk_s, stall_s;         /* of its last run: in calls of other ranks; that it waited */
    double idle[TN_TIMELINE_KINDS]; /* share of the step that is drawn in which it computed nothing;
                                     * below 0: it is not drawn */
} cli_rank;

typedef struct cli_train cli_train;
struct cli_train {
    cli_input input;
    cli_training training;
    cli_session session, naive; /* naive: with --check */
    const char *data_path, *log_path;
    cli_paths pictures; /* of a step of all ranks */
    uint64_t batch;
    double rate; /* --lr */
    bool json;
    cli_ranks at;          /* --parallel data=N,...; of one rank: all 1 */
    bool divided;          /* somebody said so */
    bool threads_as_ranks; /* ranks are threads of this process */
    tn_status (*run)(cli_train *train, tn_error *error); /* all of it, on one rank */
    tn_world *world;                                     /* NULL: there is one rank */
    tn_divide divide;                                    /* of the session */
    tn_trainer_options options;                          /* the others */
    /* what was made */
    tn_data *data;
    tn_trainer *trainer;
    const tn_trainer_state *state; /* of it */
    FILE *log;                     /* NULL: none */
    int signal;                    /* that stopped it between two updates; 0: none did */
    double shown;                  /* when the line on the terminal was */
    tn_trainer_score score;        /* on what was held out */
    tn_world_usage begun;          /* what this rank had sent when it began */
    cli_rank *ranks;               /* [ranks of the world] at the end; NULL */
};

/* train_run.c: data, model, plan, engines; and where it stood, when it is resumed. */
tn_status cli_train_open(cli_train *train, tn_error *error);
/* All updates that are left, with checkpoints. SIGINT, SIGTERM and SIGUSR2 stop it behind an
 * update, with a checkpoint; train->signal tells which. */
tn_status cli_train_all(cli_train *train, tn_error *error);
/* The model as it is now, in inference, on the samples that were held out. */
tn_status cli_train_test(cli_train *train, tn_error *error);
void cli_train_close(cli_train *train);

/* train_ranks.c: whether there are several ranks; all of a run on each of them, and the exit
 * status.
 */
bool cli_train_has_ranks(const cli_train *train);
int cli_train_world(cli_train *train);
/* On one of them: whether it is the one that writes and draws; how many there are; among how many a
 * batch is divided; what the options are with others; how all got on so far; whether all are about
 * to run the same; what was measured on all. */
bool cli_train_speaks(const cli_train *train);
uint32_t cli_train_ranks(const cli_train *train);
uint32_t cli_train_parts(const cli_train *train);
tn_status cli_train_join(cli_train *train, tn_error *error);
tn_status cli_train_agree(cli_train *train, tn_status status, tn_error *error);
tn_status cli_train_alike(cli_train *train, tn_error *error);
tn_status cli_train_measure(cli_train *train, tn_error *error);

/* train_picture.c: how many runs the trace is to have room for; the picture of a step, by all ranks
 * together. */
uint64_t cli_train_picture_runs(const cli_train *train);
tn_status cli_train_picture(cli_train *train, tn_error *error);

/* train_tell.c: the log of steps, */
tn_status cli_train_open_log(cli_train *train, tn_error *error);
void cli_train_log(const cli_train *train);
tn_status cli_train_end_log(const cli_train *train, tn_error *error);
/* on a terminal the line that is written over, */
void cli_train_show(cli_train *train);
void cli_train_show_test(const cli_train *train);
void cli_train_show_end(const cli_train *train);
/* what is told before, and in the end. */
void cli_train_print_cut(const cli_train *train);
void cli_train_print_stopped(const cli_train *train);
void cli_train_print(const cli_train *train);

#endif
