/* micro.h - the microcontroller that a .tflite model is for: `--target` and `--kernels`. */
#ifndef TN_CLI_MICRO_H
#define TN_CLI_MICRO_H

#include "cli/cli.h"

/* Names of --target, the default first; NULL at the end. */
extern const char *const cli_micro_targets[];
/* most: of what differs between cores, versions and kernels, the most. */
tn_micro_options cli_micro(const char *target, cli_kernels kernels, bool most);

#endif
