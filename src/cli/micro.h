/* micro.h - the target microcontroller of a .tflite model: `--target` and `--kernels`. */
#ifndef TN_CLI_MICRO_H
#define TN_CLI_MICRO_H

#include "cli/cli.h"

/* The values of --target, the default first; NULL at the end. */
extern const char *const cli_micro_targets[];
/* most: the largest value, where cores, versions and kernels differ. */
tn_micro_options cli_micro(const char *target, cli_kernels kernels, bool most);

#endif
