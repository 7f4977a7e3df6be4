/* wait_curve.h - `tenure plan --objective pairs|waits|time --sweep`: the curve of bytes against the
 * objective. */
#ifndef TN_CLI_WAIT_CURVE_H
#define TN_CLI_WAIT_CURVE_H

#include "cli/facts.h"

typedef struct cli_wait_curve {
    cli_input *input;
    const tn_plan_options *options; /* its limits are divided by the plans */
    uint32_t count;                 /* points, at least 2 */
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_wait_curve;

extern const cli_facts cli_wait_curve_facts;
/* Prints the curve and writes the outputs. Errors: those of tn_plan and of files. */
tn_status cli_wait_curve_run(const cli_wait_curve *asked, tn_error *error);

#endif
