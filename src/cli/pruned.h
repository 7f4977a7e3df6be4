/* pruned.h - prints the effect of pruning on the weights of a model. */
#ifndef TN_CLI_PRUNED_H
#define TN_CLI_PRUNED_H

#include "base/base.h"
#include "cli/facts.h"
#include "cli/open_model.h"

/* A child of parsers: --prune, --prune-scope; its input is a cli_session. */
extern const struct argp cli_pruned_argp;

/* Adds a summary and a row per weight to the answer; nothing without pruning. */
extern const cli_facts cli_pruned_facts; /* with CLI_FACTS_ALSO */
void cli_pruned_tell(cli_answer *answer, const cli_session *session);

#endif
