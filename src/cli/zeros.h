/* zeros.h - the fractions of zeros in one run, for codecs, and the option --codecs. */
#ifndef TN_CLI_ZEROS_H
#define TN_CLI_ZEROS_H

#include <argp.h>

#include <tenure/measure.h>

/* Fills zeroed inputs with the real data of the run. */
typedef struct cli_samples {
    tn_status (*fill)(void *self, const tn_graph *graph, tn_array *inputs, uint32_t count,
                      tn_error *error);
    void *self;
} cli_samples;

/* "bits,csr": bits 1 << tn_codec. Ends the process with a usage error for an unknown name. */
uint32_t cli_codecs(struct argp_state *state, const char *value);
bool cli_codecs_lose(uint32_t codecs); /* whether any of them is lossy */

/* Runs the program of the setup once.
 *
 * samples  NULL: inputs are generated
 * zeros    out, [tensors of the set-up's graph], to be freed; NULL where it has no kernels, or this
 *          machine no room for a plan that is not fitted yet: then nothing is known */
tn_status cli_zeros(const tn_setup *setup, const tn_engine_options *engine,
                    const cli_samples *samples, float **zeros, tn_error *error);

#endif
