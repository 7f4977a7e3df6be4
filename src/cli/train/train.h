/* train.h - the parts of `tenure train`. They make a trainer of the library from the options of the
 * command, and print its output.
 *
 * tenure/train.h describes a training run. The files of this folder have its options, its opened
 * model, the signals that stop it, and its output.
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

#define CLI_BATCH_USUAL 64 /* batch size for a model with a symbolic batch dimension */

typedef struct cli_rank {       /* measurements of one rank */
    uint64_t planned, measured; /* bytes of the arena's peak, planned and measured */
    uint64_t statics;           /* bytes of parameters and other memory outside the arena */
    uint64_t messages, bytes;   /* numbers of messages and bytes that it sent */
    /* the part of `messages` and `bytes` that was sent in steps and checkpoints */
    uint64_t step_messages, step_bytes;
    /* the part of `bytes` that was sent to a single rank, such as that of another stage */
    uint64_t direct_bytes;
    double talk_s, stall_s; /* seconds of communicating and of waiting in the last step */
    /* idle fraction of the step that is drawn; below 0: no step is drawn */
    double idle[TN_TIMELINE_KINDS];
} cli_rank;

typedef struct cli_train cli_train;
struct cli_train {
    cli_input input;
    cli_training training;
    cli_opened_model opened, naive; /* `naive` is the run that --check compares with */
    const char *data_path, *log_path;
    const char *model_path; /* --save-model; NULL: the trained model is not written */
    /* value of --online; NULL: no such option, so the budget is met by a plan before the run */
    const char *online_policy;
    bool explain;      /* --explain */
    tn_online *online; /* the run with --online; NULL without that option */
    /* options of the compiled model, which `online` reads until its second iteration */
    cli_compile_options compile;
    cli_paths pictures; /* output files for the picture of a step */
    uint64_t batch;
    double rate; /* --lr */
    /* --prune and --prune-weights */
    tn_prune_schedule prune;
    const char *prune_patterns[CLI_FREEZE_MAX];
    bool json;
    cli_ranks at;          /* value of --parallel data=N,...; all numbers are 1 without it */
    bool divided;          /* true if the option --parallel was given */
    bool threads_as_ranks; /* true if the ranks are threads of this process instead of processes */
    /* function that does the whole training on one rank */
    tn_status (*run)(cli_train *train, tn_error *error);
    tn_world *world;            /* the world of the ranks; NULL with a single rank */
    tn_divide divide;           /* the division of the program that `opened` uses */
    tn_trainer_options options; /* options of the trainer that have no field of their own here */
    /* results */
    tn_data *data;
    tn_engine *engine; /* the engine that ran the first step */
    tn_trainer *trainer;
    const tn_trainer_state *state; /* the state of `trainer`, which owns it */
    FILE *log;                     /* the open log file; NULL: no log */
    int signal;             /* the signal that stopped the training between two updates, or 0 */
    double next_shown;      /* time of cli_clock from which on the status may be shown again */
    tn_trainer_score score; /* score of the model on the test samples */
    tn_written written;     /* the file of --save-model */
    tn_world_usage begun;   /* messages and bytes that this rank had sent before the run */
    /* [ranks of the world] measurements of all ranks; NULL until the end of the run */
    cli_rank *ranks;
};

/* --- one training run (train_run.c) --- */

/* Opens data, model, plan and engines, and restores the state of a run that is resumed. */
tn_status cli_train_open(cli_train *train, tn_error *error);
/* Performs all remaining updates, and writes checkpoints. SIGINT, SIGTERM, SIGUSR2, SIGHUP and
 * SIGXCPU stop the training after the present update and a checkpoint; train->signal is then the
 * signal. */
tn_status cli_train_all(cli_train *train, tn_error *error);
/* Evaluates the current model on the test samples. */
tn_status cli_train_test(cli_train *train, tn_error *error);
/* Writes the model with its trained parameters (--save-model). */
tn_status cli_train_save(cli_train *train, tn_error *error);
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
/* Runs the training on every rank. Returns the exit status. */
int cli_train_world(cli_train *train);
/* cli_train_speaks returns whether this rank is the one that prints, and cli_train_ranks the number
 * of ranks. */
bool cli_train_speaks(const cli_train *train);
uint32_t cli_train_ranks(const cli_train *train);
/* Makes all ranks return one status: if one rank has an error, all ranks return an error. */
tn_status cli_train_agree(cli_train *train, tn_status status, tn_error *error);
/* Collects the measurements of all ranks in train->ranks. */
tn_status cli_train_measure(cli_train *train, tn_error *error);

/* --- output (train_output.c) --- */

/* Opens the log file, which has a row for each step. */
tn_status cli_train_open_log(cli_train *train, tn_error *error);
void cli_train_log(const cli_train *train);
tn_status cli_train_end_log(const cli_train *train, tn_error *error);
/* Functions that print the status line on a terminal. */
void cli_train_show(cli_train *train);
void cli_train_show_test(const cli_train *train);
void cli_train_show_end(const cli_train *train);
/* Functions that print the output before and after the training. */
void cli_train_print_cut(const cli_train *train);
void cli_train_print_stopped(const cli_train *train);
extern const cli_facts cli_train_facts;
tn_status cli_train_print(const cli_train *train, tn_error *error);
/* Returns the number of steps for which the trace must have capacity. */
uint64_t cli_train_picture_runs(const cli_train *train);
/* Draws one step of all ranks. */
tn_status cli_train_picture(cli_train *train, tn_error *error);

#endif
