/* fuzz_weights.c - any bytes as a file of weights (.safetensors, .gguf): every tensor is
 * inside the file, is found again by name, and sizes add up. */
#include <stdlib.h>
#include <string.h>

#include <tenure/llm.h>

#include "fuzz.h"
#include "io/weights/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void fuzz_tensor(const tn_weights *weights, uint32_t index, const uint8_t *bytes,
                        size_t size) {
    const tn_weight *tensor = tn_weights_at(weights, index);
    if (tensor->bytes < bytes || tensor->bytes > bytes + size ||
        tensor->size > (uint64_t)(bytes + size - tensor->bytes))
        abort();
    if (tn_weights_find(weights, tensor->name) != tensor) abort();
    if (tensor->elements > 0 && tensor->size == 0) abort();
    for (uint32_t d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] < 0) abort();
}

/* A part that an index names lies beside it. */
static tn_status fuzz_part(void *self, const char *file) {
    (void)self;
    fuzz_must(file[0] != '\0' && strchr(file, '/') == NULL && strcmp(file, "..") != 0);
    return TN_OK;
}

/* Any bytes as the index of a model in several files. */
static void fuzz_index(const uint8_t *bytes, size_t size) {
    tn_context context = tn__context(NULL);
    tn_weights to = {.context = context};
    tn_error error = {0};
    tn__weights_reader reader = {&to, "model.safetensors.index.json", bytes, size, &error};
    tn_status status = tn__safetensors_index(&reader, fuzz_part, NULL);
    fuzz_must(status == TN_OK || (error.status == status && error.message[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_weights *weights;
    if (size > 0 && bytes[0] == '{') fuzz_index(bytes, size);
    tn_llm llm;
    if (tn_weights_read("weights", bytes, size, NULL, &weights, NULL) != TN_OK) return 0;
    fuzz_accept();
    tn_weights_sum sum = tn_weights_total(weights);
    for (uint32_t i = 0; i < tn_weights_count(weights); i++) {
        fuzz_tensor(weights, i, bytes, size);
        sum.bytes -= tn_weights_at(weights, i)->size;
    }
    if (sum.bytes != 0 && sum.tensors > 0 && sum.elements != UINT64_MAX &&
        strcmp(tn_weights_format(weights), "safetensors") == 0)
        abort();
    if (tn_llm_gguf(weights, &llm, NULL) == TN_OK) {
        tn_llm_estimate estimate;
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        options.weight_bytes = 1;
        options.runtime = TN_LLM_RUN_LLAMA_CPP;
        if (tn_llm_estimate_make(&llm, &options, &estimate, NULL) == TN_OK &&
            estimate.cache_allocated < estimate.cache)
            abort();
    }
    tn_weights_close(weights);
    return 0;
}
