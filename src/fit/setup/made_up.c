/* made_up.c - runs a set-up on generated inputs. Cost: memory for all inputs and outputs. */
#include "fit/setup/made_up.h"

static void made_up_fill(const tn_array *array, tn__random *random) {
    float *numbers = array->data;
    for (uint64_t i = 0; array->dtype == TN_FLOAT32 && i < array->bytes / sizeof *numbers; i++)
        numbers[i] = (float)(tn__random_next(random) >> 40) / 8388608.0f - 1;
}

/* Makes a zeroed array for each input or output that is not static. */
static tn_status made_up_arrays(tn__made_up *it, const tn_graph *graph, bool inputs,
                                tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    const tn_tensor_id *ids = inputs ? block->inputs : block->outputs;
    uint32_t count = inputs ? block->input_count : block->output_count, used = 0;
    tn_array *arrays = tn__arena_array(&it->arena, (size_t)count + 1, sizeof *arrays);
    if (arrays == NULL) return tn__no_memory(error, "inputs and outputs");
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        tn_array *array = &arrays[used];
        if (inputs && tn_tensor_is_static(tensor)) continue;
        if (tensor->bytes > SIZE_MAX / 2)
            TN_FAIL(error, TN_E_UNKNOWN, "'%.80s' has no known size", tensor->name);
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0)
            memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        array->data = tn__arena_array(&it->arena, (size_t)tensor->bytes + 1, 1);
        if (array->data == NULL) return tn__no_memory(error, "inputs and outputs");
        used++;
    }
    *(inputs ? &it->inputs : &it->outputs) = arrays;
    *(inputs ? &it->input_count : &it->output_count) = used;
    return TN_OK;
}

tn_status tn__made_up_open(tn__made_up *it, const tn_setup *setup, const tn_engine_options *options,
                           tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    tn__random random = {.state = 1};
    *it = (tn__made_up){.context = tn__context(options->context)};
    tn__arena_init(&it->arena, &it->context);
    TN_TRY(made_up_arrays(it, graph, false, error));
    TN_TRY(made_up_arrays(it, graph, true, error));
    for (uint32_t i = 0; i < it->input_count; i++) made_up_fill(&it->inputs[i], &random);
    return tn_setup_open(setup, NULL, options, &it->engine, error);
}

tn_status tn__made_up_run(tn__made_up *it, tn_error *error) {
    return tn_engine_run(it->engine, it->inputs, it->input_count, it->outputs, it->output_count,
                         error);
}

void tn__made_up_close(tn__made_up *it) {
    tn_engine_destroy(it->engine);
    tn__arena_release(&it->arena);
    it->engine = NULL;
}
