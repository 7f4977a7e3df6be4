/* train.h - `tenure train`: from options to a trainer of the library, and its output.
 *
 * tenure/train.h describes a training run. These files have its options, its opened model, the
 * signals that stop it, and its output.
 */
#ifndef TN_CLI_TRAIN_H
#define TN_CLI_TRAIN_H

#include <stdio.h>

#include <tenure/online.h>
#include <tenure/program.h>

#include "cli/answer/facts.h"
#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/opened_model.h"
#include "cli/model/training.h"

#define CLI_BATCH_USUAL 64 /* for a model with a symbolic batch */

typedef struct cli_rank {               /* statistics of a rank */
    uint64_t planned, measured;         /* peaks of its arena */
    uint64_t statics;                   /* parameters and other memory outside the arena */
    uint64_t messages, bytes;           /* sent */
    uint64_t step_messages, step_bytes; /* of these, in steps and checkpoints */
    uint64_t direct_bytes;              /* of these, to a single rank such as another stage */
    double talk_s, stall_s;             /* in its last run: communicating; waiting */
    double idle[TN_TIMELINE_KINDS];     /* idle fraction of the drawn step; below 0: not drawn */
} cli_rank;

typedef struct cli_train cli_train;
struct cli_train {
    cli_input input;
    cli_training training;
    cli_opened_model opened, naive; /* naive: with --check */
    const char *data_path, *log_path;
    const char *online_policy;   /* --online; NULL: the budget is met before the run */
    bool explain;                /* --explain */
    tn_online *online;           /* with --online */
    cli_compile_options compile; /* that `online` reads until its second iteration */
    cli_paths pictures;          /* files for the picture of a step */
    uint64_t batch;
    double rate; /* --lr */
    bool json;
    cli_ranks at;          /* --parallel data=N,...; all 1 for one rank */
    bool divided;          /* --parallel was given */
    bool threads_as_ranks; /* ranks are threads of this process */
    tn_status (*run)(cli_train *train, tn_error *error); /* the whole run, on one rank */
    tn_world *world;                                     /* NULL with one rank */
    tn_divide divide;                                    /* of the opened model */
    tn_trainer_options options;                          /* the other options */
    /* results */
    tn_data *data;
    tn_engine *engine; /* of the first step */
    tn_trainer *trainer;
    const tn_trainer_state *state; /* of the trainer */
    FILE *log;                     /* NULL: none */
    int signal;                    /* the signal that stopped it between two updates, or 0 */
    double shown;                  /* time of the last line on the terminal */
    tn_trainer_score score;        /* on the test samples */
    tn_world_usage begun;          /* sent by this rank before the run */
    cli_rank *ranks;               /* [ranks of the world] at the end, else NULL */
};

/* --- the run (train_run.c) --- */

/* Opens data, model, plan and engines, and restores a resumed run. */
tn_status cli_train_open(cli_train *train, tn_error *error);
/* Runs all remaining updates, with checkpoints. SIGINT, SIGTERM and SIGUSR2 stop it after an update
 * and a checkpoint; train->signal is then set. */
tn_status cli_train_all(cli_train *train, tn_error *error);
/* Evaluates the current model on the test samples. */
tn_status cli_train_test(cli_train *train, tn_error *error);
void cli_train_close(cli_train *train);

/* --- --online (train_online.c) --- */

/* Compiles the step: within the budget, or without one for --online. */
tn_status cli_train_plan(cli_train *train, tn_error *error);
/* Opens the engine of the first step. */
tn_status cli_train_start(cli_train *train, tn_engine **engine, tn_error *error);
extern const cli_facts cli_train_online_facts;
void cli_train_add_online(cli_answer *answer, const cli_train *train);

/* --- several ranks (train_run.c) --- */

bool cli_train_has_ranks(const cli_train *train);
/* Runs the training on every rank; returns the exit status. */
int cli_train_world(cli_train *train);
/* On each rank: whether it is the one that prints, and the number of ranks. */
bool cli_train_speaks(const cli_train *train);
uint32_t cli_train_ranks(const cli_train *train);
/* Makes the status of all ranks the same: an error of one rank is an error of all. */
tn_status cli_train_agree(cli_train *train, tn_status status, tn_error *error);
/* Collects the measurements of all ranks. */
tn_status cli_train_measure(cli_train *train, tn_error *error);

/* --- output (train_output.c) --- */

/* The log of steps. */
tn_status cli_train_open_log(cli_train *train, tn_error *error);
void cli_train_log(const cli_train *train);
tn_status cli_train_end_log(const cli_train *train, tn_error *error);
/* The status line on a terminal. */
void cli_train_show(cli_train *train);
void cli_train_show_test(const cli_train *train);
void cli_train_show_end(const cli_train *train);
/* The output before and after training. */
void cli_train_print_cut(const cli_train *train);
void cli_train_print_stopped(const cli_train *train);
extern const cli_facts cli_train_facts;
tn_status cli_train_print(const cli_train *train, tn_error *error);
/* The number of runs that the trace must hold. */
uint64_t cli_train_picture_runs(const cli_train *train);
/* Draws a step of all ranks. */
tn_status cli_train_picture(cli_train *train, tn_error *error);

#endif
