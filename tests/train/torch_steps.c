/* torch_steps.c - trains a model file on one batch and writes down what came out, for
 * torch_steps.py.
 *
 *     torch_steps MODEL X.npy LABELS.npy OUT LOSS OPTIMIZER RATE STEPS [plain|library]
 *
 * OUT/g.NAME.npy: gradients in the first step; OUT/p.NAME.npy: parameters after the last;
 * OUT/losses.npy: the loss of every step. Parameters that the loss does not need have no gradient.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/engine.h>
#include <tenure/import.h>
#include <tenure/train.h>

static tn_error failure;

static void check(tn_status status) {
    if (status == TN_OK) return;
    fprintf(stderr, "%s: %s\n", failure.where, failure.message);
    exit(1);
}

static tn_status read_weights(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                              uint64_t size, tn_error *error) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (tensor->value != NULL && tensor->payload.size == 0 && tensor->value->count == 1 &&
        tensor->dtype == TN_FLOAT32) {
        *(float *)bytes = (float)tensor->value->floats[0]; /* made by tn_train */
        return TN_OK;
    }
    return tn_contents_read(self, graph, id, bytes, size, error);
}

static tn_array array_of(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    tn_array array = {.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    for (uint32_t d = 0; d < tensor->rank; d++) array.shape[d] = tensor->shape[d];
    array.data = calloc(1, tensor->bytes + 1);
    return array;
}

static void save(const char *folder, char sort, const tn_graph *graph, tn_tensor_id id,
                 const tn_array *array) {
    char path[600];
    snprintf(path, sizeof path, "%s/%c.%s.npy", folder, sort, tn_graph_tensor(graph, id)->name);
    check(tn_array_save(path, array, NULL, &failure));
}

int main(int count, char **arguments) {
    if (count != 10) return 2;
    const char *folder = arguments[4];
    tn_graph *model;
    tn_contents *contents;
    tn_training training;
    tn_kernels *kernels;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout = {0};
    tn_device *device;
    tn_engine *engine;
    tn_array x = {0}, labels = {0}, inputs[8], outputs[600];
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_kernels_options by = TN_KERNELS_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_engine_options how = TN_ENGINE_OPTIONS_INIT;
    float rate = strtof(arguments[7], NULL), losses[64];
    int64_t step = 0, steps = atoll(arguments[8]);
    check(tn_graph_load(arguments[1], NULL, &model, &failure));
    check(tn_graph_infer(model, &failure));
    check(tn_contents_open(arguments[1], NULL, &contents, &failure));
    check(tn_array_load(arguments[2], NULL, &x, &failure));
    check(tn_array_load(arguments[3], NULL, &labels, &failure));
    options.loss = tn_loss_find(arguments[5]);
    options.optimizer = tn_optimizer_find(arguments[6]);
    options.output_gradients = true;
    if (options.optimizer == TN_OPTIMIZER_ADAMW) options.weight_decay = 0.01;
    check(tn_train(model, &options, &training, &failure));
    by.plain = strcmp(arguments[9], "plain") == 0;
    check(tn_kernels_create(training.graph, &by, &kernels, &failure));
    memory.workspaces = tn_kernels_workspaces(kernels);
    check(tn_program_plan(training.graph, NULL, &memory, NULL, &program, &occupancy, &layout,
                          &failure));
    check(tn_device_create(NULL, &device, &failure));
    how.read = read_weights;
    how.self = contents;
    how.poison = true;
    check(tn_engine_create(occupancy, &layout, kernels, device, &how, &engine, &failure));
    const tn_block *block = tn_graph_block(training.graph, 0);
    if (block->output_count > 600 || steps > 64) return 2;
    for (uint32_t k = 0; k < block->output_count; k++)
        outputs[k] = array_of(training.graph, block->outputs[k]);
    for (; step < steps; step++) {
        uint32_t input_count = 0;
        for (uint32_t i = 0; i < block->input_count; i++) {
            tn_tensor_id id = block->inputs[i];
            if (tn_tensor_is_static(tn_graph_tensor(training.graph, id))) continue;
            inputs[input_count] = x;
            if (id == training.labels) inputs[input_count] = labels;
            if (id == training.learning_rate)
                inputs[input_count] = (tn_array){.dtype = TN_FLOAT32, .bytes = 4, .data = &rate};
            if (id == training.step)
                inputs[input_count] = (tn_array){.dtype = TN_INT64, .bytes = 8, .data = &step};
            input_count++;
        }
        check(tn_engine_run(engine, inputs, input_count, outputs, block->output_count, &failure));
        memcpy(&losses[step], outputs[0].data, sizeof *losses);
        for (uint32_t i = 0; i < training.parameter_count && step == 0; i++)
            for (uint32_t k = 0; k < block->output_count; k++)
                if (block->outputs[k] == training.parameters[i].gradient)
                    save(folder, 'g', training.graph, training.parameters[i].parameter,
                         &outputs[k]);
    }
    for (uint32_t i = 0; i < training.parameter_count; i++) {
        tn_tensor_id id = training.parameters[i].parameter;
        tn_array array = array_of(training.graph, id);
        check(tn_engine_get_static(engine, id, array.data, array.bytes, &failure));
        save(folder, 'p', training.graph, id, &array);
        free(array.data);
    }
    tn_array all = {.dtype = TN_FLOAT32, .rank = 1, .bytes = (uint64_t)steps * 4, .data = losses};
    char path[600];
    all.shape[0] = steps;
    snprintf(path, sizeof path, "%s/losses.npy", folder);
    check(tn_array_save(path, &all, NULL, &failure));
    return 0;
}
