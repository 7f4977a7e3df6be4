/* training.h - a training step, for `train` and `estimate --train`: its options, its graph, and the
 * part of one rank.
 *
 * A switch of tn_train_options is one row of TRAINING_SWITCHES in training.c.
 */
#ifndef TN_MODEL_TRAINING_H
#define TN_MODEL_TRAINING_H

#include <tenure/dist.h>
#include <tenure/train.h>

#include "cli/model/input.h"

#define CLI_FREEZE_MAX 64u /* patterns of one command; a pattern may match many names */

typedef struct cli_training {
    tn_train_options options; /* `freeze` and `train` are set by cli_training_make */
    const char *freeze[CLI_FREEZE_MAX], *train[CLI_FREEZE_MAX];
    double recompute;     /* fraction of additional work; 0: none */
    bool recompute_cheap; /* with `recompute` 0: recompute all cheap operators */
    uint32_t given;       /* given options, one bit each: cli_training_is_given */
} cli_training;
#define CLI_TRAINING_INIT                                                                          \
    {                                                                                              \
        .options = {.struct_size = sizeof(tn_train_options), .optimizer = TN_OPTIMIZER_ADAM }      \
    }

/* A child of both parsers; its input is a cli_training. */
extern const struct argp cli_training_argp, cli_training_fit_argp;

/* Whether this option was given. */
bool cli_training_is_given(const cli_training *training, const char *name);
/* Applies an option by name, as recorded in a plan; value NULL: a switch. False: unknown name. */
bool cli_training_apply(cli_training *training, const char *name, const char *value);
/* Adds every option that affects the step, with defaults spelled out (plan_file.h). */
struct cli_words;
void cli_training_words(const cli_training *training, struct cli_words *words);

/* Replaces the model by the one with the parameters of its training (tn_train_model). */
tn_status cli_training_model(const cli_training *training, tn_graph **model, tn_error *error);

/* Makes the graph of a step, before it is compiled. With `rewrite` the model is first rewritten for
 * the engine; *rewritten is then that model, else NULL. The step may then be rewritten too
 * (TN_REWRITE_TRAINED). */
tn_status cli_training_make(const cli_training *training, const tn_graph *model, bool rewrite,
                            tn_graph **rewritten, tn_training *made, tn_error *error);

/* The options of recomputation; disabled without training. */
tn_recompute_options cli_training_recompute(const cli_training *training);

/* --- one of several ranks --- */

#define CLI_BUCKET_USUAL (UINT64_C(4) << 20)

typedef struct cli_ranks {
    tn_grid grid;
    uint32_t rank;
    tn_shard shard;  /* state divided among data ranks */
    uint64_t bucket; /* bytes of gradients exchanged together; 0: the default */
    bool sequence;   /* sequence parallelism between tensor ranks */
    uint64_t ahead;  /* bytes of parameters gathered ahead; 0: the largest bucket */
    tn_pipeline schedule;
    bool scheduled;          /* --schedule was given */
    bool whole_sends;        /* --whole-sends */
    const tn_training *step; /* NULL, or the step that is divided into pipeline stages */
} cli_ranks;
#define CLI_RANKS_INIT                                                                             \
    { .grid = TN_GRID_INIT }

/* Whether mpirun has started several processes. */
bool cli_ranks_started(void);
/* Ends a process that cannot begin: all processes agree on the error, and one prints it. Returns
 * the exit status, which is equal on all. */
int cli_ranks_end(const tn_error *error);

/* A child of both parsers, for all options except the grid; its input is a cli_ranks. */
extern const struct argp cli_ranks_argp;

/* Sets the conditions of combine.h about ranks. several_data: several ranks divide a batch. */
void cli_ranks_conditions(const cli_ranks *ranks, bool several_data);

/* The group of this rank along an axis. */
uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis);
/* The step of this rank. Errors: E_UNSUPPORTED. */
tn_status cli_ranks_step(const cli_ranks *ranks, tn_train_options *options, tn_error *error);
/* Joins the groups that cli_ranks_divide needs in addition to those of tn_world_grid. */
tn_status cli_ranks_join(const cli_ranks *ranks, tn_world *world, const tn_context *context,
                         tn_error *error);
/* The callback tn_divide.divide, for more than one rank. */
tn_status cli_ranks_divide(void *ranks, const tn_program *program, tn_program **divided,
                           tn_error *error);

#endif
