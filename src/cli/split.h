/* split.h - operators in tiles: the options for planning and running a model, and the report. */
#ifndef TN_CLI_SPLIT_H
#define TN_CLI_SPLIT_H

#include "base/base.h"
#include "cli/facts.h"

/* The child of a parser whose input is a cli_split. */
extern const struct argp cli_split_argp;
/* NULL without --split; `budget` 0: none. Valid as long as `split`. */
const tn_setup_split *cli_split_of(cli_split *split, uint64_t budget);
/* "1 region, +2.0 % operations, 3.1 MiB more moved"; empty without tiles. */
void cli_split_words(const tn_setup *setup, tn__text *text);
/* Adds the tiles to the answer; nothing without tiles. */
extern const cli_facts cli_split_facts; /* with CLI_FACTS_ALSO */
void cli_split_tell(cli_answer *answer, const tn_setup *setup);

/* Additional operations as a fraction of the model's, and additional bytes moved. */
double cli_split_extra(const tn_split_report *report);
uint64_t cli_split_moved(const tn_split_report *report);

/* The value of --extra-work: 10% or 0.1. */
double cli_extra_work(struct argp_state *state, const char *text);

#endif
