/* kernel_target.h - the kernels that a plan is made for: a kernel library of this machine, or the
 * kernels of a microcontroller.
 *
 * Without a kernel library, operators and tensors stay as in the file, and the rules of the
 * operators give the scratch memory. Such a plan is the same on every machine. With a kernel
 * library of this machine, the graph is rewritten for the library. Its kernels then give the
 * scratch memory and the layouts of weights, for a number of threads and the available instruction
 * set. Such a plan has exactly the memory of a run.
 */
#ifndef TN_MODEL_KERNEL_TARGET_H
#define TN_MODEL_KERNEL_TARGET_H

#include "base/base.h"
#include "cli/model/input.h"

/* Parses "none", "plain" or "onednn"; the last two may be followed by ":THREADS". Returns false for
 * any other text. */
bool cli_kernel_target_parse(struct argp_state *state, const char *text, cli_kernel_target *target);
/* Returns whether the graph is rewritten for the kernels. */
bool cli_kernel_target_rewrites(const cli_kernel_target *target);
/* Returns E_UNSUPPORTED if oneDNN was requested and is missing; the message names the package to
 * install. */
tn_status cli_kernel_target_check(const cli_kernel_target *target, tn_error *error);
/* Fills `kernels` with the description of the kernels for a report, and returns it. Returns NULL if
 * the plan is for the graph alone. */
const tn_report_kernels *cli_kernel_target_report(const cli_kernel_target *target,
                                                  const tn_setup *setup,
                                                  tn_report_kernels *kernels);

/* --- kernels of a microcontroller --- */

/* For a .tflite model, --target and --kernels name the processor and the kernels. */

/* The values of --target, the default first, followed by NULL. */
extern const char *const cli_processors[];
#define CLI_PROCESSORS                                                                             \
    "cortex-m0 to cortex-m85, esp32, -s2, -s3, -c2, -c3, -c5, -c6, -h2, -p4, hifi3, "              \
    "hifi4, or x86-64"

/* Parses --kernels LIBRARY[@VERSION][,gcc|armclang][,tflm=YYYY-MM-DD]. A text of any other form is
 * a usage error. */
#define CLI_TFLM_KERNELS_FORM                                                                      \
    "reference, cmsis-nn, esp-nn, hifi-nn, or any for the largest of those that run on the "       \
    "target; "                                                                                     \
    "@VERSION for one version of the library, as in esp-nn@1.2.1; ,gcc or ,armclang for the "      \
    "compiler; ,tflm=2025-01-31 for the revision of TensorFlow Lite Micro"
cli_tflm_kernels cli_tflm_kernels_parse(struct argp_state *state, const char *text);
/* Ends the program with a usage error if the library of the kernels does not run on the
 * processor. */
void cli_tflm_kernels_check(struct argp_state *state, const cli_tflm_kernels *kernels,
                            const char *processor);

/* Returns the options of the library for a processor and its kernels; both arguments must outlive
 * the result. Some sizes differ between cores, versions and kernels. With `most` true their largest
 * value is counted, else their smallest. */
tn_micro_options cli_tflm_options(const char *processor, const cli_tflm_kernels *kernels,
                                  bool most);
/* Writes the list of the kernels that are counted, such as "reference, cmsis-nn 4.1.0 to main". */
void cli_tflm_kernels_list(const char *processor, const cli_tflm_kernels *kernels, char *text,
                           size_t size);

#endif
