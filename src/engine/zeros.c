/* zeros.c - how many elements of tensors are 0: what fit plans CSR by.
 *
 * An element is 0 where no bit of it is set, as CSR has it. What counts is the least share of all
 * runs that were looked at. Cost: one pass over what every operator makes.
 */
#include "engine/codecs/codec.h"
#include "engine/engine.h"

#include <tenure/measure.h>

void tn__engine_count_zeros(const tn_engine *engine, tn_op_id id) {
    const tn_op *op = tn_graph_op(engine->executor.graph, id);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id output = op->outputs[k];
        const tn_operand *operand = output != TN_NONE ? &engine->executor.operands[output] : NULL;
        if (operand == NULL || operand->data == NULL || operand->dtype != TN_FLOAT32) continue;
        uint64_t count = tn__operand_count(operand);
        if (count == 0) continue;
        uint64_t filled = tn__csr_filled(operand->data, count);
        float *zeros = &engine->options.zeros[output];
        float share = (float)(1 - (double)filled / (double)count);
        if (!(*zeros >= 0) || share < *zeros) *zeros = share;
    }
}

/* --- one run for their sake --- */

static void zeros_make_up(const tn_array *array, tn__random *random) {
    float *numbers = array->data;
    for (uint64_t i = 0; array->dtype == TN_FLOAT32 && i < array->bytes / sizeof *numbers; i++)
        numbers[i] = (float)(tn__random_next(random) >> 40) / 8388608.0f - 1;
}

/* An array for each that is not static, zeroed, in `arena`. */
static tn_status zeros_arrays(const tn_graph *graph, const tn_tensor_id *ids, uint32_t count,
                              bool inputs, tn__arena *arena, tn_array **arrays, uint32_t *used,
                              tn_error *error) {
    *used = 0;
    *arrays = tn__arena_array(arena, (size_t)count + 1, sizeof **arrays);
    if (*arrays == NULL) return tn__no_memory(error, "inputs and outputs");
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        tn_array *array = &(*arrays)[*used];
        if (inputs && tn_tensor_is_static(tensor)) continue;
        if (tensor->bytes > SIZE_MAX / 2)
            TN_FAIL(error, TN_E_UNKNOWN, "'%.80s' has no known size", tensor->name);
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0)
            memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        array->data = tn__arena_array(arena, (size_t)tensor->bytes + 1, 1);
        if (array->data == NULL) return tn__no_memory(error, "inputs and outputs");
        ++*used;
    }
    return TN_OK;
}

static tn_status zeros_run(const tn_setup *setup, const tn_engine_options *options,
                           const tn_array *inputs, uint32_t input_count, tn__arena *arena,
                           tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    const tn_block *block = tn_graph_block(graph, 0);
    tn_array *outputs, *made;
    uint32_t output_count;
    tn_engine *engine;
    tn__random random = {.state = 1};
    TN_TRY(zeros_arrays(graph, block->outputs, block->output_count, false, arena, &outputs,
                        &output_count, error));
    if (inputs == NULL) {
        TN_TRY(zeros_arrays(graph, block->inputs, block->input_count, true, arena, &made,
                            &input_count, error));
        for (uint32_t i = 0; i < input_count; i++) zeros_make_up(&made[i], &random);
        inputs = made;
    }
    TN_TRY(tn_setup_open(setup, NULL, options, &engine, error));
    tn_status status = tn_engine_run(engine, inputs, input_count, outputs, output_count, error);
    tn_engine_destroy(engine);
    return status;
}

tn_status tn_setup_zeros(const tn_setup *setup, const tn_engine_options *engine,
                         const tn_array *inputs, uint32_t input_count, float *zeros,
                         tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn__arena arena;
    tn__options(&options, sizeof options, engine);
    options.struct_size = sizeof options;
    options.zeros = zeros;
    tn_context context = tn__context(options.context);
    tn__arena_init(&arena, &context);
    tn_status status = zeros_run(setup, &options, inputs, input_count, &arena, error);
    tn__arena_release(&arena);
    return status;
}
