/* kernel_target.c - chooses the kernels that a plan is made for: a kernel library of this machine,
 * or the kernels of a microcontroller. */
#include "cli/model/kernel_target.h"
#include "base/base.h"
#include "cli/model/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a kernel library of this machine --- */

#define TARGET_THREADS_MOST 1024u

bool cli_kernel_target_parse(struct argp_state *state, const char *text,
                             cli_kernel_target *target) {
    static const struct {
        const char *word;
        cli_runner runner;
    } words[] = {
        {"none", CLI_RUNNER_NONE}, {"plain", CLI_RUNNER_PLAIN}, {"onednn", CLI_RUNNER_ONEDNN}};
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != length || strncmp(text, words[i].word, length) != 0) continue;
        target->runner = words[i].runner;
        if (colon != NULL)
            target->threads = (uint32_t)cli_count(state, "kernels", colon + 1, TARGET_THREADS_MOST);
        return true;
    }
    return false;
}

bool cli_kernel_target_rewrites(const cli_kernel_target *target) {
    return target->runner == CLI_RUNNER_ONEDNN && !target->no_rewrite;
}

tn_status cli_kernel_target_check(const cli_kernel_target *target, tn_error *error) {
    tn_error missing;
    if (target->runner != CLI_RUNNER_ONEDNN || tn_kernels_library(NULL, &missing)) return TN_OK;
    *error = missing;
    return missing.status;
}

const tn_report_kernels *cli_kernel_target_report(const cli_kernel_target *target,
                                                  const tn_setup *setup,
                                                  tn_report_kernels *kernels) {
    if (setup == NULL || tn_setup_kernels(setup) == NULL) return NULL;
    const char *isa = tn_kernels_isa(tn_setup_kernels(setup));
    *kernels = (tn_report_kernels){.library = isa[0] != '\0' ? "onednn" : "plain",
                                   .isa = isa,
                                   .threads = target->threads > 0 ? target->threads : 1,
                                   .rewritten = cli_kernel_target_rewrites(target),
                                   .fastest = target->fastest};
    return kernels;
}

/* --- kernels of a microcontroller --- */

#define MICRO_TARGETS(X)                                                                           \
    X("cortex-m4", CORTEX_M)                                                                       \
    X("cortex-m0", CORTEX_M_SCALAR)                                                                \
    X("cortex-m0plus", CORTEX_M_SCALAR)                                                            \
    X("cortex-m3", CORTEX_M_SCALAR)                                                                \
    X("cortex-m7", CORTEX_M)                                                                       \
    X("cortex-m23", CORTEX_M_SCALAR)                                                               \
    X("cortex-m33", CORTEX_M)                                                                      \
    X("cortex-m35p", CORTEX_M)                                                                     \
    X("cortex-m52", CORTEX_M_HELIUM)                                                               \
    X("cortex-m55", CORTEX_M_HELIUM)                                                               \
    X("cortex-m85", CORTEX_M_HELIUM)                                                               \
    X("esp32", ESP32)                                                                              \
    X("esp32-s2", ESP32)                                                                           \
    X("esp32-s3", ESP32_S3)                                                                        \
    X("esp32-c2", ESP32)                                                                           \
    X("esp32-c3", ESP32)                                                                           \
    X("esp32-c5", ESP32)                                                                           \
    X("esp32-c6", ESP32)                                                                           \
    X("esp32-h2", ESP32)                                                                           \
    X("esp32-p4", ESP32_P4)                                                                        \
    X("hifi3", HIFI4)                                                                              \
    X("hifi4", HIFI4)                                                                              \
    X("x86-64", X86_64)

#define MICRO_NAME(name, target) name,
const char *const cli_processors[] = {MICRO_TARGETS(MICRO_NAME) NULL};
#define MICRO_TARGET(name, target) TN_MICRO_##target,
static const tn_micro_target micro_targets[] = {MICRO_TARGETS(MICRO_TARGET)};

static const char *const micro_libraries[] = {"reference", "cmsis-nn", "esp-nn",
                                              "hifi-nn",   "any",      NULL};

static tn_micro_target micro_target(const char *name) {
    for (uint32_t i = 0; cli_processors[i] != NULL; i++)
        if (strcmp(cli_processors[i], name) == 0) return micro_targets[i];
    return micro_targets[0];
}

/* Parses a date such as "2025-01-31" or "2025-01" into a number such as 20250131. Returns false for
 * any other text. */
static bool micro_date(const char *text, uint32_t *date) {
    uint32_t digits = 0, value = 0;
    for (; *text != '\0'; text++) {
        if (*text == '-' && (digits == 4 || digits == 6)) continue;
        if (*text < '0' || *text > '9' || digits == 8) return false;
        value = 10 * value + (uint32_t)(*text - '0');
        digits++;
    }
    if (digits == 6) value = 100 * value + 1;
    *date = value;
    return digits >= 6 && value / 100 % 100 >= 1 && value / 100 % 100 <= 12;
}

static void micro_part(struct argp_state *state, cli_tflm_kernels *kernels, const char *part) {
    if (strcmp(part, "gcc") == 0)
        kernels->compiler = TN_MICRO_GCC;
    else if (strcmp(part, "armclang") == 0)
        kernels->compiler = TN_MICRO_ARMCLANG;
    else if (strncmp(part, "tflm=", 5) != 0 || !micro_date(part + 5, &kernels->runtime))
        cli_misuse(state, "--kernels: '%.40s' is not gcc, armclang or tflm=YYYY-MM-DD", part);
}

cli_tflm_kernels cli_tflm_kernels_parse(struct argp_state *state, const char *text) {
    cli_tflm_kernels kernels = {0};
    char copy[sizeof kernels.text], *rest = NULL;
    if (strlen(text) >= sizeof copy) cli_misuse(state, "--kernels: '%.40s...' is too long", text);
    strcpy(copy, text);
    strcpy(kernels.text, text);
    char *part = strtok_r(copy, ",", &rest);
    if (part == NULL) part = copy; /* an empty `text` has no first part, so the part is "" */
    char *at = strchr(part, '@');
    if (at != NULL) *at = '\0';
    kernels.library = (tn_micro_kernels)cli_choice(state, "kernels", part, micro_libraries);
    bool is_library = kernels.library != TN_MICRO_REFERENCE && kernels.library != TN_MICRO_ANY;
    if (at != NULL && !is_library)
        cli_misuse(state, "--kernels: only cmsis-nn, esp-nn and hifi-nn have a version, as in "
                          "esp-nn@1.2.1");
    if (at != NULL) {
        if (strlen(at + 1) >= sizeof kernels.version || at[1] == '\0')
            cli_misuse(state, "--kernels: '%.40s' is not a version, such as 1.2.1", at + 1);
        strcpy(kernels.version, at + 1);
    }
    while ((part = strtok_r(NULL, ",", &rest)) != NULL) micro_part(state, &kernels, part);
    return kernels;
}

void cli_tflm_kernels_check(struct argp_state *state, const cli_tflm_kernels *kernels,
                            const char *processor) {
    if (kernels->library == TN_MICRO_REFERENCE || kernels->library == TN_MICRO_ANY) return;
    if (tn_micro_version_count(micro_target(processor), kernels->library) > 0) return;
    if (kernels->library == TN_MICRO_ESP_NN)
        cli_misuse(state, "--kernels esp-nn: %s is not an ESP32; add --target esp32-s3 or another",
                   processor);
    if (kernels->library == TN_MICRO_HIFI_NN)
        cli_misuse(state, "--kernels hifi-nn: %s is not an Xtensa HiFi; add --target hifi4",
                   processor);
    cli_misuse(state, "--kernels cmsis-nn: %s is not a Cortex-M; use %s", processor,
               micro_target(processor) == TN_MICRO_HIFI4 ? "hifi-nn" : "esp-nn");
}

tn_micro_options cli_tflm_options(const char *processor, const cli_tflm_kernels *kernels,
                                  bool most) {
    tn_micro_options micro = TN_MICRO_OPTIONS_INIT;
    micro.target = micro_target(processor);
    micro.kernels = kernels->library;
    micro.most = most;
    micro.version = kernels->version[0] != '\0' ? kernels->version : NULL;
    micro.runtime = kernels->runtime;
    micro.compiler = kernels->compiler;
    return micro;
}

static void micro_add(char *text, size_t size, const char *name, const char *from, const char *to) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s%s%s%s%s", used > 0 ? ", " : "", name, *from ? " " : "",
             from, *to ? " to " : "", to);
}

void cli_tflm_kernels_list(const char *processor, const cli_tflm_kernels *kernels, char *text,
                           size_t size) {
    tn_micro_target core = micro_target(processor);
    bool is_any = kernels->library == TN_MICRO_ANY;
    text[0] = '\0';
    if (is_any || kernels->library == TN_MICRO_REFERENCE)
        micro_add(text, size, micro_libraries[0], "", "");
    for (tn_micro_kernels library = TN_MICRO_CMSIS_NN; library < TN_MICRO_ANY; library++) {
        uint32_t count = tn_micro_version_count(core, library);
        if (count == 0 || !(is_any || kernels->library == library)) continue;
        if (kernels->version[0] != '\0')
            micro_add(text, size, micro_libraries[library], kernels->version, "");
        else
            micro_add(text, size, micro_libraries[library], tn_micro_version(core, library, 0),
                      count > 1 ? tn_micro_version(core, library, count - 1) : "");
    }
}
