/* ask.h - from the options of a command to the options of a setup, for every command that compiles
 * a model.
 *
 * cli_ask sets what all commands have in common: order, kernels, memory, static memory,
 * recomputation and plan. A command then changes only what differs: a budget, ranks, the program of
 * a plan.
 */
#ifndef TN_CLI_ASK_H
#define TN_CLI_ASK_H

#include <tenure/claim.h>

#include "cli/fit_options.h"
#include "cli/train_options.h"
#include "cli/whom.h"
#include "cli/zeros.h"

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

/* Answers the questions of a tn_fit_request about costs and zeros; do not move it. */
typedef struct cli_sources {
    const cli_costs *from;      /* not given: the library measures */
    uint32_t threads, codecs;   /* codecs: as in tn_fit_options; 0: all */
    tn_engine_options engine;   /* reads data, for a run that counts zeros */
    const cli_samples *samples; /* NULL: its inputs are generated */
    float **zeros;              /* out: measured fractions, to be freed by the owner */
} cli_sources;
void cli_ask_fit(cli_sources *sources, tn_fit_request *request);

#endif
