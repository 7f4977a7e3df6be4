/* train_options.h - shared by `train` and `estimate --train`: options, and the graph of a step.
 *
 * A switch of tn_train_options is one row of TRAINING_SWITCHES in train_options.c.
 */
#ifndef TN_CLI_TRAIN_OPTIONS_H
#define TN_CLI_TRAIN_OPTIONS_H

#include "cli/cli.h"

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
/* Adds every option that affects the step, with defaults spelled out (plan_options.h). */
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
tn_recompute_options cli_training_again(const cli_training *training);

#endif
