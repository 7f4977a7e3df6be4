/* micro.h - the target microcontroller of a .tflite model: `--target` and `--kernels`. */
#ifndef TN_CLI_MICRO_H
#define TN_CLI_MICRO_H

#include "cli/cli.h"

/* The values of --target, the default first; NULL at the end. */
extern const char *const cli_micro_targets[];
#define CLI_TARGETS                                                                                \
    "cortex-m0 to cortex-m85, esp32, -s2, -s3, -c2, -c3, -c5, -c6, -h2, -p4, or x86-64"

/* --kernels LIBRARY[@VERSION][,gcc|armclang][,tflm=YYYY-MM-DD]. Ends the command with bad usage if
 * the text has another form. */
#define CLI_KERNELS_FORM                                                                           \
    "reference, cmsis-nn, esp-nn, or any for the largest of those that run on the target; "        \
    "@VERSION for one version of the library, as in esp-nn@1.2.1; ,gcc or ,armclang for the "      \
    "compiler; ,tflm=2025-01-31 for the revision of TensorFlow Lite Micro"
cli_kernels cli_kernels_parse(struct argp_state *state, const char *text);
/* Ends the command with bad usage if the library does not run on the target. */
void cli_kernels_check(struct argp_state *state, const cli_kernels *kernels, const char *target);

/* The options for a target and its kernels, which must outlive them. `most`: sizes that differ
 * between cores, versions and kernels are counted with their largest value, else with their
 * smallest. */
tn_micro_options cli_micro(const char *target, const cli_kernels *kernels, bool most);
/* "reference, cmsis-nn 4.1.0 to main": the kernels that are counted. */
void cli_kernels_list(const char *target, const cli_kernels *kernels, char *text, size_t size);

#endif
