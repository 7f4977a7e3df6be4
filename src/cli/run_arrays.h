/* run_arrays.h - the inputs of `tenure run` and buffers for its outputs. */
#ifndef TN_CLI_RUN_ARRAYS_H
#define TN_CLI_RUN_ARRAYS_H

#include "cli/open_model.h"

typedef struct cli_given { /* --input NAME=WHAT */
    const char *name, *what;
} cli_given;

typedef struct cli_arrays {
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
} cli_arrays;

/* Allocates the outputs and fills the inputs; an input that is not given gets random:0. */
tn_status cli_arrays_make(const cli_session *session, const cli_given *given, uint32_t given_count,
                          cli_arrays *arrays, tn_error *error);
/* Allocates outputs only. */
tn_status cli_arrays_outputs(const tn_graph *graph, cli_arrays *arrays, tn_error *error);
/* A run sets the sizes of the outputs to the bytes written; this restores the capacities before the
 * next run. */
void cli_arrays_reset(const tn_graph *graph, cli_arrays *arrays);
void cli_arrays_release(cli_arrays *arrays);
const char *cli_output_name(const cli_session *session, uint32_t index);

#endif
