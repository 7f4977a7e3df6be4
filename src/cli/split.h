/* split.h - operators in parts: the options of who plans or runs a model, and what came of them. */
#ifndef TN_CLI_SPLIT_H
#define TN_CLI_SPLIT_H

#include "base/base.h"
#include "cli/cli.h"

/* The child of a parser whose input is a cli_split. */
extern const struct argp cli_split_argp;
/* NULL where nobody asked; `budget` 0: none. Lives as long as `split`. */
const tn_setup_split *cli_split_of(cli_split *split, uint64_t budget);
/* "1 region, +2.0 % operations, 3.1 MiB more moved"; nothing where nothing is cut. */
void cli_split_words(const tn_setup *setup, tn__text *text);
/* A line of an answer, or a member of a JSON object behind others; nothing where nothing is cut. */
void cli_split_print(const tn_setup *setup);
void cli_split_json(const tn_setup *setup, tn__text *text);

/* Operations beyond those of the whole, as a share of them; bytes that are moved beyond its. */
double cli_split_extra(const tn_split_report *report);
uint64_t cli_split_moved(const tn_split_report *report);

/* 10% or 0.1, of work. */
double cli_share(struct argp_state *state, const char *option, const char *text);

#endif
