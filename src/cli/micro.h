/* micro.h - the target microcontroller of a .tflite model: `--target` and `--kernels`. */
#ifndef TN_CLI_MICRO_H
#define TN_CLI_MICRO_H

#include "cli/cli.h"

/* The values of --target, the default first; NULL at the end. */
extern const char *const cli_micro_targets[];
/* The options for a target and its kernels. `most`: sizes that differ between cores, versions and
 * kernels are counted with their largest value, else with their smallest. */
tn_micro_options cli_micro(const char *target, cli_kernels kernels, bool most);

#endif
