/* run_arrays.h - the inputs of `tenure run` as they are given, and room for its outputs. */
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

/* Room for the outputs, and the inputs as they are given; those that are not: random:0. */
tn_status cli_arrays_make(const cli_session *session, const cli_given *given, uint32_t given_count,
                          cli_arrays *arrays, tn_error *error);
/* Room for outputs alone. */
tn_status cli_arrays_outputs(const tn_graph *graph, cli_arrays *arrays, tn_error *error);
/* A run tells how many bytes it wrote; before the next one the room is said again. */
void cli_arrays_reset(const tn_graph *graph, cli_arrays *arrays);
void cli_arrays_release(cli_arrays *arrays);
const char *cli_output_name(const cli_session *session, uint32_t index);

#endif
