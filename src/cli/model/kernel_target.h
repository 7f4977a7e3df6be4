/* kernel_target.h - the kernels that a plan is made for: a kernel library of this machine, or the
 * kernels of a microcontroller.
 *
 * Without a kernel library, operators and tensors stay as in the file, and the rules of the
 * operators give the scratch memory. That answer is the same on every machine. With a kernel
 * library of this machine, the graph is rewritten for it, and its kernels give the scratch memory
 * and the layouts of weights, for a number of threads and the available instruction set. That is
 * the memory of a run, to the byte.
 */
#ifndef TN_MODEL_KERNEL_TARGET_H
#define TN_MODEL_KERNEL_TARGET_H

#include "base/base.h"
#include "cli/model/input.h"

/* Parses "none", "plain" or "onednn", the last two with an optional ":THREADS". False: another
 * word. */
bool cli_kernel_target_parse(struct argp_state *state, const char *text, cli_kernel_target *target);
/* Whether the graph is rewritten for the kernels. */
bool cli_kernel_target_rewrites(const cli_kernel_target *target);
/* E_UNSUPPORTED, with the package to install, if oneDNN is requested and missing. */
tn_status cli_kernel_target_check(const cli_kernel_target *target, tn_error *error);
/* Fills and returns `kernels`, the description for a report; NULL: the graph alone. */
const tn_report_kernels *cli_kernel_target_report(const cli_kernel_target *target,
                                                  const tn_setup *setup,
                                                  tn_report_kernels *kernels);

/* --- kernels of a microcontroller --- */

/* A .tflite model names them with `--target` and `--kernels`. */

/* The values of --target, the default first; NULL at the end. */
extern const char *const cli_processors[];
#define CLI_PROCESSORS                                                                             \
    "cortex-m0 to cortex-m85, esp32, -s2, -s3, -c2, -c3, -c5, -c6, -h2, -p4, or x86-64"

/* --kernels LIBRARY[@VERSION][,gcc|armclang][,tflm=YYYY-MM-DD]. Ends the command with bad usage if
 * the text has another form. */
#define CLI_TFLM_KERNELS_FORM                                                                      \
    "reference, cmsis-nn, esp-nn, or any for the largest of those that run on the target; "        \
    "@VERSION for one version of the library, as in esp-nn@1.2.1; ,gcc or ,armclang for the "      \
    "compiler; ,tflm=2025-01-31 for the revision of TensorFlow Lite Micro"
cli_tflm_kernels cli_tflm_kernels_parse(struct argp_state *state, const char *text);
/* Ends the command with bad usage if the library does not run on the target. */
void cli_tflm_kernels_check(struct argp_state *state, const cli_tflm_kernels *kernels,
                            const char *processor);

/* The options for a target and its kernels, which must outlive them. `most`: sizes that differ
 * between cores, versions and kernels are counted with their largest value, else with their
 * smallest. */
tn_micro_options cli_tflm_options(const char *processor, const cli_tflm_kernels *kernels,
                                  bool most);
/* "reference, cmsis-nn 4.1.0 to main": the kernels that are counted. */
void cli_tflm_kernels_list(const char *processor, const cli_tflm_kernels *kernels, char *text,
                           size_t size);

#endif
