/* fuzz_config.c - any bytes as a transformer's config.json: read, estimated to run, and to be
 * trained on ranks of its own. */
#include <stdlib.h>

#include <tenure/estimate.h>
#include <tenure/llm.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What is counted alone is counted in all, however it is stored. */
static void fuzz_run(const uint8_t *bytes, size_t size) {
    static const char *const names[] = {"f32", "int8", "int4", "f8", "mxfp4", "q4_k_m"};
    tn_llm llm;
    tn_llm_scheme scheme;
    tn_llm_estimate estimate;
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    if (tn_llm_config("config.json", bytes, size, &llm, NULL) != TN_OK) return;
    if (llm.active > llm.parameters) abort();
    if (tn_llm_scheme_find(names[size % 6], &scheme, NULL) != TN_OK) abort();
    options.scheme = &scheme;
    options.batch = size % 3;
    options.runtime = (tn_llm_runtime)(size % TN_LLM_RUNTIME_COUNT);
    if (tn_llm_estimate_make(&llm, &options, &estimate, NULL) != TN_OK) return;
    fuzz_accept();
    if (estimate.total < estimate.weights || estimate.weights < llm.parameters / 4) abort();
    if (estimate.cache < estimate.cache_window || estimate.cache < estimate.cache_state) abort();
    if (estimate.cache_allocated < estimate.cache || estimate.total < estimate.runtime) abort();
    if (tn_llm_most(&llm, &options, estimate.total, false) < estimate.batch) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_large large = {.tensor = size % 3,
                      .pipeline = size % 5,
                      .data = size % 7,
                      .recompute = (tn_recompute)(size % 3),
                      .attention = (tn_attention)(size % 2),
                      .loss_tokens = size % 11};
    tn_large_estimate estimate;
    fuzz_run(bytes, size);
    if (tn_large_config("config.json", bytes, size, NULL, &large, NULL) != TN_OK) return 0;
    if (tn_large_estimate_make(&large, &estimate, NULL) != TN_OK) return 0;
    if (estimate.exact_parameters < large.model.vocabulary ||
        estimate.largest.total < estimate.largest.weights)
        abort();
    for (uint64_t i = 0; i < large.pipeline; i++) {
        tn_large_stage stage;
        if (tn_large_stage_make(&large, (uint32_t)i, &stage, NULL) != TN_OK ||
            stage.total > estimate.largest.total)
            abort();
    }
    return 0;
}
