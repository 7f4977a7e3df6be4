/* fit_options.h - options of whoever keeps a model to a budget: `fit`, `run` and `train`. */
#ifndef TN_CLI_FIT_OPTIONS_H
#define TN_CLI_FIT_OPTIONS_H

#include "cli/cli.h"

/* --allow order,recompute,...: TN_FIT_*, none of them compression with loss. */
uint32_t cli_allow(struct argp_state *state, const char *value);
/* What may be done, where nothing was said of it: with a link swaps, too; with a pass of one's own
 * no parts. A link that is needed and is not there ends the command. */
uint32_t cli_allow_check(struct argp_state *state, uint32_t allow, double link, const char *pass);
/* Bytes for copies where none are allowed are a mistake; 0: nobody said. */
void cli_host_budget_check(struct argp_state *state, uint64_t bytes, uint32_t allow);

#define CLI_SWAP_DEVICE_HELP                                                                       \
    "keeps what is swapped out: one of `tenure list devices`; cuda:1 is the second, file:DIR a "   \
    "file in that folder. Its link is measured where none is given (the host's memory)"
/* --swap-device: a wrong one is told at once; it is opened and its link measured if there are no
 * speeds yet. allow: as it was said, 0 nothing. Ends the command where it fails. name NULL: nothing
 * to do. */
void cli_swap_link(struct argp_state *state, const char *name, uint32_t allow,
                   double *to_bytes_per_s, double *from_bytes_per_s);

/* Where seconds of operators come from. Zero: nobody said. */
typedef struct cli_costs {
    const char *path;          /* a file */
    const tn_hardware *device; /* by its two rates */
} cli_costs;
/* --costs FILE or model:DEVICE */
void cli_costs_parse(struct argp_state *state, cli_costs *costs, const char *value);
bool cli_costs_given(const cli_costs *costs);
/* Of a graph as it runs, with so many threads: where those of a file are of another number, a note
 * says so. Errors: those of tn_costs_read and tn_costs_create_model. */
tn_status cli_costs_make(const cli_costs *costs, const tn_graph *graph, uint32_t threads,
                         const tn_context *context, tn_costs **made, tn_error *error);

#endif
