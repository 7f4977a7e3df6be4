/* fuzz_config.c - any bytes as a transformer's config.json: read, and estimated on ranks of its
 * own. */
#include <stdlib.h>

#include <tenure/estimate.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_large large = {.tensor = size % 3, .pipeline = size % 5, .data = size % 7};
    tn_large_estimate estimate;
    if (tn_large_config("config.json", bytes, size, NULL, &large, NULL) != TN_OK) return 0;
    if (tn_large_estimate_make(&large, &estimate, NULL) != TN_OK) return 0;
    if (estimate.exact_parameters < large.vocabulary ||
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
