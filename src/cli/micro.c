/* micro.c - the target microcontroller of a .tflite model. */
#include "cli/micro.h"

#include <string.h>

const char *const cli_micro_targets[] = {
    "cortex-m4",  "cortex-m0",  "cortex-m0plus", "cortex-m3", "cortex-m7", "cortex-m23",
    "cortex-m33", "cortex-m55", "cortex-m85",    "x86-64",    NULL};

tn_micro_options cli_micro(const char *target, cli_kernels kernels, bool most) {
    tn_micro_options micro = TN_MICRO_OPTIONS_INIT;
    bool helium = strcmp(target, "cortex-m55") == 0 || strcmp(target, "cortex-m85") == 0;
    if (helium) micro.target = TN_MICRO_CORTEX_M_HELIUM;
    if (strcmp(target, "x86-64") == 0) micro.target = TN_MICRO_X86_64;
    micro.most = most;
    if (kernels == CLI_KERNELS_CMSIS || (kernels == CLI_KERNELS_ANY && most))
        micro.kernels = TN_MICRO_CMSIS_NN;
    return micro;
}
