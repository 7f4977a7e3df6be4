/* ask.h - from the options of a command to the options of a setup, for every command that compiles
 * a model.
 *
 * cli_ask sets what all commands have in common: order, kernels, memory, static memory,
 * recomputation and plan. A command then changes only what differs: a budget, ranks, the program of
 * a plan.
 */
#ifndef TN_CLI_ASK_H
#define TN_CLI_ASK_H

#include "cli/train_options.h"
#include "cli/whom.h"

typedef struct cli_asked { /* the options of a setup, and the objects that they point to; do not
                            * move it */
    tn_setup_options setup;
    tn_rewrite_options rewrite;
    tn_kernels_options kernels;
    tn_program_options program;
    tn_recompute_options recompute;
    tn_occupancy_options memory;
} cli_asked;

/* training NULL: inference. plan NULL: no layout. */
void cli_ask(const cli_input *input, const cli_whom *whom, const cli_training *training,
             const tn_plan_options *plan, cli_asked *asked);
/* The memory model alone. */
tn_occupancy_options cli_ask_memory(const cli_input *input);

#endif
