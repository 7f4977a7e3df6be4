/* session.h - from a model file to an engine that can run it: what `tenure run` does, in steps. */
#ifndef TN_CLI_SESSION_H
#define TN_CLI_SESSION_H

#include "cli/cli.h"

typedef struct cli_session {
    cli_input *input; /* how to read the model; its graph is the file's */
    tn_plan_options plan;
    uint32_t threads;
    bool plain, no_rewrite; /* no oneDNN; operators as they are in the file */
    bool poison, naive;     /* naive: memory of its own for every tensor */
    const char *pool;
    uint64_t budget; /* bytes, of arena and weights; 0: what is needed */
    bool weights_made_up;
    uint64_t weights_seed, seed;
    tn_trace *trace;
    /* what was made */
    tn_contents *contents;
    tn_graph *rewritten;
    const tn_graph *graph; /* that runs */
    tn_kernels *kernels;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    uint64_t weights; /* bytes of static memory */
    tn_device *device;
    tn_engine *engine;
} cli_session;

/* Everything up to the plan. */
tn_status cli_session_plan(cli_session *session, tn_error *error);
/* The smallest budget that would do. */
uint64_t cli_session_need(const cli_session *session);
/* Device and engine. Errors: E_EXHAUSTED when the budget is too small. */
tn_status cli_session_open(cli_session *session, tn_error *error);
/* Another engine for the same program, every tensor in memory of its own. `other` starts zeroed. */
tn_status cli_session_naive(const cli_session *session, cli_session *other, tn_error *error);
void cli_session_close(cli_session *session);

/* --- arrays --- */

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
void cli_arrays_release(cli_arrays *arrays);
const char *cli_output_name(const cli_session *session, uint32_t index);

#endif
