/* split_curve.h - `tenure plan --split --sweep`: the curve of memory against work. */
#ifndef TN_CLI_SPLIT_CURVE_H
#define TN_CLI_SPLIT_CURVE_H

#include "cli/facts.h"

#define CLI_CURVE_MOST 10000u

typedef struct cli_split_curve {
    cli_input *input;
    uint64_t budget; /* limits the plan that is drawn, with its weights; 0: see `options` */
    const tn_plan_options *options; /* its capacity limits the arena that is drawn; 0: draw the
                                     * smallest */
    uint32_t count;
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_split_curve;

extern const cli_facts cli_split_curve_facts;
/* Prints the curve and writes the outputs. Errors: E_EXHAUSTED (no point fits in the capacity), and
 * those of tn_setup_split_sweep and tn_report_write. */
tn_status cli_split_curve_run(const cli_split_curve *asked, tn_error *error);

#endif
