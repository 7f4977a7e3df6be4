/* tflm_builds.c - the kernel libraries of TensorFlow Lite Micro, their versions, and the
 * combinations that the options of a caller leave open.
 *
 * The sizes of an arena are computed once for each combination. So the largest and the smallest
 * size over several versions are sizes that a version has, not sums of maxima.
 * Source: the histories of tflite-micro, CMSIS-NN and ESP-NN until August 2026.
 */
#include "io/import/tflm/tflm.h"

#include <stdio.h>

/* The versions at which sizes changed. Between two of them, the rules of the older one apply. */
typedef struct builds_version {
    tn_micro_kernels kernels;
    uint32_t version;
    const char *name;
} builds_version;

static const builds_version builds_versions[] = {
    {TN_MICRO_CMSIS_NN, TFLM_VERSION(4, 1, 0), "4.1.0"},
    {TN_MICRO_CMSIS_NN, TFLM_VERSION(5, 0, 0), "5.0.0"},
    {TN_MICRO_CMSIS_NN, TFLM_VERSION(6, 0, 0), "6.0.0"},
    {TN_MICRO_CMSIS_NN, TFLM_VERSION(7, 0, 0), "7.0.0"},
    /* the development branch since March 2026, not yet released */
    {TN_MICRO_CMSIS_NN, TFLM_VERSION(99, 0, 0), "main"},
    {TN_MICRO_ESP_NN, TFLM_VERSION(1, 0, 0), "1.0.0"},
    {TN_MICRO_ESP_NN, TFLM_VERSION(1, 1, 0), "1.1.0"},
    {TN_MICRO_ESP_NN, TFLM_VERSION(1, 2, 0) + 1, "1.2.0~1"},
    {TN_MICRO_ESP_NN, TFLM_VERSION(1, 2, 1), "1.2.1"},
    {TN_MICRO_ESP_NN, TFLM_VERSION(1, 2, 3), "1.2.3"},
};
#define BUILDS_VERSIONS (sizeof builds_versions / sizeof *builds_versions)

/* The newest release of a library for which this file has rules. */
static uint32_t builds_newest(tn_micro_kernels kernels) {
    return kernels == TN_MICRO_CMSIS_NN ? TFLM_VERSION(7, 0, 0) : TFLM_VERSION(1, 2, 3);
}

/* The revisions of the run time at which structs changed. */
static const uint32_t builds_runtimes[] = {20220101, 20230914, 20240927, 20260116};
#define BUILDS_RUNTIMES (sizeof builds_runtimes / sizeof *builds_runtimes)

const char *tn__tflm_kernels_name(tn_micro_kernels kernels) {
    static const char *const names[] = {"reference", "cmsis-nn", "esp-nn", "any"};
    return names[kernels];
}

static bool builds_is_esp(tn_micro_target target) {
    return target == TN_MICRO_ESP32 || target == TN_MICRO_ESP32_S3 || target == TN_MICRO_ESP32_P4;
}
static bool builds_runs(tn_micro_target target, tn_micro_kernels kernels) {
    if (kernels == TN_MICRO_CMSIS_NN) return !builds_is_esp(target);
    return kernels == TN_MICRO_ESP_NN && builds_is_esp(target);
}

uint32_t tn_micro_version_count(tn_micro_target target, tn_micro_kernels kernels) {
    uint32_t count = 0;
    for (size_t i = 0; i < BUILDS_VERSIONS; i++)
        count += builds_versions[i].kernels == kernels && builds_runs(target, kernels);
    return count;
}

const char *tn_micro_version(tn_micro_target target, tn_micro_kernels kernels, uint32_t index) {
    if (!builds_runs(target, kernels)) return "";
    for (size_t i = 0; i < BUILDS_VERSIONS; i++)
        if (builds_versions[i].kernels == kernels && index-- == 0) return builds_versions[i].name;
    return "";
}

/* Parses the text of a version: "1", "1.2", "1.2.0", "1.2.0~1", each with an optional "v". Returns
 * false for any other text. */
static bool builds_parse(const char *text, uint32_t *version) {
    static const uint32_t weights[] = {1000000, 10000, 100, 1};
    uint32_t part = 0, digits = 0, value = 0;
    *version = 0;
    if (*text == 'v') text++;
    for (;; text++) {
        if (*text >= '0' && *text <= '9' && digits < 2) {
            value = 10 * value + (uint32_t)(*text - '0');
            digits++;
            continue;
        }
        if (digits == 0) return false;
        *version += value * weights[part];
        if (*text == '\0') return true;
        bool next = (*text == '.' && part < 2) || (*text == '~' && part == 2);
        if (!next) return false;
        part++;
        digits = value = 0;
    }
}

/* Finds the rules for the text of a version: an index in builds_versions. */
static tn_status builds_version_of(tn_micro_kernels kernels, const char *text, size_t *index,
                                   tn_error *error) {
    const char *oldest = NULL;
    uint32_t version = 0;
    bool is_number = builds_parse(text, &version), found = false;
    for (size_t i = 0; i < BUILDS_VERSIONS; i++) {
        const builds_version *row = &builds_versions[i];
        if (row->kernels != kernels) continue;
        if (oldest == NULL) oldest = row->name;
        if (!(is_number ? row->version <= version : strcmp(row->name, text) == 0)) continue;
        *index = i;
        found = true;
    }
    if (found && (!is_number || version <= builds_newest(kernels))) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "%s: version '%.40s' is not known; its rules are known from %s to %s%s",
            tn__tflm_kernels_name(kernels), text, oldest,
            kernels == TN_MICRO_CMSIS_NN ? "7.0.0" : "1.2.3",
            kernels == TN_MICRO_CMSIS_NN ? ", and for main" : "");
}

typedef struct builds_list {
    const tn_micro_options *options;
    tflm_build *builds;
    uint32_t count;
} builds_list;

static void builds_add(builds_list *list, tflm_build build) {
    if (list->count < TFLM_BUILDS_MAX) list->builds[list->count++] = build;
}

/* Adds a build for each combination of compile options that changes its sizes and that the caller's
 * options allow. */
static void builds_compile(builds_list *list, tflm_build build) {
    const tn_micro_options *options = list->options;
    bool cmsis = build.kernels == TN_MICRO_CMSIS_NN;
    bool arm = cmsis && options->target != TN_MICRO_X86_64;
    for (int armclang = 0; armclang < 2; armclang++) {
        if (armclang ? !arm || options->compiler == TN_MICRO_GCC
                     : arm && options->compiler == TN_MICRO_ARMCLANG)
            continue;
        build.armclang = armclang;
        for (int small = 0; small < 2; small++) {
            if (small && !(cmsis && options->target == TN_MICRO_CORTEX_M_HELIUM)) continue;
            build.small = small;
            builds_add(list, build);
        }
    }
}

static void builds_runtime(builds_list *list, tflm_build build) {
    if (list->options->runtime != 0) {
        build.runtime = list->options->runtime;
        builds_compile(list, build);
        return;
    }
    for (size_t i = 0; i < BUILDS_RUNTIMES; i++) {
        build.runtime = builds_runtimes[i];
        builds_compile(list, build);
    }
}

static tn_status builds_library(builds_list *list, tn_micro_kernels kernels, tn_error *error) {
    const tn_micro_options *options = list->options;
    size_t only = BUILDS_VERSIONS;
    if (options->version != NULL)
        TN_TRY(builds_version_of(kernels, options->version, &only, error));
    for (size_t i = 0; i < BUILDS_VERSIONS; i++) {
        const builds_version *row = &builds_versions[i];
        if (row->kernels != kernels || (only != BUILDS_VERSIONS && only != i)) continue;
        builds_runtime(list, (tflm_build){.kernels = kernels,
                                          .version = row->version,
                                          .name = options->version ? options->version : row->name});
    }
    return TN_OK;
}

tn_status tn__tflm_builds(const tn_micro_options *options, tflm_build builds[TFLM_BUILDS_MAX],
                          uint32_t *count, tn_error *error) {
    builds_list list = {.options = options, .builds = builds};
    tn_micro_kernels kernels = options->kernels;
    *count = 0;
    bool is_any = kernels == TN_MICRO_ANY, is_reference = kernels == TN_MICRO_REFERENCE;
    if (options->version != NULL && (is_any || is_reference))
        TN_FAIL(error, TN_E_INVALID, "a version of '%s' kernels", tn__tflm_kernels_name(kernels));
    if (!is_any && !is_reference && !builds_runs(options->target, kernels))
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s does not run on this processor; it runs on %s",
                tn__tflm_kernels_name(kernels),
                kernels == TN_MICRO_ESP_NN ? "the ESP32 family" : "Cortex-M and x86-64");
    if (is_any || is_reference)
        builds_runtime(&list, (tflm_build){.kernels = TN_MICRO_REFERENCE, .name = ""});
    for (tn_micro_kernels library = TN_MICRO_CMSIS_NN; library < TN_MICRO_ANY; library++)
        if (kernels == library || (is_any && builds_runs(options->target, library)))
            TN_TRY(builds_library(&list, library, error));
    *count = list.count;
    return TN_OK;
}
