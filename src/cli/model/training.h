/* training.h - a training step, for `train`, `estimate --train` and other commands: its options,
 * its graph, and the part of one rank.
 *
 * Each option that only sets a bool of tn_train_options is one row of TRAINING_SWITCHES in
 * training.c.
 */
#ifndef TN_MODEL_TRAINING_H
#define TN_MODEL_TRAINING_H

#include <tenure/dist.h>
#include <tenure/train.h>

#include "cli/model/input.h"

/* largest number of patterns of --freeze, and of --trainable; a pattern may match many names */
#define CLI_FREEZE_MAX 64u

typedef struct cli_training {
    tn_train_options options; /* cli_training_make sets its members `freeze` and `train` */
    const char *freeze[CLI_FREEZE_MAX], *train[CLI_FREEZE_MAX];
    const char *loss_output; /* --loss output:NAME: the output that is the loss; NULL: the first */
    double recompute;        /* limit of the work of recomputation, as a fraction; 0: none */
    bool recompute_cheap;    /* true: recompute all cheap operators; used if `recompute` is 0 */
    uint32_t given;          /* bits of the options that were given; see cli_training_is_given */
} cli_training;
#define CLI_TRAINING_INIT                                                                          \
    {                                                                                              \
        .options = {.struct_size = sizeof(tn_train_options), .optimizer = TN_OPTIMIZER_ADAM }      \
    }

/* Tables of the options of training, as children of the parsers of `train`, `estimate` and other
 * commands. Their input is a cli_training. */
extern const struct argp cli_training_argp, cli_training_fit_argp;

/* Returns whether this option was given. */
bool cli_training_is_given(const cli_training *training, const char *name);
/* Applies an option that a plan records under this name. `value` is NULL for an option without a
 * value. Returns false for an unknown name. */
bool cli_training_apply(cli_training *training, const char *name, const char *value);
/* Adds every option that affects the training step to `words`, also if it has its default value
 * (plan_file.h). */
struct cli_words;
void cli_training_words(const cli_training *training, struct cli_words *words);

/* Sets *options to those of the training step of a model. Errors: E_INVALID (no output has the name
 * of --loss output:NAME). */
tn_status cli_training_options(const cli_training *training, const tn_graph *model,
                               tn_train_options *options, tn_error *error);
/* Replaces the model by a model that has the parameters of its training (tn_train_model). */
tn_status cli_training_model(const cli_training *training, tn_graph **model, tn_error *error);

/* Makes the graph of a training step; it is not compiled yet. With `rewrite` true the model is
 * first rewritten for the engine, and *rewritten is the rewritten model; else *rewritten is NULL. A
 * step that was made of a rewritten model may be rewritten again (TN_REWRITE_TRAINED). */
tn_status cli_training_make(const cli_training *training, const tn_graph *model, bool rewrite,
                            tn_graph **rewritten, tn_training *made, tn_error *error);

/* Returns the options of recomputation, which is off if `training` is NULL. */
tn_recompute_options cli_training_recompute(const cli_training *training);

/* --- one of several ranks --- */

#define CLI_BUCKET_USUAL (UINT64_C(4) << 20)

typedef struct cli_ranks {
    tn_grid grid;
    uint32_t rank;
    tn_shard shard; /* the parts of the training state that are divided among data-parallel ranks */
    uint64_t bucket; /* bytes of gradients that are exchanged together; 0: the default */
    bool sequence;   /* true for sequence parallelism between the tensor-parallel ranks */
    /* bytes of parameters that are gathered in advance; 0: those of the largest bucket */
    uint64_t ahead;
    tn_pipeline schedule;
    bool scheduled;          /* true if the option --schedule was given */
    bool whole_sends;        /* true: --whole-sends was given */
    const tn_rules *rules;   /* the rules of the user about tensors, or NULL */
    const tn_training *step; /* the training step that is divided into pipeline stages, or NULL */
} cli_ranks;
#define CLI_RANKS_INIT                                                                             \
    { .grid = TN_GRID_INIT }

/* Returns whether mpirun has started several processes of this command. */
bool cli_ranks_started(void);
/* Ends a process that cannot begin. All processes agree on the error, and one of them prints it.
 * Returns the exit status, which is equal on all processes. */
int cli_ranks_end(const tn_error *error);

/* The table of the options about ranks, except --parallel, as a child of parsers. Its input is a
 * cli_ranks. */
extern const struct argp cli_ranks_argp;

/* Sets the conditions of combine.h about ranks. `several_data` is true if several ranks divide a
 * batch. */
void cli_ranks_conditions(const cli_ranks *ranks, bool several_data);

/* Returns the number of the group of ranks that this rank belongs to along an axis of the grid. */
uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis);
/* Sets the options of the training step for this rank. Errors: E_INVALID (the numbers of ranks do
 * not suit the options). */
tn_status cli_ranks_step(const cli_ranks *ranks, tn_train_options *options, tn_error *error);
/* Joins the groups of ranks that cli_ranks_divide needs in addition to those of tn_world_grid. */
tn_status cli_ranks_join(const cli_ranks *ranks, tn_world *world, const tn_context *context,
                         tn_error *error);
/* The callback tn_divide.divide for more than one rank: makes this rank's part of the program. */
tn_status cli_ranks_divide(void *ranks, const tn_program *program, tn_program **divided,
                           tn_error *error);

#endif
