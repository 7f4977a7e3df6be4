/* run_arrays.c - prepares the inputs of a run and buffers for its outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/run_arrays.h"

static tn_status arrays_make(const tn_tensor *tensor, tn_array *array, tn_error *error) {
    array->dtype = tensor->dtype;
    array->rank = tensor->rank;
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array->bytes = tensor->bytes;
    array->data = calloc(1, tensor->bytes > 0 ? tensor->bytes : 1);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an input or an output");
}

/* Numbers that any model accepts: reals in [-1, 1), integers and bools 0 or 1. */
static void arrays_draw(tn_array *array, const char *name, uint64_t seed) {
    tn__random random = {.state = seed};
    for (const char *at = name; *at != '\0'; at++) random.state = random.state * 31 + (uint8_t)*at;
    uint64_t width = tn_dtype_bits(array->dtype) / 8;
    for (uint64_t i = 0; width > 0 && i < array->bytes / width; i++) {
        uint64_t bits = tn__random_next(&random);
        double real = (double)(bits >> 11) * 0x1p-52 - 1;
        uint8_t *at = (uint8_t *)array->data + i * width;
        if (array->dtype == TN_FLOAT32)
            memcpy(at, &(float){(float)real}, 4);
        else if (array->dtype == TN_FLOAT64)
            memcpy(at, &real, 8);
        else if (array->dtype == TN_FLOAT16) /* +-1, +-0.5 */
            memcpy(at, &(uint16_t){(uint16_t)(0x3800u | (bits & 0x8000u) | (bits & 0x400u))}, 2);
        else
            at[0] = (uint8_t)(bits >> 63);
    }
}

static void arrays_fill_ones(tn_array *array) {
    uint64_t width = tn_dtype_bits(array->dtype) / 8;
    for (uint64_t i = 0; width > 0 && i < array->bytes / width; i++) {
        uint8_t *at = (uint8_t *)array->data + i * width;
        if (array->dtype == TN_FLOAT32)
            memcpy(at, &(float){1}, 4);
        else if (array->dtype == TN_FLOAT64)
            memcpy(at, &(double){1}, 8);
        else if (array->dtype == TN_FLOAT16)
            memcpy(at, &(uint16_t){0x3c00u}, 2);
        else if (array->dtype == TN_BFLOAT16)
            memcpy(at, &(uint16_t){0x3f80u}, 2);
        else
            at[0] = 1;
    }
}

static tn_status arrays_from_file(const tn_tensor *tensor, const char *path, tn_array *array,
                                  tn_error *error) {
    tn_array loaded = {0};
    TN_TRY(tn_array_load(path, NULL, &loaded, error));
    bool same = loaded.dtype == tensor->dtype && loaded.rank == tensor->rank;
    for (uint32_t d = 0; same && d < tensor->rank; d++) same = loaded.shape[d] == tensor->shape[d];
    if (same) memcpy(array->data, loaded.data, array->bytes);
    tn_status status = TN_OK;
    if (!same) {
        char shape[200] = "";
        size_t used = 0;
        for (uint32_t d = 0; d < tensor->rank && used + 24 < sizeof shape; d++)
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", d ? "," : "",
                                     (long long)tensor->shape[d]);
        status = tn__fail(
            error, TN_E_INVALID,
            "%.100s: not %s [%s], which input '%.60s' needs; give an array of that type and shape",
            path, tn_dtype_name(tensor->dtype), shape, tensor->name);
    }
    tn_array_release(&loaded, NULL);
    return status;
}

static tn_status arrays_input(const tn_tensor *tensor, const char *what, tn_array *array,
                              tn_error *error) {
    TN_TRY(arrays_make(tensor, array, error));
    uint64_t seed = 0;
    char *end;
    if (strcmp(what, "zeros") == 0) return TN_OK;
    if (strcmp(what, "ones") == 0) {
        arrays_fill_ones(array);
        return TN_OK;
    }
    if (strncmp(what, "random", 6) != 0 || (what[6] != '\0' && what[6] != ':'))
        return arrays_from_file(tensor, what, array, error);
    if (what[6] == ':') {
        seed = strtoull(what + 7, &end, 10);
        if (what[7] == '\0' || *end != '\0')
            TN_FAIL(error, TN_E_INVALID, "'%.80s' has no valid seed; write random:SEED", what);
    }
    arrays_draw(array, tensor->name, seed);
    return TN_OK;
}

tn_status cli_arrays_outputs(const tn_graph *graph, cli_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    arrays->outputs = calloc((size_t)block->output_count + 1, sizeof *arrays->outputs);
    if (arrays->outputs == NULL) return tn__no_memory(error, "outputs");
    arrays->output_count = block->output_count;
    for (uint32_t k = 0; k < block->output_count; k++)
        TN_TRY(arrays_make(tn_graph_tensor(graph, block->outputs[k]), &arrays->outputs[k], error));
    return TN_OK;
}

#define ARRAYS_NAMES_TEXT 200

/* --input names an input that does not exist: lists those that do, as many as fit. */
static tn_status arrays_unknown(const tn_graph *graph, const char *name, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    char names[ARRAYS_NAMES_TEXT] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (tn_tensor_is_static(tensor) || used + strlen(tensor->name) + 3 > sizeof names) continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "",
                                 tensor->name);
    }
    TN_FAIL(error, TN_E_INVALID, "--input: the model has no input '%.80s'; its inputs are %s", name,
            used > 0 ? names : "none");
}

static tn_status arrays_inputs(const tn_graph *graph, const cli_given *given, uint32_t given_count,
                               bool *used, cli_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        const char *what = "random:0";
        if (tn_tensor_is_static(tensor)) continue;
        for (uint32_t g = 0; g < given_count; g++) {
            if (strcmp(given[g].name, tensor->name) != 0) continue;
            what = given[g].what;
            used[g] = true;
        }
        TN_TRY(arrays_input(tensor, what, &arrays->inputs[arrays->input_count++], error));
    }
    for (uint32_t g = 0; g < given_count; g++)
        if (!used[g]) return arrays_unknown(graph, given[g].name, error);
    return TN_OK;
}

tn_status cli_arrays_make(const cli_session *session, const cli_given *given, uint32_t given_count,
                          cli_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    bool *used = calloc((size_t)given_count + 1, sizeof *used);
    arrays->inputs = calloc((size_t)block->input_count + 1, sizeof *arrays->inputs);
    tn_status status =
        used != NULL && arrays->inputs != NULL ? TN_OK : tn__no_memory(error, "inputs");
    if (status == TN_OK)
        status = arrays_inputs(session->graph, given, given_count, used, arrays, error);
    if (status == TN_OK) status = cli_arrays_outputs(session->graph, arrays, error);
    free(used);
    return status;
}

void cli_arrays_reset(const tn_graph *graph, cli_arrays *arrays) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t k = 0; k < arrays->output_count; k++)
        arrays->outputs[k].bytes = tn_graph_tensor(graph, block->outputs[k])->bytes;
}

void cli_arrays_release(cli_arrays *arrays) {
    for (uint32_t i = 0; i < arrays->input_count; i++) free(arrays->inputs[i].data);
    for (uint32_t k = 0; k < arrays->output_count; k++) free(arrays->outputs[k].data);
    free(arrays->inputs);
    free(arrays->outputs);
}

const char *cli_output_name(const cli_session *session, uint32_t index) {
    const tn_block *block = tn_graph_block(session->graph, 0);
    return tn_graph_tensor(session->graph, block->outputs[index])->name;
}
