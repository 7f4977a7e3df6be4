/* one_step.c - loss and gradients of one batch, for scripts that compare them with another
 * program's.
 *
 *     one_step MODEL.onnx FOLDER LOSS [plain] [rewrite] [bf16|f16]
 *              [sgd|momentum|adam|adamw RATE STEPS [decay SHARE] [nesterov] [micro N]]
 *
 * rewrite: as `tenure train` does, before training and after. micro: the same batch N times a step.
 * FOLDER holds <input's name>.npy for every input of the model, and labels.npy. Without an
 * optimizer <k>.npy is written for every trained parameter k, its gradient; with one, after so many
 * steps on the same batch, the parameter itself, as float32. Prints the loss (of each step), then
 * "k name" line by line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/tenure.h>

#include "engine/kernels/convert.h"

typedef struct one_step {
    tn_graph *model;
    tn_contents *contents;
    tn_training training;
    tn_setup *setup;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count, step_input, micro_input;
    float scale; /* of the loss, in f16 */
    tn_error error;
} one_step;

static tn_status step_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, id, bytes, size, error);
}

static tn_status step_open(one_step *it, bool plain, bool rewritten) {
    tn_setup_options setup = TN_SETUP_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    rewrite.use = TN_REWRITE_TRAINED;
    kernels.plain = plain;
    setup.rewrite = rewritten ? &rewrite : NULL;
    setup.kernels = &kernels;
    options.read = step_read;
    options.self = it->contents;
    options.poison = true;
    tn_status status = tn_setup_create(it->training.graph, &setup, &it->setup, &it->error);
    if (status != TN_OK) return status;
    return tn_setup_open(it->setup, NULL, &options, &it->engine, &it->error);
}

/* An input from its file, or (learning rate, step) from the command line. */
static tn_status step_input(one_step *it, const char *folder, tn_tensor_id id, double rate,
                            tn_array *array) {
    const tn_tensor *tensor = tn_graph_tensor(it->training.graph, id);
    char path[600];
    if (id != it->training.learning_rate && id != it->training.step && id != it->training.micro) {
        bool labels = id == it->training.labels;
        snprintf(path, sizeof path, "%s/%s.npy", folder, labels ? "labels" : tensor->name);
        return tn_array_load(path, NULL, array, &it->error);
    }
    *array = (tn_array){.dtype = tensor->dtype, .bytes = tensor->bytes};
    array->data = calloc(1, tensor->bytes);
    if (id == it->training.learning_rate) *(float *)array->data = (float)rate;
    return TN_OK;
}

static tn_array step_output(const one_step *it, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(it->training.graph, id);
    tn_array array = {.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array.shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array.data = calloc(1, tensor->bytes + 1);
    return array;
}

static tn_status step_arrays(one_step *it, const char *folder, double rate) {
    const tn_graph *graph = it->training.graph;
    const tn_block *block = tn_graph_block(graph, 0);
    it->inputs = calloc(block->input_count + 1u, sizeof *it->inputs);
    it->outputs = calloc(block->output_count + 1u, sizeof *it->outputs);
    it->step_input = it->micro_input = UINT32_MAX;
    for (uint32_t i = 0; i < block->input_count; i++) {
        if (tn_tensor_is_static(tn_graph_tensor(graph, block->inputs[i]))) continue;
        if (block->inputs[i] == it->training.step) it->step_input = it->input_count;
        if (block->inputs[i] == it->training.micro) it->micro_input = it->input_count;
        tn_status status =
            step_input(it, folder, block->inputs[i], rate, &it->inputs[it->input_count++]);
        if (status != TN_OK) return status;
    }
    for (uint32_t k = 0; k < block->output_count; k++)
        it->outputs[it->output_count++] = step_output(it, block->outputs[k]);
    return TN_OK;
}

/* The array of tensor `id` among the outputs. */
static const tn_array *step_find(const one_step *it, tn_tensor_id id) {
    const tn_block *block = tn_graph_block(it->training.graph, 0);
    for (uint32_t k = 0; k < block->output_count; k++)
        if (block->outputs[k] == id) return &it->outputs[k];
    return NULL;
}

/* Parameters are no outputs: they are fetched. */
static tn_status step_save(one_step *it, const char *folder, uint32_t k, bool trained) {
    const tn_trained *parameter = &it->training.parameters[k];
    char path[600];
    snprintf(path, sizeof path, "%s/%u.npy", folder, k);
    if (!trained) {
        const tn_array *gradient = step_find(it, parameter->gradient);
        if (gradient == NULL) return TN_OK;
        tn_array wide = step_output(it, parameter->parameter);
        tn__convert(gradient->dtype, gradient->data, wide.dtype, wide.data,
                    wide.bytes / (tn_dtype_bits(wide.dtype) / 8));
        for (uint64_t i = 0; it->scale != 0 && i < wide.bytes / 4; i++)
            ((float *)wide.data)[i] /= it->scale;
        tn_status status = tn_array_save(path, &wide, NULL, &it->error);
        free(wide.data);
        return status;
    }
    tn_array array = step_output(it, parameter->parameter);
    tn_status status =
        tn_engine_get_static(it->engine, parameter->parameter, array.data, array.bytes, &it->error);
    if (status == TN_OK) status = tn_array_save(path, &array, NULL, &it->error);
    free(array.data);
    return status;
}

static tn_status step_run(one_step *it, const char *folder, int64_t steps, int64_t micro,
                          bool trained) {
    for (int64_t run = 0; run < steps * micro; run++) {
        if (it->step_input != UINT32_MAX) *(int64_t *)it->inputs[it->step_input].data = run / micro;
        if (it->micro_input != UINT32_MAX)
            *(int64_t *)it->inputs[it->micro_input].data = run % micro;
        tn_status status = tn_engine_run(it->engine, it->inputs, it->input_count, it->outputs,
                                         it->output_count, &it->error);
        if (status != TN_OK) return status;
        if (run % micro > 0) continue;
        printf("%.9g\n", (double)*(const float *)step_find(it, it->training.loss)->data);
    }
    for (uint32_t k = 0; k < it->training.parameter_count; k++) {
        tn_status status = step_save(it, folder, k, trained);
        if (status != TN_OK) return status;
        tn_tensor_id id = it->training.parameters[k].parameter;
        printf("%u %s\n", k, tn_graph_tensor(it->training.graph, id)->name);
    }
    return TN_OK;
}

/* As `tenure train` makes it. */
static tn_status step_rewrite(one_step *it, const tn_train_options *options) {
    tn_rewrite_options before = TN_REWRITE_OPTIONS_INIT;
    tn_graph *parted = NULL, *model = NULL;
    before.use = TN_REWRITE_TO_TRAIN;
    tn_status status = tn_train_model(it->model, options, &parted, &it->error);
    if (status == TN_OK) status = tn_graph_rewrite(parted, &before, &model, &it->error);
    if (status == TN_OK) status = tn_train(model, options, &it->training, &it->error);
    tn_graph_destroy(parted);
    tn_graph_destroy(model);
    return status;
}

/* Whether the next argument is this word. */
static bool step_word(int count, char **arguments, int *at, const char *word) {
    bool found = *at < count && strcmp(arguments[*at], word) == 0;
    *at += found;
    return found;
}

int main(int count, char **arguments) {
    static one_step it;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    int at = 4;
    if (count < 4) return fprintf(stderr, "usage: one_step MODEL FOLDER LOSS [plain] ...\n"), 2;
    bool plain = step_word(count, arguments, &at, "plain");
    bool rewrite = step_word(count, arguments, &at, "rewrite");
    if (step_word(count, arguments, &at, "bf16")) options.dtype = TN_BFLOAT16;
    if (step_word(count, arguments, &at, "f16")) options.dtype = TN_FLOAT16;
    if (options.dtype == TN_FLOAT16) it.scale = 512;
    options.loss_scale = (double)it.scale;
    bool trained = count > at + 2;
    options.loss = tn_loss_find(arguments[3]);
    options.optimizer = trained ? tn_optimizer_find(arguments[at]) : TN_OPTIMIZER_NONE;
    for (int more = at + 3; more < count;) {
        bool decay = step_word(count, arguments, &more, "decay");
        bool micro = !decay && step_word(count, arguments, &more, "micro");
        if (decay && more < count) options.weight_decay = strtod(arguments[more++], NULL);
        if (micro && more < count)
            options.micro_batches = (uint32_t)strtoul(arguments[more++], NULL, 10);
        if (decay || micro) continue;
        options.nesterov = step_word(count, arguments, &more, "nesterov");
        if (!options.nesterov) return fprintf(stderr, "'%s'?\n", arguments[more]), 2;
    }
    int64_t micro = options.micro_batches > 0 ? options.micro_batches : 1;
    tn_status status = tn_graph_load(arguments[1], NULL, &it.model, &it.error);
    if (status == TN_OK) status = tn_contents_open(arguments[1], NULL, &it.contents, &it.error);
    if (status == TN_OK)
        status = rewrite ? step_rewrite(&it, &options)
                         : tn_train(it.model, &options, &it.training, &it.error);
    if (status == TN_OK) status = step_open(&it, plain, rewrite);
    if (status == TN_OK)
        status = step_arrays(&it, arguments[2], trained ? strtod(arguments[at + 1], NULL) : 0);
    if (status == TN_OK)
        status = step_run(&it, arguments[2], trained ? strtol(arguments[at + 2], NULL, 10) : 1,
                          micro, trained);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", it.error.where, it.error.message);
    for (uint32_t i = 0; i < it.input_count; i++) free(it.inputs[i].data);
    for (uint32_t k = 0; k < it.output_count; k++) free(it.outputs[k].data);
    free(it.inputs);
    free(it.outputs);
    tn_engine_destroy(it.engine);
    tn_setup_destroy(it.setup);
    tn_training_release(&it.training);
    tn_contents_close(it.contents);
    tn_graph_destroy(it.model);
    return tn_status_exit_code(status);
}
