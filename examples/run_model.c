/* run_model.c - from a model file to its outputs, every byte at its planned place.
 *
 *     cc run_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 *
 * Weights are made up where the model has none; the inputs are zeros.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenure/tenure.h>

static tn_status read_weights(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

/* An array for a tensor, zeroed. */
static tn_array array_of(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    tn_array array = {.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array.shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array.data = calloc(1, tensor->bytes + 1);
    return array;
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: run_model MODEL.onnx\n"), 2;
    tn_error error = {0};
    tn_graph *graph = NULL, *rewritten = NULL;
    tn_contents *weights = NULL;
    tn_kernels *kernels = NULL;
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_layout layout = {0};
    tn_device *device = NULL;
    tn_engine *engine = NULL;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_device_options bounds = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;

    /* what is computed, by which kernels; their scratch goes into the plan */
    tn_status status = tn_graph_load(arguments[1], NULL, &graph, &error);
    if (status == TN_OK)
        status = tn_contents_generate(arguments[1], graph, 1, NULL, &weights, &error);
    if (status == TN_OK) status = tn_engine_rewrite(graph, NULL, &rewritten, &error);
    if (status == TN_OK) status = tn_kernels_create(rewritten, NULL, &kernels, &error);
    if (status == TN_OK) {
        memory.workspaces = tn_kernels_workspaces(kernels);
        status =
            tn_program_plan(rewritten, NULL, &memory, NULL, &program, &occupancy, &layout, &error);
    }
    /* a device of just that size */
    if (status == TN_OK) {
        bounds.capacity = layout.peak + tn_engine_static_bytes(occupancy, kernels);
        options.read = read_weights;
        options.self = weights;
        status = tn_device_create(&bounds, &device, &error);
    }
    if (status == TN_OK)
        status = tn_engine_create(occupancy, &layout, kernels, device, &options, &engine, &error);
    if (status == TN_OK) {
        const tn_block *block = tn_graph_block(rewritten, 0);
        tn_array inputs[16], outputs[16];
        uint32_t input_count = 0, output_count = block->output_count;
        for (uint32_t i = 0; i < block->input_count && input_count < 16; i++)
            if (!tn_tensor_is_static(tn_graph_tensor(rewritten, block->inputs[i])))
                inputs[input_count++] = array_of(rewritten, block->inputs[i]);
        for (uint32_t k = 0; k < output_count && k < 16; k++)
            outputs[k] = array_of(rewritten, block->outputs[k]);
        status = tn_engine_run(engine, inputs, input_count, outputs, output_count, &error);
        tn_engine_usage usage;
        tn_engine_measure(engine, &usage);
        if (status == TN_OK)
            printf("planned %llu bytes, used %llu; first output has %llu bytes\n",
                   (unsigned long long)usage.planned_peak, (unsigned long long)usage.measured_peak,
                   (unsigned long long)outputs[0].bytes);
        for (uint32_t i = 0; i < input_count; i++) free(inputs[i].data);
        for (uint32_t k = 0; k < output_count && k < 16; k++) free(outputs[k].data);
    }
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_engine_destroy(engine);
    tn_device_destroy(device);
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_kernels_destroy(kernels);
    tn_contents_close(weights);
    tn_graph_destroy(rewritten);
    tn_graph_destroy(graph);
    return tn_status_exit_code(status);
}
