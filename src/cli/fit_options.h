/* fit_options.h - options of the commands with a budget: `fit`, `run` and `train`. */
#ifndef TN_CLI_FIT_OPTIONS_H
#define TN_CLI_FIT_OPTIONS_H

#include "cli/cli.h"

/* Parses --allow order,recompute,... into TN_FIT_*, without lossy compression. */
uint32_t cli_allow(struct argp_state *state, const char *value);
/* Fills in the default techniques: with a link also swapping, with --pass no tiles. */
uint32_t cli_allow_complete(uint32_t allow, double link, const char *pass);

#define CLI_SWAP_DEVICE_HELP                                                                       \
    "device that holds swapped tensors: one of `tenure list devices`; cuda:1 is the second GPU, "  \
    "file:DIR a file in that folder; its speed is measured unless --link is given (default: host " \
    "memory)"
/* --swap-device: checks the device, and measures its link if no speeds are given. Ends the command
 * on failure. name NULL: does nothing. */
void cli_swap_link(const char *name, double *to_bytes_per_s, double *from_bytes_per_s);

/* The source of operator times. Zero: not given. */
typedef struct cli_costs {
    const char *path;          /* a file */
    const tn_hardware *device; /* modelled by its two rates */
} cli_costs;
/* --costs FILE or model:DEVICE */
void cli_costs_parse(struct argp_state *state, cli_costs *costs, const char *value);
bool cli_costs_given(const cli_costs *costs);
/* Makes the costs of a graph for this number of threads; prints a note if a file has costs for
 * another number. Errors: those of tn_costs_read and tn_costs_create_model. */
tn_status cli_costs_make(const cli_costs *costs, const tn_setup *setup, uint32_t threads,
                         const tn_context *context, tn_costs **made, tn_error *error);

#endif
