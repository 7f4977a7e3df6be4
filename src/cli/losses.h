/* losses.h - the errors of lossy codecs in a run, and the option --max-error. */
#ifndef TN_CLI_LOSSES_H
#define TN_CLI_LOSSES_H

#include "cli/facts.h"

typedef struct cli_losses {
    tn_engine_loss *rows; /* [count] falling in relative error; names belong to the program */
    uint32_t count;
} cli_losses;

/* Without memory it has no rows. Release it in any case. */
void cli_losses_read(cli_losses *losses, const tn_engine *engine);
void cli_losses_release(cli_losses *losses);

/* Parses a relative error above 0: 5% or 0.05. */
double cli_max_error(struct argp_state *state, const char *value);

extern const cli_facts cli_losses_facts; /* with CLI_FACTS_ALSO */
/* Nothing if nothing was encoded. */
void cli_losses_tell(cli_answer *answer, const cli_losses *losses);
/* The same for an engine. */
void cli_engine_losses_tell(cli_answer *answer, const tn_engine *engine);

#endif
