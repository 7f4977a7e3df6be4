/* pruned.h - prints the effect of pruning on the weights of a model. */
#ifndef TN_CLI_PRUNED_H
#define TN_CLI_PRUNED_H

#include "base/base.h"
#include "cli/open_model.h"

/* A child of parsers: --prune, --prune-scope; its input is a cli_session. */
extern const struct argp cli_pruned_argp;

/* Prints a summary and a line per weight, or nothing without pruning. */
void cli_pruned_print(const cli_session *session);
/* A member `pruned` with a comma before it. */
void cli_pruned_json(const cli_session *session, tn__text *text);

#endif
