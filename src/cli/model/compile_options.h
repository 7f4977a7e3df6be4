/* compile_options.h - converts the options of a command to requests to the library: the options of
 * a compiled model (cli_compile_options_set) and a tn_fit_request (cli_fit_request_set).
 *
 * cli_compile_options_set sets the fields that all commands have in common, such as order, kernels
 * and plan. A command then changes only its own fields, such as a budget, ranks, or the program of
 * a plan.
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

/* Parses the list of techniques of --allow, such as "order,recompute", into bits TN_FIT_*. Lossy
 * compression cannot be allowed here. */
uint32_t cli_allow(struct argp_state *state, const char *value);
/* Parses a relative error above 0, such as "5%" or "0.05". */
double cli_max_error(struct argp_state *state, const char *value);
/* Returns `allow` with default techniques added if it names none, or only tiles and weight
 * streaming. With a link, swapping is one of the defaults. Tiles and weight streaming are not if
 * `allow` names one of the two, or with --pass (`pass` not NULL). */
uint32_t cli_allow_complete(uint32_t allow, double link, const char *pass);

#define CLI_SWAP_DEVICE_HELP                                                                       \
    "device that holds swapped tensors: one of `tenure list devices`; cuda:1 is the second GPU, "  \
    "file:DIR a file in that folder; its speed is measured unless --link is given (default: host " \
    "memory)"
/* Handles --swap-device: checks that the device `name` exists, and measures the speeds of its link
 * if the caller gives none. An error ends the command. Does nothing if `name` is NULL. */
void cli_swap_link(const char *name, double *to_bytes_per_s, double *from_bytes_per_s);

/* The source of operator times: a file or a device. If both fields are NULL, no source was
 * given. */
typedef struct cli_costs {
    const char *path; /* path of a file of costs */
    /* a device; costs are modelled by its arithmetic rate and memory bandwidth */
    const tn_hardware *device;
} cli_costs;
/* Parses --costs FILE or --costs model:DEVICE. */
void cli_costs_parse(struct argp_state *state, cli_costs *costs, const char *value);
bool cli_costs_given(const cli_costs *costs);
/* Makes the costs of a setup's graph for `threads` threads. Prints a note if a file has costs for
 * another number of threads. Errors: those of tn_costs_read and tn_costs_create_model;
 * E_UNSUPPORTED for a file if the setup has tiles. */
tn_status cli_costs_make(const cli_costs *costs, const tn_setup *setup, uint32_t threads,
                         const tn_context *context, tn_costs **made, tn_error *error);

/* --- fractions of zeros, for codecs --- */

/* A callback that fills zeroed inputs with the real data of the run. */
typedef struct cli_samples {
    tn_status (*fill)(void *self, const tn_graph *graph, tn_array *inputs, uint32_t count,
                      tn_error *error);
    void *self;
} cli_samples;

/* Parses a list of codecs, such as "bits,csr", into bits 1 << tn_codec. An unknown name is a usage
 * error. */
uint32_t cli_codecs(struct argp_state *state, const char *value);
/* Returns whether any of the codecs in the set `codecs` is lossy. */
bool cli_codecs_lose(uint32_t codecs);

/* --- requests to the library --- */

/* The options of a compiled model, and the structs that `setup` points to. The struct must not be
 * moved or copied, because it points into itself. */
typedef struct cli_compile_options {
    tn_setup_options setup;
    tn_rewrite_options rewrite;
    tn_kernels_options kernels;
    tn_program_options program;
    tn_recompute_options recompute;
    tn_occupancy_options memory;
} cli_compile_options;

/* Sets the options that all commands have in common. `training` NULL means inference. `plan` NULL
 * means that no layout is made. */
void cli_compile_options_set(const cli_input *input, const cli_kernel_target *target,
                             const cli_training *training, const tn_plan_options *plan,
                             cli_compile_options *options);
/* Returns only the options of the memory model. */
tn_occupancy_options cli_memory_options(const cli_input *input);

/* The data for the callbacks `costs` and `zeros` of a tn_fit_request. The struct must not be moved
 * while the request is in use. */
typedef struct cli_fit_sources {
    const cli_costs *from;    /* source of operator times; if unset, the library measures them */
    uint32_t threads, codecs; /* codecs: bits as in tn_fit_options; 0: all codecs */
    tn_engine_options engine; /* options that read the tensors, for a run that counts zeros */
    /* fills the inputs of the run that counts zeros; NULL: inputs are generated */
    const cli_samples *samples;
    /* receives the measured fractions of zeros; the owner of the pointer frees them */
    float **zeros;
} cli_fit_sources;
void cli_fit_request_set(cli_fit_sources *sources, tn_fit_request *request);

#endif
