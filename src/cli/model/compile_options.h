/* compile_options.h - from the options of a command to requests to the library: the options of a
 * compiled model (cli_compile_options_set) and a tn_fit_request (cli_fit_request_set).
 *
 * cli_compile_options_set sets the fields that all commands have in common: order, kernels, memory,
 * static memory, recomputation and plan. A command then changes only its own fields: a budget,
 * ranks, the program of a plan.
 */
#ifndef TN_MODEL_COMPILE_OPTIONS_H
#define TN_MODEL_COMPILE_OPTIONS_H

#include <argp.h>

#include <tenure/engine.h>
#include <tenure/fit.h>

#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/training.h"

/* --- techniques for a budget, and their costs --- */

/* Parses --allow order,recompute,... into TN_FIT_*, without lossy compression. */
uint32_t cli_allow(struct argp_state *state, const char *value);
/* Parses a relative error above 0: 5% or 0.05. */
double cli_max_error(struct argp_state *state, const char *value);
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

/* --- fractions of zeros, for codecs --- */

/* Fills zeroed inputs with the real data of the run. */
typedef struct cli_samples {
    tn_status (*fill)(void *self, const tn_graph *graph, tn_array *inputs, uint32_t count,
                      tn_error *error);
    void *self;
} cli_samples;

/* "bits,csr": bits 1 << tn_codec. Ends the process with a usage error for an unknown name. */
uint32_t cli_codecs(struct argp_state *state, const char *value);
bool cli_codecs_lose(uint32_t codecs); /* whether any of them is lossy */

/* --- requests to the library --- */

/* The options of a compiled model, and the objects that they point to. Do not move it. */
typedef struct cli_compile_options {
    tn_setup_options setup;
    tn_rewrite_options rewrite;
    tn_kernels_options kernels;
    tn_program_options program;
    tn_recompute_options recompute;
    tn_occupancy_options memory;
} cli_compile_options;

/* training NULL: inference. plan NULL: no layout. */
void cli_compile_options_set(const cli_input *input, const cli_kernel_target *target,
                             const cli_training *training, const tn_plan_options *plan,
                             cli_compile_options *options);
/* The memory model alone. */
tn_occupancy_options cli_memory_options(const cli_input *input);

/* Answers the questions of a tn_fit_request about costs and zeros; do not move it. */
typedef struct cli_fit_sources {
    const cli_costs *from;      /* not given: the library measures */
    uint32_t threads, codecs;   /* codecs: as in tn_fit_options; 0: all */
    tn_engine_options engine;   /* reads data, for a run that counts zeros */
    const cli_samples *samples; /* NULL: its inputs are generated */
    float **zeros;              /* out: measured fractions, to be freed by the owner */
} cli_fit_sources;
void cli_fit_request_set(cli_fit_sources *sources, tn_fit_request *request);

#endif
