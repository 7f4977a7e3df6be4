/* zeros.c - counts the fractions of zeros in one run, before a program is fitted. */
#include "cli/zeros.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"

uint32_t cli_codecs(struct argp_state *state, const char *value) {
    uint32_t codecs = 0;
    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ",");
        int codec = TN_CODEC_NONE + 1;
        while (codec < TN_CODEC_COUNT && (strlen(tn_codec_name((tn_codec)codec)) != length ||
                                          strncmp(tn_codec_name((tn_codec)codec), at, length) != 0))
            codec++;
        if (codec == TN_CODEC_COUNT)
            cli_misuse(state, "--codecs: '%.*s' is not one of bits, csr, float16, float10, float8",
                       (int)length, at);
        codecs |= 1u << codec;
        at += length + (at[length] == ',');
    }
    if (codecs == 0)
        cli_misuse(state, "--codecs: the list is empty; name at least one codec, such as csr");
    return codecs;
}

bool cli_codecs_lose(uint32_t codecs) {
    for (int codec = TN_CODEC_NONE + 1; codec < TN_CODEC_COUNT; codec++)
        if (codec != TN_CODEC_BITS && (codecs >> codec & 1) &&
            !tn_codec_is_lossless((tn_codec)codec))
            return true;
    return false;
}

static void zeros_free(tn_array *inputs, uint32_t count) {
    for (uint32_t i = 0; inputs != NULL && i < count; i++) free(inputs[i].data);
    free(inputs);
}

/* Zeroed arrays for all inputs that are not static. */
static tn_array *zeros_inputs(const tn_graph *graph, uint32_t *count) {
    const tn_block *block = tn_graph_block(graph, 0);
    tn_array *inputs = calloc((size_t)block->input_count + 1, sizeof *inputs);
    *count = 0;
    for (uint32_t i = 0; inputs != NULL && i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        tn_array *array = &inputs[*count];
        if (tn_tensor_is_static(tensor)) continue;
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0)
            memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        array->data = calloc(1, (size_t)tensor->bytes + 1);
        ++*count;
        if (array->data != NULL) continue;
        zeros_free(inputs, *count);
        return NULL;
    }
    return inputs;
}

static tn_status zeros_run(const tn_setup *setup, const tn_engine_options *engine,
                           const cli_samples *samples, float *zeros, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    uint32_t count;
    if (samples == NULL || samples->fill == NULL)
        return tn_setup_zeros(setup, engine, NULL, 0, zeros, error);
    tn_array *inputs = zeros_inputs(graph, &count);
    if (inputs == NULL) return tn__no_memory(error, "inputs");
    tn_status status = samples->fill(samples->self, graph, inputs, count, error);
    if (status == TN_OK) status = tn_setup_zeros(setup, engine, inputs, count, zeros, error);
    zeros_free(inputs, count);
    return status;
}

tn_status cli_zeros(const tn_setup *setup, const tn_engine_options *engine,
                    const cli_samples *samples, float **zeros, tn_error *error) {
    uint32_t count = tn_graph_tensor_count(tn_setup_graph(setup));
    *zeros = NULL;
    if (tn_setup_kernels(setup) == NULL) return TN_OK;
    *zeros = malloc(((size_t)count + 1) * sizeof **zeros);
    if (*zeros == NULL) return tn__no_memory(error, "the fractions of zeros");
    for (uint32_t i = 0; i < count; i++) (*zeros)[i] = -1;
    tn_status status = zeros_run(setup, engine, samples, *zeros, error);
    if (status == TN_OK) return TN_OK;
    free(*zeros);
    *zeros = NULL;
    return status == TN_E_NO_MEMORY || status == TN_E_EXHAUSTED ? TN_OK : status;
}
